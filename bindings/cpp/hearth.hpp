// hearth.hpp - hearth.h for C++17: containers whose memory is where the code says.
//
//     #include <hearth.hpp>               c++ -std=c++17 app.cpp $(pkg-config --cflags --libs hearth)
//
//     constexpr auto hot = hearth::traits{}.prefer(hearth::space::low_latency).pattern(hearth::pattern::random);
//     std::vector<double, hearth::allocator<double>> table(n, hot);
//
// hearth.h is the specification: what a trait means, and what each error is for, stands there. This header adds types, ownership
// and exceptions to it; whatever it leaves out (strategies, hearth_realloc) is called as in C. Sizes are bytes; a `count` is one
// of elements.
#ifndef HEARTH_HPP
#define HEARTH_HPP

#include <hearth.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

namespace hearth {

// ---- Errors -------------------------------------------------------------------------------------------------------------------

// An exception that carries a hearth_error; what() is the sentence of hearth_error_text.
template <class Base>
class failure : public Base {
 public:
  explicit failure(int code) noexcept : code_(static_cast<hearth_error>(code)) {}
  hearth_error code() const noexcept { return code_; }
  const char* what() const noexcept override { return hearth_error_text(code_); }

 private:
  hearth_error code_;
};

// What the functions of this header throw.
using error = failure<std::exception>;
// What allocators, memory resources and make_array throw.
using bad_alloc = failure<std::bad_alloc>;

// ---- Traits -------------------------------------------------------------------------------------------------------------------

enum class space : std::uint64_t {
  high_bandwidth = HEARTH_HIGH_BANDWIDTH,
  low_latency = HEARTH_LOW_LATENCY,
  large_capacity = HEARTH_LARGE_CAPACITY
};
enum class access : std::uint64_t { read_only = HEARTH_READ_ONLY, write_only = HEARTH_WRITE_ONLY, read_write = HEARTH_READ_WRITE };
enum class origin : std::uint64_t { one_thread = HEARTH_ONE_THREAD, many_threads = HEARTH_MANY_THREADS };
enum class pattern : std::uint64_t { linear = HEARTH_LINEAR, strided = HEARTH_STRIDED, random = HEARTH_RANDOM };

// The space of the tier of this index in tiers(). One that the machine does not have is HEARTH_E_TIER when it is used.
constexpr space tier(unsigned index) noexcept { return static_cast<space>(std::uint64_t{HEARTH_TIER_0} + index); }

// A list of traits, built by chaining. Each call gives a new list and leaves the old one; what was said of the same key before is
// replaced. Nothing is checked here: a wrong list is refused, with HEARTH_E_TRAIT or HEARTH_E_CONFLICT, by what it is given to.
class traits {
 public:
  constexpr traits require(hearth::space where) const noexcept { return with(HEARTH_REQUIRE_SPACE, of(where)); }
  constexpr traits prefer(hearth::space where) const noexcept { return with(HEARTH_PREFER_SPACE, of(where)); }
  constexpr traits access(hearth::access mode) const noexcept { return with(HEARTH_ACCESS_MODE, of(mode)); }
  // Accesses a second, for all of the object.
  constexpr traits frequency(std::uint64_t per_second) const noexcept { return with(HEARTH_ACCESS_FREQUENCY, per_second); }
  constexpr traits origin(hearth::origin from) const noexcept { return with(HEARTH_ACCESS_ORIGIN, of(from)); }
  constexpr traits pattern(hearth::pattern walk) const noexcept { return with(HEARTH_ACCESS_PATTERN, of(walk)); }
  // Bytes from one access to the next; only with pattern::strided.
  constexpr traits stride(std::uint64_t bytes) const noexcept { return with(HEARTH_ACCESS_STRIDE, bytes); }
  // Any unit; the larger, the earlier it is served.
  constexpr traits importance(std::uint64_t rank) const noexcept { return with(HEARTH_IMPORTANCE, rank); }
  // Bytes, a power of two up to 1 GiB. Allocators raise it to what their type needs.
  constexpr traits alignment(std::uint64_t bytes) const noexcept { return with(HEARTH_ALIGNMENT, bytes); }
  // The first `percent` (1 to 99) of the bytes in the required or preferred space, the others in `rest`.
  constexpr traits split(unsigned percent, hearth::space rest = hearth::space::large_capacity) const noexcept {
    return divided(HEARTH_SPLIT, percent, rest);
  }
  // The same share, by turns.
  constexpr traits interleave(unsigned percent, hearth::space rest = hearth::space::large_capacity) const noexcept {
    return divided(HEARTH_INTERLEAVE, percent, rest);
  }

  // As the functions of hearth.h take them.
  constexpr const hearth_trait* data() const noexcept { return list_; }
  constexpr std::size_t size() const noexcept { return size_; }

