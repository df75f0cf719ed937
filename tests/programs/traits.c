/* A log that is written once and a table that is looked up for long, in memory for one of them: who gets it?
 *
 * As it stands it allocates by malloc, the log first. With the traits that `hearth plan --traits` has printed for it (in traits.h), and
 * -DLOG=THEIR-NAME -DTABLE=THEIR-NAME, it declares both and commits them. Prints for each how many of its pages are on node 0 and on node 1.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, LINE = 64, BYTES = 24 << 20, LINES = BYTES / LINE, STEP = 7919 };
#define COUNT(a) (sizeof(a) / sizeof *(a))

static char *table, *records;

#ifdef TABLE
#include "traits.h"

static void allocate(void) {
  hearth_declaration all[] = {
    hearth_declare((void **)&records, BYTES, NULL, COUNT(LOG), LOG),
    hearth_declare((void **)&table, BYTES, NULL, COUNT(TABLE), TABLE),
  };
  const int error = hearth_commit(all, COUNT(all));
  if (error) {
    fprintf(stderr, "traits: %s\n", hearth_error_text(error));
    exit(1);
  }
}
#else
static char *must(void *p) {
  if (!p) exit(1);
  return p;
}

__attribute__((noinline)) static char *make_log(void) { return must(aligned_alloc(PAGE, BYTES)); }
__attribute__((noinline)) static char *make_table(void) { return must(aligned_alloc(2 * PAGE, BYTES)); }

static void allocate(void) {
  records = make_log();
  table = make_table();
}
#endif

static void say(const char *name, char *array) {
  static void *page[BYTES / PAGE];
  static int node[BYTES / PAGE];
  long on[2] = {0, 0};
  for (long i = 0; i < BYTES / PAGE; i++) page[i] = array + i * PAGE;
  if (syscall(SYS_move_pages, 0, (unsigned long)(BYTES / PAGE), page, NULL, node, 0)) perror("traits: move_pages");
  for (long i = 0; i < BYTES / PAGE; i++)
    if (node[i] == 0 || node[i] == 1) on[node[i]]++;
  printf("%s %ld %ld\n", name, on[0], on[1]);
}

int main(void) {
  allocate();
  for (long i = 0; i < BYTES; i += LINE) records[i] += (char)i;
  /* Some of it is looked at again. */
  for (long i = 0; i < BYTES / 4; i += LINE) records[i]++;
  /* One cycle through all lines, by steps of a prime number of them. */
  for (long i = 0; i < LINES; i++) *(void **)(table + i * LINE) = table + (i + STEP) % LINES * LINE;
  void **at = (void **)table;
  for (long i = 0; i < 3000000; i++) at = *at;
  say("records", records);
  say("table", table);
  return at == NULL;
}
