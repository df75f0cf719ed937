/* Phases between operations of MPI, of which each works on one of two arrays; a third one is only filled: phased TURNS. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20 };

static double *filled(double by) {
    double *v = malloc(N * sizeof *v);
    if (!v) exit(2);
    for (long i = 0; i < N; i++) v[i] = by;
    return v;
}

static double gather(const double *v, long from) {
    double sum = 0;
    for (long i = 0; i < N; i++) sum += v[(from + i * 7919) % N];
    return sum;
}

int main(int argc, char **argv) {
    long turns = argc > 1 ? atol(argv[1]) : 3;
    double sum = 0, all = 0;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *left = filled(1);
    double *right = filled(2);
    double *spare = filled(3);
    for (long t = 0; t < turns; t++) {
        MPI_Barrier(MPI_COMM_WORLD);
        sum += gather(left, t);
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += gather(right, t);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sum += spare[N - 1];
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%g %g\n", sum, all);
    free(left);
    free(right);
    free(spare);
    MPI_Finalize();
    return 0;
}
