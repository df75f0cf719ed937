/* Pairs of malloc and free of so many bytes, of which one is touched, by one or several threads at once: pairs BYTES PAIRS [THREADS]
 * Says for a pair of one thread ns of the clock, ns of its processor's time, and how often all threads together slept, waiting for something. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST = 64 };
static size_t bytes = 8192;
static long pairs = 1000000;
static pthread_barrier_t start;
static struct result {
    double wall, spent;
    long slept;
} results[MOST];

static double ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void turn(long n) {
    for (long i = 0; i < n; i++) {
        char *volatile kept = malloc(bytes);
        *kept = 1;
        free(kept);
    }
}

static void *work(void *mine) {
    struct result *r = mine;
    struct rusage before, after;
    turn(pairs / 4 + 1);
    pthread_barrier_wait(&start);
    getrusage(RUSAGE_THREAD, &before);
    double wall = ns(CLOCK_MONOTONIC), spent = ns(CLOCK_THREAD_CPUTIME_ID);
    turn(pairs);
    r->wall = (ns(CLOCK_MONOTONIC) - wall) / pairs;
    r->spent = (ns(CLOCK_THREAD_CPUTIME_ID) - spent) / pairs;
    getrusage(RUSAGE_THREAD, &after);
    r->slept = after.ru_nvcsw - before.ru_nvcsw;
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (argc > 1) bytes = atol(argv[1]);
    if (argc > 2) pairs = atol(argv[2]);
    if (threads < 1 || threads > MOST || pairs < 1) return 2;
    pthread_barrier_init(&start, 0, threads);
    pthread_t others[MOST];
    for (int i = 1; i < threads; i++)
        if (pthread_create(&others[i], 0, work, &results[i])) return 1;
    work(&results[0]);
    struct result all = results[0];
    for (int i = 1; i < threads; i++) {
        pthread_join(others[i], 0);
        all.wall += results[i].wall;
        all.spent += results[i].spent;
        all.slept += results[i].slept;
    }
    printf("%.1f %.1f %ld\n", all.wall / threads, all.spent / threads, all.slept);
    return 0;
}
