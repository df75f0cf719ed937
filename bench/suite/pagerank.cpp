/*
 * PageRank on a Kronecker graph: each vertex gathers from those that link to it.
 *
 * Origin: the graph programs of ATMem, which paper 000 (ecoHMEM) cites as [6]; the graph is Graph500's (paper 001).
 *
 * Hot: share (11 % of the bytes), what a vertex gives to each that it links to, gathered at random for each edge.
 * Warm: rank and the out-degrees, once an iteration. Cold per byte: the edges (61 %), read once in an
 * iteration, in order; they make a good part of the traffic nevertheless.
 */
#include "kronecker.h"

int main(int argc, char **argv) {
    const double damping = 0.85;
    arguments args = suite_arguments(argc, argv, 72);
    /* 28 bytes a vertex for rows, rank, share and degree, 4 an edge; at least eight edges a vertex. */
    int bits = 12;
    while ((28 + 4 * 8) * 2.0 * (1u << bits) <= args.bytes && bits < 21) bits++;
    const Graph g = kronecker(bits, (args.bytes / (double)(1u << bits) - 28) / 4); /* a row: who links to this one */
    const uint32_t n = g.vertices;
    uint32_t *degree = new uint32_t[n](); /* links out of a vertex */
    double *rank = new double[n], *share = new double[n];
#pragma omp parallel for schedule(static)
    for (uint64_t e = 0; e < g.edges; e++) __atomic_fetch_add(&degree[g.neighbour[e]], 1, __ATOMIC_RELAXED);
#pragma omp parallel for schedule(static)
    for (uint32_t v = 0; v < n; v++) rank[v] = 1.0 / n;

    /* Sums are taken in 64 parts, so that they do not depend on the number of threads. */
    const long iterations = suite_times(5, args.work);
    double change = 0, before = 0, sum = 0;
    bool shrinks = true;
    suite_begin();
    for (long i = 0; i < iterations; i++) {
        double part[64], changed[64], total[64], idle = 0;
#pragma omp parallel for schedule(static)
        for (uint64_t b = 0; b < 64; b++) {
            part[b] = 0; /* the rank of vertices without a link out, which goes to all */
            for (uint64_t v = b * n / 64; v < (b + 1) * n / 64; v++) {
                if (degree[v]) share[v] = rank[v] / degree[v];
                else part[b] += rank[v];
            }
        }
        for (double p : part) idle += p;
        const double base = (1 - damping + damping * idle) / n;
#pragma omp parallel for schedule(dynamic, 1)
        for (uint64_t b = 0; b < 64; b++) {
            changed[b] = total[b] = 0;
            for (uint64_t v = b * n / 64; v < (b + 1) * n / 64; v++) {
                double gathered = 0;
                for (uint64_t e = g.row[v]; e < g.row[v + 1]; e++) gathered += share[g.neighbour[e]];
                const double now = base + damping * gathered;
                changed[b] += std::fabs(now - rank[v]);
                total[b] += now;
                rank[v] = now;
            }
        }
        before = change;
        change = sum = 0;
        for (int b = 0; b < 64; b++) change += changed[b], sum += total[b];
        if (i) shrinks &= change <= damping * before + 1e-13;
    }
    suite_end();
    /* No rank is lost, and each iteration moves less than the damping allows (a contraction in the 1-norm). */
    double most = 0;
    for (uint32_t v = 0; v < n; v++) most = std::fmax(most, rank[v]);
    delete[] degree;
    delete[] rank;
    delete[] share;
    return suite_finish(std::fabs(sum - 1) < 1e-9 && shrinks,
                        "%u vertices, %lu edges, %ld iterations, change %.6e, largest rank %.9e", n, g.edges,
                        iterations, change, most);
}
