/*
 * V-cycles for Poisson's equation on a cube: red-black Gauss-Seidel on each level, full weighting down, trilinear
 * interpolation up, Dirichlet boundaries.
 *
 * Origin: MG of the NAS Parallel Benchmarks (paper 004, Unimem, Table 3) and AMG of the CORAL suite (papers 001 and
 * 003).
 *
 * Three arrays a level: u, f (right-hand side), r (residual). Each level has an eighth of the bytes of the one above.
 * Hot: u of the finest level (29 % of the bytes), read and written by every sweep. Warm: f of the finest level, read
 * by every sweep. Cold: r of the finest level, written and read once a cycle. The coarse levels are as hot for each
 * byte as the finest one, as a V-cycle visits all equally often, until they fit into the cache.
 */
#include "suite.h"

/* Levels with fewer intervals than SMALL are not worth a second thread. */
enum { SMALL = 16, LEVELS = 24, PRE = 2, POST = 1 };

struct level {
    long n; /* intervals along an edge: (n + 1)^3 points, the outermost ones are zero */
    double *u, *f, *r;
};

#define AT(i, j, k) (((i) * side + (j)) * side + (k))

/* One half-sweep over the points of one colour; the other colour's values do not change meanwhile. */
static void relax(const struct level *l, int colour) {
    const long n = l->n, side = n + 1, plane = side * side;
    const double h2 = 1.0 / ((double)n * n);
    double *u = l->u;
    const double *f = l->f;
#pragma omp parallel for schedule(static) if (n >= SMALL)
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++)
            for (long at = AT(i, j, 1 + ((i + j + colour) & 1)), end = AT(i, j, n); at < end; at += 2)
                u[at] = (1.0 / 6) * (h2 * f[at] + u[at - 1] + u[at + 1] + u[at - side] + u[at + side] + u[at - plane] +
                                     u[at + plane]);
}

static void sweep(const struct level *l, int times) {
    for (int t = 0; t < times; t++) {
        relax(l, 0);
        relax(l, 1);
    }
}

/* r = f + Laplacian of u; returns the largest value. */
static double residual(const struct level *l) {
    const long n = l->n, side = n + 1, plane = side * side;
    const double per_h2 = (double)n * n;
    const double *u = l->u, *f = l->f;
    double *r = l->r, most = 0;
#pragma omp parallel for schedule(static) if (n >= SMALL) reduction(max : most)
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++)
            for (long at = AT(i, j, 1), end = AT(i, j, n); at < end; at++) {
                r[at] = f[at] - per_h2 * (6 * u[at] - u[at - 1] - u[at + 1] - u[at - side] - u[at + side] -
                                          u[at - plane] - u[at + plane]);
                most = fmax(most, fabs(r[at]));
            }
    return most;
}

/* The coarse level's f is the fine one's r, weighted over the 27 points around; its u starts at zero. */
static void down(const struct level *fine, const struct level *coarse) {
    const long n = coarse->n, side = fine->n + 1, plane = side * side, coarse_side = n + 1;
    const double *r = fine->r;
    memset(coarse->u, 0, coarse_side * coarse_side * coarse_side * sizeof *coarse->u);
#pragma omp parallel for schedule(static) if (n >= SMALL)
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++)
            for (long k = 1; k < n; k++) {
                const double *at = r + AT(2 * i, 2 * j, 2 * k);
                double sum = 0;
                for (int a = -1; a <= 1; a++)
                    for (int b = -1; b <= 1; b++) {
                        const double *row = at + a * plane + b * side;
                        sum += (row[0] + 0.5 * (row[-1] + row[1])) * ((a ? 0.5 : 1) * (b ? 0.5 : 1));
                    }
                coarse->f[(i * coarse_side + j) * coarse_side + k] = sum / 8;
            }
}

