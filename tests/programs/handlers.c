/* A program that lives on its own handlers for SIGSEGV, SIGBUS, SIGTRAP and SIGSYS, while its heap is large and busy.
 *
 *   handlers [--seconds S] [GROUP...]
 *
 * Whatever a tool does with these signals, the program must get its own: with the right address and mask, on the right
 * stack, as often as without, and it must die of them as without. The groups take turns until the time is over. Prints one
 * line a group.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                                       \
    do {                                                                                                         \
        if (!(condition)) {                                                                                      \
            int error = errno;                                                                                   \
            fprintf(stderr, "handlers: line %d: %s is not so (%s)\n", __LINE__, #condition, strerror(error)); \
            _Exit(1);                                                                                            \
        }                                                                                                        \
    } while (0)

enum { PAGE = 4096, PAGES = 64, HEAP = 24 << 20 };
static uint8_t *heap;
static volatile uint8_t *guarded; /* its stores must happen where they stand */
static volatile sig_atomic_t handled;
static void *volatile fault_address;
static unsigned turn;

/* Work on a large object, so that there is something to sample. */
static void work(void) {
    static size_t at;
    for (int i = 0; i < 20000; i++) {
        at = (at * 2654435761u + 12345) % HEAP;
        heap[at]++;
    }
}

static void set(int number, void (*handler)(int, siginfo_t *, void *), int flags, struct sigaction *old) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigemptyset(&action.sa_mask);
    REQUIRE(sigaction(number, &action, old) == 0);
}
static void unset(int number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    REQUIRE(sigaction(number, &action, NULL) == 0);
}

/* ---- a handler that mends the fault ---- */
static void mend(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    int error = errno;
    handled++;
    fault_address = info->si_addr;
    if (mprotect((void *)((uintptr_t)info->si_addr & -PAGE), PAGE, PROT_READ | PROT_WRITE)) _Exit(3);
    heap[handled * 4096u % HEAP]++; /* a handler may touch the heap */
    errno = error;
}
static int mending(void) {
    set(SIGSEGV, mend, 0, NULL);
    handled = 0;
    REQUIRE(mprotect((void *)guarded, PAGES * PAGE, PROT_NONE) == 0);
    for (int i = 0; i < PAGES; i++) {
        guarded[i * PAGE + i] = i;
        REQUIRE(handled == i + 1 && fault_address == guarded + i * PAGE + i);
        work();
    }
    for (int i = 0; i < PAGES; i++) REQUIRE(guarded[i * PAGE + i] == i);
    unset(SIGSEGV);
    return 1;
}

/* ---- a collector's write barrier, on memory of malloc ---- */
static volatile uint8_t *collected, dirty[1024];
static void barrier(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    size_t page = ((uint8_t *)info->si_addr - collected) / PAGE;
    if (page >= 1024 || mprotect((void *)collected + page * PAGE, PAGE, PROT_READ | PROT_WRITE)) _Exit(4);
    dirty[page]++;
}
static int barriers(void) {
    set(SIGSEGV, barrier, SA_RESTART, NULL);
    for (int round = 0; round < 8; round++) {
        memset((void *)dirty, 0, sizeof dirty);
        REQUIRE(mprotect((void *)collected, 1024 * PAGE, PROT_READ) == 0);
        uint64_t sum = 0;
        for (int i = 0; i < 1024; i++) {
            sum += collected[i * PAGE];
            if ((i + round + turn) % 3 == 0) collected[i * PAGE + 8] = round;
        }
        work();
        /* Exactly the pages that were written, each once. */
        for (unsigned i = 0; i < 1024; i++) REQUIRE(dirty[i] == ((i + round + turn) % 3 == 0));
        REQUIRE(sum == 0);
    }
    REQUIRE(mprotect((void *)collected, 1024 * PAGE, PROT_READ | PROT_WRITE) == 0);
    unset(SIGSEGV);
    return 1;
}

