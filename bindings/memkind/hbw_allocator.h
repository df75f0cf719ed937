// hbw_allocator.h - hbw::allocator<T>: containers in memory of high bandwidth (hbwmalloc.h).
//
//     std::vector<double, hbw::allocator<double>> table(n);
#ifndef HBW_ALLOCATOR_H
#define HBW_ALLOCATOR_H

#include <hbwmalloc.h>

#include <cstddef>
#include <new>

namespace hbw {

// All are equal: any frees what another one has allocated.
template <class T>
class allocator {
 public:
  typedef T value_type;
  typedef T *pointer;
  typedef const T *const_pointer;
  typedef T &reference;
  typedef const T &const_reference;
  typedef std::size_t size_type;
  typedef std::ptrdiff_t difference_type;
  template <class U>
  struct rebind {
    typedef allocator<U> other;
  };

  allocator() throw() {}
  template <class U>
  allocator(const allocator<U> &) throw() {}

  size_type max_size() const throw() { return size_type(-1) / sizeof(T); }

  pointer allocate(size_type n, const void * = 0) {
    void *memory = n <= max_size() ? hbw_malloc(n > 0 ? n * sizeof(T) : 1) : 0;
    if (!memory) throw std::bad_alloc();
    return static_cast<pointer>(memory);
  }
  void deallocate(pointer memory, size_type) { hbw_free(memory); }
};

template <class T, class U>
bool operator==(const allocator<T> &, const allocator<U> &) {
  return true;
}
template <class T, class U>
bool operator!=(const allocator<T> &, const allocator<U> &) {
  return false;
}

}  // namespace hbw

#endif
