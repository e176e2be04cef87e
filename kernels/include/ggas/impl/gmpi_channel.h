/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a block exchanges with one member of a direct communicator, without the daemon: on a communicator whose members' kernels reach each
 * other (Gmpi::direct).
 *
 * Each block has a mailbox for each member in its part of a window, into which the block of the same number there stores: `slots` slots,
 * a message in as many of them as it needs, one message behind the other. Slot r of a mailbox holds part r of all that came, from 0, and
 * its first line says so: { tag, bytes of the whole message; r + 1 }. A message that is in its place already (gmpi_places.h) has that line
 * alone. A sender goes on while the receiver has taken all but `slots`,
 * which that one stores into the sender's own part, half of the slots at a time. A mailbox: what was taken of the other way's (64 bytes);
 * places of the other way's messages; the lines of all slots; the bytes of long messages, slot behind slot.
 *
 * Order. Short messages: each 16 bytes hold 8, and their part's number, so that nothing follows them, and nothing is ordered. They lie
 * where a slot has nothing else: a program's own words might look like numbers. Long ones: plain stores of parts, a meeting, then the
 * first lines with release. What was taken is told with release behind the reads, and seen with acquire.
 *
 * Fences cost a microsecond, and an acquire empties the multiprocessor's cache, from which all that follows is then loaded anew. So a
 * sender looks at what was taken only when it knows of no room, a receiver acquires for long messages only, and a quarter of the slots
 * is ordered while the next one is copied (gmpi_crew.h).
 */
#ifndef GGAS_IMPL_GMPI_CHANNEL_H
#define GGAS_IMPL_GMPI_CHANNEL_H

#include "gmpi_places.h"