/* ---- handlers that do not return ---- */
static sigjmp_buf jump;
static void leave(int number, siginfo_t *info, void *context) {
    (void)context;
    handled++;
    fault_address = info->si_addr;
    siglongjmp(jump, number);
}
static int jumping(void) {
    set(SIGSEGV, leave, 0, NULL);
    set(SIGBUS, leave, 0, NULL);
    REQUIRE(mprotect((void *)guarded, PAGES * PAGE, PROT_NONE) == 0);
    handled = 0;
    for (volatile int i = 0; i < 200; i++) {
        int got = sigsetjmp(jump, 1);
        if (!got) {
            guarded[i % PAGES * PAGE] = 1;
            REQUIRE(!"the page is protected");
        }
        REQUIRE(got == SIGSEGV && handled == i + 1 && fault_address == guarded + i % PAGES * PAGE);
        work();
    }
    /* A null pointer, as a virtual machine checks for it. */
    volatile int *volatile null = NULL;
    if (!sigsetjmp(jump, 1)) *null = 1;
    REQUIRE(fault_address == NULL && handled == 201);
    /* Beyond the end of a file. */
    int fd = memfd_create("handlers", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && ftruncate(fd, PAGE) == 0);
    volatile uint8_t *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(map != MAP_FAILED);
    for (volatile int i = 0; i < 20; i++) {
        int got = sigsetjmp(jump, 1);
        if (!got) map[PAGE + 5] = 1;
        REQUIRE(got == SIGBUS && fault_address == map + PAGE + 5);
    }
    munmap((void *)map, 2 * PAGE);
    close(fd);
    REQUIRE(mprotect((void *)guarded, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    unset(SIGSEGV), unset(SIGBUS);
    return 1;
}
/* Out of a blocking call, by a handler. */
static void alarmed(int number) { siglongjmp(jump, number); }
static int jumping_out_of_calls(void) {
    int ends[2], go[2];
    REQUIRE(pipe(ends) == 0 && pipe(go) == 0);
    for (volatile int i = 0; i < 20; i++) {
        REQUIRE(signal(SIGUSR1, alarmed) != SIG_ERR);
        const pid_t me = getpid();
        volatile pid_t child = 0;
        if (!sigsetjmp(jump, 1)) {
            child = fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                char byte;
                if (read(go[0], &byte, 1) == 1) usleep(1000), kill(me, SIGUSR1);
                _exit(0);
            }
            REQUIRE(write(go[1], "", 1) == 1);
            while (read(ends[0], heap + i * 8192, 8192) != 0) continue;
            REQUIRE(!"nobody writes");
        }
        signal(SIGUSR1, SIG_DFL);
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        work();
        REQUIRE(write(ends[1], heap, 4096) == 4096 && read(ends[0], heap + (HEAP / 2), 4096) == 4096);
    }
    close(ends[0]), close(ends[1]), close(go[0]), close(go[1]);
    return 1;
}

/* ---- flags ---- */
static volatile sig_atomic_t depth, deepest;
static void nest(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    handled++;
    if (++depth > deepest) deepest = depth;
    volatile uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr & -PAGE);
    if (page + PAGE < guarded + 4 * PAGE) page[PAGE] = 1; /* faults again, in the handler */
    if (mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE)) _Exit(5);
    depth--;
}
static void on_stack(int number, siginfo_t *info, void *context);
static stack_t alternative;
static int flags(void) {
    set(SIGSEGV, nest, SA_NODEFER, NULL);
    REQUIRE(mprotect((void *)guarded, PAGES * PAGE, PROT_NONE) == 0);
    handled = depth = deepest = 0;
    guarded[0] = 1;
    REQUIRE(handled == 4 && deepest == 4);
    /* One shot. */
    set(SIGSEGV, mend, SA_RESETHAND, NULL);
    guarded[10 * PAGE] = 1;
    struct sigaction now;
    REQUIRE(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    REQUIRE(mprotect((void *)guarded, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    /* On a stack of the program's. */
    alternative = (stack_t){.ss_sp = malloc(128 << 10), .ss_size = 128 << 10};
    stack_t before;
    REQUIRE(alternative.ss_sp && sigaltstack(&alternative, &before) == 0);
    set(SIGSEGV, on_stack, SA_ONSTACK, NULL);
    for (int i = 0; i < 20; i++) {
        REQUIRE(mprotect((void *)guarded, PAGE, PROT_NONE) == 0);
        handled = 0;
        guarded[i] = 1;
        REQUIRE(handled == 1);
        work();
    }
    /* On a small one, as many language runtimes have it. */
    stack_t small = {.ss_sp = malloc(20 << 10), .ss_size = 20 << 10}, told;
    REQUIRE(sigaltstack(&small, &told) == 0 && told.ss_sp == alternative.ss_sp && told.ss_size == alternative.ss_size);
    REQUIRE(sigaltstack(NULL, &told) == 0 && told.ss_sp == small.ss_sp && told.ss_size == small.ss_size);
    REQUIRE(mprotect((void *)guarded, PAGE, PROT_NONE) == 0);
    set(SIGSEGV, mend, SA_ONSTACK, NULL);
    handled = 0;
    guarded[0] = 1;
    REQUIRE(handled == 1);
    REQUIRE(sigaltstack(&before, NULL) == 0 && sigaltstack(NULL, &told) == 0 && told.ss_flags == SS_DISABLE);
    small.ss_size = 100;
    REQUIRE(sigaltstack(&small, NULL) < 0 && errno == ENOMEM);
    free(alternative.ss_sp), free(small.ss_sp);
    unset(SIGSEGV);
    return 1;
}
static void on_stack(int number, siginfo_t *info, void *context) {
    volatile uint8_t room[16 << 10];
    uint8_t here;
    if ((uintptr_t)(&here - (uint8_t *)alternative.ss_sp) >= alternative.ss_size) _Exit(6);
    for (size_t i = 0; i < sizeof room; i += 512) room[i] = (uint8_t)i;
    stack_t now;
    if (sigaltstack(NULL, &now) || !(now.ss_flags & SS_ONSTACK)) _Exit(7);
    mend(number, info, context);
}

/* ---- what the program is told about its handlers and masks ---- */
static volatile sig_atomic_t pending_inside, other;
static void others(int number) { other += number == SIGUSR2; }
static void masked(int number, siginfo_t *info, void *context) {
    sigset_t mask, waiting;
    raise(SIGUSR2);
    REQUIRE(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2));
    REQUIRE(sigpending(&waiting) == 0 && sigismember(&waiting, SIGUSR2));
    pending_inside += other == 0;
    mend(number, info, context);
}
static int masks(void) {
    struct sigaction action, now;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = masked;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0 && signal(SIGUSR2, others) != SIG_ERR);
    REQUIRE(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == masked);
    REQUIRE((now.sa_flags & (SA_SIGINFO | SA_RESTART)) == (SA_SIGINFO | SA_RESTART));
    REQUIRE(sigismember(&now.sa_mask, SIGUSR2) == 1 && sigismember(&now.sa_mask, SIGUSR1) == 0);
    for (int i = 0; i < 20; i++) {
        REQUIRE(mprotect((void *)guarded, PAGE, PROT_NONE) == 0);
        handled = pending_inside = other = 0;
        guarded[i] = 1;
        REQUIRE(handled == 1 && pending_inside == 1 && other == 1);
        work();
    }
    for (int number = SIGTRAP;; number = number == SIGTRAP ? SIGSYS : 0) {
        if (!number) break;
        REQUIRE(sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
        REQUIRE(signal(number, others) == SIG_DFL && signal(number, SIG_DFL) == others);
    }
    unset(SIGSEGV);
    signal(SIGUSR2, SIG_DFL);
    return 1;
}

/* ---- traps ---- */
static void *volatile trapped_at;
static void trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    handled++;
    trapped_at = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}
static int traps(void) {
    set(SIGTRAP, trap, 0, NULL);
    set(SIGSYS, trap, 0, NULL);
    handled = 0;
    for (int i = 0; i < 50; i++) {
        void *after;
        __asm__ volatile("lea 1f(%%rip), %0\n\tint3\n1:" : "=&r"(after) : : "memory");
        REQUIRE(handled == 2 * i + 1 && trapped_at == after);
        REQUIRE(raise(i % 2 ? SIGTRAP : SIGSYS) == 0);
        REQUIRE(handled == 2 * i + 2);
        work();
    }
    unset(SIGTRAP), unset(SIGSYS);
    return 1;
}

/* ---- deaths ---- */
static void again(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (write(STDERR_FILENO, "", 0)) _exit(8);
    volatile int *volatile null = NULL;
    *null = 2; /* blocked here: the end */
}
static int status_of(int kind) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        work();
        volatile int *volatile null = NULL;
        switch (kind) {
            case 0: *null = 1; break;
            case 1: raise(SIGSEGV); break;
            case 2: __asm__ volatile("int3"); break;
            case 3: raise(SIGSYS); break;
            case 4: set(SIGSEGV, again, 0, NULL), *null = 1; break;
            case 5: set(SIGSEGV, mend, SA_RESETHAND, NULL), mprotect((void *)guarded, PAGE, PROT_NONE), *guarded = 1, *null = 1; break;
            case 6: signal(SIGSEGV, SIG_IGN), *null = 1; break;
            default: signal(SIGSEGV, SIG_IGN), signal(SIGTRAP, SIG_IGN), raise(SIGSEGV), raise(SIGTRAP), _exit(17);
        }
        _exit(18);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}
