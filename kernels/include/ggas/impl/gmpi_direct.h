/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages from kernel to kernel, without the daemon: on a communicator whose members' kernels reach each other (Gmpi::direct).
 *
 * Each block has a mailbox for each member in its part of a window, into which the block of the same number there stores: `slots` slots,
 * a message in as many of them as it needs, one message behind the other. Slot r of a mailbox holds part r of all that came, from 0, and
 * its first line says so: { tag, bytes of the whole message; r + 1 }. A sender goes on while the receiver has taken all but `slots`,
 * which that one stores into the sender's own part, half of the slots at a time.
 *
 * Order. Short messages: each 16 bytes hold 8, and their part's number, so that nothing follows them, and nothing is ordered. They lie
 * where a slot has nothing else: a program's own words might look like numbers. Long ones: plain stores of parts, a meeting, then the
 * first lines with release. What was taken is told with release behind the reads, and seen with acquire.
 *
 * Fences cost a microsecond, and an acquire empties the multiprocessor's cache, from which all that follows is then loaded anew. So a
 * sender looks at what was taken only when it knows of no room, and a receiver acquires for long messages only.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_H
#define GGAS_IMPL_GMPI_DIRECT_H

#include "../ggas.cuh"
#include "gmpi_call.h"

namespace ggas_impl
{

static_assert(GMPI_DIRECT_LINE == sizeof(ggas_u128), "lines are stored as one");

/* The way of a communicator without the daemon; null: there is none. */
GGAS_FN gmpi_direct *gmpi_direct_of(const gmpi_buf *buf, uint64_t comm, int rank)
{
	auto *direct = reinterpret_cast<gmpi_direct *>(buf->direct);
	return direct && rank != GMPI_PROC_NULL && direct->comm == comm ? direct : nullptr;
}

GGAS_FN bool gmpi_is_direct(uint64_t handle)
{
	return handle >> GMPI_REQUEST_DIRECT_SHIFT & 1 && !(handle >> GMPI_REQUEST_PERSISTENT_SHIFT);
}

/* What this block exchanges with one member. */
class direct_channel {
public:
	GGAS_FN direct_channel(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t peer)
		: buf_(buf), direct_(direct), peer_(peer), block_(buf->single ? 0 : ggas_block()),
		  window_(reinterpret_cast<const ggas_window *>(direct->window)),
		  state_(reinterpret_cast<gmpi_channel *>(direct->channels) + uint64_t(block_) * direct->size + peer)
	{
	}

	GGAS_FN gmpi_channel *state() const { return state_; }

	GGAS_FN uint64_t handle(uint64_t number, bool receives) const
	{
		return uint64_t(1) << GMPI_REQUEST_DIRECT_SHIFT | uint64_t(receives) << GMPI_REQUEST_RECEIVES_SHIFT |
		       uint64_t(block_) << GMPI_REQUEST_PORT_SHIFT | uint64_t(peer_) << GMPI_REQUEST_PEER_SHIFT |
		       ((number + 1) & 0xffffffff);
	}

	/* Stores more of what is to be sent there, if there is room. By all callers; whether it did. */
	template <ggas_scope Scope> GGAS_FN bool push() const
	{
		using team = put_team<Scope>;
		if (state_->sends.done == state_->sends.posted)
			return false;
		uint64_t number = state_->sent;
		if (number - state_->emptied >= direct_->slots && !more_room<Scope>(number))
			return false;
		const gmpi_direct_op op = state_->send[state_->sends.done % GMPI_DIRECT_OPS];
		uint64_t at = state_->sends.at, bytes = op.bytes - at, count = 1;
		auto *from = reinterpret_cast<const uint8_t *>(op.address) + at;
		uint64_t info = static_cast<uint32_t>(op.tag) | op.bytes << 32;
		if (is_short(op.bytes)) {
			auto *line = slot(peer_, direct_->rank, number);
			send_lines(line + 1, from, bytes, number + 1, team::thread(), team::threads());
			if (team::thread() == 0)
				ggas_store_relaxed(line, ggas_u128{ info, number + 1 });
		} else {
			count = at_once(bytes, direct_->slots - (number - state_->emptied));
			for (uint64_t i = 0; i < count; i++)
				copy_share(payload(slot(peer_, direct_->rank, number + i)), from + i * direct_->slot_bytes,
					   part(bytes, i), team::thread(), team::threads());
			team::meet();
			if (team::thread() == 0)
				publish(number, count, info);
			uint64_t most = count * direct_->slot_bytes;
			bytes = bytes < most ? bytes : most;
		}
		team::meet();
		if (team::thread() == 0) {
			state_->sent = number + count;
			advance(state_->sends, bytes, at + bytes >= op.bytes);
		}
		team::meet();
		return true;
	}

