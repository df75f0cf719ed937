/* A mapping of the program's own that it gives advice on: its pages go and come again, the mapping stays.
 *
 *     advised
 *
 * 16 MiB are written; the second half is given back (MADV_DONTNEED) and, after a second and a half, written again; a quarter is
 * marked as free (MADV_FREE) and written again; then the mapping grows to 24 MiB, is moved, and given back whole. It lives to the
 * end. Each time the contents are checked. Prints `advised: right`.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static void wrong(const char *what) {
  fprintf(stderr, "advised: %s\n", what);
  exit(1);
}

static void check(const char *what, const char *p, size_t bytes, char value) {
  for (size_t i = 0; i < bytes; i += PAGE)
    if (p[i] != value) wrong(what);
}

/* Long enough for a reading of where the pages are. */
static void rest(void) { nanosleep(&(struct timespec){1, 500000000}, NULL); }

__attribute__((noinline)) static char *map_table(size_t bytes) {
  char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) wrong("no memory");
  return p;
}

int main(void) {
  char *table = map_table(16 * MIB);
  memset(table, 1, 16 * MIB);
  rest();
  if (madvise(table + 8 * MIB, 8 * MIB, MADV_DONTNEED)) wrong("MADV_DONTNEED");
  rest();
  check("the half that was kept", table, 8 * MIB, 1);
  check("the half that was given back", table + 8 * MIB, 8 * MIB, 0);
  memset(table + 8 * MIB, 2, 8 * MIB);
  if (madvise(table, 4 * MIB, MADV_FREE)) wrong("MADV_FREE");
  memset(table, 3, 4 * MIB);
  check("what was written after it was marked as free", table, 4 * MIB, 3);
  char *place = mmap(NULL, 24 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  table = mremap(table, 16 * MIB, 24 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (table != place) wrong("mremap");
  check("the half that was written again", table + 8 * MIB, 8 * MIB, 2);
  memset(table + 16 * MIB, 4, 8 * MIB);
  check("the part that was not marked", table + 4 * MIB, 4 * MIB, 1);
  rest();
  if (madvise(table, 24 * MIB, MADV_DONTNEED)) wrong("MADV_DONTNEED of all");
  rest();
  check("all", table, 24 * MIB, 0);
  puts("advised: right");
  return 0;
}
