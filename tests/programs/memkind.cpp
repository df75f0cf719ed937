// Containers in memory of memkind's kinds, by the allocators of its headers.
#include <hbw_allocator.h>
#include <memkind_allocator.h>

#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <scoped_allocator>
#include <string>
#include <vector>

using libmemkind::kinds;
template <class T>
using in_kind = libmemkind::static_kind::allocator<T>;

static int wrong;
#define EXPECT(what) \
  if (!(what)) std::printf("line %d: not true: %s\n", __LINE__, #what), wrong = 1

int main() {
  std::vector<double, hbw::allocator<double>> table(100000, 1.0);
  for (int i = 0; i < 1000; ++i) table.push_back(i);
  EXPECT(table[100999] == 999 && memkind_detect_kind(table.data()) == MEMKIND_HBW_PREFERRED);
  std::list<int, hbw::allocator<int>> list;
  for (int i = 0; i < 1000; ++i) list.push_back(i);
  list.remove_if([](int i) { return i % 2; });
  EXPECT(list.size() == 500 && (hbw::allocator<int>() == hbw::allocator<char>()));

  std::vector<int, in_kind<int>> numbers(in_kind<int>(kinds::REGULAR));
  for (int i = 0; i < 100000; ++i) numbers.push_back(i);
  EXPECT(numbers[99999] == 99999 && memkind_detect_kind(numbers.data()) == MEMKIND_REGULAR);
  auto copy = numbers;
  EXPECT(copy == numbers && memkind_detect_kind(copy.data()) == MEMKIND_REGULAR);

  using entry = std::pair<const int, double>;
  std::map<int, double, std::less<int>, in_kind<entry>> map(in_kind<entry>(kinds::HIGHEST_CAPACITY));
  for (int i = 0; i < 5000; ++i) map[i * 7 % 5000] = i;
  EXPECT(map.size() == 5000 && memkind_detect_kind(&*map.begin()) == nullptr);

  // Strings in a vector of one kind.
  using text = std::basic_string<char, std::char_traits<char>, in_kind<char>>;
  std::vector<text, std::scoped_allocator_adaptor<in_kind<text>>> texts(in_kind<text>(kinds::REGULAR));
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
  std::puts(wrong ? "not as expected" : "all as expected");
  return wrong;
}
