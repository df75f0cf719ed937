/* Ways to an allocation that a compiler makes something else of: the last call of a function, a recursion, a way that allocates nothing, a function that is called by its
 * name and through a pointer, and memory that a file compiled by another compiler asks for in between. */
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 18 };
struct list {
    struct list *next;
    char bytes[BYTES];
};

char *others(size_t bytes);
static char *kept[64];
static int count;

static void keep(void *p) { kept[count++] = p; }

__attribute__((noinline)) static char *last(size_t bytes) { return malloc(bytes); }

/* Nothing of it is in an allocation's path when it has returned, whether it has allocated or not. */
__attribute__((noinline)) static char *perhaps(size_t bytes) { return bytes ? last(bytes) : 0; }

__attribute__((noinline)) static struct list *chain(int length) {
    if (!length) return 0;
    struct list *rest = chain(length - 1), *first = malloc(sizeof *first);
    first->next = rest;
    return first;
}

__attribute__((noinline)) static char *pointed(size_t bytes) {
    char *a = malloc(bytes), *b = calloc(1, bytes);
    keep(a);
    return b;
}

__attribute__((noinline)) static char *deep_3(size_t bytes) { return last(bytes); }
__attribute__((noinline)) static char *deep_2(size_t bytes) { return deep_3(bytes); }
__attribute__((noinline)) static char *deep_1(size_t bytes) { return deep_2(bytes); }

int main(int argc, char **argv) {
    (void)argv;
    char *(*volatile through)(size_t) = argc > 100 ? last : pointed;
    keep(last(BYTES));
    keep(others(2 * BYTES));
    keep(perhaps(BYTES));
    keep(perhaps(0));
    keep(others(2 * BYTES));
    keep(chain(3));
    keep(others(2 * BYTES));
    keep(pointed(BYTES));
    keep(through(BYTES));
    keep(others(2 * BYTES));
    keep(deep_1(BYTES));
    keep(others(2 * BYTES));
    for (int i = 0; i < count; i++)
        if (kept[i]) memset(kept[i], 1, BYTES);
    return 0;
}
