/*
 * Makes a program of the suite one that says in code where its arrays belong, as those of paper 002 (H2M) do: each is declared with traits
 * and a name, and the last one's end commits them all. Included before the source (gcc -include), which stays as it is.
 *
 * H2M_PLACEMENT says how:
 *     slow, fast        everything there
 *     alone:NAME        that array is required to be in fast memory, all others to be in the slow one
 *     first-served      all prefer fast memory, and are served in the order of the program
 *     prio              the traits that `hearth plan --traits` recommends (-DTRAITS=FILE, TRAITS_NAME), by Hearth's own strategy
 *     prio-writes       the same traits, by a strategy of the program's that counts what is written, too
 *
 * When an array ends the program says on standard error where its pages were.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for the program's name, as the suite has it */
#endif

#include <errno.h>
#include <hearth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TRAITS
#include TRAITS
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { H2M_MOST = 32 };

static struct {
    void **where;
    size_t bytes;
    char name[32];
    hearth_declaration declaration;
} h2m_arrays[H2M_MOST];
static size_t h2m_count;

static void h2m_check(int error, const char *what) {
    if (error) {
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, hearth_error_text(error));
        exit(2);
    }
}

static uint64_t h2m_value(const hearth_request *request, int key) {
    for (size_t i = 0; i < request->traits_count; i++)
        if (request->traits[i].key == key) return request->traits[i].value;
    return 0;
}

/* Most costly first, each to the space that it prefers while that has room. The cost is the time in which the slowest memory gives what is
 * missed of an array beyond that of the fastest, and takes what is written of it. Hearth's own importance leaves stores out, as the paper's. */
static int h2m_by_traffic(void *context, const hearth_request *requests, size_t count, hearth_decision *decisions) {
    (void)context;
    hearth_tier tiers[HEARTH_MAX_TIERS];
    size_t number;
    int fast = hearth_tier_of_space(HEARTH_HIGH_BANDWIDTH), slow = hearth_tier_of_space(HEARTH_LARGE_CAPACITY);
    if (fast < 0 || slow < 0 || hearth_tiers(tiers, HEARTH_MAX_TIERS, &number)) return 1;
    double reading = 1 / tiers[slow].read_bandwidth - 1 / tiers[fast].read_bandwidth;
    double writing = 1 / tiers[slow].write_bandwidth - 1 / tiers[fast].write_bandwidth;
    double cost[H2M_MOST];
    for (size_t i = 0; i < count; i++) {
        double writes = h2m_value(&requests[i], HEARTH_ACCESS_MODE) == HEARTH_READ_ONLY ? 0 : writing;
        cost[i] = (double)h2m_value(&requests[i], HEARTH_ACCESS_FREQUENCY) * (reading + writes);
    }
    for (size_t done = 0; done < count; done++) {
        size_t next = count;
        for (size_t i = 0; i < count; i++)
            if (cost[i] >= 0 && (next == count || cost[i] > cost[next])) next = i;
        int wanted = hearth_tier_of_space((int)h2m_value(&requests[next], HEARTH_PREFER_SPACE));
        int to = wanted >= 0 && requests[next].size <= tiers[wanted].free ? wanted : slow;
        tiers[to].free -= requests[next].size;
        decisions[next].tier = to;
        decisions[next].rank = (int)done;
        cost[next] = -1;
    }
    return 0;
}

static void h2m_declare(void **where, size_t bytes, const char *text) {
    const char *placement = getenv("H2M_PLACEMENT");
    if (!placement || h2m_count == H2M_MOST) h2m_check(HEARTH_E_ARGUMENT, "H2M_PLACEMENT");
    /* Parts of one array have its name: index_grid[p]. */
    char *name = h2m_arrays[h2m_count].name;
    snprintf(name, sizeof h2m_arrays->name, "%.*s", (int)strcspn(text, "["), text);
    hearth_trait said = {HEARTH_REQUIRE_SPACE, HEARTH_LARGE_CAPACITY};
    const hearth_trait *traits = &said;
    size_t count = 1;
    if (!strcmp(placement, "fast") || (!strncmp(placement, "alone:", 6) && !strcmp(placement + 6, name)))
        said.value = HEARTH_HIGH_BANDWIDTH;
    else if (!strcmp(placement, "first-served"))
        said = (hearth_trait){HEARTH_PREFER_SPACE, HEARTH_HIGH_BANDWIDTH};
#ifdef TRAITS
    else if (!strncmp(placement, "prio", 4))
        for (size_t i = 0; i < COUNT(recommended); i++)
            if (!strcmp(recommended[i].name, name)) traits = recommended[i].traits, count = recommended[i].count;
#endif
    int error;
    h2m_arrays[h2m_count].declaration = hearth_declare(where, bytes, &error, count, traits);
    h2m_check(error, name);
    h2m_arrays[h2m_count].where = where;
    h2m_arrays[h2m_count++].bytes = bytes;
}

static void h2m_commit(void) {
    hearth_declaration all[H2M_MOST];
    for (size_t i = 0; i < h2m_count; i++) all[i] = h2m_arrays[i].declaration;
    if (!strcmp(getenv("H2M_PLACEMENT"), "prio-writes")) h2m_check(hearth_use(HEARTH_COMMIT, h2m_by_traffic, NULL), "strategy");
    h2m_check(hearth_commit(all, h2m_count), "commit");
    for (size_t i = 0; i < h2m_count; i++) h2m_check(hearth_name(*h2m_arrays[i].where, h2m_arrays[i].name), h2m_arrays[i].name);
}

static void h2m_free(void *object) {
    size_t bytes = hearth_usable_size(object);
    if (!bytes) {
        free(object);
        return;
    }
    hearth_where where;
    h2m_check(hearth_residency(object, bytes, &where), "residency");
    int fast = hearth_tier_of_space(HEARTH_HIGH_BANDWIDTH);
    for (size_t i = 0; i < h2m_count; i++)
        if (*h2m_arrays[i].where == object)
            fprintf(stderr, "h2m: %s %zu bytes, %llu in fast memory\n", h2m_arrays[i].name, bytes, (unsigned long long)where.in_tier[fast]);
    h2m_check(hearth_free(object), "free");
}

#define suite_array(pointer, bytes) h2m_declare((void **)&(pointer), bytes, #pointer)
#define suite_arrays_end() h2m_commit()
#define free h2m_free
