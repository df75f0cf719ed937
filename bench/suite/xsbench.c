/*
 * Cross-section lookups of a Monte Carlo neutron code: a random energy in a random material, for each of the
 * material's nuclides the two grid points around that energy, interpolated and summed.
 *
 * Origin: paper 002 (H2M) Sec. 5.1, XSBench, with its three dominant data items, of which the paper finds
 * nuclide_grid to decide the time, unionized_energy_array to matter little and index_grid, the largest, hardly at all
 * (Sec. 5.3, Experiment 1). Own code with the structure of XSBench (Tramm et al., PHYSOR 2014): 12 materials, their
 * shares of the lookups and their sizes as in its small Hoogenboom-Martin reactor; here 128 nuclides. Like the
 * paper's version it allocates index_grid in 20 equal parts.
 *
 * Hot: nuclide_grid (8 % of the bytes, two random grid points for each nuclide); unionized_energy (1 %, a binary
 * search for each lookup). Cold: index_grid (90 %), of which each lookup reads a few lines in one row.
 */
#include "suite.h"

enum { NUCLIDES = 128, MATERIALS = 12, PARTS = 20, CHANNELS = 5, LARGEST = 34, EVERY = 64 };

struct point {
    double energy, xs[CHANNELS]; /* total, elastic, absorption, fission, nu-fission */
};

static const int size_of[MATERIALS] = {LARGEST, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9};
static const double share_of[MATERIALS] = {.140, .052, .275, .134, .154, .064, .066, .055, .008, .015, .025, .012};

static long points;                /* in the grid of one nuclide */
static long union_points;          /* in all of them */
static long rows_in_part;          /* of index_grid */
static struct point *nuclide_grid; /* NUCLIDES x points */
static double *unionized_energy;
static int *index_grid[PARTS];     /* for each union point and nuclide the point of its grid below */
static int *nuclide_of[MATERIALS]; /* which nuclides a material has */
static double *density_of[MATERIALS];

static void interpolate(const struct point *low, double energy, double density, double macro[CHANNELS]) {
    double f = (low[1].energy - energy) / (low[1].energy - low[0].energy);
    for (int c = 0; c < CHANNELS; c++) macro[c] += density * (low[1].xs[c] - f * (low[1].xs[c] - low[0].xs[c]));
}

static void look_up(double energy, int material, double macro[CHANNELS]) {
    long low = 0, high = union_points - 1;
    while (high - low > 1) {
        long middle = (low + high) / 2;
        if (unionized_energy[middle] > energy) high = middle;
        else low = middle;
    }
    const int *row = index_grid[low / rows_in_part] + low % rows_in_part * NUCLIDES;
    for (int c = 0; c < CHANNELS; c++) macro[c] = 0;
    for (int i = 0; i < size_of[material]; i++) {
        int nuclide = nuclide_of[material][i];
        interpolate(nuclide_grid + nuclide * points + row[nuclide], energy, density_of[material][i], macro);
    }
}

/* The same without index grid and union: a search in the nuclide's own grid. */
static void look_up_directly(double energy, int material, double macro[CHANNELS]) {
    for (int c = 0; c < CHANNELS; c++) macro[c] = 0;
    for (int i = 0; i < size_of[material]; i++) {
        const struct point *grid = nuclide_grid + nuclide_of[material][i] * points;
        long low = 0, high = points - 1;
        while (high - low > 1) {
            long middle = (low + high) / 2;
            if (grid[middle].energy > energy) high = middle;
            else low = middle;
        }
        interpolate(grid + low, energy, density_of[material][i], macro);
    }
}

struct entry {
    double energy;
    int nuclide;
};

static int by_energy(const void *a, const void *b) {
    double x = ((const struct entry *)a)->energy, y = ((const struct entry *)b)->energy;
    return (x > y) - (x < y);
}

