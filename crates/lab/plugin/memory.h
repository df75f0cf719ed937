/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tiers: latency and bandwidth of main memory. See memory.c. */
#ifndef HEARTH_MEMORY_H
#define HEARTH_MEMORY_H
#include "vcpu.h"

enum fetch { FETCH_LOAD, FETCH_STORE, FETCH_AHEAD, FETCH_WALK };

bool memory_make(void);
/* Host address of a physical address of the guest, or NULL if there is no memory. */
void *memory_at(uint64_t physical);
/* Whether a physical line is main memory. */
/* Number of the 4 KiB frame that a line lies in, below memory_frames(); ~0: no memory. */
uint64_t memory_frame(uint64_t line);
uint64_t memory_frames(void);
bool memory_has(uint64_t line);
/* Tier that a line is served by now. */
unsigned memory_tier(uint64_t line);
/* Reads a line at time t; returns when it arrives. *tier: who served it. */
uint64_t memory_read(struct vcpu *v, uint64_t line, uint64_t t, enum fetch why, unsigned *tier);
/* Writes a line back at time t; returns how long the writer is held up, ps. */
uint64_t memory_write(struct vcpu *v, uint64_t line, uint64_t t);
#endif
