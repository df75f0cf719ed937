/* Mappings and static data that are used in every way while pages of them may be armed.
 *
 *     mappings SECONDS
 *
 * Turns, each with its contents checked: a mapping grows and moves (mremap), loses its middle to another place, is mapped over (MAP_FIXED), is
 * unmapped by a bare system call and the place taken by a read-only mapping of a file; another is write-protected like a garbage
 * collector's, its fault handled and counted; a thread lives on a mapped stack and is interrupted by signals whose frames are put
 * there; a coroutine does the same; a heap is reserved, opened bit by bit, closed in its middle and opened again; a child reads and
 * writes what it inherited; system calls fill mappings and static data.
 * Prints how many turns were made and ends with 0, or says what was wrong and ends with 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static char table[8 * MIB];
static volatile sig_atomic_t alarms, faults;
static char *guarded;

static void wrong(const char *what) {
  fprintf(stderr, "mappings: %s (%s)\n", what, strerror(errno));
  exit(1);
}

static char *map(size_t bytes) {
  char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) wrong("no memory");
  return p;
}

/* A word for each place, other in each turn. */
static uint64_t word(const char *p, long turn) { return ((uintptr_t)p ^ (uint64_t)turn << 48) * 0x9e3779b97f4a7c15u; }

static void fill(char *p, size_t bytes, long turn) {
  for (size_t i = 0; i < bytes; i += 512) *(uint64_t *)(p + i) = word((char *)i, turn);
}

static void check(const char *what, const char *p, size_t bytes, size_t from, long turn) {
  for (size_t i = 0; i < bytes; i += 512)
    if (*(const uint64_t *)(p + i) != word((char *)(from + i), turn)) wrong(what);
}

static void on_alarm(int signal) {
  (void)signal;
  alarms++;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  char *at = info->si_addr;
  if (!guarded || at < guarded || at >= guarded + 4 * MIB) {
    static const char text[] = "mappings: a fault that nobody made\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(3);
    _exit(1);
  }
  faults++;
  mprotect((char *)((uintptr_t)at & -PAGE), PAGE, PROT_READ | PROT_WRITE);
}

/* Uses the stack it runs on, for a while and deeply. */
static long deep(int levels) {
  volatile char here[2048];
  memset((char *)here, levels, sizeof here);
  long below = levels ? deep(levels - 1) : 0;
  if (here[0] != (char)levels || here[2047] != (char)levels) wrong("a stack has changed");
  return below + 1;
}

static void *on_mapped_stack(void *unused) {
  (void)unused;
  for (int i = 0; i < 40; i++)
    if (deep(800) != 801) wrong("the stack of a thread");
  return NULL;
}

static ucontext_t main_context, coroutine;

static void in_coroutine(void) {
  for (int i = 0; i < 20; i++) {
    if (deep(800) != 801) wrong("the stack of a coroutine");
    swapcontext(&coroutine, &main_context);
  }
}

static void read_all(int fd, char *to, size_t bytes) {
  while (bytes) {
    ssize_t n = read(fd, to, bytes);
    if (n <= 0 && errno != EINTR) wrong("read");
    if (n > 0) to += n, bytes -= (size_t)n;
  }
}

