/* Three arrays, of which one is used at a time: is it in fast memory when its turn comes?
 *
 *   turns TURNS [LOADS [PERCENT]]
 *
 * A turn is a parallel region in which one array, by turns, is read by so many loads (a million if not given) that wait for each other.
 * Of the arrays one is a variable. Each turn has a buffer of its own for what it prints. Built without OpenMP (turns-serial) it has no regions, and the
 * buffers are what a turn is known by; with MARKS (turns-marked) there is neither, and each turn says by hearth.h which array it is of, and, once at first, that it uses it; with MPI (turns.openmpi, turns.mpich) there is neither, and
 * the ranks meet before each turn, for each array at another place. Prints `turn N: ARRAY PAGES-ON-NODE-0 PAGES-ON-NODE-1`, as the kernel tells in
 * the middle of each turn, or when so many percent of its loads are done; at last, whether all loads were right.
 */
#define _GNU_SOURCE
#ifdef MARKS
#include <hearth.h>
#endif
#ifdef MPI
#include <mpi.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, BYTES = 4 << 20, STEP = 7919, ARRAYS = 3, LINES = BYTES / LINE };

static char third[BYTES] __attribute__((aligned(PAGE)));

static char *must(void *p) {
  if (!p) {
    fputs("turns: no memory\n", stderr);
    exit(1);
  }
  return p;
}

__attribute__((noinline)) static char *alloc_first(void) { return must(aligned_alloc(PAGE, BYTES)); }
__attribute__((noinline)) static char *alloc_second(void) { return must(aligned_alloc(PAGE, BYTES)); }

/* One cycle through all lines, by steps of a prime number of them. */
static void fill(char *array) {
  for (long i = 0; i < LINES; i++) *(void **)(array + i * LINE) = array + (i + STEP) % LINES * LINE;
}

static void **chase(void **p, long loads) {
  while (loads-- > 0) p = *p;
  return p;
}

#if defined MARKS || defined MPI
static char *alloc_text(void) {
  static char text[1 << 16];
  return text;
}
static void free_text(char *text) { (void)text; }
#else
__attribute__((noinline)) static char *alloc_text(void) { return must(malloc(1 << 16)); }
static void free_text(char *text) { free(text); }
#endif

static void say(char *text, long turn, const char *name, char *array) {
  static void *page[BYTES / PAGE];
  static int node[BYTES / PAGE];
  long on[2] = {0, 0};
  for (long i = 0; i < BYTES / PAGE; i++) page[i] = array + i * PAGE;
  if (syscall(SYS_move_pages, 0, (unsigned long)(BYTES / PAGE), page, NULL, node, 0)) perror("turns: move_pages");
  for (long i = 0; i < BYTES / PAGE; i++)
    if (node[i] == 0 || node[i] == 1) on[node[i]]++;
  snprintf(text, 1 << 16, "turn %ld: %s %ld %ld\n", turn, name, on[0], on[1]);
  fputs(text, stderr);
}

#ifdef MPI
/* Each at a place of its own, which the compiler does not make one. */
__attribute__((noinline, noclone)) static int meet_first(void) { return MPI_Barrier(MPI_COMM_WORLD) + 1; }
__attribute__((noinline, noclone)) static int meet_second(void) { return MPI_Barrier(MPI_COMM_WORLD) + 2; }
__attribute__((noinline, noclone)) static int meet_third(void) { return MPI_Barrier(MPI_COMM_WORLD) + 3; }
static int (*const meet[ARRAYS])(void) = {meet_first, meet_second, meet_third};
#endif

int main(int argc, char **argv) {
#ifdef MPI
  MPI_Init(&argc, &argv);
#endif
  if (argc < 2 || argc > 4) {
    fputs("usage: turns TURNS [LOADS [PERCENT]]\n", stderr);
    return 2;
  }
  const long turns = atol(argv[1]), loads = argc > 2 ? atol(argv[2]) : 1000000;
  const long before = loads * (argc > 3 ? atol(argv[3]) : 50) / 100;
  char *array[ARRAYS] = {alloc_first(), alloc_second(), third};
  static const char *const name[ARRAYS] = {"first", "second", "third"};
  void **at[ARRAYS];
  for (int a = 0; a < ARRAYS; a++) {
    fill(array[a]);
    at[a] = (void **)array[a];
  }
#ifdef MARKS
  for (int a = 0; a < ARRAYS; a++) hearth_phase_uses(name[a], array[a] + BYTES / 2);
#endif
  int right = 1;
  for (long turn = 0; turn < turns; turn++) {
    const int a = (int)(turn % ARRAYS);
    char *text = alloc_text();
#ifdef MARKS
    hearth_phase(name[a]);
#endif
#ifdef MPI
    meet[a]();
#endif
#pragma omp parallel num_threads(2)
    {
#pragma omp master
      {
        at[a] = chase(at[a], before);
        say(text, turn, name[a], array[a]);
        at[a] = chase(at[a], loads - before);
      }
    }
    free_text(text);
  }
  for (int a = 0; a < ARRAYS; a++) {
    const long times = turns / ARRAYS + (a < turns % ARRAYS), steps = (long)((unsigned long)(times * loads) % LINES);
    right &= (char *)at[a] == array[a] + (uintptr_t)steps * STEP % LINES * LINE;
  }
#ifdef MPI
  MPI_Finalize();
#endif
  puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
