/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Packed puts: each 16 bytes that travel hold 12 bytes of data and a flag, in
 * one access, so that no signal and no fence follows them (thesis 6.6, NCCL's
 * "LL" with a wider line). Included by put.cuh.
 *
 * The flag of a line is its number among all that were put, from 1: a receiver
 * that knows how many lines it took knows what flag the next ones will have. A
 * sender goes on while the ring has room; the receiver tells it every quarter of
 * a ring how far it took, behind its own next put if it can: the release takes as
 * long as that put travels.
 */
#ifndef GGAS_IMPL_PUT_PACKED_H
#define GGAS_IMPL_PUT_PACKED_H

#include "put_line.h"

/* Rings for packed puts in the parts of a window, which the host lays out
 * (ggas_window::Rings): for each lane and node a ring of `lines`, which that
 * node puts into. Zero at first, and again after a failure. */
struct ggas_rings {
	uint64_t offset;	/* of the rings in every part, a multiple of 64 */
	uint32_t lanes;		/* pairs of callers that may put at the same time */
	uint32_t lines_log2;	/* of one ring, 3 to 30: 2^3 lines at least */
};

/*
 * One end of a pair of rings: lane `lane` between this node and `peer`, held by a
 * thread, warp or block while the same lane is held on the other side. All of its
 * callers make each call together; what they know of the rings is in registers.
 *
 *	ggas_packed_end<ggas_scope::block> end(&window, rings, peer, ggas_block());
 *	int error = end.put(in, bytes);		// to the peer
 *	error = end.take(out, bytes);		// what the peer put
 *	...
 *	error = end.close();			// before the kernel ends
 *
 * Puts are taken in their order, with the same numbers of bytes. Up to half a
 * ring is on its way without the peer taking; more waits for it. put() returns
 * when this thread's part of the source was read. take() returns with the data,
 * for all callers, and orders nothing else.
 *
 * A failure stays: put() has the status of this thread, take() and close() that
 * of all callers. After one, the host clears the rings.
 */
