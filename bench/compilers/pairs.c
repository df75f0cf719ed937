/* ns for a pair of malloc and free of so many bytes, which are touched once each: pairs BYTES PAIRS */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static char *volatile kept;

int main(int argc, char **argv) {
    size_t bytes = argc > 1 ? atol(argv[1]) : 8192;
    long pairs = argc > 2 ? atol(argv[2]) : 1000000;
    struct timespec a, b;
    for (int warm = 1; warm >= 0; warm--) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (long i = 0; i < pairs; i++) {
            kept = malloc(bytes);
            *kept = 1;
            free(kept);
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
    }
    printf("%.1f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / pairs);
    return 0;
}