namespace ggas_impl
{

/* The way of a communicator without the daemon; null: there is none. */
GGAS_FN const gmpi_direct *gmpi_direct_of(const gmpi_buf *buf, uint64_t comm, int rank)
{
	return comm && rank != GMPI_PROC_NULL && buf->direct.comm == comm ? &buf->direct : nullptr;
}

/* A request that its callers go on with: a direct one, or one of the daemon's that took the place of such a one. */
GGAS_FN bool gmpi_is_direct(uint64_t handle)
{
	constexpr uint64_t either = uint64_t(1) << GMPI_REQUEST_DIRECT_SHIFT | uint64_t(1) << GMPI_REQUEST_AFTER_SHIFT;
	return (handle & either) && !(handle >> GMPI_REQUEST_PERSISTENT_SHIFT);
}

/* The former. */
GGAS_FN bool direct_is_own(uint64_t handle) { return handle >> GMPI_REQUEST_DIRECT_SHIFT == 1; }

/* Whether a message travels in lines: it has room in those of a slot. */
GGAS_FN bool direct_is_short(uint64_t bytes, uint64_t slot_bytes) { return bytes <= GMPI_DIRECT_SHORT && 2 * bytes <= slot_bytes; }

/* Looks at what the member there has taken of what was sent, with acquire; `known`: so far. By the leader. */
template <ggas_scope Scope> GGAS_FN uint64_t direct_emptied(const gmpi_channel *state, uint64_t known)
{
	using team = gmpi_team<Scope>;
	uint64_t taken = known;
	if (team::lane() == 0) {
		taken = ggas_load_watched(reinterpret_cast<const uint64_t *>(state->mine));
		if (taken != known)
			ggas_fence_acquire();
	}
	taken = team::from_first(taken);
	team::meet();
	return taken;
}

/* What steps came to: whether anything moved, and the jobs of the crew so far. */
struct direct_moved {
	bool any;
	uint32_t jobs;
};

/* Goes on with one member. The counts are in registers: the leader's lanes have the same ones, and the first stores them where the next
 * call finds them. */
template <ggas_scope Scope> class direct_channel {
public:
	using team = gmpi_team<Scope>;
	using crew = direct_crew<Scope>;

	GGAS_FN direct_channel(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t peer, uint32_t line)
		: buf_(buf), direct_(direct), peer_(peer), block_(buf->single ? 0 : ggas_block()), line_(line),
		  slots_(direct->slots), slot_bytes_(direct->slot_bytes),
		  state_(reinterpret_cast<gmpi_channel *>(direct->channels) + uint64_t(block_) * direct->size + peer),
		  mine_(direct_box(direct, block_, direct->rank, peer)), theirs_(direct_box(direct, block_, peer, direct->rank))
	{
		sent_ = state_->sent;
		taken_ = state_->taken;
		emptied_ = state_->emptied;
		told_ = state_->told;
		sends_ = state_->sends;
		receives_ = state_->receives;
		/* Calls that are quick (gmpi_direct_requests.h) find them there; all lanes have seen that they were not. */
		team::meet();
		if (team::lane() == 0) {
			state_->mine = reinterpret_cast<uint64_t>(mine_);
			state_->theirs = reinterpret_cast<uint64_t>(theirs_);
		}
		team::meet();
	}

	/* Stores more of what is to be sent there, if there is room. Whether it did. */
	GGAS_FN bool push(crew &others)
	{
		if (sends_.done == sends_.posted)
			return false;
		const gmpi_direct_op &op = state_->send[sends_.done % GMPI_DIRECT_OPS];
		uint64_t bytes = op.bytes, address = op.address, info = static_cast<uint32_t>(op.tag) | bytes << 32;
		if (!direct_is_short(bytes, slot_bytes_))
			return push_long(others);
		if (sent_ - emptied_ >= slots_ && !more_room())
			return false;
		const gmpi_shape *shape = shape_of(op, state_->send_shape, sends_.done);
		others.give({ crew_work::lines_out, GMPI_SUCCESS, 0, address, bytes, lines(theirs_, sent_, info), from(shape), 0 }, shape);
		sent_++;
		sends_.done++;
		team::meet();
		save_sends();
		return true;
	}

	/* Takes more of what is to be received from there, if it is here. Whether it did. */
	GGAS_FN bool pull(crew &others)
	{
		if (receives_.done == receives_.posted)
			return false;
		gmpi_direct_op *op = state_->receive + receives_.done % GMPI_DIRECT_OPS;
		uint64_t address = op->address, most = op->bytes;
		int wanted = op->tag;
		uint64_t number = 0, info = 0;
		if (team::lane() == 0) {
			ggas_u128 first = ggas_watch_line(line_of(mine_, taken_));
			number = first.hi;
			info = first.lo;
		}
		number = team::from_first(number);
		info = team::from_first(info);
		if (number != taken_ + 1)
			return false;
		uint64_t total = info >> 32;
		if (info & is_placed)
			return pull_placed(op, info);
		if (!direct_is_short(total, slot_bytes_))
			return pull_parts(others);
		int tag = static_cast<int>(info & 0xffffffff);
		bool wrong = wanted != GMPI_ANY_TAG && wanted != tag;
		uint64_t fits = wrong ? 0 : total < most ? total : most;
		const gmpi_shape *shape = shape_of(*op, state_->receive_shape, receives_.done);
		int late = others.give({ crew_work::lines_in, GMPI_SUCCESS, address, 0, fits, lines(mine_, taken_, total), to(shape), 0 }, shape);
		late |= others.drain();
		taken_++;
		over(op, late ? GMPI_ERR_TIMEOUT : wrong ? GMPI_ERR_TAG : total > most ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS, tag,
		     total < most ? total : most);
		tell();
		save_receives();
		return true;
	}

private:
	/* Where the bytes of operation `number` lie; null: together. */
	GGAS_FN static const gmpi_shape *shape_of(const gmpi_direct_op &op, const gmpi_shape *shapes, uint64_t number)
	{
		return op.shaped ? shapes + number % GMPI_DIRECT_OPS : nullptr;
	}
	GGAS_FN static crew_shape from(const gmpi_shape *shape) { return shape ? crew_shape::from : crew_shape::none; }
	GGAS_FN static crew_shape to(const gmpi_shape *shape) { return shape ? crew_shape::to : crew_shape::none; }

	/* The lanes have met since others of them changed what they loaded. */
	GGAS_FN void save_sends()
	{
		if (team::lane() == 0) {
			state_->sent = sent_;
			state_->emptied = emptied_;
			state_->sends = sends_;
		}
		team::meet();
	}
	GGAS_FN void save_receives()
	{
		if (team::lane() == 0) {
			state_->taken = taken_;
			state_->told = told_;
			state_->receives = receives_;
		}
		team::meet();
	}
	GGAS_FN bool push_long(crew &others)
	{
		const gmpi_direct_op &op = state_->send[sends_.done % GMPI_DIRECT_OPS];
		if (op.bytes < GMPI_DIRECT_PLACED || sends_.at)
			return push_parts(others);
		if (sent_ - emptied_ >= slots_ && !more_room())
			return false;
		direct_place place = direct_place_of<Scope>(direct_, mine_, peer_, sends_.done, op.tag);
		if (!place.address)
			return push_parts(others);
		uint64_t bytes = op.bytes, info = static_cast<uint32_t>(op.tag) | is_placed | bytes << 32;
		const gmpi_shape *shape = shape_of(op, state_->send_shape, sends_.done);
		uint64_t fits = bytes < place.room ? bytes : place.room;
		others.give({ crew_work::copy_all, GMPI_SUCCESS, place.address, op.address, fits, {}, from(shape), 0 }, shape);
		others.drain();
		publish(sent_, sent_ + 1, info);
		sent_++;
		sends_.done++;
		save_sends();
		return true;
	}
	GGAS_FN bool push_parts(crew &others)
	{
		const gmpi_direct_op op = state_->send[sends_.done % GMPI_DIRECT_OPS];
		const gmpi_shape *shape = shape_of(op, state_->send_shape, sends_.done);
		uint64_t info = static_cast<uint32_t>(op.tag) | uint64_t(op.bytes) << 32, begun = sent_, copied = sent_;
		while (sends_.at < op.bytes) {
			if (sent_ - emptied_ >= slots_ && !more_room())
				break;
			uint64_t left = op.bytes - sends_.at, count = at_once(left, slots_ - (sent_ - emptied_), sent_);
			uint64_t most = count * slot_bytes_, bytes = left < most ? left : most;
			/* Beside the only copy of a message nothing is ordered or told. */
			crew_work work = sent_ == begun && bytes == op.bytes ? crew_work::copy_all : crew_work::copy;
			others.give({ work, GMPI_SUCCESS, payload(theirs_, sent_), op.address + (shape ? 0 : sends_.at), bytes, {},
				      from(shape), static_cast<uint32_t>(sends_.at) }, shape);
			/* What was given before is there. */
			publish(copied, sent_, info);
			copied = sent_;
			sent_ += count;
			sends_.at += bytes;
		}
		others.drain();
		publish(copied, sent_, info);
		bool any = sent_ != begun;
		if (sends_.at >= op.bytes) {
			sends_.at = 0;
			sends_.done++;
		}
		save_sends();
		return any;
	}

	/* It is in its place. With acquire. */
	GGAS_FN bool pull_placed(gmpi_direct_op *op, uint64_t info)
	{
		uint64_t total = info >> 32, most = op->bytes;
		ggas_fence_acquire();
		/* All lanes have loaded what was asked for. */
		team::meet();
		taken_++;
		over(op, total > most ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS, static_cast<int>(info & (is_placed - 1)), total < most ? total : most);
		tell();
		save_receives();
		return true;
	}

	GGAS_FN bool pull_parts(crew &others)
	{
		gmpi_direct_op *op = state_->receive + receives_.done % GMPI_DIRECT_OPS;
		const gmpi_direct_op asked = *op;
		const gmpi_shape *shape = shape_of(asked, state_->receive_shape, receives_.done);
		uint64_t total = 0, count, begun = taken_, &at = receives_.at;
		int tag = 0;
		bool wrong = false;
		while ((count = parts_here(at, &total, &tag))) {
			wrong = asked.error == GMPI_ERR_TAG || (asked.tag != GMPI_ANY_TAG && asked.tag != tag);
			uint64_t most = count * slot_bytes_, left = total - at, bytes = left < most ? left : most;
			uint64_t room = wrong || at >= asked.bytes ? 0 : asked.bytes - at, fits = bytes < room ? bytes : room;
			crew_work work = taken_ == begun && bytes == total ? crew_work::copy_all : crew_work::copy;
			others.give({ work, GMPI_SUCCESS, asked.address + (shape ? 0 : at), payload(mine_, taken_), fits, {},
				      to(shape), static_cast<uint32_t>(at) }, shape);
			/* What was given before has been read. */
			tell();
			taken_ += count;
			at += bytes;
			if (at >= total)
				break;
		}
		others.drain();
		if (taken_ == begun)
			return false;
		if (at >= total)
			over(op, wrong ? GMPI_ERR_TAG : total > asked.bytes ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS, tag,
			     total < asked.bytes ? total : asked.bytes);
		else if (wrong && team::lane() == 0)
			op->error = GMPI_ERR_TAG;
		tell();
		save_receives();
		return true;
	}

	/* How many parts are here that may be read as one; 0: none. With acquire. */
	GGAS_FN uint64_t parts_here(uint64_t at, uint64_t *total, int *tag) const
	{
		ggas_u128 first = { 0, 0 };
		if (team::lane() == 0)
			first = ggas_watch_line(line_of(mine_, taken_));
		uint64_t number = team::from_first(first.hi), info = team::from_first(first.lo), count = 0;
		if (number == taken_ + 1) {
			uint64_t most = at_once((info >> 32) - at, slots_, taken_);
			/* Each lane looks at another one. */
			for (uint64_t here = team::lanes(); here == team::lanes() && count < most; count += here) {
				uint64_t part = taken_ + count + team::lane();
				bool there = count + team::lane() < most && ggas_watch_line(line_of(mine_, part)).hi == part + 1;
				here = team::leading(there);
			}
			ggas_fence_acquire();
		}
		team::meet();
		*total = count ? info >> 32 : *total;
		*tag = count ? static_cast<int>(info & 0xffffffff) : *tag;
		return count;
	}

	/* Of the parts that were copied: tells the receiver, with release. */
	GGAS_FN void publish(uint64_t from, uint64_t to, uint64_t info) const
	{
		if (from == to)
			return;
		team::meet();
		if (team::lane() == 0) {
			ggas_fence_release();
			for (uint64_t number = from; number < to; number++)
				ggas_store_fenced(line_of(theirs_, number), ggas_u128{ info, number + 1 });
		}
	}

	/* The receive is over. */
	GGAS_FN void over(gmpi_direct_op *op, int error, int tag, uint64_t got)
	{
		if (team::lane() == 0) {
			op->error = static_cast<uint32_t>(error);
			op->tag = tag;
			op->got = got;
		}
		receives_.at = 0;
		receives_.done++;
	}

	/* Whoever sees it may write the slots again: they have been read. */
	GGAS_FN void tell()
	{
		if (taken_ - told_ < slots_ / 2)
			return;
		team::meet();
		if (team::lane() == 0)
			ggas_store_release(theirs_, taken_);
		told_ = taken_;
	}

	/* Looks at what the other one has taken. */
	GGAS_FN bool more_room()
	{
		emptied_ = direct_emptied<Scope>(state_, emptied_);
		return sent_ - emptied_ < slots_;
	}

	/* Parts that travel behind one fence, from part `number` on: a quarter of the slots, what there is room for, as far as they lie in a
	 * row. */
	GGAS_FN uint64_t at_once(uint64_t bytes, uint64_t room, uint64_t number) const
	{
		uint64_t parts = (bytes + slot_bytes_ - 1) / slot_bytes_, most = slots_ > 4 ? slots_ / 4 : 1;
		uint64_t row = slots_ - (number & (slots_ - 1));
		most = most < room ? most : room;
		most = most < row ? most : row;
		return parts < most ? parts : most;
	}

	GGAS_FN direct_lines lines(uint64_t *box, uint64_t number, uint64_t info) const
	{
		return { line_of(box, number), number + 1, info, buf_->report, direct_->timeout_ns, direct_->rank, peer_, line_ };
	}
	GGAS_FN ggas_u128 *line_of(uint64_t *box, uint64_t number) const
	{
		return direct_line(reinterpret_cast<uint64_t>(box), number, slots_, slot_bytes_);
	}
	GGAS_FN uint64_t payload(uint64_t *box, uint64_t number) const
	{
		uint64_t base = reinterpret_cast<uint64_t>(box) + direct_front + slots_ * direct_lines_room(slot_bytes_);
		return base + (number & (slots_ - 1)) * slot_bytes_;
	}

	const gmpi_buf *buf_;
	const gmpi_direct *direct_;
	uint32_t peer_, block_, line_;
	uint64_t slots_, slot_bytes_;
	gmpi_channel *state_;
	uint64_t *mine_, *theirs_;
	uint64_t sent_, taken_, emptied_, told_;
	gmpi_direct_end sends_, receives_;
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_CHANNEL_H */
