/* Every entry of the malloc family, its edge cases included. Prints one line a group; the first failure ends it with 1.
 *
 *   allocs [--rounds N]
 */
#define _GNU_SOURCE
/* It uses objects after a realloc that failed, on purpose: they must still be there. */
#pragma GCC diagnostic ignored "-Wuse-after-free"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                                     \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "allocs: line %d: %s is not so (errno %d)\n", __LINE__, #condition, errno); \
            _Exit(1);                                                                                          \
        }                                                                                                      \
    } while (0)

/* The optimiser knows malloc's contract and would leave calls and checks out: this hides values from it. */
#define HIDE(x) __asm__ volatile("" : "+r"(x)::"memory")

static const size_t sizes[] = {0,    1,    7,     8,     16,    24,     100,     1000,    2048,    4000,     4095,
                               4096, 4097, 8192,  10000, 65535, 65536,  65537,   100000,  131072,  131073,   262144,
                               1000000, 1 << 20, (1 << 21) - 1, 1 << 21, (1 << 21) + 1, 5000000, 9000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A prime number of bytes that repeat, so that no two pages of an object are alike; by blocks, as bytes one by one take seconds. */
enum { PERIOD = 4093 };
static uint8_t pattern[2 * PERIOD];
static void __attribute__((constructor)) make_pattern(void) {
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (uint8_t)(i % PERIOD * 131 + (i % PERIOD >> 9));
}
static size_t block(size_t n) { return n < PERIOD ? n : PERIOD; }
static void fill(void *memory, size_t n, unsigned seed) {
    for (uint8_t *p = memory; n; n -= block(n), p += PERIOD) memcpy(p, pattern + seed % PERIOD, block(n));
}
static int holds(const void *memory, size_t n, unsigned seed) {
    for (const uint8_t *p = memory; n; n -= block(n), p += PERIOD)
        if (memcmp(p, pattern + seed % PERIOD, block(n))) return 0;
    return 1;
}
static int zero(const void *memory, size_t n) {
    const uint8_t *p = memory;
    return n == 0 || (p[0] == 0 && !memcmp(p, p + 1, n - 1));
}
static int aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

static void plain(void) {
    void *p[SIZES];
    for (int i = 0; i < SIZES; i++) {
        p[i] = malloc(sizes[i]);
        HIDE(p[i]);
        REQUIRE(p[i] && aligned(p[i], 16));
        fill(p[i], sizes[i], i);
    }
    for (int i = 0; i < SIZES; i++) {
        for (int j = 0; j < i; j++) REQUIRE(p[i] != p[j]);
        REQUIRE(holds(p[i], sizes[i], i));
    }
    for (int i = 0; i < SIZES; i++) {
        errno = 4711;
        free(p[i]);
        REQUIRE(errno == 4711);
    }
    free(NULL);
}

static void zeroed(void) {
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < SIZES; i++) {
            /* The second round gets memory that the first made dirty. */
            uint8_t *p = calloc(sizes[i], 1);
            HIDE(p);
            REQUIRE(p && aligned(p, 16) && zero(p, sizes[i]));
            fill(p, sizes[i], 99);
            free(p);
            p = calloc(3, sizes[i]);
            HIDE(p);
            REQUIRE(p && zero(p, 3 * sizes[i]));
            fill(p, 3 * sizes[i], 98);
            free(p);
        }
    volatile size_t huge = SIZE_MAX / 2;
    errno = 0;
    void *p = calloc(huge, 4);
    HIDE(p);
    REQUIRE(p == NULL && errno == ENOMEM);
}

