/* Objects of different heat that say where their pages are, as the kernel tells it.
 *
 *     placed TURNS [HOT WARM COLD]         sizes in MiB; 12, 4 and 24 if not given
 *
 * Each object has its own site (and fills it with its own byte, or the compiler would make one of two). The cold one is written first, so that it takes the fast memory under first touch, and
 * never read. At last it prints `huge KIB`: how much of its memory lies on huge pages (0 where the kernel gives none
 * without being asked). A turn is a million dependent loads of the hot object, an eighth of that of the warm one, and writes into
 * 64 small objects. Prints `NAME PAGES-ON-NODE-0 PAGES-ON-NODE-1`, before the turns and after them; pages that are only
 * in part an object's own do not count.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, MANY = 64, SMALL = 64 << 10, TURN = 1000000, STEP = 7919 };

static char *must(char *p) {
  if (!p) {
    fputs("placed: no memory\n", stderr);
    exit(1);
  }
  return p;
}

__attribute__((noinline)) static char *alloc_cold(size_t bytes) { return memset(must(malloc(bytes)), 1, bytes); }
__attribute__((noinline)) static char *alloc_warm(size_t bytes) { return memset(must(malloc(bytes)), 2, bytes); }
__attribute__((noinline)) static char *alloc_hot(size_t bytes) { return memset(must(malloc(bytes)), 3, bytes); }
__attribute__((noinline)) static char *alloc_many(void) { return memset(must(malloc(SMALL)), 1, SMALL); }

/* With BOUND set the program says itself that its cold object is to lie on node 0. */
static void bind(char *object, size_t bytes) {
  unsigned long nodes = 1, first = ((unsigned long)object + PAGE - 1) & ~(PAGE - 1ul), end = ((unsigned long)object + bytes) & ~(PAGE - 1ul);
  enum { MPOL_BIND = 2 };
  if (getenv("BOUND") && syscall(SYS_mbind, first, end - first, MPOL_BIND, &nodes, 64ul, 0)) {
    perror("placed: mbind");
    exit(1);
  }
}

/* One cycle through all lines, by steps of a prime number of them (the number of lines has no such factor): no two in a
 * row are neighbours. */
static void **ring(char *object, size_t bytes) {
  size_t lines = bytes / LINE;
  for (size_t i = 0; i < lines; i++) *(void **)(object + i * LINE) = object + (i + STEP) % lines * LINE;
  return (void **)object;
}

static void **chase(void **p, long loads) {
  while (loads-- > 0) p = *p;
  return p;
}

/* The turns are what the lab is to measure (docs/lab.md, region of interest), unless UNMARKED is set: of several programs at once
 * one would switch off what another one has switched on. */
static void mark(int on) {
  if (getenv("UNMARKED")) return;
#ifdef __x86_64__
  if (on) __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x01,0x00,0x48,0x4c" ::: "memory");
  else __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x02,0x00,0x48,0x4c" ::: "memory");
#endif
  (void)on;
}

static void count(const char *object, size_t bytes, long on[2]) {
  uintptr_t first = ((uintptr_t)object + PAGE - 1) / PAGE, end = ((uintptr_t)object + bytes) / PAGE;
  for (; first < end; first++) {
    void *page = (void *)(first * PAGE);
    int node = -1, failed, turn = 0;
    /* A page that the kernel is moving at this moment is nowhere. */
    while (!(failed = (int)syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0)) && node < 0 && turn++ < 1000) usleep(1000);
    if (failed || node < 0 || node > 1) {
      fprintf(stderr, "placed: a page is on no node: %d\n", node);
      exit(1);
    }
    on[node]++;
  }
}

static void say(const char *name, const char *object, size_t bytes) {
  long on[2] = {0, 0};
  count(object, bytes, on);
  printf("%s %ld %ld\n", name, on[0], on[1]);
}

static void say_huge(void) {
  char line[256];
  long kib = -1;
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "AnonHugePages: %ld", &kib);
  if (file) fclose(file);
  printf("huge %ld\n", kib);
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 5) {
    fputs("usage: placed TURNS [HOT WARM COLD]\n", stderr);
    return 2;
  }
  int told = argc == 5;
  long turns = atol(argv[1]);
  size_t hot_bytes = (size_t)(told ? atoi(argv[2]) : 12) << 20, warm_bytes = (size_t)(told ? atoi(argv[3]) : 4) << 20;
  size_t cold_bytes = (size_t)(told ? atoi(argv[4]) : 24) << 20;
  char *cold = alloc_cold(cold_bytes), *warm = alloc_warm(warm_bytes), *hot = alloc_hot(hot_bytes), *many[MANY];
  bind(cold, cold_bytes);
  void **through_hot = ring(hot, hot_bytes), **through_warm = ring(warm, warm_bytes);
  for (int i = 0; i < MANY; i++) many[i] = alloc_many();
  for (int after = 0; after < 2; after++) {
    mark(after);
    for (long turn = 0; after && turn < turns; turn++) {
      through_hot = chase(through_hot, TURN);
      through_warm = chase(through_warm, TURN / 8);
      for (int i = 0; i < MANY; i++) many[i][turn * LINE % SMALL] += (char)((uintptr_t)through_hot ^ (uintptr_t)through_warm);
    }
    mark(0);
    long on[2] = {0, 0};
    say("hot", hot, hot_bytes);
    say("warm", warm, warm_bytes);
    say("cold", cold, cold_bytes);
    for (int i = 0; i < MANY; i++) count(many[i], SMALL, on);
    printf("many %ld %ld\n", on[0], on[1]);
  }
  say_huge();
  return 0;
}
