/* Very many threads, a few at a time: each allocates, leaves something to a later one to free, and ends.
 *
 *   crowd THREADS
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4 };
static void *left[AT_ONCE];

static void *one(void *number) {
    uintptr_t n = (uintptr_t)number;
    unsigned char *p = malloc(4096 + n % 60000);
    if (!p) return NULL;
    memset(p, (int)(n % 251), 4096);
    free(left[n % AT_ONCE]);
    left[n % AT_ONCE] = p;
    void *small = malloc(n % 300);
    free(small);
    return (void *)(uintptr_t)p[n % 4096];
}

int main(int argc, char **argv) {
    uintptr_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, sum = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (uintptr_t n = 0; n < count; n += AT_ONCE) {
        pthread_t thread[AT_ONCE];
        for (uintptr_t i = 0; i < AT_ONCE; i++)
            if (pthread_create(&thread[i], &attributes, one, (void *)(n + i))) return 1;
        for (int i = 0; i < AT_ONCE; i++) {
            void *result;
            pthread_join(thread[i], &result);
            sum += (uintptr_t)result;
        }
    }
    printf("%lu threads, sum %lu\n", (unsigned long)count, (unsigned long)sum);
    return 0;
}
