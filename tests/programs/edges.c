/* The allocator at the edges: each case is called and what it answered is printed, so that two runs can be compared case
 * by case. Printed is what the C library's manual or practice promises (null or not, errno, alignment, whether contents
 * and what was passed survive), and never an address. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps the compiler from knowing what an allocation is, and from leaving it out. */
#define HIDE(p) __asm__ volatile("" : "+r"(p) : : "memory")
#define MARK 4711

static const size_t sizes[] = {
    0, 1, 15, 16, 17, 24, 25, 100, 1023, 1024, 4072, 4079, 4080, 4088, 4095, 4096, 4097, 5000, 8191, 8192, 12289, 65535, 65536,
    100000, 131071, 131072, 131073, 135168, (1 << 20) - 1, 1 << 20, (2 << 20) - 4096, 2 << 20, (2 << 20) + 1, 33 << 20,
    (size_t)1 << 47, (size_t)1 << 48, (size_t)1 << 60, SIZE_MAX / 2 - 4096, SIZE_MAX / 2, (size_t)SIZE_MAX / 2 + 1,
    SIZE_MAX - 8192, SIZE_MAX - 4096, SIZE_MAX - 4095, SIZE_MAX - 32, SIZE_MAX - 15, SIZE_MAX - 1, SIZE_MAX,
};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const size_t alignments[] = {
    0, 1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 32, 48, 64, 4095, 4096, 4097, 6000, 8192, 65536, 1 << 20, 2 << 20, (3 << 20), 4 << 20,
    (size_t)1 << 30, (size_t)1 << 47, (size_t)1 << 62, (size_t)1 << 63, ((size_t)1 << 63) + 1, SIZE_MAX,
};
enum { ALIGNMENTS = sizeof alignments / sizeof *alignments };

static const char *name(int error) {
    return error == MARK ? "kept" : error == 0 ? "0" : error == ENOMEM ? "ENOMEM" : error == EINVAL ? "EINVAL" : "other";
}
/* Bytes that it is affordable to touch. */
static size_t touched(size_t n) { return n < 1 << 21 ? n : 1 << 21; }

static void answered(void *p, size_t size, size_t align) {
    int error = errno;
    if (!p) {
        printf("null %s\n", name(error));
        return;
    }
    size_t usable = malloc_usable_size(p);
    memset(p, 0xa5, touched(size));
    printf("object %s %s %s\n", name(error), (uintptr_t)p % 16 || (align && (uintptr_t)p % align) ? "misaligned" : "aligned",
           usable >= size ? "holds" : "too small");
    errno = MARK;
    free(p);
    if (errno != MARK) printf("free changed errno\n");
}

int main(void) {
    for (int i = 0; i < SIZES; i++) {
        printf("malloc %zu: ", sizes[i]);
        errno = MARK;
        void *p = malloc(sizes[i]);
        HIDE(p);
        answered(p, sizes[i], 0);
    }
    for (int i = 0; i < SIZES; i++)
        for (size_t n = 0; n < 5; n++) {
            static const size_t many[] = {0, 1, 3, (size_t)1 << 32, SIZE_MAX};
            printf("calloc %zu %zu: ", many[n], sizes[i]);
            errno = MARK;
            unsigned char *p = calloc(many[n], sizes[i]);
            HIDE(p);
            if (p) {
                int kept = errno;
                for (size_t at = 0; at < touched(many[n] * sizes[i]); at++)
                    if (p[at]) {
                        printf("dirty ");
                        break;
                    }
                errno = kept;
            }
            answered(p, p ? many[n] * sizes[i] : 0, 0);
        }
    for (int from = 0; from < SIZES; from++) {
        if (sizes[from] > 64 << 20) break;
        for (int to = 0; to < SIZES; to++) {
            unsigned char *p = malloc(sizes[from]), *before = p;
            HIDE(p);
            HIDE(before);
            memset(p, 0x5a, touched(sizes[from]));
            printf("realloc %zu %zu: ", sizes[from], sizes[to]);
            errno = MARK;
            unsigned char *q = realloc(p, sizes[to]);
            HIDE(q);
            int error = errno;
            /* What a failed call leaves alone is whole; realloc to nothing has freed it. */
            unsigned char *left = q ? q : sizes[to] ? before : NULL;
            size_t same = touched(sizes[from] < sizes[to] || !q ? sizes[from] : sizes[to]);
            for (size_t at = 0; left && at < same; at++)
                if (left[at] != 0x5a) {
                    printf("lost its contents ");
                    break;
                }
            errno = error;
            answered(q, sizes[to], 0);
            if (!q && left) free(left);
        }
        for (int to = 0; to < SIZES; to += 3)
            for (int shift = 1; shift < 64; shift += 16) {
                size_t n = (size_t)1 << shift;
                void *p = malloc(sizes[from]);
                HIDE(p);
                printf("reallocarray %zu %zu %zu: ", sizes[from], n, sizes[to]);
                errno = MARK;
                void *q = reallocarray(p, n, sizes[to]);
                HIDE(q);
                answered(q, q ? n * sizes[to] : 0, 0);
                if (!q && sizes[to]) free(p);
            }
    }
    for (int i = 0; i < SIZES; i++) {
        printf("realloc null %zu: ", sizes[i]);
        errno = MARK;
        void *p = realloc(NULL, sizes[i]);
        HIDE(p);
        answered(p, sizes[i], 0);
        printf("reallocarray null 3 %zu: ", sizes[i]);
        errno = MARK;
        p = reallocarray(NULL, 3, sizes[i]);
        HIDE(p);
        answered(p, p ? 3 * sizes[i] : 0, 0);
        printf("valloc %zu: ", sizes[i]);
        errno = MARK;
        p = valloc(sizes[i]);
        HIDE(p);
        answered(p, sizes[i], 4096);
        printf("pvalloc %zu: ", sizes[i]);
        errno = MARK;
        p = pvalloc(sizes[i]);
        HIDE(p);
        answered(p, p ? (sizes[i] + 4095) / 4096 * 4096 : 0, 4096);
    }
    for (int a = 0; a < ALIGNMENTS; a++)
        for (int i = 0; i < SIZES; i++) {
            size_t align = alignments[a], size = sizes[i];
            size_t whole = align & (align - 1) ? 0 : align;
            printf("posix_memalign %zu %zu: ", align, size);
            void *p = (void *)0x5a50;
            errno = MARK;
            int result = posix_memalign(&p, align, size);
            HIDE(p);
            printf("%s %s ", result ? name(result) : "done", result && p != (void *)0x5a50 ? "overwritten" : "fine");
            answered(result ? NULL : p, size, whole);
            printf("memalign %zu %zu: ", align, size);
            errno = MARK;
            p = memalign(align, size);
            HIDE(p);
            answered(p, size, whole);
            printf("aligned_alloc %zu %zu: ", align, size);
            errno = MARK;
            p = aligned_alloc(align, size);
            HIDE(p);
            answered(p, size, whole);
        }
    printf("malloc_usable_size null: %zu\n", malloc_usable_size(NULL));
    errno = MARK;
    free(NULL);
    printf("free null: %s\n", name(errno));
    return 0;
}
