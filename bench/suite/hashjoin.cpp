/*
 * A hash join of two tables stored by columns, with build and probe phases, followed by an aggregate over few rows.
 *
 * Origin: not in the papers; the data-base counterpart of their irregular programs (paper 001 tiers such services by
 * object too). The structure is the no-partitioning join of Blanas, Li, Patel (SIGMOD 2011).
 *
 * Build: the keys of the small table go into a hash table. Probe: each key of the large table is looked up; where the
 * row passes the filter, one row in 32, payload columns of both tables are read.
 * Hot: the hash table (9 % of the bytes), one random access for each row of the large table. Warm: the key column of
 * the large table (16 %), streamed once in each probe phase. Cold: the payload columns (73 %), of which a phase reads
 * some rows of two; the small table's keys (2 %), read in the build phase alone.
 */
#include "suite.h"

namespace {

const int columns = 2;         /* payload of each table; a phase uses one of them */
const uint64_t one_in = 32;    /* rows pass the filter */
const uint64_t empty = 0;

struct Slot {
    uint32_t key, row; /* keys begin with 1 */
};

uint32_t key_of(uint64_t row) { return (uint32_t)(row * 2 + 1); } /* of the small table */
uint64_t small_payload(uint64_t row, int column) { return row * (column + 3) ^ 0x55; }
uint64_t large_payload(uint64_t row, int column) { return row * (column + 7) ^ 0xaa; }
/* Three quarters of the large table's rows have a partner: odd keys exist, even ones do not. */
uint32_t foreign_key(uint64_t row, uint64_t rows) {
    uint64_t draw = suite_mix(row);
    return key_of((draw >> 32) * rows >> 32) + (draw % 4 == 0);
}
bool passes(uint32_t key, uint64_t phase) { return (key * 0x9e3779b1u >> 8) % one_in == phase % one_in; }

}  // namespace

int main(int argc, char **argv) {
    arguments args = suite_arguments(argc, argv, 96);
    /* Eight rows of the large table for one of the small: 20 + 12..24 + 8 x 20 bytes. */
    const uint64_t rows = args.bytes / (20 + 18 + 8 * 20.0), probes = 8 * rows;
    uint64_t slots = 1;
    while (slots < rows + rows / 2) slots *= 2;
    uint32_t *small_key = new uint32_t[rows], *large_key = new uint32_t[probes];
    uint64_t *small_column[columns], *large_column[columns];
    for (uint64_t *&c : small_column) c = new uint64_t[rows];
    for (uint64_t *&c : large_column) c = new uint64_t[probes];
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (uint64_t r = 0; r < rows; r++) {
            small_key[r] = key_of(r);
            for (int c = 0; c < columns; c++) small_column[c][r] = small_payload(r, c);
        }
#pragma omp for schedule(static)
        for (uint64_t r = 0; r < probes; r++) {
            large_key[r] = foreign_key(r, rows);
            for (int c = 0; c < columns; c++) large_column[c][r] = large_payload(r, c);
        }
    }

    /* Build: linear probing; threads claim slots. */
    suite_begin();
    Slot *table = new Slot[slots]();
    const uint64_t last = slots - 1;
    auto slot_of = [last](uint32_t key) { return (key * 0x9e3779b97f4a7c15u >> 20) & last; };
#pragma omp parallel for schedule(static)
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t s = slot_of(small_key[r]);
        for (;; s = (s + 1) & last) {
            uint32_t expected = empty;
            if (__atomic_compare_exchange_n(&table[s].key, &expected, small_key[r], false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
                break;
        }
        table[s].row = r;
    }

    const long phases = suite_times(4, args.work);
    uint64_t matches = 0, sum = 0, right = 0;
    for (long phase = 0; phase < phases; phase++) {
        const uint64_t *of_small = small_column[phase % columns], *of_large = large_column[phase / columns % columns];
#pragma omp parallel for schedule(static) reduction(+ : matches, sum)
        for (uint64_t r = 0; r < probes; r++) {
            const uint32_t key = large_key[r];
            uint64_t s = slot_of(key);
            while (table[s].key != key && table[s].key != empty) s = (s + 1) & last;
            if (table[s].key == empty) continue;
            matches++;
            if (passes(key, phase)) sum += of_small[table[s].row] + of_large[r];
        }
        /* What must come out, from the rules by which the tables were made. */
#pragma omp parallel for schedule(static) reduction(+ : right)
        for (uint64_t r = 0; r < probes; r++) {
            const uint32_t key = large_key[r];
            if (key % 2 && passes(key, phase))
                right += small_payload(key / 2, phase % columns) + large_payload(r, phase / columns % columns);
        }
    }
    suite_end();
    delete[] table;
    delete[] small_key;
    delete[] large_key;
    for (uint64_t *c : small_column) delete[] c;
    for (uint64_t *c : large_column) delete[] c;
    return suite_finish(sum == right && matches, "%lu and %lu rows, %ld probe phases, %lu matches, sum %lu", rows,
                        probes, phases, matches, sum);
}
