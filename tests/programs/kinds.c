/* Memory that no malloc made: static variables and mappings of the program's own, of different heat.
 *
 *     kinds TURNS
 *
 * A mapping of 4 MiB grows to 12 MiB (mremap), loses its middle 4 MiB (munmap), and its first MiB is mapped anew at the same
 * place (MAP_FIXED). A turn is a million dependent loads of the static variable `hot_table` (12 MiB) and an eighth of that
 * of the mapping; the static variable `cold_table` (24 MiB) is written once, first. Prints `NAME PAGES-ON-NODE-0
 * PAGES-ON-NODE-1 PAGES-ABSENT` for all.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, TURN = 1000000, STEP = 7919, MIB = 1 << 20 };

char cold_table[24 * MIB];
static char hot_table[12 * MIB];
static volatile char begun_table[MIB] = {1};

static char *checked(void *p) {
  if (p == MAP_FAILED) {
    perror("kinds");
    exit(1);
  }
  return p;
}

__attribute__((noinline)) static char *map_grid(size_t bytes) {
  return checked(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

__attribute__((noinline)) static void map_again(char *at, size_t bytes) {
  checked(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

static void **ring(char *object, size_t bytes) {
  size_t lines = bytes / LINE;
  for (size_t i = 0; i < lines; i++) *(void **)(object + i * LINE) = object + (i + STEP) % lines * LINE;
  return (void **)object;
}

static void **chase(void **p, long loads) {
  while (loads-- > 0) p = *p;
  return p;
}

/* Pages that are only in part the object's own do not count. */
static void say(const char *name, const char *object, size_t bytes) {
  uintptr_t first = ((uintptr_t)object + PAGE - 1) / PAGE, end = ((uintptr_t)object + bytes) / PAGE;
  long on[3] = {0, 0, 0};
  for (; first < end; first++) {
    void *page = (void *)(first * PAGE);
    int node = -1;
    syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0);
    on[node == 0 || node == 1 ? node : 2]++;
  }
  printf("%s %ld %ld %ld\n", name, on[0], on[1], on[2]);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: kinds TURNS\n", stderr);
    return 2;
  }
  long turns = atol(argv[1]);
  memset(cold_table, 1, sizeof cold_table);
  begun_table[MIB - 1] = 2;
  char *grid = map_grid(4 * MIB);
  memset(grid, 3, 4 * MIB);
  grid = checked(mremap(grid, 4 * MIB, 12 * MIB, MREMAP_MAYMOVE));
  if (grid[4 * MIB - 1] != 3) return 1;
  memset(grid, 3, 12 * MIB);
  munmap(grid + 4 * MIB, 4 * MIB);
  map_again(grid, MIB);
  memset(grid, 4, MIB);
  void **through_hot = ring(hot_table, sizeof hot_table), **through_grid = ring(grid + 8 * MIB, 4 * MIB);
  for (long turn = 0; turn < turns; turn++) {
    through_hot = chase(through_hot, TURN);
    through_grid = chase(through_grid, TURN / 8);
  }
  begun_table[0] = (char)((uintptr_t)through_hot ^ (uintptr_t)through_grid);
  say("hot_table", hot_table, sizeof hot_table);
  say("cold_table", cold_table, sizeof cold_table);
  say("grid", grid + 8 * MIB, 4 * MIB);
  say("again", grid, MIB);
  return grid[2 * MIB] == 3 && grid[0] == 4 ? 0 : 1;
}
