/* hearth.h - say in code where data belongs.
 *
 *     #include <hearth.h>                       cc app.c $(pkg-config --cflags --libs hearth)
 *
 *     hearth_trait hot[] = {{HEARTH_PREFER_SPACE, HEARTH_LOW_LATENCY}, {HEARTH_ACCESS_PATTERN, HEARTH_RANDOM}};
 *     double *table = hearth_alloc(n * sizeof *table, NULL, 2, hot);
 *     ...
 *     hearth_free(table);
 *
 * It needs no launcher, no daemon and no preloaded library, and works where a machine has one kind of memory (then every space
 * is that one). Beside `hearth record`, `run` and `live` its objects are seen like any other; what the code says goes before
 * what a plan or the daemon would like.
 *
 * Rules that hold for all functions:
 *   - Sizes are bytes. 0 and more than PTRDIFF_MAX (a negative number) are refused with HEARTH_E_SIZE.
 *   - Errors are values (hearth_error), 0 is none; hearth_error_text says one in a sentence. `int *error` may be NULL. Each
 *     function lists its errors without HEARTH_E_. *Those of traits* are ARGUMENT (NULL, but their count is not 0), TRAIT,
 *     CONFLICT (also for more than 12) and TIER.
 *   - Any thread may call any function at any time, but, as with malloc, no signal handler. Two threads must not free, resize,
 *     update or commit the same thing at once. Calls may wait for each other, also while one has required memory touched. A
 *     child of fork has what its parent had.
 *   - The first call finds out which memories the machine has (some 10 ms, by hwloc, which may load libraries of its own). A program whose
 *     threads fork or load libraries early makes one before: hearth_tiers(NULL, 0, NULL). Where they cannot be found, all that
 *     needs them fails with HEARTH_E_PLATFORM (texts of errors and phases do not), and the next call looks again.
 *   - What hearth_alloc, hearth_realloc and hearth_commit give ends with hearth_free, not with free().
 *   - NULL is refused with an error where a pointer is needed; memory that is not Hearth's with HEARTH_E_FOREIGN.
 *
 * The words are those of H2M (Klinkenberg et al., FGCS 2023, section 4.2). docs/api.md tells more.
 */
#ifndef HEARTH_H
#define HEARTH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---------------------------------------------------------------------------------------------------------- */

typedef enum hearth_error {
  HEARTH_OK = 0,
  HEARTH_E_SIZE = 1,      /* a size of 0 or of more than PTRDIFF_MAX bytes */
  HEARTH_E_TRAIT = 2,     /* a trait or a value of one that does not exist */
  HEARTH_E_CONFLICT = 3,  /* traits that contradict each other */
  HEARTH_E_ROOM = 4,      /* the required space has no room, or there is no memory or address space at all */
  HEARTH_E_TIER = 5,      /* this machine has no such tier */
  HEARTH_E_FOREIGN = 6,   /* the pointer is not the start of an object of Hearth's (freed already, or of another allocator) */
  HEARTH_E_HANDLE = 7,    /* no such declaration: committed or withdrawn already, or never made */
  HEARTH_E_PLATFORM = 8,  /* the memories of this machine could not be found */
  HEARTH_E_KERNEL = 9,    /* the kernel refused; errno says why */
  HEARTH_E_STRATEGY = 10, /* a strategy of the program's returned an error or a decision that cannot be, or called what decides */
  HEARTH_E_SMALL = 11,    /* an object under a page shares its pages and stays where it is */
  HEARTH_E_ARGUMENT = 12  /* NULL where it cannot be, a text that is empty or of more than 200 bytes, or an unknown stage */
} hearth_error;

/* What an error is and how to mend it: one English sentence, valid for ever. Unknown numbers have one, too. Errors: none. */
const char *hearth_error_text(int error);

/* ---- Tiers and spaces of this machine --------------------------------------------------------------------------------- */

#define HEARTH_MAX_TIERS 8

typedef struct hearth_tier {
  char name[32];            /* as `hearth platform` prints it: dram, hbm, cxl, ... */
  uint64_t capacity;        /* bytes; 0: not known */
  uint64_t free;            /* bytes to be had now: what the kernel has free above its low watermark; 0: none, or not known */
  double latency;           /* idle read latency, nanoseconds; 0: not known */
  double read_bandwidth;    /* bytes a second of all nodes; 0: not known */
  double write_bandwidth;   /* the same */
  uint64_t nodes[2];        /* NUMA nodes 0 to 127, a bit each */
} hearth_tier;

/* The tiers, fastest first. Writes up to `room` of them and, in any case, their number to *count (both may be 0 or NULL).
 * Errors: ARGUMENT (`tiers` is NULL, and `room` is not 0). */
int hearth_tiers(hearth_tier *tiers, size_t room, size_t *count);

/* A wish that a machine maps to one of its tiers. */
typedef enum hearth_space {
  HEARTH_HIGH_BANDWIDTH = 1,
  HEARTH_LOW_LATENCY = 2,
  HEARTH_LARGE_CAPACITY = 3,
  HEARTH_TIER_0 = 16 /* HEARTH_TIER_0 + i: the tier of index i in hearth_tiers */
} hearth_space;

