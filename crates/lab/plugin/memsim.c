/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The plugin: what QEMU calls. Until the model is switched on the guest runs as fast as QEMU can and in real time; then
 * every memory access goes through the model and time is simulated. The guest switches it by a no-op that no compiler
 * makes, `nopl imm32(%rdi,%rdi,8)` with an immediate of ours; switching throws all translated code away.
 *
 * What observes the program (recorder, launcher, the guest's agent) would have CPUs of its own on a machine of real size.
 * It says by two more of these when it works: aside, which takes no simulated time and touches no cache. That ends by
 * itself where the vCPU halts, goes on with another address space, or spins in the kernel.
 */
#include "clock.h"
#include "config.h"
#include "core.h"
#include "memory.h"
#include "sample.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

EXPORT int qemu_plugin_version = PLUGIN_API_VERSION;

struct vcpu vcpus[WINDOW_VCPUS];
struct window *window;

enum { MAGIC_ON = 1, MAGIC_OFF = 2, MAGIC_PROCESS = 3, MAGIC_ASIDE = 4, MAGIC_BACK = 5 };
static const uint8_t magic_bytes[8] = {0x0f, 0x1f, 0x84, 0xff, 0, 0x00, 0x48, 0x4c};

struct counts {
  uint64_t instructions;
  uint64_t since_sync;
};
static struct qemu_plugin_scoreboard *counts;
static qemu_plugin_u64 instructions, since_sync;
static qemu_plugin_id_t self;
static volatile bool on;
static uint64_t on_since_ns, on_since_ps;
static uint64_t insns_before[WINDOW_VCPUS], insns_at_on[WINDOW_VCPUS];

static void publish(struct vcpu *v) {
  struct window_vcpu *seen = v->seen;
  unsigned c = (unsigned)(v - vcpus);
  if (v->aside) return;
  if (on) seen->instructions = insns_before[c] + *v->insns - insns_at_on[c];
  seen->accesses = v->accesses;
  uint64_t t = vcpu_time(v);
  seen->time_ps = t - window->begin_ps;
  if (seen->time_ps > window->now_ps) window->now_ps = seen->time_ps;
}

static void aside(struct vcpu *v) {
  if (!clock_simulated() || v->aside) return;
  if (on) core_drain(v);
  publish(v);
  clock_aside(v);
  v->aside_kernel = 0;
}

static void back(struct vcpu *v) {
  if (!v->aside) return;
  insns_at_on[v - vcpus] += *v->insns - v->aside_insns;
  clock_back(v);
}

/* The kernel spins for a lock until some time has passed (a semaphore that readers have), and while a vCPU is aside none
 * passes: no tick comes either that would have it give way to whoever has the lock. So that is waiting, too, and ends the
 * work aside. It is told by its length, in quanta that end in the kernel one after the other; a system call that is as long
 * without waiting takes simulated time from there on, which does no harm. */
static bool spins(struct vcpu *v, bool in_kernel) {
  enum { LONG = 2000 };
  v->aside_kernel = in_kernel ? v->aside_kernel + 1 : 0;
  return v->aside_kernel > LONG;
}

static void on_quantum(unsigned c, void *in_kernel) {
  struct vcpu *v = &vcpus[c];
  ((struct counts *)qemu_plugin_scoreboard_find(counts, c))->since_sync = 0;
  if (!clock_simulated()) return;
  if (v->aside) {
    if (!spins(v, in_kernel != NULL)) return;
    back(v);
  }
  publish(v);
  if (on && c == 0) window->host_ns += host_ns() - on_since_ns, on_since_ns = host_ns();
  if (config.vcpus > 1) clock_sync(v);
}

static inline void access_memory(unsigned c, qemu_plugin_meminfo_t info, uint64_t address, void *data, bool store) {
  struct vcpu *v = &vcpus[c];
  uint64_t line = address >> 6;
  unsigned set = line & (L1_SETS - 1);
  const uint64_t *tags = v->l1_tag[set];
  v->accesses++;
  for (unsigned way = 0; way < L1_WAYS; way++) {
    if (tags[way] != line) continue;
    uint64_t *has = &v->l1_line[set][way];
    if (store) *has |= DIRTY;
    unsigned used = v->l1_used[set] | 1u << way;
    v->l1_used[set] = (uint8_t)(used == (1u << L1_WAYS) - 1 ? 1u << way : used);
    if (__builtin_expect(!!(*has & PENDING), 0)) core_pending(v, data, info, set, way, store);
    return;
  }
  core_miss(v, data, info, address, store);
}

static void on_load(unsigned c, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
  access_memory(c, info, address, data, false);
}

static void on_store(unsigned c, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
  access_memory(c, info, address, data, true);
}

static void on_page_table(unsigned c, void *unused) {
  (void)unused;
  back(&vcpus[c]);
  if (on) core_switch(&vcpus[c]);
}

static void install(qemu_plugin_id_t id);

static void switch_on(struct vcpu *by) {
  if (on) return;
  window->on_count++;
  if (!clock_simulated()) {
    if (!memory_make() || !core_make() || !sample_make()) {
      fprintf(stderr, "memsim: the nodes' memory was not found, or memory for the model ran out\n");
      window->failed = 1;
      return;
    }
    for (unsigned i = 0; i < WINDOW_VCPUS; i++) {
      struct vcpu *v = &vcpus[i];
      if (!v->exists) continue;
      v->insns = &((struct counts *)qemu_plugin_scoreboard_find(counts, i))->instructions;
      core_reset(v);
      v->page_table_stale = true;
    }
    clock_start();
    for (unsigned i = 0; i < WINDOW_VCPUS && !window->begin_ps; i++)
      if (vcpus[i].exists) window->begin_ps = vcpu_time(&vcpus[i]);
  }
  for (unsigned i = 0; i < WINDOW_VCPUS; i++)
    if (vcpus[i].exists) insns_at_on[i] = vcpus[i].aside ? vcpus[i].aside_insns : *vcpus[i].insns;
  on_since_ns = host_ns();
  on_since_ps = vcpu_time(by);
  on = true;
  window->on = 1;
  qemu_plugin_reset(self, install);
}

static void switch_off(struct vcpu *by) {
  if (!on) return;
  for (unsigned i = 0; i < WINDOW_VCPUS; i++) {
    if (!vcpus[i].exists) continue;
    publish(&vcpus[i]);
    insns_before[i] = vcpus[i].seen->instructions;
  }
  window->host_ns += host_ns() - on_since_ns;
  /* Another vCPU may have switched it on, and be a little ahead of this one. */
  uint64_t now = vcpu_time(by);
  window->on_ps += now > on_since_ps ? now - on_since_ps : 0;
  on = false;
  window->on = 0;
  qemu_plugin_reset(self, install);
}

static void on_magic(unsigned c, void *data) {
  struct vcpu *v = &vcpus[c];
  switch ((uintptr_t)data) {
  case MAGIC_ON:
    back(v);
    switch_on(v);
    break;
  case MAGIC_OFF:
    back(v);
    if (on) core_drain(v);
    switch_off(v);
    break;
  case MAGIC_PROCESS: sample_process(v); break;
  case MAGIC_ASIDE: aside(v); break;
  case MAGIC_BACK: back(v); break;
  }
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, QEMU_PLUGIN_INLINE_ADD_U64, instructions, count);
  if (clock_simulated()) {
    enum { QUANTUM = 10000 };
    bool in_kernel = (int64_t)qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)) < 0;
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, QEMU_PLUGIN_INLINE_ADD_U64, since_sync, count);
    qemu_plugin_register_vcpu_tb_exec_cond_cb(block, on_quantum, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_COND_GE, since_sync,
                                              QUANTUM, (void *)(uintptr_t)in_kernel);
  }
  struct insn *made = on ? calloc(count, sizeof *made) : NULL;
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
    uint8_t bytes[8];
    size_t size = qemu_plugin_insn_data(insn, bytes, sizeof bytes);
    if (size == 8 && !memcmp(bytes, magic_bytes, 4) && !memcmp(bytes + 5, magic_bytes + 5, 3))
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_magic, QEMU_PLUGIN_CB_R_REGS, (void *)(uintptr_t)bytes[4]);
    /* mov %reg, %cr3 */
    if (clock_simulated() && size >= 3 && bytes[size - 3] == 0x0f && bytes[size - 2] == 0x22 && (bytes[size - 1] & 0x38) == 0x18)
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_page_table, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (!made) continue;
    made[i].ip = qemu_plugin_insn_vaddr(insn);
    made[i].after = (uint32_t)(count - 1 - i);
    qemu_plugin_register_vcpu_mem_cb(insn, on_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, &made[i]);
    qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, &made[i]);
  }
}

