/* Small objects of two sites, made in turns, that say where they are, as the kernel tells it.
 *
 *     placed_small TURNS [apart]
 *
 * `apart`: all cold ones first and then all hot ones, so that the C library's heap has a hot end. 80,000 hot ones of 64 bytes and 160,000 cold ones of 100; a turn is a million dependent loads of the hot ones. An
 * allocator that does not tell sites apart puts both into the same pages. Prints `NAME OBJECTS-ON-NODE-0 OBJECTS-ON-NODE-1`.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HOT = 80000, COLD = 160000, HOT_BYTES = 64, COLD_BYTES = 100, PAGE = 4096, TURN = 1000000, STEP = 7919 };

static char *hot_ones[HOT], *cold_ones[COLD];

static char *filled(char *p, int value, size_t bytes) {
  if (!p) {
    fputs("placed_small: no memory\n", stderr);
    exit(1);
  }
  return memset(p, value, bytes);
}

__attribute__((noinline)) static char *hot(void) { return filled(malloc(HOT_BYTES), 1, HOT_BYTES); }
__attribute__((noinline)) static char *cold(void) { return filled(malloc(COLD_BYTES), 2, COLD_BYTES); }

static void say(const char *name, char **objects, int count) {
  static void *pages[COLD];
  static int nodes[COLD];
  long on[2] = {0, 0};
  for (int i = 0; i < count; i++) pages[i] = (void *)((uintptr_t)objects[i] / PAGE * PAGE);
  if (syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, nodes, 0)) {
    perror("placed_small: move_pages");
    exit(1);
  }
  for (int i = 0; i < count; i++) {
    if (nodes[i] < 0 || nodes[i] > 1) {
      fprintf(stderr, "placed_small: a page is on no node: %d\n", nodes[i]);
      exit(1);
    }
    on[nodes[i]]++;
  }
  printf("%s %ld %ld\n", name, on[0], on[1]);
}

int main(int argc, char **argv) {
  int apart = argc == 3 && !strcmp(argv[2], "apart");
  if (argc != 2 + apart) {
    fputs("usage: placed_small TURNS [apart]\n", stderr);
    return 2;
  }
  for (int i = 0; i < COLD; i++) {
    cold_ones[i] = cold();
    if (i % 2 && !apart) hot_ones[i / 2] = hot();
  }
  for (int i = 0; i < HOT && apart; i++) hot_ones[i] = hot();
  /* One cycle through all, by steps of a prime number of them. */
  for (int i = 0; i < HOT; i++) *(void **)hot_ones[i] = hot_ones[(i + STEP) % HOT];
  void **at = (void **)hot_ones[0];
  for (long load = 0; load < atol(argv[1]) * TURN; load++) at = *at;
  __asm__ volatile("" : : "r"(at));
  say("hot", hot_ones, HOT);
  say("cold", cold_ones, COLD);
  return 0;
}
