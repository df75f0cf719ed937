/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The core: what an access costs. See core.c. */
#ifndef HEARTH_CORE_H
#define HEARTH_CORE_H
#include "vcpu.h"

bool core_make(void);
void core_reset(struct vcpu *v);
/* Empties the L1 (its tags are virtual) for another page table. */
void core_switch(struct vcpu *v);
/* An access that missed the L1. */
void core_miss(struct vcpu *v, struct insn *insn, qemu_plugin_meminfo_t info, uint64_t address, bool store);
/* An access to a line of the L1 whose data may still be under way. */
void core_pending(struct vcpu *v, struct insn *insn, qemu_plugin_meminfo_t info, unsigned set, unsigned way, bool store);
/* Waits for everything outstanding, as a serialising instruction does. */
void core_drain(struct vcpu *v);
#endif
