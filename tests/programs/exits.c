/* Ways to end, each with objects alive and memory in use until then.
 *
 *   exits HOW [--seconds S]
 *
 * HOW is one of the names in the table below. `recover`, `barrier`, `trap` and `cancelled` do not end the program: they
 * handle their own faults as language runtimes do, or cancel their threads, and print a line.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint8_t *heap;
enum { HEAP = 8 << 20 };
static double seconds = 0.5;

/* Allocates, and uses the memory for a while. */
static void warm_up(void) {
    struct timespec start, now;
    heap = malloc(HEAP);
    if (!heap) exit(1);
    memset(heap, 1, HEAP);
    for (int i = 0; i < 100; i++) {
        volatile char *p = malloc(5000 * (i + 1));
        if (!p) exit(1);
        p[0] = 1;
        if (i % 2) free((void *)p);
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (size_t i = 0; i < HEAP; i += 64) heap[i]++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
}

static volatile int *volatile nowhere = NULL;

static void exit_main(void) { exit(7); }
static void exit_at_once(void) { _exit(8); }
static void exit_quickly(void) { quick_exit(9); }
static void handler_of_exit(void) {
    free(heap);
    heap = malloc(100000);
    if (heap) memset(heap, 1, 100000);
}
static void exit_with_handlers(void) {
    atexit(handler_of_exit);
    exit(10);
}
static void *exit_in_thread(void *unused) {
    (void)unused;
    exit(11);
}
static void exit_thread(void) {
    pthread_t t;
    pthread_create(&t, NULL, exit_in_thread, NULL);
    for (;;) heap[rand() % HEAP]++;
}
static void *outlive(void *unused) {
    (void)unused;
    usleep(50000);
    free(heap);
    exit(12);
}
static void main_ends_first(void) {
    pthread_t t;
    pthread_create(&t, NULL, outlive, NULL);
    pthread_exit(NULL);
}
static void die_abort(void) { abort(); }
static void die_kill(void) { kill(getpid(), SIGKILL); }
static void die_term(void) { raise(SIGTERM); }
static void die_segv(void) { *nowhere = 1; }
static void die_segv_sent(void) { kill(getpid(), SIGSEGV); }
static void die_segv_blocked(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    *nowhere = 1;
}
static void die_segv_ignored(void) {
    signal(SIGSEGV, SIG_IGN);
    *nowhere = 1;
}
static void die_segv_after_free(void) {
    /* Memory that the program itself made unreachable. */
    volatile char *map = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map[100] = 1;
}
static volatile int eaten;
__attribute__((noinline)) static int eat_stack(int n) {
    volatile char frame[4096];
    frame[n % 4096] = (char)n;
    int more = n < 0 ? 0 : eat_stack(n + 1); /* Never ends. */
    eaten = more;
    return more + frame[n % 4096];
}
static void die_stack(void) { eat_stack(0); }
static void die_trap(void) { __asm__ volatile("int3"); }
static void die_bus(void) { raise(SIGBUS); }

static sigjmp_buf back;
static void jump_back(int number) { siglongjmp(back, number); }
static void recover(void) {
    signal(SIGSEGV, jump_back);
    volatile int recovered = 0, i = 0; /* Kept over the jumps. */
    for (; i < 1000; i++) {
        if (sigsetjmp(back, 1) == 0) *nowhere = i;
        else recovered++;
        for (size_t j = 0; j < HEAP; j += 4096) heap[j]++;
    }
    struct sigaction old;
    sigaction(SIGSEGV, NULL, &old);
    printf("recovered %d own %d\n", recovered, old.sa_handler == jump_back);
}

static uint8_t *guarded;
static volatile sig_atomic_t opened;
static void open_page(int number, siginfo_t *info, void *context) {
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr, from = (uintptr_t)guarded;
    if (number != SIGSEGV || info->si_code != SEGV_ACCERR || at < from || at >= from + HEAP) _exit(99);
    mprotect((void *)(at & ~4095ul), 4096, PROT_READ | PROT_WRITE);
    opened++;
}
/* A write barrier by page protection, as garbage collectors have it. */
static void barrier(void) {
    guarded = mmap(NULL, HEAP, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded == MAP_FAILED) exit(1);
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < HEAP; i += 4096) guarded[i + 5] = (uint8_t)round;
        for (size_t i = 0; i < HEAP; i += 64) heap[i]++;
        mprotect(guarded, HEAP, PROT_READ);
    }
    printf("opened %d\n", (int)opened);
}

static volatile sig_atomic_t trapped;
static void count_trap(int number) { trapped += number == SIGTRAP; }
static void trap(void) {
    signal(SIGTRAP, count_trap);
    for (int i = 0; i < 500; i++) {
        __asm__ volatile("int3");
        for (size_t j = 0; j < HEAP; j += 8192) heap[j]++;
    }
    printf("trapped %d\n", (int)trapped);
}

static atomic_int cleaned;
static void clean_up(void *bytes) {
    free(bytes);
    cleaned++;
}
/* Waits for ever in a function that is a cancellation point, with something to be cleaned up. */
static void *wait_in(void *which) {
    int nothing[2];
    char byte;
    if (pipe(nothing)) exit(1);
    pthread_cleanup_push(clean_up, malloc(50000));
    struct pollfd it = {.fd = nothing[0], .events = POLLIN};
    if (which) poll(&it, 1, -1);
    else if (read(nothing[0], &byte, 1) < 0) exit(1);
    pthread_cleanup_pop(0);
    return NULL;
}
static void cancelled(void) {
    for (int i = 0; i < 40; i++) {
        pthread_t t;
        void *result;
        if (pthread_create(&t, NULL, wait_in, i % 2 ? &t : NULL)) exit(1);
        for (size_t j = 0; j < HEAP; j += 4096) heap[j]++;
        pthread_cancel(t);
        pthread_join(t, &result);
        if (result != PTHREAD_CANCELED) exit(1);
    }
    printf("cleaned up %d\n", cleaned);
}

static const struct {
    const char *how;
    void (*run)(void);
} ways[] = {
    {"exit", exit_main},
    {"_exit", exit_at_once},
    {"quick_exit", exit_quickly},
    {"atexit", exit_with_handlers},
    {"exit-in-thread", exit_thread},
    {"main-ends-first", main_ends_first},
    {"abort", die_abort},
    {"sigkill", die_kill},
    {"sigterm", die_term},
    {"sigsegv", die_segv},
    {"sigsegv-sent", die_segv_sent},
    {"sigsegv-blocked", die_segv_blocked},
    {"sigsegv-ignored", die_segv_ignored},
    {"sigsegv-protected", die_segv_after_free},
    {"stack-overflow", die_stack},
    {"sigtrap", die_trap},
    {"sigbus", die_bus},
    {"recover", recover},
    {"barrier", barrier},
    {"trap", trap},
    {"cancelled", cancelled},
};

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[2], "--seconds")) seconds = atof(argv[3]);
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].how)) {
            warm_up();
            printf("%s\n", ways[i].how);
            fflush(stdout);
            ways[i].run();
            return 0;
        }
    fprintf(stderr, "usage: exits HOW [--seconds S]; HOW is one of\n");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) fprintf(stderr, "  %s\n", ways[i].how);
    return 2;
}