template <ggas_scope Scope> class ggas_packed_end {
	using team = ggas_impl::put_team<Scope>;
	using state = ggas_impl::packed_state;

public:
	GGAS_FN ggas_packed_end(const ggas_window *window, const ggas_rings &rings, uint32_t peer, uint32_t lane,
				uint32_t line = __builtin_LINE())
		: report_(window->report), timeout_(window->timeout_ns), node_(window->node), peer_(peer), line_(line),
		  status_(GGAS_OK)
	{
		if (rings.lines_log2 < 3 || rings.lines_log2 > 30) {
			status_ = ggas_impl::refuse_put(window, peer, rings.offset, rings.lines_log2, line);
			return;
		}
		uint64_t lines = 1ull << rings.lines_log2, each = sizeof(state) + lines * sizeof(ggas_u128);
		/* A product that wraps would seem to fit. */
		uint64_t all = static_cast<uint64_t>(rings.lanes) * window->nodes;
		uint64_t bytes = all > ~0ull / each ? ~0ull : all * each;
		uint32_t opens = ggas_impl::traced(ggas_impl::trace_rings | rings.lines_log2, line);
		status_ = ggas_impl::check_put(window, peer, rings.offset, bytes, opens);
		if (!status_ && lane >= rings.lanes)
			status_ = ggas_impl::refuse_put(window, peer, lane, rings.lanes, line);
		if (status_)
			return;
		uint64_t of_lane = rings.offset + each * lane * window->nodes;
		own_ = ggas_pointer_of_node<state>(window, window->node, of_lane + each * peer);
		there_ = ggas_pointer_of_node<state>(window, peer, of_lane + each * window->node);
		sent_ = ring(ggas_load_relaxed(&own_->sent), static_cast<uint32_t>(lines) - 1);
		taken_ = ring(ggas_load_relaxed(&own_->taken), static_cast<uint32_t>(lines) - 1);
		short_ = team::threads() < ring_lines() / 2 ? team::threads() : ring_lines() / 2;
		short_ *= ggas_impl::packed_bytes;
		told_ = taken_.count;
		look_for_room();
	}

	/* Sends `bytes` to the peer. Quickest where `from` and `bytes` are multiples of 4. */
	GGAS_FN int put(const void *from, uint64_t bytes)
	{
		auto *at = static_cast<const uint8_t *>(from);
		if (is_short(from, bytes))
			return put_short(at, static_cast<uint32_t>(bytes));
		for (; bytes && !status_;) {
			uint32_t part = part_of(bytes), lines = lines_of(part);
			if (!has_room(lines))
				break;
			send(at, part, lines);
			sent_.advance(lines);
			room_ -= lines;
			at += part;
			bytes -= part;
		}
		tell_late(ring_lines() / 4);
		return status_;
	}

	/* Receives `bytes` that the peer put. */
	GGAS_FN int take(void *to, uint64_t bytes)
	{
		auto *at = static_cast<uint8_t *>(to);
		tell_late(ring_lines() / 4);
		if (is_short(to, bytes))
			return take_short(at, static_cast<uint32_t>(bytes));
		while (bytes) {
			uint32_t part = part_of(bytes), lines = lines_of(part);
			if (!status_)
				status_ = receive(at, part, lines);
			if ((status_ = team::agree(status_)))
				return status_;
			took(lines);
			at += part;
			bytes -= part;
		}
		return status_;
	}

	/* A message by all blocks of the grid, a lane each: every block puts its share, and takes that of the same block
	 * on the other side, whose grid is as large. What a block took is seen by that block. */
	GGAS_FN int put_share(const void *from, uint64_t bytes)
	{
		ggas_impl::put_share share = ggas_impl::share_of_block(bytes, 4 * ggas_impl::packed_bytes);
		return put(static_cast<const uint8_t *>(from) + share.offset, share.bytes);
	}
	GGAS_FN int take_share(void *to, uint64_t bytes)
	{
		ggas_impl::put_share share = ggas_impl::share_of_block(bytes, 4 * ggas_impl::packed_bytes);
		return take(static_cast<uint8_t *>(to) + share.offset, share.bytes);
	}

	/* Puts down how far this end came, for the kernel that opens it next. */
	GGAS_FN int close()
	{
		if ((status_ = team::agree(status_)))
			return status_;
		if (team::thread() == 0) {
			uint64_t before = ggas_load_relaxed(&own_->sent); /* all of them, for traces: here are 32 bits */
			ggas_store_relaxed(&own_->sent, before + (sent_.count - static_cast<uint32_t>(before)));
			ggas_store_relaxed(&own_->taken, static_cast<uint64_t>(taken_.count));
		}
		tell();
		return GGAS_OK;
	}

private:
	static constexpr uint32_t batch = 4; /* loads of a thread under way together */

	/* How many lines of a ring were used: 32 bits, which cost less, and whose differences are right. Where they begin
	 * again, a flag is 0; what lies in its place then has another. */
	struct ring {
		uint32_t count, mask;

		ring() = default;
		GGAS_FN ring(uint64_t lines, uint32_t mask) : count(static_cast<uint32_t>(lines)), mask(mask) {}
		GGAS_FN void advance(uint32_t by) { count += by; }
		/* The i-th line from here, and its flag. */
		GGAS_FN ggas_u128 *line(state *side, uint32_t i) const
		{
			return reinterpret_cast<ggas_u128 *>(side + 1) + ((count + i) & mask);
		}
		GGAS_FN uint32_t flag(uint32_t i) const { return count + i + 1; }
	};

	GGAS_FN uint32_t ring_lines() const { return taken_.mask + 1; }
	/* Both ends cut messages alike: with half a ring at most, the receiver has told of enough. */
	GGAS_FN uint32_t part_of(uint64_t bytes) const
	{
		uint64_t most = static_cast<uint64_t>(ring_lines() / 2) * ggas_impl::packed_bytes;
		most = most < 1u << 30 ? most : (1u << 30) / 48 * 48;
		return static_cast<uint32_t>(bytes < most ? bytes : most);
	}
	GGAS_FN static uint32_t lines_of(uint32_t bytes)
	{
		return (bytes + ggas_impl::packed_bytes - 1) / ggas_impl::packed_bytes;
	}

	/* A line of each thread at most, in whole words: most messages, in few instructions. */
	GGAS_FN bool is_short(const void *buffer, uint64_t bytes) const
	{
		return bytes <= short_ && (reinterpret_cast<uint64_t>(buffer) | bytes) % 4 == 0;
	}
	GGAS_FN int put_short(const uint8_t *from, uint32_t bytes)
	{
		uint32_t i = team::thread(), lines = lines_of(bytes);
		if (has_room(lines)) {
			if (i < lines)
				send_line(i, ggas_impl::load_few_words(from + i * ggas_impl::packed_bytes,
								       bytes - i * ggas_impl::packed_bytes));
			sent_.advance(lines);
			room_ -= lines;
		}
		tell_late(ring_lines() / 4);
		return status_;
	}
	GGAS_FN int take_short(uint8_t *to, uint32_t bytes)
	{
		uint32_t i = team::thread(), lines = lines_of(bytes);
		/* Other threads of a warp wait with those that have lines: it polls slowly while its threads are apart. */
		uint32_t polled = i < lines ? i : lines - 1, flag = taken_.flag(polled);
		const ggas_u128 *from = taken_.line(own_, polled);
		if (i / GGAS_WARP_SIZE * GGAS_WARP_SIZE < lines && !status_) {
			ggas_u128 line = ggas_load_relaxed(from);
			/* Not rolled out: a poll of 64 looks in a row drives what comes next out of the cache for
			 * instructions. */
			GGAS_NO_UNROLL
			for (uint32_t k = 1; k < ggas_impl::quick_polls && ggas_impl::flag_of(line) != flag; k++)
				line = ggas_load_relaxed(from);
			if (ggas_impl::flag_of(line) != flag) {
				status_ = ggas_impl::wait_line(from, flag, report_, timeout_, node_, peer_, line_);
				line = ggas_load_relaxed(from);
			}
			if (!status_ && i < lines)
				ggas_impl::store_few_words(to + i * ggas_impl::packed_bytes,
							   bytes - i * ggas_impl::packed_bytes, line);
		}
		if ((status_ = team::agree(status_)))
			return status_;
		took(lines);
		return GGAS_OK;
	}

	/* Room for `lines`, or an error in status_. */
	GGAS_FN bool has_room(uint32_t lines)
	{
		if (room_ < lines && !status_)
			status_ = wait_for_room(lines);
		return !status_;
	}
	/* Looks how many lines the peer has taken. For a thread that lags behind its team, it may be more than it sent. */
	GGAS_FN void look_for_room()
	{
		auto granted = static_cast<uint32_t>(ggas_load_acquire(&own_->credit));
		room_ = ring_lines() + granted - sent_.count;
	}
	/* The acquire joins what the receiver read before it told with what is written there next. */
	GGAS_FN int wait_for_room(uint32_t lines)
	{
		ggas_wait wait(report_, timeout_, GGAS_WAIT_FLAG, node_, peer_, line_);
		for (;;) {
			look_for_room();
			if (room_ >= lines)
				return GGAS_OK;
			uint32_t least = sent_.count + lines - ring_lines();
			if (int error = wait.again(&own_->credit, least, least + room_ - lines))
				return error;
		}
	}

	/* All callers have read these lines. The peer may always have half a ring on its way. */
	GGAS_FN void took(uint32_t lines)
	{
		taken_.advance(lines);
		tell_late(ring_lines() / 2);
	}
	/* Tells the peer what was taken once that is `lines`. */
	GGAS_FN void tell_late(uint32_t lines)
	{
		if (taken_.count - told_ >= lines && !status_)
			tell();
	}
	GGAS_FN void tell()
	{
		told_ = taken_.count;
		if (team::thread() == 0)
			ggas_store_release(&there_->credit, static_cast<uint64_t>(taken_.count));
	}

	/* How many lines of `bytes` are whole words on this side; only the last can be shorter. */
	GGAS_FN static uint32_t whole_lines(const void *buffer, uint32_t bytes)
	{
		return reinterpret_cast<uint64_t>(buffer) % 4 == 0 ? bytes / ggas_impl::packed_bytes : 0;
	}

	GGAS_FN void send(const uint8_t *from, uint32_t bytes, uint32_t lines) const
	{
		uint32_t all = team::threads(), i = team::thread(), whole = whole_lines(from, bytes);
		for (; i + (batch - 1) * all < whole; i += batch * all) {
			ggas_impl::packed_words words[batch];
			for (uint32_t k = 0; k < batch; k++)
				words[k] = ggas_impl::load_words(from + (i + k * all) * ggas_impl::packed_bytes);
			for (uint32_t k = 0; k < batch; k++)
				send_line(i + k * all, words[k]);
		}
		for (; i < whole; i += all)
			send_line(i, ggas_impl::load_words(from + i * ggas_impl::packed_bytes));
		for (; i < lines; i += all)
			send_line(i, load_partial(from, bytes, i));
	}
	GGAS_FN void send_line(uint32_t i, ggas_impl::packed_words words) const
	{
		ggas_store_relaxed(sent_.line(there_, i), ggas_impl::pack(words, sent_.flag(i)));
	}
	GGAS_FN static ggas_impl::packed_words load_partial(const uint8_t *from, uint32_t bytes, uint32_t i)
	{
		uint32_t at = i * ggas_impl::packed_bytes, left = bytes - at;
		left = left < ggas_impl::packed_bytes ? left : ggas_impl::packed_bytes;
		if ((reinterpret_cast<uint64_t>(from) | left) % 4 == 0)
			return ggas_impl::load_few_words(from + at, left);
		return ggas_impl::load_bytes(from + at, left);
	}
	GGAS_FN static void store_partial(uint8_t *to, uint32_t bytes, uint32_t i, ggas_u128 line)
	{
		uint32_t at = i * ggas_impl::packed_bytes, left = bytes - at;
		left = left < ggas_impl::packed_bytes ? left : ggas_impl::packed_bytes;
		if ((reinterpret_cast<uint64_t>(to) | left) % 4 == 0)
			ggas_impl::store_few_words(to + at, left, line);
		else
			ggas_impl::store_bytes(to + at, left, line);
	}

	GGAS_FN int receive(uint8_t *to, uint32_t bytes, uint32_t lines) const
	{
		ggas_wait wait(report_, timeout_, GGAS_WAIT_FLAG, node_, peer_, line_);
		uint32_t all = team::threads(), i = team::thread(), whole = whole_lines(to, bytes);
		ggas_u128 line[batch];
		for (; i + (batch - 1) * all < whole; i += batch * all) {
			if (int error = poll<batch>(wait, i, all, line))
				return error;
			for (uint32_t k = 0; k < batch; k++)
				ggas_impl::store_words(to + (i + k * all) * ggas_impl::packed_bytes, line[k]);
		}
		for (; i < lines; i += all) {
			if (int error = poll<1>(wait, i, all, line))
				return error;
			if (i < whole)
				ggas_impl::store_words(to + i * ggas_impl::packed_bytes, line[0]);
			else
				store_partial(to, bytes, i, line[0]);
		}
		return GGAS_OK;
	}

	/* Loads `Count` lines from `first` on, `apart` from each other, until all have come. */
	template <uint32_t Count>
	GGAS_FN int poll(ggas_wait &wait, uint32_t first, uint32_t apart, ggas_u128 *line) const
	{
		for (;;) {
			uint32_t missing = ~0u, seen = 0;
			for (uint32_t k = 0; k < Count; k++)
				line[k] = ggas_load_relaxed(taken_.line(own_, first + k * apart));
			for (uint32_t k = 0; k < Count; k++) {
				uint32_t flag = ggas_impl::flag_of(line[k]);
				if (flag != taken_.flag(first + k * apart)) {
					missing = first + k * apart;
					seen = flag;
				}
			}
			if (missing == ~0u)
				return GGAS_OK;
			if (int error = wait.again(taken_.line(own_, missing), taken_.flag(missing), seen))
				return error;
		}
	}

	state *own_, *there_;
	uint64_t report_, timeout_;
	ring sent_{}, taken_{};
	uint32_t room_ = 0, told_ = 0; /* lines that may be sent; that the peer knows to be taken */
	uint32_t short_ = 0; /* bytes that one line of each thread holds */
	uint32_t node_, peer_, line_;
	int status_;
};

#endif /* GGAS_IMPL_PUT_PACKED_H */
