/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Allreduces of short vectors, and barriers, of a direct communicator: each member stores its vector on a board of every other one, and
 * adds up what lies on its own, in the order of ranks, so all get the same bits.
 *
 * A block has two boards for each member, behind the mailboxes, and takes them in turn. Nobody is told that they are free: who begins
 * collective n + 2 has all of n + 1, so all members have begun that, and are done with n. Line k holds word k of the vector, and in its
 * high word the collective's number and what it is, so members whose calls differ find out. There is always a line 0. Where that is all, and
 * each lane can have a member, nothing is loaded again from the board.
 *
 * Order. Nothing but the vector is ordered by an allreduce. A barrier has a fence on either side: what the callers wrote before it is
 * seen behind it.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_REDUCE_H
#define GGAS_IMPL_GMPI_DIRECT_REDUCE_H

#include "gmpi_direct_few.h"

namespace ggas_impl
{

static_assert(GMPI_DIRECT_BOARD == 32 * sizeof(ggas_u128), "a warp stores a board in one go");

/* Bytes of the longest vector. */
constexpr uint32_t direct_vector_most = GMPI_DIRECT_BOARD / 2;
/* The number in a line, and what the collective is above it: bytes, type, operation. */
constexpr uint32_t direct_number_bits = 39, direct_type_shift = 9, direct_op_shift = 21;
constexpr uint64_t direct_number_mask = (uint64_t(1) << direct_number_bits) - 1;

GGAS_FN bool gmpi_is_float(uint32_t type) { return type == GMPI_FLOAT || type == GMPI_DOUBLE; }

/* Whether an allreduce goes from kernel to kernel. What is wrong with another one the daemon says. */
GGAS_FN bool direct_reduces(int count, uint32_t type, uint32_t op)
{
	uint32_t most_op = gmpi_is_float(type) ? GMPI_PROD : type >= GMPI_CHAR && type <= GMPI_UNSIGNED_LONG_LONG ? GMPI_BXOR : 0;
	/* A count below zero is too many. */
	return static_cast<uint32_t>(count) <= direct_vector_most && op - 1 < most_op &&
	       static_cast<uint32_t>(count) * (type & GMPI_TYPE_SIZE_MASK) <= direct_vector_most;
}

template <class To, class From> GGAS_FN To gmpi_bits(From from)
{
	static_assert(sizeof(To) == sizeof(From), "the same bits");
	To to;
	__builtin_memcpy(&to, &from, sizeof(to));
	return to;
}

template <class T> GGAS_FN T gmpi_combined(uint32_t op, T a, T b)
{
	return op == GMPI_MAX ? (b > a ? b : a) : op == GMPI_MIN ? (b < a ? b : a) : op == GMPI_SUM ? T(a + b) : T(a * b);
}

/* The operation on two elements, each in the low bits of a word; of an integer type the high bits do not matter. */
GGAS_LONG uint64_t gmpi_combine(uint32_t type, uint32_t op, uint64_t a, uint64_t b)
{
	if (type == GMPI_DOUBLE)
		return gmpi_bits<uint64_t>(gmpi_combined(op, gmpi_bits<double>(a), gmpi_bits<double>(b)));
	if (type == GMPI_FLOAT)
		return gmpi_bits<uint32_t>(gmpi_combined(op, gmpi_bits<float>(static_cast<uint32_t>(a)),
							 gmpi_bits<float>(static_cast<uint32_t>(b))));
	uint32_t unused = 64 - 8 * (type & GMPI_TYPE_SIZE_MASK);
	bool is_signed = type == GMPI_CHAR || type == GMPI_SIGNED_CHAR || type == GMPI_SHORT || type == GMPI_INT || type == GMPI_LONG ||
			 type == GMPI_LONG_LONG;
	a <<= unused;
	b <<= unused;
	if (op == GMPI_MAX || op == GMPI_MIN) {
		bool less = is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
		return (less == (op == GMPI_MAX) ? b : a) >> unused;
	}
	a >>= unused;
	b >>= unused;
	switch (op) {
	case GMPI_LAND:
		return a && b;
	case GMPI_LOR:
		return a || b;
	case GMPI_LXOR:
		return !a != !b;
	case GMPI_BAND:
		return a & b;
	case GMPI_BOR:
		return a | b;
	case GMPI_BXOR:
		return a ^ b;
	default:
		return gmpi_combined(op, a, b);
	}
}

/* One collective of a block, by the lanes of its leader. */
template <ggas_scope Scope> class direct_collective {
public:
	using team = gmpi_team<Scope>;
	using crew = direct_crew<Scope>;

	GGAS_FN direct_collective(const gmpi_buf *buf, uint32_t bytes, uint32_t type, uint32_t op, uint32_t line)
		: buf_(buf), direct_(&buf->direct), block_(buf->single ? 0 : ggas_block()), line_(line),
		  bytes_(bytes), lines_(bytes > 8 ? (bytes + 7) / 8 : 1)
	{
		number_ = reinterpret_cast<const uint64_t *>(direct_->collectives)[block_] + 1;
		uint64_t what = bytes | uint64_t(type) << direct_type_shift | uint64_t(op) << direct_op_shift;
		mark_ = (number_ & direct_number_mask) | what << direct_number_bits;
	}

	/* Sends this member's vector, and waits for those of all others. */
	GGAS_FN int by_lines(crew &others, const uint8_t *own, bool fenced) const
	{
		send([=](uint32_t) { return own; }, fenced);
		int error = wait(others, 0, 1);
		return error ? error : wait(others, 1, lines_);
	}

	/* To each other member what `of(member)` gives: a vector of this member's, or null, of which there is line 0 alone. `fenced`: behind a
	 * release. */
	template <class Of> GGAS_FN void send(Of of, bool fenced) const
	{
		uint32_t all = (direct_->size - 1) * lines_;
		GGAS_NO_UNROLL
		for (uint32_t i = team::lane(); i < all; i += team::lanes()) {
			uint32_t k = i % lines_, peer = i / lines_ + (i / lines_ >= direct_->rank);
			const uint8_t *from = of(peer);
			if (!from && k)
				continue;
			uint64_t word = from && 8 * k < bytes_ ? load_word(from + 8 * k, bytes_ - 8 * k) : 0;
			ggas_u128 *line = board(peer, direct_->rank) + k;
			if (fenced)
				ggas_store_fenced(line, ggas_u128{ word, mark_ });
			else
				ggas_store_relaxed(line, ggas_u128{ word, mark_ });
		}
	}

	/* Waits for lines `begin` to `end` of all others, or of one of them. */
	GGAS_FN int wait(crew &others, uint32_t begin, uint32_t end, uint32_t one = ~0u) const
	{
		uint32_t each = end - begin, all = (one == ~0u ? direct_->size - 1 : 1) * each;
		direct_waited waited = { 0, 1, 0, first_looks, 0, 0 };
		int wrong = GMPI_SUCCESS;
		GGAS_NO_UNROLL
		for (uint32_t done = 0; done < all;) {
			uint32_t i = done + team::lane(), peer = one == ~0u ? i / each + (i / each >= direct_->rank) : one;
			bool here = i >= all;
			GGAS_NO_UNROLL
			for (uint32_t look = 0; look < waited.looks && !here; look++) {
				uint64_t mark = ggas_watch_line(board(direct_->rank, peer) + begin + i % each).hi;
				here = (mark & direct_number_mask) == (mark_ & direct_number_mask);
				wrong = here && mark != mark_ ? GMPI_ERR_TRUNCATE : wrong;
			}
			uint32_t came = team::leading(here);
			done += came;
			if (came == team::lanes() || done >= all || looks_on(&waited))
				continue;
			waited.jobs = others.jobs();
			waited = direct_wait_step<Scope>(buf_, direct_handle(buf_, team::from(came, peer), number_ - 1, true), waited, line_);
			others = crew(waited.jobs);
			if (waited.error)
				return waited.error;
		}
		return team::agree(wrong);
	}

	/* Adds up all vectors, which are there. */
	GGAS_FN void combine(const uint8_t *from, uint8_t *to, uint32_t type, uint32_t op) const
	{
		uint32_t width = type & GMPI_TYPE_SIZE_MASK;
		GGAS_NO_UNROLL
		for (uint32_t at = team::lane() * width; at < bytes_; at += team::lanes() * width) {
			uint64_t own = load_word(from + at, width), sum = 0;
			GGAS_NO_UNROLL
			for (uint32_t peer = 0; peer < direct_->size; peer++) {
				uint64_t word = own;
				if (peer != direct_->rank)
					word = ggas_watch_line(board(direct_->rank, peer) + at / 8).lo >> at % 8 * 8;
				sum = peer ? gmpi_combine(type, op, sum, word) : word;
			}
			store_word(to + at, width, sum);
		}
	}

	/* Where a block of bytes_ goes that a member has stored here, or that lies here itself. By all lanes: word `k` of it. */
	GGAS_FN void take_word(uint8_t *to, uint32_t of, const uint8_t *own, uint32_t k) const
	{
		uint64_t left = bytes_ - 8 * k;
		store_word(to + 8 * k, left, of == direct_->rank ? load_word(own + 8 * k, left) : ggas_watch_line(board(direct_->rank, of) + k).lo);
	}
	GGAS_FN uint32_t words() const { return (bytes_ + 7) / 8; }
	GGAS_FN uint32_t lines() const { return lines_; }

	/* Whether each lane of the leader can have one member's vector, of one element at most. By all callers, who go the same way. */
	GGAS_FN static bool fits_lanes(const gmpi_direct *direct, int count) { return count <= 1 && direct->size <= direct_lanes<Scope>(); }

	/* The whole collective of such vectors: lane k stores to member k, and keeps what comes from there. `word`: this member's, and the result. */
	GGAS_FN int by_lanes(crew &others, uint64_t *word, uint32_t type, uint32_t op, bool fenced) const
	{
		uint32_t peer = team::lane(), size = direct_->size;
		bool is_other = peer < size && peer != direct_->rank, wrong = false;
		ggas_u128 seen = { *word, mark_ };
		if (is_other && fenced)
			ggas_store_fenced(board(peer, direct_->rank), seen);
		else if (is_other)
			ggas_store_relaxed(board(peer, direct_->rank), seen);
		ggas_u128 *from = is_other ? board(direct_->rank, peer) : nullptr;
		direct_waited waited = { 0, 1, 0, first_looks, 0, 0 };
		for (bool here = !is_other;;) {
			GGAS_NO_UNROLL
			for (uint32_t look = 0; look < waited.looks && !here; look++) {
				seen = ggas_watch_line(from);
				here = (seen.hi & direct_number_mask) == (mark_ & direct_number_mask);
				wrong = here && seen.hi != mark_;
			}
			uint32_t came = team::leading(here);
			if (came == team::lanes())
				break;
			if (looks_on(&waited))
				continue;
			waited.jobs = others.jobs();
			waited = direct_wait_step<Scope>(buf_, direct_handle(buf_, came, number_ - 1, true), waited, line_);
			others = crew(waited.jobs);
			if (waited.error)
				return waited.error;
		}
		uint64_t sum = team::from_first(seen.lo);
		GGAS_NO_UNROLL
		for (uint32_t k = 1; k < size && op; k++)
			sum = gmpi_combine(type, op, sum, team::from(k, seen.lo));
		*word = sum;
		return team::agree(wrong ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS);
	}

	/* The same within some looks. False: others are late, or make another call; by_lanes begins anew. */
	GGAS_FN bool by_lanes_now(uint64_t *word, uint32_t type, uint32_t op) const
	{
		uint32_t peer = team::lane(), size = direct_->size;
		bool is_other = peer < size && peer != direct_->rank, asked = false;
		ggas_u128 seen = { *word, mark_ };
		if (is_other && !op)
			ggas_store_fenced(board(peer, direct_->rank), seen);
		else if (is_other)
			ggas_store_relaxed(board(peer, direct_->rank), seen);
		const ggas_u128 *from = is_other ? board(direct_->rank, peer) : nullptr;
		seen.hi = is_other ? 0 : mark_;
		GGAS_NO_UNROLL
		for (uint32_t left = looks_of_all; team::agree(seen.hi != mark_); left--) {
			if (!left && (asked || !direct_is_quiet(buf_)))
				return false;
			if (!left) {
				asked = true;
				left = looks_if_quiet;
			}
			if (is_other)
				seen = ggas_watch_line(from);
		}
		uint64_t sum = team::from_first(seen.lo);
		GGAS_NO_UNROLL
		for (uint32_t k = 1; k < size && op; k++)
			sum = gmpi_combine(type, op, sum, team::from(k, seen.lo));
		*word = sum;
		return true;
	}

	/* Others may have come this far and further. The vector went to member `to`; this one itself: to nobody. */
	static constexpr uint32_t each_other = ~0u;
	GGAS_FN void over(uint32_t to) const
	{
		team::meet();
		if (team::lane() == 0) {
			reinterpret_cast<uint64_t *>(direct_->collectives)[block_] = number_;
			gmpi_channel *state = direct_state(buf_, direct_, to == each_other ? direct_->rank : to);
			if (to != direct_->rank)
				ggas_red_add(to == each_other ? &state->to_each : &state->bytes, bytes_, ggas_order::relaxed);
		}
		team::meet();
	}

private:
	/* Whether a step with everybody, which costs microseconds, is put off, as nothing is under way: once, as others may be dead. */
	GGAS_FN bool looks_on(direct_waited *waited) const
	{
		if (waited->looks != first_looks || waited->attempt != 1 || !direct_is_quiet(buf_))
			return false;
		waited->looks = looks_if_quiet;
		waited->attempt = 2;
		return true;
	}

	/* The board of `owner` for vectors of member `of`. */
	GGAS_FN ggas_u128 *board(uint32_t owner, uint32_t of) const
	{
		uint64_t which = 2 * (uint64_t(block_) * direct_->size + of) + (number_ & 1);
		return direct_pointer<ggas_u128>(direct_, owner, direct_->boards + which * GMPI_DIRECT_BOARD);
	}

	const gmpi_buf *buf_;
	const gmpi_direct *direct_;
	uint32_t block_, line_, bytes_, lines_;
	uint64_t number_, mark_;
};

/* The same of a vector of one element at most, if all others have begun theirs, or do soon; 0: it is over, and nothing is changed else. By
 * the lanes of the leader. What is wrong is left to its other way. */
template <ggas_scope Scope>
GGAS_FN int direct_reduce_lanes(const gmpi_buf *buf, const uint8_t *own, uint8_t *to, uint32_t bytes, uint32_t type, uint32_t op)
{
	using team = gmpi_team<Scope>;
	direct_collective<Scope> all(buf, bytes, type, op, 0);
	uint64_t word = bytes ? load_word(own, bytes) : 0;
	if (!op)
		ggas_fence_release();
	if (!all.by_lanes_now(&word, type, op))
		return 1;
	if (bytes && team::lane() == 0)
		store_word(to, bytes, word);
	if (!op)
		ggas_fence_acquire();
	all.over(all.each_other);
	return 0;
}

/* The allreduce, or with no operation the barrier, of the callers, by the leader. */
template <ggas_scope Scope>
GGAS_LONG int direct_reduce_led(const gmpi_buf *buf, const uint8_t *own, uint8_t *to, int count, uint32_t type, uint32_t op, uint32_t line)
{
	using crew = direct_crew<Scope>;
	bool orders = op == 0;
	crew::enter();
	if (!crew::leads())
		return crew::work();
	crew others;
	uint32_t bytes = static_cast<uint32_t>(count) * (type & GMPI_TYPE_SIZE_MASK);
	direct_collective<Scope> all(buf, bytes, type, op, line);
	if (orders)
		ggas_fence_release();
	int error;
	if (direct_collective<Scope>::fits_lanes(&buf->direct, count)) {
		uint64_t word = bytes ? load_word(own, bytes) : 0;
		error = all.by_lanes(others, &word, type, op, orders);
		if (!error && bytes && gmpi_team<Scope>::lane() == 0)
			store_word(to, bytes, word);
	} else {
		error = all.by_lines(others, own, orders);
		if (!error)
			all.combine(own, to, type, op);
	}
	if (orders)
		ggas_fence_acquire();
	/* Who waited in vain may make the same call again. */
	if (!error || error == GMPI_ERR_TRUNCATE)
		all.over(all.each_other);
	return others.end(error);
}

/* By the callers: with one element each by looks of the leader, which cost two barriers. */
template <ggas_scope Scope>
GGAS_LONG int direct_reduce(const gmpi_buf *buf, const void *from, void *to, int count, uint32_t type, uint32_t op, uint32_t line)
{
	using team = gmpi_team<Scope>;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	if (!gmpi_port_of(buf))
		return gmpi_no_port(buf, op ? GMPI_CALL_ALLREDUCE : GMPI_CALL_BARRIER, line);
	auto *own = static_cast<const uint8_t *>(gmpi_address(from) == GMPI_IN_PLACE_ADDRESS ? to : from);
	auto *result = static_cast<uint8_t *>(to);
	if (direct_collective<Scope>::fits_lanes(&buf->direct, count)) {
		uint32_t bytes = static_cast<uint32_t>(count) * (type & GMPI_TYPE_SIZE_MASK);
		team::all::meet();
		int late = team::writes() ? direct_reduce_lanes<Scope>(buf, own, result, bytes, type, op) : 0;
		if (!team::all::agree(late))
			return GMPI_SUCCESS;
	}
	return direct_reduce_led<Scope>(buf, own, result, count, type, op, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_REDUCE_H */
