/* Static arrays as large as the largest problem, one of them with a hot row: parts [N [TURNS]]. The first N elements of `field` are walked over once, the second
 * quarter's TURNS times; of `large` nothing else is touched. */
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 8 << 20 };

static double field[MOST], large[MOST];

static double walk(double *v, long n, long turns) {
    double sum = 0;
    for (long t = 0; t < turns; t++)
        for (long i = n; i-- > 0;) sum += v[i] += 1;
    return sum;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1 << 20, turns = argc > 2 ? atol(argv[2]) : 10;
    if (n > MOST / 4) return 2;
    for (long i = 0; i < n; i++) field[i] = large[2 * i] = i;
    double *hot = field + MOST / 4;
    printf("%g %g\n", walk(hot, n, turns), field[n / 2] + large[n]);
    return 0;
}
