/*
 * What the C programs share beside the suite's arguments and last line (../../suite/suite.h): their ranks.
 *
 *     mpirun -np RANKS PROGRAM [work [MiB]]
 *
 * `MiB` is about the memory of each rank. One rank marks for the lab what is measured, and prints the one line.
 */
#ifndef RANKS_H
#define RANKS_H

#include "../../suite/suite.h"
#include <mpi.h>
#include <time.h>

static int rank, ranks;

static inline struct arguments ranks_start(int argc, char **argv, double default_mib) {
    struct arguments a = suite_arguments(argc, argv, default_mib);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return a;
}

/* Processor time of this process, in seconds. */
static inline double ranks_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double ranks_began;

static inline void ranks_begin(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) suite_begin();
    ranks_began = ranks_seconds();
}

/* With RANKS_SECONDS in the environment each rank says what processor time it took. */
static inline void ranks_end(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) suite_end();
    if (getenv("RANKS_SECONDS")) fprintf(stderr, "seconds %.6f\n", ranks_seconds() - ranks_began);
}

static inline double ranks_sum(double mine) {
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static inline double ranks_most(double mine) {
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* Planes of `points` numbers at an array's two ends are those of the ranks below and above, in a ring if `ring`. */
static inline void ranks_planes(double *x, long planes, long points, int ring) {
    const int first = rank == 0 && !ring, last = rank == ranks - 1 && !ring;
    const int below = first ? MPI_PROC_NULL : (rank + ranks - 1) % ranks;
    const int above = last ? MPI_PROC_NULL : (rank + 1) % ranks;
    MPI_Sendrecv(x + points, points, MPI_DOUBLE, below, 0, x + (planes + 1) * points, points, MPI_DOUBLE, above, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(x + planes * points, points, MPI_DOUBLE, above, 1, x, points, MPI_DOUBLE, below, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* The end of all ranks, when arguments make no sense for so many. */
static inline int ranks_refuse(const char *sentence) {
    if (rank == 0) fprintf(stderr, "%s: %s\n", program_invocation_short_name, sentence);
    MPI_Finalize();
    return 2;
}

/* The end of all ranks, of which the first one prints the line. */
#define ranks_finish(right, ...) (MPI_Finalize(), rank == 0 ? suite_finish(right, __VA_ARGS__) : !(right))

#endif
