/*
 * Shock hydrodynamics: a point blast (Sedov) in the corner of a cube of gas, Euler's equations, finite volumes with
 * Rusanov's fluxes (first order), reflecting walls.
 *
 * Origin: LULESH and CloverLeaf3D (paper 000, ecoHMEM, Sec. VII-A and VIII; LULESH also in 001 and 003). Own, simpler
 * physics with their way with memory: each time step is a row of phases, and each phase allocates the temporaries
 * that it needs and frees them, so that bandwidth comes and goes with objects that live for milliseconds (000 Fig.
 * 3).
 *
 * Long-lived: density, momentum (3), energy: a quarter of the bytes at the peak. Short-lived: velocity (3), pressure
 * and sound speed for a whole step, the change (5) likewise, the fluxes (5) for one direction. Hot: velocity,
 * pressure and sound speed, written once and read three times, with neighbours. The others are streamed; nothing here
 * is cold, so what counts is which short-lived objects get the room.
 */
#include "suite.h"
#include <algorithm>
#include <memory>
#include <vector>

namespace {

using Array = std::unique_ptr<double[]>;
const double gamma_gas = 1.4;
const int conserved = 5; /* density, momentum in x, y and z, energy */

struct Gas {
    long n, cells;
    Array of[conserved];
};

struct Primitive {
    Array velocity[3], pressure, sound;
};

Array array_of(long cells) { return Array(new double[cells]); }

/* Velocity, pressure and sound speed of each cell; returns the largest signal speed. */
double state_phase(const Gas &gas, Primitive &now) {
    for (Array &v : now.velocity) v = array_of(gas.cells);
    now.pressure = array_of(gas.cells);
    now.sound = array_of(gas.cells);
    double fastest = 0;
#pragma omp parallel for schedule(static) reduction(max : fastest)
    for (long c = 0; c < gas.cells; c++) {
        double density = gas.of[0][c], kinetic = 0, speed = 0;
        for (int d = 0; d < 3; d++) {
            double momentum = gas.of[1 + d][c], v = momentum / density;
            now.velocity[d][c] = v;
            kinetic += 0.5 * momentum * v;
            speed = std::max(speed, std::fabs(v));
        }
        double pressure = (gamma_gas - 1) * (gas.of[4][c] - kinetic);
        now.pressure[c] = pressure;
        now.sound[c] = std::sqrt(gamma_gas * pressure / density);
        fastest = std::max(fastest, speed + now.sound[c]);
    }
    return fastest;
}

/* Where a row of cells, which runs along x, lies along direction y (1) or z (2). */
inline long place(int d, long n, long row) { return d == 1 ? row % n : row / n; }

/* Adds what flows through the faces across direction d to `change`. */
void flux_phase(const Gas &gas, const Primitive &now, int d, Array change[conserved]) {
    const long n = gas.n, stride = d == 0 ? 1 : d == 1 ? n : n * n;
    const double *v = now.velocity[d].get(), *p = now.pressure.get(), *sound = now.sound.get();
    const double *momentum = gas.of[1 + d].get();
    Array flux[conserved]; /* through the upper face of each cell */
    for (Array &f : flux) f = array_of(gas.cells);
#pragma omp parallel
    {
        std::vector<double> signal(n); /* the faster of the two sides of each face */
#pragma omp for schedule(static)
        for (long row = 0; row < n * n; row++) {
            const long begin = row * n, faces = d == 0 ? n - 1 : place(d, n, row) < n - 1 ? n : 0;
            for (long x = 0; x < n; x++) signal[x] = std::fabs(v[begin + x]) + sound[begin + x];
            for (long c = begin; c < begin + faces; c++) {
                double beyond = std::fabs(v[c + stride]) + sound[c + stride];
                if (beyond > signal[c - begin]) signal[c - begin] = beyond;
            }
            for (int q = 0; q < conserved; q++) {
                const double *u = gas.of[q].get(), *fast = signal.data() - begin;
                double *out = flux[q].get();
                for (long c = begin, r = c + stride; c < begin + faces; c++, r++)
                    out[c] = 0.5 * (u[c] * v[c] + u[r] * v[r] - fast[c] * (u[r] - u[c]));
                if (q == 1 + d)
                    for (long c = begin; c < begin + faces; c++) out[c] += 0.5 * (p[c] + p[c + stride]);
                if (q == 4)
                    for (long c = begin, r = c + stride; c < begin + faces; c++, r++)
                        out[c] += 0.5 * (p[c] * v[c] + p[r] * v[r]);
                /* A wall: the neighbour is the mirror image. */
                for (long c = begin + faces; c < begin + n; c++)
                    out[c] = q == 1 + d ? momentum[c] * (v[c] + fast[c]) + p[c] : 0;
            }
        }
    }
#pragma omp parallel for schedule(static)
    for (long row = 0; row < n * n; row++)
        for (int q = 0; q < conserved; q++) {
            const long begin = row * n, walls = d == 0 ? 1 : place(d, n, row) == 0 ? n : 0;
            const double *out = flux[q].get();
            double *to = change[q].get();
            for (long c = begin; c < begin + walls; c++)
                to[c] += (q == 1 + d ? momentum[c] * (v[c] - std::fabs(v[c]) - sound[c]) + p[c] : 0) - out[c];
            for (long c = begin + walls; c < begin + n; c++) to[c] += out[c - stride] - out[c];
        }
}

/* One step forward in time; the step is as long as the fastest signal allows. */
void advance(Gas &gas) {
    Primitive now;
    const double fastest = state_phase(gas, now), step = 0.3 / fastest; /* in cell widths; 3-D unsplit: below 1/3 */
    Array change[conserved];
    for (Array &c : change) {
        c = array_of(gas.cells);
        double *to = c.get();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < gas.cells; i++) to[i] = 0;
    }
    for (int d = 0; d < 3; d++) flux_phase(gas, now, d, change);
    for (int q = 0; q < conserved; q++) {
        double *to = gas.of[q].get();
        const double *by = change[q].get();
#pragma omp parallel for schedule(static)
        for (long c = 0; c < gas.cells; c++) to[c] += step * by[c];
    }
}

