// C++ threads with containers, exceptions and every form of new and delete: same output whatever the allocator.
//
//   threads_cpp [--threads N] [--work ROUNDS]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

void require(bool good, const char *what) {
    if (good) return;
    std::fprintf(stderr, "threads: %s\n", what);
    std::_Exit(1);
}

// Hides a pointer from the optimiser, which may leave out pairs of new and delete otherwise.
template <class T> T *seen(T *p) {
    asm volatile("" : "+r"(p)::"memory");
    return p;
}

struct alignas(256) Wide {
    std::uint64_t word[64];
};
struct Node {
    std::uint64_t key;
    std::unique_ptr<Node> left, right;
};

void insert(std::unique_ptr<Node> &at, std::uint64_t key) {
    if (!at) at.reset(new Node{key, nullptr, nullptr});
    else insert(key < at->key ? at->left : at->right, key);
}
std::uint64_t sum(const std::unique_ptr<Node> &at) {
    return at ? at->key * 3 + sum(at->left) * 5 + sum(at->right) * 7 : 1;
}

bool aligned(const void *p, std::size_t to) { return reinterpret_cast<std::uintptr_t>(p) % to == 0; }

// Every replaceable form, called by name, small and large, each freed by its partner.
void every_form(std::size_t size) {
    const std::align_val_t align{512};
    auto use = [&](void *p, std::size_t to) {
        require(p != nullptr, "new returned null");
        require(aligned(p, to), "new is not aligned");
        std::memset(seen(p), 0x5a, size);
        return p;
    };
    ::operator delete(use(::operator new(size), 16));
    ::operator delete(use(::operator new(size), 16), size);
    ::operator delete(use(::operator new(size, std::nothrow), 16), std::nothrow);
    ::operator delete(use(::operator new(size, align), 512), align);
    ::operator delete(use(::operator new(size, align), 512), size, align);
    ::operator delete(use(::operator new(size, align, std::nothrow), 512), align, std::nothrow);
    ::operator delete[](use(::operator new[](size), 16));
    ::operator delete[](use(::operator new[](size), 16), size);
    ::operator delete[](use(::operator new[](size, std::nothrow), 16), std::nothrow);
    ::operator delete[](use(::operator new[](size, align), 512), align);
    ::operator delete[](use(::operator new[](size, align), 512), size, align);
    ::operator delete[](use(::operator new[](size, align, std::nothrow), 512), align, std::nothrow);
    // Freed in the base form, as old libraries do.
    ::operator delete(use(::operator new(size, std::nothrow), 16));
    ::operator delete(nullptr);
    ::operator delete[](nullptr, align);
}

void too_large() {
    volatile std::size_t huge = SIZE_MAX / 2 - 4096;
    bool thrown = false;
    try {
        ::operator delete(seen(::operator new(huge)));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    require(thrown, "new of half the address space did not throw bad_alloc");
    require(::operator new(huge, std::nothrow) == nullptr, "nothrow new of half the address space gave memory");
    require(::operator new[](huge, std::align_val_t{64}, std::nothrow) == nullptr, "aligned nothrow new gave memory");
    thrown = false;
    try {
        std::vector<double> v;
        v.resize(v.max_size() / 2);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    require(thrown, "an oversized vector did not throw bad_alloc");
}

int handler_calls = 0;
void handler() {
    handler_calls++;
    std::set_new_handler(nullptr);
}

void new_handler() {
    std::set_new_handler(handler);
    volatile std::size_t huge = SIZE_MAX / 2 - 4096;
    require(::operator new(huge, std::nothrow) == nullptr, "nothrow new gave memory");
    require(handler_calls == 1, "the new handler was not called once");
}

[[noreturn]] void throw_deep(int depth, const std::vector<std::string> &load) {
    std::string local(5000 + depth, 'x');
    if (depth == 0) throw std::runtime_error(load.back() + local.substr(0, 3));
    throw_deep(depth - 1, load);
}

std::uint64_t one(int me, long rounds) {
    std::uint64_t state = 777 + me, total = 0;
    auto next = [&] {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return state >> 33;
    };
    std::vector<std::vector<double>> matrices;
    std::map<std::uint64_t, std::string> names;
    std::unordered_map<std::string, std::vector<std::uint32_t>> index;
    std::unique_ptr<Node> tree;
    for (long round = 0; round < rounds; round++) {
        std::size_t n = 100 + next() % 50000;
        matrices.emplace_back(n, static_cast<double>(round));
        matrices.back()[n / 2] += 1;
        if (matrices.size() > 12) matrices.erase(matrices.begin() + static_cast<long>(next() % 12));
        std::uint64_t key = next() % 500;
        names[key] += std::string(1 + key % 90, static_cast<char>('a' + key % 26));
        if (names[key].size() > 20000) names.erase(key);
        auto &list = index["key " + std::to_string(next() % 200)];
        for (int i = 0; i < 20; i++) list.push_back(static_cast<std::uint32_t>(next()));
        insert(tree, next());
        std::unique_ptr<Wide[]> wide(new Wide[1 + next() % 40]);
        require(aligned(wide.get(), 256), "an over-aligned array is not aligned");
        wide[0].word[63] = key;
        total += seen(wide.get())[0].word[63];
        if (round % 16 == 0) every_form(1 + next() % 20000);
        if (round % 64 == 0) {
            try {
                throw_deep(20, {"what ", "who "});
            } catch (const std::runtime_error &e) {
                total += std::strlen(e.what());
            }
        }
    }
    for (auto &m : matrices)
        for (double x : m) total += static_cast<std::uint64_t>(x);
    for (auto &[key, text] : names) total = total * 31 + key + text.size();
    std::uint64_t lists = 0;
    for (auto &entry : index)
        for (auto x : entry.second) lists += x * entry.first.size();
    return total * 17 + lists + sum(tree);
}

// Allocates and frees when its thread ends.
struct AtThreadExit {
    std::vector<std::string> kept;
    ~AtThreadExit() {
        kept.clear();
        std::vector<char> late(100000, 'z');
        require(seen(late.data())[99999] == 'z', "memory allocated at thread exit is wrong");
    }
};
thread_local AtThreadExit at_thread_exit;

// Allocates before main and frees after it.
struct Global {
    std::vector<std::string> lines;
    Global() {
        for (int i = 0; i < 100; i++) lines.push_back(std::string(100 * (i + 1), 'g'));
    }
    ~Global() { require(lines[99].size() == 10000 && lines[99][9999] == 'g', "a global changed"); }
} global;

} // namespace

int main(int argc, char **argv) {
    int threads = 4;
    long rounds = 400;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!std::strcmp(argv[i], "--threads")) threads = std::atoi(argv[i + 1]);
        if (!std::strcmp(argv[i], "--work")) rounds = std::atol(argv[i + 1]);
    }
    for (std::size_t size : {1, 16, 100, 4095, 4096, 4097, 70000, 3000000}) every_form(size);
    too_large();
    new_handler();
    std::vector<std::uint64_t> results(threads);
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; t++)
        pool.emplace_back([&, t] {
            for (int i = 0; i < 50; i++) at_thread_exit.kept.emplace_back(1000 * i, 'k');
            results[t] = one(t, rounds);
        });
    for (auto &t : pool) t.join();
    auto later = std::async(std::launch::async, [] { return std::make_shared<std::vector<int>>(1000000, 3); });
    auto vector = later.get();
    std::uint64_t checksum = vector->size() * vector->back();
    for (auto r : results) checksum = checksum * 1000003 + r;
    std::printf("threads %d rounds %ld checksum %016llx\n", threads, rounds, static_cast<unsigned long long>(checksum));
    return 0;
}
