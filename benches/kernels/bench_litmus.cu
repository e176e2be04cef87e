// SPDX-License-Identifier: MIT OR Apache-2.0
// litmus: what the memory model promises, tried many times over, and builds without what makes it hold.
#include "ggas/coll.cuh"
#include "ggas/put.cuh"

#include "bench.h"

namespace litmus
{

/* One thread's part. */
struct player {
	const bench_litmus &args;
	const ggas_window *window;
	uint64_t pair;
	uint64_t observed, forbidden;

	GGAS_FN bool is_first() const { return window->node == 0; }
	GGAS_FN uint32_t peer() const { return 1 - window->node; }
	template <class T> GGAS_FN T *first() const { return reinterpret_cast<T *>(args.first + pair * args.stride); }
	template <class T> GGAS_FN T *second() const { return reinterpret_cast<T *>(args.second + pair * args.stride); }
	GGAS_FN ggas_wait wait(uint32_t line) const
	{
		return ggas_wait(window->report, window->timeout_ns, GGAS_WAIT_FLAG, window->node, peer(), line);
	}
};

/* Polls `next()` until it gives `last`; each new value is an observation, and again bounds what comes between. */
template <class Next> GGAS_FN int observe(player &self, uint64_t last, const void *where, const Next &next)
{
	uint64_t before = 0;
	while (before < last) {
		ggas_wait wait = self.wait(__LINE__);
		uint64_t seen;
		while ((seen = next()) <= before)
			if (int error = wait.again(where, before + 1, seen))
				return error;
		before = seen;
		self.observed++;
	}
	return GGAS_OK;
}

/* Node 0 stores data, then a flag, in rounds. Who sees the flag of a round sees its data. The flag is nearer to the
 * writer and the data nearer to the reader, so that each order is the hard one. */
template <bool Weak> GGAS_FN int message_passing(player &self)
{
	uint64_t *data = self.first<uint64_t>(), *flag = self.second<uint64_t>();
	if (self.is_first()) {
		for (uint64_t i = 1; i <= self.args.rounds; i++) {
			ggas_store_relaxed(data, i);
			if (Weak)
				ggas_store_relaxed(flag, i);
			else
				ggas_store_release(flag, i);
		}
		return GGAS_OK;
	}
	return observe(self, self.args.rounds, flag, [&] {
		uint64_t seen = Weak ? ggas_load_relaxed(flag) : ggas_load_watched(flag);
		if (!Weak)
			ggas_fence_acquire();
		uint64_t value = ggas_load_relaxed(data);
		self.forbidden += value < seen;
		return seen;
	});
}

/* Node 0 stores data; node 1 sees them and stores a flag; node 2 sees the flag, and the data that node 1 had seen. Each
 * node is home of a third of the data, and of another third of the flags. */
template <bool Weak> GGAS_FN int causality(player &self)
{
	const ggas_window *window = self.window;
	uint32_t home = static_cast<uint32_t>(self.pair % 3);
	uint64_t at = self.pair * self.args.stride;
	uint64_t *data = ggas_pointer_of_node<uint64_t>(window, home, at);
	uint64_t *flag = ggas_pointer_of_node<uint64_t>(window, (home + 1) % 3, at + 64);
	if (self.is_first()) {
		for (uint64_t i = 1; i <= self.args.rounds; i++)
			ggas_store_relaxed(data, i);
		return GGAS_OK;
	}
	bool middle = window->node == 1;
	uint64_t *watched = middle ? data : flag, last = 0;
	return observe(self, self.args.rounds, watched, [&] {
		uint64_t seen = Weak ? ggas_load_relaxed(watched) : ggas_load_watched(watched);
		if (!Weak)
			ggas_fence_acquire();
		if (!middle) {
			self.forbidden += ggas_load_relaxed(data) < seen;
		} else if (seen > last) {
			last = seen;
			if (Weak)
				ggas_store_relaxed(flag, seen);
			else
				ggas_store_release(flag, seen);
		}
		return seen;
	});
}

/* Threads of node 0 store the round, half of them to node 1 and half at home; grids meet, where a thread of block 0
 * releases for all; threads of node 1 see what threads of other blocks stored. */
template <bool Weak> GGAS_FN int barrier_grid(player &self)
{
	auto *group = reinterpret_cast<ggas_group *>(self.args.group);
	uint64_t pairs = static_cast<uint64_t>(ggas_blocks()) * ggas_threads(), other_block = pairs / 2;
	uint64_t pair = self.is_first() ? self.pair : (self.pair + other_block) % pairs;
	uint64_t *data = ggas_pointer_of_node<uint64_t>(self.window, pair % 2, pair * self.args.stride);
	for (uint64_t i = 1; i <= self.args.rounds; i++) {
		if (self.is_first())
			ggas_store_relaxed(data, i);
		if (int error = ggas_barrier_grid(group, Weak ? ggas_order::relaxed : ggas_order::release_acquire))
			return error;
		if (!self.is_first()) {
			self.forbidden += ggas_load_relaxed(data) < i;
			self.observed++;
		}
	}
	return GGAS_OK;
}

/* Each side stores the round, then loads the other's: not both may see an older round. The host compares the marks. */
template <uint32_t Build> GGAS_FN int store_buffering(player &self)
{
	uint64_t *mine = self.is_first() ? self.first<uint64_t>() : self.second<uint64_t>();
	uint64_t *theirs = self.is_first() ? self.second<uint64_t>() : self.first<uint64_t>();
	auto *late = reinterpret_cast<uint32_t *>(self.args.late) + self.pair * (self.args.rounds / 32);
	uint32_t marks = 0;
	for (uint64_t i = 1; i <= self.args.rounds; i++) {
		ggas_store_relaxed(mine, i);
		if (Build == BENCH_LITMUS_RIGHT)
			ggas_fence_sequential();
		else if (Build == BENCH_LITMUS_FENCE)
			ggas_fence_system();
		uint64_t seen = ggas_load_relaxed(theirs);
		marks |= static_cast<uint32_t>(seen < i) << (i - 1) % 32;
		if (i % 32 == 0) {
			late[(i - 1) / 32] = marks;
			marks = 0;
		}
		ggas_wait wait = self.wait(__LINE__);
		while (seen < i) {
			if (int error = wait.again(theirs, i, seen))
				return error;
			seen = ggas_load_relaxed(theirs);
		}
		self.observed++;
	}
	return GGAS_OK;
}

/* Node 0 stores lines of four equal words: nobody sees parts of two. */
template <bool Weak> GGAS_FN int whole_lines(player &self)
{
	ggas_u128 *line = self.first<ggas_u128>();
	if (self.is_first()) {
		for (uint64_t i = 1; i <= self.args.rounds; i++) {
			uint64_t both = i << 32 | i;
			if (Weak) {
				ggas_store_relaxed(&line->hi, both);
				ggas_store_relaxed(&line->lo, both);
			} else {
				ggas_store_relaxed(line, { both, both });
			}
		}
		return GGAS_OK;
	}
	return observe(self, self.args.rounds, line, [&] {
		ggas_u128 seen = ggas_load_relaxed(line);
		self.forbidden += seen.lo != seen.hi || static_cast<uint32_t>(seen.lo) != seen.lo >> 32;
		return seen.lo >> 32;
	});
}

/* Where a lane's words are in a part: two signals, then what it sends, then what it gets. */
struct lane_of {
	uint64_t signal, sent, received;
	uint32_t thread, threads;

