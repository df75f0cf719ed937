/* Allocations by a function of its own, through a wrapper in another file, and through one that gives nothing back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *make_vector(size_t bytes);
int fill(char **out, size_t bytes);
enum { BYTES = 8 << 20 };

__attribute__((noinline)) static char *own(size_t bytes) { return malloc(bytes); }

static long sum(const char *p) {
    long total = 0;
    for (size_t i = 0; i < BYTES; i++) total += p[i];
    return total;
}

int main(void) {
    char *a = own(BYTES);
    char *b = own(BYTES);
    char *c = make_vector(BYTES), *d = make_vector(BYTES);
    char *e, *f;
    if (fill(&e, BYTES)) return 1;
    if (fill(&f, BYTES)) return 1;
    char *all[] = {a, b, c, d, e, f};
    for (int i = 0; i < 6; i++) memset(all[i], i + 1, BYTES);
    for (int i = 0; i < 6; i++) printf("%ld\n", sum(all[i]));
    /* Not freed: where they lie is read at the end, however short the run was. */
    return 0;
}
