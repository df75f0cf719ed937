/* Eight objects of known behaviour, two threads: the yardstick of the samplers.
 *
 * Every object has its own allocation function. A round does a fixed number of accesses to each, so that the numbers
 * of cache lines touched form a geometric series over two orders of magnitude, in another order than the numbers of
 * accesses or of pages visited: only an estimator of misses ranks them rightly.
 *
 *   eight [--seconds S | --work ROUNDS] [--threads N] [--scale PERCENT] [--truth FILE]
 *
 * Built with -DSIMULATE, every access also goes through a simulated last-level cache (LLC_KIB, 16 ways, 64-byte lines,
 * least recently used, shared by the threads); one set in 64 is simulated, chosen by a hash of the line's address. With
 * the same --work both builds do the same accesses. --truth writes the counts as JSON lines; the plain build writes no
 * misses.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAM_READ, STREAM_WRITE, STRIDED, RANDOM_READ, RANDOM_WRITE, CHASE, RMW, RESIDENT, OBJECTS };
enum { LINE = 64, WORDS = LINE / 8, STRIDE = 256, MAX_THREADS = 64 };

static const char *const function_name[OBJECTS] = {
    "alloc_stream_read",  "alloc_stream_write", "alloc_strided", "alloc_random_read",
    "alloc_random_write", "alloc_chase",        "alloc_rmw",     "alloc_resident",
};
static const char *const object_name[OBJECTS] = {
    "stream_read", "stream_write", "strided", "random_read", "random_write", "chase", "rmw", "resident",
};
static const size_t kib[OBJECTS] = {128 << 10, 32 << 10, 64 << 10, 128 << 10, 48 << 10, 64 << 10, 96 << 10, 256};
/* Lines touched in a round by one thread (a factor of about 2.15 apart); the resident object is read twice over. */
static const size_t lines_a_round[OBJECTS] = {2944, 64, 294, 6400, 140, 1408, 640, 2 * 4096};

static uint64_t *object[OBJECTS];
static size_t words[OBJECTS];

typedef struct {
    uint64_t loads[OBJECTS], stores[OBJECTS], load_misses[OBJECTS], store_misses[OBJECTS];
} counts;

/* ---- the simulated cache ---- */
#ifdef SIMULATE
enum { WAYS = 16, SAMPLED = 64 };
typedef struct {
    uint64_t line[WAYS]; /* most recently used first */
    pthread_spinlock_t lock;
} cache_set;
static cache_set *sets;
static uint64_t set_count;

static void simulate_init(void) {
    const char *text = getenv("LLC_KIB");
    uint64_t size = (text ? strtoull(text, NULL, 10) : 32 << 10) * 1024;
    set_count = size / (LINE * WAYS) / SAMPLED;
    if (set_count == 0) {
        fprintf(stderr, "eight: LLC_KIB is too small\n");
        exit(2);
    }
    sets = calloc(set_count, sizeof *sets);
    for (uint64_t i = 0; i < set_count; i++) pthread_spin_init(&sets[i].lock, 0);
}

static void simulate(counts *c, int which, const void *address, int store) {
    uint64_t line = (uint64_t)address / LINE;
    uint64_t hash = line * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 32;
    if (hash % SAMPLED) return;
    cache_set *set = &sets[hash / SAMPLED % set_count];
    pthread_spin_lock(&set->lock);
    int way = 0;
    while (way < WAYS - 1 && set->line[way] != line) way++;
    int hit = set->line[way] == line;
    memmove(&set->line[1], &set->line[0], way * sizeof set->line[0]);
    set->line[0] = line;
    pthread_spin_unlock(&set->lock);
    if (!hit) (store ? c->store_misses : c->load_misses)[which] += SAMPLED;
}
#define LOADED(which, p) (c->loads[which]++, simulate(c, which, (p), 0))
#define STORED(which, p) (c->stores[which]++, simulate(c, which, (p), 1))
#define LOADED_MANY(which, n) ((void)(n))
#define STORED_MANY(which, n) ((void)(n))
#else
static void simulate_init(void) {}
/* The plain build counts a whole loop at once and leaves the loops to the optimiser. */
#define LOADED(which, p) ((void)(p))
#define STORED(which, p) ((void)(p))
#define LOADED_MANY(which, n) (c->loads[which] += (n))
#define STORED_MANY(which, n) (c->stores[which] += (n))
#endif

/* ---- the sites ---- */
static void fail(const char *name) {
    fprintf(stderr, "eight: no memory for %s\n", name);
    exit(1);
}
/* Each differs by its name, so that identical-code folding cannot merge them, and looks at the result, so that the
 * call is not a jump. */
