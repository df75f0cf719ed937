/* One object that is read, one that is written and many small ones: which of them are in fast memory?
 *
 *     stored TURNS LOADS STORES MIB [BIG...]
 *
 * A cold object of 24 MiB is written first, so that it takes the fast memory under first touch. The others are of MIB MiB (read, written) and of 32 KiB (96 of
 * them, small). A turn is LOADS dependent loads of the one that is read, STORES into lines of the one that is written, and 200,000 loads of the small ones, a few of each by turns.
 * Before each of the turns BIG 128 MiB are allocated, left untouched and freed after it. Prints `NAME PAGES-ON-NODE-0 PAGES-ON-NODE-1`, before the turns and after them.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, MANY = 96, SMALL = 32 << 10, STEP = 7919, PARTS = 500 };

static char *must(char *p) {
  if (!p) {
    fputs("stored: no memory\n", stderr);
    exit(1);
  }
  return p;
}

__attribute__((noinline)) static char *alloc_cold(size_t bytes) { return memset(must(malloc(bytes)), 1, bytes); }
__attribute__((noinline)) static char *alloc_read(size_t bytes) { return memset(must(malloc(bytes)), 2, bytes); }
__attribute__((noinline)) static char *alloc_written(size_t bytes) { return memset(must(malloc(bytes)), 3, bytes); }
__attribute__((noinline)) static char *alloc_small(size_t bytes) { return memset(must(malloc(bytes)), 4, bytes); }
__attribute__((noinline)) static char *alloc_big(size_t bytes) { return must(malloc(bytes)); }

static void mark(int on) {
#ifdef __x86_64__
  if (on) __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x01,0x00,0x48,0x4c" ::: "memory");
  else __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x02,0x00,0x48,0x4c" ::: "memory");
#endif
  (void)on;
}

/* Pages of an object on each node. One that is being moved at this moment is on none. */
static void count(const char *object, size_t bytes, long on[2]) {
  size_t first = ((uintptr_t)object + PAGE - 1) / PAGE, pages = ((uintptr_t)object + bytes) / PAGE - first;
  for (size_t i = 0; i < pages; i++) {
    void *page = (void *)((first + i) * PAGE);
    int node = -1;
    if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0)) exit(1);
    if (node == 0 || node == 1) on[node]++;
  }
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fputs("usage: stored TURNS LOADS STORES MIB [BIG...]\n", stderr);
    return 2;
  }
  const long turns = atol(argv[1]), loads = atol(argv[2]), stores = atol(argv[3]);
  const size_t cold = 24 << 20, own = (size_t)atol(argv[4]) << 20, bytes[3] = {cold, own, own};
  const char *name[4] = {"cold", "read", "written", "small"};
  char *object[4] = {alloc_cold(cold), alloc_read(own), alloc_written(own), NULL}, *small[MANY];
  for (int i = 0; i < MANY; i++) small[i] = alloc_small(SMALL);
  /* One cycle through all lines of the one that is read, and one through all of the small ones. */
  const long lines = (long)(own / LINE), each = SMALL / LINE, all = MANY * each;
  for (long i = 0; i < lines; i++) *(void **)(object[1] + i * LINE) = object[1] + (i + STEP) % lines * LINE;
  for (long i = 0; i < all; i++) {
    const long to = (i + STEP) % all;
    *(void **)(small[i / each] + i % each * LINE) = small[to / each] + to % each * LINE;
  }
  void **read = (void **)object[1], **through = (void **)small[0];
  long place = 0;
  for (int after = 0; after < 2; after++) {
    mark(after);
    for (long turn = 0; after && turn < turns; turn++) {
      char *big = NULL;
      for (int i = 5; i < argc; i++)
        if (atol(argv[i]) == turn) big = alloc_big(128 << 20);
      for (int part = 0; part < PARTS; part++) {
        for (long i = 0; i < loads / PARTS; i++) read = *read;
        for (long i = 0; i < stores / PARTS; i++) object[2][(place = (place + STEP) % lines) * LINE] = (char)turn;
        for (long i = 0; i < 200000 / PARTS; i++) through = *through;
      }
      free(big);
    }
    mark(0);
    for (int i = 0; i < 4; i++) {
      long on[2] = {0, 0};
      if (i < 3) count(object[i], bytes[i], on);
      else
        for (int k = 0; k < MANY; k++) count(small[k], SMALL, on);
      printf("%s %ld %ld\n", name[i], on[0], on[1]);
    }
  }
  return read && through ? 0 : 1;
}
