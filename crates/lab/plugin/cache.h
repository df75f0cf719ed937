/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A set-associative cache of physical lines with not-recently-used replacement. The LLC is shared by the threads of
 * all vCPUs without locks: a lost update costs a line, which is noise.
 */
#ifndef HEARTH_CACHE_H
#define HEARTH_CACHE_H
#include "vcpu.h"
#include <stdlib.h>

struct cache {
  uint64_t sets, ways;
  uint64_t *line;  /* with DIRTY and FETCHED; sets x ways */
  uint64_t *ready; /* when the line has arrived */
  uint32_t *used;  /* one bit a way */
};

static inline bool cache_make(struct cache *c, uint64_t kib, uint64_t ways) {
  c->ways = ways;
  c->sets = kib * 16 / ways;
  c->line = malloc(c->sets * ways * sizeof *c->line);
  c->ready = calloc(c->sets * ways, sizeof *c->ready);
  c->used = calloc(c->sets, sizeof *c->used);
  if (!c->line || !c->ready || !c->used) return false;
  for (uint64_t i = 0; i < c->sets * ways; i++) c->line[i] = NOTHING;
  return true;
}

/* Hashed, as the slices of a real LLC are: which physical pages the kernel happened to give must not matter much. */
static inline uint64_t cache_set(const struct cache *c, uint64_t line) {
  return (line ^ line >> 12 ^ line >> 19) & (c->sets - 1);
}

static inline void cache_touch(struct cache *c, uint64_t set, uint64_t way) {
  uint32_t used = c->used[set] | 1u << way;
  c->used[set] = used == (1u << c->ways) - 1 ? 1u << way : used;
}

/* Index of the line, or -1. */
static inline int64_t cache_find(struct cache *c, uint64_t line) {
  uint64_t set = cache_set(c, line), *lines = c->line + set * c->ways;
  for (uint64_t way = 0; way < c->ways; way++)
    if ((lines[way] & LINE) == line) {
      cache_touch(c, set, way);
      return (int64_t)(set * c->ways + way);
    }
  return -1;
}

/* Puts the line in; returns what it displaced, with its flags, or NOTHING. */
static inline uint64_t cache_put(struct cache *c, uint64_t line, uint64_t flags, uint64_t ready) {
  uint64_t set = cache_set(c, line), way = (uint64_t)__builtin_ctz(~c->used[set]);
  if (way >= c->ways) way = 0;
  uint64_t at = set * c->ways + way, old = c->line[at];
  c->line[at] = line | flags;
  c->ready[at] = ready;
  cache_touch(c, set, way);
  return old;
}
#endif
