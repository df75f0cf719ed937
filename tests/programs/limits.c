/* Programs at a limit of the system.
 *
 *   limits mappings      makes mappings until the kernel refuses one more, and goes on with malloc
 *   limits sandbox all   the same for all of its threads at once, some of which a tool may have made
 *   limits sandbox       allows itself, by a seccomp filter, only what the C library's malloc needs, and goes on
 *   limits memory MIB    uses so much memory, which may be more than it may have
 *   limits lowered WHAT  limits its own address space or its data (WHAT: address-space, data), and goes on
 *   limits all-data      limits its own data, uses all of that up, and looks at what it had before
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *objects[400];

/* Objects of many sizes come and go; says how many there were. */
static int churn(const char *when) {
    int made = 0;
    for (int i = 0; i < 20000; i++) {
        int n = i * 7919 % 400;
        size_t size = n % 4 == 3 ? 100000 + i : n % 4 == 2 ? 5000 + i : 100;
        if (objects[n] && i % 3 == 0) {
            void *p = realloc(objects[n], size);
            if (!p) continue;
            objects[n] = p;
        } else {
            free(objects[n]);
            objects[n] = malloc(size);
        }
        if (objects[n]) {
            memset(objects[n], i, size);
            made++;
        }
    }
    printf("%s: %d objects\n", when, made);
    fflush(stdout);
    return made;
}
static void *in_thread(void *when) {
    churn(when);
    return NULL;
}

static int mappings(void) {
    churn("before");
    long n = 0;
    char *at = mmap(NULL, (size_t)200000 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 1;
    /* Every second page with other rights is a mapping of its own. */
    while (n < 100000 && !mprotect(at + n * 2 * 4096, 4096, PROT_READ)) n++;
    printf("the kernel refuses: %s; most of 65530: %d\n", strerror(errno), n * 2 > 60000);
    for (int i = 0; i < 20; i++) churn("at the limit");
    munmap(at, (size_t)200000 * 4096);
    churn("after");
    return 0;
}

static int sandbox(int all) {
    mallopt(M_ARENA_MAX, 1); /* Else threads ask for more than is allowed below. */
    for (int i = 0; i < (all ? 30 : 1); i++) churn("before");
#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_brk), ALLOW(SYS_mmap),
        ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_futex), ALLOW(SYS_newfstatat),
        ALLOW(SYS_clone), ALLOW(SYS_clone3), ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq), ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rt_sigaction), ALLOW(SYS_sched_getaffinity), ALLOW(SYS_prlimit64), ALLOW(SYS_getrandom),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program)) {
        perror("limits: seccomp");
        return 1;
    }
    for (int i = 0; i < (all ? 30 : 1); i++) churn("in the sandbox");
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, "in a thread of the sandbox")) return 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < 400; i++) free(objects[i]);
    return 0;
}

static int memory(long mib) {
    for (long i = 0; i < mib; i++) {
        char *p = malloc(1 << 20);
        if (!p) {
            printf("refused: %s\n", strerror(errno));
            return 3;
        }
        memset(p, 1, 1 << 20);
        __asm__ volatile("" : : "r"(p) : "memory");
    }
    printf("used %ld MiB\n", mib);
    return 0;
}

static int lowered(int what) {
    churn("before");
    struct rlimit limit = {(size_t)600 << 20, (size_t)600 << 20};
    if (setrlimit(what, &limit)) return 1;
    churn("after");
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, "in a thread")) return 1;
    pthread_join(thread, NULL);
    long small = 0;
    for (; small < 2000000 && malloc(100); small++) {}
    printf("%ld small ones\n", small);
    char *mapped = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("a mapping: %s\n", mapped == MAP_FAILED ? strerror(errno) : "done");
    void *large = malloc((size_t)1 << 30);
    printf("more than the limit: %s\n", large ? "done" : strerror(errno));
    return 0;
}

static int all_data(void) {
    enum { SIZE = 32 << 20 };
    char *before = malloc(SIZE);
    memset(before, 1, SIZE);
    for (int i = 0; i < 10000; i++) /* Time for a tool to be at work on it. */
        for (int at = 0; at < SIZE; at += 4096) before[at]++;
    struct rlimit limit = {(size_t)200 << 20, (size_t)200 << 20};
    if (setrlimit(RLIMIT_DATA, &limit)) return 1;
    for (size_t piece = 16 << 20; piece >= 4096; piece /= 2)
        while (mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {}
    long sum = 0;
    for (int i = 0; i < 100; i++)
        for (int at = 0; at < SIZE; at += 4096) sum += ++before[at];
    printf("%ld\n", sum);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "mappings")) return mappings();
    if (argc > 1 && !strcmp(argv[1], "sandbox")) return sandbox(argc > 2);
    if (argc > 2 && !strcmp(argv[1], "memory")) return memory(atol(argv[2]));
    if (argc > 2 && !strcmp(argv[1], "lowered")) return lowered(strcmp(argv[2], "data") ? RLIMIT_AS : RLIMIT_DATA);
    if (argc > 1 && !strcmp(argv[1], "all-data")) return all_data();
    return 2;
}
