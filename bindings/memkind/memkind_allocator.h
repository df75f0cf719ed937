// memkind_allocator.h - libmemkind::static_kind::allocator<T>: containers in memory of one of memkind's kinds (memkind.h).
//
//     using libmemkind::static_kind::allocator;
//     std::vector<double, allocator<double>> table(n, allocator<double>(libmemkind::kinds::HBW_PREFERRED));
#ifndef MEMKIND_ALLOCATOR_H
#define MEMKIND_ALLOCATOR_H

#include <memkind.h>

#include <cstddef>
#include <new>
#include <stdexcept>

namespace libmemkind {

enum class kinds {
  DEFAULT = 0,
  HUGETLB = 1,
  INTERLEAVE = 2,
  HBW = 3,
  HBW_ALL = 4,
  HBW_HUGETLB = 5,
  HBW_ALL_HUGETLB = 6,
  HBW_PREFERRED = 7,
  HBW_PREFERRED_HUGETLB = 8,
  HBW_INTERLEAVE = 9,
  REGULAR = 10,
  DAX_KMEM = 11,
  DAX_KMEM_ALL = 12,
  DAX_KMEM_PREFERRED = 13,
  DAX_KMEM_INTERLEAVE = 14,
  HIGHEST_CAPACITY = 15,
  HIGHEST_CAPACITY_PREFERRED = 16,
  HIGHEST_CAPACITY_LOCAL = 17,
  HIGHEST_CAPACITY_LOCAL_PREFERRED = 18,
  LOWEST_LATENCY_LOCAL = 19,
  LOWEST_LATENCY_LOCAL_PREFERRED = 20,
  HIGHEST_BANDWIDTH_LOCAL = 21,
  HIGHEST_BANDWIDTH_LOCAL_PREFERRED = 22
};

namespace static_kind {

// Equal are those of one kind.
template <typename T>
class allocator {
 public:
  using value_type = T;

  explicit allocator(kinds kind) : kind_(of(kind)) {}
  template <typename U>
  allocator(const allocator<U> &other) noexcept : kind_(other.kind_) {}

  T *allocate(std::size_t n) const {
    void *memory = n <= std::size_t(-1) / sizeof(T) ? memkind_malloc(kind_, n > 0 ? n * sizeof(T) : 1) : nullptr;
    if (!memory) throw std::bad_alloc();
    return static_cast<T *>(memory);
  }
  void deallocate(T *memory, std::size_t) const { memkind_free(kind_, memory); }

  template <typename U>
  bool operator==(const allocator<U> &other) const {
    return kind_ == other.kind_;
  }
  template <typename U>
  bool operator!=(const allocator<U> &other) const {
    return kind_ != other.kind_;
  }

 private:
  template <typename U>
  friend class allocator;

  static memkind_t of(kinds kind) {
    // In the order of their numbers.
    const memkind_t all[] = {MEMKIND_DEFAULT, MEMKIND_HUGETLB, MEMKIND_INTERLEAVE, MEMKIND_HBW, MEMKIND_HBW_ALL, MEMKIND_HBW_HUGETLB,
                             MEMKIND_HBW_ALL_HUGETLB, MEMKIND_HBW_PREFERRED, MEMKIND_HBW_PREFERRED_HUGETLB, MEMKIND_HBW_INTERLEAVE,
                             MEMKIND_REGULAR, MEMKIND_DAX_KMEM, MEMKIND_DAX_KMEM_ALL, MEMKIND_DAX_KMEM_PREFERRED,
                             MEMKIND_DAX_KMEM_INTERLEAVE, MEMKIND_HIGHEST_CAPACITY, MEMKIND_HIGHEST_CAPACITY_PREFERRED,
                             MEMKIND_HIGHEST_CAPACITY_LOCAL, MEMKIND_HIGHEST_CAPACITY_LOCAL_PREFERRED, MEMKIND_LOWEST_LATENCY_LOCAL,
                             MEMKIND_LOWEST_LATENCY_LOCAL_PREFERRED, MEMKIND_HIGHEST_BANDWIDTH_LOCAL,
                             MEMKIND_HIGHEST_BANDWIDTH_LOCAL_PREFERRED};
    const std::size_t number = static_cast<std::size_t>(kind);
    if (number >= sizeof all / sizeof *all) throw std::runtime_error("no kind of memkind's");
    return all[number];
  }

  memkind_t kind_;
};

}  // namespace static_kind
}  // namespace libmemkind

#endif
