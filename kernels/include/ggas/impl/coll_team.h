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

/* What a block says instead of a number of a meeting when it brings an error. */
constexpr uint64_t arrived_with_error = 1ull << 32;

/* The slow part of waiting for a block of this node. */
GGAS_COLD int wait_block_long(ggas_group *g, const uint64_t *flag, uint64_t epoch, uint64_t *seen, uint32_t line)
{
	ggas_wait wait(g->report, g->timeout_ns, GGAS_WAIT_GRID, g->node, ~0u, line);
	while ((*seen = ggas_load_watched_gpu(flag)) < epoch) {
		if (int error = wait.again(flag, epoch, *seen)) {
			poison(g);
			return error;
		}
		if (wait.looks_around() && ggas_load_relaxed(&g->poisoned))
			return GGAS_ERR_POISONED;
	}
	return GGAS_OK;
}

/*
 * Each block has a flag in the node's own memory that says to how many meetings
 * it came; at a meeting the threads of every block wait for the flags of all
 * blocks, at the scope of the GPU. Blocks that took no part in earlier, smaller
 * grids learn from grid_epoch where the count stands: block 0 writes it after
 * each meeting, so it is right for whoever comes to its first one in a kernel,
 * and never ahead of anyone.
 */
class grid_team {
public:
	/* Looks where the count stands, if it will meet: early, so that a meeting need not wait for that. */
	GGAS_FN explicit grid_team(ggas_group *group, bool meets = true) : group_(group)
	{
		if (ggas_blocks() > GGAS_GRID_BLOCKS || !meets)
			return;
		epoch_ = ggas_load_near(&group->arrived[ggas_block()]);
		others_ = ggas_load_near(&group->grid_epoch);
	}
	GGAS_FN uint32_t thread() const { return ggas_block() * ggas_threads() + ggas_thread(); }
	GGAS_FN uint32_t threads() const { return ggas_blocks() * ggas_threads(); }

	GGAS_FN int meet(int status, uint32_t line) { return meet_synced(ggas_block_status(status), line); }

	/* The same where all threads of the block have met since this object was made, and have the same status. */
	GGAS_FN int meet_synced(int status, uint32_t line)
	{
		ggas_group *g = group_;
		if (ggas_blocks() > GGAS_GRID_BLOCKS)
			return GGAS_ERR_ARGUMENT;
		epoch_ = (epoch_ > others_ ? epoch_ : others_) + 1;
		if (ggas_thread() == 0)
			ggas_store_release_gpu(&g->arrived[ggas_block()],
					       arrived_with_error * static_cast<uint64_t>(status) + epoch_);
		for (uint32_t block = ggas_thread(); block < ggas_blocks(); block += ggas_threads()) {
			uint64_t seen = 0;
			GGAS_NO_UNROLL
			for (uint32_t i = 0; i < quick_polls && seen < epoch_; i++)
				seen = ggas_load_watched_gpu(&g->arrived[block]);
			if (seen < epoch_)
				if (int error = wait_block_long(g, &g->arrived[block], epoch_, &seen, line))
					status = error;
			if (seen >= arrived_with_error)
				status = static_cast<int>(seen / arrived_with_error);
		}
		ggas_fence_acquire_gpu();
		status = ggas_block_status(status);
		if (ggas_block() == 0 && ggas_thread() == 0 && !status)
			ggas_store_relaxed(&g->grid_epoch, epoch_);
		return status;
	}

private:
	ggas_group *group_;
	uint64_t epoch_ = 0, others_ = 0;
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_TEAM_H */
