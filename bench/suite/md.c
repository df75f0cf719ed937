/*
 * Molecular dynamics: a Lennard-Jones gas with neighbour lists, rebuilt every few steps.
 *
 * Origin: MiniMD and LAMMPS (paper 000, ecoHMEM, Sec. VIII). Own code with MiniMD's structure: full neighbour lists
 * of a fixed width for each atom, atoms sorted into cells for the rebuild. Thin and short-sighted (density 0.4,
 * cutoff 1.5): a liquid with the usual cutoff of 2.5 has six times as many pairs for each byte, too many for an
 * emulated machine.
 *
 * Hot: positions (9 % of the bytes), gathered for each pair. Cold per byte: the neighbour lists (60 % of the bytes),
 * of which the used part, a fifth, is read once a step; velocities and forces (9 % each), twice a step. Only in a
 * rebuild: cells and the sorted copy (12 %), which are allocated for it.
 */
#include "suite.h"

enum { MOST = 40, EVERY = 3 }; /* neighbours of an atom, steps between rebuilds */
static const double density = 0.4, cutoff = 1.5, skin = 0.2, step = 0.004, temperature = 1.5;

struct vector {
    double x, y, z;
};

static long atoms;
static double edge; /* of the periodic box */
static struct vector *position, *velocity, *force;
static int *neighbours, *neighbour_count;

static double fold(double x) { return x > 0.5 * edge ? x - edge : x < -0.5 * edge ? x + edge : x; }

/* So far from the walls that no neighbour is behind one, even after some steps. */
static int inside(double x) { return x > 2 * (cutoff + skin) && x < edge - 2 * (cutoff + skin); }

static double wrap(double x) { return x < 0 ? x + edge : x >= edge ? x - edge : x; }

/* Sorts the atoms into cells as wide as the list reaches and looks through the 27 cells around each; false when a list
 * is too short for its atom's neighbours. */
static int rebuild(void) {
    const double reach = cutoff + skin;
    const long side = (long)(edge / reach), cells = side * side * side;
    const double per_cell = side / edge;
    int *start = suite_must(calloc(cells + 2, sizeof *start)), *cell = suite_must(malloc(atoms * sizeof *cell));
    int *sorted = suite_must(malloc(atoms * sizeof *sorted));
    struct vector *sorted_position = suite_must(malloc(atoms * sizeof *sorted_position));
#pragma omp parallel for schedule(static)
    for (long i = 0; i < atoms; i++) {
        struct vector *p = &position[i];
        *p = (struct vector){wrap(p->x), wrap(p->y), wrap(p->z)};
        long x = (long)(p->x * per_cell), y = (long)(p->y * per_cell), z = (long)(p->z * per_cell);
        /* Rounding may put the last atom into the cell behind the wall. */
        x -= x == side, y -= y == side, z -= z == side;
        cell[i] = (z * side + y) * side + x;
    }
    /* Counting sort; `start` is shifted by one until the last pass has moved it back. */
    for (long i = 0; i < atoms; i++) start[cell[i] + 2]++;
    for (long c = 2; c <= cells + 1; c++) start[c] += start[c - 1];
    for (long i = 0; i < atoms; i++) {
        int at = start[cell[i] + 1]++;
        sorted[at] = i;
        sorted_position[at] = position[i];
    }

    int overflow = 0;
#pragma omp parallel for schedule(static) reduction(| : overflow)
    for (long c = 0; c < cells; c++) {
        /* The 27 cells around are nine rows of three that follow each other in `sorted`, but for a wall. */
        const long z = c / (side * side), y = c / side % side, x = c % side;
        int begin[18], end[18], ranges = 0;
        for (long dz = -1; dz <= 1; dz++)
            for (long dy = -1; dy <= 1; dy++) {
                const long row = ((z + dz + side) % side * side + (y + dy + side) % side) * side;
                begin[ranges] = start[row + (x ? x - 1 : 0)];
                end[ranges++] = start[row + (x < side - 1 ? x + 2 : side)];
                if (x == 0 || x == side - 1) {
                    const long behind = row + (x ? 0 : side - 1);
                    begin[ranges] = start[behind];
                    end[ranges++] = start[behind + 1];
                }
            }
        for (int a = start[c]; a < start[c + 1]; a++) {
            const struct vector here = sorted_position[a];
            const int deep = inside(here.x) && inside(here.y) && inside(here.z);
            int *list = neighbours + (long)sorted[a] * MOST, count = 0;
            for (int r = 0; r < ranges; r++)
                for (int b = begin[r], last = end[r]; b < last; b++) {
                    const struct vector *p = &sorted_position[b];
                    double rx = here.x - p->x, ry = here.y - p->y, rz = here.z - p->z;
                    if (!deep) rx = fold(rx), ry = fold(ry), rz = fold(rz);
                    if (rx * rx + ry * ry + rz * rz < reach * reach && b != a) {
                        if (count == MOST) overflow = 1;
                        else list[count++] = sorted[b];
                    }
                }
            neighbour_count[sorted[a]] = count;
        }
    }
    free(start), free(cell), free(sorted), free(sorted_position);
    return !overflow;
}

/* The force between two atoms this far apart, added to f; returns the pair's energy, zero at the cutoff. */
static inline double pair(double x, double y, double z, struct vector *f) {
    const double at_cutoff = 4 * (pow(cutoff, -12) - pow(cutoff, -6)), r2 = x * x + y * y + z * z;
    if (r2 >= cutoff * cutoff) return 0;
    double s2 = 1 / r2, s6 = s2 * s2 * s2, strength = 48 * s6 * (s6 - 0.5) * s2;
    f->x += strength * x;
    f->y += strength * y;
    f->z += strength * z;
    return 4 * s6 * (s6 - 1) - at_cutoff;
}

