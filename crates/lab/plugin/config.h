/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The numbers of the emulated machine. `hearth lab` writes them, one `key=value` a line; tiers are numbered by the
 * guest's NUMA node. A key that is not known or missing is an error: nothing is assumed silently.
 */
#ifndef HEARTH_CONFIG_H
#define HEARTH_CONFIG_H
#include "window.h"

struct tier_config {
  uint64_t bytes;    /* memory of the node */
  double latency_ns; /* idle, from the load to its data */
  double loaded_ns;  /* the same when loaded_gbps are read; 0: see memory.c */
  double loaded_gbps;
  double read_gbps;
  double write_gbps;
  double mixed_gbps; /* one read to one write, both counted; 0: reads and writes share one bus */
};

struct config {
  uint64_t vcpus;
  uint64_t tiers;
  struct tier_config tier[WINDOW_TIERS];
  uint64_t fast_node;         /* the faster tier */
  uint64_t memory_mode_bytes; /* fast memory that caches the slow one; 0: it does not */
  uint64_t l1_kib, l1_ways;
  uint64_t l2_kib, l2_ways;
  uint64_t llc_kib, llc_ways;
};

extern struct config config;

/* Reads the file. Returns a sentence that says what is wrong, or NULL. */
const char *config_read(const char *path);
#endif