static int deaths(void) {
    static const int expected[] = {SIGSEGV, SIGSEGV, SIGTRAP, SIGSYS, SIGSEGV, SIGSEGV, SIGSEGV};
    for (int kind = 0; kind < 7; kind++) {
        int status = status_of(kind);
        errno = kind;
        REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == expected[kind]);
    }
    int status = status_of(7);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 17);
    return 1;
}

/* ---- threads that fault at the same time ---- */
static void *faulting(void *argument) {
    volatile uint8_t *mine = argument;
    for (int i = 0; i < 200; i++) {
        REQUIRE(mprotect((void *)mine, PAGE, PROT_NONE) == 0);
        mine[i] = i;
        REQUIRE(mine[i] == (uint8_t)i);
        for (int j = 0; j < 2000; j++) heap[(j * 40503u + i * 4096u) % HEAP] ^= 1;
    }
    return NULL;
}
static int threads(void) {
    set(SIGSEGV, mend, SA_ONSTACK, NULL);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&t[i], NULL, faulting, (void *)(guarded + i * PAGE)) == 0);
    for (int i = 0; i < 4; i++) REQUIRE(pthread_join(t[i], NULL) == 0);
    unset(SIGSEGV);
    return 1;
}

static const struct {
    const char *name;
    int (*run)(void);
} groups[] = {
    {"mending", mending}, {"barriers", barriers}, {"jumping", jumping}, {"jumping-out-of-calls", jumping_out_of_calls},
    {"flags", flags},     {"masks", masks},       {"traps", traps},     {"deaths", deaths},
    {"threads", threads},
};
enum { GROUPS = sizeof groups / sizeof *groups };

int main(int argc, char **argv) {
    double seconds = 3;
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--seconds")) seconds = atof(argv[2]), first = 3;
    heap = malloc(HEAP);
    REQUIRE(heap && posix_memalign((void **)&collected, PAGE, 1024 * PAGE) == 0);
    memset(heap, 1, HEAP), memset((void *)collected, 0, 1024 * PAGE);
    guarded = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(guarded != MAP_FAILED);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int chosen[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        chosen[g] = first >= argc;
        for (int i = first; i < argc; i++) chosen[g] |= !strcmp(argv[i], groups[g].name);
    }
    do {
        turn++;
        for (int g = 0; g < GROUPS; g++)
            if (chosen[g]) REQUIRE(groups[g].run());
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
    fprintf(stderr, "handlers: %u turns\n", turn);
    for (int g = 0; g < GROUPS; g++)
        if (chosen[g]) printf("ok %s\n", groups[g].name);
    return 0;
}
