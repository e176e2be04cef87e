/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Handles of direct requests: where a block keeps what they stand for, and those whose places later ones took (Fig. 6 of the paper).
 *
 * The daemon knows which of its requests took another one's place. A direct one keeps the handle of the one before it, of either kind. One
 * of the daemon's has no memory here: the direct one before it keeps its number, and a bit of its handle says that it is to be looked for.
 * All of that is seldom, and no part of a message's way.
 */
#ifndef GGAS_IMPL_GMPI_EARLIER_H
#define GGAS_IMPL_GMPI_EARLIER_H

#include "gmpi_channel.h"
#include "gmpi_gone.h"

namespace ggas_impl
{

/* A handle of this block's: whether it is one, and over. */
GGAS_FN bool direct_is_over(const gmpi_direct_end &end, uint64_t handle)
{
	/* Numbers are as long as a handle has room for. */
	return static_cast<int32_t>(static_cast<uint32_t>(end.done) - static_cast<uint32_t>(handle)) >= 0;
}

/* What the calling block exchanges with a member. */
GGAS_FN gmpi_channel *direct_state(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t peer)
{
	uint32_t block = buf->single ? 0 : ggas_block();
	return reinterpret_cast<gmpi_channel *>(direct->channels) + uint64_t(block) * direct->size + peer;
}

GGAS_FN uint64_t direct_handle(const gmpi_buf *buf, uint32_t peer, uint64_t number, bool receives)
{
	uint64_t block = buf->single ? 0 : ggas_block();
	return uint64_t(1) << GMPI_REQUEST_DIRECT_SHIFT | uint64_t(receives) << GMPI_REQUEST_RECEIVES_SHIFT |
	       block << GMPI_REQUEST_PORT_SHIFT | uint64_t(peer) << GMPI_REQUEST_PEER_SHIFT | ((number + 1) & 0xffffffff);
}

GGAS_FN bool direct_receives(uint64_t handle) { return handle >> GMPI_REQUEST_RECEIVES_SHIFT & 1; }
GGAS_FN uint32_t direct_peer(uint64_t handle) { return static_cast<uint32_t>(handle >> GMPI_REQUEST_PEER_SHIFT) & 0xffff; }

/* The channel of a handle; null: it is none of this block's. */
GGAS_FN gmpi_channel *direct_channel_of(const gmpi_buf *buf, uint64_t handle)
{
	const gmpi_direct *direct = &buf->direct;
	uint32_t block = buf->single ? 0 : ggas_block(), peer = direct_peer(handle);
	bool known = direct->comm && direct_is_own(handle) && peer < direct->size &&
		     (handle >> GMPI_REQUEST_PORT_SHIFT & 0x3ff) == block;
	if (!known)
		return nullptr;
	gmpi_channel *state = direct_state(buf, direct, peer);
	const gmpi_direct_end &end = direct_receives(handle) ? state->receives : state->sends;
	bool begun = static_cast<int32_t>(static_cast<uint32_t>(end.posted) - static_cast<uint32_t>(handle)) >= 0;
	return begun && static_cast<uint32_t>(handle) ? state : nullptr;
}

/* Of a handle in a place: none that this block knows is over, too. */
GGAS_FN bool direct_is_over(const gmpi_buf *buf, uint64_t handle)
{
	const gmpi_channel *state = direct_channel_of(buf, handle);
	return !state || direct_is_over(direct_receives(handle) ? state->receives : state->sends, handle);
}

/* A receive whose place a later one needed; null: its outcome was told. */
GGAS_COLD gmpi_direct_op *direct_kept_op(gmpi_channel *state, uint64_t handle)
{
	for (gmpi_direct_op &op : state->kept)
		if (op.number == static_cast<uint32_t>(handle) && !(op.told & 1))
			return &op;
	return nullptr;
}

/* Where the block keeps what is asked for; null: it was told, and a later one has its place. */
GGAS_FN gmpi_direct_op *direct_op(gmpi_channel *state, uint64_t handle)
{
	uint32_t number = static_cast<uint32_t>(handle) - 1;
	bool receives = direct_receives(handle);
	gmpi_direct_op *op = (receives ? state->receive : state->send) + number % GMPI_DIRECT_OPS;
	if (op->number == static_cast<uint32_t>(handle))
		return op;
	return receives ? direct_kept_op(state, handle) : nullptr;
}

/* In `told` of a direct request: which one of the daemon's took its place; 0 is none. */
GGAS_FN uint32_t direct_mark(uint64_t handle)
{
	uint64_t number = handle & ((uint64_t(1) << GMPI_REQUEST_PORT_SHIFT) - 1);
	return static_cast<uint32_t>(number % 0x7fffffff) + 1;
}

/* The direct request whose place one of the daemon's took; 0: what came to it was told, or it is a send that has been over for long. */
GGAS_COLD uint64_t direct_under(const gmpi_buf *buf, uint64_t handle)
{
	const gmpi_direct *direct = &buf->direct;
	uint32_t mark = direct_mark(handle);
	GGAS_NO_UNROLL
	for (uint32_t peer = 0; direct->comm && peer < direct->size; peer++) {
		const gmpi_channel *state = direct_state(buf, direct, peer);
		GGAS_NO_UNROLL
		for (uint32_t i = 0; i < 3 * GMPI_DIRECT_OPS; i++) {
			uint32_t kind = i / GMPI_DIRECT_OPS, at = i % GMPI_DIRECT_OPS;
			const gmpi_direct_op &op = (kind == 0 ? state->send : kind == 1 ? state->receive : state->kept)[at];
			if (op.number && op.told >> 1 == mark)
				return direct_handle(buf, peer, op.number - uint64_t(1), kind != 0) |
				       uint64_t(op.before != 0) << GMPI_REQUEST_AFTER_SHIFT;
		}
	}
	return 0;
}

/* Of a handle that says that it took one's place: which; 0: what came to that was told. */
GGAS_COLD uint64_t direct_found_before(const gmpi_buf *buf, uint64_t handle)
{
	if (!direct_is_own(handle))
		return direct_under(buf, handle);
	gmpi_channel *state = direct_channel_of(buf, handle);
	const gmpi_direct_op *op = state ? direct_op(state, handle) : nullptr;
	return op ? op->before : 0;
}

/* The one whose place it took; 0: none. Each wait asks, so a bit answers, and all else stands elsewhere. */
GGAS_FN uint64_t direct_before(const gmpi_buf *buf, uint64_t handle)
{
	return GGAS_RARE(handle >> GMPI_REQUEST_AFTER_SHIFT & 1) ? direct_found_before(buf, handle) : 0;
}

/* Nobody will ask any more what a receive came to. By one lane. */
GGAS_COLD void direct_forget(const gmpi_buf *buf, uint64_t handle)
{
	gmpi_channel *state = direct_receives(handle) ? direct_channel_of(buf, handle) : nullptr;
	gmpi_direct_op *op = state ? direct_op(state, handle) : nullptr;
	if (op)
		op->told |= 1;
}

/* A request of this block's that the daemon has or had. A persistent one has no place that another one takes. */
GGAS_COLD bool direct_is_daemons(const gmpi_buf *buf, uint64_t handle)
{
	const gmpi_port *port = gmpi_port_of(buf);
	uint64_t block = buf->single ? 0 : ggas_block(), plain = handle & ~(uint64_t(1) << GMPI_REQUEST_AFTER_SHIFT);
	uint64_t number = plain & ((uint64_t(1) << GMPI_REQUEST_PORT_SHIFT) - 1);
	return port && plain >> GMPI_REQUEST_PORT_SHIFT == block && number && number <= port->sent;
}

/* Such a one that took the place of a direct one. */
GGAS_FN bool direct_is_after(const gmpi_buf *buf, uint64_t handle)
{
	return buf->direct.comm && (handle >> GMPI_REQUEST_AFTER_SHIFT & 1) && direct_is_daemons(buf, handle);
}

/* Asks the daemon for such a one: waits for it, or looks whether it is over. By the leader. */
template <ggas_scope Scope>
GGAS_LONG gmpi_result direct_asks_daemon(const gmpi_buf *buf, bool waits, uint64_t handle, gmpi_status *status, uint32_t line)
{
	using team = gmpi_team<Scope>;
	gmpi_port *port = gmpi_port_of(buf);
	auto element = [=](uint32_t i) {
		uint64_t first = waits ? GMPI_CALL_WAIT : GMPI_CALL_GET_STATUS, count = 1;
		return i == 0 ? first : i == 1 && !waits ? count : handle;
	};
	team::meet();
	gmpi_result result = gmpi_send<team>(buf, port, waits ? 2 : 3, true, line, element);
	gmpi_statuses<team>(port, result, status);
	gmpi_done<team>(port, result);
	team::meet();
	return result;
}

/* Whether a request of either kind is over. One that failed is, and whoever waits for it is told. By the leader. */
template <ggas_scope Scope> GGAS_FN bool direct_either_is_over(const gmpi_buf *buf, uint64_t handle, uint32_t line)
{
	if (direct_is_own(handle))
		return direct_is_over(buf, handle);
	gmpi_result result = direct_asks_daemon<Scope>(buf, false, handle, nullptr, line);
	return result.error || (result.answer >> GMPI_ANSWER_FLAG_SHIFT & 1);
}

/* Of what lies where a direct request begins the one that is to be waited for, too; 0: none. Those that are over nobody asks for any more,
 * but the daemon's, which is asked when this one is waited for. By the leader. */
template <ggas_scope Scope> GGAS_LONG uint64_t direct_earlier(const gmpi_buf *buf, uint64_t before)
{
	using team = gmpi_team<Scope>;
	while (before && direct_is_own(before) && direct_is_over(buf, before)) {
		uint64_t over = before;
		before = direct_before(buf, over);
		team::meet();
		if (team::lane() == 0)
			direct_forget(buf, over);
	}
	return !before || direct_is_own(before) || direct_is_daemons(buf, before) ? before : 0;
}

/* One of the daemon's takes the place of `before`, a direct one or one that took such a one's place: what its handle has more then.
 * By one lane. */
GGAS_COLD uint64_t direct_gives_place(const gmpi_buf *buf, uint64_t before, uint64_t handle)
{
	before = direct_is_own(before) ? before : direct_under(buf, before);
	gmpi_channel *state = direct_channel_of(buf, before);
	gmpi_direct_op *op = state ? direct_op(state, before) : nullptr;
	if (!op)
		return 0;
	if (direct_is_over(buf, before) && !op->before) {
		op->told |= 1;
		return 0;
	}
	op->told = (op->told & 1) | direct_mark(handle) << 1;
	return uint64_t(1) << GMPI_REQUEST_AFTER_SHIFT;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_EARLIER_H */
