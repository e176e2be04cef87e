/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of a node that take part in a collective together: one block, or
 * all blocks of the grid. meet() is their barrier; it orders everything before
 * with everything after, and gives all of them an error that any of them brings.
 */
#ifndef GGAS_IMPL_COLL_TEAM_H
#define GGAS_IMPL_COLL_TEAM_H

#include "coll_area.h"

namespace ggas_impl
{

struct block_team {
	GGAS_FN uint32_t thread() const { return ggas_thread(); }
	GGAS_FN uint32_t threads() const { return ggas_threads(); }
	GGAS_FN int meet(int status, uint32_t) const { return ggas_block_status(status); }
};

/* Blocks meet at a counter in the node's own memory. The last to arrive resets
 * it and advances grid_epoch, which the others wait for. */
class grid_team {
public:
	GGAS_FN explicit grid_team(ggas_group *group) : group_(group) {}
	GGAS_FN uint32_t thread() const { return ggas_block() * ggas_threads() + ggas_thread(); }
	GGAS_FN uint32_t threads() const { return ggas_blocks() * ggas_threads(); }

	GGAS_FN int meet(int status, uint32_t line) const
	{
		status = ggas_block_status(status);
		int result = GGAS_OK;
		if (ggas_thread() == 0)
			result = meet_blocks(status, line);
		return ggas_block_status(result);
	}

private:
	GGAS_FN int meet_blocks(int status, uint32_t line) const
	{
		ggas_group *g = group_;
		/* Cannot advance before this block has arrived. */
		uint64_t epoch = ggas_load_relaxed(&g->grid_epoch);
		if (status)
			ggas_atomic_cas(&g->grid_status, 0u, static_cast<uint32_t>(status), ggas_order::relaxed);
		if (ggas_atomic_add(&g->grid_arrived, 1u, ggas_order::release_acquire) + 1 == ggas_blocks()) {
			uint32_t found = ggas_atomic_exch(&g->grid_status, 0u, ggas_order::relaxed);
			ggas_store_relaxed(&g->grid_arrived, 0u);
			ggas_store_relaxed(&g->grid_result, found);
			ggas_store_release(&g->grid_epoch, epoch + 1);
			return static_cast<int>(found);
		}
		ggas_wait wait(g->report, g->timeout_ns, GGAS_WAIT_GRID, g->node, ~0u, line);
		uint64_t seen;
		while ((seen = ggas_load_acquire(&g->grid_epoch)) == epoch)
			if (int error = wait.again(&g->grid_epoch, epoch + 1, seen)) {
				poison(g);
				return error;
			}
		return static_cast<int>(ggas_load_relaxed(&g->grid_result));
	}

	ggas_group *group_;
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_TEAM_H */
