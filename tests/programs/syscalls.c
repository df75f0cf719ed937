/* Memory that the kernel touches: every buffer, structure and lock word lies in a large allocated object.
 *
 *   syscalls [--seconds S] [GROUP...]
 *
 * A tool that protects pages to see accesses turns such system calls into EFAULT, short counts, EINTR or hangs; each is
 * a failure here. The groups take turns until the time is over; every result and every byte is checked. Prints one line
 * a group. A group that the system itself does not offer is a line `without GROUP`.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define REQUIRE(condition)                                                                                       \
    do {                                                                                                         \
        if (!(condition)) {                                                                                      \
            int error = errno;                                                                                   \
            fprintf(stderr, "syscalls: line %d: %s is not so (%s)\n", __LINE__, #condition, strerror(error)); \
            _Exit(1);                                                                                            \
        }                                                                                                        \
    } while (0)

enum { MIB = 1 << 20, BIG = 4 * MIB, MEDIUM = 256 << 10 };

/* The objects under test: allocated once, so that they are old enough to be observed when the kernel touches them. */
static uint8_t *source, *target, *medium, *scratch;

static void fill(uint8_t *p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = (i + seed) * 0x9e3779b97f4a7c15u;
        memcpy(p + i, &word, n - i < 8 ? n - i : 8);
    }
}
static int holds(const uint8_t *p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = (i + seed) * 0x9e3779b97f4a7c15u;
        if (memcmp(p + i, &word, n - i < 8 ? n - i : 8)) return 0;
    }
    return 1;
}
static void *object(size_t size) {
    void *p = malloc(size);
    REQUIRE(p);
    memset(p, 0, size);
    return p;
}
/* A structure in the middle of a large object of its own, on its own page; `n` tells them apart. */
static void *placed(int n) { return scratch + 8192 * (n + 1); }
static unsigned turn;

static int temporary(void) {
    int fd = memfd_create("syscalls", MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    return fd;
}

/* ---- files ---- */
static int files(void) {
    int fd = temporary();
    fill(source, BIG, turn);
    REQUIRE(write(fd, source, BIG) == BIG);
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
    memset(target, 1, BIG);
    REQUIRE(read(fd, target, BIG) == BIG);
    REQUIRE(holds(target, BIG, turn));
    REQUIRE(pwrite(fd, source + 4096, MIB, 0) == MIB);
    REQUIRE(pread(fd, target + 4096, MIB, 0) == MIB);
    REQUIRE(memcmp(source + 4096, target + 4096, MIB) == 0);
    /* The vectors lie in the heap too. */
    struct iovec *v = placed(0);
    for (int i = 0; i < 64; i++) v[i] = (struct iovec){source + i * 65536 + i, 50000};
    REQUIRE(pwritev(fd, v, 64, 0) == 64 * 50000);
    memset(target, 2, BIG);
    for (int i = 0; i < 64; i++) v[i] = (struct iovec){target + i * 65536 + i, 50000};
    REQUIRE(preadv(fd, v, 64, 0) == 64 * 50000);
    for (int i = 0; i < 64; i++) REQUIRE(memcmp(source + i * 65536 + i, target + i * 65536 + i, 50000) == 0);
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, v, 64) == 64 * 50000);
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0 && writev(fd, v, 64) == 64 * 50000);
    REQUIRE(preadv2(fd, v, 3, 0, 0) == 3 * 50000);
    /* Unbuffered calls, as a program with its own libc would make them. */
    REQUIRE(syscall(SYS_pread64, fd, target, MIB, 0L) == MIB);
    REQUIRE(syscall(SYS_pwrite64, fd, target, MIB, 0L) == MIB);
    int other = temporary();
    loff_t *from = placed(1), *to = placed(2);
    *from = 100, *to = 0;
    REQUIRE(copy_file_range(fd, from, other, to, 300000, 0) == 300000 && *from == 300100 && *to == 300000);
    close(other);
    close(fd);
    return 1;
}

