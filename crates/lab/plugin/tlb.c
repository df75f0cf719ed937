/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Address translation. A miss of the second-level TLB walks the guest's own page tables (4 levels, in QEMU's memory), so
 * huge pages cost what huge pages cost: one level less, and 512 times the reach. The walker keeps the page-directory
 * entries it used last and reads the others through the caches, as Intel's walkers do (Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 3, section 4.10.3). Higher levels are taken as always cached. A write of CR3 flushes
 * everything, as it does without process-context identifiers, which QEMU does not have.
 */
#include "tlb.h"
#include "memory.h"
#include <string.h>

enum { PRESENT = 1, HUGE_PAGE = 1 << 7 };
#define FRAME 0x000ffffffffff000ull

void tlb_flush(struct vcpu *v) {
  memset(v->tlb, 0xff, sizeof v->tlb);
  v->tlb_last = ~0ull;
  for (unsigned i = 0; i < DIRECTORIES; i++) v->directory_tag[i] = ~0ull;
}

static uint64_t entry(uint64_t table, uint64_t index) {
  const uint64_t *at = memory_at((table & FRAME) + index * 8);
  return at ? *(const volatile uint64_t *)at : 0;
}

/* The entry of the page directory (level 2) for the address; 1 GiB pages are returned as such in *giant. */
static uint64_t directory_entry(struct vcpu *v, uint64_t address, uint64_t *at, bool *giant) {
  *giant = false;
  uint64_t upper = entry(v->page_table, address >> 39 & 511);
  if (!(upper & PRESENT)) return 0;
  upper = entry(upper, address >> 30 & 511);
  if (!(upper & PRESENT)) return 0;
  if (upper & HUGE_PAGE) {
    *giant = true;
    return upper;
  }
  *at = (upper & FRAME) + (address >> 21 & 511) * 8;
  return entry(upper, address >> 21 & 511);
}

uint64_t tlb_physical(struct vcpu *v, uint64_t address) {
  uint64_t at;
  bool giant;
  uint64_t directory = directory_entry(v, address, &at, &giant);
  if (!(directory & PRESENT)) return ~0ull;
  if (giant) return (directory & 0x000fffffc0000000ull) | (address & 0x3fffffff);
  if (directory & HUGE_PAGE) return (directory & 0x000fffffffe00000ull) | (address & 0x1fffff);
  uint64_t leaf = entry(directory, address >> 12 & 511);
  return leaf & PRESENT ? (leaf & FRAME) | (address & 0xfff) : ~0ull;
}

static inline uint64_t set_of(uint64_t key) { return (key >> 1 ^ key >> 10) & (TLB_SETS - 1); }

static bool find(struct vcpu *v, uint64_t key) {
  const uint64_t *set = v->tlb[set_of(key)];
  for (unsigned i = 0; i < TLB_WAYS; i++)
    if (set[i] == key) return true;
  return false;
}

uint64_t tlb_translate(struct vcpu *v, uint64_t address, uint64_t t, tlb_read read) {
  if (address >> 12 == v->tlb_last) return 0;
  v->tlb_last = address >> 12;
  uint64_t small = address >> 12 << 1, huge = address >> 21 << 1 | 1;
  if (find(v, small) || find(v, huge)) return 0;
  v->seen->walks++;
  uint64_t directory, at = 0, took = 0;
  unsigned kept = address >> 21 & (DIRECTORIES - 1);
  bool giant = false;
  if (v->directory_tag[kept] == address >> 21) {
    directory = v->directory[kept];
  } else {
    directory = directory_entry(v, address, &at, &giant);
    if (!(directory & PRESENT)) return 0;
    if (!giant) took = read(v, at >> 6, t);
    v->directory_tag[kept] = address >> 21;
    v->directory[kept] = directory;
  }
  uint64_t key = huge;
  if (!giant && !(directory & HUGE_PAGE)) {
    took += read(v, ((directory & FRAME) + (address >> 12 & 511) * 8) >> 6, t + took);
    key = small;
  }
  uint64_t set = set_of(key);
  v->tlb[set][v->tlb_next[set]] = key;
  v->tlb_next[set] = (uint8_t)((v->tlb_next[set] + 1) % TLB_WAYS);
  return took;
}
