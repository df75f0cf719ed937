// Containers in memory of memkind's kinds, by the allocators of its headers; objects that lie in the kind of their class.
#include <hbw_allocator.h>
#include <memkind_allocator.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <scoped_allocator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using libmemkind::kinds;
template <class T>
using in_kind = libmemkind::static_kind::allocator<T>;

static int wrong;
#define EXPECT(what) \
  if (!(what)) std::printf("line %d: not true: %s\n", __LINE__, #what), wrong = 1

// For classes whose objects lie in a kind, as in memkind's example memkind_allocated: `new` takes that of the class, or the one that it is given;
// `delete` need not know it.
template <class Class>
class in_kind_of_class {
 public:
  static memkind_t kind() { return MEMKIND_REGULAR; }

  static void *operator new(std::size_t bytes, memkind_t kind = Class::kind()) { return of(kind, bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
  static void *operator new[](std::size_t bytes, memkind_t kind = Class::kind()) { return of(kind, bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
  static void *operator new(std::size_t bytes, std::align_val_t alignment, memkind_t kind = Class::kind()) {
    return of(kind, bytes, static_cast<std::size_t>(alignment));
  }
  static void *operator new[](std::size_t bytes, std::align_val_t alignment, memkind_t kind = Class::kind()) {
    return of(kind, bytes, static_cast<std::size_t>(alignment));
  }
  static void operator delete(void *object) { memkind_free(nullptr, object); }
  static void operator delete[](void *objects) { memkind_free(nullptr, objects); }

  // These are called if a constructor throws.
  static void operator delete(void *object, memkind_t kind) { memkind_free(kind, object); }
  static void operator delete[](void *objects, memkind_t kind) { memkind_free(kind, objects); }
  static void operator delete(void *object, std::align_val_t, memkind_t kind) { memkind_free(kind, object); }
  static void operator delete[](void *objects, std::align_val_t, memkind_t kind) { memkind_free(kind, objects); }

 private:
  static void *of(memkind_t kind, std::size_t bytes, std::size_t alignment) {
    void *memory = nullptr;
    if (memkind_posix_memalign(kind, &memory, alignment, bytes) != 0) throw std::bad_alloc();
    return memory;
  }
};

struct cell : in_kind_of_class<cell> {
  double values[1000];
};

struct particle : in_kind_of_class<particle> {
  static memkind_t kind() { return MEMKIND_HBW_PREFERRED; }
  static int alive, none_after;

  particle() {
    if (alive == none_after) throw std::runtime_error("no more of them");
    ++alive;
  }
  virtual ~particle() { --alive; }
  double place[3] = {};
};
int particle::alive = 0, particle::none_after = -1;

struct charged : particle {
  double field[3000] = {};
};

struct alignas(512) row : in_kind_of_class<row> {
  static bool broken;

  row() {
    if (broken) throw std::runtime_error("as it was asked for");
  }
  char text[700];
};
bool row::broken = false;

static std::size_t allocated(memkind_t kind) {
  std::size_t bytes = 0;
  EXPECT(memkind_get_stat(kind, MEMKIND_STAT_TYPE_ALLOCATED, &bytes) == 0);
  return bytes;
}

template <class Make>
static void throws(Make make) {
  const std::size_t before = allocated(nullptr);
  try {
    make();
    EXPECT(!"an object whose constructor throws");
  } catch (const std::runtime_error &) {
  }
  EXPECT(allocated(nullptr) == before);
}

static void objects_of_classes() {
  const std::size_t before = allocated(nullptr);
  cell *regular = new cell, *other = new (MEMKIND_HBW_PREFERRED) cell, *many = new cell[20];
  many[19].values[999] = other->values[999] = regular->values[999] = 1;
  EXPECT(memkind_detect_kind(regular) == MEMKIND_REGULAR && memkind_detect_kind(many) == MEMKIND_REGULAR);
  EXPECT(memkind_detect_kind(other) == MEMKIND_HBW_PREFERRED);
  EXPECT(allocated(nullptr) >= before + 22 * sizeof(cell));
  delete regular;
  delete other;
  delete[] many;

  row *rows[] = {new row, new (MEMKIND_DEFAULT) row, new row[7], new (MEMKIND_HIGHEST_CAPACITY) row[7]};
  const memkind_t kinds[] = {MEMKIND_REGULAR, MEMKIND_DEFAULT, MEMKIND_REGULAR, MEMKIND_HIGHEST_CAPACITY};
  for (int i = 0; i < 4; ++i) EXPECT(reinterpret_cast<std::uintptr_t>(rows[i]) % 512 == 0 && memkind_detect_kind(rows[i]) == kinds[i]);
  for (int i = 0; i < 2; ++i) delete rows[i];
  for (int i = 2; i < 4; ++i) delete[] rows[i];

  // What is derived lies where its base's class says, and ends by way of it.
  std::unique_ptr<particle> one(new charged), swarm[100];
  for (auto &each : swarm) each.reset(new particle);
  EXPECT(memkind_detect_kind(one.get()) == MEMKIND_HBW_PREFERRED && memkind_detect_kind(swarm[99].get()) == MEMKIND_HBW_PREFERRED);
  one.reset();
  for (auto &each : swarm) each.reset();
  std::unique_ptr<particle[]> array(new particle[50]);
  EXPECT(particle::alive == 50);
  array.reset();
  EXPECT(particle::alive == 0 && allocated(nullptr) == before);

  // Nothing is left of what was not made.
  particle::none_after = 30;
  throws([] { delete[] new particle[50]; });
  throws([] { delete[] new (MEMKIND_REGULAR) particle[50]; });
  particle::none_after = 0;
  throws([] { delete new charged; });
  throws([] { delete new (MEMKIND_REGULAR) charged; });
  EXPECT(particle::alive == 0);
  row::broken = true;
  throws([] { delete new row; });
  throws([] { delete[] new (MEMKIND_HBW_PREFERRED) row[5]; });
  try {
    delete new (MEMKIND_HUGETLB) cell;
    EXPECT(!"an object of a kind that is never available");
  } catch (const std::bad_alloc &) {
  }
}

int main() {
  std::vector<double, hbw::allocator<double>> table(100000, 1.0);
  for (int i = 0; i < 1000; ++i) table.push_back(i);
  EXPECT(table[100999] == 999 && memkind_detect_kind(table.data()) == MEMKIND_HBW_PREFERRED);
  std::list<int, hbw::allocator<int>> list;
  for (int i = 0; i < 1000; ++i) list.push_back(i);
  list.remove_if([](int i) { return i % 2; });
  EXPECT(list.size() == 500 && (hbw::allocator<int>() == hbw::allocator<char>()));

  std::vector<int, in_kind<int>> numbers(in_kind<int>{kinds::REGULAR});
  for (int i = 0; i < 100000; ++i) numbers.push_back(i);
  EXPECT(numbers[99999] == 99999 && memkind_detect_kind(numbers.data()) == MEMKIND_REGULAR);
  auto copy = numbers;
  EXPECT(copy == numbers && memkind_detect_kind(copy.data()) == MEMKIND_REGULAR);

  using entry = std::pair<const int, double>;
  std::map<int, double, std::less<int>, in_kind<entry>> map(in_kind<entry>{kinds::HIGHEST_CAPACITY});
  for (int i = 0; i < 5000; ++i) map[i * 7 % 5000] = i;
  EXPECT(map.size() == 5000 && memkind_detect_kind(&*map.begin()) == nullptr);

  std::deque<int, in_kind<int>> queue(1000, 7, in_kind<int>(kinds::REGULAR));
  queue.push_front(6);
  std::forward_list<int, in_kind<int>> chain({3, 1, 2}, in_kind<int>(kinds::REGULAR));
  chain.sort();
  std::multiset<int, std::less<int>, in_kind<int>> bag({2, 1, 2}, in_kind<int>(kinds::DEFAULT));
  EXPECT(queue.front() == 6 && queue.back() == 7 && chain.front() == 1 && bag.count(2) == 2);

  // Strings in a vector of one kind.
  using text = std::basic_string<char, std::char_traits<char>, in_kind<char>>;
  std::vector<text, std::scoped_allocator_adaptor<in_kind<text>>> texts(in_kind<text>{kinds::REGULAR});
  texts.emplace_back("long enough that it has memory of its own, and is not within the string");
  EXPECT(memkind_detect_kind(&texts[0][0]) == MEMKIND_REGULAR);

  EXPECT(in_kind<int>(kinds::REGULAR) == in_kind<char>(kinds::REGULAR));
  EXPECT(in_kind<int>(kinds::REGULAR) != in_kind<int>(kinds::DEFAULT));
  try {
    std::vector<int, in_kind<int>> never(10, in_kind<int>(kinds::HUGETLB));
    EXPECT(!"memory of a kind that is never available");
  } catch (const std::bad_alloc &) {
  }
  try {
    in_kind<int> none(static_cast<kinds>(99));
    EXPECT(!"a kind that does not exist");
  } catch (const std::runtime_error &) {
  }
  objects_of_classes();
  std::puts(wrong ? "not as expected" : "all as expected");
  return wrong;
}
