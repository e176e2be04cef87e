/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocking messages that have a line for each lane of a leader at most: one look, one store, and two barriers of the callers. For channels
 * on which nothing else is under way; all else, what is wrong among it, is left to the leader's other ways (gmpi_direct_requests.h), as
 * nothing of a message is changed by looking at it.
 *
 * Sends and receives share these instructions. What is seldom needed stands elsewhere: with it, what is kept over the loop does not fit
 * into a thread's registers.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_FEW_H
#define GGAS_IMPL_GMPI_DIRECT_FEW_H

#include "gmpi_direct_requests.h"

namespace ggas_impl
{

/* Looks for lines before they are left to the leader, who goes on with other messages meanwhile; more where there are none. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t looks_of_all = 3;
#else
constexpr uint32_t looks_of_all = 128;
#endif

/* What is to be sent, or the place for what is received. */
struct direct_wish {
	bool is_wanted;
	uint64_t address, bytes;
	uint32_t peer;
	int tag;
	const gmpi_shape *shape;	/* null: it lies together */
};

/* What a call comes to without its leader: over, none of it begun, or its send went and the receive is left. */
enum class direct_now : int { over, neither, sent };

/* What a call looks up of its communicator, all at once: each thing that is looked up behind another one costs a way to the cache behind the
 * multiprocessor, as what is before that is emptied whenever blocks meet. */
struct direct_looked {
	uint64_t comm, channels;
	uint32_t size, slots, slot_bytes, block;
	bool stands_by, has_port;