static int stdio(void) {
    FILE *f = tmpfile();
    REQUIRE(f);
    fill(source, BIG, turn + 1);
    REQUIRE(fwrite(source, 1, BIG, f) == BIG && fflush(f) == 0);
    rewind(f);
    memset(target, 3, BIG);
    REQUIRE(fread(target, 1, BIG, f) == BIG && holds(target, BIG, turn + 1));
    /* The stream's own buffer in the heap. */
    rewind(f);
    REQUIRE(setvbuf(f, (char *)medium, _IOFBF, MEDIUM) == 0);
    for (int i = 0; i < 20000; i++) REQUIRE(fprintf(f, "line %d\n", i) > 0);
    REQUIRE(fflush(f) == 0);
    rewind(f);
    char *line = placed(0);
    for (int i = 0; i < 20000; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "line %d\n", i);
        REQUIRE(fgets(line, 4096, f) && strcmp(line, expected) == 0);
    }
    fclose(f);
    return 1;
}

/* ---- pipes and sockets ---- */
typedef struct {
    int fd;
    size_t bytes;
} stream;
static void *write_all(void *argument) {
    stream *s = argument;
    for (size_t done = 0; done < s->bytes;) {
        size_t part = s->bytes - done < MEDIUM ? s->bytes - done : MEDIUM;
        REQUIRE(write(s->fd, source + done, part) == (ssize_t)part); /* A blocking pipe takes all of it. */
        done += part;
    }
    return NULL;
}
static int pipes(void) {
    int *ends = placed(0);
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    fill(source, BIG, turn + 2);
    stream s = {ends[1], BIG};
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, write_all, &s) == 0);
    memset(target, 4, BIG);
    for (size_t done = 0; done < BIG;) {
        ssize_t n = read(ends[0], target + done, BIG - done);
        REQUIRE(n > 0);
        done += n;
    }
    REQUIRE(pthread_join(t, NULL) == 0 && holds(target, BIG, turn + 2));
    int *waiting = placed(1);
    *waiting = -1;
    REQUIRE(write(ends[1], source, 1234) == 1234 && ioctl(ends[0], FIONREAD, waiting) == 0 && *waiting == 1234);
    REQUIRE(read(ends[0], target, MIB) == 1234);
    /* Pages given to a pipe and taken from it. */
    struct iovec *v = placed(2);
    *v = (struct iovec){source, 32768};
    REQUIRE(vmsplice(ends[1], v, 1, 0) == 32768);
    *v = (struct iovec){target, 32768};
    REQUIRE(vmsplice(ends[0], v, 1, 0) == 32768 && holds(target, 32768, turn + 2));
    close(ends[0]);
    close(ends[1]);
    return 1;
}

static int sockets(void) {
    int *pair = placed(0);
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    fill(source, BIG, turn + 3);
    struct msghdr *m = placed(1);
    struct iovec *v = placed(2);
    struct cmsghdr *control = placed(3);
    size_t room = CMSG_SPACE(sizeof(int));
    for (int round = 0; round < 40; round++) {
        /* Whole messages only: a short count would be lost data. */
        for (int i = 0; i < 8; i++) v[i] = (struct iovec){source + (round * 8 + i) * 5000, 4000};
        *m = (struct msghdr){.msg_iov = v, .msg_iovlen = 8, .msg_control = control, .msg_controllen = room};
        control->cmsg_level = SOL_SOCKET, control->cmsg_type = SCM_RIGHTS, control->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(control), &pair[0], sizeof(int));
        REQUIRE(sendmsg(pair[0], m, 0) == 32000);
        for (int i = 0; i < 8; i++) v[i].iov_base = target + (round * 8 + i) * 5000;
        memset(control, 0, room);
        *m = (struct msghdr){.msg_iov = v, .msg_iovlen = 8, .msg_control = control, .msg_controllen = room};
        REQUIRE(recvmsg(pair[1], m, MSG_CMSG_CLOEXEC) == 32000 && !(m->msg_flags & (MSG_TRUNC | MSG_CTRUNC)));
        REQUIRE(control->cmsg_type == SCM_RIGHTS);
        int received;
        memcpy(&received, CMSG_DATA(control), sizeof received);
        close(received);
        for (int i = 0; i < 8; i++)
            REQUIRE(memcmp(source + (round * 8 + i) * 5000, target + (round * 8 + i) * 5000, 4000) == 0);
    }
    struct mmsghdr *many = placed(4);
    memset(many, 0, 8 * sizeof *many);
    for (int i = 0; i < 8; i++) {
        v[i] = (struct iovec){source + i * 7000, 2000};
        many[i].msg_hdr.msg_iov = &v[i], many[i].msg_hdr.msg_iovlen = 1;
    }
    REQUIRE(sendmmsg(pair[0], many, 8, 0) == 8);
    for (int i = 0; i < 8; i++) v[i].iov_base = target + i * 7000, many[i].msg_len = 0;
    REQUIRE(recvmmsg(pair[1], many, 8, MSG_DONTWAIT, NULL) == 8);
    for (int i = 0; i < 8; i++)
        REQUIRE(many[i].msg_len == 2000 && memcmp(source + i * 7000, target + i * 7000, 2000) == 0);
    REQUIRE(send(pair[0], source, 30000, 0) == 30000 && recv(pair[1], target, 30000, 0) == 30000);
    int *type = placed(5);
    socklen_t *length = placed(6);
    *length = sizeof *type;
    REQUIRE(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, type, length) == 0 && *type == SOCK_SEQPACKET && *length == 4);
    *type = 65536;
    REQUIRE(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, type, sizeof *type) == 0);
    struct sockaddr_un *address = placed(7);
    *length = sizeof *address;
    REQUIRE(getsockname(pair[0], (struct sockaddr *)address, length) == 0 && address->sun_family == AF_UNIX);
    close(pair[0]);
    close(pair[1]);
    /* A file sent through a stream socket. */
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    int fd = temporary();
    REQUIRE(write(fd, source, 60000) == 60000);
    off_t *from = placed(8);
    *from = 0;
    REQUIRE(sendfile(pair[0], fd, from, 60000) == 60000 && *from == 60000);
    memset(target, 5, 60000);
    REQUIRE(recv(pair[1], target, 60000, MSG_WAITALL) == 60000 && memcmp(source, target, 60000) == 0);
    close(fd);
    close(pair[0]);
    close(pair[1]);
    return 1;
}

