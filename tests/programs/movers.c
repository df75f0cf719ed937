/* Objects that come and go while phases move their like.
 *
 *   movers REGIONS
 *
 * Three threads allocate, fill, check, resize and free objects of 64 KiB to 2 MiB from one function, while the first one begins so many
 * parallel regions, in which it checks an object of its own, and waits half a millisecond. Prints `whole` if every byte was what was written.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, KIB = 1 << 10, OWN = 6 << 20 };

static atomic_int over, broken;

static char *must(void *p) {
  if (!p) {
    fputs("movers: no memory\n", stderr);
    exit(1);
  }
  return p;
}

__attribute__((noinline)) static char *alloc_moved(size_t bytes) { return must(malloc(bytes)); }
__attribute__((noinline)) static char *alloc_own(void) { return must(malloc(OWN)); }

static int holds(const char *p, char byte, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 509)
    if (p[i] != byte) return 0;
  return p[bytes - 1] == byte;
}

static void *churn(void *number) {
  unsigned dice = (unsigned)(size_t)number + 1;
  while (!over) {
    dice = dice * 1103515245u + 12345u;
    const size_t bytes = (64 + dice / 65536 % 1984) * KIB;
    const char byte = (char)(dice >> 8);
    char *p = memset(alloc_moved(bytes), byte, bytes);
    if (dice >> 30 == 0) {
      p = must(realloc(p, bytes + bytes / 2));
      memset(p + bytes, byte, bytes / 2);
      if (!holds(p, byte, bytes + bytes / 2)) broken = 1;
    }
    if (!holds(p, byte, bytes)) broken = 1;
    free(p);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: movers REGIONS\n", stderr);
    return 2;
  }
  const long regions = atol(argv[1]);
  pthread_t thread[THREADS];
  char *own = memset(alloc_own(), 7, OWN);
  for (size_t t = 0; t < THREADS; t++)
    if (pthread_create(&thread[t], NULL, churn, (void *)t)) return 1;
  for (long r = 0; r < regions; r++) {
#pragma omp parallel num_threads(2)
    {
#pragma omp master
      {
        if (!holds(own, 7, OWN)) broken = 1;
        usleep(500);
      }
    }
  }
  over = 1;
  for (size_t t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
  free(own);
  puts(broken ? "broken" : "whole");
  return broken;
}
