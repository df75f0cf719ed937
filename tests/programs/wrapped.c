/* Wrappers that the source itself calls so: what they allocate is of whoever calls them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

__attribute__((malloc, noinline)) static void *fresh(void) { return malloc(BYTES); }
__attribute__((alloc_size(1), noinline)) static void *sized(size_t n) { return calloc(n, 1); }
__attribute__((noinline)) static void *plain(void) { return malloc(BYTES); }

int main(void) {
    char *all[] = {
        fresh(),
        fresh(),
        sized(BYTES),
        sized(BYTES),
        plain(),
    };
    for (int i = 0; i < 5; i++) memset(all[i], i, BYTES);
    for (int i = 0; i < 5; i++) printf("%d\n", all[i][i]);
    for (int i = 0; i < 5; i++) free(all[i]);
    return 0;
}
