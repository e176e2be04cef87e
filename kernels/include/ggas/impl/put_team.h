/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who calls a one-sided operation together: a thread, a warp, or a block.
 * meet() is their barrier: it orders what any of them did before with what all
 * of them do after; agree() also gives all of them an error that any of them brings.
 */
#ifndef GGAS_IMPL_PUT_TEAM_H
#define GGAS_IMPL_PUT_TEAM_H

#include "scope.h"

namespace ggas_impl
{

template <ggas_scope> struct put_team;

template <> struct put_team<ggas_scope::thread> {
	GGAS_FN static uint32_t thread() { return 0; }
	GGAS_FN static uint32_t threads() { return 1; }
	GGAS_FN static void meet() {}
	GGAS_FN static int agree(int status) { return status; }
};

template <> struct put_team<ggas_scope::warp> {
	GGAS_FN static uint32_t thread() { return ggas_lane(); }
	GGAS_FN static uint32_t threads()
	{
		uint32_t lanes = ggas_threads() - ggas_warp() * GGAS_WARP_SIZE;
		return lanes < GGAS_WARP_SIZE ? lanes : GGAS_WARP_SIZE;
	}
	GGAS_FN static uint32_t lanes() { return GGAS_FULL_WARP >> (GGAS_WARP_SIZE - threads()); }
	GGAS_FN static void meet() { ggas_syncwarp(lanes()); }
	GGAS_FN static int agree(int status)
	{
		uint32_t mask = lanes();
		uint32_t failed = ggas_ballot(mask, status != 0);
		if (failed)
			status = ggas_shfl(mask, status, ggas_popc((failed & (0 - failed)) - 1));
		ggas_syncwarp(mask);
		return status;
	}
};

template <> struct put_team<ggas_scope::block> {
	GGAS_FN static uint32_t thread() { return ggas_thread(); }
	GGAS_FN static uint32_t threads() { return ggas_threads(); }
	GGAS_FN static void meet() { ggas_syncthreads(); }
	GGAS_FN static int agree(int status) { return ggas_block_status(status); }
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_PUT_TEAM_H */