	GGAS_FN explicit direct_looked(const gmpi_buf *buf)
		: comm(buf->direct.comm), channels(buf->direct.channels), size(buf->direct.size), slots(buf->direct.slots),
		  slot_bytes(buf->direct.slot_bytes), block(buf->single ? 0 : ggas_block()), stands_by(buf->single && ggas_block()),
		  has_port(block < buf->port_count)
	{
	}
	GGAS_FN gmpi_channel *state(uint32_t peer) const
	{
		return reinterpret_cast<gmpi_channel *>(channels) + uint64_t(block) * size + peer;
	}
	GGAS_FN ggas_u128 *line(uint64_t box, uint64_t number) const { return direct_line(box, number, slots, slot_bytes); }
};

/* Notes a message that went in slot `sent`, as send `posted`; `freed`: what is known of emptied slots now. By one thread. */
GGAS_FN void direct_note_sent(gmpi_channel *there, uint64_t sent, uint64_t posted, uint64_t bytes, uint64_t emptied, uint64_t freed)
{
	there->sent = sent + 1;
	there->sends.posted = posted + 1;
	there->sends.done = posted + 1;
	ggas_red_add(&there->bytes, bytes, ggas_order::relaxed);
	if (freed != emptied) {
		ggas_fence_acquire();
		there->emptied = freed;
	}
}

/* Notes a message that came in slot `taken`, as receive `posted`, which all have read. By one thread. */
GGAS_FN void direct_note_taken(gmpi_channel *here, uint64_t taken, uint64_t posted, uint64_t told, uint32_t slots)
{
	here->taken = taken + 1;
	here->receives.posted = posted + 1;
	here->receives.done = posted + 1;
	if (taken + 1 - told >= slots / 2) {
		/* Whoever sees it may write the slots again. */
		ggas_store_release(reinterpret_cast<uint64_t *>(here->theirs), taken + 1);
		here->told = taken + 1;
	}
}

/* Stores a message's lines, a line for each lane, if nothing is in front of them. Whether it did. */
template <ggas_scope Scope> GGAS_FN bool direct_few_out(const direct_looked &looked, const direct_wish &out)
{
	using team = gmpi_team<Scope>;
	gmpi_channel *there = looked.state(out.peer);
	uint32_t slots = looked.slots;
	uint64_t sent = there->sent, emptied = there->emptied, posted = there->sends.posted, theirs = there->theirs;
	if (!theirs || posted != there->sends.done || sent - emptied >= slots)
		return false;
	uint64_t freed = emptied, at = 8 * (team::lane() - uint64_t(1));
	/* Asked in time, as it takes a while to know. */
	if (team::lane() == 0 && sent - emptied >= slots / 2)
		freed = ggas_load_watched(reinterpret_cast<const uint64_t *>(there->mine));
	uint64_t word = static_cast<uint32_t>(out.tag) | out.bytes << 32;
	if (team::lane() && at < out.bytes)
		word = load_word(reinterpret_cast<const uint8_t *>(out.address) + at, out.bytes - at);
	if (!team::lane() || at < out.bytes)
		ggas_store_relaxed(looked.line(theirs, sent) + team::lane(), ggas_u128{ word, sent + 1 });
	/* All lanes have loaded the counts. */
	team::meet();
	if (team::lane() == 0)
		direct_note_sent(there, sent, posted, out.bytes, emptied, freed);
	return true;
}

/* Waits a while for a message's lines, of which each lane has one. Whether all came, and are what is wanted. */
template <ggas_scope Scope>
GGAS_FN bool direct_few_in(const gmpi_buf *buf, const direct_looked &looked, const direct_wish &in, gmpi_status *status)
{
	using team = gmpi_team<Scope>;
	gmpi_channel *here = looked.state(in.peer);
	uint32_t slots = looked.slots;
	uint64_t taken = here->taken, told = here->told, posted = here->receives.posted, mine = here->mine;
	if (!mine || posted != here->receives.done)
		return false;
	const ggas_u128 *line = looked.line(mine, taken) + team::lane();
	uint64_t at = 8 * (team::lane() - uint64_t(1)), info;
	bool looks = !team::lane() || at < in.bytes, asked = false;
	ggas_u128 seen = { 0, 0 };
	GGAS_NO_UNROLL
	for (uint32_t left = looks_of_all;; left--) {
		if (looks)
			seen = ggas_watch_line(line);
		info = team::from_first(seen.lo);
		bool known = team::from_first(seen.hi) == taken + 1;
		if (known && ((info & is_placed) || info >> 32 > in.bytes))
			return false;
		bool missing = !known || (team::lane() && at < info >> 32 && seen.hi != taken + 1);
		if (!team::agree(missing))
			break;
		if (left)
			continue;
		if (asked || !direct_is_quiet(buf))
			return false;
		asked = true;
		left = looks_if_quiet;
	}
	int tag = static_cast<int>(info & (is_placed - 1));
	if (in.tag != GMPI_ANY_TAG && in.tag != tag)
		return false;
	uint64_t bytes = info >> 32;
	if (team::lane() && at < bytes)
		store_word(reinterpret_cast<uint8_t *>(in.address) + at, bytes - at, seen.lo);
	team::meet();
	if (team::lane() == 0) {
		direct_note_taken(here, taken, posted, told, slots);
		if (status)
			*status = { static_cast<int>(in.peer), tag, GMPI_SUCCESS, 0, bytes };
	}
	return true;
}

/* By all callers. */
template <ggas_scope Scope>
GGAS_FN direct_now direct_by_lanes(const gmpi_buf *buf, const direct_looked &looked, const direct_wish &out, const direct_wish &in,
				   gmpi_status *status)
{
	using team = gmpi_team<Scope>;
	direct_now now = direct_now::over;
	team::all::meet();
	if (team::writes()) {
		if (out.is_wanted && !direct_few_out<Scope>(looked, out))
			now = direct_now::neither;
		else if (in.is_wanted && !direct_few_in<Scope>(buf, looked, in, status))
			now = out.is_wanted ? direct_now::sent : direct_now::neither;
		else if (!in.is_wanted && status && team::lane() == 0)
			*status = { GMPI_PROC_NULL, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
	}
	return static_cast<direct_now>(team::all::agree(static_cast<int>(now)));
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_FEW_H */
