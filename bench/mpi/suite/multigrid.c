/*
 * V-cycles for Poisson's equation on a periodic cube: damped Jacobi on each level, full weighting down, trilinear
 * interpolation up; each rank has a slab of each level.
 *
 * Origin: MG of the NAS Parallel Benchmarks (paper 004, Unimem, Table 3: u, v, r), which is periodic, too, smooths by the
 * residual, and exchanges faces after each step.
 *
 * Three arrays a level: u, f (right-hand side; v in NPB), r (residual). Each level has an eighth of the bytes of the one
 * above. Hot: u of the finest level (29 % of the bytes), read twice and written once by each sweep. Warm: r, written and read,
 * and f, read. The coarse levels are as hot for each byte, until they fit into the cache.
 *
 * Phases: faces are exchanged some ten times on each level; on the coarse ones they are very short.
 */
#include "ranks.h"

enum { LEVELS = 24, PRE = 2, POST = 1 };

struct level {
    long n, planes; /* points along an edge, and planes of this rank; one more on each side is a copy of its neighbour */
    double *u, *f, *r;
};

#define AT(i, j, k) (((i) * side + (j)) * side + (k))

/* Copies the faces of x to where they are neighbours. */
static void exchange(const struct level *l, double *x) {
    const long n = l->n, side = n + 2;
    for (long i = 1; i <= l->planes; i++) {
        for (long j = 1; j <= n; j++) {
            x[AT(i, j, 0)] = x[AT(i, j, n)];
            x[AT(i, j, n + 1)] = x[AT(i, j, 1)];
        }
        memcpy(x + AT(i, 0, 0), x + AT(i, n, 0), side * sizeof *x);
        memcpy(x + AT(i, n + 1, 0), x + AT(i, 1, 0), side * sizeof *x);
    }
    ranks_planes(x, l->planes, side * side, 1);
}

/* r = f + Laplacian of u; returns the largest value of this rank. */
static double residual(const struct level *l) {
    const long n = l->n, side = n + 2, plane = side * side;
    const double per_h2 = (double)n * n;
    const double *u = l->u, *f = l->f;
    double *r = l->r, most = 0;
    for (long i = 1; i <= l->planes; i++)
        for (long j = 1; j <= n; j++)
            for (long at = AT(i, j, 1), end = AT(i, j, n + 1); at < end; at++) {
                r[at] = f[at] - per_h2 * (6 * u[at] - u[at - 1] - u[at + 1] - u[at - side] - u[at + side] -
                                          u[at - plane] - u[at + plane]);
                most = fmax(most, fabs(r[at]));
            }
    return most;
}

static void sweep(const struct level *l, int times) {
    const long n = l->n, side = n + 2;
    const double step = 6.0 / 7 / 6 / ((double)n * n);
    for (int t = 0; t < times; t++) {
        residual(l);
        for (long i = 1; i <= l->planes; i++)
            for (long j = 1; j <= n; j++)
                for (long at = AT(i, j, 1), end = AT(i, j, n + 1); at < end; at++) l->u[at] += step * l->r[at];
        exchange(l, l->u);
    }
}

