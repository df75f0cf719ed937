/* The allocator under torture: threads allocate random sizes at random alignments, resize them in chains, hand them to each
 * other to be freed, and fork in the middle; what every object holds is checked when it is resized, passed on and freed.
 *
 *   torture [--threads N] [--ops N] [--forks N] [--seed N]
 *
 * Ends with status 0 and a line of counts that depends on the arguments alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIDE(p) __asm__ volatile("" : "+r"(p) : : "memory")

enum { LIVE = 300, MAILBOXES = 64 };
static long threads = 4, ops = 100000, forks = 4;
static uint64_t first_seed = 1;

struct object {
    unsigned char *at;
    size_t size;
    uint64_t seed;
};
/* Objects on their way from one thread to another. */
static struct object *_Atomic mailboxes[MAILBOXES];

static _Noreturn void wrong(const char *what, const struct object *o) {
    fprintf(stderr, "torture: %s: an object of %zu bytes\n", what, o->size);
    _exit(1);
}
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned char value(const struct object *o, size_t i) { return (unsigned char)(o->seed + i * 7 + (i >> 11)); }
/* The beginning, every so many bytes, and the end tell whose the object is. */
static void each(const struct object *o, size_t upto, int write) {
    for (size_t i = 0; i < upto; i += i < 128 ? 1 : 509) {
        if (write) o->at[i] = value(o, i);
        else if (o->at[i] != value(o, i)) wrong("contents changed", o);
    }
    if (upto != o->size || !upto) return;
    if (write) o->at[upto - 1] = value(o, upto - 1);
    else if (o->at[upto - 1] != value(o, upto - 1)) wrong("the end changed", o);
}
/* Mostly small, often around the threshold of a page, sometimes megabytes. */
static size_t random_size(uint64_t *state) {
    uint64_t r = next(state);
    switch (r % 16) {
    case 0: return 4000 + (r >> 8) % 200;
    case 1: case 2: case 3: return (r >> 8) % 20000;
    case 4: return (r >> 8) % 300000;
    case 5: return (r >> 8) % 64 ? (r >> 16) % 8192 : (r >> 16) % (4 << 20);
    default: return (r >> 8) % 700;
    }
}
static struct object make(uint64_t *state) {
    struct object o = {NULL, random_size(state), next(state)};
    size_t align = (size_t)16 << next(state) % 10;
    switch (next(state) % 8) {
    case 0:
        o.at = calloc(1, o.size);
        HIDE(o.at);
        for (size_t i = 0; o.at && i < o.size; i += i < 128 ? 1 : 509)
            if (o.at[i]) wrong("calloc gave dirty memory", &o);
        break;
    case 1: {
        void *p = NULL;
        if (posix_memalign(&p, align, o.size)) p = NULL;
        if ((uintptr_t)p % align) wrong("misaligned", &o);
        o.at = p;
        break;
    }
    case 2:
        o.at = aligned_alloc(align, o.size);
        if ((uintptr_t)o.at % align) wrong("misaligned", &o);
        break;
    default: o.at = malloc(o.size);
    }
    HIDE(o.at);
    if (!o.at) wrong("no memory", &o);
    if (malloc_usable_size(o.at) < o.size) wrong("too small", &o);
    each(&o, o.size, 1);
    return o;
}
static void end(struct object *o) {
    if (!o->at) return;
    each(o, o->size, 0);
    errno = 4711;
    free(o->at);
    if (errno != 4711) wrong("free changed errno", o);
    o->at = NULL;
}
static void resize(struct object *o, uint64_t *state) {
    for (int chain = 1 + next(state) % 5; chain; chain--) {
        size_t size = next(state) % 3 ? o->size + next(state) % 5000 : random_size(state) + 1;
        if (!size) size = 1; /* realloc to nothing frees. */
        each(o, o->size, 0);
        unsigned char *p = realloc(o->at, size);
        HIDE(p);
        if (!p) wrong("no memory for realloc", o);
        o->at = p;
        /* A shorter object has lost its end. */
        if (size >= o->size) each(o, o->size, 0);
        else each(&(struct object){p, o->size, o->seed}, size, 0);
        o->size = size;
        each(o, size, 1);
    }
}

struct work {
    uint64_t state;
    long ops, forks, done, sent, received;
};
static void fork_here(struct object *live, uint64_t seed) {
    pid_t child = fork();
    if (child < 0) {
        perror("torture: fork");
        _exit(1);
    }
    if (child == 0) {
        /* The child checks what it inherited, works with it, and leaves the parent's as it is. */
        uint64_t state = seed;
        for (int i = 0; i < LIVE; i++) {
            if (live[i].at && next(&state) % 2) resize(&live[i], &state);
            end(&live[i]);
            live[i] = make(&state);
        }
        for (int i = 0; i < LIVE; i++) end(&live[i]);
        _exit(42);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) {
        fprintf(stderr, "torture: a child ended with wait status %d\n", status);
        _exit(1);
    }
}
static void *run(void *argument) {
    struct work *w = argument;
    struct object live[LIVE] = {{0}};
    for (long i = 0; i < w->ops; i++) {
        uint64_t r = next(&w->state);
        struct object *o = &live[(r >> 8) % LIVE];
        if (w->forks && i % (w->ops / w->forks) == w->ops / w->forks / 2) fork_here(live, r);
        if (!o->at) {
            *o = make(&w->state);
        } else if (r % 8 == 0) {
            struct object *sent = malloc(sizeof *sent);
            HIDE(sent);
            *sent = *o;
            o->at = NULL;
            w->sent++;
            struct object *got = atomic_exchange(&mailboxes[(r >> 32) % MAILBOXES], sent);
            if (got) {
                end(got);
                free(got);
            }
        } else if (r % 8 < 3) {
            resize(o, &w->state);
        } else {
            end(o);
        }
        w->done++;
    }
    for (int i = 0; i < LIVE; i++) end(&live[i]);
    return NULL;
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        long value = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--threads")) threads = value;
        else if (!strcmp(argv[i], "--ops")) ops = value;
        else if (!strcmp(argv[i], "--forks")) forks = value;
        else if (!strcmp(argv[i], "--seed")) first_seed = value;
        else return 2;
    }
    struct work work[64] = {{0}};
    pthread_t thread[64];
    if (threads < 1 || threads > 64) return 2;
    for (long i = 0; i < threads; i++) {
        work[i] = (struct work){.state = first_seed * 1000 + i, .ops = ops, .forks = i == 0 ? forks : 0};
        if (pthread_create(&thread[i], NULL, run, &work[i])) return 3;
    }
    long done = 0, sent = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        done += work[i].done;
        sent += work[i].sent;
    }
    for (int i = 0; i < MAILBOXES; i++)
        if (mailboxes[i]) {
            end(mailboxes[i]);
            free(mailboxes[i]);
        }
    printf("%ld operations, %ld handed over, %ld forks\n", done, sent, forks);
    return 0;
}
