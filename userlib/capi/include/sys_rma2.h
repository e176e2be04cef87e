/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What lies below librma2 (spec 10.3): for programs that work on a mapped queue or requester page themselves. A
 * program that uses the library's calls needs none of this, and must not use it on a port whose notifications it
 * also consumes through the library.
 */
#ifndef SYS_RMA2_H
#define SYS_RMA2_H

#include "arch_define.h"
#include "rma2.h"
#include "rma2_ioctl.h"

/* Entries that may be freed before the card is told (spec 3.3). */
#define RMA2_RP_LAZYNESS 32

/* Descriptors stored before are handed to the card (spec 2.4). */
#define flush_wc() EXTOLL_SFENCE()

/* Index of the entry behind the read pointer's, and of the ring place behind the write pointer's. */
#define INKRP(port) ((port)->queue.rp = ((port)->queue.rp + 1) % (port)->queue.size)
#define INKWP(port) ((port)->packet_wp = ((port)->packet_wp + 1) & 0xff)

/* Tells the card of the read pointer, when RMA2_RP_LAZYNESS entries were freed since the last time. */
#define UPDATE_RP(port)                                                                                        \
	do {                                                                                                   \
		if (((port)->queue.rp + (port)->queue.size - (port)->queue.rp_bak) % (port)->queue.size >=     \
		    RMA2_RP_LAZYNESS) {                                                                        \
			*(port)->queue.rp_wb = (port)->queue.rp;                                               \
			(port)->queue.rp_bak = (port)->queue.rp;                                               \
		}                                                                                              \
	} while (0)

#endif /* SYS_RMA2_H */
