/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tiers.
 *
 * Bandwidth. Simulated time is cut into steps of 1 us, and each holds so many lines of a tier. A line that finds its
 * step full is served in the next one with room. Reads and writes take 64 B / bandwidth of their direction from the
 * shared time of the step, so that a mix is harmonic; where the platform has a figure for one read to one write
 * (mixed), the shared time is stretched such that exactly this mix reaches it, and each direction keeps its own limit.
 * vCPUs are up to SYNC_PS apart, so the one ahead leaves room for what the others used lately (at most their fair
 * share): without it the one behind would find full steps that it would in truth have shared.
 *
 * Latency. Idle latency rises with the load of the last steps as u * u / (1 - u), hardly at first, through
 * the platform's loaded latency where it has one (Jorda et al., ecoHMEM, CLUSTER 2022, Fig. 2: 90 to 117 ns of DRAM and 185
 * to 239 ns of PMem at 22 GB/s), else through twice the idle one at 95 %; never above 2.2 times idle: what comes on top
 * of that near saturation is waiting for a step with room.
 *
 * Writes are only waited for when the tier is further behind than its queue holds.
 *
 * Memory mode. The fast tier is a direct-mapped cache of lines in front of the slow one, as Optane's memory mode
 * (Izraelevitz et al., arXiv:1903.05714, section 2.1.1); all of the guest's memory is then slow memory.
 */
#define _GNU_SOURCE
#include "memory.h"
#include "clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  RECENT_PS = 8000000, /* load is what was used in the last so many ps */
  QUEUE_PS = 1000000,  /* how far a tier may be behind with writes before a writer waits */
  CURVE = 256,
};

/* What a vCPU leaves for another one that is behind and lately used the fraction `d` of a tier: all of it while that is
 * little, so that the other never waits for what it would have had; a little less of more, since what varies below would
 * else be lost to both. At most a fair share. */
static double left_for(double d) {
  double fair = 1.0 / (double)config.vcpus, wanted = d < 0.1 ? d : 0.1 + 0.85 * (d - 0.1);
  return wanted < fair ? wanted : fair;
}

static struct tier {
  uint64_t read_ps, write_ps;             /* time of a line in its own direction */
  uint64_t shared_read_ps, shared_write_ps; /* and of the time that both share */
  uint64_t latency_ps;
  uint64_t extra_ps[CURVE + 1];           /* latency above idle, by load */
} tiers[WINDOW_TIERS];

static char *ram[WINDOW_TIERS];   /* where QEMU keeps each node's memory */
static uint64_t total, below_4g;
static uint32_t *cached;          /* memory mode: what each line of fast memory holds: tag << 1 | dirty; ~0: nothing */
static uint64_t cached_lines;

/* QEMU's q35 puts so much memory below 4 GiB, and the rest above. */
static uint64_t lower_memory(uint64_t bytes) {
  if (bytes < 0xb0000000u) return bytes;
  return 0x80000000u;
}

/* The nodes' memory is memfds that QEMU has mapped; their sizes tell which is which. */
static bool find_ram(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[512];
  while (maps && fgets(line, sizeof line, maps)) {
    uint64_t from, to;
    if (!strstr(line, "memfd:memory-backend-memfd") || sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) != 2) continue;
    for (uint64_t i = 0; i < config.tiers; i++)
      if (config.tier[i].bytes == to - from) ram[i] = (char *)from;
  }
  if (maps) fclose(maps);
  for (uint64_t i = 0; i < config.tiers; i++) {
    if (!ram[i]) return false;
    for (uint64_t j = 0; j < i; j++)
      if (ram[i] == ram[j]) return false;
  }
  return true;
}