#define SITE(function)                                                   \
    __attribute__((noinline, noclone)) static void *function(size_t n) { \
        void *p = malloc(n);                                             \
        if (!p) fail(#function);                                         \
        return p;                                                        \
    }
SITE(alloc_stream_read)
SITE(alloc_stream_write)
SITE(alloc_strided)
SITE(alloc_random_read)
SITE(alloc_random_write)
SITE(alloc_chase)
SITE(alloc_rmw)
SITE(alloc_resident)

static uint64_t next(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

static void initialise(counts *c) {
    for (int which = 0; which < OBJECTS; which++) {
        if (which == CHASE) continue;
        uint64_t *a = object[which];
        for (size_t i = 0; i < words[which]; i++) {
            a[i] = i;
            STORED(which, &a[i]);
        }
        STORED_MANY(which, words[which]);
    }
    /* Sattolo's shuffle: one cycle through all lines. */
    uint64_t *a = object[CHASE], state = 88172645463325252u;
    size_t n = words[CHASE] / WORDS;
    for (size_t i = 0; i < n; i++) {
        a[i * WORDS] = i;
        STORED(CHASE, &a[i * WORDS]);
    }
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = next(&state) % i;
        uint64_t swap = a[i * WORDS];
        a[i * WORDS] = a[j * WORDS];
        a[j * WORDS] = swap;
        LOADED(CHASE, &a[i * WORDS]);
        LOADED(CHASE, &a[j * WORDS]);
        STORED(CHASE, &a[i * WORDS]);
        STORED(CHASE, &a[j * WORDS]);
    }
    LOADED_MANY(CHASE, 2 * (n - 1));
    STORED_MANY(CHASE, n + 2 * (n - 1));
}

/* ---- the work ---- */
typedef struct {
    int index, threads;
    uint64_t rounds, done, sum;
    double seconds;
    counts counts;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *work(void *argument) {
    worker *w = argument;
    counts *c = &w->counts;
    uint64_t state = 0x9e3779b97f4a7c15u * (w->index + 1), sum = 0;
    /* Each thread starts elsewhere and goes over the whole object. */
    size_t at[OBJECTS];
    for (int which = 0; which < OBJECTS; which++) {
        size_t lines = words[which] / WORDS;
        at[which] = lines / w->threads * w->index * WORDS;
    }
    uint64_t chase = at[CHASE] / WORDS;
    size_t strided = at[STRIDED] / (STRIDE / 8) * (STRIDE / 8);
    double end = now() + w->seconds;

    for (w->done = 0; w->rounds ? w->done < w->rounds : now() < end; w->done++) {
        uint64_t *a = object[STREAM_READ];
        for (size_t line = 0; line < lines_a_round[STREAM_READ]; line++) {
            for (size_t i = 0; i < WORDS; i++) {
                sum += a[at[STREAM_READ] + i];
                LOADED(STREAM_READ, &a[at[STREAM_READ] + i]);
            }
            at[STREAM_READ] += WORDS;
            if (at[STREAM_READ] + WORDS > words[STREAM_READ]) at[STREAM_READ] = 0;
        }
        LOADED_MANY(STREAM_READ, lines_a_round[STREAM_READ] * WORDS);

        a = object[STREAM_WRITE];
        for (size_t line = 0; line < lines_a_round[STREAM_WRITE]; line++) {
            for (size_t i = 0; i < WORDS; i++) {
                a[at[STREAM_WRITE] + i] = w->done + i;
                STORED(STREAM_WRITE, &a[at[STREAM_WRITE] + i]);
            }
            at[STREAM_WRITE] += WORDS;
            if (at[STREAM_WRITE] + WORDS > words[STREAM_WRITE]) at[STREAM_WRITE] = 0;
        }
        STORED_MANY(STREAM_WRITE, lines_a_round[STREAM_WRITE] * WORDS);

        a = object[STRIDED];
        for (size_t i = 0; i < lines_a_round[STRIDED]; i++) {
            sum += a[strided];
            LOADED(STRIDED, &a[strided]);
            strided += STRIDE / 8;
            /* The next pass takes the next column, so that every line is used. */
            if (strided >= words[STRIDED]) strided = (strided + WORDS) % (STRIDE / 8);
        }
        LOADED_MANY(STRIDED, lines_a_round[STRIDED]);

        a = object[RANDOM_READ];
        for (size_t i = 0; i < lines_a_round[RANDOM_READ]; i++) {
            size_t word = next(&state) % words[RANDOM_READ];
            sum += a[word];
            LOADED(RANDOM_READ, &a[word]);
        }
        LOADED_MANY(RANDOM_READ, lines_a_round[RANDOM_READ]);

        a = object[RANDOM_WRITE];
        for (size_t i = 0; i < lines_a_round[RANDOM_WRITE]; i++) {
            size_t word = next(&state) % words[RANDOM_WRITE];
            a[word] = i;
            STORED(RANDOM_WRITE, &a[word]);
        }
        STORED_MANY(RANDOM_WRITE, lines_a_round[RANDOM_WRITE]);

        a = object[CHASE];
        for (size_t i = 0; i < lines_a_round[CHASE]; i++) {
            LOADED(CHASE, &a[chase * WORDS]);
            chase = a[chase * WORDS];
        }
        LOADED_MANY(CHASE, lines_a_round[CHASE]);

        a = object[RMW];
        for (size_t line = 0; line < lines_a_round[RMW]; line++) {
            for (size_t i = 0; i < WORDS; i++) {
                a[at[RMW] + i] = a[at[RMW] + i] * 3 + 1;
                LOADED(RMW, &a[at[RMW] + i]);
                STORED(RMW, &a[at[RMW] + i]);
            }
            at[RMW] += WORDS;
            if (at[RMW] + WORDS > words[RMW]) at[RMW] = 0;
        }
        LOADED_MANY(RMW, lines_a_round[RMW] * WORDS);
        STORED_MANY(RMW, lines_a_round[RMW] * WORDS);

        a = object[RESIDENT];
        for (size_t i = 0; i < lines_a_round[RESIDENT] * WORDS; i++) {
            sum += a[i % words[RESIDENT]];
            LOADED(RESIDENT, &a[i % words[RESIDENT]]);
        }
        LOADED_MANY(RESIDENT, lines_a_round[RESIDENT] * WORDS);
        /* Keeps the optimiser from merging the two readings of the resident object into one. */
        __asm__ volatile("" ::: "memory");
    }
    w->sum = sum + chase;
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = 10;
    uint64_t rounds = 0;
    int threads = 2, scale = 100;
    const char *truth = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--work")) rounds = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--scale")) scale = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--truth")) truth = argv[i + 1];
        else argc = 0;
    }
    if (argc % 2 == 0 || threads < 1 || threads > MAX_THREADS || scale < 1) {
        fprintf(stderr, "usage: eight [--seconds S | --work ROUNDS] [--threads N] [--scale PERCENT] [--truth FILE]\n");
        return 2;
    }
    simulate_init();
    for (int which = 0; which < OBJECTS; which++) {
        /* The resident object keeps its size: it is to stay in the cache. Whole strides keep the wrap-around exact. */
        size_t size = kib[which] * 1024 * (which == RESIDENT ? 100 : scale) / 100;
        words[which] = size / STRIDE * STRIDE / 8;
    }
    object[STREAM_READ] = alloc_stream_read(words[STREAM_READ] * 8);
    object[STREAM_WRITE] = alloc_stream_write(words[STREAM_WRITE] * 8);
    object[STRIDED] = alloc_strided(words[STRIDED] * 8);
    object[RANDOM_READ] = alloc_random_read(words[RANDOM_READ] * 8);
    object[RANDOM_WRITE] = alloc_random_write(words[RANDOM_WRITE] * 8);
    object[CHASE] = alloc_chase(words[CHASE] * 8);
    object[RMW] = alloc_rmw(words[RMW] * 8);
    object[RESIDENT] = alloc_resident(words[RESIDENT] * 8);

    static worker workers[MAX_THREADS];
    counts total = {0};
    initialise(&total);
    pthread_t handles[MAX_THREADS];
    double start = now();
    for (int t = 0; t < threads; t++) {
        workers[t].index = t, workers[t].threads = threads, workers[t].rounds = rounds, workers[t].seconds = seconds;
        if (pthread_create(&handles[t], NULL, work, &workers[t])) {
            fprintf(stderr, "eight: cannot start a thread\n");
            return 1;
        }
    }
    uint64_t sum = 0, done = 0;
    for (int t = 0; t < threads; t++) {
        pthread_join(handles[t], NULL);
        sum += workers[t].sum;
        done += workers[t].done;
        for (int which = 0; which < OBJECTS; which++) {
            total.loads[which] += workers[t].counts.loads[which];
            total.stores[which] += workers[t].counts.stores[which];
            total.load_misses[which] += workers[t].counts.load_misses[which];
            total.store_misses[which] += workers[t].counts.store_misses[which];
        }
    }
    fprintf(stderr, "eight: %.2f s, sum %llx\n", now() - start, (unsigned long long)sum);
    printf("rounds %llu\n%-14s %-20s %14s %14s\n", (unsigned long long)done, "object", "function", "reads", "writes");
    for (int which = 0; which < OBJECTS; which++)
        printf("%-14s %-20s %14llu %14llu\n", object_name[which], function_name[which],
               (unsigned long long)total.loads[which], (unsigned long long)total.stores[which]);
    if (truth) {
        FILE *out = fopen(truth, "w");
        if (!out) {
            perror(truth);
            return 1;
        }
        for (int which = 0; which < OBJECTS; which++) {
            fprintf(out, "{\"function\":\"%s\",\"loads\":%llu,\"stores\":%llu", function_name[which],
                    (unsigned long long)total.loads[which], (unsigned long long)total.stores[which]);
#ifdef SIMULATE
            fprintf(out, ",\"load_misses\":%llu,\"store_misses\":%llu", (unsigned long long)total.load_misses[which],
                    (unsigned long long)total.store_misses[which]);
#endif
            fprintf(out, "}\n");
        }
        if (fclose(out)) {
            perror(truth);
            return 1;
        }
    }
    return 0;
}
