/* What hearth_alloc and hearth_free cost beside malloc and free of the C library, in one run of alternating rounds.
 *
 * A pair is an allocation, a write to each of its pages, and its end; 64 objects are alive at once. Prints the median of the rounds' ratios. */
#include <hearth.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, LIVE = 64 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const hearth_trait traits[] = {{HEARTH_PREFER_SPACE, HEARTH_HIGH_BANDWIDTH}, {HEARTH_ACCESS_PATTERN, HEARTH_LINEAR}};

static void *theirs(size_t size) { return malloc(size); }
static void *ours(size_t size) { return hearth_alloc(size, NULL, 2, traits); }
static void end_theirs(void *p) { free(p); }
static void end_ours(void *p) { hearth_free(p); }

static double pairs(void *(*begin)(size_t), void (*end)(void *), size_t size, long count, int touch) {
  static char *live[LIVE];
  const double start = now();
  for (long i = 0; i < count; i++) {
    char **slot = live + i % LIVE;
    if (*slot) end(*slot);
    *slot = begin(size);
    if (!*slot) exit(1);
    for (size_t at = 0; touch && at < size; at += 4096) (*slot)[at] = 1;
  }
  for (int i = 0; i < LIVE; i++) {
    end(live[i]);
    live[i] = NULL;
  }
  return (now() - start) / (double)count;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  static const size_t sizes[] = {64, 1000, 4096, 64 << 10, 1 << 20, 16 << 20};
  printf("%10s  %22s  %22s\n", "bytes", "allocated and ended", "and each page touched");
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    printf("%10zu", sizes[s]);
    for (int touch = 0; touch < 2; touch++) {
      const long count = touch && sizes[s] >= 1 << 20 ? (long)(2000ul << 20 >> 3) / (long)sizes[s] : 20000;
      double ratio[ROUNDS], time[ROUNDS];
      for (int r = 0; r < ROUNDS; r++) {
        const double glibc = pairs(theirs, end_theirs, sizes[s], count, touch);
        time[r] = pairs(ours, end_ours, sizes[s], count, touch);
        ratio[r] = time[r] / glibc;
      }
      qsort(ratio, ROUNDS, sizeof *ratio, ascending);
      qsort(time, ROUNDS, sizeof *time, ascending);
      printf("  %7.2fx  (%7.0f ns)", ratio[ROUNDS / 2], 1e9 * time[ROUNDS / 2]);
    }
    putchar('\n');
  }
}
