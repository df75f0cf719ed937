/* What allocation calls cost, timed inside one process.
 *
 *   alloc [--scale PERCENT]
 *
 * Prints a line a measurement: workload, threads, nanoseconds of wall time and of processor time per operation of one
 * thread. The workloads:
 *
 *   small           1,000 live objects a thread, sizes 16 B to just under 4 KiB evenly over the logarithm; an operation
 *                   frees one at random, allocates another and writes its first 8 bytes
 *   large           32 live objects a thread, 64 KiB to 4 MiB likewise, allocated 20 calls deep; an operation frees one
 *                   at random, allocates another and writes one word of each of its pages, as a program that uses
 *                   what it allocates does
 *   large-untouched the same, but only the first 8 bytes are written: the bare cost of the allocator
 *   tight           malloc(64) and free in a loop; an operation is one call, half of a pair
 *
 * Sizes and choices come from tables made beforehand with fixed seeds; all threads start at a barrier.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TABLE = 1 << 14, DEPTH = 20, MAX_THREADS = 2 };

typedef struct {
    uint32_t size;
    uint16_t slot;
} step;

typedef struct {
    const char *name;
    uint32_t smallest, largest;
    int live;
    long operations;
    int touch_pages, deep;
} workload;

static const workload workloads[] = {
    {"small", 16, 4095, 1000, 6000000, 0, 0},
    {"large", 64 << 10, 4 << 20, 32, 6000, 1, 1},
    {"large-untouched", 64 << 10, 4 << 20, 32, 150000, 0, 1},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

static pthread_barrier_t barrier;
typedef struct {
    double wall, cpu;
} nanoseconds;
static nanoseconds result[MAX_THREADS];
static int scale = 100;

static double clock_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
static nanoseconds now(void) {
    return (nanoseconds){clock_of(CLOCK_MONOTONIC), clock_of(CLOCK_THREAD_CPUTIME_ID)};
}
static nanoseconds since(nanoseconds start, double operations) {
    nanoseconds end = now();
    return (nanoseconds){(end.wall - start.wall) / operations, (end.cpu - start.cpu) / operations};
}

__attribute__((noinline)) static void *allocate(size_t size) {
    void *p = malloc(size);
    if (!p) {
        fprintf(stderr, "alloc: no memory\n");
        exit(1);
    }
    return p;
}
/* The empty statement after the call keeps it from being a jump. */
__attribute__((noinline)) static void *descend(size_t size, int calls) {
    void *p = calls ? descend(size, calls - 1) : allocate(size);
    __asm__ volatile("" : "+r"(p)::"memory");
    return p;
}

static void run(const workload *w, const step *steps, void **live, long operations) {
    for (long i = 0; i < operations; i++) {
        const step *s = &steps[i % TABLE];
        free(live[s->slot]);
        char *p = w->deep ? descend(s->size, DEPTH - 2) : allocate(s->size);
        live[s->slot] = p;
        *(volatile uint64_t *)p = i;
        if (w->touch_pages)
            for (size_t at = 4096; at < s->size; at += 4096) *(volatile char *)(p + at) = 1;
    }
}

typedef struct {
    const workload *workload; /* NULL: the tight loop. */
    int index;
} job;

static void *work(void *argument) {
    job *j = argument;
    const workload *w = j->workload;
    if (!w) {
        long pairs = 20000000L * scale / 100;
        pthread_barrier_wait(&barrier);
        nanoseconds start = now();
        for (long i = 0; i < pairs; i++) {
            void *p = malloc(64);
            __asm__ volatile("" : "+r"(p)::"memory");
            free(p);
        }
        result[j->index] = since(start, 2.0 * pairs);
        return NULL;
    }
    step *steps = malloc(TABLE * sizeof *steps);
    void **live = calloc(w->live, sizeof *live);
    if (!steps || !live) exit(1);
    uint64_t state = 42 + j->index;
    for (int i = 0; i < TABLE; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double share = (state >> 40) / (double)(1 << 24);
        steps[i].size = (uint32_t)(w->smallest * pow((double)w->largest / w->smallest, share));
        steps[i].slot = (state >> 20) % w->live;
    }
    long operations = w->operations * scale / 100;
    run(w, steps, live, operations / 10); /* Warm-up: fills the live set, and the allocator's caches. */
    pthread_barrier_wait(&barrier);
    nanoseconds start = now();
    run(w, steps, live, operations);
    result[j->index] = since(start, operations);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < w->live; i++) free(live[i]);
    free(live);
    free(steps);
    return NULL;
}

static void measure(const workload *w, int threads) {
    pthread_t handles[MAX_THREADS];
    job jobs[MAX_THREADS];
    pthread_barrier_init(&barrier, NULL, threads);
    for (int t = 0; t < threads; t++) {
        jobs[t] = (job){w, t};
        if (pthread_create(&handles[t], NULL, work, &jobs[t])) exit(1);
    }
    nanoseconds sum = {0, 0};
    for (int t = 0; t < threads; t++) {
        pthread_join(handles[t], NULL);
        sum.wall += result[t].wall;
        sum.cpu += result[t].cpu;
    }
    pthread_barrier_destroy(&barrier);
    printf("%s %d %.3f %.3f\n", w ? w->name : "tight", threads, sum.wall / threads, sum.cpu / threads);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--scale")) scale = atoi(argv[2]);
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        for (int i = 0; i < WORKLOADS; i++) measure(&workloads[i], threads);
        measure(NULL, threads);
    }
    return 0;
}
