/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librma2rc: the registration cache (spec 10.5). Linked before librma2 (-lrma2rc -lrma2) it serves
 * rma2_register_cached and rma2_unregister_cached.
 *
 * EXTOLL2_RMA_RC: regions that the cache holds, 256 unless set. EXTOLL2_RMA_RC_STATS: set to have the statistics
 * printed to standard error when the program ends.
 */
#ifndef RMA2_RC_H
#define RMA2_RC_H

#include "rma2.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
	/* Requests that a cached region served, and those that none did. */
	uint64_t hits;
	uint64_t misses;
	/* Idle regions that made room. */
	uint64_t evictions;
	/* Regions that were dropped since their memory had gone away. */
	uint64_t invalidations;
	/* Requests that found no place, and were registered beside the cache. */
	uint64_t uncached;
	/* Regions in the cache now, and those of them in use. */
	uint64_t regions;
	uint64_t used;
} rma2_rc_statistics;

RMA2_ERROR rma2_rc_get_statistics(rma2_rc_statistics *statistics);

/* What librma2rc calls. */
RMA2_ERROR rma2_rc_register(RMA2_Port port, void *address, size_t size, RMA2_Region **region);
RMA2_ERROR rma2_rc_unregister(RMA2_Port port, RMA2_Region *region);

#ifdef __cplusplus
}
#endif

#endif /* RMA2_RC_H */