	/* Takes more of what is to be received from there, if it is here. By all callers; whether it did. */
	template <ggas_scope Scope> GGAS_FN bool pull(uint32_t source_line) const
	{
		using team = put_team<Scope>;
		if (state_->receives.done == state_->receives.posted)
			return false;
		uint64_t number = state_->taken, at = state_->receives.at;
		gmpi_direct_op *op = &state_->receive[state_->receives.done % GMPI_DIRECT_OPS];
		int tag = 0, found = 0;
		if (team::thread() == 0)
			found = look(*op, number, at, &tag);
		found = team::agree(found);
		if (!found)
			return false;
		bool wrong = found & here_wrong;
		uint64_t count = static_cast<uint32_t>(found) / here, total = found & (here_wrong - 1);
		const auto *line = slot(direct_->rank, peer_, number);
		if (total == here_long)
			total = ggas_load_relaxed(&line->lo) >> 32;
		uint64_t most = count * direct_->slot_bytes, left = total - at, bytes = left < most ? left : most;
		uint64_t room = wrong || at >= op->bytes ? 0 : op->bytes - at, fits = bytes < room ? bytes : room;
		auto *to = reinterpret_cast<uint8_t *>(op->address) + at;
		int late = GGAS_OK;
		if (is_short(total))
			late = take_lines(line + 1, to, bytes, fits, number + 1, team::thread(), team::threads(), source_line);
		else
			for (uint64_t i = 0; i < count && i * direct_->slot_bytes < fits; i++)
				copy_share(to + i * direct_->slot_bytes, payload(slot(direct_->rank, peer_, number + i)),
					   part(fits, i), team::thread(), team::threads());
		late = team::agree(late);
		team::meet();
		if (team::thread() == 0) {
			op->error = late ? GMPI_ERR_TIMEOUT : wrong ? GMPI_ERR_TAG : total > op->bytes ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS;
			op->tag = tag;
			op->got = total < op->bytes ? total : op->bytes;
			state_->taken = number + count;
			advance(state_->receives, bytes, at + bytes >= total);
			if (number + count - state_->told >= direct_->slots / 2) {
				/* Whoever sees it may write the slots again. */
				ggas_store_release(box(peer_, direct_->rank), number + count);
				state_->told = number + count;
			}
		}
		team::meet();
		return true;
	}

private:
	/* What thread 0 says of what is here: how many parts, whether the tag is another one, and the bytes of a short message. */
	static constexpr int here_long = (1 << 16) - 1, here_wrong = 1 << 16, here = 1 << 17;

	/* By thread 0. 0: nothing is here. */
	GGAS_FN int look(const gmpi_direct_op &op, uint64_t number, uint64_t at, int *tag) const
	{
		ggas_u128 first = ggas_watch_line(slot(direct_->rank, peer_, number));
		if (first.hi != number + 1)
			return 0;
		uint64_t total = first.lo >> 32, count = 1;
		*tag = static_cast<int>(first.lo & 0xffffffff);
		bool wrong = op.error == GMPI_ERR_TAG || (op.tag != GMPI_ANY_TAG && op.tag != *tag);
		if (!is_short(total)) {
			uint64_t most = at_once(total - at, direct_->slots);
			while (count < most &&
			       ggas_watch_line(slot(direct_->rank, peer_, number + count)).hi == number + count + 1)
				count++;
			ggas_fence_acquire();
		}
		return static_cast<int>(count) * here | (wrong ? here_wrong : 0) |
		       (is_short(total) ? static_cast<int>(total) : here_long);
	}

