/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The window: one shared file through which the plugin, the host's `hearth lab` and the guest speak to each other.
 * The host makes it (zeroed, private) and fills in the constants; QEMU maps it twice: this plugin by its path, and the
 * guest as the memory of an ivshmem device. crates/wire/src/lab.rs is its other half; the two are checked against each
 * other by a test. All fields are little-endian, all counters only ever grow, and each has one writer.
 */
#ifndef HEARTH_WINDOW_H
#define HEARTH_WINDOW_H
#include <stdint.h>

#define WINDOW_MAGIC 0x3242414c48545248ull /* "HRTHLAB2" */
#define WINDOW_VCPUS 8
#define WINDOW_TIERS 4
#define WINDOW_STEPS 8192     /* points of the bandwidth series */
#define WINDOW_PROCESSES 1024 /* processes that said who they are */

/* Counters of one vCPU since the model was switched on. Written by its thread only. */
struct window_vcpu {
  uint64_t instructions;
  uint64_t accesses;   /* loads and stores, as the guest made them */
  uint64_t l1_misses;  /* of the L1 data cache */
  uint64_t l2_misses;
  uint64_t walks;      /* page walks: misses of the second-level TLB */
  uint64_t time_ps;    /* where this vCPU stands in simulated time */
  uint64_t idle_ps;    /* of that, halted */
  uint64_t waited_ps;  /* of that, stalled for memory */
  struct {
    uint64_t loads;      /* LLC misses by demand loads */
    uint64_t stores;     /* LLC misses by stores (reads for ownership) */
    uint64_t prefetches; /* lines fetched by the prefetcher */
    uint64_t writes;     /* dirty lines written back */
    uint64_t walks;      /* LLC misses of page walks */
    uint64_t latency_ps; /* sum over loads, from issue to data */
  } tier[WINDOW_TIERS];
};

/* Lines moved in one step of simulated time. Written by all vCPUs, atomically. */
struct window_step {
  uint64_t read[WINDOW_TIERS];
  uint64_t written[WINDOW_TIERS];
};

/* A process of the guest that said who it is: page table base to process id. */
struct window_process {
  uint64_t page_table; /* CR3 without its low 12 bits; 0: unused */
  uint64_t pid;
};

/* One sampled LLC miss of a process that said who it is. */
struct window_sample {
  uint64_t sequence; /* its number plus one, written last: the reader knows by it that the sample is whole */
  uint64_t time_ps;  /* simulated, since the model was switched on */
  uint64_t ip;
  uint64_t address;  /* virtual */
  uint64_t pid;
  uint32_t latency_ns; /* from issue to data; 0 for stores */
  uint8_t store;
  uint8_t tier;
  uint8_t vcpu;
  uint8_t ahead; /* the prefetcher had asked for the line */
  uint8_t traffic; /* enum window_traffic: of all but misses time, address and pid are told */
  uint8_t unused[3];
  uint32_t count;  /* it stands for so many times the period */
  uint32_t alone_ns; /* of the latency, what no load before it was under way for */
  uint32_t unused_too;
};

enum window_traffic {
  WINDOW_MISS,    /* a demand access got its line from memory */
  WINDOW_WRITTEN, /* a changed line was written back */
  WINDOW_BESIDE,  /* a line was read beside all misses: fetched ahead and not used, or as the kernel cleared its page */
};

struct window {
  uint64_t magic;
  uint64_t bytes;       /* of the file */
  uint64_t samples_at;  /* offset of the ring of samples */
  uint64_t samples;     /* its length, a power of two */
  uint64_t tiers;
  uint64_t vcpus;
  /* Said by host or guest. */
  uint64_t period;      /* one of n LLC misses is sampled; 0: none */
  uint64_t step_ps;     /* of the bandwidth series */
  uint64_t taken;       /* samples that the reader has taken */
  /* Said by the plugin. */
  uint64_t on;          /* 1 while the model runs */
  uint64_t on_count;    /* how often it was switched on */
  uint64_t begin_ps;    /* simulated time when it was switched on first; vCPU times and steps count from here */
  uint64_t now_ps;      /* simulated time, since begin */
  uint64_t host_ns;     /* host time that the model has run */
  uint64_t given;       /* samples written */
  uint64_t dropped;     /* samples that found the ring full */
  uint64_t waits;       /* times a vCPU waited for another one */
  uint64_t giveups;     /* times that waiting was in vain */
  uint64_t processes;   /* entries of the table below */
  uint64_t failed;      /* not 0: the plugin stopped; see the console log */
  uint64_t memory_hits[WINDOW_VCPUS]; /* memory mode: misses served by the fast memory */
  uint64_t on_ps;       /* simulated time from each switching on to the switching off after it, summed */
  uint64_t unused[3];
  struct window_vcpu vcpu[WINDOW_VCPUS];
  struct window_process process[WINDOW_PROCESSES];
  struct window_step step[WINDOW_STEPS];
};
#endif
