/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated time. This object is also preloaded into QEMU, where it takes the place of clock_gettime and ppoll: the
 * guest's clock (CLOCK_MONOTONIC) then is the time of the furthest vCPU, and a main loop that waits for a timer while
 * every vCPU is halted gets there at once. qemu_plugin_update_ns does not do it: under TCG it waits in real time.
 *
 * vCPUs run in conservative lock-step. One that is ahead waits for the others, but not for ever: the other may itself
 * wait for this one (exclusive sections), which shows in that its time stands still and its thread sleeps.
 */
#define _GNU_SOURCE
#include "clock.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Furthest simulated time of any vCPU, ps. Only grows. */
static volatile uint64_t furthest;
static volatile bool simulated;

uint64_t host_ns(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool clock_simulated(void) { return simulated; }

static uint64_t advance(uint64_t to) {
  uint64_t seen = __atomic_load_n(&furthest, __ATOMIC_RELAXED);
  while (to > seen && !__atomic_compare_exchange_n(&furthest, &seen, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return to > seen ? to : seen;
}

static uint64_t now_ps(void) {
  uint64_t most = 0;
  for (unsigned i = 0; i < WINDOW_VCPUS; i++)
    if (vcpus[i].exists && !vcpus[i].idle) {
      uint64_t t = vcpu_time(&vcpus[i]);
      if (t > most) most = t;
    }
  return advance(most);
}

static bool all_idle(void) {
  for (unsigned i = 0; i < WINDOW_VCPUS; i++)
    if (vcpus[i].exists && !vcpus[i].idle) return false;
  return true;
}

void clock_start(void) {
  uint64_t now = host_ns() * 1000;
  for (unsigned i = 0; i < WINDOW_VCPUS; i++)
    if (vcpus[i].exists) {
      vcpus[i].base_ps = now - *vcpus[i].insns * INSN_PS - vcpus[i].stall_ps;
      vcpus[i].next_sync = now;
    }
  furthest = now;
  __atomic_store_n(&simulated, true, __ATOMIC_RELEASE);
}

void clock_idle(struct vcpu *v) {
  if (simulated) advance(vcpu_time(v));
  v->idle = true;
}

void clock_resume(struct vcpu *v) {
  if (simulated) {
    uint64_t now = now_ps(), mine = vcpu_time(v);
    if (mine < now) {
      v->base_ps += now - mine;
      v->seen->idle_ps += now - mine;
    }
  }
  v->idle = false;
}

void clock_aside(struct vcpu *v) {
  if (!simulated || v->aside) return;
  clock_idle(v);
  v->aside_insns = *v->insns;
  v->aside_accesses = v->accesses;
  v->aside = true;
}

void clock_back(struct vcpu *v) {
  if (!v->aside) return;
  v->base_ps -= (*v->insns - v->aside_insns) * INSN_PS;
  v->accesses = v->aside_accesses;
  v->aside = false;
  clock_resume(v);
}

/* Whether a thread of QEMU sleeps, rather than runs or waits for a processor or a disk of the host. */
static bool asleep(int tid) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return true;
  text[length] = 0;
  const char *name_end = strrchr(text, ')');
  return name_end && name_end[1] == ' ' && name_end[2] != 'R' && name_end[2] != 'D';
}

void clock_sync(struct vcpu *v) {
  if (!v->tid) {
    v->tid = (int)syscall(SYS_gettid);
    prctl(PR_SET_TIMERSLACK, 1);
  }
  uint64_t mine = vcpu_time(v), before = 0;
  advance(mine);
  v->next_sync = mine + SYNC_PS / 2;
  unsigned still = 0;
  for (unsigned turn = 0;; turn++) {
    uint64_t least = mine;
    const struct vcpu *slowest = NULL;
    for (unsigned i = 0; i < WINDOW_VCPUS; i++) {
      const struct vcpu *other = &vcpus[i];
      if (other == v || !other->exists || other->idle) continue;
      uint64_t t = vcpu_time(other);
      if (t < least) least = t, slowest = other;
    }
    if (mine - least < SYNC_PS) return;
    if (turn == 0) window->waits++;
    if (turn < 100) {
      __builtin_ia32_pause();
      continue;
    }
    still = least == before ? still + 1 : 0;
    before = least;
    if (still >= 20 && slowest && asleep(slowest->tid)) {
      window->giveups++;
      return;
    }
    struct timespec nap = {0, 5000};
    syscall(SYS_nanosleep, &nap, NULL);
  }
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t) {
  if (id != CLOCK_MONOTONIC || !simulated) return (int)syscall(SYS_clock_gettime, id, t);
  uint64_t ns = now_ps() / 1000;
  t->tv_sec = (time_t)(ns / 1000000000u);
  t->tv_nsec = (long)(ns % 1000000000u);
  return 0;
}

/* Whether any thread of QEMU other than this one runs or waits for a processor of the host: while all vCPUs are halted,
 * one that does the guest's input or output. On a busy host that may take longer than DEVICES_NS. */
static bool devices_at_work(void) {
  DIR *tasks = opendir("/proc/self/task");
  struct dirent *task;
  int self = (int)syscall(SYS_gettid);
  bool any = false;
  while (tasks && !any && (task = readdir(tasks))) {
    int tid = atoi(task->d_name);
    any = tid > 0 && tid != self && !asleep(tid);
  }
  if (tasks) closedir(tasks);
  return any;
}

/* How long QEMU really waits, ns. While vCPUs run, simulated timers may be due sooner or later than their distance
 * says, so it looks again soon. While all are halted a device may still be at work for the guest (the shared file
 * system): that work takes no simulated time, so it gets a while to finish before time jumps to the next timer. */
enum { LOOK_AGAIN_NS = 200000, DEVICES_NS = 2000000 };

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
  struct timespec wait, *waiting = NULL;
  if (timeout) {
    wait = *timeout;
    waiting = &wait;
  }
  bool timed = simulated && timeout && (timeout->tv_sec || timeout->tv_nsec);
  if (!timed) return (int)syscall(SYS_ppoll, fds, count, waiting, mask, 8);
  uint64_t wanted = ((uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec) * 1000;
  uint64_t began = now_ps();
  bool idle = all_idle();
  wait = (struct timespec){0, idle ? DEVICES_NS : LOOK_AGAIN_NS};
  int ready = (int)syscall(SYS_ppoll, fds, count, waiting, mask, 8);
  if (ready == 0 && idle && all_idle() && !devices_at_work()) advance(began + wanted);
  return ready;
}
