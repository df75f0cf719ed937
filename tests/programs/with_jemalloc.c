/* Allocates and frees, for long enough that a busy machine too lets the recorder see the process alive; the Makefile links
 * an allocator of its own into it, or a sanitiser. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    long sum = 0;
    for (int i = 0; i < 100000; i++) {
        size_t size = i % 2 ? 100000 + i % 3000 : 100 + i % 3000;
        char *p = malloc(size);
        if (!p) return 1;
        memset(p, i, size);
        p = realloc(p, size + 5000);
        if (!p) return 1;
        sum += p[size - 1];
        free(p);
    }
    printf("sum %ld\n", sum);
    return 5;
}
