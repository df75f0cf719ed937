/* A coroutine that signals interrupt on its stack, which is a mapping or allocated, before it has made a system call there.
 *
 *     coroutines SECONDS
 *
 * Turns: a stack is made, the coroutine goes deep into it for some milliseconds while a timer's signals come, and yields once. Prints
 * whether signals came, and ends with 0; or says what was wrong and ends with 1.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

enum { STACK = 4 << 20, LEVELS = 800, EACH = 2048 };

static volatile sig_atomic_t alarms;
static ucontext_t main_context, coroutine;
static int right;

static void on_alarm(int signal) {
  /* Its frame and this array are on the coroutine's stack. */
  volatile char here[512];
  memset((char *)here, signal, sizeof here);
  alarms += here[511] == signal;
}

static int deep(int levels) {
  volatile char here[EACH];
  memset((char *)here, levels, sizeof here);
  int below = levels ? deep(levels - 1) : 0;
  return here[0] == (char)levels && here[EACH - 1] == (char)levels ? below + 1 : -LEVELS;
}

static void go(ucontext_t *from, ucontext_t *to) {
  if (swapcontext(from, to)) {
    perror("coroutines: swapcontext");
    exit(1);
  }
}

static void in_coroutine(void) {
  for (int i = 0; i < 20; i++) right += deep(LEVELS) == LEVELS + 1;
  go(&coroutine, &main_context);
  for (int i = 0; i < 20; i++) right += deep(LEVELS) == LEVELS + 1;
}

static void turn(char *stack) {
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = STACK;
  coroutine.uc_link = &main_context;
  makecontext(&coroutine, in_coroutine, 0);
  right = 0;
  go(&main_context, &coroutine);
  go(&main_context, &coroutine);
  if (right != 40) {
    fputs("coroutines: a stack has changed\n", stderr);
    exit(1);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: coroutines SECONDS\n", stderr);
    return 2;
  }
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, NULL);
  long turns = 0;
  for (time_t end = time(NULL) + atol(argv[1]); time(NULL) < end; turns++) {
    char *mapped = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *allocated = malloc(STACK);
    if (mapped == MAP_FAILED || !allocated) {
      fputs("coroutines: no memory\n", stderr);
      return 1;
    }
    turn(mapped);
    turn(allocated);
    free(allocated);
    munmap(mapped, STACK);
  }
  printf("coroutines: right, interrupted %s\n", alarms > turns ? "often" : "seldom");
  fprintf(stderr, "%ld turns, %d signals\n", turns, (int)alarms);
  return 0;
}
