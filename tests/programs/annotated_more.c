/* Wrappers for annotated.c, to be compiled apart from it. */
#include <stdlib.h>

void *make_vector(size_t bytes) { return malloc(bytes); }

int fill(char **out, size_t bytes) {
    *out = malloc(bytes);
    return *out == 0;
}