bool memory_make(void) {
  total = 0;
  for (uint64_t i = 0; i < config.tiers; i++) {
    const struct tier_config *c = &config.tier[i];
    struct tier *t = &tiers[i];
    total += c->bytes;
    t->read_ps = (uint64_t)(64000 / c->read_gbps + 0.5);
    t->write_ps = (uint64_t)(64000 / c->write_gbps + 0.5);
    double stretch = c->mixed_gbps > 0 ? c->mixed_gbps / 2 * (1 / c->read_gbps + 1 / c->write_gbps) : 1;
    t->shared_read_ps = (uint64_t)((double)t->read_ps / stretch + 0.5);
    t->shared_write_ps = (uint64_t)((double)t->write_ps / stretch + 0.5);
    t->latency_ps = (uint64_t)(c->latency_ns * 1000);
    bool known = c->loaded_ns > c->latency_ns && c->loaded_gbps > 0;
    double load = known ? c->loaded_gbps / c->read_gbps : 0.95;
    if (load > 0.95) load = 0.95;
    double more = (known ? c->loaded_ns - c->latency_ns : c->latency_ns) * 1000 / (load * load / (1 - load));
    for (unsigned i = 0; i <= CURVE; i++) {
      double u = (double)i / (CURVE + 1), most = 1.2 * c->latency_ns * 1000, extra = more * u * u / (1 - u);
      t->extra_ps[i] = (uint64_t)(extra < most ? extra : most);
    }
  }
  below_4g = lower_memory(total);
  cached_lines = config.memory_mode_bytes / 64;
  if (cached_lines) {
    cached = malloc(cached_lines * sizeof *cached);
    if (!cached) return false;
    memset(cached, 0xff, cached_lines * sizeof *cached);
  }
  for (unsigned i = 0; i < WINDOW_VCPUS; i++) {
    vcpus[i].slot = calloc(config.tiers, sizeof *vcpus[i].slot);
    if (!vcpus[i].slot) return false;
  }
  return find_ram();
}

/* Offset into the guest's memory, all nodes in a row; `total` or more if there is none. */
static inline uint64_t offset(uint64_t physical) {
  if (physical < below_4g) return physical;
  if (physical < 1ull << 32) return total;
  return physical - (1ull << 32) + below_4g;
}

static inline unsigned node(uint64_t at) {
  unsigned n = 0;
  while (n + 1 < config.tiers && at >= config.tier[n].bytes) at -= config.tier[n++].bytes;
  return n;
}

void *memory_at(uint64_t physical) {
  uint64_t at = offset(physical);
  if (at >= total) return NULL;
  for (uint64_t n = 0; n < config.tiers; at -= config.tier[n++].bytes)
    if (at < config.tier[n].bytes) return ram[n] + at;
  return NULL;
}

uint64_t memory_frame(uint64_t line) {
  uint64_t at = offset(line << 6);
  return at < total ? at >> 12 : ~0ull;
}

uint64_t memory_frames(void) { return total >> 12; }

bool memory_has(uint64_t line) { return offset(line << 6) < total; }

static unsigned slow_node(void) { return config.fast_node == 0 ? 1 : 0; }

unsigned memory_tier(uint64_t line) {
  if (!cached_lines) return node(offset(line << 6));
  uint64_t at = offset(line << 6) >> 6;
  return cached[at % cached_lines] >> 1 == (uint32_t)(at / cached_lines) ? (unsigned)config.fast_node : slow_node();
}

static uint64_t most_of(const struct demand *d) {
  uint64_t most = d->shared > d->own[0] ? d->shared : d->own[0];
  return d->own[1] > most ? d->own[1] : most;
}

/* The fraction of a tier that a vCPU used in the last whole step before a time of its own clock; if it used nothing since an
 * earlier one, the mean from there on. Clocks of vCPUs are some steps apart, so another one's time says nothing of it. */
static double demand_of(const struct vcpu *v, unsigned tier, uint64_t t) {
  const struct demand *d = &v->demand[tier];
  uint64_t step = t / RECENT_PS, since = d->step;
  return step <= since + 1 ? d->before : (double)most_of(d) / RECENT_PS / (double)(step - since);
}

static void use(struct vcpu *v, unsigned tier, uint64_t t, uint64_t shared, uint64_t own, bool write) {
  struct demand *d = &v->demand[tier];
  uint64_t step = t / RECENT_PS;
  if (step > d->step) {
    d->before = (double)most_of(d) / RECENT_PS / (double)(step - d->step);
    d->shared = d->own[0] = d->own[1] = 0;
    d->step = step;
  }
  d->shared += shared;
  d->own[write] += own;
}

static inline struct slot *slot_of(struct vcpu *v, unsigned tier, uint64_t step) {
  struct slot *s = &v->slot[tier][step % SLOTS];
  if (s->step != (uint32_t)step) *s = (struct slot){.step = (uint32_t)step};
  return s;
}

