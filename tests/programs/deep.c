/* One allocation function reached on many call paths, which only the whole stack tells apart.
 *
 * Sixteen paths of four calls, each either `left` or `right`, have the same return address at the bottom, the same
 * number of frames and the same stack depth in bytes; path number i makes 3 * (i + 1) objects. Then `recurse` calls
 * itself; recursion depth d makes 100 + d objects. Then a path through a function with a variable frame.
 *
 * Prints one line a path: the number of objects, then the functions, innermost first.
 */
#include <alloca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 8192, PATHS = 16, DEPTH = 10 };

__attribute__((noinline, noclone)) static void *bottom(size_t size) {
    char *p = malloc(size);
    if (!p) {
        fprintf(stderr, "deep: no memory\n");
        exit(1);
    }
    memset(p, 1, size);
    return p;
}
/* A wrapper between, as libraries have them. */
__attribute__((noinline, noclone)) static void use(void) {
    char *p = bottom(SIZE);
    if (p[SIZE / 2] != 1) exit(1);
    free(p);
}

static void left(unsigned path, int calls);
static void right(unsigned path, int calls);
/* Both take the same frame; the code after the call keeps it from being a jump, and differs, so that the two functions
 * are not folded into one. */
static volatile unsigned trail;
#define DOWN(mark)                                                         \
    volatile char *room = alloca(96);                                      \
    room[0] = (char)path;                                                  \
    if (calls == 0) use();                                                 \
    else if (path & (1u << (calls - 1))) right(path, calls - 1);           \
    else left(path, calls - 1);                                            \
    trail += room[0] + mark;
__attribute__((noinline, noclone)) static void left(unsigned path, int calls) { DOWN(1) }
__attribute__((noinline, noclone)) static void right(unsigned path, int calls) { DOWN(2) }

__attribute__((noinline, noclone)) static void recurse(int depth) {
    if (depth == 0) use();
    else recurse(depth - 1);
    trail += depth;
}
__attribute__((noinline, noclone)) static void variable(int bytes) {
    volatile char *room = alloca(bytes);
    room[bytes - 1] = 1;
    use();
    trail += room[bytes - 1];
}

int main(void) {
    for (unsigned path = 0; path < PATHS; path++) {
        unsigned objects = 3 * (path + 1);
        for (unsigned i = 0; i < objects; i++) {
            /* Three bits choose among `left` and `right`; the first call takes the fourth. */
            if (path & 8) right(path, 3);
            else left(path, 3);
        }
        printf("%u bottom use", objects);
        for (int bit = 0; bit < 4; bit++) printf(" %s", path & (1u << bit) ? "right" : "left");
        printf(" main\n");
    }
    for (int depth = 1; depth <= DEPTH; depth++) {
        for (int i = 0; i < 100 + depth; i++) recurse(depth);
        printf("%d bottom use", 100 + depth);
        for (int d = 0; d <= depth; d++) printf(" recurse");
        printf(" main\n");
    }
    /* Another frame size each time, one site all the same. */
    for (int i = 0; i < 200; i++) variable(16 + 16 * (i * 7 % 100));
    printf("200 bottom use variable main\n");
    return 0;
}
