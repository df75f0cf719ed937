/* Ranks that work on one array, communicate, work on the other and pass something round, in the ways in which MPI programs communicate. Prints how many
 * ranks there are and whether each received what it should. The first argument says in how many turns. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1 << 20 };
static int turns, rank, ranks;

static double work(double *a) {
  double sum = 0;
  for (long i = 0; i < LENGTH; i++) sum += a[i] += 1;
  return sum;
}

/* With MPI_THREAD_MULTIPLE another thread communicates meanwhile; its operations are no phases of the program. */
static void *other(void *arg) {
  MPI_Comm *own = arg;
  for (int turn = 0; turn < turns; turn++) MPI_Barrier(*own);
  return NULL;
}

int main(int argc, char **argv) {
  int provided, right = 1;
  turns = argc > 1 ? atoi(argv[1]) : 10;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  pthread_t thread;
  if (provided == MPI_THREAD_MULTIPLE) pthread_create(&thread, NULL, other, &own);
  double *a = calloc(LENGTH, sizeof *a), *b = calloc(LENGTH, sizeof *b);
  for (int turn = 0; turn < turns; turn++) {
    double sum = work(a), all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    right &= all == ranks * sum;
    double out = work(b) + rank, in;
    MPI_Request request[2];
    MPI_Status status[2];
    MPI_Irecv(&in, 1, MPI_DOUBLE, (rank + 1) % ranks, 7, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(&out, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, status);
    right &= in == out - rank + (rank + 1) % ranks;
  }
  int done = 0;
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  /* Communicators and windows are made together. */
  MPI_Comm node, grid;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
  int near;
  MPI_Comm_size(node, &near);
  if (near == ranks) { /* Open MPI 4 has no windows over TCP. */
    MPI_Win window;
    void *shared;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    MPI_Win_free(&window);
  }
  MPI_Comm_free(&grid);
  MPI_Comm_free(&node);
  /* Twelve arguments: more than half are on the stack. */
  double mine = rank, back;
  MPI_Sendrecv(&mine, 1, MPI_DOUBLE, rank, 3, &back, 1, MPI_DOUBLE, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  right &= back == mine;
  if (provided == MPI_THREAD_MULTIPLE) pthread_join(thread, NULL);
  MPI_Comm_free(&own);
  int all_right;
  MPI_Reduce(&right, &all_right, 1, MPI_INT, MPI_LAND, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: %s\n", ranks, all_right ? "right" : "wrong");
  MPI_Finalize();
  free(a);
  free(b);
  return right ? 0 : 1;
}
