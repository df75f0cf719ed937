/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Address translation: the second-level TLB and the page walker. See tlb.c. */
#ifndef HEARTH_TLB_H
#define HEARTH_TLB_H
#include "vcpu.h"

/* What a page walk needs of the caches: how long reading this physical line takes from time t, ps. */
typedef uint64_t (*tlb_read)(struct vcpu *v, uint64_t line, uint64_t t);

/* How long the translation of an address takes at time t, ps. */
uint64_t tlb_translate(struct vcpu *v, uint64_t address, uint64_t t, tlb_read read);
/* The physical address of a virtual one by the guest's page tables, or ~0; takes no simulated time. */
uint64_t tlb_physical(struct vcpu *v, uint64_t address);
/* The page table may be another one: forgets everything. */
void tlb_flush(struct vcpu *v);
#endif
