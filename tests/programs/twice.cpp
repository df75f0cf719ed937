/* Functions that are given their arguments in every way there is, by registers and on the stack; each of them allocates, and so there is one more of it that says call paths. */
#include <cstdio>
#include <cstdlib>
#include <immintrin.h>
#include <stdexcept>
#include <string>
#include <vector>

struct Large {
  long a[20];
};
struct Floats {
  float a, b, c;
};

/* So that no compiler leaves the allocation out. */
static void *volatile kept;
static void allocate(size_t bytes) {
  kept = malloc(bytes);
  free(kept);
}

static Large by_bytes(Large b, long double l, Floats s, int x, __m128 v) {
  allocate(10000);
  b.a[3] += (long)l + (long)s.c + x + (long)v[1];
  return b;
}
static long many(int a, long b, float c, double d, long double e, char f, short g, int *h, long i, double j, Floats k, __m128 l, long double m, unsigned char n,
                 double o, float p, float q, double r) {
  allocate(20000);
  const long sum = a + b + (long)c + (long)d + (long)e + f + g + *h + i + (long)j + (long)k.c + (long)l[2] + (long)m + n + (long)o + (long)p + (long)q + (long)r;
  return sum;
}
static std::string joined(int a, std::string b, std::string c) { return b + c + std::to_string(a); }

/* Through pointers, so that each is asked for as from elsewhere. */
Large (*volatile to_by_bytes)(Large, long double, Floats, int, __m128) = by_bytes;
decltype(&many) volatile to_many = many;
std::string (*volatile to_joined)(int, std::string, std::string) = joined;

struct Named {
  virtual ~Named() {}
  virtual std::string name(int n) {
    if (n > 3) throw std::runtime_error("name " + std::to_string(n));
    return std::string(n * 100, 'x');
  }
};
struct Twice : virtual Named {
  std::string text;
  explicit Twice(const std::string &t) : text(t + t) {}
  std::string name(int n) override { return Named::name(n) + text; }
};

int main() {
  Large large{};
  for (int i = 0; i < 20; i++) large.a[i] = i;
  const Large other = to_by_bytes(large, 7.0L, Floats{1, 2, 3}, 5, _mm_set1_ps(9));
  std::printf("%ld %ld\n", other.a[3], other.a[19]);
  int eleven = 11;
  std::printf("%ld\n", to_many(1, 2, 3, 4, 5.5L, 'a', -7, &eleven, 9, 10, Floats{1, 2, 3}, _mm_set1_ps(12), 13.0L, 200, 15, 16, 17, 18));
  std::printf("%s\n", to_joined(3, "abc", std::string(20, 'z')).c_str());
  Twice twice("hello");
  Named *named = &twice;
  size_t n = 0;
  for (int i = 0; i < 6; i++) try {
      n += named->name(i).size();
    } catch (const std::exception &e) {
      std::printf("%s\n", e.what());
    }
  auto some = [&](int k) { return std::vector<std::string>(k, "abc").size() + n; };
  std::printf("%zu %zu\n", n, some(10));
}