/* Index of the tier that a space is on this machine; negative: minus a hearth_error. Errors: TRAIT (no hearth_space), TIER. */
int hearth_tier_of_space(int space);

/* ---- Traits ----------------------------------------------------------------------------------------------------------- */

typedef enum hearth_key {
  /* Where, at most one of the two. A required space that has no room is an error, and NULL: to be sure of it, the memory is
   * touched and looked up before the call returns. A preferred one falls back, slower tiers first. */
  HEARTH_REQUIRE_SPACE = 1, /* a hearth_space */
  HEARTH_PREFER_SPACE = 2,  /* a hearth_space */
  /* How it is used. Strategies decide by these. */
  HEARTH_ACCESS_MODE = 3,      /* HEARTH_READ_ONLY, HEARTH_WRITE_ONLY, HEARTH_READ_WRITE */
  HEARTH_ACCESS_FREQUENCY = 4, /* accesses a second, for all of the object */
  HEARTH_ACCESS_ORIGIN = 5,    /* HEARTH_ONE_THREAD, HEARTH_MANY_THREADS */
  HEARTH_ACCESS_PATTERN = 6,   /* HEARTH_LINEAR, HEARTH_STRIDED, HEARTH_RANDOM */
  HEARTH_ACCESS_STRIDE = 7,    /* bytes; only with HEARTH_STRIDED */
  HEARTH_IMPORTANCE = 8,       /* any unit; the larger, the earlier hearth_commit and hearth_migrate serve it */
  /* How it lies. */
  HEARTH_ALIGNMENT = 9, /* bytes, a power of two up to 1 GiB; default: 4096 from a page on, 16 below */
  HEARTH_PARTITION = 10, /* HEARTH_WHOLE, HEARTH_SPLIT, HEARTH_INTERLEAVE; the last two need a space */
  HEARTH_WEIGHT = 11, /* percent of it, 1 to 99, in the wanted space; default: 50; only with HEARTH_SPLIT or HEARTH_INTERLEAVE */
  HEARTH_REST_SPACE = 12 /* where the rest goes, a hearth_space; default: HEARTH_LARGE_CAPACITY; only with these two */
} hearth_key;

enum { HEARTH_READ_ONLY = 1, HEARTH_WRITE_ONLY = 2, HEARTH_READ_WRITE = 3 };
enum { HEARTH_ONE_THREAD = 1, HEARTH_MANY_THREADS = 2 };
enum { HEARTH_LINEAR = 1, HEARTH_STRIDED = 2, HEARTH_RANDOM = 3 };
enum {
  HEARTH_WHOLE = 1,
  HEARTH_SPLIT = 2,     /* the first bytes in the wanted space, the others in the rest's */
  HEARTH_INTERLEAVE = 3 /* by turns of 2 MiB (64 KiB in objects below 64 MiB), as the weight says */
};

typedef struct hearth_trait {
  int key; /* a hearth_key */
  uint64_t value;
} hearth_trait;

/* ---- Allocate --------------------------------------------------------------------------------------------------------- */

/* Memory with traits; its content is undefined, as malloc's. NULL and *error if it cannot be. Without a space a strategy decides: what is picked at
 * random wants low latency, what is walked over high bandwidth, all else is left to the kernel as malloc would.
 * Errors: SIZE, those of traits, ROOM, KERNEL, STRATEGY. */
void *hearth_alloc(size_t size, int *error, size_t traits_count, const hearth_trait *traits);

/* Another size for an object, which keeps its traits and as much of its content as fits. NULL and *error: it is as it was.
 * No other thread may use it meanwhile: it may be copied. Errors: ARGUMENT (NULL), FOREIGN, SIZE, ROOM, KERNEL, STRATEGY. */
void *hearth_realloc(void *object, size_t size, int *error);

/* Ends an object, whichever thread made it. NULL is HEARTH_OK. Errors: FOREIGN. */
int hearth_free(void *object);

/* Bytes that may be used of an object, at least what was asked for; 0: it is none of Hearth's. Errors: none. */
size_t hearth_usable_size(const void *object);

/* Gives an object a name (1 to 200 bytes, which are copied). Profiles then know it by that name, in this build of the program and the next.
 * Objects of the same name are one site; a process may have 512 names (of objects and marks together), further ones are not seen. The kernel shows it in /proc/PID/smaps where it can (Linux 5.17).
 * Errors: ARGUMENT, FOREIGN, SMALL. */
int hearth_name(void *object, const char *name);

/* ---- Declare first, commit later -------------------------------------------------------------------------------------- */

typedef uint64_t hearth_declaration; /* 0: none */

/* Says that *where is to point to an object of this size. Nothing is allocated yet, and *where becomes NULL. 0 and *error if
 * something is wrong with it. `where` must stay valid until the declaration is committed or withdrawn: whichever thread commits
 * writes to it. Errors: ARGUMENT (`where` is NULL), SIZE, those of traits. */
