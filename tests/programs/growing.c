/* Grows and shrinks large objects by realloc, with others between them so that they have to move, from several threads, and
 * checks at each step that their content came along:
 *
 *     growing [THREADS] [ROUNDS]
 *
 * Prints `growing OK`, and ends a while after the last of them. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { OBJECTS = 12, LEAST = 64 << 10, MOST = 6 << 20 };
static int rounds = 40;

static uint64_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static uint32_t word(int object, size_t i) { return (uint32_t)(i * 2654435761u) ^ (uint32_t)object; }

static void *work(void *seed) {
  uint64_t state = (uint64_t)(uintptr_t)seed * 977 + 1;
  uint32_t *object[OBJECTS] = {0};
  size_t words[OBJECTS] = {0};
  size_t wrong = 0;
  for (int round = 0; round < rounds * OBJECTS; round++) {
    int k = (int)(next(&state) % OBJECTS);
    size_t size = LEAST + next(&state) % (next(&state) % 4 ? MOST / 8 : MOST), had = words[k];
    uint32_t *now = realloc(object[k], size);
    if (!now) return (void *)1;
    words[k] = size / 4;
    for (size_t i = 0; i < had && i < words[k]; i++) wrong += now[i] != word(k, i);
    /* Not all of what is new is written: pages without content have to move as well. */
    for (size_t i = had; i < words[k]; i++)
      if (i % 8192 < 6000) now[i] = word(k, i);
    for (size_t i = had; i < words[k]; i++)
      if (i % 8192 >= 6000) now[i] = word(k, i);
    object[k] = now;
    /* From now on it is three mappings to the kernel, which cannot be moved as one. */
    if (round % 5 == 0) madvise((void *)(((uintptr_t)now + LEAST / 2) & ~(uintptr_t)4095), 4096, MADV_RANDOM);
    if (round % 17 == 0) {
      free(object[k]);
      object[k] = NULL;
      words[k] = 0;
    }
  }
  for (int k = 0; k < OBJECTS; k++) free(object[k]);
  return (void *)wrong;
}

int main(int argc, char **argv) {
  pthread_t ids[16];
  int threads = argc > 1 ? atoi(argv[1]) : 2;
  if (argc > 2) rounds = atoi(argv[2]);
  if (threads < 1 || threads > 16) return 2;
  size_t wrong = 0;
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < threads; i++) {
    void *result;
    pthread_join(ids[i], &result);
    wrong += (size_t)result;
  }
  if (wrong) {
    printf("growing: %zu words wrong\n", wrong);
    return 1;
  }
  puts("growing OK");
  nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  return 0;
}
