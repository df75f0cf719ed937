/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The virtual PEBS. One of period LLC misses of a process that said who it is becomes a record in the window's ring,
 * which the recorder in the guest reads like any other sampler's. Which one is random, or a program whose misses come in
 * a pattern could fall in step with the sampler. A line that the prefetcher fetched counts when it is
 * first used, so that period 1 tells of every line that a program got from memory, and by which access. What else moves, as
 * counters of a memory controller would see it, is told too: lines written back, and lines read beside all misses.
 *
 * Processes are told apart by their page tables (CR3). The runtime in a process makes the introduction, by a no-op that
 * the plugin knows (plugin.c).
 */
#define _GNU_SOURCE
#include "sample.h"
#include "clock.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_register(const char *name) {
  static __thread GByteArray *bytes;
  if (!bytes) bytes = g_byte_array_new();
  GArray *all = qemu_plugin_get_registers();
  const qemu_plugin_reg_descriptor *each = (const qemu_plugin_reg_descriptor *)(void *)all->data;
  uint64_t value = 0;
  for (unsigned i = 0; i < all->len; i++) {
    if (strcmp(each[i].name, name)) continue;
    g_byte_array_set_size(bytes, 0);
    int length = qemu_plugin_read_register(each[i].handle, bytes);
    if (length > 0) memcpy(&value, bytes->data, (size_t)length < sizeof value ? (size_t)length : sizeof value);
    break;
  }
  g_array_unref(all);
  return value;
}

static uint64_t pid_of(uint64_t page_table) {
  uint64_t known = __atomic_load_n(&window->processes, __ATOMIC_ACQUIRE);
  for (uint64_t i = known; i-- > 0;)
    if (window->process[i].page_table == page_table) return window->process[i].pid;
  return 0;
}

void sample_page_table(struct vcpu *v) {
  v->page_table_stale = false;
  uint64_t now = read_register("cr3") & 0x000ffffffffff000ull;
  if (now == v->page_table) return;
  v->page_table = now;
  v->pid = pid_of(now);
}