/* Adds the coarse level's u, interpolated, to the fine one's. */
static void up(const struct level *coarse, const struct level *fine) {
    const long n = fine->n, side = n + 1, coarse_side = coarse->n + 1;
#pragma omp parallel for schedule(static) if (n >= SMALL)
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++) {
            /* The four coarse rows around this fine row; where the row lies on a coarse one they coincide. */
            const double *row[4];
            for (int c = 0; c < 4; c++)
                row[c] = coarse->u + (((i + (c >> 1)) / 2) * coarse_side + (j + (c & 1)) / 2) * coarse_side;
            double *u = fine->u + AT(i, j, 0);
            double before = 0;
            for (long k = 1; k <= coarse->n; k++) {
                double here = 0.25 * (row[0][k] + row[1][k] + row[2][k] + row[3][k]);
                u[2 * k - 1] += 0.5 * (before + here);
                if (k < coarse->n) u[2 * k] += here;
                before = here;
            }
        }
}

static double cycle(const struct level *levels, int l, int last) {
    if (l == last) {
        sweep(&levels[l], 2 * levels[l].n * levels[l].n / 3 + 4);
        return 0;
    }
    sweep(&levels[l], PRE);
    double most = residual(&levels[l]);
    down(&levels[l], &levels[l + 1]);
    cycle(levels, l + 1, last);
    up(&levels[l + 1], &levels[l]);
    sweep(&levels[l], POST);
    return most;
}

int main(int argc, char **argv) {
    struct arguments args = suite_arguments(argc, argv, 90);
    long n = (long)cbrt(args.bytes / (24.0 * 8 / 7)) / 16 * 16, cycles = suite_times(3, args.work);
    struct level levels[LEVELS];
    int last = 0;
    for (long m = n;; m /= 2, last++) {
        size_t points = (m + 1) * (m + 1) * (m + 1);
        levels[last].n = m;
        levels[last].u = suite_must(calloc(points, sizeof(double)));
        levels[last].f = suite_must(calloc(points, sizeof(double)));
        levels[last].r = suite_must(calloc(points, sizeof(double)));
        if (m % 2 || m <= 4) break;
    }

    /* The solution is a product of three functions of one variable, and f its discrete Laplacian: it is met exactly. */
    double *p = suite_must(malloc((n + 1) * sizeof *p)), *q = suite_must(calloc(n + 1, sizeof *q));
    const long side = n + 1;
    for (long i = 0; i <= n; i++) p[i] = i % n ? sin(M_PI * i / n) + 0.3 * sin(7 * M_PI * i / n) : 0;
    for (long i = 1; i < n; i++) q[i] = (double)n * n * (2 * p[i] - p[i - 1] - p[i + 1]);
#pragma omp parallel for schedule(static)
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++)
            for (long k = 1; k < n; k++)
                levels[0].f[AT(i, j, k)] = q[i] * p[j] * p[k] + p[i] * q[j] * p[k] + p[i] * p[j] * q[k];

    double first = 0, most = 0;
    suite_begin();
    for (long c = 0; c < cycles; c++) {
        most = cycle(levels, 0, last);
        if (!c) first = most;
    }
    suite_end();
    double error = 0;
#pragma omp parallel for schedule(static) reduction(max : error)
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++)
            for (long k = 1; k < n; k++) error = fmax(error, fabs(levels[0].u[AT(i, j, k)] - p[i] * p[j] * p[k]));
    most = residual(&levels[0]);
    /* A V-cycle takes away nine tenths of the error; 0.15 leaves room, and rounding ends it. */
    int right = error < fmax(2 * pow(0.15, cycles), 1e-14 * n * n) && most < fmax(first, 1e-6);
    for (int l = 0; l <= last; l++) free(levels[l].u), free(levels[l].f), free(levels[l].r);
    free(p), free(q);
    return suite_finish(right, "n %ld, %d levels, %ld cycles, residual %.4e, error %.4e", n, last + 1, cycles, most,
                        error);
}