static void resized(void) {
    for (int from = 0; from < SIZES; from++)
        for (int to = 1; to < SIZES; to++) {
            if (sizes[from] > 130000 && sizes[to] > 130000 && (from + to) % 4) continue; /* Saves time. */
            void *p = malloc(sizes[from]);
            HIDE(p);
            REQUIRE(p);
            fill(p, sizes[from], from);
            p = realloc(p, sizes[to]);
            HIDE(p);
            REQUIRE(p && aligned(p, 16));
            REQUIRE(holds(p, sizes[from] < sizes[to] ? sizes[from] : sizes[to], from));
            fill(p, sizes[to], to);
            REQUIRE(malloc_usable_size(p) >= sizes[to]);
            free(p);
        }
    /* Grows and shrinks across 4 KiB, step by step. */
    void *p = NULL;
    size_t had = 0;
    for (size_t n = 3500; n < 5000; n += 13) {
        p = realloc(p, n);
        HIDE(p);
        REQUIRE(p && holds(p, had, 5));
        fill(p, had = n, 5);
    }
    for (size_t n = 5000; n > 3500; n -= 17) {
        p = realloc(p, n);
        HIDE(p);
        REQUIRE(p && holds(p, n < had ? n : had, 5));
        fill(p, had = n, 5);
    }
    /* glibc's realloc to nothing frees and returns NULL. */
    p = realloc(p, 0);
    REQUIRE(p == NULL);
    p = malloc(100000);
    HIDE(p);
    p = realloc(p, 0);
    REQUIRE(p == NULL);
    p = realloc(NULL, 0);
    HIDE(p);
    REQUIRE(p != NULL);
    free(p);
    /* A failed realloc leaves the object alone. */
    for (size_t n = 100; n < 1000000; n *= 30) {
        p = malloc(n);
        HIDE(p);
        fill(p, n, 6);
        volatile size_t huge = SIZE_MAX / 2 - 4096;
        errno = 0;
        void *q = realloc(p, huge);
        HIDE(q);
        REQUIRE(q == NULL && errno == ENOMEM && holds(p, n, 6));
        errno = 0;
        q = reallocarray(p, huge, 8);
        HIDE(q);
        REQUIRE(q == NULL && errno == ENOMEM && holds(p, n, 6));
        q = reallocarray(p, 7, n);
        HIDE(q);
        REQUIRE(q && holds(q, n, 6));
        free(q);
    }
}

static void alignments(void) {
    for (size_t to = 8; to <= 2 << 20; to *= 2)
        for (int i = 0; i < SIZES; i++) {
            if (to > 65536 && sizes[i] > 2000000) continue;
            void *p = NULL;
            errno = 4711;
            REQUIRE(posix_memalign(&p, to, sizes[i]) == 0 && p && aligned(p, to) && errno == 4711);
            fill(p, sizes[i], i);
            void *q = memalign(to, sizes[i]);
            HIDE(q);
            REQUIRE(q && q != p && aligned(q, to));
            fill(q, sizes[i], i + 1);
            size_t whole = (sizes[i] + to - 1) / to * to;
            void *r = aligned_alloc(to, whole);
            HIDE(r);
            REQUIRE(r && aligned(r, to));
            fill(r, whole, i + 2);
            REQUIRE(holds(p, sizes[i], i) && holds(q, sizes[i], i + 1) && holds(r, whole, i + 2));
            free(p);
            q = realloc(q, sizes[i] + 100);
            HIDE(q);
            REQUIRE(q && holds(q, sizes[i], i + 1));
            free(q);
            free(r);
        }
    size_t page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SIZES; i++) {
        void *p = valloc(sizes[i]), *q = pvalloc(sizes[i]);
        HIDE(p);
        HIDE(q);
        REQUIRE(p && q && aligned(p, page) && aligned(q, page));
        REQUIRE(malloc_usable_size(q) >= (sizes[i] + page - 1) / page * page);
        fill(p, sizes[i], i);
        fill(q, malloc_usable_size(q), i + 1);
        REQUIRE(holds(p, sizes[i], i));
        free(p);
        free(q);
    }
    static const size_t wrong[] = {0, 1, 2, 4, 3, 12, 24, 100, 4095, 6000};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (size_t n = 10; n < 200000; n *= 100) {
            volatile size_t to = wrong[i];
            void *p = (void *)0x5a5a;
            REQUIRE(posix_memalign(&p, to, n) == EINVAL && p == (void *)0x5a5a);
        }
    volatile size_t huge = SIZE_MAX / 2 - 4096;
    void *p = (void *)0x5a5a;
    REQUIRE(posix_memalign(&p, 64, huge) == ENOMEM && p == (void *)0x5a5a);
    errno = 0;
    p = aligned_alloc(64, huge & ~63);
    HIDE(p);
    REQUIRE(p == NULL && errno == ENOMEM);
}

static void usable(void) {
    REQUIRE(malloc_usable_size(NULL) == 0);
    for (int i = 0; i < SIZES; i++) {
        void *p = malloc(sizes[i]);
        HIDE(p);
        size_t n = malloc_usable_size(p);
        REQUIRE(n >= sizes[i]);
        fill(p, n, i);
        void *q = malloc(sizes[i]);
        HIDE(q);
        fill(q, malloc_usable_size(q), i + 1);
        REQUIRE(holds(p, n, i));
        free(p);
        free(q);
    }
}

