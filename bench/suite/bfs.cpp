/*
 * Breadth-first searches on a Kronecker graph, level by level, from several roots.
 *
 * Origin: Graph500 (paper 001, Table 2) and the graph programs of ATMem, which paper 000 cites as [6].
 *
 * Hot: depth (6 % of the bytes), looked up at random for each edge. Warm: parent and the two frontiers (18 %), written
 * once for each vertex found; the rows' beginnings (12 %), read in the frontier's order. Cold per byte: the edges
 * (67 %), read once in each search, in short runs.
 */
#include "kronecker.h"
#include <omp.h>
#include <vector>

namespace {

struct Search {
    uint64_t reached, depths; /* vertices, and the sum of their depths */
};

/* Fills `depth` and `parent`, -1 where the root does not lead. */
Search search(const Graph &g, uint32_t root, int32_t *depth, int32_t *parent, uint32_t *frontier, uint32_t *next) {
#pragma omp parallel for schedule(static)
    for (uint32_t v = 0; v < g.vertices; v++) depth[v] = parent[v] = -1;
    depth[root] = 0;
    parent[root] = root;
    frontier[0] = root;
    Search done = {1, 0};
    for (uint32_t size = 1, level = 1; size; level++) {
        uint32_t found = 0;
#pragma omp parallel
        {
            std::vector<uint32_t> mine; /* handed over in batches */
            auto hand_over = [&] {
                uint32_t at = __atomic_fetch_add(&found, (uint32_t)mine.size(), __ATOMIC_RELAXED);
                for (uint32_t v : mine) next[at++] = v;
                mine.clear();
            };
#pragma omp for schedule(dynamic, 64) nowait
            for (uint32_t f = 0; f < size; f++) {
                const uint32_t v = frontier[f];
                for (uint64_t e = g.row[v]; e < g.row[v + 1]; e++) {
                    const uint32_t w = g.neighbour[e];
                    int32_t unseen = -1;
                    if (__atomic_load_n(&depth[w], __ATOMIC_RELAXED) != -1) continue;
                    if (!__atomic_compare_exchange_n(&depth[w], &unseen, (int32_t)level, false, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED))
                        continue;
                    parent[w] = v;
                    mine.push_back(w);
                }
                if (mine.size() >= 1024) hand_over();
            }
            hand_over();
        }
        std::swap(frontier, next);
        size = found;
        done.reached += found;
        done.depths += (uint64_t)found * level;
    }
    return done;
}

/* Graph500's rules: a parent is one step nearer to the root, and no edge skips a level. */
uint64_t faults(const Graph &g, const int32_t *depth, const int32_t *parent) {
    uint64_t wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (uint32_t v = 0; v < g.vertices; v++) {
        if (depth[v] < 0) continue;
        if (depth[v] > 0) wrong += depth[parent[v]] != depth[v] - 1;
        for (uint64_t e = g.row[v]; e < g.row[v + 1]; e++) {
            const uint32_t w = g.neighbour[e];
            wrong += depth[w] < 0 || depth[w] > depth[v] + 1;
        }
    }
    return wrong;
}

}  // namespace

int main(int argc, char **argv) {
    arguments args = suite_arguments(argc, argv, 68);
    /* 24 bytes a vertex for rows, depth, parent and frontiers, 4 an edge; at least eight edges a vertex. */
    int bits = 12;
    while ((24 + 4 * 8) * 2.0 * (1u << bits) <= args.bytes && bits < 21) bits++;
    const Graph g = kronecker(bits, (args.bytes / (double)(1u << bits) - 24) / 4);
    int32_t *depth = new int32_t[g.vertices], *parent = new int32_t[g.vertices];
    uint32_t *frontier = new uint32_t[g.vertices], *next = new uint32_t[g.vertices];

    const long searches = suite_times(4, args.work);
    uint64_t reached = 0, depths = 0;
    suite_begin();
    for (long s = 0, tried = 0; s < searches; s++) {
        uint32_t root;
        do root = suite_below(tried++, g.vertices);
        while (g.row[root] == g.row[root + 1]); /* a vertex without edges leads nowhere */
        Search done = search(g, root, depth, parent, frontier, next);
        reached += done.reached;
        depths += done.depths;
    }
    suite_end();
    const uint64_t wrong = faults(g, depth, parent);
    delete[] depth;
    delete[] parent;
    delete[] frontier;
    delete[] next;
    return suite_finish(!wrong, "%u vertices, %lu edges, %ld searches, %lu reached, sum of depths %lu, %lu faults",
                        g.vertices, g.edges, searches, reached, depths, wrong);
}
