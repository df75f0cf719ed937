/* POSIX threads that allocate, pass on, resize and free objects of many sizes: same output whatever the allocator.
 *
 *   threads_c [--threads N] [--work ROUNDS]
 *
 * Every object is filled with a pattern of its own and checked before it is freed, half of the time by another thread.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64, LIVE = 64, MAILBOX = 16 };

typedef struct {
    uint8_t *bytes;
    size_t size;
    uint8_t seed;
} object;

typedef struct {
    pthread_mutex_t lock;
    object slot[MAILBOX];
    int used;
} mailbox;

static mailbox boxes[MAX_THREADS];
static int threads = 4;
static long rounds = 3000;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void fill(object *o) {
    for (size_t i = 0; i < o->size; i += 61) o->bytes[i] = (uint8_t)(o->seed + i);
    if (o->size) o->bytes[o->size - 1] = (uint8_t)(o->seed + o->size - 1);
}

static void check(const object *o, size_t size) {
    for (size_t i = 0; i < size; i += 61)
        if (o->bytes[i] != (uint8_t)(o->seed + i)) {
            fprintf(stderr, "threads: byte %zu of an object of %zu is %d\n", i, o->size, o->bytes[i]);
            _Exit(1);
        }
}

static void *must(void *p) {
    if (!p) {
        fprintf(stderr, "threads: no memory\n");
        _Exit(1);
    }
    return p;
}

__attribute__((noinline)) static void *small(uint64_t *state, size_t *size) {
    return must(malloc(*size = 1 + next(state) % 512));
}
__attribute__((noinline)) static void *medium(uint64_t *state, size_t *size) {
    return must(malloc(*size = 4096 + next(state) % 60000));
}
__attribute__((noinline)) static void *large(uint64_t *state, size_t *size) {
    return must(calloc(1, *size = 65536 + next(state) % 2000000));
}

static void drop(object *o) {
    check(o, o->size);
    free(o->bytes);
    o->bytes = NULL;
}

static void *run(void *argument) {
    long me = (long)argument;
    uint64_t state = 12345 + me, sum = 0;
    object live[LIVE] = {0};
    for (long round = 0; round < rounds; round++) {
        object *o = &live[next(&state) % LIVE];
        uint64_t dice = next(&state) % 100;
        if (!o->bytes) {
            o->bytes = dice < 70 ? small(&state, &o->size) : dice < 95 ? medium(&state, &o->size) : large(&state, &o->size);
            o->seed = (uint8_t)next(&state);
            fill(o);
            sum += o->size;
        } else if (dice < 30) {
            size_t size = 1 + next(&state) % (2 * o->size), kept = size < o->size ? size : o->size;
            o->bytes = must(realloc(o->bytes, size));
            check(o, kept);
            o->size = size;
            fill(o);
            sum += size;
        } else if (dice < 60) {
            /* Hand it to a neighbour, who frees it; if its box is full, free it here. */
            mailbox *box = &boxes[next(&state) % threads];
            pthread_mutex_lock(&box->lock);
            int handed = box->used < MAILBOX;
            if (handed) box->slot[box->used++] = *o;
            pthread_mutex_unlock(&box->lock);
            if (handed) o->bytes = NULL;
            else drop(o);
        } else {
            drop(o);
        }
        mailbox *box = &boxes[me];
        pthread_mutex_lock(&box->lock);
        object mine = {0};
        if (box->used) mine = box->slot[--box->used];
        pthread_mutex_unlock(&box->lock);
        if (mine.bytes) drop(&mine);
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].bytes) drop(&live[i]);
    uint64_t *result = must(malloc(sizeof *result));
    *result = sum;
    return result;
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--work")) rounds = atol(argv[i + 1]);
    }
    if (threads < 1 || threads > MAX_THREADS) return 2;
    for (int t = 0; t < threads; t++) pthread_mutex_init(&boxes[t].lock, NULL);
    uint64_t sum = 0;
    /* Three generations, so that threads end and new ones begin. */
    for (int generation = 0; generation < 3; generation++) {
        pthread_t handles[MAX_THREADS];
        for (long t = 0; t < threads; t++)
            if (pthread_create(&handles[t], NULL, run, (void *)t)) return 1;
        for (int t = 0; t < threads; t++) {
            void *result;
            pthread_join(handles[t], &result);
            sum = sum * 31 + *(uint64_t *)result;
            free(result);
        }
    }
    for (int t = 0; t < threads; t++)
        while (boxes[t].used) drop(&boxes[t].slot[--boxes[t].used]);
    printf("threads %d rounds %ld checksum %016llx\n", threads, rounds, (unsigned long long)sum);
    return 0;
}