/* The sum, the same for any number of threads. */
double total(const Array &a, long cells) {
    double part[64], sum = 0;
#pragma omp parallel for schedule(static)
    for (int b = 0; b < 64; b++) {
        part[b] = 0;
        for (long c = b * cells / 64; c < (b + 1) * cells / 64; c++) part[b] += a[c];
    }
    for (double p : part) sum += p;
    return sum;
}

}  // namespace

int main(int argc, char **argv) {
    arguments args = suite_arguments(argc, argv, 68);
    Gas gas;
    gas.n = (long)std::cbrt(args.bytes / (20.0 * sizeof(double)));
    gas.cells = gas.n * gas.n * gas.n;
    for (Array &a : gas.of) a = array_of(gas.cells);
#pragma omp parallel for schedule(static)
    for (long c = 0; c < gas.cells; c++) {
        gas.of[0][c] = 1;
        for (int d = 0; d < 3; d++) gas.of[1 + d][c] = 0;
        gas.of[4][c] = 0.01;
    }
    gas.of[4][0] = 100;

    const double mass = total(gas.of[0], gas.cells), energy = total(gas.of[4], gas.cells);
    const long steps = suite_times(5, args.work);
    suite_begin();
    for (long s = 0; s < steps; s++) advance(gas);
    suite_end();

    /* Mass and energy stay, density stays positive, and the three axes are alike. */
    const double lost = std::fabs(total(gas.of[0], gas.cells) / mass - 1) +
                        std::fabs(total(gas.of[4], gas.cells) / energy - 1);
    double skew = 0, least = 1;
    const long n = gas.n, look = n < 40 ? n : 40;
    for (long i = 0; i < look; i++)
        for (long j = 0; j < look; j++)
            for (long k = 0; k < look; k++) {
                double here = gas.of[0][(i * n + j) * n + k];
                skew = std::fmax(skew, std::fabs(here - gas.of[0][(k * n + i) * n + j]));
                least = std::fmin(least, here);
            }
    return suite_finish(lost < 1e-10 && skew < 1e-10 && least > 0,
                        "n %ld, %ld steps, lost %.0e, skew %.0e, density at the blast %.9f", n, steps, lost, skew,
                        gas.of[0][0]);
}
