/* Recommended traits, the most important allocation first (H2M: Klinkenberg et al., FGCS 2023, section 4.3).
 * Paste each above the allocation that it names, and allocate by
 *     hearth_alloc(size, NULL, sizeof T / sizeof *T, T)      with its name for T,
 * or declare all of them (hearth_declare) and commit them at once (hearth_commit). */
#include <hearth.h>

/* make_field (solver.c:10): 100.0 % of the latency of main memory */
static const hearth_trait traits_1a2b3c4d[] = {
    {HEARTH_PREFER_SPACE, HEARTH_HIGH_BANDWIDTH},
    {HEARTH_IMPORTANCE, 1000000}, /* millionths of the latency of main memory */
    {HEARTH_ACCESS_MODE, HEARTH_READ_ONLY},
    {HEARTH_ACCESS_FREQUENCY, 65536000}, /* misses a second */
    {HEARTH_ACCESS_PATTERN, HEARTH_STRIDED},
    {HEARTH_ACCESS_STRIDE, 8}, /* bytes */
};