/* ---- asking the kernel ---- */
static int asking(void) {
    char *path = placed(0), *again = placed(1);
    REQUIRE(getcwd(path, 4096) == path && path[0] == '/');
    REQUIRE(syscall(SYS_getcwd, again, 4096L) == (long)strlen(path) + 1 && strcmp(path, again) == 0);
    struct stat *s = placed(2);
    strcpy(again, "/proc/self/exe");
    REQUIRE(stat(again, s) == 0 && S_ISREG(s->st_mode));
    ssize_t n = readlink(again, path, 4096);
    REQUIRE(n > 0 && n < 4096);
    path[n] = 0;
    REQUIRE(stat(path, s) == 0 && access(path, X_OK) == 0);
    struct statx *x = placed(3);
    REQUIRE(statx(AT_FDCWD, path, 0, STATX_SIZE, x) == 0 && x->stx_size == (uint64_t)s->st_size);
    REQUIRE(statfs(path, placed(4)) == 0);
    strcpy(path, "/proc/self/task");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    int entries = 0;
    for (long got; (got = syscall(SYS_getdents64, fd, medium, (long)MEDIUM)) != 0;) {
        REQUIRE(got > 0);
        for (long at = 0; at < got; entries++) {
            struct dirent64 *d = (struct dirent64 *)(medium + at);
            REQUIRE(d->d_reclen > 0);
            at += d->d_reclen;
        }
    }
    REQUIRE(entries >= 3);
    close(fd);
    struct utsname *u = placed(5);
    REQUIRE(uname(u) == 0 && strcmp(u->sysname, "Linux") == 0);
    REQUIRE(sysinfo(placed(6)) == 0);
    REQUIRE(getrusage(RUSAGE_SELF, placed(7)) == 0);
    struct rlimit *limit = placed(8);
    REQUIRE(getrlimit(RLIMIT_NOFILE, limit) == 0 && setrlimit(RLIMIT_NOFILE, limit) == 0);
    struct timespec *t = placed(9);
    REQUIRE(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, t) == 0 && t->tv_sec >= 0);
    *t = (struct timespec){0, 200000};
    REQUIRE(nanosleep(t, t + 1) == 0);
    cpu_set_t *cpus = placed(10);
    REQUIRE(sched_getaffinity(0, sizeof *cpus, cpus) == 0 && CPU_COUNT(cpus) > 0);
    REQUIRE(sched_setaffinity(0, sizeof *cpus, cpus) == 0);
    char *name = placed(11);
    strcpy(name, "in the heap");
    REQUIRE(prctl(PR_SET_NAME, name) == 0 && prctl(PR_GET_NAME, name + 100) == 0 && !strcmp(name, name + 100));
    strcpy(name, "syscalls");
    REQUIRE(prctl(PR_SET_NAME, name) == 0);
    unsigned *cpu = placed(12);
    REQUIRE(syscall(SYS_getcpu, cpu, cpu + 1, NULL) == 0);
    unsigned char *vector = placed(13);
    void *map = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(map != MAP_FAILED && mincore(map, 1 << 16, vector) == 0);
    map = mremap(map, 1 << 16, 1 << 20, MREMAP_MAYMOVE);
    REQUIRE(map != MAP_FAILED);
    memcpy(map, source, 1 << 20);
    REQUIRE(madvise(map, 1 << 20, MADV_DONTNEED) == 0 && *(char *)map == 0);
    REQUIRE(mprotect(map, 1 << 20, PROT_NONE) == 0 && munmap(map, 1 << 20) == 0);
    return 1;
}