/* Every nuclide has one point in each of `points` equal intervals, so the union is sorted interval by interval. */
static void fill(void) {
#pragma omp parallel for schedule(static)
    for (long n = 0; n < NUCLIDES; n++)
        for (long i = 0; i < points; i++) {
            struct point *p = &nuclide_grid[n * points + i];
            uint64_t draw = suite_mix(n << 32 | i);
            p->energy = (i + (double)(draw >> 11) * 0x1p-53) / points;
            for (int c = 0; c < CHANNELS; c++) p->xs[c] = (double)(draw >> (c * 8) & 0xffff) * 0x1p-16;
        }
#pragma omp parallel for schedule(static)
    for (long i = 0; i < points; i++) {
        struct entry here[NUCLIDES];
        int below[NUCLIDES];
        for (int n = 0; n < NUCLIDES; n++) {
            here[n] = (struct entry){nuclide_grid[n * points + i].energy, n};
            below[n] = i ? i - 1 : 0;
        }
        qsort(here, NUCLIDES, sizeof *here, by_energy);
        for (int e = 0; e < NUCLIDES; e++) {
            long u = i * NUCLIDES + e;
            unionized_energy[u] = here[e].energy;
            below[here[e].nuclide] = i < points - 1 ? i : points - 2; /* the last point is no lower end */
            memcpy(index_grid[u / rows_in_part] + u % rows_in_part * NUCLIDES, below, sizeof below);
        }
    }
    for (int m = 0; m < MATERIALS; m++)
        for (int i = 0; i < size_of[m]; i++) {
            /* Fuel has the first nuclides, the others theirs anywhere; none twice. */
            nuclide_of[m][i] = (i * (m ? 37 : 1) + m * 11) % NUCLIDES;
            density_of[m][i] = 0.1 + suite_unit(1000 + m * LARGEST + i);
        }
}

int main(int argc, char **argv) {
    struct arguments args = suite_arguments(argc, argv, 128);
    points = args.bytes / (NUCLIDES * (sizeof(struct point) + sizeof(double) + NUCLIDES * sizeof(int)));
    union_points = points * NUCLIDES;
    rows_in_part = (union_points + PARTS - 1) / PARTS;
    for (int p = 0; p < PARTS; p++) suite_array(index_grid[p], rows_in_part * NUCLIDES * sizeof(int));
    suite_array(unionized_energy, union_points * sizeof *unionized_energy);
    suite_array(nuclide_grid, NUCLIDES * points * sizeof *nuclide_grid);
    suite_arrays_end();
    for (int m = 0; m < MATERIALS; m++) {
        nuclide_of[m] = suite_must(malloc(size_of[m] * sizeof(int)));
        density_of[m] = suite_must(malloc(size_of[m] * sizeof(double)));
    }
    fill();

    long lookups = suite_times(400000, args.work), wrong = 0;
    uint64_t checksum = 0;
    suite_begin();
#pragma omp parallel for schedule(static) reduction(+ : wrong, checksum)
    for (long l = 0; l < lookups; l++) {
        double energy = suite_unit(2 * l), pick = suite_unit(2 * l + 1), macro[CHANNELS], again[CHANNELS];
        int material = 0;
        for (double sum = share_of[0]; sum < pick && material < MATERIALS - 1; sum += share_of[material]) material++;
        look_up(energy, material, macro);
        checksum += (uint64_t)(macro[l % CHANNELS] * 1e6);
        if (l % EVERY == 0) {
            look_up_directly(energy, material, again);
            wrong += memcmp(macro, again, sizeof macro) != 0;
        }
    }
    suite_end();
    for (int p = 0; p < PARTS; p++) free(index_grid[p]);
    for (int m = 0; m < MATERIALS; m++) free(nuclide_of[m]), free(density_of[m]);
    free(unionized_energy), free(nuclide_grid);
    return suite_finish(!wrong, "%ld grid points, %ld lookups, %ld of %ld wrong, checksum %llu", union_points, lookups,
                        wrong, (lookups + EVERY - 1) / EVERY, (unsigned long long)checksum);
}
