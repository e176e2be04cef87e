// SPDX-License-Identifier: MIT OR Apache-2.0
// As planted_races.cu, of nodes.
#include "ggas/coll.cuh"

struct meeting_args {
	uint64_t group;
	uint64_t values;	// uint64_t per node
	uint64_t sum;
	uint32_t planted;	// 1: with the bug
};

// Nodes meet, then each reads what all have written before. The bug: their meeting orders no memory.
GGAS_KERNEL(race_meeting, meeting_args)
{
	ggas_group *group = reinterpret_cast<ggas_group *>(args.group);
	uint64_t *values = reinterpret_cast<uint64_t *>(args.values);
	if (ggas_thread() == 0)
		values[group->node] = group->node + 1;
	if (ggas_barrier(group, args.planted ? ggas_order::relaxed : ggas_order::release_acquire))
		return;
	if (ggas_thread() == 0)
		for (uint32_t node = 0; node < group->nodes; node++)
			*reinterpret_cast<uint64_t *>(args.sum) += values[node];
}