static int randomness(void) {
    memset(medium, 0, MEDIUM);
    REQUIRE(getrandom(medium, MEDIUM, 0) == MEDIUM);
    /* All pages were written: 64 zero bytes in a row do not happen. */
    static const uint8_t none[64];
    for (int i = 0; i + 64 <= MEDIUM; i += 64) REQUIRE(memcmp(medium + i, none, 64) != 0);
    memset(placed(0), 0, 256);
    REQUIRE(getentropy(placed(0), 256) == 0 && memcmp(placed(0), none, 64) != 0);
    return 1;
}

/* ---- waiting for descriptors ---- */
static int polling(void) {
    enum { N = 200 };
    int *pair = placed(0);
    struct pollfd *p = (struct pollfd *)medium;
    REQUIRE(pipe2(pair, O_CLOEXEC) == 0);
    for (int i = 0; i < N; i++) p[i] = (struct pollfd){pair[i % 2], i % 2 ? POLLOUT : POLLIN, 0};
    REQUIRE(poll(p, N, 0) == N / 2);
    for (int i = 0; i < N; i++) REQUIRE(p[i].revents == (i % 2 ? POLLOUT : 0));
    struct timespec *t = placed(1);
    *t = (struct timespec){0, 0};
    sigset_t *none = placed(2);
    sigemptyset(none);
    REQUIRE(ppoll(p, N, t, none) == N / 2);
    fd_set *writable = placed(3);
    FD_ZERO(writable);
    FD_SET(pair[1], writable);
    struct timeval *zero = placed(4);
    *zero = (struct timeval){0, 0};
    REQUIRE(select(pair[1] + 1, NULL, writable, NULL, zero) == 1 && FD_ISSET(pair[1], writable));
    int e = epoll_create1(EPOLL_CLOEXEC), event = eventfd(0, EFD_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    REQUIRE(e >= 0 && event >= 0 && timer >= 0);
    struct epoll_event *add = placed(5), *ready = placed(6);
    *add = (struct epoll_event){.events = EPOLLIN, .data.u64 = 77};
    REQUIRE(epoll_ctl(e, EPOLL_CTL_ADD, event, add) == 0);
    *add = (struct epoll_event){.events = EPOLLIN, .data.u64 = 78};
    REQUIRE(epoll_ctl(e, EPOLL_CTL_ADD, timer, add) == 0);
    uint64_t *count = placed(7);
    *count = 5;
    REQUIRE(write(event, count, 8) == 8);
    memset(ready, 0, 64 * sizeof *ready);
    REQUIRE(epoll_wait(e, ready, 64, 1000) == 1 && ready->data.u64 == 77);
    REQUIRE(read(event, count, 8) == 8 && *count == 5);
    struct itimerspec *when = placed(8);
    *when = (struct itimerspec){{0, 0}, {0, 300000}};
    REQUIRE(timerfd_settime(timer, 0, when, when + 1) == 0);
    REQUIRE(epoll_pwait(e, ready, 64, 1000, none) == 1 && ready->data.u64 == 78);
    REQUIRE(read(timer, count, 8) == 8 && *count == 1);
    close(e), close(event), close(timer), close(pair[0]), close(pair[1]);
    return 1;
}

/* ---- locks ---- */
static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}
static void *waiter(void *argument) {
    _Atomic uint32_t *word = argument;
    struct timespec *limit = placed(20);
    *limit = (struct timespec){10, 0};
    while (atomic_load(word) == 0) {
        long result = futex(word, FUTEX_WAIT_PRIVATE, 0, limit);
        REQUIRE(result == 0 || errno == EAGAIN);
    }
    atomic_store(word, 2);
    long woken = futex(word, FUTEX_WAKE, 1, NULL);
    REQUIRE(woken == 0 || woken == 1);
    return NULL;
}
static void *die_holding(void *mutex) {
    REQUIRE(pthread_mutex_lock(mutex) == 0);
    return NULL;
}
static int locks(void) {
    for (int round = 0; round < 20; round++) {
        _Atomic uint32_t *word = placed(21);
        atomic_store(word, 0);
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, waiter, word) == 0);
        if (round % 2) usleep(300);
        atomic_store(word, 1);
        REQUIRE(futex(word, FUTEX_WAKE_PRIVATE, 1, NULL) >= 0);
        REQUIRE(pthread_join(t, NULL) == 0 && atomic_load(word) == 2);
    }
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_t *mutex = placed(22);
    REQUIRE(pthread_mutex_init(mutex, &attributes) == 0);
    for (int round = 0; round < 10; round++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, die_holding, mutex) == 0 && pthread_join(t, NULL) == 0);
        /* The kernel walked the dead thread's list of locks, which runs through the heap. */
        struct timespec limit;
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 10;
        REQUIRE(pthread_mutex_timedlock(mutex, &limit) == EOWNERDEAD);
        REQUIRE(pthread_mutex_consistent(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    }
    pthread_mutex_destroy(mutex);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    REQUIRE(pthread_mutex_init(mutex, &attributes) == 0);
    REQUIRE(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    pthread_mutex_destroy(mutex);
    return 1;
}

/* A thread whose whole stack, and so its descriptor that the kernel clears at its end, is an allocated object. */
static void *on_heap_stack(void *argument) {
    volatile uint8_t page[40000];
    for (size_t i = 0; i < sizeof page; i += 512) page[i] = (uint8_t)i;
    int fd = *(int *)argument;
    REQUIRE(pread(fd, (void *)page, sizeof page, 0) == (ssize_t)sizeof page);
    REQUIRE(memcmp((void *)page, source, sizeof page) == 0);
    return NULL;
}
static int heap_stacks(void) {
    static void *stack;
    if (!stack) REQUIRE(posix_memalign(&stack, 4096, MIB) == 0);
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, MIB) == 0);
    fill(source, 40000, turn + 4);
    int fd = temporary();
    REQUIRE(write(fd, source, 40000) == 40000);
    for (int round = 0; round < 20; round++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, &attributes, on_heap_stack, &fd) == 0 && pthread_join(t, NULL) == 0);
    }
    pthread_attr_destroy(&attributes);
    close(fd);
    return 1;
}

