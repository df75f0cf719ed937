/* What an operation of MPI costs: a sum over the ranks of a communicator, again and again. calls TIMES [alone [KIB]]: `alone`, over the rank itself only, and
 * before each one so many KiB are written, so that nothing of it is in the caches. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const long times = argc > 1 ? atol(argv[1]) : 1000000;
  const MPI_Comm whose = argc > 2 ? MPI_COMM_SELF : MPI_COMM_WORLD;
  const long bytes = argc > 3 ? atol(argv[3]) << 10 : 0;
  char *written = malloc(bytes + 1);
  double mine = 1, sum, took = 0;
  for (long i = 0; i < times;) {
    for (long k = 0; k < bytes; k += 64) ((volatile char *)written)[k] = i;
    const double began = MPI_Wtime();
    do MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, whose);
    while (++i < times && !bytes);
    took += MPI_Wtime() - began;
  }
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%.1f\n", took / times * 1e9);
  free(written);
  MPI_Finalize();
  return 0;
}