static void on_vcpu(qemu_plugin_id_t id, unsigned c) {
  (void)id;
  if (c >= WINDOW_VCPUS) {
    fprintf(stderr, "memsim: more than %d vCPUs\n", WINDOW_VCPUS);
    window->failed = 1;
    return;
  }
  vcpus[c].seen = &window->vcpu[c];
  vcpus[c].insns = &((struct counts *)qemu_plugin_scoreboard_find(counts, c))->instructions;
  vcpus[c].exists = true;
}

static void on_idle(qemu_plugin_id_t id, unsigned c) {
  (void)id;
  back(&vcpus[c]);
  if (on) core_drain(&vcpus[c]);
  clock_idle(&vcpus[c]);
  if (clock_simulated()) publish(&vcpus[c]);
}

static void on_resume(qemu_plugin_id_t id, unsigned c) {
  (void)id;
  clock_resume(&vcpus[c]);
}

static void install(qemu_plugin_id_t id) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
  qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
  qemu_plugin_register_vcpu_idle_cb(id, on_idle);
  qemu_plugin_register_vcpu_resume_cb(id, on_resume);
}

static const char *open_window(const char *path) {
  int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat stat;
  if (fd < 0 || fstat(fd, &stat)) return "the window cannot be opened";
  if ((uint64_t)stat.st_size < sizeof *window) return "the window is too small";
  window = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (window == MAP_FAILED) return "the window cannot be mapped";
  if (window->magic != WINDOW_MAGIC || window->bytes != (uint64_t)stat.st_size) return "that is not a window";
  if (window->samples & (window->samples - 1) ||
      window->samples_at + window->samples * sizeof(struct window_sample) > window->bytes)
    return "the window's ring of samples is not right";
  return NULL;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  const char *wrong = info->system_emulation ? NULL : "only whole machines are emulated";
  const char *window_path = NULL, *config_path = NULL;
  for (int i = 0; i < argc; i++) {
    if (!strncmp(argv[i], "config=", 7)) config_path = argv[i] + 7;
    if (!strncmp(argv[i], "window=", 7)) window_path = argv[i] + 7;
  }
  if (!wrong && (!window_path || !config_path)) wrong = "wants config=FILE and window=FILE";
  if (!wrong) wrong = config_read(config_path);
  if (!wrong) wrong = open_window(window_path);
  if (wrong) {
    fprintf(stderr, "memsim: %s\n", wrong);
    return -1;
  }
  self = id;
  counts = qemu_plugin_scoreboard_new(sizeof(struct counts));
  instructions = (qemu_plugin_u64){counts, offsetof(struct counts, instructions)};
  since_sync = (qemu_plugin_u64){counts, offsetof(struct counts, since_sync)};
  install(id);
  return 0;
}