/* Page tables are used again after their process has ended, so the last entry of one is the one that counts. */
void sample_process(struct vcpu *v) {
  sample_page_table(v);
  uint64_t pid = read_register("rdi");
  static volatile int busy;
  while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
  uint64_t at = 0;
  while (at < window->processes && window->process[at].page_table != v->page_table) at++;
  if (at < WINDOW_PROCESSES) {
    window->process[at] = (struct window_process){.page_table = v->page_table, .pid = pid};
    if (at == window->processes) __atomic_store_n(&window->processes, at + 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
  v->pid = pid;
}

static bool has_room(uint64_t number) {
  return number - __atomic_load_n(&window->taken, __ATOMIC_ACQUIRE) < window->samples;
}

/* The ring is full: this vCPU halts while the reader, on another one, makes room. Time goes on meanwhile, so that a
 * program that is sampled densely is slowed rather than seen in part. If nothing is taken the reader waits for this very
 * vCPU, and the sample is dropped. */
static bool await_room(struct vcpu *v) {
  enum { NAP_NS = 20000, PATIENCE = 500 };
  uint64_t taken = window->taken;
  bool room = false;
  clock_idle(v);
  for (unsigned still = 0; !room && still < PATIENCE; still++) {
    struct timespec nap = {0, NAP_NS};
    syscall(SYS_nanosleep, &nap, NULL);
    uint64_t now = __atomic_load_n(&window->taken, __ATOMIC_ACQUIRE);
    if (now != taken) still = 0;
    taken = now;
    /* Not for a single one, or every sample would wait. */
    room = window->given - taken < window->samples / 2;
  }
  clock_resume(v);
  return room;
}

/* Until the next sample: 1 to 2 * period - 1, the period on average. Each vCPU's are the same in every run (Marsaglia, Xorshift
 * RNGs, Journal of Statistical Software 8(14), 2003). */
static uint64_t interval(struct vcpu *v, uint64_t period) {
  if (!v->random) v->random = 0x9e3779b97f4a7c15ull * (uint64_t)(v - vcpus + 1);
  v->random ^= v->random << 13;
  v->random ^= v->random >> 7;
  v->random ^= v->random << 17;
  return 1 + v->random % (2 * period - 1);
}

/* So many samples are due after so many more; none when sampling has just been switched off. */
static uint32_t due(struct vcpu *v, uint64_t *countdown, uint64_t more) {
  uint64_t period = window->period;
  uint32_t samples = 0;
  if (!period) return 0;
  if (!*countdown || *countdown >= 2 * period) *countdown = interval(v, period);
  for (; more >= *countdown; samples++) {
    more -= *countdown;
    *countdown = interval(v, period);
  }
  *countdown -= more;
  return samples;
}

/* Puts a sample into the ring, with its time and number. */
static void put(struct vcpu *v, struct window_sample with, uint64_t start) {
  uint64_t number = __atomic_load_n(&window->given, __ATOMIC_RELAXED);
  do {
    if (!has_room(number) && !await_room(v)) {
      __atomic_fetch_add(&window->dropped, 1, __ATOMIC_RELAXED);
      return;
    }
  } while (!__atomic_compare_exchange_n(&window->given, &number, number + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  struct window_sample *s = (struct window_sample *)((char *)window + window->samples_at) + number % window->samples;
  with.sequence = s->sequence; /* not yet whole */
  with.time_ps = start - window->begin_ps;
  with.vcpu = (uint8_t)(v - vcpus);
  *s = with;
  __atomic_store_n(&s->sequence, number + 1, __ATOMIC_RELEASE);
}

void sample_miss(struct vcpu *v, const struct insn *insn, uint64_t address, unsigned tier, uint64_t start, uint64_t done,
                 uint64_t alone, bool store, bool ahead) {
  if (!window->period || !v->pid || (int64_t)insn->ip < 0 || (int64_t)address < 0 || !due(v, &v->countdown, 1)) return;
  put(v,
      (struct window_sample){.ip = insn->ip,
                             .address = address,
                             .pid = v->pid,
                             .latency_ns = store ? 0 : (uint32_t)((done - start) / 1000),
                             .alone_ns = (uint32_t)(alone / 1000),
                             .store = store,
                             .tier = (uint8_t)tier,
                             .ahead = ahead,
                             .count = 1},
      start);
}

/* Whose a frame is, and what was moved of it by the kernel before anybody's: page clearing is told as traffic of the first that
 * uses the page. Written without a lock by whoever uses it, so one of two that race is believed. */
static struct owner {
  uint64_t page, pid;
  uint32_t read, written;
} *owners;

bool sample_make(void) {
  owners = calloc(memory_frames(), sizeof *owners);
  return owners;
}

static void tell(struct vcpu *v, uint64_t pid, uint64_t address, enum window_traffic what, uint32_t lines, uint64_t t) {
  uint32_t count = due(v, &v->traffic_countdown[what - 1], lines);
  if (count) put(v, (struct window_sample){.address = address, .pid = pid, .traffic = (uint8_t)what, .count = count}, t);
}

void sample_owner(struct vcpu *v, uint64_t address, uint64_t line, bool store, uint64_t t) {
  uint64_t frame = window->period ? memory_frame(line) : ~0ull;
  if (frame == ~0ull) return;
  struct owner *o = &owners[frame];
  if ((int64_t)address >= 0 && v->pid) {
    struct owner before = *o;
    *o = (struct owner){.page = address >> 12, .pid = v->pid};
    if (before.read) tell(v, v->pid, address, WINDOW_BESIDE, before.read, t);
    if (before.written) tell(v, v->pid, address, WINDOW_WRITTEN, before.written, t);
  } else if (store && o->pid) {
    /* The kernel writes by its own address: it makes the frame ready for another. */
    *o = (struct owner){0};
  }
}

void sample_traffic(struct vcpu *v, uint64_t line, enum window_traffic what, uint64_t t) {
  uint64_t frame = window->period ? memory_frame(line) : ~0ull;
  if (frame == ~0ull) return;
  struct owner *o = &owners[frame];
  if (o->pid) tell(v, o->pid, o->page << 12 | (line & 63) << 6, what, 1, t);
  else if (what == WINDOW_WRITTEN) o->written++;
  else o->read++;
}
