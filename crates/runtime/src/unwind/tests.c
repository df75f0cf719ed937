/* Call trees for the unwinder's tests: frames of every shape that compilers make, chosen at random, with a callback at
 * the leaves and at some nodes in between. Built several times, with and without frame pointers. */
#define _GNU_SOURCE
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

typedef void (*visit_fn)(void *);
struct walk { unsigned seed; visit_fn visit; void *arg; };
#define NOINLINE __attribute__((noinline, noclone))
#ifdef PADDING /* moves all code, so that a rebuilt library has other return addresses */
NOINLINE int padding(int x) { __asm__ volatile(".skip " PADDING ", 0x90" ::: "memory"); return x + 1; }
#endif

static unsigned next(struct walk *w) { return (w->seed = w->seed * 1664525u + 1013904223u) >> 8; }
static volatile int sink;
NOINLINE int tree(struct walk *w, int depth);

NOINLINE int plain(struct walk *w, int depth) { return tree(w, depth - 1) + 1; }
NOINLINE int large(struct walk *w, int depth) {
    volatile char buffer[9000];
    buffer[depth] = 1;
    return tree(w, depth - 1) + buffer[depth];
}
NOINLINE int dynamic(struct walk *w, int depth) {
    volatile char *p = alloca(16 + next(w) % 500);
    p[1] = 2;
    return tree(w, depth - 1) + p[1];
}
NOINLINE int aligned(struct walk *w, int depth) {
    volatile char a[64] __attribute__((aligned(64)));
    a[depth & 63] = 3;
    return tree(w, depth - 1) + a[depth & 63];
}
NOINLINE int aligned_dynamic(struct walk *w, int depth, long a3, long a4, long a5, long a6, long a7, long a8) {
    volatile char a[64] __attribute__((aligned(64)));
    volatile char *p = alloca(16 + next(w) % 300);
    a[depth & 63] = 3, p[0] = 1;
    return tree(w, depth - 1) + a[depth & 63] + p[0] + (int)(a3 + a4 + a5 + a6 + a7 + a8);
}
NOINLINE int saves(struct walk *w, int depth) {
    int a = sink, b = sink, c = sink, d = sink, e = sink, f = sink, g = sink;
    int r = tree(w, depth - 1);
    return a + b * c - d * e + f * g + r;
}
struct pair { struct walk *w; int depth; int done; };
static __thread struct pair *current;
static int compare(const void *a, const void *b) {
    struct pair *p = current;
    if (!p->done) {
        p->done = 1;
        sink = tree(p->w, p->depth - 1);
        current = p;
    }
    return *(const int *)a - *(const int *)b;
}
NOINLINE int sorted(struct walk *w, int depth) {
    struct pair p = { w, depth, 0 }, *before = current;
    int v[3] = { 3, 1, 2 };
    current = &p;
    qsort(v, 3, sizeof *v, compare);
    current = before;
    return v[0];
}
/* The same call, reached with the same stack depth from here and from there. */
NOINLINE int twin(struct walk *w, int depth) { return tree(w, depth - 1) ^ 1; }
NOINLINE int here(struct walk *w, int depth) { return twin(w, depth) + 5; }
NOINLINE int there(struct walk *w, int depth) { return twin(w, depth) + 7; }

NOINLINE int tree(struct walk *w, int depth) {
    if (depth <= 0 || next(w) % 8 == 0)
        w->visit(w->arg);
    if (depth <= 0)
        return 0;
    switch (next(w) % 9) {
    case 0: return plain(w, depth) + 1;
    case 1: return large(w, depth) + 1;
    case 2: return dynamic(w, depth) + 1;
#ifndef INTERRUPTIBLE
    /* GCC's unwind information of these is wrong between the last pop and the return: right for any call, but not for a
     * signal that comes just there. */
    case 3: return aligned(w, depth) + 1;
    case 4: return aligned_dynamic(w, depth, 1, 2, 3, 4, 5, 6) + 1;
#endif
    case 5: return saves(w, depth) + 1;
    case 6: return sorted(w, depth) + 1;
    case 7: return here(w, depth) + 1;
    default: return there(w, depth) + 1;
    }
}

int run(unsigned seed, int depth, visit_fn visit, void *arg) {
    struct walk w = { seed, visit, arg };
    return tree(&w, depth) + 1;
}

/* A chain of different functions, for measurements: `length` of them, up to 32. */
typedef struct { visit_fn visit; void *arg; int length; } chain_t;
#define LINK(n, m) \
    NOINLINE int link##n(chain_t *c, int depth) { \
        int a = sink, b = sink; \
        if (depth >= c->length) { c->visit(c->arg); return a; } \
        return link##m(c, depth + 1) * a + b; \
    }
#define LINKS(a, b, c, d, e) LINK(d, e) LINK(c, d) LINK(b, c) LINK(a, b)
NOINLINE int link32(chain_t *c, int depth) { c->visit(c->arg); return depth; }
LINKS(28, 29, 30, 31, 32) LINKS(24, 25, 26, 27, 28) LINKS(20, 21, 22, 23, 24) LINKS(16, 17, 18, 19, 20)
LINKS(12, 13, 14, 15, 16) LINKS(8, 9, 10, 11, 12) LINKS(4, 5, 6, 7, 8) LINKS(0, 1, 2, 3, 4)

int run_chain(int length, visit_fn visit, void *arg) {
    chain_t c = { visit, arg, length };
    return link0(&c, 1) + 1;
}
