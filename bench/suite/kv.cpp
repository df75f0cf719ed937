/*
 * A key-value store in memory: get, update and replace with skewed keys, many small objects, and a log of changes.
 *
 * Origin: not in the papers; the kind of server that the live engine meets. The load is that of YCSB (Cooper et al.,
 * SoCC 2010): keys by a Zipf law with exponent 0.99, 95 % reads; values of 64 to 512 bytes, each its own malloc.
 *
 * Hot: the values of popular keys, a small part of the heap (78 % of the bytes) that is scattered all over it, as
 * keys were loaded in another order; the index (2 %), for every request. Cold: the other values, and the log (20 %),
 * written in order and never read.
 */
#include "suite.h"
#include <algorithm>
#include <atomic>

namespace {

struct Value {
    uint32_t key, version;
    uint32_t words; /* that follow */
    uint32_t updates;
    uint64_t word[];
};

const int stripes = 1024;
std::atomic_flag lock[stripes];
uint64_t keys;
Value **value_of; /* the index: where a key's value is */
uint64_t *log_words;
uint64_t log_size;
std::atomic<uint64_t> log_end;

uint64_t word_of(uint32_t key, uint32_t version, uint64_t i) { return (key + i) * 0x9e3779b97f4a7c15u + version; }

/* 64 to 512 bytes in all, as the key and its version have it. */
Value *make(uint32_t key, uint32_t version) {
    const uint32_t words = 6 + suite_below((uint64_t)version << 32 | key, 57);
    Value *v = (Value *)suite_must(std::malloc(sizeof(Value) + words * sizeof(uint64_t)));
    *v = {key, version, words, 0};
    for (uint32_t i = 0; i < words; i++) v->word[i] = word_of(key, version, i);
    return v;
}

/* Appends to the log, which begins again when it is full. */
void append(const Value &v) {
    const uint64_t length = 2 + v.words;
    uint64_t at = log_end.fetch_add(length, std::memory_order_relaxed);
    for (uint64_t i = 0; i < length; i++)
        __atomic_store_n(&log_words[(at + i) % log_size], i < 2 ? v.key : v.word[i - 2], __ATOMIC_RELAXED);
}

/* Whether every word is what it should be. */
bool intact(const Value &v, uint32_t key) {
    uint64_t wrong = v.key ^ key;
    for (uint32_t i = 0; i < v.words; i++) wrong |= v.word[i] ^ word_of(key, v.version, i);
    return wrong == 0;
}

}  // namespace

int main(int argc, char **argv) {
    arguments args = suite_arguments(argc, argv, 80);
    /* A value takes 296 bytes on average with malloc's own, its place in the index eight; a fifth is log. */
    keys = (uint64_t)(args.bytes * 0.8 / (296 + 8));
    log_size = args.bytes / 5 / sizeof(uint64_t);
    value_of = new Value *[keys];
    log_words = new uint64_t[log_size]();
    for (uint64_t k = 0; k < keys; k++) value_of[k] = make(k, 0);

    /* Zipf's law by inverting its integral; ranks become keys by a step that has no common factor with their number. */
    const double exponent = 0.99, reach = std::pow(keys + 1.0, 1 - exponent) - 1;
    uint64_t step = keys * 0.6180339887 + 1;
    while (std::__gcd(step, keys) != 1) step++;

    const long requests = suite_times(1000000, args.work);
    uint64_t broken = 0, updates = 0, replaced = 0;
    suite_begin();
#pragma omp parallel for schedule(static) reduction(+ : broken, updates, replaced)
    for (long r = 0; r < requests; r++) {
        const double u = suite_unit(2 * r);
        uint64_t rank = (uint64_t)std::pow(u * reach + 1, 1 / (1 - exponent)) - 1;
        const uint64_t key = std::min(rank, keys - 1) * step % keys;
        const uint64_t kind = suite_below(2 * r + 1, 100);
        std::atomic_flag &mine = lock[key % stripes];
        while (mine.test_and_set(std::memory_order_acquire)) continue;
        Value *v = value_of[key];
        broken += !intact(*v, key);
        if (kind >= 98) { /* replace: a value of another size */
            value_of[key] = make(key, v->version + 1);
            append(*value_of[key]);
            std::free(v);
            replaced++;
        } else if (kind >= 95) { /* update in place */
            v->updates++;
            append(*v);
            updates++;
        }
        mine.clear(std::memory_order_release);
    }

    suite_end();
    /* No replacement may be lost, and no value be broken. */
    uint64_t versions = 0, checksum = 0;
    for (uint64_t k = 0; k < keys; k++) {
        versions += value_of[k]->version;
        checksum += suite_mix(k) * value_of[k]->version + value_of[k]->words;
        broken += value_of[k]->key != k;
        std::free(value_of[k]);
    }
    const uint64_t logged = log_end;
    delete[] value_of;
    delete[] log_words;
    return suite_finish(!broken && versions == replaced && logged >= 8 * (updates + replaced),
                        "%lu keys, %ld requests, %lu updated, %lu replaced, %lu broken, checksum %016lx", keys,
                        requests, updates, replaced, broken, checksum);
}
