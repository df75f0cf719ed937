/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The core: an out-of-order one, as far as memory is concerned.
 *
 * A load that misses waits, the instructions behind it do not, until the reorder buffer is full: the load must be done
 * before the instruction WINDOW_INSNS later can enter. It waits for a line fill buffer, of which there are FILLS, and
 * for its address: if that was made from a value that is still under way, the load starts when the value is there. That
 * is seen from the values themselves, which plugins are given: the address is a value loaded from an outstanding line
 * plus a small offset (a pointer), or a base plus such a value times an element size, with the same base as the last
 * time this instruction ran (an index). So a chase is bound by latency, and independent random accesses overlap.
 * The idea of overlapping misses up to a window: Karkhanis and Smith, A First-Order Superscalar Processor Model, ISCA
 * 2004, section 4.3.
 *
 * Stores wait in the store buffer and hold nothing up until it is full; each needs its line (read for ownership).
 *
 * Costs are settled late: when the next miss comes, what waited since the last is added. That is exact, since nothing
 * else takes time in between but instructions.
 *
 * The prefetcher is a streamer: misses that ascend or descend in a page by NEAR lines at most, twice in a row, and it fetches up
 * to AHEAD lines further into the L2, over the end of the page too (as the next-page prefetcher helps it to).
 */
#include "core.h"
#include "cache.h"
#include "memory.h"
#include "sample.h"
#include "clock.h"
#include "tlb.h"
#include <stdio.h>
#include <string.h>

static struct cache l2[WINDOW_VCPUS], llc;

/* What an instruction's addresses were based on, for the last two loaded values and each element size. */
static const uint16_t sizes[] = {1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 128};
enum { SIZES = sizeof sizes / sizeof *sizes, LATEST = 2, TRIES = 64, RETRY = 64 };
struct bases {
  uint64_t base[LATEST][SIZES];
};

bool core_make(void) {
  for (unsigned i = 0; i < config.vcpus; i++)
    if (!cache_make(&l2[i], config.l2_kib, config.l2_ways)) return false;
  return cache_make(&llc, config.llc_kib, config.llc_ways);
}

void core_reset(struct vcpu *v) {
  memset(v->l1_tag, 0xff, sizeof v->l1_tag);
  memset(v->l1_line, 0xff, sizeof v->l1_line);
  for (unsigned i = 0; i < L1_SETS; i++)
    for (unsigned j = 0; j < L1_WAYS; j++) v->l1_line[i][j] = NOTHING;
  memset(v->stream, 0xff, sizeof v->stream);
  tlb_flush(v);
}

static inline struct cache *l2_of(const struct vcpu *v) { return &l2[v - vcpus]; }

static uint64_t write_back(struct vcpu *v, uint64_t line, uint64_t t) {
  sample_traffic(v, line, WINDOW_WRITTEN, t);
  return memory_write(v, line, t);
}

/* A dirty line leaves the LLC's reach. */
static uint64_t llc_drop(struct vcpu *v, uint64_t line, uint64_t t) {
  if (line == NOTHING || !(line & DIRTY)) return 0;
  return write_back(v, line & LINE, t);
}

static uint64_t llc_put(struct vcpu *v, uint64_t line, uint64_t t) { return llc_drop(v, cache_put(&llc, line, 0, 0), t); }

/* A dirty line leaves an L2: the LLC has it, or else memory. */
static uint64_t l2_drop(struct vcpu *v, uint64_t line, uint64_t t) {
  if (line == NOTHING) return 0;
  if (line & FETCHED) sample_traffic(v, line & LINE, WINDOW_BESIDE, t);
  if (!(line & DIRTY)) return 0;
  int64_t at = cache_find(&llc, line & LINE);
  if (at >= 0) {
    llc.line[at] |= DIRTY;
    return 0;
  }
  return write_back(v, line & LINE, t);
}

static uint64_t l2_put(struct vcpu *v, uint64_t line, uint64_t flags, uint64_t ready, uint64_t t) {
  return l2_drop(v, cache_put(l2_of(v), line, flags, ready), t);
}

static uint64_t l1_drop(struct vcpu *v, uint64_t line, uint64_t t) {
  if (!(line & DIRTY)) return 0;
  int64_t at = cache_find(l2_of(v), line & LINE);
  if (at >= 0) {
    l2_of(v)->line[at] |= DIRTY;
    return 0;
  }
  return l2_put(v, line & LINE, DIRTY, 0, t);
}

void core_switch(struct vcpu *v) {
  uint64_t t = vcpu_time(v);
  for (unsigned set = 0; set < L1_SETS; set++)
    for (unsigned way = 0; way < L1_WAYS; way++) {
      l1_drop(v, v->l1_line[set][way], t);
      v->l1_line[set][way] = NOTHING;
      v->l1_tag[set][way] = ~0ull;
    }
  v->page_table_stale = true;
  tlb_flush(v);
}

