/* Loops that end on what they compute: doubled [N [TURNS]]. A table of the next power of two, one of as many bits as fit, and a sweep in steps that double. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000, turns = argc > 2 ? atol(argv[2]) : 10;
    long slots = 1;
    while (slots < n + n / 2) slots *= 2;
    int bits = 4;
    while (8.0 * (1ul << bits) <= n && bits < 30) bits++;
    unsigned long size = 1ul << bits;
    long *table = calloc(slots, sizeof *table), *small = calloc(size, sizeof *small), *line = calloc(n, sizeof *line);
    if (!table || !small || !line) return 1;
    long sum = 0;
    for (long t = 0; t < turns; t++) {
        for (long i = 0; i < n; i++) table[i * 7919 & (slots - 1)] += i;
        for (unsigned long i = 0; i < size; i++) sum += small[i]++;
        /* Twenty times over all of it, as it has a million elements. */
        for (long step = 1; step < n; step *= 2)
            for (long i = 0; i < n; i++) sum += line[i] += step;
    }
    printf("%ld %ld\n", sum, table[5]);
    return 0;
}
