/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated time, and how it becomes QEMU's: see clock.c. */
#ifndef HEARTH_CLOCK_H
#define HEARTH_CLOCK_H
#include "vcpu.h"

enum { SYNC_PS = 20000000 }; /* vCPUs are never further apart than 20 us of simulated time, if they can help it */

void clock_start(void);                /* from now on QEMU's time is simulated; called once, in a vCPU's thread */
bool clock_simulated(void);
uint64_t host_ns(void);
void clock_sync(struct vcpu *v);       /* waits until the slower vCPUs have caught up */
void clock_idle(struct vcpu *v);       /* the vCPU halts */
void clock_resume(struct vcpu *v);     /* and goes on */
void clock_aside(struct vcpu *v);      /* what the vCPU does from now on takes no time */
void clock_back(struct vcpu *v);       /* until now; nothing if it was not aside */
#endif