static void stall(struct vcpu *v, uint64_t *t, uint64_t ps) {
  v->stall_ps += ps;
  v->seen->waited_ps += ps;
  *t += ps;
}

static void pop(struct vcpu *v) {
  v->load_first = (v->load_first + 1) % LOADS;
  v->load_count--;
}

/* Retires what is done at instruction `insn`, time *t; adds what the reorder buffer had to wait for. */
static inline void retire(struct vcpu *v, uint64_t insn, uint64_t *t) {
  while (v->load_count) {
    const struct load *first = &v->load[v->load_first];
    if (first->done > *t) {
      int64_t beyond = (int64_t)(insn - first->insn) - WINDOW_INSNS;
      if (beyond < 0) return;
      uint64_t full = *t - (uint64_t)beyond * INSN_PS; /* when the reorder buffer was full */
      if (first->done > full) stall(v, t, first->done - full);
    }
    pop(v);
  }
}

void core_drain(struct vcpu *v) {
  uint64_t t = vcpu_time(v);
  for (unsigned i = 0; i < v->load_count; i++) {
    const struct load *l = &v->load[(v->load_first + i) % LOADS];
    if (l->done > t) stall(v, &t, l->done - t);
  }
  v->load_count = 0;
}

static inline void note_value(struct load *l, qemu_plugin_meminfo_t info) {
  qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
  uint64_t is;
  switch (value.type) {
  case QEMU_PLUGIN_MEM_VALUE_U32: is = value.data.u32; break;
  case QEMU_PLUGIN_MEM_VALUE_U64: is = value.data.u64; break;
  default: return; /* bytes, shorts and vectors are no addresses */
  }
  l->value[l->values++ % 4] = is;
}

static void await(struct vcpu *v, qemu_plugin_meminfo_t info, uint64_t line, uint64_t insn, uint64_t done, uint64_t *t) {
  if (v->load_count == LOADS) {
    uint64_t first = v->load[v->load_first].done;
    if (first > *t) stall(v, t, first - *t);
    pop(v);
  }
  struct load *l = &v->load[(v->load_first + v->load_count++) % LOADS];
  l->line = line;
  l->insn = insn;
  l->done = done;
  l->values = 0;
  note_value(l, info);
}

/* When the value that this load's address was made from is there; 0 if it was there all the time. */
static uint64_t dependency(struct vcpu *v, struct insn *insn, uint64_t address, uint64_t t) {
  uint64_t from = 0;
  const struct load *latest[LATEST];
  uint64_t value[LATEST];
  unsigned indices = 0;
  bool search = insn->found || insn->tried < TRIES || insn->tried % RETRY == 0;
  for (unsigned i = v->load_count; i-- > 0;) {
    const struct load *l = &v->load[(v->load_first + i) % LOADS];
    if (l->done <= t) continue;
    unsigned kept = l->values < 4 ? l->values : 4;
    for (unsigned j = 0; j < kept; j++) {
      uint64_t is = l->value[(l->values - 1 - j) % 4];
      if (is > 0xffff && address - is + 4096 < 2 * 4096) {
        if (l->done > from) from = l->done;
      } else if (search && indices < LATEST) {
        latest[indices] = l;
        value[indices++] = is;
      }
    }
  }
  if (from) return from;
  if (insn->tried < UINT16_MAX) insn->tried++;
  if (!indices) return 0;
  if (!insn->bases && !(insn->bases = calloc(1, sizeof *insn->bases))) return 0;
  for (unsigned i = 0; i < indices; i++)
    for (unsigned k = 0; k < SIZES; k++) {
      uint64_t base = address - value[i] * sizes[k];
      for (unsigned j = 0; j < LATEST; j++)
        if (insn->bases->base[j][k] == base) from = latest[i]->done > from ? latest[i]->done : from;
    }
  for (unsigned i = 0; i < indices; i++)
    for (unsigned k = 0; k < SIZES; k++) insn->bases->base[i][k] = address - value[i] * sizes[k];
  if (from && insn->found < UINT16_MAX) insn->found++;
  return from;
}

/* The buffer that is free first, of `count`. */
static inline uint64_t *earliest(uint64_t *buffers, unsigned count) {
  uint64_t *best = buffers;
  for (unsigned i = 1; i < count; i++)
    if (buffers[i] < *best) best = &buffers[i];
  return best;
}

/* Of the time that a load takes, what no load before it takes too: misses that are under way together are waited for once. */
static inline uint64_t alone(struct vcpu *v, uint64_t start, uint64_t done) {
  uint64_t from = start > v->loads_done ? start : v->loads_done;
  if (done <= from) return 0;
  v->loads_done = done;
  return done - from;
}