  // What was said of a key; 0, which is the value of none but frequency and importance, if nothing was.
  constexpr std::uint64_t value(hearth_key key) const noexcept {
    for (std::size_t i = 0; i < size_; ++i)
      if (list_[i].key == key) return list_[i].value;
    return 0;
  }

 private:
  template <class Enum>
  static constexpr std::uint64_t of(Enum value) noexcept {
    return static_cast<std::uint64_t>(value);
  }

  constexpr traits with(hearth_key key, std::uint64_t value) const noexcept {
    traits more = *this;
    std::size_t at = 0;
    while (at < size_ && list_[at].key != key) ++at;
    more.list_[at] = hearth_trait{key, value};
    if (at == size_) ++more.size_;
    return more;
  }

  constexpr traits divided(std::uint64_t partition, unsigned percent, hearth::space rest) const noexcept {
    return with(HEARTH_PARTITION, partition).with(HEARTH_WEIGHT, percent).with(HEARTH_REST_SPACE, of(rest));
  }

  // Room for each key once: the last one is the number of them.
  hearth_trait list_[HEARTH_REST_SPACE] = {};
  std::size_t size_ = 0;
};

// While it lives, what its thread allocates through allocators, memory resources, make_array and declarations *that were not
// given traits themselves* has these. They are looked up at each allocation (by declare, not by commit): a container that outlives
// the guard grows without them, and it does not matter where it was made. Guards nest; the innermost one counts alone, and nothing
// of the outer ones is added to it. Empty traits are traits, too: a guard of `traits{}` hides the outer ones, and an allocator of
// `traits{}` sees none. Other threads see nothing of it.
class scoped_traits {
 public:
  explicit scoped_traits(const traits& wanted) noexcept : wanted_(wanted), outer_(innermost_) { innermost_ = this; }
  ~scoped_traits() { innermost_ = outer_; }
  scoped_traits(const scoped_traits&) = delete;
  scoped_traits& operator=(const scoped_traits&) = delete;

  // The traits of this thread's innermost guard; none without a guard.
  static traits current() noexcept { return innermost_ ? innermost_->wanted_ : traits{}; }

 private:
  traits wanted_;
  const scoped_traits* outer_;
  inline static thread_local const scoped_traits* innermost_ = nullptr;
};

namespace detail {

inline void check(int code) {
  if (code != HEARTH_OK) throw error(code);
}

// Every object is aligned to 16 bytes; what needs more says so.
inline traits complete(const std::optional<traits>& given, std::size_t alignment) {
  const traits wanted = given ? *given : scoped_traits::current();
  return alignment <= 16 || wanted.value(HEARTH_ALIGNMENT) >= alignment ? wanted : wanted.alignment(alignment);
}

template <class T>
std::size_t bytes(std::size_t count) {
  if (count > std::size_t{PTRDIFF_MAX} / sizeof(T)) throw std::bad_array_new_length();
  return count * sizeof(T);
}

// Standard C++ allows allocations of 0 bytes, hearth.h does not.
inline void* allocate(std::size_t size, std::size_t alignment, const std::optional<traits>& given) {
  const traits wanted = complete(given, alignment);
  int code = HEARTH_OK;
  void* object = hearth_alloc(size > 0 ? size : 1, &code, wanted.size(), wanted.data());
  if (!object) throw bad_alloc(code);
  return object;
}

}  // namespace detail

// ---- Allocate -----------------------------------------------------------------------------------------------------------------

// A standard allocator with traits; without, it has those of scoped_traits. Throws hearth::bad_alloc, and std::bad_array_new_length
// if the bytes cannot be counted.
template <class T>
class allocator {
 public:
  using value_type = T;
  // Any of them frees what another one has allocated, so memory always changes hands without being copied. Traits go with it (the
  // place where it lies is theirs), but not with contents that are copied into memory that a container has already.
  using is_always_equal = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using propagate_on_container_copy_assignment = std::false_type;

  allocator() noexcept = default;
  allocator(const traits& wanted) noexcept : given_(wanted) {}
  template <class U>
  allocator(const allocator<U>& other) noexcept : given_(other.given()) {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(detail::allocate(detail::bytes<T>(count), alignof(T), given_));
  }
  void deallocate(T* object, std::size_t) noexcept { hearth_free(object); }

  // The traits that it was given itself.
  const std::optional<traits>& given() const noexcept { return given_; }