hearth_declaration hearth_declare(void **where, size_t size, int *error, size_t traits_count, const hearth_trait *traits);

/* Decides over the whole set, most important first, and allocates it. All or nothing: on an error nothing was allocated,
 * every *where is NULL, and the declarations can be committed again. A count of 0 is HEARTH_OK.
 * Errors: ARGUMENT (NULL), HANDLE (also for one that is named twice), ROOM, KERNEL, STRATEGY. */
int hearth_commit(const hearth_declaration *declarations, size_t count);

/* Ends a declaration that was not committed. Errors: HANDLE. */
int hearth_withdraw(hearth_declaration declaration);

/* ---- Update and migrate ----------------------------------------------------------------------------------------------- */

/* Replaces an object's traits (its alignment stays). It moves with the next hearth_migrate.
 * Errors: ARGUMENT (NULL), FOREIGN, SMALL, those of traits. */
int hearth_update(void *object, size_t traits_count, const hearth_trait *traits);

/* Moves what was updated since the last time to where it is wanted now, first what leaves a tier, then what comes to it. Addresses
 * stay. *moved (or NULL) becomes the bytes that the kernel has moved. An error is that of the first object that could not be
 * moved; the others were, and it is tried again the next time. What is preferred and has no room stays where it is. Threads may
 * use objects while they move, and their calls wait for one object, not for all. Errors: ROOM (of what is required), KERNEL, STRATEGY. */
int hearth_migrate(size_t *moved);

/* ---- Where is it ------------------------------------------------------------------------------------------------------ */

typedef struct hearth_where {
  uint64_t in_tier[HEARTH_MAX_TIERS]; /* bytes, in whole pages, by index of hearth_tiers */
  uint64_t elsewhere;                 /* in nodes that are of no tier */
  uint64_t absent;                    /* not touched yet, swapped out, or not mapped */
} hearth_where;

/* Where the pages of any memory of this process are, read back from the kernel, page by page: other threads and the kernel may
 * move them meanwhile. Errors: ARGUMENT (NULL), SIZE (also where it ends beyond all addresses), KERNEL. */
int hearth_residency(const void *start, size_t size, hearth_where *where);

/* ---- Phases ----------------------------------------------------------------------------------------------------------- */

/* Marks of what the program is doing, called by its first thread; those of others do not count. `hearth record` writes them down,
 * and a plan may move objects when one begins. A name has up to 200 bytes. All are counted; of those that follow
 * another one within 0.2 ms only the first four of a name are written down. Without a recorder, plan or daemon they do nothing.
 * Errors, of the next two functions as well: ARGUMENT; hearth_loop_end has none. */
int hearth_phase(const char *name);
/* The phase that hearth_phase(name) begins uses the object that this address lies in: any that a plan can move, of malloc or a variable. To say it once
 * is enough, for all objects of the same allocation site. A plan then does not begin to move them while that phase is under way, unless it wants them
 * elsewhere in it, however few accesses the recorder saw. Any thread may call it. */
int hearth_phase_uses(const char *name, const void *object);
int hearth_loop_begin(const char *name); /* the loop that a run is spent in begins: a mark, too */
int hearth_loop_end(void);               /* it is over */

/* ---- Strategies of one's own ------------------------------------------------------------------------------------------ */

typedef struct hearth_request {
  size_t size; /* bytes */
  size_t traits_count;
  const hearth_trait *traits;
  const void *object; /* when migrating; else NULL */
} hearth_request;

typedef struct hearth_decision {
  int tier;      /* index of hearth_tiers; -1: leave it to the kernel */
  int rest_tier; /* of what does not go there; as `tier`: none */
  int weight;    /* percent in `tier`, 1 to 100 */
  int partition; /* HEARTH_WHOLE, HEARTH_SPLIT or HEARTH_INTERLEAVE */
  int rank;      /* the smaller, the earlier it is served */
} hearth_decision;

/* Decides for `count` requests at once; `decisions` holds what Hearth itself would decide. Returns 0, or anything else to refuse
 * (HEARTH_E_STRATEGY). It may call any function of this header but those that decide: hearth_alloc, hearth_realloc, hearth_commit,
 * hearth_migrate return HEARTH_E_STRATEGY from within. It returns: an exception of C++ that leaves it ends the program. `context` is what was
 * registered. Whichever thread allocates, commits or migrates runs it, several of them at once, and no lock of Hearth's is held. */
typedef int (*hearth_strategy)(void *context, const hearth_request *requests, size_t count, hearth_decision *decisions);

typedef enum hearth_stage { HEARTH_ALLOCATION = 1, HEARTH_COMMIT = 2, HEARTH_MIGRATION = 3 } hearth_stage;

/* Registers a strategy; NULL: Hearth's own again. If it sends what is required elsewhere, the call that asked it fails with
 * HEARTH_E_STRATEGY. Calls that other threads have begun may still run the one before, with its context.
 * Errors: ARGUMENT (no hearth_stage). */
int hearth_use(int stage, hearth_strategy strategy, void *context);

#ifdef __cplusplus
}
#endif

#endif
