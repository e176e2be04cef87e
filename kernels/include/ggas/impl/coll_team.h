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
	GGAS_FN int meet(int status, uint32_t) { return ggas_block_status(status); }
};

/* Meetings that were completed, by the count of all. */
GGAS_FN uint32_t meetings_of(uint64_t count)
{
	return static_cast<uint32_t>(count >> 32);
}

/* The slow part of waiting for the blocks of this node. A block that brings an error poisons the group and does not come. */
GGAS_COLD int wait_blocks_long(ggas_group *g, uint32_t before, uint32_t line)
{
	ggas_wait wait(g->report, g->timeout_ns, GGAS_WAIT_GRID, g->node, ~0u, line);
	uint64_t seen;
	while (meetings_of(seen = ggas_load_watched_gpu(&g->meetings)) == before) {
		if (int error = wait.again(&g->meetings, (before + 1ull) << 32, seen)) {
			poison(g);
			return error;
		}
		if (wait.looks_around() && poisoned_since(g))
			return GGAS_ERR_POISONED;
	}
	return GGAS_OK;
}

/*
 * All blocks count themselves in one word of the node's own memory, at the scope
 * of the GPU, and wait until its upper half changes: each adds 1 to the lower
 * half, but block 0 adds what makes a carry of all of them. The lower half is 0
 * after each meeting, so grids of any size may follow each other, and a block
 * that has not come yet reads in the upper half how many meetings there were.
 */
class grid_team {
public:
	/* Looks where the count stands, if it will meet: early, so that a meeting need not wait for that. */
	GGAS_FN explicit grid_team(ggas_group *group, bool meets = true) : group_(group)
	{
		if (meets)
			before_ = meetings_of(ggas_load_near(&group->meetings));
	}
	GGAS_FN uint32_t thread() const { return ggas_block() * ggas_threads() + ggas_thread(); }
	GGAS_FN uint32_t threads() const { return ggas_blocks() * ggas_threads(); }

	GGAS_FN int meet(int status, uint32_t line) { return meet_synced(ggas_block_status(status), line); }

	/* The same where all threads of the block have met since this object was made, and have the same status. */
	GGAS_FN int meet_synced(int status, uint32_t line)
	{
		if (ggas_blocks() > GGAS_GRID_BLOCKS)
			return GGAS_ERR_ARGUMENT;
		if (ggas_thread() == 0)
			status = status ? stay_away(status) : come(line);
		before_++;
		return ggas_block_status(status);
	}

private:
	GGAS_FN int come(uint32_t line)
	{
		ggas_group *g = group_;
		ggas_red_add_release_gpu(&g->meetings, ggas_block() == 0 ? (1ull << 32) - (ggas_blocks() - 1) : 1);
		uint64_t seen = ggas_load_watched_gpu(&g->meetings);
		GGAS_NO_UNROLL
		for (uint32_t i = 1; i < quick_polls && meetings_of(seen) == before_; i++)
			seen = ggas_load_watched_gpu(&g->meetings);
		int status = meetings_of(seen) == before_ ? wait_blocks_long(g, before_, line) : GGAS_OK;
		ggas_fence_acquire_gpu();
		return status;
	}
	GGAS_FN int stay_away(int status)
	{
		poison(group_);
		return status;
	}

	ggas_group *group_;
	uint32_t before_ = 0;
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_TEAM_H */
