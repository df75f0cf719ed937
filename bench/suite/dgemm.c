/*
 * C = A x B, dense square matrices, in three versions of one program.
 *
 * Origin: paper 002 (H2M) Sec. 5.1 and Fig. 8, "Naive DGEMM kernel" in its versions stridedB (rows of A times columns
 * of B, B row-major: each step down a column is a new cache line) and linearB (the loops changed so that B is walked
 * row by row); and, for comparison, a blocked and packed one as libraries have.
 *
 * The whole product of 64 MiB of matrices is 5 G multiply-adds, too long for an emulated machine; at work 1 only some
 * rows of C are computed, spread evenly. All rows cost the same, so the ratios between the matrices are the whole
 * product's; only the rows of A and C left out are touched by nothing but the initialisation.
 *
 * Hot: B, a third of the bytes, which is read whole for every row of C (blocked: for every 32 rows). Cold: A and C,
 * of which each row is used once and stays in the cache meanwhile.
 */
#include "suite.h"

#if defined BLOCKED
#define ROWS 192
#define TOGETHER 32 /* rows */
#elif defined LINEAR
#define ROWS 48
#define TOGETHER 1
#elif defined STRIDED
#define ROWS 48
#define TOGETHER 1
#else
#error "say which version: -DBLOCKED, -DLINEAR or -DSTRIDED"
#endif

/* Small integers, so that every sum is exact and the check below needs no tolerance. */
static double element(uint32_t seed, uint32_t i, uint32_t j) {
    return (double)(int)((i * 0x9e3779b1u + j * 0x85ebca77u + seed) >> 29) - 4;
}

#ifdef BLOCKED

enum { MC = TOGETHER, KC = 128, NC = 64 };
typedef double pair __attribute__((vector_size(16)));

/* 4 x 4 elements of C plus the product of a packed strip of A and one of B, `depth` long. */
static void tile(long depth, const pair *a, const pair *b, double *const c[4]) {
    pair sum[4][2] = {{{0}}};
    for (long k = 0; k < depth; k++)
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            sum[r][0] += a[k * 4 + r] * b[k * 2];
            sum[r][1] += a[k * 4 + r] * b[k * 2 + 1];
        }
    for (int r = 0; r < 4; r++)
        for (int j = 0; j < 4; j++) c[r][j] += sum[r][j / 2][j % 2];
}

/* MC rows of C, those whose numbers are in `row`. */
static void block(const double *A, const double *B, double *C, long n, const long *row, pair *packed_a,
                  pair *packed_b) {
    for (int r = 0; r < MC; r++) memset(C + row[r] * n, 0, n * sizeof *C);
    for (long k0 = 0; k0 < n; k0 += KC) {
        long depth = n - k0 < KC ? n - k0 : KC;
        for (int r = 0; r < MC; r++)
            for (long k = 0; k < depth; k++) {
                double a = A[row[r] * n + k0 + k];
                packed_a[(r / 4 * depth + k) * 4 + r % 4] = (pair){a, a};
            }
        for (long j0 = 0; j0 < n; j0 += NC) {
            long width = n - j0 < NC ? n - j0 : NC;
            for (long j = 0; j < width; j += 4)
                for (long k = 0; k < depth; k++)
                    memcpy(packed_b + (j / 4 * depth + k) * 2, B + (k0 + k) * n + j0 + j, 4 * sizeof(double));
            for (long j = 0; j < width; j += 4)
                for (int r = 0; r < MC; r += 4) {
                    double *c[4];
                    for (int s = 0; s < 4; s++) c[s] = C + row[r + s] * n + j0 + j;
                    tile(depth, packed_a + r * depth, packed_b + j / 2 * depth, c);
                }
        }
    }
}

static void multiply(const double *A, const double *B, double *C, long n, const long *row, long rows) {
#pragma omp parallel
    {
        pair *packed_a = suite_must(malloc(MC * KC * sizeof *packed_a));
        pair *packed_b = suite_must(malloc(KC * NC / 2 * sizeof *packed_b));
#pragma omp for schedule(static)
        for (long r = 0; r < rows; r += MC) block(A, B, C, n, row + r, packed_a, packed_b);
        free(packed_a);
        free(packed_b);
    }
}

#else

static void multiply(const double *A, const double *B, double *C, long n, const long *row, long rows) {
#pragma omp parallel for schedule(static)
    for (long r = 0; r < rows; r++) {
        const double *a = A + row[r] * n;
        double *c = C + row[r] * n;
#ifdef LINEAR
        for (long j = 0; j < n; j++) c[j] = 0;
        for (long k = 0; k < n; k++) {
            const double *b = B + k * n, x = a[k];
            for (long j = 0; j < n; j++) c[j] += x * b[j];
        }
#else
        for (long j = 0; j < n; j++) {
            double sum = 0;
            for (long k = 0; k < n; k++) sum += a[k] * B[k * n + j];
            c[j] = sum;
        }
#endif
    }
}

#endif

int main(int argc, char **argv) {
    struct arguments args = suite_arguments(argc, argv, 66);
    /* Four more than a multiple of eight: rows do not fall onto the same cache sets, and the 4 x 4 tiles fit. */
    long n = ((long)sqrt(args.bytes / 24.0) - 4) / 8 * 8 + 4;
    double *A, *B, *C;
    suite_array(A, n * n * sizeof *A);
    suite_array(B, n * n * sizeof *B);
    suite_array(C, n * n * sizeof *C);
    suite_arrays_end();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            A[i * n + j] = element(0, i, j);
            B[i * n + j] = element(0x1234567, i, j);
            C[i * n + j] = 0;
        }

    /* More rows than C has: the whole product several times. */
    long rows = suite_times((double)ROWS / TOGETHER, args.work) * TOGETHER, most = n / TOGETHER * TOGETHER;
    long passes = (rows + most / 2) / most;
    if (passes < 1) passes = 1;
    if (rows > most || passes > 1) rows = most;
    long *row = suite_must(malloc(rows * sizeof *row));
    for (long r = 0; r < rows; r++) row[r] = r * n / rows;
    suite_begin();
    for (long pass = 0; pass < passes; pass++) multiply(A, B, C, n, row, rows);
    suite_end();

    /* Freivalds: C x = A (B x) for a vector of small integers. */
    double *x = suite_must(malloc(n * sizeof *x)), *y = suite_must(malloc(n * sizeof *y));
    for (long j = 0; j < n; j++) x[j] = (double)suite_below(j, 7) - 3;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double sum = 0;
        for (long j = 0; j < n; j++) sum += B[i * n + j] * x[j];
        y[i] = sum;
    }
    double checksum = 0;
    long wrong = 0;
    for (long r = 0; r < rows; r++) {
        double left = 0, right = 0;
        for (long j = 0; j < n; j++) {
            left += C[row[r] * n + j] * x[j];
            right += A[row[r] * n + j] * y[j];
        }
        wrong += left != right;
        checksum += left;
    }
    free(A), free(B), free(C), free(x), free(y), free(row);
    return suite_finish(!wrong, "n %ld, %ld rows %ld times, %ld wrong, checksum %.0f", n, rows, passes, wrong,
                        checksum);
}
