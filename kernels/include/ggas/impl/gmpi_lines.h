/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Short messages of a direct communicator: lines of 16 bytes, each stored as one, of 8 and a number that says whose they are. */
#ifndef GGAS_IMPL_GMPI_LINES_H
#define GGAS_IMPL_GMPI_LINES_H

#include "../ggas.cuh"
#include "gmpi_call.h"

namespace ggas_impl
{

static_assert(GMPI_DIRECT_LINE == sizeof(ggas_u128), "lines are stored as one");

/* The lines of one message: line 0 says what it is, the others have 8 of its bytes each. */
struct direct_lines {
	ggas_u128 *first;
	uint64_t number;	/* in each line */
	uint64_t info;		/* out: of line 0; in: bytes of the whole message, more than its place has room for maybe */
	uint64_t report, timeout_ns;
	uint32_t rank, peer, source_line;

	/* The share of thread `self` of `all`. Loops are not unrolled: a longer one took longer, also for whoever did not run it. */
	GGAS_FN void send(const uint8_t *from, uint64_t bytes, uint32_t self, uint32_t all) const
	{
		uint64_t count = 1 + (bytes + 7) / 8;
		GGAS_NO_UNROLL
		for (uint64_t i = self; i < count; i += all) {
			uint64_t at = (i - 1) * 8, word = i ? load_word(from + at, bytes - at) : info;
			ggas_store_relaxed(first + i, ggas_u128{ word, number });
		}
	}

	/* Waits for all lines, also those that do not fit: the slot is given back behind it. `fits`: bytes that do. */
	GGAS_FN int take(uint8_t *to, uint64_t fits, uint32_t self, uint32_t all) const
	{
		ggas_wait wait(report, timeout_ns, GGAS_WAIT_FLAG, rank, peer, source_line);
		uint64_t count = 1 + (info + 7) / 8;
		GGAS_NO_UNROLL
		for (uint64_t i = self; i < count; i += all) {
			uint64_t at = (i - 1) * 8;
			ggas_u128 seen;
			while ((seen = ggas_load_relaxed(first + i)).hi != number)
				if (wait.again(first + i, number, seen.hi))
					return GMPI_ERR_TIMEOUT;
			if (i && at < fits)
				store_word(to + at, fits - at, seen.lo);
		}
		return GMPI_SUCCESS;
	}
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_LINES_H */
