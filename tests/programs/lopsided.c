/* Hot objects and a cold one of the same size.
 *
 *   lopsided ROUNDS [HOT]
 *
 * HOT objects (one if not given) and the cold one, of 16 MiB each, are written once. Each round reads one of the hot ones, page after
 * page, by turns. Between the rounds there is no system call. Prints the processor time that the process has taken, in ns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 16 << 20, LINE = 64, MOST = 64 };

__attribute__((noinline)) static char *alloc_hot(void) {
  return memset(malloc(BYTES), 1, BYTES);
}

__attribute__((noinline)) static char *alloc_cold(void) {
  return memset(malloc(BYTES), 2, BYTES);
}

int main(int argc, char **argv) {
  int objects = argc > 2 ? atoi(argv[2]) : 1;
  if (argc < 2 || objects < 1 || objects > MOST) {
    fputs("usage: lopsided ROUNDS [HOT]\n", stderr);
    return 2;
  }
  volatile char *hot[MOST], *cold = alloc_cold();
  for (int i = 0; i < objects; i++) hot[i] = alloc_hot();
  long sum = 0;
  for (long round = atol(argv[1]); round > 0; round--)
    for (size_t i = 0; i < BYTES; i += LINE) sum += hot[round % objects][i];
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  printf("%lld\n", t.tv_sec * 1000000000ll + t.tv_nsec);
  return sum < 0 || cold[BYTES - 1] != 2;
}
