/*
 * What the C and C++ programs of the suite share: their arguments, reproducible "random" numbers, and their last line.
 *
 *     PROGRAM [work [MiB]]
 *
 * `work` (default 1) multiplies the number of steps or requests, `MiB` is about the memory the program may use. Each
 * program prints one line with a result that it has checked: exit code 0 when it is right, 1 when it is wrong, 2 when
 * the arguments make no sense or the memory is not to be had.
 */
#ifndef SUITE_H
#define SUITE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for the program's name */
#endif

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    double work;
    size_t bytes;
};

/* The argument as a number in [low, high]; ends the program with a sentence when it is none. */
static inline double suite_number(const char *what, const char *text, double low, double high) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high)) {
        fprintf(stderr, "%s: %s is '%s', but must be a number from %g to %g; usage: PROGRAM [work [MiB]]\n",
                program_invocation_short_name, what, text, low, high);
        exit(2);
    }
    return value;
}

static inline struct arguments suite_arguments(int argc, char **argv, double default_mib) {
    struct arguments a = {1, 0};
    if (argc > 3) {
        fprintf(stderr, "%s: too many arguments; usage: PROGRAM [work [MiB]]\n", program_invocation_short_name);
        exit(2);
    }
    if (argc > 1) a.work = suite_number("work", argv[1], 0.001, 1e6);
    a.bytes = (size_t)((argc > 2 ? suite_number("MiB", argv[2], 8, 1 << 17) : default_mib) * 1048576);
    return a;
}

/* `base` steps at work 1; never less than one. */
static inline long suite_times(double base, double work) {
    double times = floor(base * work + 0.5);
    return times < 1 ? 1 : (long)times;
}

/* The memory, or the end of the program. */
static inline void *suite_must(void *memory) {
    if (!memory) {
        fprintf(stderr, "%s: out of memory; ask for fewer MiB\n", program_invocation_short_name);
        exit(2);
    }
    return memory;
}

/* The arrays that matter, and where the last of them is there. bench/h2m declares them with traits instead, and commits. */
#ifndef suite_array
#define suite_array(pointer, bytes) ((pointer) = suite_must(malloc(bytes)))
#define suite_arrays_end() ((void)0)
#endif

/* The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a number's hash serves as its random number, so that
 * any thread can draw the i-th one without a state. */
static inline uint64_t suite_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A number in [0, 1). */
static inline double suite_unit(uint64_t x) { return (double)(suite_mix(x) >> 11) * 0x1p-53; }

/* A number in [0, n), n below 2^32, without a division. */
static inline uint64_t suite_below(uint64_t x, uint64_t n) { return (suite_mix(x) >> 32) * n >> 32; }

/* What is measured in the lab begins and ends: no-operations that its time model knows (docs/lab.md), and that do nothing
 * on any machine. Set-up and check, most of a short run and little of a real one, are left out. */
static inline void suite_begin(void) {
#ifdef __x86_64__
    __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x01,0x00,0x48,0x4c" ::: "memory");
#endif
}

static inline void suite_end(void) {
#ifdef __x86_64__
    __asm__ volatile(".byte 0x0f,0x1f,0x84,0xff,0x02,0x00,0x48,0x4c" ::: "memory");
#endif
}

/* Prints the one line and returns the exit code. */
__attribute__((format(printf, 2, 3))) static inline int suite_finish(int right, const char *format, ...) {
    va_list arguments;
    printf("%s %s: ", program_invocation_short_name, right ? "OK" : "WRONG");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    return right ? 0 : 1;
}

#endif