	/* By thread 0, behind the parts. */
	GGAS_FN void publish(uint64_t number, uint64_t count, uint64_t info) const
	{
		ggas_fence_release();
		for (uint64_t i = 0; i < count; i++)
			ggas_store_fenced(slot(peer_, direct_->rank, number + i), ggas_u128{ info, number + i + 1 });
	}

	GGAS_FN bool is_short(uint64_t bytes) const
	{
		return bytes <= GMPI_DIRECT_SHORT && 2 * bytes <= direct_->slot_bytes;
	}
	/* Parts of a long message that travel behind one fence: half of the slots, or what there is. */
	GGAS_FN uint64_t at_once(uint64_t bytes, uint64_t room) const
	{
		uint64_t half = direct_->slots / 2, parts = (bytes + direct_->slot_bytes - 1) / direct_->slot_bytes;
		uint64_t most = half < room ? half : room;
		return parts < most ? parts : most;
	}

	/* Looks at what the other one has taken. */
	template <ggas_scope Scope> GGAS_FN bool more_room(uint64_t number) const
	{
		using team = put_team<Scope>;
		int room = 0;
		uint64_t taken = 0;
		if (team::thread() == 0) {
			uint64_t emptied = ggas_load_acquire(box(direct_->rank, peer_));
			room = 1 + (number - emptied < direct_->slots);
			taken = emptied;
		}
		room = team::agree(room);
		/* All have seen the old one. */
		if (team::thread() == 0)
			state_->emptied = taken;
		team::meet();
		return room > 1;
	}
	/* Bytes of part i of so many. */
	GGAS_FN uint64_t part(uint64_t bytes, uint64_t i) const
	{
		uint64_t left = bytes - i * direct_->slot_bytes;
		return left < direct_->slot_bytes ? left : direct_->slot_bytes;
	}
	GGAS_FN static void advance(gmpi_direct_end &end, uint64_t bytes, bool over)
	{
		end.at = over ? 0 : end.at + bytes;
		end.done += over;
	}
	/* Of the mailbox that member `owner` has for this block of member `of`: how much of the other way's it has been told. */
	GGAS_FN uint64_t *box(uint32_t owner, uint32_t of) const
	{
		uint64_t bytes = GMPI_DIRECT_HEAD + direct_->slots * slot_room();
		uint64_t number = uint64_t(block_) * direct_->size + of;
		return ggas_pointer_of_node<uint64_t>(window_, owner, direct_->offset + number * bytes);
	}
	GGAS_FN ggas_u128 *slot(uint32_t owner, uint32_t of, uint64_t number) const
	{
		auto *base = reinterpret_cast<uint8_t *>(box(owner, of)) + GMPI_DIRECT_HEAD;
		return reinterpret_cast<ggas_u128 *>(base + (number & (direct_->slots - 1)) * slot_room());
	}
	/* Behind the first line and those of a short message. */
	GGAS_FN uint64_t payload_offset() const
	{
		uint64_t half = direct_->slot_bytes / 2;
		return GMPI_DIRECT_HEAD + 2 * (half < GMPI_DIRECT_SHORT ? half : GMPI_DIRECT_SHORT);
	}
	GGAS_FN uint64_t slot_room() const { return payload_offset() + direct_->slot_bytes; }
	GGAS_FN uint8_t *payload(ggas_u128 *line) const { return reinterpret_cast<uint8_t *>(line) + payload_offset(); }

