/* Loops of which the command line says how long they are: counted [N [TURNS]]. A mesh of two arrays that change places, a sparse matrix, whose rows say themselves how
 * long they are, and two arrays that are touched once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_ROW = 5 };

struct mesh {
    long n;
    double *now, *next;
};

static double *vector(long n) {
    double *v = malloc(n * sizeof *v);
    if (!v) exit(2);
    for (long i = 0; i < n; i++) v[i] = 1;
    return v;
}

static void smooth(struct mesh *m) {
#pragma omp parallel for
    for (long i = 1; i < m->n - 1; i++) m->next[i] = (m->now[i - 1] + m->now[i + 1]) / 2;
    double *other = m->now;
    m->now = m->next;
    m->next = other;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000, turns = argc > 2 ? atol(argv[2]) : 10;
    struct mesh m = {.n = n};
    m.now = vector(n);
    m.next = vector(n);
    int *row = malloc((n + 1) * sizeof *row), *column = malloc(PER_ROW * n * sizeof *column);
    double *value = vector(PER_ROW * n), *spare = calloc(n, 8 * sizeof *spare);
    if (!row || !column || !spare) return 2;
    for (long i = 0; i <= n; i++) row[i] = PER_ROW * i;
    for (long k = 0; k < PER_ROW * n; k++) column[k] = k * 7919 % n;
    memset(spare, 1, 8 * n * sizeof *spare);
    double sum = spare[n];
    for (long t = 0; t < turns; t++) {
        smooth(&m);
        double dot = 0;
        for (long i = 0; i < n; i++)
            for (int k = row[i]; k < row[i + 1]; k++) dot += value[k] * m.now[column[k]];
        sum += dot;
    }
    printf("%g\n", sum);
    return 0;
}