/* ---- io_uring ---- */
static int ring(void) {
    struct io_uring_params *p = placed(0);
    memset(p, 0, sizeof *p);
    int fd = syscall(SYS_io_uring_setup, 8, p);
    if (fd < 0) return 0;
    size_t sq_size = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
    size_t cq_size = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    uint8_t *sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
    uint8_t *cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, p->sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
    REQUIRE(sq != MAP_FAILED && cq != MAP_FAILED && entries != MAP_FAILED);
    /* Registering pins the buffer's pages. */
    struct iovec *v = placed(1);
    *v = (struct iovec){medium, MEDIUM};
    int fixed = syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, v, 1) == 0;
    REQUIRE(fixed || errno == ENOMEM);
    int file = temporary();
    fill(source, MIB, turn + 5);
    REQUIRE(write(file, source, MIB) == MIB);
    for (int round = 0; round < 6; round++) {
        int use_fixed = fixed && round >= 3;
        uint8_t *buffer = use_fixed ? medium : target;
        uint32_t length = use_fixed ? MEDIUM : MIB;
        memset(buffer, 6, length);
        uint32_t tail = *(_Atomic uint32_t *)(sq + p->sq_off.tail), index = tail & (p->sq_entries - 1);
        memset(&entries[index], 0, sizeof entries[index]);
        entries[index].opcode = use_fixed ? IORING_OP_READ_FIXED : round % 2 ? IORING_OP_READV : IORING_OP_READ;
        entries[index].flags = round % 3 == 2 ? IOSQE_ASYNC : 0; /* Then a kernel thread touches the buffer. */
        entries[index].fd = file;
        entries[index].user_data = round;
        struct iovec *w = placed(2);
        *w = (struct iovec){buffer, length};
        int vectored = entries[index].opcode == IORING_OP_READV;
        entries[index].addr = (uint64_t)(vectored ? (void *)w : (void *)buffer);
        entries[index].len = vectored ? 1 : length;
        ((uint32_t *)(sq + p->sq_off.array))[index] = index;
        *(_Atomic uint32_t *)(sq + p->sq_off.tail) = tail + 1;
        REQUIRE(syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
        uint32_t head = *(_Atomic uint32_t *)(cq + p->cq_off.head);
        REQUIRE(head != *(_Atomic uint32_t *)(cq + p->cq_off.tail));
        struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + p->cq_off.cqes) + (head & (p->cq_entries - 1));
        errno = done->res < 0 ? -done->res : 0;
        REQUIRE(done->res == (int)length && done->user_data == (uint64_t)round);
        *(_Atomic uint32_t *)(cq + p->cq_off.head) = head + 1;
        REQUIRE(holds(buffer, length, turn + 5));
    }
    munmap(sq, sq_size);
    munmap(cq, cq_size);
    munmap(entries, p->sq_entries * sizeof *entries);
    close(file);
    close(fd);
    return 1;
}

