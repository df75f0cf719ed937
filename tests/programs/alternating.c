/* Two objects that are hot by turns, and where they are when their turns begin.
 *
 *     alternating ROUNDS MIB LOADS kept|fresh
 *
 * Each round is LOADS dependent loads of the one object of MIB MiB, then as many of the other one; with `fresh` each turn allocates its own object and frees it at its
 * end. Prints for each turn, before it, `turn NUMBER PAGES-ON-NODE-0 PAGES-ON-NODE-1` (none that were never touched).
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, STEP = 7919 };

static char *must(char *p) {
  if (!p) {
    fputs("alternating: no memory\n", stderr);
    exit(1);
  }
  return p;
}

__attribute__((noinline)) static char *alloc_one(size_t bytes) { return memset(must(malloc(bytes)), 1, bytes); }
__attribute__((noinline)) static char *alloc_other(size_t bytes) { return memset(must(malloc(bytes)), 2, bytes); }

/* One cycle through all lines, by steps of a prime number of them: no two in a row are neighbours. */
static void **ring(char *object, size_t bytes) {
  size_t lines = bytes / LINE;
  for (size_t i = 0; i < lines; i++) *(void **)(object + i * LINE) = object + (i + STEP) % lines * LINE;
  return (void **)object;
}

static void mark(int on) {
#ifdef __x86_64__
  if (on) __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x01,0x00,0x48,0x4c" ::: "memory");
  else __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x02,0x00,0x48,0x4c" ::: "memory");
#endif
  (void)on;
}

/* One call for all pages: it is to take no time to speak of. */
static void where(int turn, const char *object, size_t bytes) {
  size_t first = ((uintptr_t)object + PAGE - 1) / PAGE, count = ((uintptr_t)object + bytes) / PAGE - first;
  void **pages = malloc(count * sizeof *pages);
  int *nodes = malloc(count * sizeof *nodes);
  long on[2] = {0, 0};
  if (!pages || !nodes) exit(1);
  for (size_t i = 0; i < count; i++) pages[i] = (void *)((first + i) * PAGE);
  if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0)) exit(1);
  for (size_t i = 0; i < count; i++)
    if (nodes[i] == 0 || nodes[i] == 1) on[nodes[i]]++;
  printf("turn %d %ld %ld\n", turn, on[0], on[1]);
  free(pages);
  free(nodes);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fputs("usage: alternating ROUNDS MIB LOADS kept|fresh\n", stderr);
    return 2;
  }
  int rounds = atoi(argv[1]), fresh = !strcmp(argv[4], "fresh");
  size_t bytes = (size_t)atoi(argv[2]) << 20;
  long loads = atol(argv[3]);
  char *(*const alloc[2])(size_t) = {alloc_one, alloc_other};
  void **at[2] = {NULL, NULL};
  for (int i = 0; i < 2 && !fresh; i++) at[i] = ring(alloc[i](bytes), bytes);
  mark(1);
  for (int turn = 0; turn < 2 * rounds; turn++) {
    void **p = at[turn % 2];
    if (fresh) p = ring(alloc[turn % 2](bytes), bytes);
    where(turn, (char *)(fresh ? p : at[turn % 2]), bytes);
    void **begin = p;
    for (long i = 0; i < loads; i++) p = *p;
    if (!p) return 1;
    if (fresh) free(begin);
  }
  mark(0);
  return 0;
}
