/* Memory on huge pages: 32 MiB for which the kernel is asked to use them, written to for half a second. Prints how many MiB the
 * kernel says lie on them a second later.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MIB = 1 << 20, SIZE = 32 * MIB };

int main(void) {
  char *table = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED || madvise(table, SIZE, MADV_HUGEPAGE)) return 1;
  /* All at once, before a tool can be at work on it; kernels before 5.14 do not know it. */
  madvise(table, SIZE, 23 /* MADV_POPULATE_WRITE */);
  struct timespec start, now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    memset(table, (int)now.tv_nsec, SIZE);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < 500);
  /* So that a tool which is at work on it comes to an end with that. */
  nanosleep(&(struct timespec){1, 0}, NULL);
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long kib = 0;
  while (file && fgets(line, sizeof line, file)) sscanf(line, "AnonHugePages: %ld", &kib);
  printf("%ld\n", kib / 1024);
  return 0;
}