	GGAS_FN lane_of(const bench_litmus &args, uint64_t lane, uint32_t thread, uint32_t threads)
		: signal(lane * (16 + 2 * args.bytes)), sent(signal + 16), received(sent + args.bytes), thread(thread),
		  threads(threads)
	{
	}
};

/* Puts of the copy unit have no signal of their own: one follows them, by the block or by one thread of it. */
template <bool Weak, class Signal>
GGAS_FN int put_bulk(const ggas_window *window, const lane_of &lane, const void *from, uint64_t bytes, uint64_t round,
		     const Signal &signal, bool handover)
{
	int error = ggas_put_bulk_block(window, 1, lane.received, from, bytes);
	if (handover) {
		uint64_t *word = ggas_pointer_of_node<uint64_t>(window, 1, lane.signal);
		ggas_syncthreads();
		if (ggas_thread() == ggas_threads() - 1) {
			if (Weak)
				ggas_store_relaxed(word, round);
			else
				ggas_store_release(word, round);
		}
		return error;
	}
	if (Weak) {
		ggas_syncthreads();
		signal(lane.signal, round);
		return error;
	}
	return error ? error : ggas_put_signal_block(window, 1, lane.received, from, 0, lane.signal, round);
}

/* Node 0 puts words that all hold the round, and signals; node 1 reads them once it sees the signal, and answers. */
template <ggas_scope Scope, bool Weak> GGAS_FN int put_signal(player &self, const lane_of &lane)
{
	bool grid = self.args.form == BENCH_PUT_GRID;
	using team = ggas_impl::put_team<Scope>;
	const ggas_window *window = self.window;
	uint64_t words = self.args.bytes / 8, signallers = grid ? ggas_blocks() : 1;
	uint64_t *sent = ggas_pointer_of_node<uint64_t>(window, window->node, lane.sent);
	const uint64_t *received = ggas_pointer_of_node<const uint64_t>(window, window->node, lane.received);
	auto signal = [&](uint64_t offset, uint64_t round) {
		uint64_t *word = ggas_pointer_of_node<uint64_t>(window, self.peer(), offset);
		if (team::thread() == 0 && grid)
			ggas_red_add(word, uint64_t(1), Weak ? ggas_order::relaxed : ggas_order::release);
		else if (team::thread() == 0 && Weak)
			ggas_store_relaxed(word, round);
		else if (team::thread() == 0)
			ggas_store_release(word, round);
	};
	for (uint64_t round = 1; round <= self.args.rounds; round++) {
		int error = GGAS_OK;
		if (self.is_first()) {
			/* As the copy shares it out, since blocks do not meet. */
			for (uint64_t i = lane.thread; i < words / 2; i += lane.threads)
				sent[2 * i] = sent[2 * i + 1] = round;
			team::agree(GGAS_OK);
			uint8_t *to = ggas_pointer_of_node<uint8_t>(window, 1, lane.received);
			bool handover = self.args.form == BENCH_PUT_HANDOVER;
			if (self.args.form == BENCH_PUT_BULK || handover) {
				if constexpr (Scope == ggas_scope::block)
					error = put_bulk<Weak>(window, lane, sent, self.args.bytes, round, signal,
							       handover);
			} else if (Weak) {
				ggas_impl::copy_share(to, sent, self.args.bytes, lane.thread, lane.threads);
				team::agree(GGAS_OK);
				signal(lane.signal, round);
			} else if (grid) {
				error = ggas_put_signal_grid(window, 1, lane.received, sent, self.args.bytes,
							     lane.signal, 1);
			} else {
				error = ggas_impl::put_signal<Scope>(window, 1, lane.received, sent, self.args.bytes,
								     lane.signal, round, ggas_signal::set, __LINE__);
			}
		}
		uint64_t wanted = lane.signal + (self.is_first() ? 8 : 0);
		if (error || (error = ggas_impl::wait_word<Scope>(window, wanted, ggas_cmp::ge, round * signallers,
								  self.peer(), __LINE__)))
			return error;
		if (!self.is_first()) {
			for (uint64_t i = lane.thread; i < words; i += lane.threads)
				self.forbidden += received[i] != round;
			self.observed += team::thread() == 0;
			/* What was read comes before the answer, in the weak build too. */
			team::agree(GGAS_OK);
			ggas_fence_system();
			signal(lane.signal + 8, round);
		}
	}
	return GGAS_OK;
}

template <bool Weak> GGAS_FN int puts(player &self)
{
	uint32_t block = ggas_block(), all = ggas_blocks() * ggas_threads();
	using warp = ggas_impl::put_team<ggas_scope::warp>;
	switch (self.args.form) {
	case BENCH_PUT_THREAD:
		return put_signal<ggas_scope::thread, Weak>(self, { self.args, self.pair, 0, 1 });
	case BENCH_PUT_WARP:
		return put_signal<ggas_scope::warp, Weak>(
			self, { self.args, block * ggas_warps() + ggas_warp(), warp::thread(), warp::threads() });
	}
	lane_of own = { self.args, block, ggas_thread(), ggas_threads() };
	if (self.args.form == BENCH_PUT_GRID)
		own = { self.args, 0, static_cast<uint32_t>(self.pair), all };
	return put_signal<ggas_scope::block, Weak>(self, own);
}

GGAS_FN int play(player &self)
{
	bool weak = self.args.build == BENCH_LITMUS_WEAK;
	switch (self.args.test) {
	case BENCH_LITMUS_MESSAGE:
		return weak ? message_passing<true>(self) : message_passing<false>(self);
	case BENCH_LITMUS_BUFFER:
		return weak ? store_buffering<BENCH_LITMUS_WEAK>(self) :
		       self.args.build == BENCH_LITMUS_FENCE ? store_buffering<BENCH_LITMUS_FENCE>(self) :
							       store_buffering<BENCH_LITMUS_RIGHT>(self);
	case BENCH_LITMUS_CAUSALITY:
		return weak ? causality<true>(self) : causality<false>(self);
	case BENCH_LITMUS_GRID:
		return weak ? barrier_grid<true>(self) : barrier_grid<false>(self);
	case BENCH_LITMUS_LINE:
		return weak ? whole_lines<true>(self) : whole_lines<false>(self);
	default:
		return weak ? puts<true>(self) : puts<false>(self);
	}
}

} // namespace litmus

GGAS_KERNEL_BOUND(bench_litmus_rounds, bench_litmus, 256)
{
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	if (args.test == BENCH_LITMUS_PUT && args.first) {
		window.base = args.first;
		window.stride = window.size = args.stride;
		window.local = window.base + window.node * window.stride;
	}
	uint64_t pair = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	litmus::player self = { args, &window, pair, 0, 0 };
	int error = litmus::play(self);
	auto *counts = reinterpret_cast<bench_litmus_counts *>(args.counts);
	ggas_red_add(&counts->observed, self.observed, ggas_order::relaxed);
	ggas_red_add(&counts->forbidden, self.forbidden, ggas_order::relaxed);
	ggas_red_add(&counts->ended, uint64_t(error == GGAS_OK), ggas_order::relaxed);
	if (error)
		ggas_atomic_cas(&counts->status, uint64_t(0), static_cast<uint64_t>(error), ggas_order::relaxed);
}