/* Fetches a line into the L2 ahead of its use. False if it had to be let go. */
static bool fetch_ahead(struct vcpu *v, uint64_t line, uint64_t t) {
  if (cache_find(l2_of(v), line) >= 0) return true;
  uint64_t done;
  if (cache_find(&llc, line) >= 0) {
    done = t + LLC_PS;
    l2_put(v, line, 0, done, t);
    return true;
  }
  uint64_t *buffer = earliest(v->fetch, FETCHES);
  if (*buffer > t) return false;
  unsigned tier;
  done = memory_read(v, line, t, FETCH_AHEAD, &tier);
  if (v->in_kernel) sample_traffic(v, line, WINDOW_BESIDE, t);
  done += llc_put(v, line, t) + l2_put(v, line, v->in_kernel ? 0 : FETCHED, done, t);
  *buffer = done;
  return true;
}

static inline unsigned stream_set(uint64_t page) { return (unsigned)(page * 0x9e3779b97f4a7c15u >> 32) % STREAM_SETS; }

static struct stream *find_stream(struct vcpu *v, uint64_t page) {
  struct stream *set = v->stream[stream_set(page)];
  for (unsigned i = 0; i < STREAM_WAYS; i++)
    if (set[i].page == page) return &set[i];
  return NULL;
}

static struct stream *new_stream(struct vcpu *v, struct stream with) {
  unsigned set = stream_set(with.page);
  struct stream *s = &v->stream[set][v->stream_next[set]];
  v->stream_next[set] = (uint8_t)((v->stream_next[set] + 1) % STREAM_WAYS);
  *s = with;
  return s;
}

static void prefetch(struct vcpu *v, uint64_t address, uint64_t physical, uint64_t t) {
  uint64_t page = address >> 12;
  int line = (int)(address >> 6 & 63);
  struct stream *s = find_stream(v, page);
  if (!s) {
    new_stream(v, (struct stream){.page = page, .last = (int16_t)line});
    return;
  }
  int step = line - s->last;
  if (step == 0) return;
  s->last = (int16_t)line;
  int8_t direction = step > 0 ? 1 : -1;
  if (step > NEAR || step < -NEAR) {
    s->confidence = 0;
    return;
  }
  if (direction != s->direction) {
    s->direction = direction;
    s->confidence = 1;
    s->next = (int16_t)(line + direction);
    return;
  }
  if (s->confidence < 8) s->confidence++;
  if (s->confidence < 2) return;
  int last = line + direction * AHEAD;
  if ((s->next - line) * direction <= 0) s->next = (int16_t)(line + direction);
  uint64_t frame = physical >> 12 << 6; /* first line of the page in physical memory */
  while ((last - s->next) * direction >= 0 && s->next >= 0 && s->next < 64) {
    if (!fetch_ahead(v, frame + (uint64_t)s->next, t)) return;
    s->next = (int16_t)(s->next + direction);
  }
  if ((last - s->next) * direction < 0) return;
  /* Over the end of the page. */
  uint64_t over = page + (uint64_t)(int64_t)direction;
  struct stream *n = find_stream(v, over);
  if (n && n->direction != direction) return;
  if (!n)
    n = new_stream(v, (struct stream){.page = over,
                                      .direction = direction,
                                      .confidence = 2,
                                      .last = direction > 0 ? -1 : 64,
                                      .next = direction > 0 ? 0 : 63});
  int beyond = direction > 0 ? last - 64 : last + 64;
  if ((beyond - n->next) * direction < 0) return;
  uint64_t there = tlb_physical(v, over << 12);
  if (there == ~0ull || !memory_has(there >> 6)) return;
  while ((beyond - n->next) * direction >= 0 && n->next >= 0 && n->next < 64) {
    if (!fetch_ahead(v, (there >> 6) + (uint64_t)n->next, t)) return;
    n->next = (int16_t)(n->next + direction);
  }
}

static uint64_t read_for_walk(struct vcpu *v, uint64_t line, uint64_t t) {
  int64_t at = cache_find(l2_of(v), line);
  if (at >= 0) return l2_of(v)->ready[at] > t + L2_PS ? l2_of(v)->ready[at] - t : L2_PS;
  uint64_t done = t + LLC_PS;
  if (cache_find(&llc, line) < 0) {
    if (!memory_has(line)) return 0;
    unsigned tier;
    done = memory_read(v, line, t, FETCH_WALK, &tier);
    done += llc_put(v, line, t);
  }
  l2_put(v, line, 0, done, t);
  return done - t;
}

