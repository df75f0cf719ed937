/* Everything in hearth.hpp, checked: on a machine with one tier, where all spaces are that one, and on one with more.
 *
 * Says what it finds, and at last `all as expected`; else what was not, and exits with 1.
 */
#include <hearth.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::size_t KIB = 1 << 10, MIB = 1 << 20, PAGE = 4096;
// More than a tier's address range has.
constexpr std::size_t TOO_MUCH = std::size_t{1} << 45;

std::atomic<int> wrong{0};

void expect(bool holds, const char* what, int line) {
  if (holds) return;
  std::printf("line %d: not so: %s\n", line, what);
  ++wrong;
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)

// The hearth_error that is thrown as an `Exception`; HEARTH_OK if nothing is.
template <class Exception = hearth::error, class F>
int thrown(F f) {
  try {
    f();
    return HEARTH_OK;
  } catch (const Exception& e) {
    return std::strcmp(e.what(), hearth_error_text(e.code())) == 0 ? e.code() : -1;
  }
}

bool aligned(const void* p, std::size_t to) { return reinterpret_cast<std::uintptr_t>(p) % to == 0; }

bool all_in(const void* start, std::size_t size, std::size_t tier) {
  const hearth_where where = hearth::residency(start, size);
  const std::size_t first = reinterpret_cast<std::uintptr_t>(start) & ~(PAGE - 1);
  const std::size_t end = (reinterpret_cast<std::uintptr_t>(start) + size + PAGE - 1) & ~(PAGE - 1);
  return where.in_tier[tier] == end - first && where.absent == 0 && where.elsewhere == 0;
}

template <class T>
using vector = std::vector<T, hearth::allocator<T>>;

// What a strategy of ours was asked last: traits arrive there as they were given.
struct Seen {
  std::size_t count = 0;
  hearth_trait list[16] = {};
  std::uint64_t value(int key) const {
    for (std::size_t i = 0; i < count; ++i)
      if (list[i].key == key) return list[i].value;
    return 0;
  }
};
thread_local Seen seen;

int look(void*, const hearth_request* requests, std::size_t count, hearth_decision*) {
  const hearth_request& last = requests[count - 1];
  seen.count = last.traits_count;
  for (std::size_t i = 0; i < seen.count; ++i) seen.list[i] = last.traits[i];
  return 0;
}

void tiers() {
  const auto all = hearth::tiers();
  EXPECT(!all.empty() && all.size() <= HEARTH_MAX_TIERS);
  std::printf("%zu tier%s:", all.size(), all.size() == 1 ? "" : "s");
  for (const auto& tier : all) std::printf(" %s", tier.name);
  std::printf("\n");
  for (auto space : {hearth::space::high_bandwidth, hearth::space::low_latency, hearth::space::large_capacity})
    EXPECT(hearth::tier_of(space) < all.size());
  for (unsigned i = 0; i < all.size(); ++i) EXPECT(hearth::tier_of(hearth::tier(i)) == i);
  EXPECT(thrown([&] { hearth::tier_of(hearth::tier(HEARTH_MAX_TIERS)); }) == HEARTH_E_TIER);
}

// Whether memory that `f` returns the address of, and owns, has ended with it.
template <class F>
bool ended(F f) {
  return hearth_usable_size(f()) == 0;
}

