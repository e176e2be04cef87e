/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What collectives of a traced group move, for a mapping: the bytes that a node stores at each other one, or loads
 * from there, by the way that is taken; included by coll.cuh. Packets count whole, flags have 8 bytes.
 */
#ifndef GGAS_IMPL_COLL_TRACE_H
#define GGAS_IMPL_COLL_TRACE_H

#include "coll_area.h"
#include "coll_range.h"
#include "window_trace.h"

namespace ggas_impl
{

/* What a block's channel carries in one call, and to whom. */
enum class channel_call : uint32_t {
	meet,		/* a flag to all others */
	exchange,	/* all packets to all others */
	two_shot,	/* a part to each, and all the own part's results */
	from_root,	/* all packets from the root, and flags from all to all */
	to_root,
};

constexpr uint64_t bytes_of_flag = sizeof(uint64_t);

GGAS_FN bool is_traced(const ggas_group *g) { return ggas_load_near(&g->poisoned) & GGAS_GROUP_TRACED; }

/* Packets that a node sends to another in a call in two steps. */
GGAS_FN uint64_t two_shot_packets(const ggas_group *g, uint64_t packets, uint32_t to)
{
	uint64_t most = g->packed_bytes / sizeof(ggas_u128) * g->nodes, sent = 0, size;
	for (uint64_t left = packets; left; left -= size) {
		size = two_shot_round(left, most, g->nodes);
		sent += part_of(size, g->nodes, to, 1).size() + part_of(size, g->nodes, g->node, 1).size();
	}
	return sent;
}

/* Of a call on a group that is poisoned, or traced: fails, or counts. By each thread of a block; one counts what the block sends. */
GGAS_COLD int poisoned_or_traced(ggas_group *g, channel_call what, uint64_t packets, uint32_t root)
{
	if (poisoned_before(g))
		return GGAS_ERR_POISONED;
	uint64_t capacity = g->packed_bytes / sizeof(ggas_u128);
	/* Flags say that each exchange has begun. */
	uint64_t flags = bytes_of_flag;
	if (what == channel_call::from_root || what == channel_call::to_root)
		flags *= (packets + capacity - 1) / capacity;
	for (uint32_t node = 0; ggas_thread() == 0 && node < g->nodes; node++) {
		if (node == g->node)
			continue;
		uint64_t bytes = packets * sizeof(ggas_u128);
		if (what == channel_call::meet)
			bytes = flags;
		else if (what == channel_call::two_shot)
			bytes = two_shot_packets(g, packets, node) * sizeof(ggas_u128);
		else if (what == channel_call::from_root)
			bytes = flags + (g->node == root ? bytes : 0);
		else if (what == channel_call::to_root)
			bytes = flags + (node == root ? bytes : 0);
		trace_moved(g->report, node, bytes);
	}
	return GGAS_OK;
}

/* A barrier through the master; by one thread of the node, as what follows. */
GGAS_COLD void trace_master(const ggas_group *g)
{
	for (uint32_t node = 0; node < g->nodes; node++)
		if (node != g->node && (g->node == g->master || node == g->master))
			trace_moved(g->report, node, bytes_of_flag);
}

/* Whether a node is another's child in the tree (by_tree). */
GGAS_FN bool is_child(const ggas_group *g, uint32_t root, uint32_t child, uint32_t parent)
{
	auto place = [&](uint32_t node) { return (node + g->nodes - root) % g->nodes; };
	uint32_t at = place(child);
	return at != 0 && place(parent) == (at & (at - 1));
}

/* Elements of `size` that this node stores at another one's. */
GGAS_FN uint64_t stored_by_way(const ggas_group *g, ggas_way way, uint32_t root, bool everywhere, uint64_t size, uint32_t to)
{
	switch (way) {
	case ggas_way::gather:
		return to == root || (everywhere && g->node == root) ? size : 0;
	case ggas_way::all_gather:
		return size;
	case ggas_way::tree:
		return is_child(g, root, g->node, to) || (everywhere && is_child(g, root, to, g->node)) ? size : 0;
	case ggas_way::all_to_all:
		return part_of(size, g->nodes, to, 1).size() +
		       (everywhere || to == root ? part_of(size, g->nodes, g->node, 1).size() : 0);
	default:
		return 0;
	}
}

/* Whether a node sets a second flag on all others, of results. */
GGAS_FN bool tells_results(const ggas_group *g, ggas_way way, uint32_t root, bool everywhere)
{
	return way == ggas_way::all_to_all || (everywhere && (way == ggas_way::tree || (way == ggas_way::gather && g->node == root)));
}

/* A call through staging, in as many exchanges as it takes. */
GGAS_COLD void trace_way(const ggas_group *g, ggas_way way, uint32_t root, bool everywhere, uint64_t count, uint64_t each)
{
	uint64_t most = g->slot_bytes / each * (way == ggas_way::all_to_all ? g->nodes : 1);
	uint64_t flags = bytes_of_flag * (1 + tells_results(g, way, root, everywhere));
	bool reads = way == ggas_way::remote_read && (everywhere || g->node == root);
	for (uint64_t first = 0; first < count; first += most) {
		uint64_t size = smaller(count - first, most);
		for (uint32_t node = 0; node < g->nodes; node++) {
			if (node == g->node)
				continue;
			trace_moved(g->report, node, flags + each * stored_by_way(g, way, root, everywhere, size, node));
			trace_moved(g->report, node, reads ? each * size : 0, trace_got);
		}
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_TRACE_H */
