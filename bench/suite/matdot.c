/*
 * The element-wise product of two matrices, C = A . B, in two versions of one program.
 *
 * Origin: paper 002 (H2M) Sec. 5.1 and Fig. 8, "Matrix dot product kernel": stridedB takes B by columns,
 * C[i][j] = A[i][j] * B[j][i], with all three row-major; linearB takes it by rows, C[i][j] = A[i][j] * B[i][j].
 *
 * linearB is a streaming code: A, B and C are equally hot, and C alone is written (the paper found it to be the one
 * that matters on Optane). In stridedB the same holds for the bytes moved, but B is walked across its rows: one cache
 * line and one page for each element, so its latency shows.
 */
#include "suite.h"

#if defined STRIDED
#define B_AT(i, j) B[(j) * n + (i)]
#elif defined LINEAR
#define B_AT(i, j) B[(i) * n + (j)]
#else
#error "say which version: -DLINEAR or -DSTRIDED"
#endif

/* Small integers: products and sums are exact. */
static double in_a(long i, long j) { return (double)((i * 3 + j) % 7 + 1); }
static double in_b(long i, long j) { return (double)((i + j * 5) % 11 - 4); }

static void multiply(const double *A, const double *B, double *C, long n) {
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) C[i * n + j] = A[i * n + j] * B_AT(i, j);
}

int main(int argc, char **argv) {
    struct arguments args = suite_arguments(argc, argv, 128);
    long n = ((long)sqrt(args.bytes / 24.0) - 4) / 8 * 8 + 4; /* rows do not fall onto the same cache sets */
    long passes = suite_times(
#ifdef STRIDED
        12,
#else
        20,
#endif
        args.work);
    double *A, *B, *C;
    suite_array(A, n * n * sizeof *A);
    suite_array(B, n * n * sizeof *B);
    suite_array(C, n * n * sizeof *C);
    suite_arrays_end();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            A[i * n + j] = in_a(i, j);
            B[i * n + j] = in_b(i, j);
            C[i * n + j] = -1e9;
        }
    suite_begin();
    for (long pass = 0; pass < passes; pass++) multiply(A, B, C, n);
    suite_end();

    long wrong = 0;
    double checksum = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong, checksum)
    for (long i = 0; i < n; i++)
        for (long j = i % 5; j < n; j += 5) {
#ifdef STRIDED
            double right = in_a(i, j) * in_b(j, i);
#else
            double right = in_a(i, j) * in_b(i, j);
#endif
            wrong += C[i * n + j] != right;
            checksum += C[i * n + j];
        }
    free(A), free(B), free(C);
    return suite_finish(!wrong, "n %ld, %ld passes, %ld wrong, checksum %.0f", n, passes, wrong, checksum);
}
