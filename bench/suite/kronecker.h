/*
 * A Kronecker (R-MAT) graph in compressed rows, made without an edge list and without a sort.
 *
 * R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004) picks for each edge and each bit of the two vertex numbers one of
 * four quadrants, with probabilities a, b, c, d. Here the rows come first: a vertex whose number has k ones among L
 * bits has on average edges x (a+b)^(L-k) (c+d)^k edges, rounded at random. Then all bits of an edge's other end are
 * drawn at once by logic on random words: a bit is one with probability 1/4 where the row's bit is zero and 7/32
 * where it is one. That is a = 0.57, b = 0.19, c = 0.1875, d = 0.0525; Graph500 has 0.57, 0.19, 0.19, 0.05. As there
 * the vertices are renumbered at random, so that the busy ones do not lie together. Edges are directed.
 */
#ifndef KRONECKER_H
#define KRONECKER_H

#include "suite.h"

struct Graph {
    int bits;            /* of a vertex number */
    uint32_t vertices;
    uint64_t edges;
    uint64_t *row;       /* where a vertex's edges begin; one more than vertices */
    uint32_t *neighbour; /* the other ends */

    ~Graph() {
        delete[] row;
        delete[] neighbour;
    }
};

/* A one-to-one renumbering of the vertices: odd factors and shifts to the right can be undone, so nothing is lost. */
inline uint32_t renumber(uint32_t v, int bits) {
    const uint32_t mask = (1u << bits) - 1;
    v = v * 0x9e3779b1u & mask;
    v ^= v >> (bits / 2);
    v = v * 0x85ebca77u & mask;
    v ^= v >> (bits / 2);
    return v * 0xc2b2ae3du & mask;
}

inline uint64_t edges_of(uint32_t v, const double *expected) {
    return (uint64_t)(expected[__builtin_popcount(v)] + suite_unit(v));
}

/* `bits` up to 21: so many are drawn at once. */
inline Graph kronecker(int bits, double edges_a_vertex) {
    Graph g = {bits, 1u << bits, 0, nullptr, nullptr};
    const uint32_t mask = g.vertices - 1;
    double expected[33];
    for (int ones = 0; ones <= bits; ones++)
        expected[ones] = edges_a_vertex * g.vertices * std::pow(0.76, bits - ones) * std::pow(0.24, ones);

    g.row = new uint64_t[g.vertices + 1ul];
#pragma omp parallel for schedule(static)
    for (uint32_t v = 0; v < g.vertices; v++) g.row[renumber(v, bits) + 1] = edges_of(v, expected);
    g.row[0] = 0;
    for (uint32_t v = 0; v < g.vertices; v++) g.row[v + 1] += g.row[v];
    g.edges = g.row[g.vertices];

    g.neighbour = new uint32_t[g.edges];
#pragma omp parallel for schedule(static)
    for (uint32_t v = 0; v < g.vertices; v++) {
        const uint32_t r = renumber(v, bits);
        uint64_t random = suite_mix(~(uint64_t)v); /* xorshift (Marsaglia 2003) */
        auto draw = [&random] {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            return random;
        };
        for (uint64_t e = g.row[r]; e < g.row[r + 1]; e++) {
            const uint64_t a = draw(), b = draw();
            const uint32_t quarter = a & a >> 32, most = b | b >> 21 | b >> 42;
            g.neighbour[e] = renumber(quarter & (~v | most) & mask, bits);
        }
    }
    return g;
}

#endif
