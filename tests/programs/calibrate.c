/* What an emulated memory does, measured from inside, in the guest's own time:
 *
 *     calibrate KIND NODE [MiB] [small|huge] [THREADS] [IDLE]
 *
 * KIND   chase    one load after the other: ns a load
 *        index    the same through array indices instead of pointers
 *        random   independent loads of random lines: ns a load
 *        read     sequential loads: GB/s
 *        write    sequential stores of whole lines: GB/s written (each line is read first)
 *        update   lines read and written in place, both counted: exactly one read to one write: GB/s
 *        triad    a[i] = b[i] + s * c[i], as STREAM counts it: GB/s
 *        loaded   ns a load of a chase beside THREADS - 1 threads that read, and how much these read
 * Memory is bound to NODE and checked to be there. Prints `KIND NODE value unit`. Thread i runs on CPU i.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, MPOL_BIND = 2, PASSES = 4 };
static int node;
static size_t bytes = 32u << 20;
static int huge = 1;
static int threads = 1;
static int idle;
static const char *kind;
static pthread_barrier_t together;
static volatile int over;
static volatile uint64_t sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void *memory(size_t size) {
  size_t whole = size + (2u << 20);
  char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) die("mmap");
  p = (char *)(((uintptr_t)p + (2u << 20) - 1) & ~(uintptr_t)((2u << 20) - 1));
  unsigned long mask = 1ul << node;
  if (syscall(SYS_mbind, p, size, MPOL_BIND, &mask, 64ul, 0)) die("mbind");
  madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memset(p, 1, size);
  for (size_t at = 0; at < size; at += size / 8) {
    void *page = (void *)((uintptr_t)(p + at) & ~4095ul);
    int where = -1;
    if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &where, 0) || where != node) {
      fprintf(stderr, "calibrate: memory is on node %d instead of %d\n", where, node);
      exit(1);
    }
  }
  return p;
}

static uint64_t state;
static uint64_t next_random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 20;
}

/* One cycle through all lines, in random order. */
static void **ring(size_t size, uint32_t **indices) {
  size_t lines = size / LINE;
  uint32_t *order = malloc(lines * sizeof *order);
  char *p = memory(size);
  for (size_t i = 0; i < lines; i++) order[i] = (uint32_t)i;
  for (size_t i = lines - 1; i > 0; i--) {
    size_t j = next_random() % i;
    uint32_t t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
  for (size_t i = 0; i < lines; i++) {
    *(void **)(p + order[i] * (size_t)LINE) = p + order[(i + 1) % lines] * (size_t)LINE;
    if (indices) *(uint32_t *)(p + order[i] * (size_t)LINE + 8) = order[(i + 1) % lines] * (LINE / 4);
  }
  free(order);
  if (indices) *indices = (uint32_t *)(void *)(p + 8);
  return (void **)p;
}

static double chase(void) {
  void **p = ring(bytes, NULL);
  uint64_t steps = bytes / LINE;
  pthread_barrier_wait(&together);
  double began = now();
  for (uint64_t i = 0; i < steps; i++) p = *p;
  double took = now() - began;
  sink = (uint64_t)p;
  return took / (double)steps;
}

static double indexed(void) {
  uint32_t *array, at = 0;
  ring(bytes, &array);
  uint64_t steps = bytes / LINE;
  pthread_barrier_wait(&together);
  double began = now();
  for (uint64_t i = 0; i < steps; i++) at = array[at];
  double took = now() - began;
  sink = at;
  return took / (double)steps;
}

static double random_loads(void) {
  uint64_t *a = memory(bytes), lines = bytes / LINE, sum = 0, steps = lines;
  pthread_barrier_wait(&together);
  double began = now();
  for (uint64_t i = 0; i < steps; i++) sum += a[next_random() % lines * (LINE / 8)];
  double took = now() - began;
  sink = sum;
  return took / (double)steps;
}

typedef double wide __attribute__((vector_size(16)));

/* GB/s of PASSES passes of `pass` over `part` bytes, or of as much as was done when another thread was through: what
 * all threads together do while all of them run is what counts. */
static double stream(void (*pass)(wide *, wide *, wide *, size_t, size_t), wide *a, wide *b, wide *c, size_t part) {
  size_t n = part / sizeof *a, piece = n / 64, done = 0;
  pthread_barrier_wait(&together);
  double began = now();
  for (int k = 0; k < PASSES && !over; k++)
    for (size_t from = 0; from < n && !over; from += piece) {
      pass(a, b, c, from, from + piece);
      done += piece;
    }
  double took = now() - began;
  over = 1;
  return (double)done * sizeof *a / took;
}

static void pass_read(wide *a, wide *b, wide *c, size_t from, size_t to) {
  wide sum = {0, 0};
  for (size_t i = from; i < to; i += 4) sum += a[i] + a[i + 1] + a[i + 2] + a[i + 3];
  sink = (uint64_t)sum[0] + (uint64_t)b + (uint64_t)c;
}

static void pass_write(wide *a, wide *b, wide *c, size_t from, size_t to) {
  wide with = {(double)(uint64_t)b, (double)(uint64_t)c};
  for (size_t i = from; i < to; i += 4) a[i] = a[i + 1] = a[i + 2] = a[i + 3] = with;
}

static void pass_update(wide *a, wide *b, wide *c, size_t from, size_t to) {
  wide with = {(double)(uint64_t)b, (double)(uint64_t)c};
  for (size_t i = from; i < to; i += 4) {
    a[i] += with;
    a[i + 1] += with;
    a[i + 2] += with;
    a[i + 3] += with;
  }
}

static void pass_triad(wide *a, wide *b, wide *c, size_t from, size_t to) {
  wide s = {3, 3};
  for (size_t i = from; i < to; i += 4) {
    a[i] = b[i] + s * c[i];
    a[i + 1] = b[i + 1] + s * c[i + 1];
    a[i + 2] = b[i + 2] + s * c[i + 2];
    a[i + 3] = b[i + 3] + s * c[i + 3];
  }
}

static double sequential(void) { return stream(pass_read, memory(bytes), NULL, NULL, bytes); }
static double writes(void) { return stream(pass_write, memory(bytes), NULL, NULL, bytes); }
static double update(void) { return 2 * stream(pass_update, memory(bytes), NULL, NULL, bytes); }

static double triad(void) {
  size_t part = bytes / 3 / (2u << 20) * (2u << 20);
  wide *a = memory(part), *b = memory(part), *c = memory(part);
  return 3 * stream(pass_triad, a, b, c, part);
}

/* Reads until the others are through; `idle` turns of nothing between pieces set the rate. */
static double noise(void) {
  wide *a = memory(bytes);
  size_t n = bytes / sizeof *a, piece = n / 4096, done = 0;
  pthread_barrier_wait(&together);
  double began = now();
  while (!over)
    for (size_t i = 0; i < n && !over; i += piece) {
      pass_read(a, NULL, NULL, i, i + piece);
      for (int k = 0; k < idle; k++) sink = (uint64_t)k;
      done += piece;
    }
  return (double)done * sizeof *a / (now() - began);
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

struct part {
  double (*run)(void);
  int cpu;
  double result;
};

static void *worker(void *data) {
  struct part *p = data;
  pin(p->cpu);
  int loaded = !strcmp(kind, "loaded");
  p->result = loaded && p->cpu > 0 ? noise() : p->run();
  if (loaded) over = 1;
  return NULL;
}

int main(int argc, char **argv) {
  static const struct {
    const char *kind;
    double (*run)(void);
    const char *unit;
  } kinds[] = {{"chase", chase, "ns"},    {"index", indexed, "ns"},    {"random", random_loads, "ns"},
               {"read", sequential, "GB/s"}, {"write", writes, "GB/s"}, {"update", update, "GB/s"},
               {"triad", triad, "GB/s"},  {"loaded", chase, "ns"}};
  size_t which = 0, count = sizeof kinds / sizeof *kinds;
  kind = argc > 1 ? argv[1] : "";
  while (which < count && strcmp(kinds[which].kind, kind)) which++;
  if (argc < 3 || which == count) {
    fprintf(stderr, "usage: calibrate chase|index|random|read|write|update|triad|loaded NODE [MiB] [small|huge] [THREADS] [IDLE]\n");
    return 2;
  }
  node = atoi(argv[2]);
  if (argc > 3) bytes = (size_t)atoi(argv[3]) << 20;
  if (argc > 4) huge = !strcmp(argv[4], "huge");
  if (argc > 5) threads = atoi(argv[5]);
  if (argc > 6) idle = atoi(argv[6]);
  pthread_barrier_init(&together, NULL, (unsigned)threads);
  struct part parts[16];
  pthread_t ids[16];
  for (int i = 0; i < threads; i++) {
    parts[i] = (struct part){kinds[which].run, i, 0};
    pthread_create(&ids[i], NULL, worker, &parts[i]);
  }
  double sum = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    sum += parts[i].result;
  }
  int latency = kinds[which].unit[0] == 'n';
  if (!strcmp(kind, "loaded"))
    printf("loaded %d %.2f ns at %.2f GB/s\n", node, parts[0].result, sum - parts[0].result);
  else
    printf("%s %d %.2f %s\n", kind, node, latency ? sum / threads : sum, kinds[which].unit);
  return 0;
}
