/* Threads that sleep since before there was anything to sample: one made as usual, the others behind the back of whatever is preloaded
 * (as jemalloc makes its own), of which one waits for a semaphore and one does so with a limit. The main thread works on a large array
 * meanwhile; woken at last they read from a file into memory that was allocated for them, and wait with a limit, and nothing may
 * fail or be interrupted.
 *
 *   sleepers SECONDS
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, BYTES = 8 << 20, WORDS = 8 << 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int go;
static char *buffers[THREADS];
static sem_t posted, posted_too;

static void *sleeper(void *p) {
    char *buffer;
    pthread_mutex_lock(&lock);
    while (!go) {
        int failed = pthread_cond_wait(&wake, &lock);
        if (failed) fprintf(stderr, "sleepers: waiting: %s\n", strerror(failed)), _exit(1);
    }
    buffer = buffers[(intptr_t)p];
    pthread_mutex_unlock(&lock);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += 20000000;
    if (limit.tv_nsec >= 1000000000) limit.tv_sec++, limit.tv_nsec -= 1000000000;
    pthread_cond_t nobody = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&nobody, &lock, &limit) != ETIMEDOUT) {}
    pthread_mutex_unlock(&lock);
    int zero = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < 50; i++) {
        ssize_t got = read(zero, buffer, BYTES);
        if (got != BYTES) fprintf(stderr, "sleepers: %zd bytes read: %s\n", got, strerror(errno)), _exit(1);
    }
    close(zero);
    return NULL;
}

static void *waits(void *limited) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 600;
    if (limited ? sem_timedwait(&posted_too, &limit) : sem_wait(&posted))
        fprintf(stderr, "sleepers: waiting for a semaphore: %s\n", strerror(errno)), _exit(1);
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    int (*behind)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(libc, "pthread_create");
    pthread_t threads[THREADS];
    if (!behind || pthread_create(&threads[0], NULL, sleeper, (void *)0) || behind(&threads[1], NULL, sleeper, (void *)1)) return 1;
    pthread_t more[2];
    for (intptr_t i = 0; i < 2; i++)
        if (sem_init(i ? &posted_too : &posted, 0, 0) || behind(&more[i], NULL, waits, (void *)i)) return 1;
    usleep(50000);
    uint64_t *array = malloc(WORDS * 8), sum = 0, at = 1;
    for (size_t i = 0; i < WORDS; i++) array[i] = i;
    for (int i = 0; i < THREADS; i++) memset(buffers[i] = malloc(BYTES), 1, BYTES);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 100000; i++) sum += array[at = (at * 6364136223846793005u + 1442695040888963407u) % WORDS];
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
    pthread_mutex_lock(&lock);
    go = 1;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    sem_post(&posted);
    sem_post(&posted_too);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) pthread_join(more[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < BYTES; j++)
            if (buffers[i][j]) return fprintf(stderr, "sleepers: what was read is not there\n"), 1;
    printf("%s\n", sum ? "awake" : "?");
    return 0;
}