/* ---- other processes ---- */
static int cross_memory(void) {
    static int denied;
    if (denied) return 0;
    fill(source, BIG, turn + 6);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        struct iovec local = {target, BIG}, remote = {source, BIG};
        /* Again and again, over so long a time that a tool has got used to it. */
        for (int i = 0; i < 60; i++) {
            memset(target, 7, BIG);
            ssize_t n = process_vm_readv(getppid(), &local, 1, &remote, 1, 0);
            if (n < 0 && (errno == EPERM || errno == ENOSYS)) _exit(3);
            if (n != BIG) {
                fprintf(stderr, "syscalls: process_vm_readv gave %zd (%s)\n", n, strerror(errno));
                _exit(1);
            }
            if (!holds(target, BIG, turn + 6)) _exit(2);
            usleep(2000);
        }
        _exit(0);
    }
    /* Touched meanwhile by its owner. */
    for (int i = 0; i < 300; i++) {
        REQUIRE(holds(source, BIG / 8, turn + 6));
        sched_yield();
    }
    int *status = placed(0);
    REQUIRE(wait4(child, status, 0, placed(1)) == child && WIFEXITED(*status));
    denied = WEXITSTATUS(*status) == 3;
    REQUIRE(denied || WEXITSTATUS(*status) == 0);
    return !denied;
}

static int forks(void) {
    fill(source, BIG, turn + 7);
    fill(medium, MEDIUM, turn + 8);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        /* Sees what the parent wrote, and may write, allocate and free. */
        if (!holds(source, BIG, turn + 7) || !holds(medium, MEDIUM, turn + 8)) _exit(1);
        memset(source, 8, BIG), memset(medium, 8, MEDIUM), memset(target, 8, BIG);
        for (int i = 0; i < 100; i++) {
            uint8_t *p = malloc(10000 + i * 1000);
            if (!p) _exit(2);
            memset(p, i, 10000 + i * 1000);
            if (i % 2) free(p);
        }
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(source[0] == 8 && medium[1] == 8 ? 43 : 1);
        int status;
        if (waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status) || WEXITSTATUS(status) != 43) _exit(3);
        _exit(42);
    }
    REQUIRE(holds(source, BIG, turn + 7));
    int *status = placed(0);
    REQUIRE(waitpid(child, status, 0) == child && WIFEXITED(*status) && WEXITSTATUS(*status) == 42);
    REQUIRE(holds(source, BIG, turn + 7) && holds(medium, MEDIUM, turn + 8));
    return 1;
}

