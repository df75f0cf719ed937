/* Memory on huge pages: 32 MiB for which the kernel is asked to use them, written to and in use for half a second. Prints how many MiB
 * the kernel says lie on them at the end.
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
  struct timespec start, now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    memset(table, (int)now.tv_nsec, SIZE);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6 < 500);
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long kib = 0;
  while (file && fgets(line, sizeof line, file)) sscanf(line, "AnonHugePages: %ld", &kib);
  printf("%ld\n", kib / 1024);
  return 0;
}
