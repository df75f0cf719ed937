/* Several large objects of one call stack: which of them are objects of their own?
 *
 *   arrays
 *
 * Three arrays from a loop, side by side, of which the second is freed and allocated again twice and the third is used most; one that
 * grows by being allocated anew and copied; and a pool of twenty.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, ARRAYS = 3, POOL = 20 };

static char *must(void *p) {
    if (!p) {
        fprintf(stderr, "arrays: no memory\n");
        exit(1);
    }
    return p;
}
__attribute__((noinline)) static char *alloc_array(void) { return memset(must(malloc(3 * MIB)), 1, 3 * MIB); }
__attribute__((noinline)) static char *alloc_grown(size_t bytes) { return memset(must(malloc(bytes)), 2, bytes); }
__attribute__((noinline)) static char *alloc_pooled(void) { return memset(must(malloc(MIB)), 3, MIB); }

static unsigned long walk(const char *p, size_t bytes, int times) {
    unsigned long sum = 0;
    for (int t = 0; t < times; t++)
        for (size_t i = 0; i < bytes; i += 64) sum += ((const volatile char *)p)[i];
    return sum;
}

int main(void) {
    char *array[ARRAYS] = {NULL}, *pool[POOL];
    unsigned long sum = 0;
    for (volatile int i = 0; i < POOL; i++) pool[i] = alloc_pooled();
    for (volatile int step = 0; step < ARRAYS + 2; step++) {
        if (step >= ARRAYS) free(array[1]);
        array[step < ARRAYS ? step : 1] = alloc_array();
        sum += walk(array[0], 3 * MIB, 5);
    }
    // Not known to the compiler, which else makes two calls of the one: a first turn of its own.
    volatile size_t size = 0;
    char *grown = NULL;
    for (volatile int i = 0; i < 4; i++) {
        size_t larger = size ? 2 * size : MIB;
        char *copy = alloc_grown(larger);
        if (grown) memcpy(copy, grown, size);
        free(grown);
        grown = copy;
        size = larger;
        sum += walk(grown, size, 40);
    }
    for (volatile int round = 0; round < 3; round++) {
        sum += walk(array[0], 3 * MIB, 5) + walk(array[1], 3 * MIB, 5) + walk(array[2], 3 * MIB, 100);
        for (int i = 0; i < POOL; i++) sum += walk(pool[i], MIB, 5);
    }
    printf("sum %lu\n", sum);
    for (int i = 0; i < ARRAYS; i++) free(array[i]);
    for (int i = 0; i < POOL; i++) free(pool[i]);
    free(grown);
    return 0;
}