/* All forces; returns the potential energy. Sums are taken in 64 parts, so that they do not depend on the threads. */
static double forces(void) {
    double part[64], sum = 0;
#pragma omp parallel for schedule(static)
    for (int b = 0; b < 64; b++) {
        double energy = 0;
        for (long i = b * atoms / 64; i < (b + 1) * atoms / 64; i++) {
            struct vector f = {0, 0, 0}, here = position[i];
            const int *list = neighbours + i * MOST;
            const int deep = inside(here.x) && inside(here.y) && inside(here.z), count = neighbour_count[i];
            for (int k = 0; k < count; k++) {
                const struct vector *p = &position[list[k]];
                double x = here.x - p->x, y = here.y - p->y, z = here.z - p->z;
                energy += deep ? pair(x, y, z, &f) : pair(fold(x), fold(y), fold(z), &f);
            }
            force[i] = f;
        }
        part[b] = energy / 2; /* each pair stands in two lists */
    }
    for (int b = 0; b < 64; b++) sum += part[b];
    return sum;
}

/* Velocities by half a step and, if asked, positions by a whole one; returns the kinetic energy. */
static double push(int move) {
    double part[64], sum = 0;
#pragma omp parallel for schedule(static)
    for (int b = 0; b < 64; b++) {
        double energy = 0;
        for (long i = b * atoms / 64; i < (b + 1) * atoms / 64; i++) {
            struct vector *v = &velocity[i], *p = &position[i];
            const struct vector f = force[i];
            *v = (struct vector){v->x + 0.5 * step * f.x, v->y + 0.5 * step * f.y, v->z + 0.5 * step * f.z};
            if (move) *p = (struct vector){p->x + step * v->x, p->y + step * v->y, p->z + step * v->z};
            energy += 0.5 * (v->x * v->x + v->y * v->y + v->z * v->z);
        }
        part[b] = energy;
    }
    for (int b = 0; b < 64; b++) sum += part[b];
    return sum;
}

int main(int argc, char **argv) {
    struct arguments args = suite_arguments(argc, argv, 66);
    const long side = (long)cbrt(args.bytes / (3 * sizeof *position + (MOST + 1) * sizeof(int) + 32.0));
    atoms = side * side * side;
    edge = side / cbrt(density);
    position = suite_must(malloc(atoms * sizeof *position));
    velocity = suite_must(malloc(atoms * sizeof *velocity));
    force = suite_must(malloc(atoms * sizeof *force));
    neighbours = suite_must(malloc(atoms * MOST * sizeof *neighbours));
    neighbour_count = suite_must(malloc(atoms * sizeof *neighbour_count));

    /* A crystal, shaken, with velocities that add up to nothing because atoms come in opposite pairs. */
    const double spread = sqrt(12 * temperature), cell = edge / side;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < atoms; i++) {
        uint64_t place = suite_mix(i), speed = suite_mix(atoms + i / 2);
        double sign = i == atoms - 1 && atoms % 2 ? 0 : i % 2 ? 1 : -1;
        position[i].x = (i % side + 0.45 + 0.1 * (double)(place & 0xffff) * 0x1p-16) * cell;
        position[i].y = (i / side % side + 0.45 + 0.1 * (double)(place >> 16 & 0xffff) * 0x1p-16) * cell;
        position[i].z = (i / side / side + 0.45 + 0.1 * (double)(place >> 32 & 0xffff) * 0x1p-16) * cell;
        velocity[i].x = sign * spread * ((double)(speed & 0xffff) * 0x1p-16 - 0.5);
        velocity[i].y = sign * spread * ((double)(speed >> 16 & 0xffff) * 0x1p-16 - 0.5);
        velocity[i].z = sign * spread * ((double)(speed >> 32 & 0xffff) * 0x1p-16 - 0.5);
    }

    const long steps = suite_times(4, args.work);
    suite_begin();
    int room = rebuild();
    double potential = forces(), kinetic = 0, start = 0, drift = 0;
    for (long s = 0; s < steps && room; s++) {
        push(1);
        if (s && s % EVERY == 0) room = rebuild();
        double before = potential;
        potential = forces();
        kinetic = push(0);
        if (!s) start = kinetic + (potential + before) / 2;
        drift = fmax(drift, fabs(kinetic + potential - (s ? start : kinetic + potential)) / kinetic);
    }
    suite_end();

    /* Energy and momentum stay, and the lists miss nobody: some atoms' forces again, from all atoms. */
    struct vector momentum = {0, 0, 0};
    for (long i = 0; i < atoms; i++) {
        momentum.x += velocity[i].x;
        momentum.y += velocity[i].y;
        momentum.z += velocity[i].z;
    }
    double pushed = (fabs(momentum.x) + fabs(momentum.y) + fabs(momentum.z)) / atoms, missed = 0;
    for (int c = 0; c < 4; c++) {
        const long i = suite_below(c, atoms);
        struct vector f = {0, 0, 0};
        for (long j = 0; j < atoms; j++)
            if (j != i)
                pair(fold(position[i].x - position[j].x), fold(position[i].y - position[j].y),
                     fold(position[i].z - position[j].z), &f);
        missed = fmax(missed, fabs(f.x - force[i].x) + fabs(f.y - force[i].y) + fabs(f.z - force[i].z));
    }
    free(position), free(velocity), free(force), free(neighbours), free(neighbour_count);
    return suite_finish(room && drift < 1e-4 + 1e-5 * steps && pushed < 1e-10 && missed < 1e-8,
                        "%ld atoms, %ld steps, energy %.8f an atom, drift %.0e, momentum %.0e, force missed %.0e%s",
                        atoms, steps, (kinetic + potential) / atoms, drift, pushed, missed,
                        room ? "" : ", a neighbour list overflowed");
}
