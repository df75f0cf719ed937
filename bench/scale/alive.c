/* Very many objects alive at once: allocates them, keeps them for three seconds, frees every other one, then the rest.
 *
 *     alive OBJECTS BYTES OBJECTS-A-MILLISECOND
 *
 * No faster than it is told, so that a recorder that shares its processors with others is not outrun; 0: as fast as it goes.
 * The objects are not written to, so that they take address space and no memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void rest(double seconds) {
  if (seconds > 0) nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

static double start;
static long done, rate;

/* An operation was made; waits until the next is due. */
static void paced(void) {
  done++;
  if (rate && done % rate == 0) rest(start + done / rate / 1e3 - now());
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fputs("usage: alive OBJECTS BYTES OBJECTS-A-MILLISECOND\n", stderr);
    return 2;
  }
  long objects = atol(argv[1]);
  size_t bytes = strtoul(argv[2], NULL, 10);
  rate = atol(argv[3]);
  char **all = malloc(objects * sizeof *all);
  if (!all) return 1;
  start = now();
  for (long i = 0; i < objects; i++, paced())
    if (!(all[i] = malloc(bytes))) return 1;
  rest(3);
  start = now(), done = 0;
  for (long i = 0; i < objects; i += 2, paced()) free(all[i]);
  for (long i = 1; i < objects; i += 2, paced()) free(all[i]);
  free(all);
  return 0;
}
