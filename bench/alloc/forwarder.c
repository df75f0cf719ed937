/* The least that any interposer costs: each call goes straight to the next allocator. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);

/* dlsym may allocate before the functions are known; such memory is never given back. */
static char early[1 << 16];
static size_t used;
static int resolving;

static void *early_alloc(size_t size) {
    size_t at = (used + 15) & ~(size_t)15;
    if (at + size > sizeof early) return NULL;
    used = at + size;
    return early + at;
}
static int is_early(const void *p) { return (const char *)p >= early && (const char *)p < early + sizeof early; }

__attribute__((constructor)) static void resolve(void) {
    if (next_free || resolving) return;
    resolving = 1;
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    resolving = 0;
}

void *malloc(size_t size) {
    if (__builtin_expect(!next_malloc, 0)) {
        if (resolving) return early_alloc(size);
        resolve();
    }
    return next_malloc(size);
}
void *calloc(size_t n, size_t size) {
    if (__builtin_expect(!next_calloc, 0)) {
        if (resolving) return early_alloc(n * size);
        resolve();
    }
    return next_calloc(n, size);
}
void *realloc(void *p, size_t size) {
    if (__builtin_expect(!next_realloc, 0)) resolve();
    if (__builtin_expect(is_early(p), 0)) {
        void *q = next_malloc(size);
        size_t left = (size_t)(early + sizeof early - (char *)p);
        return q ? memcpy(q, p, size < left ? size : left) : NULL;
    }
    return next_realloc(p, size);
}
void free(void *p) {
    if (__builtin_expect(is_early(p), 0)) return;
    if (__builtin_expect(!next_free, 0)) resolve();
    next_free(p);
}
