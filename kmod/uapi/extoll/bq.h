/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* Buffer queues: segments and pointers of a notification queue (spec 3.2). */
#ifndef EXTOLL_BQ_H
#define EXTOLL_BQ_H

#include "base.h"

/* A segment, in the descriptor table and, with the valid bit, in registers. */
#define EXTOLL_BQ_SLOT_SIZE_SHIFT	0
#define EXTOLL_BQ_SLOT_SIZE_BITS	2
#define EXTOLL_BQ_SLOTS_SHIFT		2	/* slots - 1 */
#define EXTOLL_BQ_SLOTS_BITS		16
#define EXTOLL_BQ_PAGE_SHIFT		18	/* address >> 12 */
#define EXTOLL_BQ_PAGE_BITS		40
#define EXTOLL_BQ_VALID_SHIFT		58	/* registers only */
#define EXTOLL_BQ_VALID_BITS		1

#define EXTOLL_BQ_SLOT_16		0	/* RMA */
#define EXTOLL_BQ_SLOT_32		1
#define EXTOLL_BQ_SLOT_64		2	/* VELO */
#define EXTOLL_BQ_SLOT_128		3	/* VELO */

#define EXTOLL_BQ_QUEUES		256	/* for each of VELO and RMA */
#define EXTOLL_BQ_MAX_SEGMENTS		512	/* the table is one page */
#define EXTOLL_BQ_SEGMENT_BYTES		0x10000	/* driver's and librma2's default (spec 3.3) */
#define EXTOLL_BQ_QUEUE_BYTES		0x40000	/* librma2's default (spec 3.3) */

/* Register ub: slots of the queue - 1. */
#define EXTOLL_BQ_UB_SHIFT		0
#define EXTOLL_BQ_UB_BITS		32

/* Register dcq_base_dcq_ub: the descriptor table. */
#define EXTOLL_BQ_DCQ_UB_SHIFT		0	/* segments - 1 */
#define EXTOLL_BQ_DCQ_UB_BITS		16
#define EXTOLL_BQ_DCQ_PAGE_SHIFT	16	/* address >> 12 */
#define EXTOLL_BQ_DCQ_PAGE_BITS		40

/* Register wp_lwp_dcq_rp; where the write pointer inside the segment lies is not known. */
#define EXTOLL_BQ_DCQ_RP_SHIFT		0	/* next entry of the table */
#define EXTOLL_BQ_DCQ_RP_BITS		16	/* [inferred: as wide as the table's bound] */
#define EXTOLL_BQ_LWP_SHIFT		32	/* logical write pointer */
#define EXTOLL_BQ_LWP_BITS		32

/* Register rp. */
#define EXTOLL_BQ_RP_SHIFT		0	/* next unread slot over the whole queue */
#define EXTOLL_BQ_RP_BITS		32
#define EXTOLL_BQ_REARM_SHIFT		32	/* re-arm this VPID's interrupt */
#define EXTOLL_BQ_REARM_BITS		1

/* Register general. */
#define EXTOLL_BQ_ENABLE_SHIFT		0
#define EXTOLL_BQ_ENABLE_BITS		1
#define EXTOLL_BQ_ASSERT_UB_SHIFT	1
#define EXTOLL_BQ_ASSERT_UB_BITS	1
#define EXTOLL_BQ_ASSERT_TIMEOUT_SHIFT	2
#define EXTOLL_BQ_ASSERT_TIMEOUT_BITS	1
#define EXTOLL_BQ_ASSERT_LWP_SHIFT	3
#define EXTOLL_BQ_ASSERT_LWP_BITS	1
#define EXTOLL_BQ_FAILED_QUEUE_SHIFT	4
#define EXTOLL_BQ_FAILED_QUEUE_BITS	8
#define EXTOLL_BQ_ERRORS_SHIFT		12
#define EXTOLL_BQ_ERRORS_BITS		32

/* A segment of `slots` (1 to 65536) slots from `address`, a multiple of 4096. */
EXTOLL_FN uint64_t extoll_bq_segment(uint32_t slot_size, uint32_t slots, uint64_t address)
{
	return EXTOLL_PUT(slot_size, EXTOLL_BQ_SLOT_SIZE) |
	       EXTOLL_PUT(slots - 1, EXTOLL_BQ_SLOTS) |
	       EXTOLL_PUT(address >> 12, EXTOLL_BQ_PAGE);
}

/* The same for a register. */
EXTOLL_FN uint64_t extoll_bq_segment_valid(uint64_t segment)
{
	return segment | EXTOLL_PUT(1, EXTOLL_BQ_VALID);
}

/* Register dcq_base_dcq_ub for a table of `segments` (1 to 512) at `address`. */
EXTOLL_FN uint64_t extoll_bq_dcq(uint64_t address, uint32_t segments)
{
	return EXTOLL_PUT(segments - 1, EXTOLL_BQ_DCQ_UB) |
	       EXTOLL_PUT(address >> 12, EXTOLL_BQ_DCQ_PAGE);
}

/* Register rp. */
EXTOLL_FN uint64_t extoll_bq_rp(uint32_t index, uint32_t rearm)
{
	return EXTOLL_PUT(index, EXTOLL_BQ_RP) | EXTOLL_PUT(rearm, EXTOLL_BQ_REARM);
}

#endif /* EXTOLL_BQ_H */
