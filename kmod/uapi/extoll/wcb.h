/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* State of a VPID's write-combining buffer: how congestion shows (spec 2.4). */
#ifndef EXTOLL_WCB_H
#define EXTOLL_WCB_H

#include "base.h"

#define EXTOLL_WCB_COMMITTED_SHIFT	0	/* descriptors accepted, modulo 256 */
#define EXTOLL_WCB_COMMITTED_BITS	8
#define EXTOLL_WCB_RETRY_SHIFT		32	/* rejecting until cleared [inferred] */
#define EXTOLL_WCB_RETRY_BITS		1
#define EXTOLL_WCB_ASSEMBLY_SHIFT	33	/* toggle; equal to the next: idle */
#define EXTOLL_WCB_ASSEMBLY_BITS	1
#define EXTOLL_WCB_STREAM_OUT_SHIFT	34	/* toggle */
#define EXTOLL_WCB_STREAM_OUT_BITS	1
#define EXTOLL_WCB_REJECTED_SHIFT	56	/* descriptors rejected */
#define EXTOLL_WCB_REJECTED_BITS	8

#define EXTOLL_WCB_ENTRIES		256	/* replay ring that software keeps */

EXTOLL_FN uint32_t extoll_wcb_committed(uint64_t state)
{
	return (uint32_t)EXTOLL_GET(state, EXTOLL_WCB_COMMITTED);
}

EXTOLL_FN uint32_t extoll_wcb_retry(uint64_t state)
{
	return (uint32_t)EXTOLL_GET(state, EXTOLL_WCB_RETRY);
}

EXTOLL_FN uint32_t extoll_wcb_rejected(uint64_t state)
{
	return (uint32_t)EXTOLL_GET(state, EXTOLL_WCB_REJECTED);
}

/* No descriptor is half written or on its way into the unit. */
EXTOLL_FN uint32_t extoll_wcb_idle(uint64_t state)
{
	return EXTOLL_GET(state, EXTOLL_WCB_ASSEMBLY) == EXTOLL_GET(state, EXTOLL_WCB_STREAM_OUT);
}

/* What software writes back before it posts the rejected descriptors again. */
EXTOLL_FN uint64_t extoll_wcb_acknowledged(uint64_t state)
{
	return state & ~(EXTOLL_PUT(~(uint64_t)0, EXTOLL_WCB_RETRY) |
			 EXTOLL_PUT(~(uint64_t)0, EXTOLL_WCB_REJECTED));
}

#endif /* EXTOLL_WCB_H */