/* The coarse level's f is the fine one's r, weighted over the 27 points around; its u starts at zero. */
static void down(const struct level *fine, const struct level *coarse) {
    const long n = coarse->n, side = fine->n + 2, plane = side * side, coarse_side = n + 2;
    exchange(fine, fine->r);
    memset(coarse->u, 0, (coarse->planes + 2) * coarse_side * coarse_side * sizeof *coarse->u);
    for (long i = 1; i <= coarse->planes; i++)
        for (long j = 1; j <= n; j++)
            for (long k = 1; k <= n; k++) {
                const double *at = fine->r + AT(2 * i - 1, 2 * j - 1, 2 * k - 1);
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
    const long n = fine->n, side = n + 2, coarse_side = coarse->n + 2;
    for (long i = 1; i <= fine->planes; i++)
        for (long j = 1; j <= n; j++) {
            /* The four coarse rows around this fine row; where the row lies on a coarse one they coincide. */
            const double *row[4];
            for (int c = 0; c < 4; c++)
                row[c] = coarse->u + ((i + 1 + (c >> 1)) / 2 * coarse_side + (j + 1 + (c & 1)) / 2) * coarse_side;
            double *u = fine->u + AT(i, j, 0);
            double here = 0.25 * (row[0][1] + row[1][1] + row[2][1] + row[3][1]);
            for (long k = 1; k <= coarse->n; k++) {
                double next = 0.25 * (row[0][k + 1] + row[1][k + 1] + row[2][k + 1] + row[3][k + 1]);
                u[2 * k - 1] += here;
                u[2 * k] += 0.5 * (here + next);
                here = next;
            }
        }
    exchange(fine, fine->u);
}

static void cycle(const struct level *levels, int l, int last) {
    if (l == last) {
        sweep(&levels[l], levels[l].n * levels[l].n / 2);
        return;
    }
    sweep(&levels[l], PRE);
    residual(&levels[l]);
    down(&levels[l], &levels[l + 1]);
    cycle(levels, l + 1, last);
    up(&levels[l + 1], &levels[l]);
    sweep(&levels[l], POST);
}

int main(int argc, char **argv) {
    struct arguments args = ranks_start(argc, argv, 32);
    const long by = 8 * ranks; /* each rank has at least two planes of the coarsest level */
    const long n = (long)cbrt((double)args.bytes * ranks / (24.0 * 8 / 7)) / by * by, cycles = suite_times(3, args.work);
    if (n == 0) return ranks_refuse("too many ranks for so few MiB: there is no plane for each");
    struct level levels[LEVELS];
    int last = 0;
    for (long m = n;; m /= 2, last++) {
        const size_t points = (m / ranks + 2) * (m + 2) * (m + 2);
        levels[last].n = m;
        levels[last].planes = m / ranks;
        levels[last].u = suite_must(calloc(points, sizeof(double)));
        levels[last].f = suite_must(calloc(points, sizeof(double)));
        levels[last].r = suite_must(calloc(points, sizeof(double)));
        if (m / ranks % 2 || m <= 4 || m / ranks <= 2) break;
    }

    /* The solution is a product of three functions of one variable, and f its discrete Laplacian: it is met exactly. */
    double *p = suite_must(malloc((n + 2) * sizeof *p)), *q = suite_must(malloc((n + 2) * sizeof *q));
    const long side = n + 2, planes = levels[0].planes, above = rank * planes;
    for (long i = 0; i <= n + 1; i++) p[i] = sin(2 * M_PI * i / n) + 0.3 * cos(10 * M_PI * i / n);
    for (long i = 1; i <= n; i++) q[i] = (double)n * n * (2 * p[i] - p[i - 1] - p[i + 1]);
    for (long i = 1; i <= planes; i++)
        for (long j = 1; j <= n; j++)
            for (long k = 1; k <= n; k++)
                levels[0].f[AT(i, j, k)] = q[above + i] * p[j] * p[k] + p[above + i] * (q[j] * p[k] + p[j] * q[k]);

    ranks_begin();
    for (long c = 0; c < cycles; c++) cycle(levels, 0, last);
    ranks_end();
    double error = 0;
    for (long i = 1; i <= planes; i++)
        for (long j = 1; j <= n; j++)
            for (long k = 1; k <= n; k++)
                error = fmax(error, fabs(levels[0].u[AT(i, j, k)] - p[above + i] * p[j] * p[k]));
    error = ranks_most(error);
    const double most = ranks_most(residual(&levels[0]));
    /* A V-cycle takes away more than half of the error; rounding ends it. */
    return ranks_finish(error < fmax(2 * pow(0.5, cycles), 1e-13 * n * n),
                        "n %ld, %d levels, %ld cycles, residual %.3e, error %.3e", n, last + 1, cycles, most, error);
}