/* Child programs that get their arguments, environment and path out of the heap. */
static int started(int argc, char **argv) {
    if (argc != 5 || strcmp(argv[2], "first") || strlen(argv[3]) != 100000 || strcmp(argv[4], "last")) return 1;
    for (int i = 0; i < 100000; i++)
        if (argv[3][i] != 'a' + i % 26) return 2;
    const char *value = getenv("SYSCALLS_TEST");
    return value && strlen(value) == 5000 ? 47 : 3;
}
static int programs(void) {
    char **argv = placed(0), *path = placed(1), **env = placed(2), *text = (char *)medium, *variable = placed(3);
    ssize_t length = readlink("/proc/self/exe", path, 4000);
    REQUIRE(length > 0);
    path[length] = 0;
    strcpy(text, "--started");
    strcpy(text + 5000, "first");
    for (int i = 0; i < 100000; i++) text[10000 + i] = 'a' + i % 26;
    text[110000] = 0;
    strcpy(text + 120000, "last");
    argv[0] = path, argv[1] = text, argv[2] = text + 5000, argv[3] = text + 10000, argv[4] = text + 120000, argv[5] = NULL;
    size_t n = 0;
    while (environ[n]) n++;
    REQUIRE(n < 900);
    memcpy(env, environ, n * sizeof *env);
    memset(variable, 'v', 6000);
    memcpy(variable, "SYSCALLS_TEST=", 14);
    variable[14 + 5000] = 0;
    env[n] = variable, env[n + 1] = NULL;
    for (int round = 0; round < 3; round++) {
        pid_t child;
        if (round == 0) {
            child = vfork();
            if (child == 0) {
                execve(path, argv, env);
                _exit(9);
            }
        } else if (round == 1) {
            REQUIRE(posix_spawn(&child, path, NULL, NULL, argv, env) == 0);
        } else {
            child = fork();
            if (child == 0) {
                execve(path, argv, env);
                _exit(9);
            }
        }
        int *status = placed(4);
        *status = 0;
        REQUIRE(child > 0 && waitpid(child, status, 0) == child);
        REQUIRE(WIFEXITED(*status) && WEXITSTATUS(*status) == 47);
    }
    REQUIRE(system("exit 12") == 12 << 8);
    FILE *f = popen("echo from a shell", "r");
    REQUIRE(f && fgets(placed(5), 4096, f) && !strcmp(placed(5), "from a shell\n") && pclose(f) == 0);
    return 1;
}

/* ---- signals ---- */
static volatile sig_atomic_t ticks, handled;
static volatile unsigned handler_sum;
static size_t handler_at;
static void touch(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    int error = errno;
    /* Walks the object page by page, reading and writing. */
    handler_at = (handler_at + 4096 + 8) % (BIG - 8);
    handler_sum += target[handler_at];
    target[handler_at]++;
    if (number == SIGALRM) ticks++;
    else handled++;
    errno = error;
}
static void install(int number, int flags) {
    struct sigaction *action = placed(30);
    memset(action, 0, sizeof *action);
    action->sa_sigaction = touch;
    action->sa_flags = SA_SIGINFO | flags;
    sigfillset(&action->sa_mask);
    REQUIRE(sigaction(number, action, placed(31)) == 0);
}
static void *all_blocked(void *unused) {
    (void)unused;
    sigset_t *all = placed(32);
    sigfillset(all);
    REQUIRE(pthread_sigmask(SIG_SETMASK, all, placed(33)) == 0);
    fill(medium, MEDIUM, turn + 9);
    REQUIRE(holds(medium, MEDIUM, turn + 9));
    return NULL;
}
static int signals(void) {
    /* A handler with every signal masked touches the heap. */
    install(SIGUSR1, SA_RESTART);
    int before = handled;
    for (int i = 0; i < 200; i++) REQUIRE(raise(SIGUSR1) == 0);
    REQUIRE(handled == before + 200);
    /* The kernel writes the handler's frame onto a stack in the heap. */
    static uint8_t *stack;
    if (!stack) stack = object(MEDIUM);
    stack_t *alternative = placed(34);
    *alternative = (stack_t){.ss_sp = stack, .ss_size = MEDIUM};
    REQUIRE(sigaltstack(alternative, NULL) == 0);
    install(SIGUSR2, SA_RESTART | SA_ONSTACK);
    before = handled;
    for (int i = 0; i < 200; i++) REQUIRE(raise(SIGUSR2) == 0);
    REQUIRE(handled == before + 200);
    *alternative = (stack_t){.ss_flags = SS_DISABLE};
    REQUIRE(sigaltstack(alternative, placed(35)) == 0);
    /* A thread with every signal blocked touches the heap. */
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, all_blocked, NULL) == 0 && pthread_join(t, NULL) == 0);
    /* Signals taken without a handler. */
    sigset_t *set = placed(36), *old = placed(37);
    sigemptyset(set);
    sigaddset(set, SIGUSR1);
    REQUIRE(sigprocmask(SIG_BLOCK, set, old) == 0 && raise(SIGUSR1) == 0);
    sigset_t *pending = placed(38);
    REQUIRE(sigpending(pending) == 0 && sigismember(pending, SIGUSR1));
    siginfo_t *info = placed(39);
    struct timespec *limit = placed(40);
    *limit = (struct timespec){5, 0};
    REQUIRE(sigtimedwait(set, info, limit) == SIGUSR1 && info->si_signo == SIGUSR1);
    /* Segmentation faults and traps taken synchronously stay blockable as far as the program can see. */
    sigfillset(set);
    REQUIRE(sigprocmask(SIG_SETMASK, set, NULL) == 0);
    fill(target, BIG, turn + 10);
    REQUIRE(holds(target, BIG, turn + 10));
    REQUIRE(sigprocmask(SIG_SETMASK, old, set) == 0 && sigismember(set, SIGSEGV) && sigismember(set, SIGTRAP));
    return 1;
}