	GGAS_FN static void send_lines(ggas_u128 *lines, const uint8_t *from, uint64_t bytes, uint64_t number, uint32_t self,
				       uint32_t all)
	{
		for (uint64_t i = self; i * 8 < bytes; i += all)
			ggas_store_relaxed(lines + i, ggas_u128{ load_word(from + i * 8, bytes - i * 8), number });
	}
	/* Waits for all lines, also those that do not fit: the slot is given back behind it. */
	GGAS_FN int take_lines(const ggas_u128 *lines, uint8_t *to, uint64_t bytes, uint64_t fits, uint64_t number, uint32_t self,
			       uint32_t all, uint32_t source_line) const
	{
		ggas_wait wait(buf_->report, direct_->timeout_ns, GGAS_WAIT_FLAG, direct_->rank, peer_, source_line);
		for (uint64_t i = self; i * 8 < bytes; i += all) {
			ggas_u128 whole;
			while ((whole = ggas_load_relaxed(lines + i)).hi != number)
				if (int error = wait.again(lines + i, number, whole.hi))
					return error;
			if (i * 8 < fits)
				store_word(to + i * 8, fits - i * 8, whole.lo);
		}
		return GGAS_OK;
	}
	GGAS_FN static uint64_t load_word(const uint8_t *from, uint64_t left)
	{
		if (left >= 8 && reinterpret_cast<uint64_t>(from) % 8 == 0)
			return *reinterpret_cast<const uint64_t *>(from);
		uint64_t word = 0;
		GGAS_NO_UNROLL
		for (uint64_t i = 0; i < 8 && i < left; i++)
			word |= static_cast<uint64_t>(from[i]) << i * 8;
		return word;
	}
	GGAS_FN static void store_word(uint8_t *to, uint64_t left, uint64_t word)
	{
		if (left >= 8 && reinterpret_cast<uint64_t>(to) % 8 == 0) {
			*reinterpret_cast<uint64_t *>(to) = word;
			return;
		}
		GGAS_NO_UNROLL
		for (uint64_t i = 0; i < 8 && i < left; i++)
			to[i] = static_cast<uint8_t>(word >> i * 8);
	}

