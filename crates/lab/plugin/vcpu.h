/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What is known of one vCPU. Each is written by its own thread; others read its time and its demand.
 *
 * Constants of the core are those of a Skylake server core: reorder buffer of 224 instructions, load and store buffers
 * of 72 and 56 entries, 12 line fill buffers, 1536 entries of second-level TLB, a streamer that runs at most 20 lines
 * ahead (Intel 64 and IA-32 Architectures Optimization Reference Manual, sections on the Skylake microarchitecture and
 * on hardware prefetching).
 */
#ifndef HEARTH_VCPU_H
#define HEARTH_VCPU_H
#include "config.h"
#include "qemu.h"
#include "window.h"

enum {
  INSN_PS = 200,       /* an instruction without stalls: 1.7 a cycle at 3 GHz */
  L2_PS = 4500,        /* L2 hit: 14 cycles */
  LLC_PS = 20000,      /* LLC hit */
  WINDOW_INSNS = 224,  /* reorder buffer */
  LOADS = 64,          /* outstanding loads; a power of two, near the load buffer's 72 */
  STORES = 56,         /* store buffer */
  FILLS = 12,          /* line fill buffers: misses of the L1 that are served at once */
  FETCHES = 48,        /* lines that the L2 prefetcher may have under way */
  NEAR = 4,            /* lines from one miss to the next of a stream */
  AHEAD = 20,          /* lines that it runs ahead */
  STREAM_SETS = 8,     /* times STREAM_WAYS = 32 pages whose streams it follows */
  STREAM_WAYS = 4,
  TLB_SETS = 256,      /* times TLB_WAYS = 1536 */
  TLB_WAYS = 6,
  DIRECTORIES = 32,    /* page-directory entries that the walker keeps */
  L1_SETS = 64,
  L1_WAYS = 8,
};

/* A load that waits for its line. */
struct load {
  uint64_t line;   /* physical */
  uint64_t insn;   /* its number */
  uint64_t done;   /* when the data is there, ps */
  uint64_t value[4]; /* what was loaded from the line meanwhile */
  uint32_t values;
};

/* A stream of the prefetcher within one page. */
struct stream {
  uint64_t page;
  int16_t last;
  int16_t next; /* first line not asked for yet */
  int8_t direction;
  int8_t confidence;
};

/* A memory instruction, made when it is translated. */
struct insn {
  uint64_t ip;
  uint32_t after;  /* instructions of its block that follow it */
  uint16_t tried;  /* how often an index was searched for in vain */
  uint16_t found;
  struct bases *bases;
};

/* Fixed-length accounting of one tier's time; see memory.c. */
struct slot {
  uint32_t step;
  uint32_t shared, read, written; /* ps */
};
enum { SLOTS = 4096, SLOT_PS = 1000000 };

/* How much of a tier's time a vCPU used lately, as a fraction. */
struct demand {
  uint64_t step;
  uint64_t shared, own[2]; /* in this step: of the shared time, of reads' and of writes' */
  double before;           /* in the step before: the most of these, as a fraction */
};

struct vcpu {
  /* Touched by every access. */
  uint64_t *insns;  /* counted by QEMU at the start of each block */
  uint64_t accesses;
  uint64_t base_ps; /* time = base + instructions * INSN_PS + stall */
  uint64_t stall_ps;
  uint64_t l1_tag[L1_SETS][L1_WAYS];  /* virtual line */
  uint64_t l1_line[L1_SETS][L1_WAYS]; /* physical line, with the flags below */
  uint8_t l1_used[L1_SETS];

  uint64_t l1_ready[L1_SETS][L1_WAYS];
  struct load load[LOADS]; /* a ring in program order */
  unsigned load_first, load_count;
  uint64_t store[STORES]; /* when each of the last stores that missed is done */
  unsigned store_at;
  uint64_t fill[FILLS], fetch[FETCHES]; /* when each buffer is free */
  uint64_t loads_done; /* when all loads so far are done */
  struct stream stream[STREAM_SETS][STREAM_WAYS];
  uint8_t stream_next[STREAM_SETS];
  uint64_t tlb[TLB_SETS][TLB_WAYS];
  uint8_t tlb_next[TLB_SETS];
  uint64_t tlb_last; /* page translated last */
  uint64_t directory_tag[DIRECTORIES], directory[DIRECTORIES];
  uint64_t page_table; /* CR3 */
  uint64_t pid;        /* of the process that this page table belongs to, if it said so */
  bool page_table_stale;
  struct slot (*slot)[SLOTS]; /* for each tier */
  struct demand demand[WINDOW_TIERS];
  uint64_t next_sync;
  uint64_t countdown; /* LLC misses until the next sample */
  uint64_t traffic_countdown[2]; /* the same for lines written back, and read beside misses */
  uint64_t random;               /* of their intervals; 0 before the first */
  bool in_kernel; /* the access under way is by a kernel address */
  struct window_vcpu *seen;
  int tid; /* of the host's thread that runs it */
  volatile bool exists, idle;
  bool aside;           /* at work that takes no simulated time; to the others it is idle */
  uint64_t aside_insns, aside_accesses; /* counts when that began */
  unsigned aside_kernel; /* quanta of it that ended in the kernel, one after the other */
} __attribute__((aligned(128)));

#define DIRTY (1ull << 63)
#define PENDING (1ull << 62) /* L1: data still under way */
#define FETCHED (1ull << 62) /* L2: prefetched and not used yet */
#define LINE (~(DIRTY | PENDING))
#define NOTHING LINE /* a line that no memory has */

extern struct vcpu vcpus[WINDOW_VCPUS];
extern struct window *window;

/* Simulated time of a vCPU, ps. */
static inline uint64_t vcpu_time(const struct vcpu *v) { return v->base_ps + *v->insns * INSN_PS + v->stall_ps; }
#endif
