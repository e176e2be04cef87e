/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* librma2rc.so: sends cached registrations to librma2's cache. Linked before librma2, its names come first. */
#include <inttypes.h>
#include <stdlib.h>

#include "rma2_rc.h"

RMA2_ERROR rma2_register_cached(RMA2_Port port, void *address, size_t size, RMA2_Region **region)
{
	return rma2_rc_register(port, address, size, region);
}

RMA2_ERROR rma2_unregister_cached(RMA2_Port port, RMA2_Region *region)
{
	return rma2_rc_unregister(port, region);
}

__attribute__((destructor)) static void report(void)
{
	rma2_rc_statistics s;

	if (!getenv("EXTOLL2_RMA_RC_STATS") || rma2_rc_get_statistics(&s) != RMA2_SUCCESS)
		return;
	fprintf(stderr,
		"librma2rc: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64 " evictions, %" PRIu64
		" invalidations, %" PRIu64 " uncached; %" PRIu64 " regions, %" PRIu64 " in use\n",
		s.hits, s.misses, s.evictions, s.invalidations, s.uncached, s.regions, s.used);
}
