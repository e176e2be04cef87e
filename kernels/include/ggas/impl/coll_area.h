/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A group's area, the same in every node's part (n nodes, s = slot_bytes):
 *
 *	0		check-out flag of barriers, alone in its line
 *	256		check-in flag of node i, 8 bytes each (used on the master)
 *	+ flags		arrival flag of node i: its data of an exchange is here,
 *			and it has read all data of the exchanges before
 *	+ flags		result flag of node i: its part of an all-to-all is here
 *	+ flags		staging, two halves by turns, a slot of s bytes for node i
 *	+ 2 * n * s	results of an all-to-all, a slot of s bytes for node i
 *
 * where `flags` is n * 8 rounded up to 256. userlib/coll sets it up and makes the
 * same sum; a test compares both.
 */
#ifndef GGAS_IMPL_COLL_AREA_H
#define GGAS_IMPL_COLL_AREA_H

#include "../vocab.h"

namespace ggas_impl
{

constexpr uint64_t area_line = 256;

GGAS_FN uint64_t area_flags(const ggas_group *g)
{
	return (g->nodes * 8ull + area_line - 1) / area_line * area_line;
}

/* Start of the area of a node as this node reaches it. */
GGAS_FN uint64_t area(const ggas_group *g, uint32_t node)
{
	return node == g->node ? g->local : g->base + node * g->stride;
}

GGAS_FN uint64_t *check_out_flag(const ggas_group *g, uint32_t at)
{
	return reinterpret_cast<uint64_t *>(area(g, at));
}
GGAS_FN uint64_t *check_in_flag(const ggas_group *g, uint32_t at, uint32_t of)
{
	return reinterpret_cast<uint64_t *>(area(g, at) + area_line) + of;
}
GGAS_FN uint64_t *arrival_flag(const ggas_group *g, uint32_t at, uint32_t of)
{
	return reinterpret_cast<uint64_t *>(area(g, at) + area_line + area_flags(g)) + of;
}
GGAS_FN uint64_t *result_flag(const ggas_group *g, uint32_t at, uint32_t of)
{
	return reinterpret_cast<uint64_t *>(area(g, at) + area_line + 2 * area_flags(g)) + of;
}
GGAS_FN uint64_t staging_slot(const ggas_group *g, uint32_t at, uint64_t epoch, uint32_t of)
{
	return area(g, at) + area_line + 3 * area_flags(g) + ((epoch & 1) * g->nodes + of) * g->slot_bytes;
}
GGAS_FN uint64_t result_slot(const ggas_group *g, uint32_t at, uint32_t of)
{
	return area(g, at) + area_line + 3 * area_flags(g) + (2ull * g->nodes + of) * g->slot_bytes;
}

/* This node gives up: later collectives fail at once, and whoever waits for it
 * sees the poison in its flags. Flags of others are not touched: one writer each. */
GGAS_COLD void poison(ggas_group *g)
{
	ggas_store_relaxed(&g->poisoned, 1u);
	for (uint32_t node = 0; node < g->nodes; node++) {
		ggas_store_relaxed(check_in_flag(g, node, g->node), GGAS_FLAG_POISON);
		ggas_store_relaxed(arrival_flag(g, node, g->node), GGAS_FLAG_POISON);
		ggas_store_relaxed(result_flag(g, node, g->node), GGAS_FLAG_POISON);
		if (g->node == g->master)
			ggas_store_relaxed(check_out_flag(g, node), GGAS_FLAG_POISON);
	}
}

GGAS_FN bool acquires(ggas_order order)
{
	return order == ggas_order::acquire || order == ggas_order::release_acquire;
}
GGAS_FN void set_flag(uint64_t *flag, uint64_t epoch, ggas_order order)
{
	if (order == ggas_order::release || order == ggas_order::release_acquire)
		ggas_store_release(flag, epoch);
	else
		ggas_store_relaxed(flag, epoch);
}

/* Waits until node `peer` has set a local flag to `epoch`; poisons the group on failure. Now and then it looks at
 * the group's own poison too: the host sets that when a process of the group died. */
GGAS_FN int wait_flag(ggas_group *g, const uint64_t *flag, uint64_t epoch, ggas_order order, uint32_t kind,
		      uint32_t peer, uint32_t line)
{
	ggas_wait wait(g->report, g->timeout_ns, kind, g->node, peer, line);
	uint64_t seen;
	while ((seen = acquires(order) ? ggas_load_acquire(flag) : ggas_load_relaxed(flag)) < epoch) {
		if (int error = wait.again(flag, epoch, seen)) {
			poison(g);
			return error;
		}
		if (wait.looks_around() && ggas_load_relaxed(&g->poisoned)) {
			seen = GGAS_FLAG_POISON;
			break;
		}
	}
	if (seen != GGAS_FLAG_POISON)
		return GGAS_OK;
	wait.fail(GGAS_ERR_POISONED, reinterpret_cast<uint64_t>(flag), epoch, seen, 0);
	poison(g);
	return GGAS_ERR_POISONED;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_AREA_H */
