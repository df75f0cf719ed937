/* Objects that come and go: an outer loop of three phases, each allocating, using and freeing its own arrays.
 *
 *   phases [--work ROUNDS] [--touches N]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long touches = 4;

static double *must(void *p) {
    if (!p) {
        fprintf(stderr, "phases: no memory\n");
        exit(1);
    }
    return p;
}
__attribute__((noinline)) static double *alloc_grid(size_t n) { return must(malloc(n * sizeof(double))); }
__attribute__((noinline)) static double *alloc_halo(size_t n) { return must(calloc(n, sizeof(double))); }
__attribute__((noinline)) static double *alloc_list(double *old, size_t n) {
    return must(realloc(old, n * sizeof(double)));
}

static double relax(size_t n) {
    double *a = alloc_grid(n), *b = alloc_grid(n);
    for (size_t i = 0; i < n; i++) a[i] = (double)(i % 17);
    b[0] = b[n - 1] = 0;
    for (long t = 0; t < touches; t++) {
        for (size_t i = 1; i + 1 < n; i++) b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
        double *swap = a;
        a = b;
        b = swap;
    }
    double sum = a[n / 2];
    free(a);
    free(b);
    return sum;
}
static double exchange(size_t n) {
    double sum = 0;
    for (int side = 0; side < 6; side++) {
        double *halo = alloc_halo(n);
        for (long t = 0; t < touches; t++)
            for (size_t i = 0; i < n; i += 8) halo[i] += side;
        sum += halo[n / 8 * 8 - 8];
        free(halo);
    }
    return sum;
}
static double collect(size_t n) {
    double *list = NULL, sum = 0;
    size_t room = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == room) list = alloc_list(list, room = room ? room * 2 : 64);
        list[i] = (double)i;
    }
    for (size_t i = 0; i < n; i += 3) sum += list[i * 7919 % n];
    free(list);
    return sum;
}

int main(int argc, char **argv) {
    long rounds = 100;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--work")) rounds = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--touches")) touches = atol(argv[i + 1]);
    }
    double sum = 0;
    for (long r = 0; r < rounds; r++) sum += relax(400000) + exchange(20000) + collect(100000);
    printf("rounds %ld sum %.6f\n", rounds, sum);
    return 0;
}