void lists_of_traits() {
  constexpr auto all = hearth::traits{}
                           .require(hearth::space::low_latency)
                           .access(hearth::access::read_write)
                           .frequency(2000)
                           .origin(hearth::origin::many_threads)
                           .pattern(hearth::pattern::strided)
                           .stride(64)
                           .importance(7)
                           .alignment(8192)
                           .interleave(30, hearth::tier(0));
  static_assert(all.size() == 11 && all.value(HEARTH_REQUIRE_SPACE) == HEARTH_LOW_LATENCY);
  static_assert(all.value(HEARTH_ACCESS_MODE) == HEARTH_READ_WRITE && all.value(HEARTH_ACCESS_FREQUENCY) == 2000);
  static_assert(all.value(HEARTH_ACCESS_ORIGIN) == HEARTH_MANY_THREADS && all.value(HEARTH_ACCESS_PATTERN) == HEARTH_STRIDED);
  static_assert(all.value(HEARTH_ACCESS_STRIDE) == 64 && all.value(HEARTH_IMPORTANCE) == 7 && all.value(HEARTH_ALIGNMENT) == 8192);
  static_assert(all.value(HEARTH_PARTITION) == HEARTH_INTERLEAVE && all.value(HEARTH_WEIGHT) == 30);
  static_assert(all.value(HEARTH_REST_SPACE) == HEARTH_TIER_0 && all.value(HEARTH_PREFER_SPACE) == 0);
  // Said again, a key has the new value; all twelve have room.
  static_assert(all.importance(8).size() == 11 && all.importance(8).value(HEARTH_IMPORTANCE) == 8);
  static_assert(all.prefer(hearth::space::low_latency).size() == 12);
  static_assert(all.split(99).value(HEARTH_PARTITION) == HEARTH_SPLIT && all.split(99).value(HEARTH_REST_SPACE) == HEARTH_LARGE_CAPACITY);

  auto array = hearth::make_array<char>(3 * PAGE, all);
  EXPECT(aligned(array.get(), 8192));
  auto refused = [](const hearth::traits& traits) {
    return thrown<hearth::bad_alloc>([&] { hearth::make_array<char>(1, traits); });
  };
  EXPECT(refused(all.prefer(hearth::space::low_latency)) == HEARTH_E_CONFLICT);
  EXPECT(refused(hearth::traits{}.stride(8)) == HEARTH_E_CONFLICT);
  EXPECT(refused(hearth::traits{}.alignment(24)) == HEARTH_E_TRAIT);
  EXPECT(refused(hearth::traits{}.prefer(hearth::space::low_latency).split(100)) == HEARTH_E_TRAIT);
  EXPECT(refused(hearth::traits{}.prefer(hearth::tier(HEARTH_MAX_TIERS))) == HEARTH_E_TIER);
}

struct alignas(256) Line {
  char bytes[256];
};

