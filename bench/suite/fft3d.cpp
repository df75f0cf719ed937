/*
 * A 3-D fast Fourier transform: the heat equation solved in Fourier space, transformed back at each time step.
 *
 * Origin: FT of the NAS Parallel Benchmarks (paper 004, Unimem, Table 3: u0, u1, u2, twiddle): one forward transform,
 * then for each step the spectrum is multiplied by a table of decay factors and transformed back. Own radix-2
 * transform: each of the three passes transforms rows and writes them transposed, so that three passes restore the
 * order.
 *
 * Hot: the two working arrays (57 % of the bytes), read or written in each of the three passes of a transform, half
 * of it with large strides. Cold: spectrum (29 %) and decay (14 %), touched once a step. The roots of unity stay in
 * the cache.
 */
#include "suite.h"
#include <vector>

namespace {

struct complex {
    double re, im;
};

complex operator*(complex a, complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
complex turn(double angle) { return {std::cos(angle), std::sin(angle)}; }

/* What the transform of a row of one length needs: roots of unity and the bit-reversed order. */
struct Row {
    long n;
    std::vector<complex> roots;
    std::vector<int> reversed;

    Row(long length, int sign) : n(length), roots(length / 2), reversed(length) {
        for (long i = 0; i < n / 2; i++) roots[i] = turn(sign * 2 * M_PI * i / n);
        for (long i = 1, j = 0; i < n; i++) {
            long bit = n / 2;
            for (; j & bit; bit /= 2) j ^= bit;
            j ^= bit;
            reversed[i] = j;
        }
    }

    /* From `in` to `out`, not scaled. */
    void transform(const complex *in, complex *out) const {
        for (long i = 0; i < n; i += 2) {
            complex a = in[reversed[i]], b = in[reversed[i + 1]];
            out[i] = a + b;
            out[i + 1] = a - b;
        }
        for (long half = 2, step = n / 4; half < n; half *= 2, step /= 2)
            for (long start = 0; start < n; start += 2 * half)
                for (long k = 0; k < half; k++) {
                    complex a = out[start + k], b = out[start + k + half] * roots[k * step];
                    out[start + k] = a + b;
                    out[start + k + half] = a - b;
                }
    }
};

/* Transforms the rows of from[a][b][c] along c and writes them to to[c][a][b]. */
void pass(const complex *from, complex *to, long a, long b, long c, int sign) {
    const long together = 8; /* rows, so that the transposed writes fill cache lines */
    const Row row(c, sign);
#pragma omp parallel
    {
        std::vector<complex> rows(together * c);
#pragma omp for schedule(static)
        for (long first = 0; first < a * b; first += together) {
            for (long r = 0; r < together; r++) row.transform(from + (first + r) * c, &rows[r * c]);
            for (long k = 0; k < c; k++)
                for (long r = 0; r < together; r++) to[k * a * b + first + r] = rows[r * c + k];
        }
    }
}

/* From `in`, which is used up, to `out`; both [z][y][x]. */
void transform(complex *in, complex *out, const long n[3], int sign) {
    pass(in, out, n[2], n[1], n[0], sign); /* now [x][z][y] */
    pass(out, in, n[0], n[2], n[1], sign); /* now [y][x][z] */
    pass(in, out, n[1], n[0], n[2], sign);
}

/* The initial field is the sum of these plane waves, so it is known at all later times. */
struct Wave {
    int k[3];
    double amplitude;
};
const Wave waves[] = {{{1, 2, 0}, 1.0}, {{-3, 0, 2}, 0.5}, {{2, -1, -3}, 0.25}};
const double decay_rate = 0.01;

double decay_of(double kx, double ky, double kz) { return std::exp(-decay_rate * (kx * kx + ky * ky + kz * kz)); }

complex exact(long x, long y, long z, const long n[3], double time) {
    complex sum = {0, 0};
    for (const Wave &w : waves) {
        double amplitude = w.amplitude * std::pow(decay_of(w.k[0], w.k[1], w.k[2]), time);
        double turns = (double)w.k[0] * x / n[0] + (double)w.k[1] * y / n[1] + (double)w.k[2] * z / n[2];
        complex phase = turn(2 * M_PI * turns);
        sum = sum + complex{amplitude * phase.re, amplitude * phase.im};
    }
    return sum;
}

}  // namespace

int main(int argc, char **argv) {
    arguments args = suite_arguments(argc, argv, 112);
    /* Powers of two, the first edges longer: the largest grid that fits. */
    long n[3] = {16, 16, 16};
    for (int d = 0; 2.0 * n[0] * n[1] * n[2] * 56 <= args.bytes; d = (d + 1) % 3) n[d] *= 2;
    const long points = n[0] * n[1] * n[2], steps = suite_times(1, args.work);

    complex *spectrum = new complex[points];
    complex *work = new complex[points];
    complex *field = new complex[points];
    double *decay = new double[points];

    /* Waves are products of functions of one coordinate: tables instead of sines for each point. */
    std::vector<complex> along_x(n[0] * 3);
    for (int w = 0; w < 3; w++)
        for (long x = 0; x < n[0]; x++) along_x[x * 3 + w] = turn(2 * M_PI * waves[w].k[0] * x / n[0]);
    auto wave_number = [&](long i, int d) { return (double)(i < n[d] / 2 ? i : i - n[d]); };
    std::vector<double> decay_x(n[0]);
    for (long x = 0; x < n[0]; x++) decay_x[x] = decay_of(wave_number(x, 0), 0, 0);
#pragma omp parallel for collapse(2) schedule(static)
    for (long z = 0; z < n[2]; z++)
        for (long y = 0; y < n[1]; y++) {
            complex start[3];
            for (int w = 0; w < 3; w++) {
                complex phase = turn(2 * M_PI * ((double)waves[w].k[1] * y / n[1] + (double)waves[w].k[2] * z / n[2]));
                start[w] = {waves[w].amplitude * phase.re, waves[w].amplitude * phase.im};
            }
            double decay_yz = decay_of(0, wave_number(y, 1), wave_number(z, 2));
            for (long x = 0, at = (z * n[1] + y) * n[0]; x < n[0]; x++, at++) {
                const complex *t = &along_x[x * 3];
                field[at] = start[0] * t[0] + start[1] * t[1] + start[2] * t[2];
                decay[at] = decay_x[x] * decay_yz;
            }
        }

    suite_begin();
    transform(field, spectrum, n, -1);
    double worst = 0, checksum = 0;
    for (long step = 1; step <= steps; step++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < points; i++) {
            spectrum[i].re *= decay[i];
            spectrum[i].im *= decay[i];
            work[i] = spectrum[i];
        }
        transform(work, field, n, 1);
        for (long c = 0; c < 1024; c++) {
            long at = suite_below(c, points);
            complex is = field[at], should = exact(at % n[0], at / n[0] % n[1], at / n[0] / n[1], n, step);
            worst = std::fmax(worst, std::hypot(is.re / points - should.re, is.im / points - should.im));
            checksum += is.re / points;
        }
    }
    suite_end();
    delete[] spectrum;
    delete[] work;
    delete[] field;
    delete[] decay;
    return suite_finish(worst < 1e-12, "%ld x %ld x %ld, %ld steps, largest error %.1e, checksum %.6f", n[0], n[1],
                        n[2], steps, worst, checksum);
}
