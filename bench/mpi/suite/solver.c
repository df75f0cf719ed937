/*
 * A solver whose phases change: in each time step three systems of equations are solved one after another, each with arrays of
 * its own, and after half of the steps another one of them is the hard one.
 *
 * Origin: Nek5000 (paper 004, Unimem, Sec. 5 and Table 4), which solves for velocity, pressure and temperature by turns, and
 * whose arrays are used in some phases only: it moved objects most often of all programs there. Own systems: implicit steps
 * of diffusion with coefficients that change from point to point, by conjugate gradients; what one system has found drives
 * the next.
 *
 * Hot: the six arrays of the system that is being solved (33 % of the bytes), of which k, p, q are read or written in each
 * product, x, r once in an iteration, and b only at first.
 *
 * Phases: of each iteration three (faces are exchanged, two sums), each system's with call stacks of their own.
 */
#include "ranks.h"

enum { SYSTEMS = 3 };

struct system {
    double *k, *x, *b, *r, *p, *q; /* coefficients, unknowns, right-hand side, residual, direction, product */
};

static long n, points; /* along an edge of each rank's cube, and with the faces around it */

#define EACH_POINT(at)                                                               \
    for (long i_ = 1; i_ <= n; i_++)                                                 \
        for (long j_ = 1; j_ <= n; j_++)                                             \
            for (long at = (i_ * (n + 2) + j_) * (n + 2) + 1, end_ = at + n; at < end_; at++)

static double *array(void) { return suite_must(calloc(points, sizeof(double))); }

/* to = x - div(k grad x), and the sum of x * to of this rank. */
static double product(const double *k, const double *x, double *to) {
    const long row = n + 2, plane = row * row, next[] = {1, -1, row, -row, plane, -plane};
    double sum = 0;
    EACH_POINT(at) {
        double flow = 0;
#pragma GCC unroll 6
        for (int d = 0; d < 6; d++) flow += (k[at] + k[at + next[d]]) * (x[at] - x[at + next[d]]);
        to[at] = x[at] + 0.5 * flow;
        sum += x[at] * to[at];
    }
    return sum;
}

static double dot(const double *a, const double *b) {
    double sum = 0;
    EACH_POINT(at) sum += a[at] * b[at];
    return sum;
}

/* So many iterations from where x is now. Returns whether the residual that they believe is the true one, and what conjugate
 * gradients make smaller with each iteration, x A x / 2 - b x, is smaller. */
static inline __attribute__((always_inline)) int solve(const struct system *s, int iterations, double *residual) {
    double *const b = s->b, *const x = s->x, *const r = s->r, *const p = s->p, *const q = s->q;
    double level = 0, rr = 0;
    product(s->k, x, q);
    EACH_POINT(at) {
        p[at] = r[at] = b[at] - q[at];
        rr += r[at] * r[at];
        level += x[at] * (b[at] + r[at]);
    }
    rr = ranks_sum(rr);
    const double start = rr;
    for (int i = 0; i < iterations; i++) {
        ranks_planes(p, n, (n + 2) * (n + 2), 0);
        const double alpha = rr / ranks_sum(product(s->k, p, q));
        EACH_POINT(at) {
            x[at] += alpha * p[at];
            r[at] -= alpha * q[at];
        }
        const double before = rr;
        rr = ranks_sum(dot(r, r));
        EACH_POINT(at) p[at] = r[at] + rr / before * p[at];
    }
    ranks_planes(x, n, (n + 2) * (n + 2), 0);
    product(s->k, x, q);
    double is = 0;
    EACH_POINT(at) {
        is += (b[at] - q[at]) * (b[at] - q[at]);
        level -= x[at] * (b[at] + r[at]);
    }
    is = ranks_sum(is);
    *residual = sqrt(is / start);
    return fabs(is - rr) < 1e-9 * start && ranks_sum(level) < 0;
}

/* The right-hand side: where it was, and what drives it. */
static void drive(const struct system *s, const struct system *by) {
    EACH_POINT(at) s->b[at] = s->x[at] + 0.1 * by->x[at];
}

int main(int argc, char **argv) {
    struct arguments args = ranks_start(argc, argv, 32);
    n = (long)cbrt(args.bytes / (double)(SYSTEMS * 6 * sizeof(double))) - 2;
    points = (n + 2) * (n + 2) * (n + 2);
    const long steps = 2 * suite_times(2, args.work);
    struct system velocity = {array(), array(), array(), array(), array(), array()};
    struct system pressure = {array(), array(), array(), array(), array(), array()};
    struct system heat = {array(), array(), array(), array(), array(), array()};
    struct system *all[SYSTEMS] = {&velocity, &pressure, &heat};
    for (int s = 0; s < SYSTEMS; s++) {
        for (long i = 0; i < points; i++) all[s]->k[i] = 0.5 + 4 * suite_unit(points * (rank * SYSTEMS + s) + i);
        ranks_planes(all[s]->k, n, (n + 2) * (n + 2), 0);
        EACH_POINT(at) all[s]->x[at] = suite_unit(~at * SYSTEMS + s);
        ranks_planes(all[s]->x, n, (n + 2) * (n + 2), 0);
    }

    int right = 1;
    double residual[SYSTEMS] = {0};
    ranks_begin();
    for (long step = 0; step < steps; step++) {
        /* Until the flow has developed, pressure is what takes longest; then heat does. */
        const int developed = step >= steps / 2;
        drive(&velocity, &pressure);
        right &= solve(&velocity, 2, &residual[0]);
        drive(&pressure, &velocity);
        right &= solve(&pressure, developed ? 2 : 6, &residual[1]);
        drive(&heat, &velocity);
        right &= solve(&heat, developed ? 6 : 2, &residual[2]);
    }
    ranks_end();
    return ranks_finish(right, "%ld x %ld x %ld, %ld steps, residuals of the last %.3e %.3e %.3e", n, n, n * ranks, steps,
                        residual[0], residual[1], residual[2]);
}