static void moving(long turn) {
  char *p = map(4 * MIB);
  fill(p, 4 * MIB, turn);
  p = mremap(p, 4 * MIB, 12 * MIB, MREMAP_MAYMOVE);
  if (p == MAP_FAILED) wrong("mremap");
  check("a mapping that has moved", p, 4 * MIB, 0, turn);
  fill(p, 12 * MIB, turn);
  /* Out of the middle, and larger. */
  char *moved = mremap(p + 4 * MIB, 4 * MIB, 6 * MIB, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) wrong("mremap of a middle");
  check("a middle that has moved", moved, 4 * MIB, 4 * MIB, turn);
  munmap(moved, 6 * MIB);
  /* What follows takes the place of the hole. */
  char *q = mmap(p + 4 * MIB, 4 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (q == MAP_FAILED) wrong("a mapping in the hole");
  check("what is before a hole", p, 4 * MIB, 0, turn);
  check("what is behind a hole", p + 8 * MIB, 4 * MIB, 8 * MIB, turn);
  for (size_t i = 0; i < 4 * MIB; i += PAGE)
    if (q[i]) wrong("a new mapping is not empty");
  /* Without rights to write it must stay so: the kernel refuses to. */
  int fd = open("/dev/zero", O_RDONLY);
  if (read(fd, q, PAGE) != -1 || errno != EFAULT) wrong("a read-only mapping was written");
  read_all(fd, p, 2 * MIB);
  read_all(fd, table, 2 * MIB);
  close(fd);
  if (p[MIB] || table[MIB]) wrong("what was read");
  if (syscall(SYS_munmap, p, 12 * MIB)) wrong("a bare munmap");
  fd = open("/proc/self/exe", O_RDONLY);
  char *file = mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  close(fd);
  if (file != p || memcmp(file, "\177ELF", 4)) wrong("a file in the place of a mapping");
  munmap(file, PAGE);
}

static void collecting(long turn) {
  guarded = map(4 * MIB);
  fill(guarded, 4 * MIB, turn);
  if (mprotect(guarded, 4 * MIB, PROT_READ)) wrong("mprotect");
  int before = faults;
  for (int i = 0; i < 64; i++) guarded[i * 61 * PAGE % (4 * MIB) + 8] = 1;
  if (faults - before != 64) wrong("not every write to a protected page was told");
  check("a protected mapping", guarded, 4 * MIB, 0, turn);
  munmap(guarded, 4 * MIB);
  guarded = NULL;
}

static void stacks(void) {
  char *stack = map(4 * MIB);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, 4 * MIB);
  if (pthread_create(&thread, &attributes, on_mapped_stack, NULL)) wrong("no thread");
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  munmap(stack, 4 * MIB);

  stack = map(4 * MIB);
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = 4 * MIB;
  coroutine.uc_link = &main_context;
  makecontext(&coroutine, in_coroutine, 0);
  for (int i = 0; i < 20; i++) swapcontext(&main_context, &coroutine);
  munmap(stack, 4 * MIB);
}

/* As allocators do with their heaps. */
static void opening(long turn) {
  enum { WHOLE = 16 * MIB, STEP = MIB };
  char *heap = mmap(NULL, WHOLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (heap == MAP_FAILED) wrong("no address space");
  for (size_t at = 0; at < WHOLE; at += STEP) {
    if (mprotect(heap + at, STEP, PROT_READ | PROT_WRITE)) wrong("opening a heap");
    fill(heap + at, STEP, turn);
  }
  for (int i = 0; i < 20; i++)
    for (size_t at = 0; at < WHOLE; at += STEP) check("an opened heap", heap + at, STEP, 0, turn);
  if (mprotect(heap + 4 * MIB, 4 * MIB, PROT_NONE)) wrong("closing a part");
  if (madvise(heap + 4 * MIB, 4 * MIB, MADV_DONTNEED)) wrong("giving a part back");
  if (mprotect(heap + 4 * MIB, 4 * MIB, PROT_READ | PROT_WRITE)) wrong("opening a part again");
  for (size_t i = 0; i < 4 * MIB; i += PAGE)
    if (heap[4 * MIB + i]) wrong("what was given back is not empty");
  for (size_t at = 0; at < WHOLE; at += STEP)
    if (at < 4 * MIB || at >= 8 * MIB) check("a heap around what was closed", heap + at, STEP, 0, turn);
  munmap(heap, WHOLE);
}

static void forking(long turn) {
  char *p = map(4 * MIB);
  fill(p, 4 * MIB, turn);
  pid_t child = fork();
  if (child == 0) {
    check("what a child inherited", p, 4 * MIB, 0, turn);
    fill(p, 4 * MIB, turn + 1);
    fill(table, sizeof table, turn + 1);
    _exit(0);
  }
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) wrong("waitpid");
  if (status) wrong("a child");
  check("what a child has too", p, 4 * MIB, 0, turn);
  munmap(p, 4 * MIB);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: mappings SECONDS\n", stderr);
    return 2;
  }
  struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGALRM, &alarm, NULL);
  sigaction(SIGSEGV, &fault, NULL);
  struct itimerval often = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, NULL);
  char *kept = map(32 * MIB);
  fill(kept, 32 * MIB, 1);
  time_t end = time(NULL) + atol(argv[1]);
  long turns = 0;
  for (; time(NULL) < end; turns++) {
    fill(table, sizeof table, turns);
    moving(turns);
    fill(table, sizeof table, turns);
    collecting(turns);
    stacks();
    opening(turns);
    forking(turns);
    check("static data", table, sizeof table, 0, turns);
    check("a mapping that is kept", kept, 32 * MIB, 0, 1);
  }
  printf("mappings: right, interrupted %s\n", alarms ? "often" : "never");
  fprintf(stderr, "%ld turns\n", turns);
  return 0;
}
