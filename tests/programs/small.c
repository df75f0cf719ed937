/* Millions of small objects from a few sites, whose content is checked; freed by other threads, across a fork.
 *
 *     small [ROUNDS]
 *
 * Two threads keep 20,000 objects each of 1 to 6,000 bytes, made by three sites (a list of nodes, names, and buffers that
 * grow by realloc), and swap half of them in each round. Prints what it counted, the same in every run.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIVE = 20000, THREADS = 2 };

typedef struct {
  unsigned char *at;
  uint32_t size;
} object;

static object all[THREADS][LIVE];
static pthread_barrier_t barrier;
static int rounds = 20;

/* Not the last thing its caller does, or the caller would be none. */
static void *given(void *p) {
  __asm__ volatile("" : "+r"(p));
  return p;
}

__attribute__((noinline)) static void *make_node(void) { return given(malloc(48)); }
__attribute__((noinline)) static void *make_name(size_t n) { return given(calloc(1, n)); }
__attribute__((noinline)) static void *grow_buffer(void *p, size_t n) { return given(realloc(p, n)); }

static unsigned char mark(const object *o) { return (unsigned char)((uintptr_t)o->at / 16 + o->size); }

static void check(object *o) {
  for (uint32_t i = 0; i < o->size; i += o->size > 64 ? 37 : 1) {
    if (o->at[i] != mark(o)) {
      fprintf(stderr, "small: an object of %u bytes was changed\n", o->size);
      abort();
    }
  }
}

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static void make(object *o, uint32_t *seed) {
  uint32_t kind = next(seed) % 8;
  if (kind < 4) {
    o->size = 48;
    o->at = make_node();
  } else if (kind < 7) {
    o->size = 1 + next(seed) % 300;
    o->at = make_name(o->size);
    for (uint32_t i = 0; i < o->size; i++)
      if (o->at && o->at[i]) abort();
  } else {
    o->size = 1 + next(seed) % 100;
    o->at = NULL;
    for (int i = 0; i < 3; i++) {
      o->at = grow_buffer(o->at, o->size *= 1 + next(seed) % 4);
      if (!o->at) abort();
      if (i) continue;
      o->at[0] = 77;
    }
    if (o->at[0] != 77) abort();
  }
  if (!o->at || malloc_usable_size(o->at) < o->size || (uintptr_t)o->at % 16) abort();
  memset(o->at, mark(o), o->size);
}

static void *work(void *number) {
  long me = (long)number;
  uint32_t seed = 7 + (uint32_t)me;
  for (int i = 0; i < LIVE; i++) make(&all[me][i], &seed);
  for (int round = 0; round < rounds; round++) {
    pthread_barrier_wait(&barrier);
    /* Objects that the other thread made. */
    object *others = all[(me + round + 1) % THREADS];
    for (int i = 0; i < LIVE; i += 2) {
      check(&others[i]);
      free(others[i].at);
      make(&others[i], &seed);
    }
    pthread_barrier_wait(&barrier);
    if (me == 0 && round % 5 == 0) {
      pid_t child = fork();
      if (child == 0) {
        for (int i = 0; i < LIVE; i += 7) {
          check(&all[0][i]);
          free(all[0][i].at);
          make(&all[0][i], &seed);
        }
        _exit(0);
      }
      int status = -1;
      if (child < 0 || waitpid(child, &status, 0) != child || status) {
        fprintf(stderr, "small: the child ended with %x\n", status);
        abort();
      }
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  pthread_barrier_init(&barrier, NULL, THREADS);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  unsigned long bytes = 0;
  for (int t = 0; t < THREADS; t++)
    for (int i = 0; i < LIVE; i++) {
      check(&all[t][i]);
      bytes += all[t][i].size;
      free(all[t][i].at);
    }
  printf("%d objects, %lu bytes\n", THREADS * LIVE, bytes);
  return 0;
}
