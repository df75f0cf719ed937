/* Many objects alive while others come and go: allocates OBJECTS of BYTES bytes, says so, and then replaces one after the other for SECONDS seconds.
 *
 *     steady OBJECTS BYTES EVENTS-A-MILLISECOND SECONDS
 *
 * An event is an allocation or a free; no faster than it is told. One byte of each object is written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static double start;
static long done, rate;

/* An event was made; waits until the next is due. */
static void paced(void) {
  if (++done % rate) return;
  double seconds = start + done / rate / 1e3 - now();
  if (seconds > 0) nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

static char *fresh(size_t bytes) {
  char *p = malloc(bytes);
  if (!p) exit(1);
  *p = 1;
  paced();
  return p;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fputs("usage: steady OBJECTS BYTES EVENTS-A-MILLISECOND SECONDS\n", stderr);
    return 2;
  }
  long objects = atol(argv[1]);
  size_t bytes = strtoul(argv[2], NULL, 10);
  rate = atol(argv[3]);
  double seconds = atof(argv[4]);
  char **all = malloc(objects * sizeof *all);
  if (!all || rate < 1) return 1;
  start = now();
  for (long i = 0; i < objects; i++) all[i] = fresh(bytes);
  puts("ready");
  fflush(stdout);
  start = now(), done = 0;
  for (long i = 0; now() - start < seconds; i = (i + 7919) % objects) {
    free(all[i]);
    paced();
    all[i] = fresh(bytes);
  }
  printf("%.0f events a second\n", done / (now() - start));
  return 0;
}