static int timers(void) {
    install(SIGALRM, SA_RESTART);
    struct itimerval *every = placed(41);
    *every = (struct itimerval){{0, 1000}, {0, 1000}};
    int before = ticks;
    REQUIRE(setitimer(ITIMER_REAL, every, NULL) == 0);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int fd = temporary();
    fill(source, MIB, turn + 11);
    do {
        /* Restarted calls must come back whole in spite of the ticks. */
        REQUIRE(pwrite(fd, source, MIB, 0) == MIB);
        REQUIRE(pread(fd, medium, MEDIUM, 4096 * 8) == MEDIUM && memcmp(medium, source + 4096 * 8, MEDIUM) == 0);
        REQUIRE(holds(source, MIB, turn + 11));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 30);
    /* A blocking read is restarted, not interrupted. */
    int *ends = placed(42);
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        usleep(8000);
        _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    }
    REQUIRE(read(ends[0], target, MIB) == 1 && target[0] == 'x');
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    *every = (struct itimerval){{0, 0}, {0, 0}};
    REQUIRE(setitimer(ITIMER_REAL, every, placed(43)) == 0);
    REQUIRE(ticks > before);
    close(ends[0]), close(ends[1]), close(fd);
    return 1;
}

static const struct {
    const char *name;
    int (*run)(void); /* 0: the system does not offer it. */
} groups[] = {
    {"files", files},         {"stdio", stdio},         {"pipes", pipes},   {"sockets", sockets},
    {"asking", asking},       {"randomness", randomness}, {"polling", polling}, {"locks", locks},
    {"heap-stacks", heap_stacks}, {"io_uring", ring},   {"cross-memory", cross_memory}, {"forks", forks},
    {"programs", programs},   {"signals", signals},     {"timers", timers},
};
enum { GROUPS = sizeof groups / sizeof *groups };

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--started")) return started(argc, argv);
    double seconds = 3;
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--seconds")) seconds = atof(argv[2]), first = 3;
    source = object(BIG), target = object(BIG), medium = object(MEDIUM), scratch = object(MIB);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int offered[GROUPS] = {0}, chosen[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        chosen[g] = first >= argc;
        for (int i = first; i < argc; i++) chosen[g] |= !strcmp(argv[i], groups[g].name);
    }
    do {
        turn++;
        for (int g = 0; g < GROUPS; g++)
            if (chosen[g]) offered[g] = groups[g].run();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
    fprintf(stderr, "syscalls: %u turns\n", turn);
    for (int g = 0; g < GROUPS; g++)
        if (chosen[g]) printf("%s %s\n", offered[g] ? "ok" : "without", groups[g].name);
    return 0;
}
