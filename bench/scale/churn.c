/* Objects that come and go as fast as they are told to, in several threads.
 *
 *     churn THREADS OBJECTS-A-SECOND SECONDS KEPT
 *
 * Each thread replaces the oldest of KEPT objects of 4 KiB, in bursts of a millisecond's worth, until so many seconds are over.
 * Nothing is written to them. Prints how many objects a second there were in all.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 64, MOST_KEPT = 10000 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static double rate, seconds;
static int kept_each;

static void *thread(void *made) {
  char *kept[MOST_KEPT] = {0};
  long n = 0;
  for (double start = now(), at = start; at - start < seconds; at = now()) {
    /* Late bursts are made up for. */
    for (long due = (long)((at - start) * rate); n < due; n++) {
      free(kept[n % kept_each]);
      if (!(kept[n % kept_each] = malloc(4096))) abort();
    }
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  for (int i = 0; i < kept_each; i++) free(kept[i]);
  *(long *)made = n;
  return NULL;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 0;
  kept_each = argc > 4 ? atoi(argv[4]) : 0;
  if (argc != 5 || threads < 1 || threads > MOST || kept_each < 1 || kept_each > MOST_KEPT) {
    fputs("usage: churn THREADS OBJECTS-A-SECOND SECONDS KEPT\n", stderr);
    return 2;
  }
  rate = atof(argv[2]) / threads, seconds = atof(argv[3]);
  pthread_t all[MOST];
  long made[MOST], sum = 0;
  double start = now();
  for (int i = 0; i < threads; i++)
    if (pthread_create(&all[i], NULL, thread, &made[i])) return 1;
  for (int i = 0; i < threads; i++) {
    pthread_join(all[i], NULL);
    sum += made[i];
  }
  printf("%.0f\n", sum / (now() - start));
  return 0;
}
