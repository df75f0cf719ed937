/* What an operation of MPI costs: a sum over the ranks of a communicator, again and again. calls TIMES [alone]: `alone`, over the rank itself only. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const long times = argc > 1 ? atol(argv[1]) : 1000000;
  const MPI_Comm whose = argc > 2 ? MPI_COMM_SELF : MPI_COMM_WORLD;
  double mine = 1, sum, began = MPI_Wtime();
  for (long i = 0; i < times; i++) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, whose);
  began = MPI_Wtime() - began;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%.1f\n", began / times * 1e9);
  MPI_Finalize();
  return 0;
}
