/* A plug-in that allocates: built twice, with different names and sizes, and loaded in turns. */
#include <stdlib.h>
#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

/* Says in the call stack which plug-in it was. */
__attribute__((noinline)) static unsigned char *JOIN(NAME, _alloc)(size_t size) {
    unsigned char *p = malloc(size);
    if (p) memset(p, 7, size);
    return p;
}

static void *kept;

/* Allocates, uses and frees; keeps one object until it is unloaded. */
unsigned work(int rounds) {
    unsigned sum = 0;
    for (int i = 0; i < rounds; i++) {
        unsigned char *p = JOIN(NAME, _alloc)(SIZE + i);
        if (!p) return 0;
        sum += p[0] + p[SIZE - 1];
        if (!kept) kept = p;
        else free(p);
    }
    return sum + SIZE;
}

__attribute__((destructor)) static void unload(void) { free(kept); }
