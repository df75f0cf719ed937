/* A program of few allocations gives back what it freed: an object larger than any before at once. Then 64 of a megabyte, used and
 * freed; it works on with small ones, and says whether its memory has become less within ten seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 64, BYTES = 1 << 20, TURNS = 200 };

static long resident(void) {
  long size, pages = -1;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2) exit(1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

int main(void) {
  volatile char *large = malloc(8 * BYTES);
  if (!large) return 1;
  for (int i = 0; i < 8 * BYTES; i += 4096) large[i] = 1;
  long with = resident();
  free((void *)large);
  puts(resident() < with - 7 * BYTES ? "given back at once" : "kept");

  char *objects[OBJECTS];
  for (int i = 0; i < OBJECTS; i++) {
    objects[i] = malloc(BYTES);
    if (!objects[i]) return 1;
    memset(objects[i], i, BYTES);
  }
  long before = resident();
  for (int i = 0; i < OBJECTS; i++) free(objects[i]);
  int turn = 0;
  while (turn < TURNS && resident() > before - OBJECTS * BYTES * 7L / 8) {
    char *now_and_then = malloc(20000);
    if (!now_and_then) return 1;
    memset(now_and_then, 1, 20000);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    free(now_and_then);
    turn++;
  }
  puts(turn < TURNS ? "given back" : "kept");
  return 0;
}