static void refused(void) {
    volatile size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 - 4096, (size_t)1 << 62, (size_t)1 << 50};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        errno = 0;
        void *p = malloc(huge[i]);
        HIDE(p);
        REQUIRE(p == NULL && errno == ENOMEM);
    }
    void *p = malloc(100000);
    HIDE(p);
    REQUIRE(p);
    free(p);
}

/* ---- threads ---- */
enum { HANDED = 200 };
static void *handed[HANDED];
static size_t handed_size[HANDED];
static pthread_key_t key;

static void *hand_over(void *unused) {
    (void)unused;
    for (int i = 0; i < HANDED; i++) {
        handed_size[i] = sizes[i % SIZES] < 300000 ? sizes[i % SIZES] : 4096;
        handed[i] = malloc(handed_size[i]);
        HIDE(handed[i]);
        REQUIRE(handed[i]);
        fill(handed[i], handed_size[i], i);
    }
    return NULL; /* Ends with all of them alive. */
}
static void *take_back(void *unused) {
    (void)unused;
    for (int i = 0; i < HANDED; i++) {
        REQUIRE(holds(handed[i], handed_size[i], i));
        if (i % 3) {
            errno = 4711;
            free(handed[i]);
            REQUIRE(errno == 4711);
        } else {
            void *p = realloc(handed[i], handed_size[i] + 5000);
            HIDE(p);
            REQUIRE(p && holds(p, handed_size[i], i));
            free(p);
        }
    }
    return NULL;
}

/* Runs as the thread's own storage is taken down; sets itself again so that it runs in several rounds. */
static void at_exit(void *value) {
    intptr_t *left = value;
    void *p = malloc(70000), *q = calloc(1, 700);
    HIDE(p);
    HIDE(q);
    REQUIRE(p && q && zero(q, 700));
    fill(p, 70000, 3);
    p = realloc(p, 140000);
    HIDE(p);
    REQUIRE(p && holds(p, 70000, 3));
    free(p);
    free(q);
    if (--*left > 0) pthread_setspecific(key, left);
    else free(left);
}
static void *with_destructor(void *unused) {
    (void)unused;
    intptr_t *left = malloc(8192);
    HIDE(left);
    REQUIRE(left);
    *left = 4;
    REQUIRE(pthread_setspecific(key, left) == 0);
    return NULL;
}
static void *churn(void *seed) {
    uintptr_t state = (uintptr_t)seed;
    void *live[50] = {0};
    size_t size[50] = {0};
    for (int round = 0; round < 3000; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int i = (state >> 40) % 50;
        if (live[i]) REQUIRE(holds(live[i], size[i] < 64 ? size[i] : 64, i));
        free(live[i]);
        size[i] = (state >> 33) % 50000;
        live[i] = (state >> 60) & 1 ? malloc(size[i]) : calloc(1, size[i]);
        HIDE(live[i]);
        REQUIRE(live[i]);
        fill(live[i], size[i] < 64 ? size[i] : 64, i);
    }
    for (int i = 0; i < 50; i++) free(live[i]);
    return NULL;
}
static void threads(void) {
    REQUIRE(pthread_key_create(&key, at_exit) == 0);
    for (int round = 0; round < 5; round++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, hand_over, NULL) == 0 && pthread_join(t, NULL) == 0);
        REQUIRE(pthread_create(&t, NULL, take_back, NULL) == 0 && pthread_join(t, NULL) == 0);
        pthread_t many[8];
        for (int i = 0; i < 8; i++) REQUIRE(pthread_create(&many[i], NULL, with_destructor, NULL) == 0);
        for (int i = 0; i < 8; i++) REQUIRE(pthread_join(many[i], NULL) == 0);
        for (intptr_t i = 0; i < 8; i++) REQUIRE(pthread_create(&many[i], NULL, churn, (void *)(i + 1)) == 0);
        for (int i = 0; i < 8; i++) REQUIRE(pthread_join(many[i], NULL) == 0);
    }
    /* Many short threads: whatever is kept per thread must be given back or used again. */
    for (int i = 0; i < 2000; i++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, with_destructor, NULL) == 0 && pthread_join(t, NULL) == 0);
    }
}

int main(int argc, char **argv) {
    int rounds = argc == 3 && !strcmp(argv[1], "--rounds") ? atoi(argv[2]) : 1;
    for (int round = 0; round < rounds; round++) {
        plain();
        zeroed();
        resized();
        alignments();
        usable();
        refused();
        threads();
    }
    printf("ok malloc\nok calloc\nok realloc\nok alignments\nok malloc_usable_size\nok refusals\nok threads\n");
    return 0;
}
