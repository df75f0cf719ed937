/* An object of 128 MiB that is hot in one eighth of it.
 *
 *     chunks TURNS mapping|reserved|heap|static HOT
 *
 * All of it is written once but the eighth that is the fourth behind HOT (0 to 7, round the end), which is never touched. A turn is
 * a million dependent loads of lines of the hot eighth, in an order that no prefetcher knows, and for each 1000 of them one
 * load from anywhere in the others.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, TURN = 1000000, EVERY = 1000, EIGHTH = 16 << 20 };

static char table[8 * EIGHTH];

static char *make(const char *kind) {
  if (!strcmp(kind, "static")) return table;
  if (!strcmp(kind, "heap")) return malloc(8 * EIGHTH);
  int reserved = !strcmp(kind, "reserved");
  char *arena = mmap(NULL, 8 * EIGHTH, reserved ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena == MAP_FAILED) return NULL;
  for (size_t at = 0; reserved && at < 8 * EIGHTH; at += EIGHTH / 4)
    if (mprotect(arena + at, EIGHTH / 4, PROT_READ | PROT_WRITE)) return NULL;
  return arena;
}

/* Each line holds the number of the next; all follow one another, by a full-period congruential generator (Hull and Dobell). */
static void ring(char *lines) {
  size_t count = EIGHTH / LINE, at = 0;
  for (size_t i = 0; i < count; i++) {
    size_t next = (at * 1664525 + 1013904223) % count;
    memcpy(lines + at * LINE, &next, sizeof next);
    at = next;
  }
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fputs("usage: chunks TURNS mapping|reserved|heap|static HOT\n", stderr);
    return 2;
  }
  size_t hot = (size_t)atol(argv[3]) % 8, never = (hot + 4) % 8, at = 0, sum = 0;
  char *object = make(argv[2]);
  if (!object) {
    perror("chunks");
    return 1;
  }
  for (size_t i = 0; i < 8; i++)
    if (i != never) memset(object + i * EIGHTH, 1, EIGHTH);
  char *lines = object + hot * EIGHTH;
  ring(lines);
  uint64_t seed = 1;
  for (long loads = atol(argv[1]) * TURN; loads > 0; loads--) {
    memcpy(&at, lines + at * LINE, sizeof at);
    if (loads % EVERY) continue;
    seed = seed * 6364136223846793005 + 1442695040888963407;
    size_t eighth = seed >> 61;
    if (eighth != never) sum += (unsigned char)object[eighth * EIGHTH + (seed >> 32) % EIGHTH];
  }
  printf("%zu %zu\n", at, sum);
  return 0;
}