/* Takes a line's time from the tier; returns when the line is served. *load: how loaded the tier was lately, 0 to 1. */
static uint64_t serve(struct vcpu *v, unsigned number, uint64_t t, bool write, double *load) {
  const struct tier *tier = &tiers[number];
  uint64_t shared = write ? tier->shared_write_ps : tier->shared_read_ps;
  uint64_t own = write ? tier->write_ps : tier->read_ps;
  uint64_t left = SLOT_PS;
  double loaded = demand_of(v, number, t);
  if (config.vcpus > 1) {
    double others = 0;
    for (unsigned i = 0; i < config.vcpus; i++) {
      const struct vcpu *o = &vcpus[i];
      if (o == v || !o->exists || o->idle) continue;
      uint64_t there = vcpu_time(o);
      double d = demand_of(o, number, there);
      loaded += d;
      if (there < t) others += left_for(d);
    }
    left -= (uint64_t)(others * SLOT_PS);
  }
  if (load) *load = loaded;
  use(v, number, t, shared, own, write);
  uint64_t first = t / SLOT_PS, step = first;
  for (; step - first < SLOTS / 2; step++) {
    struct slot *s = slot_of(v, number, step);
    uint32_t all = s->shared, same = write ? s->written : s->read;
    if (all >= left || same >= left) continue;
    for (unsigned i = 0; i < config.vcpus; i++) {
      if (&vcpus[i] == v) continue;
      const struct slot *o = &vcpus[i].slot[number][step % SLOTS];
      if (o->step != (uint32_t)step) continue;
      all += o->shared;
      same += write ? o->written : o->read;
    }
    if (all >= SLOT_PS || same >= SLOT_PS) continue;
    /* What does not fit into the step is taken from the next, so that no time is given away. */
    uint64_t over = all + shared > SLOT_PS ? all + shared - SLOT_PS : 0;
    s->shared += (uint32_t)(shared - over);
    *(write ? &s->written : &s->read) += (uint32_t)own;
    if (over) slot_of(v, number, step + 1)->shared += (uint32_t)over;
    uint64_t at = step * SLOT_PS + (step == first ? 0 : all);
    return at > t ? at : t;
  }
  return step * SLOT_PS;
}

static void count(unsigned tier, uint64_t t, bool write) {
  if (!window->step_ps || t < window->begin_ps) return;
  uint64_t step = (t - window->begin_ps) / window->step_ps;
  if (step >= WINDOW_STEPS) return;
  __atomic_fetch_add(write ? &window->step[step].written[tier] : &window->step[step].read[tier], 1, __ATOMIC_RELAXED);
}

static uint64_t read_from(struct vcpu *v, unsigned number, uint64_t t) {
  double load;
  uint64_t at = serve(v, number, t, false, &load);
  count(number, at, false);
  unsigned place = load >= 1 ? CURVE : (unsigned)(load * (CURVE + 1));
  const struct tier *tier = &tiers[number];
  return at + tier->latency_ps + tier->extra_ps[place < CURVE ? place : CURVE];
}

static uint64_t write_to(struct vcpu *v, unsigned number, uint64_t t) {
  uint64_t at = serve(v, number, t, true, NULL);
  count(number, at, true);
  v->seen->tier[number].writes++;
  return at - t > QUEUE_PS ? at - t - QUEUE_PS : 0;
}

uint64_t memory_read(struct vcpu *v, uint64_t line, uint64_t t, enum fetch why, unsigned *served) {
  unsigned tier = memory_tier(line);
  *served = tier;
  uint64_t done = read_from(v, tier, t);
  if (cached_lines) {
    uint64_t at = offset(line << 6) >> 6;
    uint32_t *entry = &cached[at % cached_lines];
    if (tier == config.fast_node) {
      window->memory_hits[v - vcpus]++;
    } else {
      /* The line takes its place in fast memory, and a changed one that was there goes back. */
      uint64_t held = 0;
      if (*entry != UINT32_MAX && *entry & 1) held = write_to(v, slow_node(), done);
      held += write_to(v, (unsigned)config.fast_node, done);
      *entry = (uint32_t)(at / cached_lines) << 1;
      done += held;
    }
  }
  struct window_vcpu *seen = v->seen;
  switch (why) {
  case FETCH_LOAD: seen->tier[tier].loads++; break;
  case FETCH_STORE: seen->tier[tier].stores++; break;
  case FETCH_AHEAD: seen->tier[tier].prefetches++; break;
  case FETCH_WALK: seen->tier[tier].walks++; break;
  }
  return done;
}

uint64_t memory_write(struct vcpu *v, uint64_t line, uint64_t t) {
  if (!cached_lines) return write_to(v, memory_tier(line), t);
  uint64_t at = offset(line << 6) >> 6, held = 0;
  uint32_t *entry = &cached[at % cached_lines];
  if (*entry >> 1 != (uint32_t)(at / cached_lines) && *entry != UINT32_MAX && *entry & 1)
    held = write_to(v, slow_node(), t);
  *entry = (uint32_t)(at / cached_lines) << 1 | 1;
  return held + write_to(v, (unsigned)config.fast_node, t);
}
