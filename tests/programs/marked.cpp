// Two phases by marks, of objects with virtual functions: who is asked for is found by way of their tables.
#include <cstdio>
#include <memory>
#include <vector>
extern "C" int hearth_phase(const char *name);
#ifdef MADE
static const char *name(int n) {
  static char text[16];
  std::snprintf(text, sizeof text, "phase %d", n);
  return text;
}
#else
#define name(n) ((n) == 1 ? "first" : "second")
#endif
struct Field {
  std::vector<double> at;
  explicit Field(long n) : at(n) {}
  virtual void step(double by) { for (auto &x : at) x += by; }
  virtual ~Field() = default;
};
struct Damped : Field {
  using Field::Field;
  void step(double by) override { for (auto &x : at) x *= by; }
};
int main() {
  std::unique_ptr<Field> a = std::make_unique<Field>(1000000), b = std::make_unique<Damped>(2000000);
  double *table = new double[500000];
  for (int turn = 0; turn < 10; turn++) {
    hearth_phase(name(1));
    a->step(1);
    hearth_phase(name(2));
    for (int i = 0; i < 500000; i++) table[i] += turn;
  }
  printf("%g %g\n", a->at[3] + b->at[5], table[9]);
  delete[] table;
}
