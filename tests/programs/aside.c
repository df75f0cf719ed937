/* Works aside, as whoever observes a program does in the lab (wire::mark::aside): says what simulated time a loop of its own takes,
 * and what a system call takes that keeps the kernel at work for a hundred million instructions, as one does that spins for a
 * lock. Two lines, `loop NS` and `kernel NS`. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
    static char room[8 << 20];
    memset(room, 1, sizeof room);
    __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x04,0x00,0x48,0x4c" ::: "memory");
    int64_t began = now();
    for (volatile int i = 0; i < 1000000; i++) {}
    int64_t looped = now();
    ssize_t got = getrandom(room, sizeof room, 0);
    int64_t waited = now();
    __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x05,0x00,0x48,0x4c" ::: "memory");
    if (got != sizeof room) return 1;
    printf("loop %lld\nkernel %lld\n", (long long)(looped - began), (long long)(waited - looped));
}
