/* A program of few allocations gives back what it freed: an object larger than any before at once. Then 64 of a megabyte, used and
 * freed; it works on with small ones, and says whether its memory has become less within ten seconds. Then large ones that come and go
 * all the time: they are not to be faulted in each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 64, BYTES = 1 << 20, TURNS = 200, ROUNDS = 12 };

static long resident(void) {
  long size, pages = -1;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2) exit(1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

/* Page faults of a round in which objects of 5, 3, 3 and 1 MiB are made, used and freed. */
static long round_trip(void) {
  struct rusage before, after;
  char *temporary[4];
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 4; i++) {
    size_t bytes = (size_t[]){1, 3, 3, 5}[i] * BYTES;
    temporary[i] = malloc(bytes);
    if (!temporary[i]) exit(1);
    memset(temporary[i], i + 1, bytes);
  }
  for (int i = 0; i < 4; i++) free(temporary[i]);
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
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

  /* A round that has to fault in a third of its 3072 pages is one too many from the third on; a busy machine may make a pause long enough for one. */
  int faulted = 0;
  for (int round = 0; round < ROUNDS; round++) {
    faulted += round_trip() > 1024 && round >= 2;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  }
  puts(faulted <= 2 ? "used again" : "faulted in again");
  return 0;
}