/* The walker must agree with QEMU's own, or page tables are not what it takes them for (five levels, say). */
static void check_walk(struct vcpu *v, uint64_t address, uint64_t physical) {
  static volatile bool agreed;
  if (agreed) return;
  agreed = tlb_physical(v, address) >> 12 == physical >> 12;
  static volatile unsigned wrong;
  if (!agreed && ++wrong == 100) {
    fprintf(stderr, "memsim: the guest's page tables are not understood\n");
    window->failed = 2;
  }
}

void core_miss(struct vcpu *v, struct insn *insn, qemu_plugin_meminfo_t info, uint64_t address, bool store) {
  if (v->aside) return;
  const struct qemu_plugin_hwaddr *hw = qemu_plugin_get_hwaddr(info, address);
  if (!hw || qemu_plugin_hwaddr_is_io(hw)) return;
  uint64_t physical = qemu_plugin_hwaddr_phys_addr(hw), line = physical >> 6;
  if (!memory_has(line)) return;
  if (v->page_table_stale) {
    sample_page_table(v);
    check_walk(v, address, physical);
  }
  struct window_vcpu *seen = v->seen;
  seen->l1_misses++;
  uint64_t number = *v->insns - insn->after;
  uint64_t t = v->base_ps + number * INSN_PS + v->stall_ps;
  retire(v, number, &t);
  v->in_kernel = (int64_t)address < 0;
  sample_owner(v, address, line, store, t);

  uint64_t start = t, depends = dependency(v, insn, address, t);
  if (depends > start) start = depends;
  start += tlb_translate(v, address, start, read_for_walk);

  struct cache *second = l2_of(v);
  int64_t at = cache_find(second, line);
  uint64_t done, held = 0;
  unsigned tier = 0;
  if (at >= 0) {
    done = start + L2_PS;
    if (second->ready[at] > done) {
      done = second->ready[at];
      uint64_t *buffer = earliest(v->fill, FILLS);
      if (*buffer < done) *buffer = done;
    }
    uint64_t waits = store ? 0 : alone(v, start, done);
    if (second->line[at] & FETCHED) {
      second->line[at] &= ~FETCHED;
      sample_miss(v, insn, address, memory_tier(line), start, done, waits, store, true);
    }
  } else {
    seen->l2_misses++;
    uint64_t *buffer = earliest(v->fill, FILLS);
    if (*buffer > start) start = *buffer;
    if (cache_find(&llc, line) >= 0) {
      done = start + LLC_PS;
      if (!store) alone(v, start, done);
    } else {
      done = memory_read(v, line, start, store ? FETCH_STORE : FETCH_LOAD, &tier);
      uint64_t waits = store ? 0 : alone(v, start, done);
      if (!store) seen->tier[tier].latency_ps += done - start;
      held = llc_put(v, line, start);
      if (v->in_kernel) sample_traffic(v, line, WINDOW_BESIDE, start);
      else sample_miss(v, insn, address, tier, start, done, waits, store, false);
    }
    held += l2_put(v, line, 0, done, start);
    *buffer = done + held;
  }
  prefetch(v, address, physical, t);

  uint64_t virtual = address >> 6;
  unsigned set = virtual & (L1_SETS - 1), way = (unsigned)__builtin_ctz(~(unsigned)v->l1_used[set]);
  if (way >= L1_WAYS) way = 0;
  held += l1_drop(v, v->l1_line[set][way], start);
  done += held;
  v->l1_tag[set][way] = virtual;
  v->l1_line[set][way] = line | (store ? DIRTY : 0) | (done > t + L2_PS ? PENDING : 0);
  v->l1_ready[set][way] = done;
  unsigned used = v->l1_used[set] | 1u << way;
  v->l1_used[set] = (uint8_t)(used == (1u << L1_WAYS) - 1 ? 1u << way : used);

  if (store) {
    if (v->store[v->store_at] > t) stall(v, &t, v->store[v->store_at] - t);
    v->store[v->store_at] = done;
    v->store_at = (v->store_at + 1) % STORES;
  } else {
    await(v, info, line, number, done, &t);
  }
  if (config.vcpus > 1 && t > v->next_sync) clock_sync(v);
}

void core_pending(struct vcpu *v, struct insn *insn, qemu_plugin_meminfo_t info, unsigned set, unsigned way, bool store) {
  uint64_t number = *v->insns - insn->after;
  uint64_t t = v->base_ps + number * INSN_PS + v->stall_ps;
  uint64_t ready = v->l1_ready[set][way], line = v->l1_line[set][way] & LINE;
  if (ready <= t) {
    v->l1_line[set][way] &= ~PENDING;
    return;
  }
  if (store) return;
  for (unsigned i = v->load_count; i-- > 0;) {
    struct load *l = &v->load[(v->load_first + i) % LOADS];
    if (l->line == line) {
      note_value(l, info);
      return;
    }
  }
  retire(v, number, &t);
  if (ready > t) await(v, info, line, number, ready, &t);
}
