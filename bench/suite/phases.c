/*
 * Four large arrays, one of which is hot at a time.
 *
 * Origin: paper 004 (Unimem), whose subject are phases with different hot objects; also the phase changes in paper
 * 001. Synthetic: no application, but the plainest case in which a placement for the whole run cannot be right, and
 * one that follows the phases can.
 *
 * In each phase one array is read at random, as often as it has elements, and updated once from begin to end; of each
 * other one every 64th element is read. So a quarter of the bytes is hot at any time, and over the whole run all four
 * arrays are equally hot.
 */
#include "suite.h"

enum { ARRAYS = 4, SLICE = 64 };

/* What an element holds after so many updates. */
static uint64_t element(uint64_t i, uint64_t updates) { return i * 0x9e3779b97f4a7c15u + updates; }

int main(int argc, char **argv) {
    struct arguments args = suite_arguments(argc, argv, 128);
    const uint64_t n = args.bytes / ARRAYS / sizeof(uint64_t), reads = n;
    uint64_t *array[ARRAYS], updates[ARRAYS] = {0};
    for (int a = 0; a < ARRAYS; a++) array[a] = suite_must(malloc(n * sizeof(uint64_t)));
    for (int a = 0; a < ARRAYS; a++) {
        uint64_t *const x = array[a];
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < n; i++) x[i] = element(i, 0);
    }

    const long phases = suite_times(2 * ARRAYS, args.work);
    uint64_t sum = 0, right = 0;
    suite_begin();
    for (long p = 0; p < phases; p++) {
        const int hot = p % ARRAYS;
        uint64_t *const x = array[hot];
        const uint64_t now = updates[hot];
#pragma omp parallel for schedule(static) reduction(+ : sum, right)
        for (uint64_t r = 0; r < reads; r++) {
            const uint64_t at = suite_below(p * reads + r, n);
            sum += x[at];
            right += element(at, now);
        }
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < n; i++) x[i]++;
        updates[hot]++;
        for (int a = 0; a < ARRAYS; a++) {
            if (a == hot) continue;
            const uint64_t *const y = array[a];
#pragma omp parallel for schedule(static) reduction(+ : sum, right)
            for (uint64_t i = p % SLICE; i < n; i += SLICE) {
                sum += y[i];
                right += element(i, updates[a]);
            }
        }
    }
    suite_end();
    long wrong = 0;
    for (int a = 0; a < ARRAYS; a++) {
        for (uint64_t i = 0; i < n; i += 7) wrong += array[a][i] != element(i, updates[a]);
        free(array[a]);
    }
    return suite_finish(sum == right && !wrong, "%lu elements in each array, %ld phases, sum %016lx, %ld elements wrong",
                        n, phases, sum, wrong);
}
