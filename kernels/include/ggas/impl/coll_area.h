/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A group's area, the same in every node's part (n nodes, s = slot_bytes, p =
 * packed_bytes, k = packed_channels):
 *
 *	0		check-out flag of barriers through the master, alone in its line
 *	256		check-in flag of node i, 8 bytes each (used on the master)
 *	+ flags		arrival flag of node i: its data of an exchange is here,
 *			and it has read all data of the exchanges before
 *	+ flags		result flag of node i: its part of an all-to-all is here
 *	+ flags		for each of GGAS_CHANNELS channels, `flags` bytes: flag of
 *			node i: the exchange of this channel that it has begun
 *	+ 2 * k * n * p	packets: for each channel two halves by turns, a slot of p
 *			bytes for node i in each
 *	+ 2 * n * s	staging, two halves by turns, a slot of s bytes for node i
 *	+ n * s		results of an all-to-all, a slot of s bytes for node i
 *
 * where `flags` is n * 8 rounded up to 256. All but the last two are zeros at the
 * start. userlib/coll sets it up and makes the same sum; a test compares both.
 */
#ifndef GGAS_IMPL_COLL_AREA_H
#define GGAS_IMPL_COLL_AREA_H

#include "../vocab.h"

namespace ggas_impl
{

constexpr uint64_t area_line = 256;

GGAS_FN uint64_t area_flags(uint32_t nodes)
{
	return (nodes * 8ull + area_line - 1) / area_line * area_line;
}
GGAS_FN uint64_t begun_offset(uint32_t nodes)
{
	return area_line + 3 * area_flags(nodes);
}
GGAS_FN uint64_t packed_offset(uint32_t nodes)
{
	return begun_offset(nodes) + GGAS_CHANNELS * area_flags(nodes);
}
GGAS_FN uint64_t staging_offset(const ggas_group *g)
{
	return packed_offset(g->nodes) + 2ull * g->packed_channels * g->nodes * g->packed_bytes;
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
	return reinterpret_cast<uint64_t *>(area(g, at) + area_line + area_flags(g->nodes)) + of;
}
GGAS_FN uint64_t *result_flag(const ggas_group *g, uint32_t at, uint32_t of)
{
	return reinterpret_cast<uint64_t *>(area(g, at) + area_line + 2 * area_flags(g->nodes)) + of;
}
GGAS_FN uint64_t *begun_flag(const ggas_group *g, uint32_t at, uint32_t channel, uint32_t of)
{
	uint64_t flags = begun_offset(g->nodes) + channel * area_flags(g->nodes);
	return reinterpret_cast<uint64_t *>(area(g, at) + flags) + of;
}
GGAS_FN uint64_t staging_slot(const ggas_group *g, uint32_t at, uint64_t epoch, uint32_t of)
{
	return area(g, at) + staging_offset(g) + ((epoch & 1) * g->nodes + of) * g->slot_bytes;
}
GGAS_FN uint64_t result_slot(const ggas_group *g, uint32_t at, uint32_t of)
{
	return area(g, at) + staging_offset(g) + (2ull * g->nodes + of) * g->slot_bytes;
}

/* This node gives up: later collectives fail at once, and whoever waits for it
 * sees the poison in its flags. Flags of others are not touched: one writer each. */
GGAS_COLD void poison(ggas_group *g)
{
	ggas_store_relaxed(&g->poisoned, uint32_t(GGAS_GROUP_POISONED));
	for (uint32_t node = 0; node < g->nodes; node++) {
		ggas_store_relaxed(check_in_flag(g, node, g->node), GGAS_FLAG_POISON);
		ggas_store_relaxed(arrival_flag(g, node, g->node), GGAS_FLAG_POISON);
		ggas_store_relaxed(result_flag(g, node, g->node), GGAS_FLAG_POISON);
		for (uint32_t channel = 0; channel < GGAS_CHANNELS; channel++)
			ggas_store_relaxed(begun_flag(g, node, channel, g->node), GGAS_FLAG_POISON);
		if (g->node == g->master)
			ggas_store_relaxed(check_out_flag(g, node), GGAS_FLAG_POISON);
	}
}

/* What a thread brings to a collective: whether the group is poisoned. Another's
 * poison may be seen later only; waits look for it again. */
GGAS_FN int poisoned_before(const ggas_group *g)
{
	return ggas_load_near(&g->poisoned) & GGAS_GROUP_POISONED ? GGAS_ERR_POISONED : GGAS_OK;
}

/* The same in a wait. */
GGAS_FN bool poisoned_since(const ggas_group *g)
{
	return ggas_load_relaxed(&g->poisoned) & GGAS_GROUP_POISONED;
}

/* Whether the process of a node has left: all that it stored is there, and nothing more comes. Whoever waits for it looks once more. */
GGAS_FN bool has_left(const ggas_group *g, uint32_t node)
{
	const uint64_t *left = reinterpret_cast<const uint64_t *>(g->left);
	if (!left || node >= g->nodes || !(ggas_load_relaxed(left + node / 64) >> node % 64 & 1))
		return false;
	ggas_fence_acquire();
	return true;
}

GGAS_FN bool acquires(ggas_order order)
{
	return order == ggas_order::acquire || order == ggas_order::release_acquire;
}
GGAS_FN bool releases(ggas_order order)
{
	return order == ggas_order::release || order == ggas_order::release_acquire;
}
/* Where stores are posted, they come in order at one node, and a load behind them comes back when they are done. So when
 * all of these loads are back, whoever hears of this node from any other finds what it stored at any. By `threads`
 * threads together, which meet before and behind this. */
GGAS_COLD void perform_stores(const ggas_group *g, uint32_t thread, uint32_t threads)
{
	ggas_fence_sequential();
	for (uint32_t node = thread; node < g->nodes; node += threads)
		if (node != g->node)
			ggas_load_relaxed(check_out_flag(g, node));
}
GGAS_FN void set_flag(uint64_t *flag, uint64_t epoch, ggas_order order)
{
	if (releases(order))
		ggas_store_release(flag, epoch);
	else
		ggas_store_relaxed(flag, epoch);
}
/* Behind the last look, acquired() makes an acquire of it. */
GGAS_FN uint64_t look(const uint64_t *flag, ggas_order order)
{
	return acquires(order) ? ggas_load_watched(flag) : ggas_load_relaxed(flag);
}
GGAS_FN void acquired(ggas_order order)
{
	if (acquires(order))
		ggas_fence_acquire();
}

/* The slow part of wait_flag: bounded, and with an eye on poison. Poisons the group on failure. Now and then it looks
 * at the group's own poison too: the host sets that when a process of the group died. One that left stored what it had to say
 * before: only who waits for it fails. */
GGAS_COLD int wait_flag_long(ggas_group *g, const uint64_t *flag, uint64_t epoch, ggas_order order, uint32_t kind,
			     uint32_t peer, uint32_t line)
{
	ggas_wait wait(g->report, g->timeout_ns, kind, g->node, peer, line);
	uint64_t seen;
	while ((seen = look(flag, order)) < epoch) {
		if (int error = wait.again(flag, epoch, seen)) {
			poison(g);
			return error;
		}
		if (wait.looks_around() &&
		    (poisoned_since(g) || (has_left(g, peer) && look(flag, order) < epoch))) {
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

/* Waits until node `peer` has set a local flag to `epoch` at least. */
GGAS_FN int wait_flag(ggas_group *g, const uint64_t *flag, uint64_t epoch, ggas_order order, uint32_t kind,
		      uint32_t peer, uint32_t line)
{
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < quick_polls; i++) {
		uint64_t seen = look(flag, order);
		if (seen >= epoch && seen != GGAS_FLAG_POISON) {
			acquired(order);
			return GGAS_OK;
		}
	}
	int error = wait_flag_long(g, flag, epoch, order, kind, peer, line);
	acquired(order);
	return error;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_AREA_H */
