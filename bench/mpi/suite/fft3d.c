/*
 * A 3-D fast Fourier transform: the heat equation solved in Fourier space, transformed back at each time step. Each rank
 * has a slab of the field, and of the spectrum one in another direction.
 *
 * Origin: FT of the NAS Parallel Benchmarks (paper 004, Unimem, Table 3: u0, u1, u2, twiddle), with slabs: rows of the
 * first direction are transformed, all ranks exchange blocks, and rows of the two others are transformed.
 *
 * Hot: the two working arrays (57 % of the bytes), read and written again and again, half of it with large strides. Cold:
 * spectrum (29 %) and decay (14 %), touched once a step. Rows of eight lie in the cache while they are transformed.
 *
 * Phases of a step: two, from where blocks are exchanged and from where the largest error is known.
 */
#include "ranks.h"

enum { TOGETHER = 8 /* rows, so that accesses across them fill cache lines */ };

struct complex {
    double re, im;
};

static struct complex times(struct complex a, struct complex b) {
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static struct complex plus(struct complex a, struct complex b) { return (struct complex){a.re + b.re, a.im + b.im}; }
static struct complex minus(struct complex a, struct complex b) { return (struct complex){a.re - b.re, a.im - b.im}; }
static struct complex turn(double angle) { return (struct complex){cos(angle), sin(angle)}; }

/* The transform of a row, not scaled. */
static void transform(const struct complex *in, struct complex *out, long n, const struct complex *roots) {
    for (long i = 0, j = 0; i < n; i++) { /* j is i with its bits reversed */
        out[j] = in[i];
        long bit = n / 2;
        for (; j & bit; bit /= 2) j ^= bit;
        j ^= bit;
    }
    for (long half = 1, step = n / 2; half < n; half *= 2, step /= 2)
        for (long start = 0; start < n; start += 2 * half)
            for (long k = 0; k < half; k++) {
                struct complex a = out[start + k], b = times(out[start + k + half], roots[k * step]);
                out[start + k] = plus(a, b);
                out[start + k + half] = minus(a, b);
            }
}

/* Transforms so many rows of n elements that lie `stride` apart; rows begin `apart` elements from each other. */
static void rows(struct complex *x, long n, long stride, long many, long apart, int sign) {
    struct complex *roots = suite_must(malloc((n / 2 + 2 * TOGETHER * n) * sizeof *roots));
    struct complex *in = roots + n / 2, *out = in + TOGETHER * n;
    for (long i = 0; i < n / 2; i++) roots[i] = turn(sign * 2 * M_PI * i / n);
    for (long first = 0; first < many; first += TOGETHER) {
        struct complex *at = x + first * apart;
        for (long k = 0; k < n; k++)
            for (long r = 0; r < TOGETHER; r++) in[r * n + k] = at[k * stride + r * apart];
        for (long r = 0; r < TOGETHER; r++) transform(in + r * n, out + r * n, n, roots);
        for (long k = 0; k < n; k++)
            for (long r = 0; r < TOGETHER; r++) at[k * stride + r * apart] = out[r * n + k];
    }
    free(roots);
}

/* From from[b][y][a] to to[a][y][b], by blocks; rows of b are so far apart, those of a too. */
static void turn_around(const struct complex *from, long from_row, struct complex *to, long to_row, long a, long y, long b) {
    for (long j = 0; j < y; j++)
        for (long block = 0; block < b; block += TOGETHER)
            for (long i = 0; i < a; i++)
                for (long k = block; k < b && k < block + TOGETHER; k++)
                    to[(i * y + j) * to_row + k] = from[(k * y + j) * from_row + i];
}

/* Each rank gets its block of each other one. */
static void exchange(const struct complex *from, struct complex *to, long block) {
    MPI_Alltoall(from, 2 * block, MPI_DOUBLE, to, 2 * block, MPI_DOUBLE, MPI_COMM_WORLD);
}

/* From in[z][y][x] to out[x][y][z], of which each rank has its z and its x; in is used up. */
static void forward(struct complex *in, struct complex *out, long nx, long ny, long nz) {
    const long x = nx / ranks, z = nz / ranks, block = x * ny * z;
    rows(in, nx, 1, z * ny, nx, -1);
    for (long i = 0; i < z; i++) rows(in + i * ny * nx, ny, nx, nx, 1, -1);
    for (int to = 0; to < ranks; to++) turn_around(in + to * x, nx, out + to * block, z, x, ny, z);
    exchange(out, in, block);
    for (int of = 0; of < ranks; of++)
        for (long row = 0; row < x * ny; row++)
            memcpy(out + row * nz + of * z, in + of * block + row * z, z * sizeof *out);
    rows(out, nz, 1, x * ny, nz, -1);
}

/* And back, from in[x][y][z] to out[z][y][x]. */
static void backward(struct complex *in, struct complex *out, long nx, long ny, long nz) {
    const long x = nx / ranks, z = nz / ranks, block = x * ny * z;
    rows(in, nz, 1, x * ny, nz, 1);
    for (int to = 0; to < ranks; to++) turn_around(in + to * z, nz, out + to * block, x, z, ny, x);
    exchange(out, in, block);
    for (int of = 0; of < ranks; of++)
        for (long row = 0; row < z * ny; row++)
            memcpy(out + row * nx + of * x, in + of * block + row * x, x * sizeof *out);
    for (long i = 0; i < z; i++) rows(out + i * ny * nx, ny, nx, nx, 1, 1);
    rows(out, nx, 1, z * ny, nx, 1);
}

/* The initial field is the sum of these plane waves, so it is known at all later times. */
static const struct {
    int k[3];
    double amplitude;
} waves[] = {{{1, 2, 0}, 1.0}, {{-3, 0, 2}, 0.5}, {{2, -1, -3}, 0.25}};

static double decay_of(double kx, double ky, double kz) { return exp(-0.01 * (kx * kx + ky * ky + kz * kz)); }

static struct complex exact(double x, double y, double z, double time) {
    struct complex sum = {0, 0};
    for (int w = 0; w < 3; w++) {
        const int *k = waves[w].k;
        const double amplitude = waves[w].amplitude * pow(decay_of(k[0], k[1], k[2]), time);
        const struct complex phase = turn(2 * M_PI * (k[0] * x + k[1] * y + k[2] * z));
        sum = plus(sum, (struct complex){amplitude * phase.re, amplitude * phase.im});
    }
    return sum;
}

static double wave_number(long i, long n) { return i < n / 2 ? i : i - n; }

int main(int argc, char **argv) {
    struct arguments args = ranks_start(argc, argv, 32);
    /* Powers of two: the largest grid that fits. */
    long n[3] = {16, 16, 16};
    for (int d = 0; 2.0 * n[0] * n[1] * n[2] * 56 <= (double)args.bytes * ranks; d = (d + 1) % 3) n[d] *= 2;
    if (n[2] % ranks) return ranks_refuse("the number of ranks must be a power of two, and of more than 16 not for so few MiB");
    const long nx = n[0], ny = n[1], nz = n[2], x = nx / ranks, z = nz / ranks, points = x * ny * nz;
    const long steps = suite_times(2, args.work);
    struct complex *spectrum = suite_must(malloc(points * sizeof *spectrum));
    struct complex *work = suite_must(malloc(points * sizeof *work));
    struct complex *field = suite_must(malloc(points * sizeof *field));
    double *decay = suite_must(malloc(points * sizeof *decay));

    for (long i = 0, at = 0; i < z; i++)
        for (long j = 0; j < ny; j++)
            for (long k = 0; k < nx; k++, at++)
                field[at] = exact((double)k / nx, (double)j / ny, (double)(rank * z + i) / nz, 0);
    for (long i = 0, at = 0; i < x; i++)
        for (long j = 0; j < ny; j++)
            for (long k = 0; k < nz; k++, at++)
                decay[at] = decay_of(wave_number(rank * x + i, nx), wave_number(j, ny), wave_number(k, nz));
    forward(field, spectrum, nx, ny, nz);

    double worst = 0;
    ranks_begin();
    for (long step = 1; step <= steps; step++) {
        for (long i = 0; i < points; i++) {
            spectrum[i].re *= decay[i];
            spectrum[i].im *= decay[i];
            work[i] = spectrum[i];
        }
        backward(work, field, nx, ny, nz);
        double error = 0;
        for (long c = 0; c < 1024; c++) {
            const long at = suite_below(c, points), row = at / nx;
            const struct complex is = field[at], should = exact((double)(at % nx) / nx, (double)(row % ny) / ny,
                                                                (double)(rank * z + row / ny) / nz, step);
            error = fmax(error, hypot(is.re / nx / ny / nz - should.re, is.im / nx / ny / nz - should.im));
        }
        worst = fmax(worst, ranks_most(error));
    }
    ranks_end();
    free(spectrum), free(work), free(field), free(decay);
    return ranks_finish(worst < 1e-12, "%ld x %ld x %ld, %ld steps, largest error %.1e", nx, ny, nz, steps, worst);
}