void containers() {
  const auto hot = hearth::traits{}.prefer(hearth::space::low_latency).pattern(hearth::pattern::random);
  const std::size_t tier = hearth::tier_of(hearth::space::low_latency);

  vector<double> numbers(MIB, 1.5, hot);
  EXPECT(all_in(numbers.data(), numbers.size() * sizeof(double), tier));
  EXPECT(hearth_usable_size(numbers.data()) >= numbers.size() * sizeof(double));
  for (int i = 0; i < 100000; ++i) numbers.push_back(i);
  EXPECT(numbers.front() == 1.5 && numbers.back() == 99999);

  vector<Line> lines(hot);
  for (int i = 0; i < 100; ++i) {
    lines.push_back(Line{});
    EXPECT(aligned(lines.data(), alignof(Line)));
  }
  std::list<Line, hearth::allocator<Line>> nodes(100, Line{}, hot);
  for (const Line& line : nodes) EXPECT(aligned(&line, alignof(Line)));

  using string = std::basic_string<char, std::char_traits<char>, hearth::allocator<char>>;
  std::map<int, string, std::less<int>, hearth::allocator<std::pair<const int, string>>> words(hot);
  std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, hearth::allocator<std::pair<const int, int>>> squares(hot);
  for (int i = 0; i < 5000; ++i) {
    words.emplace(i, string(i % 300, 'x', hot));
    squares[i] = i * i;
  }
  for (int i = 0; i < 5000; i += 2) words.erase(i), squares.erase(i);
  EXPECT(words.size() == 2500 && words.at(299) == string(299, 'x') && squares.at(4999) == 4999 * 4999);
  EXPECT(hearth_usable_size(words.at(299).data()) >= 300);

  // Memory changes hands, and traits with it; a copy has its own.
  vector<double> plain;
  const double* at = numbers.data();
  plain = std::move(numbers);
  EXPECT(plain.data() == at && plain.get_allocator().given()->size() == 2);
  vector<double> other;
  other.swap(plain);
  EXPECT(other.data() == at && other.get_allocator().given() && !plain.get_allocator().given());
  plain = other;
  EXPECT(plain == other && !plain.get_allocator().given());
  vector<double> copy(other);
  EXPECT(copy.get_allocator().given().has_value());
  EXPECT(hearth::allocator<int>(hot) == hearth::allocator<char>() && !(hearth::allocator<int>() != hearth::allocator<int>(hot)));

  EXPECT(ended([&]() -> const void* { return vector<int>(100000, hot).data(); }));
  EXPECT(ended([&]() -> const void* { return &*std::list<int, hearth::allocator<int>>(1, 0, hot).begin(); }));
  EXPECT(ended([&]() -> const void* { return hearth::make_array<int>(100000, hot).get(); }));

  vector<double> none(0, hot);
  hearth::allocator<double> allocator(hot);
  double* nothing = allocator.allocate(0);
  EXPECT(nothing != nullptr);
  allocator.deallocate(nothing, 0);
  EXPECT(thrown<hearth::bad_alloc>([&] { allocator.deallocate(allocator.allocate(TOO_MUCH / sizeof(double)), 0); }) == HEARTH_E_ROOM);
  bool counted = true;
  try {
    allocator.deallocate(allocator.allocate(SIZE_MAX / sizeof(double)), 0);
  } catch (const std::bad_array_new_length&) {
    counted = false;
  }
  EXPECT(!counted);
  // Of the standard's, for those who do not know of Hearth.
  bool caught = false;
  try {
    vector<char>(hot).reserve(TOO_MUCH);
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  EXPECT(caught);
  std::printf("containers: vector, list, map, unordered_map, string\n");
}

void resources() {
  hearth::memory_resource hot(hearth::traits{}.prefer(hearth::space::high_bandwidth)), plain;
  EXPECT(hot.is_equal(plain) && !hot.is_equal(*std::pmr::new_delete_resource()));
  std::pmr::vector<int> numbers(MIB, 3, &hot);
  EXPECT(all_in(numbers.data(), numbers.size() * sizeof(int), hearth::tier_of(hearth::space::high_bandwidth)));
  std::pmr::unsynchronized_pool_resource pool(&hot);
  std::pmr::map<int, std::pmr::string> words(&pool);
  for (int i = 0; i < 1000; ++i) words[i] = std::string(i, 'y');
  EXPECT(words.at(999).size() == 999);
  EXPECT(ended([&]() -> const void* { return std::pmr::vector<int>(MIB, &hot).data(); }));
  void* line = plain.allocate(100, 1024);
  EXPECT(aligned(line, 1024));
  plain.deallocate(line, 100, 1024);
  // The compiler would warn of it.
  volatile std::size_t negative = SIZE_MAX;
  EXPECT(thrown<hearth::bad_alloc>([&] { (void)hot.allocate(TOO_MUCH, 8); }) == HEARTH_E_ROOM);
  EXPECT(thrown<hearth::bad_alloc>([&] { (void)hot.allocate(negative, 8); }) == HEARTH_E_SIZE);
  std::printf("memory resource: vector, and a pool of maps and strings\n");
}

std::uint64_t importance_of_new_array() {
  hearth::make_array<int>(100);
  return seen.value(HEARTH_IMPORTANCE);
}

void scopes() {
  EXPECT(hearth_use(HEARTH_ALLOCATION, look, nullptr) == HEARTH_OK);
  EXPECT(hearth_use(HEARTH_COMMIT, look, nullptr) == HEARTH_OK);
  vector<int> before;
  EXPECT(importance_of_new_array() == 0 && seen.count == 0);
  {
    hearth::scoped_traits outer{hearth::traits{}.importance(1).frequency(10)};
    EXPECT(importance_of_new_array() == 1 && seen.count == 2);
    {
      hearth::scoped_traits inner{hearth::traits{}.importance(2)};
      EXPECT(importance_of_new_array() == 2 && seen.count == 1);
      {
        hearth::scoped_traits none{hearth::traits{}};
        EXPECT(importance_of_new_array() == 0 && seen.count == 0);
      }
      before.resize(1000);
      EXPECT(seen.value(HEARTH_IMPORTANCE) == 2);
      vector<int> own(100, hearth::traits{}.importance(3));
      EXPECT(seen.value(HEARTH_IMPORTANCE) == 3);
      vector<int> empty(100, hearth::traits{});
      EXPECT(seen.count == 0);
      hearth::memory_resource resource;
      std::pmr::vector<int> numbers(100, &resource);
      EXPECT(seen.value(HEARTH_IMPORTANCE) == 2);
      auto lines = hearth::make_array<Line>(1);
      EXPECT(seen.value(HEARTH_IMPORTANCE) == 2 && seen.value(HEARTH_ALIGNMENT) == alignof(Line));
      int* declared = nullptr;
      hearth::declarations set;
      set.declare(declared, 100);
      set.commit();
      EXPECT(seen.value(HEARTH_IMPORTANCE) == 2);
      hearth_free(declared);
      std::thread([] { EXPECT(importance_of_new_array() == 0); }).join();
    }
    EXPECT(importance_of_new_array() == 1 && hearth::scoped_traits::current().size() == 2);
    try {
      hearth::scoped_traits thrown_through{hearth::traits{}.importance(4)};
      throw 1;
    } catch (int) {
    }
    EXPECT(importance_of_new_array() == 1);
  }
  before.resize(100000);
  EXPECT(seen.count == 0 && hearth::scoped_traits::current().size() == 0);
  EXPECT(hearth_use(HEARTH_ALLOCATION, nullptr, nullptr) == HEARTH_OK);
  EXPECT(hearth_use(HEARTH_COMMIT, nullptr, nullptr) == HEARTH_OK);
  std::printf("scopes: nested, hidden, left by an exception, not seen by other threads\n");
}

void threads() {
  constexpr unsigned COUNT = 4;
  std::array<vector<std::uint64_t>, COUNT> made;
  std::array<std::thread, COUNT> all;
  for (unsigned n = 0; n < COUNT; ++n) {
    all[n] = std::thread([n, &made] {
      hearth::scoped_traits guard{hearth::traits{}.prefer(hearth::tier(0)).importance(n)};
      std::map<int, int, std::less<int>, hearth::allocator<std::pair<const int, int>>> map;
      for (int i = 0; i < 20000; ++i) {
        map[i % 500] = i;
        if (i % 3 == 0) map.erase(i % 250);
        made[n].push_back(n * 1000000ull + i);
        if (i % 100 == 0) EXPECT(hearth::scoped_traits::current().value(HEARTH_IMPORTANCE) == n);
      }
    });
  }
  for (auto& thread : all) thread.join();
  for (unsigned n = 0; n < COUNT; ++n)
    for (unsigned i = 0; i < made[n].size(); ++i)
      if (made[n][i] != n * 1000000ull + i) return EXPECT(!"what a thread wrote is there");
  std::printf("threads: %u, and their memory freed by another one\n", COUNT);
}

void placement() {
  const auto all = hearth::tiers();
  for (unsigned tier = 0; tier < all.size(); ++tier) {
    vector<char> required(4 * MIB, 1, hearth::traits{}.require(hearth::tier(tier)));
    EXPECT(all_in(required.data(), required.size(), tier));
    const hearth_where where = hearth::residency(required.data(), required.size());
    std::printf("required in %s: %llu KiB are there\n", all[tier].name, static_cast<unsigned long long>(where.in_tier[tier] / KIB));
    if (all[tier].capacity > 0) {
      const auto required_twice = [&] {
        hearth::make_array<char>(2 * all[tier].capacity, hearth::traits{}.require(hearth::tier(tier)));
      };
      EXPECT(thrown<hearth::bad_alloc>(required_twice) == HEARTH_E_ROOM);
    }
  }

  const unsigned last = static_cast<unsigned>(all.size() - 1);
  const auto fast = hearth::traits{}.prefer(hearth::tier(0));
  for (bool split : {true, false}) {
    const auto divided = split ? fast.split(25, hearth::tier(last)) : fast.interleave(25, hearth::tier(last));
    vector<char> shared(8 * MIB, 1, divided);
    const hearth_where where = hearth::residency(shared.data(), shared.size());
    EXPECT(where.in_tier[0] == (last == 0 ? 8 * MIB : 2 * MIB) && where.in_tier[0] + (last ? where.in_tier[last] : 0) == 8 * MIB);
    if (split && last > 0) EXPECT(all_in(shared.data(), 2 * MIB, 0));
  }

  vector<char> wanderer(4 * MIB, 7, fast);
  hearth::name(wanderer.data(), "wanderer");
  hearth::update(wanderer.data(), hearth::traits{}.prefer(hearth::tier(last)));
  const std::size_t moved = hearth::migrate();
  EXPECT(moved == (last > 0 ? wanderer.size() : 0) && all_in(wanderer.data(), wanderer.size(), last));
  EXPECT(wanderer.front() == 7 && wanderer.back() == 7);
  EXPECT(hearth::migrate() == 0);
  std::printf("migrated: %zu KiB\n", moved / KIB);

  // Of memory of any kind; what was never touched is absent.
  std::vector<char> others(MIB, 1);
  EXPECT(hearth::residency(others.data(), others.size()).absent == 0);
  auto untouched = hearth::make_array<char>(64 * MIB);
  EXPECT(hearth::residency(untouched.get(), 64 * MIB).absent == 64 * MIB);

  char foreign = 0;
  auto small = hearth::make_array<char>(100);
  EXPECT(thrown([&] { hearth::update(&foreign, fast); }) == HEARTH_E_FOREIGN);
  EXPECT(thrown([&] { hearth::update(wanderer.data(), fast.require(hearth::tier(0))); }) == HEARTH_E_CONFLICT);
  EXPECT(thrown([&] { hearth::update(small.get(), fast); }) == HEARTH_E_SMALL);
  EXPECT(thrown([&] { hearth::name(&foreign, "foreign"); }) == HEARTH_E_FOREIGN);
  EXPECT(thrown([&] { hearth::name(wanderer.data(), std::string(201, 'n').c_str()); }) == HEARTH_E_ARGUMENT);
  EXPECT(thrown([&] { hearth::residency(nullptr, 1); }) == HEARTH_E_ARGUMENT);
  EXPECT(thrown([&] { hearth::residency(&foreign, 0); }) == HEARTH_E_SIZE);
}

void declared() {
  double* a = nullptr;
  Line* b = nullptr;
  char* withdrawn = reinterpret_cast<char*>(&a);
  {
    hearth::declarations set;
    set.commit();
    set.declare(a, 100000, hearth::traits{}.prefer(hearth::space::high_bandwidth).importance(2));
    set.declare(b, 3, hearth::traits{}.importance(1));
    EXPECT(set.size() == 2 && !a && !b);
    EXPECT(thrown([&] { set.declare(withdrawn, 0); }) == HEARTH_E_SIZE);
    EXPECT(thrown([&] { set.declare(withdrawn, 1, hearth::traits{}.stride(1)); }) == HEARTH_E_CONFLICT);
    EXPECT(set.size() == 2);
    set.commit();
    EXPECT(set.size() == 0 && a && b && aligned(b, alignof(Line)));
    std::memset(a, 1, 100000 * sizeof *a);
    EXPECT(all_in(a, 100000 * sizeof *a, hearth::tier_of(hearth::space::high_bandwidth)));
    set.declare(withdrawn, 100);
    EXPECT(set.size() == 1);
  }
  EXPECT(withdrawn == nullptr);
  // Whatever their numbers are, none of those before this one is left.
  int error = HEARTH_OK;
  void* later = nullptr;
  const hearth_declaration last = hearth_declare(&later, 1, &error, 0, nullptr);
  for (hearth_declaration n = 1; n < last; ++n) EXPECT(hearth_withdraw(n) == HEARTH_E_HANDLE);
  EXPECT(hearth_withdraw(last) == HEARTH_OK);
  EXPECT(hearth_free(a) == HEARTH_OK && hearth_free(b) == HEARTH_OK && hearth_free(a) == HEARTH_E_FOREIGN);

  // All or nothing.
  hearth::declarations set;
  set.declare(a, 1000);
  set.declare(withdrawn, TOO_MUCH);
  EXPECT(thrown([&] { set.commit(); }) == HEARTH_E_ROOM);
  EXPECT(!a && !withdrawn && set.size() == 2);
  std::printf("declarations: committed, refused as a whole, withdrawn\n");
}

void phases() {
  hearth::phase("phases");
  {
    hearth::loop loop("the loop");
    hearth::phase("inside");
  }
  std::vector<char> used(1 << 20);
  hearth::phase_uses("inside", used.data());
  EXPECT(thrown([&] { hearth::phase_uses("", used.data()); }) == HEARTH_E_ARGUMENT);
  EXPECT(thrown([] { hearth::phase(nullptr); }) == HEARTH_E_ARGUMENT);
  EXPECT(thrown([] { hearth::loop loop(std::string(201, 'l').c_str()); }) == HEARTH_E_ARGUMENT);
}

}  // namespace

int main() {
  try {
    tiers();
    lists_of_traits();
    containers();
    resources();
    scopes();
    threads();
    placement();
    declared();
    phases();
  } catch (const std::exception& e) {
    std::printf("not caught: %s\n", e.what());
    return 1;
  }
  if (wrong > 0) {
    std::printf("%d of the checks failed\n", wrong.load());
    return 1;
  }
  std::printf("all as expected\n");
}