	const gmpi_buf *buf_;
	const gmpi_direct *direct_;
	uint32_t peer_, block_;
	const ggas_window *window_;
	gmpi_channel *state_;
};

/* One step with each member. By all callers; whether anything moved. */
template <ggas_scope Scope> GGAS_LONG bool direct_progress(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t line)
{
	bool moved = false;
	for (uint32_t peer = 0; peer < direct->size; peer++) {
		direct_channel channel(buf, direct, peer);
		moved |= channel.push<Scope>();
		moved |= channel.pull<Scope>(line);
	}
	return moved;
}

/* A step with the member that is waited for, and now and then with the others. */
template <ggas_scope Scope>
GGAS_FN bool direct_look(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t peer, uint32_t attempt, uint32_t line)
{
	if (attempt % 16 == 0)
		return direct_progress<Scope>(buf, direct, line);
	direct_channel channel(buf, direct, peer);
	bool moved = channel.push<Scope>();
	return channel.pull<Scope>(line) || moved;
}

/* A handle of this block's: whether it is one, and over. */
GGAS_FN bool direct_is_over(const gmpi_channel *state, uint64_t handle)
{
	const gmpi_direct_end &end = handle >> GMPI_REQUEST_RECEIVES_SHIFT & 1 ? state->receives : state->sends;
	/* Numbers are as long as a handle has room for. */
	return static_cast<int32_t>(static_cast<uint32_t>(end.done) - static_cast<uint32_t>(handle)) >= 0;
}

/* The channel of a handle; null: it is none of this block's. */
GGAS_FN gmpi_channel *direct_channel_of(const gmpi_buf *buf, uint64_t handle)
{
	auto *direct = reinterpret_cast<const gmpi_direct *>(buf->direct);
	uint32_t block = buf->single ? 0 : ggas_block();
	uint32_t peer = static_cast<uint32_t>(handle >> GMPI_REQUEST_PEER_SHIFT) & 0xffff;
	bool known = direct && gmpi_is_direct(handle) && peer < direct->size &&
		     (handle >> GMPI_REQUEST_PORT_SHIFT & 0x3ff) == block;
	if (!known)
		return nullptr;
	auto *state = reinterpret_cast<gmpi_channel *>(direct->channels) + uint64_t(block) * direct->size + peer;
	const gmpi_direct_end &end = handle >> GMPI_REQUEST_RECEIVES_SHIFT & 1 ? state->receives : state->sends;
	bool begun = static_cast<int32_t>(static_cast<uint32_t>(end.posted) - static_cast<uint32_t>(handle)) >= 0;
	return begun && static_cast<uint32_t>(handle) ? state : nullptr;
}

/* A request that was begun; without an error all callers have its handle. */
struct direct_begun {
	uint64_t handle;
	int error;
};

/* Isend and Irecv. */
template <ggas_scope Scope>
GGAS_FN direct_begun direct_begin(const gmpi_buf *buf, const gmpi_direct *direct, bool receives, const void *at, int count,
				    int type, int rank, int tag, uint64_t before, uint32_t line)
{
	using team = put_team<Scope>;
	if (!gmpi_port_of(buf))
		return { 0, gmpi_no_port(buf, receives ? GMPI_CALL_IRECV : GMPI_CALL_ISEND, line) };
	uint64_t size = static_cast<uint32_t>(type) & GMPI_TYPE_SIZE_MASK;
	uint64_t bytes = size * static_cast<uint64_t>(count);
	if (count < 0 || bytes > 0xffffffff)
		return { 0, GMPI_ERR_COUNT };
	if (!size)
		return { 0, GMPI_ERR_TYPE };
	if (rank < 0 || static_cast<uint32_t>(rank) >= direct->size)
		return { 0, GMPI_ERR_RANK };
	if (tag < 0 && !(receives && tag == GMPI_ANY_TAG))
		return { 0, GMPI_ERR_TAG };
	if (!at && bytes)
		return { 0, GMPI_ERR_BUFFER };
	/* What any of the callers wrote is sent; what they know of the channel is the same. */
	team::meet();
	direct_channel channel(buf, direct, static_cast<uint32_t>(rank));
	gmpi_channel *state = channel.state();
	gmpi_direct_end *end = receives ? &state->receives : &state->sends;
	uint64_t number = end->posted;
	if (number - end->done >= GMPI_DIRECT_OPS) {
		direct_progress<Scope>(buf, direct, line);
		if (number - end->done >= GMPI_DIRECT_OPS)
			return { 0, GMPI_ERR_NO_MEM };
	}
	if (!direct_channel_of(buf, before) || direct_is_over(direct_channel_of(buf, before), before))
		before = 0;
	uint64_t handle = channel.handle(number, receives);
	team::meet();
	if (team::thread() == 0) {
		auto *op = (receives ? state->receive : state->send) + number % GMPI_DIRECT_OPS;
		*op = { gmpi_address(at), bytes, 0, before, tag, GMPI_SUCCESS, static_cast<uint32_t>(number + 1), 0 };
		end->posted = number + 1;
	}
	team::meet();
	/* Mostly there is room, and it is on its way at once. */
	if (!receives)
		while (channel.template push<Scope>() && !direct_is_over(state, handle)) {
		}
	return { handle, GMPI_SUCCESS };
}

/* Where the block keeps what is asked for. */
GGAS_FN const gmpi_direct_op *direct_op(const gmpi_channel *state, uint64_t handle)
{
	uint32_t number = static_cast<uint32_t>(handle) - 1;
	return (handle >> GMPI_REQUEST_RECEIVES_SHIFT & 1 ? state->receive : state->send) + number % GMPI_DIRECT_OPS;
}

/* What a request that is over came to. */
GGAS_FN int direct_told(const gmpi_channel *state, uint64_t handle, gmpi_status *status, bool writes)
{
	if (!(handle >> GMPI_REQUEST_RECEIVES_SHIFT & 1)) {
		if (writes && status)
			*status = { GMPI_ANY_SOURCE, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
		return GMPI_SUCCESS;
	}
	const gmpi_direct_op &op = *direct_op(state, handle);
	int source = static_cast<int>(handle >> GMPI_REQUEST_PEER_SHIFT & 0xffff);
	/* Later ones have its place. */
	bool kept = op.number == static_cast<uint32_t>(handle);
	int error = kept ? static_cast<int>(op.error) : GMPI_SUCCESS;
	if (writes && status)
		*status = { source, kept ? op.tag : GMPI_ANY_TAG, error, 0, kept ? op.got : 0 };
	return error;
}

/* Waits for one. By all callers. */
template <ggas_scope Scope>
GGAS_FN int direct_wait(const gmpi_buf *buf, uint64_t handle, gmpi_status *status, uint32_t line)
{
	using team = put_team<Scope>;
	team::meet();
	gmpi_channel *state = direct_channel_of(buf, handle);
	if (!state)
		return GMPI_ERR_REQUEST;
	auto *direct = reinterpret_cast<const gmpi_direct *>(buf->direct);
	uint32_t peer = static_cast<uint32_t>(handle >> GMPI_REQUEST_PEER_SHIFT) & 0xffff;
	ggas_wait wait(buf->report, direct->timeout_ns, GGAS_WAIT_FLAG, direct->rank, peer, line);
	for (uint32_t attempt = 1; !direct_is_over(state, handle); attempt++) {
		int late = 0;
		if (direct_look<Scope>(buf, direct, peer, attempt, line))
			continue;
		if (team::thread() == 0)
			late = wait.again(state, static_cast<uint32_t>(handle), state->receives.done);
		if (team::agree(late))
			return GMPI_ERR_TIMEOUT;
	}
	int error = direct_told(state, handle, status, team::thread() == 0);
	team::meet();
	return error;
}

/* The one whose place it took; 0: none. */
GGAS_FN uint64_t direct_before(const gmpi_buf *buf, uint64_t handle)
{
	const gmpi_channel *state = direct_channel_of(buf, handle);
	const gmpi_direct_op *op = state ? direct_op(state, handle) : nullptr;
	return op && op->number == static_cast<uint32_t>(handle) ? op->before : 0;
}

/* Waits for one, and for those whose place it took. */
template <ggas_scope Scope>
GGAS_FN int direct_wait_all(const gmpi_buf *buf, uint64_t handle, gmpi_status *status, uint32_t line)
{
	put_team<Scope>::meet();
	int error;
	do {
		uint64_t before = direct_before(buf, handle);
		error = direct_wait<Scope>(buf, handle, status, line);
		handle = before;
		status = nullptr;
	} while (handle && !error);
	return error;
}

/* Isend and Irecv whose handle goes into memory. */
template <ggas_scope Scope>
GGAS_FN int direct_request(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t call, const void *at, int count, int type,
			   int rank, int tag, uint64_t *request, uint32_t line)
{
	using team = put_team<Scope>;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	if (call != GMPI_CALL_ISEND && call != GMPI_CALL_IRECV)
		return GMPI_ERR_CALL;
	team::meet();
	bool receives = call == GMPI_CALL_IRECV;
	direct_begun begun = direct_begin<Scope>(buf, direct, receives, at, count, type, rank, tag, *request, line);
	team::meet();
	if (team::thread() == 0)
		*request = begun.handle;
	team::meet();
	return begun.error;
}

/* Send and Recv. */
template <ggas_scope Scope>
GGAS_FN int direct_message(const gmpi_buf *buf, const gmpi_direct *direct, bool receives, const void *at, int count, int type,
			   int rank, int tag, gmpi_status *status, uint32_t line)
{
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	direct_begun begun = direct_begin<Scope>(buf, direct, receives, at, count, type, rank, tag, 0, line);
	return begun.error ? begun.error : direct_wait<Scope>(buf, begun.handle, status, line);
}

/* Waits for the request in a place, which then holds none. */
template <ggas_scope Scope>
GGAS_FN int direct_wait_place(const gmpi_buf *buf, uint64_t *request, gmpi_status *status, uint32_t line)
{
	using team = put_team<Scope>;
	uint64_t handle = *request;
	int error = direct_wait_all<Scope>(buf, handle, status, line);
	if (team::thread() == 0 && error != GMPI_ERR_TIMEOUT)
		*request = 0;
	team::meet();
	return error;
}

/* Goes on with what is under way; whether the request in a place is over, which then holds none. */
template <ggas_scope Scope>
GGAS_LONG int direct_test_place(const gmpi_buf *buf, uint64_t *request, int *flag, gmpi_status *status, uint32_t line)
{
	using team = put_team<Scope>;
	team::meet();
	uint64_t handle = *request, before = handle;
	gmpi_channel *state = direct_channel_of(buf, handle);
	*flag = 0;
	if (!state)
		return GMPI_ERR_REQUEST;
	direct_progress<Scope>(buf, reinterpret_cast<const gmpi_direct *>(buf->direct), line);
	for (; before; before = direct_before(buf, before))
		if (gmpi_channel *of = direct_channel_of(buf, before); of && !direct_is_over(of, before))
			return GMPI_SUCCESS;
	*flag = 1;
	int error = direct_told(state, handle, status, team::thread() == 0);
	team::meet();
	if (team::thread() == 0)
		*request = 0;
	team::meet();
	return error;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_H */
