/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The virtual PEBS: sampled LLC misses, and whose they are. See sample.c. */
#ifndef HEARTH_SAMPLE_H
#define HEARTH_SAMPLE_H
#include "vcpu.h"

/* Reads the page table register again, after it was written. */
void sample_page_table(struct vcpu *v);
/* The process that runs says that its id is in rdi. */
void sample_process(struct vcpu *v);
/* A demand access got its line from memory: now, or because the prefetcher had asked for it (`ahead`). */
void sample_miss(struct vcpu *v, const struct insn *insn, uint64_t address, unsigned tier, uint64_t start, uint64_t done,
                 uint64_t alone, bool store, bool ahead);
/* This memory is accessed: lines of it that are moved later are told as the process's. */
void sample_owner(struct vcpu *v, uint64_t address, uint64_t line, bool store, uint64_t t);
/* A physical line was written back, or read beside all misses. */
void sample_traffic(struct vcpu *v, uint64_t line, enum window_traffic what, uint64_t t);
bool sample_make(void);
#endif