 private:
  std::optional<traits> given_;
};

template <class T, class U>
bool operator==(const allocator<T>&, const allocator<U>&) noexcept {
  return true;
}
template <class T, class U>
bool operator!=(const allocator<T>&, const allocator<U>&) noexcept {
  return false;
}

// The same for std::pmr. It must outlive the containers that use it. Throws hearth::bad_alloc.
class memory_resource : public std::pmr::memory_resource {
 public:
  memory_resource() noexcept = default;
  explicit memory_resource(const traits& wanted) noexcept : given_(wanted) {}

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override { return detail::allocate(size, alignment, given_); }
  void do_deallocate(void* object, std::size_t, std::size_t) override { hearth_free(object); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return dynamic_cast<const memory_resource*>(&other) != nullptr;
  }

  std::optional<traits> given_;
};

// Ends an object of Hearth's that a smart pointer owns.
struct deleter {
  void operator()(void* object) const noexcept { hearth_free(object); }
};

// An array that is one object and ends with its owner.
template <class T>
using unique_array = std::unique_ptr<T[], deleter>;

// Makes one, and writes nothing into it. Throws as allocator does.
template <class T>
unique_array<T> make_array(std::size_t count, const std::optional<traits>& given = std::nullopt) {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                "nothing constructs or destroys the elements: use std::vector with hearth::allocator");
  return unique_array<T>(static_cast<T*>(detail::allocate(detail::bytes<T>(count), alignof(T), given)));
}

// ---- Declare first, commit later ----------------------------------------------------------------------------------------------

// Collects declarations, to decide over all of them at once. Those that were not committed end with it, so the pointers must
// live as long (declare them before it). What commit has allocated is the program's, and ends with hearth_free.
class declarations {
 public:
  declarations() = default;
  ~declarations() {
    for (hearth_declaration declaration : open_) hearth_withdraw(declaration);
  }
  declarations(const declarations&) = delete;
  declarations& operator=(const declarations&) = delete;

  // `where` is to point to an array of so many elements, and is null until then. Throws hearth::error, std::bad_array_new_length.
  template <class T>
  void declare(T*& where, std::size_t count, const std::optional<traits>& given = std::nullopt) {
    static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                  "nothing constructs or destroys the elements");
    const traits wanted = detail::complete(given, alignof(T));
    const std::size_t size = detail::bytes<T>(count);
    int code = HEARTH_OK;
    // The place first: a declaration that could not be remembered would never end.
    open_.push_back(0);
    open_.back() = hearth_declare(reinterpret_cast<void**>(&where), size, &code, wanted.size(), wanted.data());
    if (open_.back() == 0) {
      open_.pop_back();
      throw error(code);
    }
  }

  // Allocates all that was declared since the last commit; or throws hearth::error, allocates nothing, and can be called again.
  void commit() {
    detail::check(hearth_commit(open_.data(), open_.size()));
    open_.clear();
  }

  // Declarations that are not committed.
  std::size_t size() const noexcept { return open_.size(); }

 private:
  std::vector<hearth_declaration> open_;
};

// ---- Objects, tiers and phases: hearth.h with exceptions. All throw hearth::error. --------------------------------------------

// Names an object; `object` is its first byte, as data() of a vector.
inline void name(void* object, const char* text) { detail::check(hearth_name(object, text)); }

// Replaces an object's traits, for the next migrate().
inline void update(void* object, const traits& wanted) { detail::check(hearth_update(object, wanted.size(), wanted.data())); }

// Moves what was updated; the bytes that were moved. If one object could not be moved, it throws when the others were.
inline std::size_t migrate() {
  std::size_t moved = 0;
  detail::check(hearth_migrate(&moved));
  return moved;
}

// Where the pages of these bytes are.
inline hearth_where residency(const void* start, std::size_t size) {
  hearth_where where{};
  detail::check(hearth_residency(start, size, &where));
  return where;
}

// The tiers of this machine, fastest first.
inline std::vector<hearth_tier> tiers() {
  std::size_t count = 0;
  detail::check(hearth_tiers(nullptr, 0, &count));
  std::vector<hearth_tier> all(count);
  detail::check(hearth_tiers(all.data(), all.size(), nullptr));
  return all;
}

// Index in tiers() of the tier that a space is on this machine.
inline std::size_t tier_of(space where) {
  const int index = hearth_tier_of_space(static_cast<int>(where));
  if (index < 0) throw error(-index);
  return static_cast<std::size_t>(index);
}

// A phase begins.
inline void phase(const char* name) { detail::check(hearth_phase(name)); }

// The phase of this name uses the object that this address lies in: of malloc, new, or a variable.
inline void phase_uses(const char* name, const void* object) { detail::check(hearth_phase_uses(name, object)); }

// The loop that a run is spent in: from where this is made to where it ends.
class loop {
 public:
  explicit loop(const char* name) { detail::check(hearth_loop_begin(name)); }
  ~loop() { hearth_loop_end(); }
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;
};

}  // namespace hearth

#endif
