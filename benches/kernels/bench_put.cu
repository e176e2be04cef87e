// SPDX-License-Identifier: MIT OR Apache-2.0
// put-signal, put-packed, get, put-bandwidth, put-rate and atomics-random: one-sided communication over a window.
#include "bench.cuh"
#include "ggas/put.cuh"

#include "bench.h"

namespace bench_puts
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* Two addresses by turns, in registers. */
struct by_turns {
	uint64_t now, change;

	GGAS_FN by_turns(const uint64_t *both) : now(both[0]), change(both[0] ^ both[1]) {}
	GGAS_FN uint64_t next()
	{
		uint64_t address = now;
		now ^= change;
		return address;
	}
};

/* Rounds of a ping-pong: `send(round)` and `receive(round)` by all threads. */
template <class Send, class Receive>
GGAS_FN int rounds(const bench_put &args, bench_stopwatch &watch, const Send &send, const Receive &receive)
{
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		int error = GGAS_OK;
		if (measures)
			watch.begin(i);
		if (args.first)
			error = send(i);
		int late = receive(i);
		error = error ? error : late;
		if (!args.first && !error)
			error = send(i);
		if (error)
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

/* The data go where the receiver wants them, the signal behind them. */
template <ggas_scope Scope> GGAS_FN int signalled(const bench_put &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	bool grid = args.form == BENCH_PUT_GRID;
	by_turns source = args.source, arrival = args.arrival;
	auto send = [&](uint64_t round) {
		const void *from = pointer<const void>(source.next());
		uint64_t to = arrival.next();
		if (grid)
			return ggas_put_signal_grid(&window, args.peer, to, from, args.bytes, args.signal, 1);
		return ggas_impl::put_signal<Scope>(&window, args.peer, to, from, args.bytes, args.signal, round + 1,
						    ggas_signal::set, __LINE__);
	};
	auto receive = [&](uint64_t round) {
		uint64_t value = (round + 1) * (grid ? ggas_blocks() : 1);
		return ggas_impl::wait_word<Scope>(&window, args.signal, ggas_cmp::ge, value, args.peer, __LINE__);
	};
	return rounds(args, watch, send, receive);
}

/* The data go through the receiver's rings, each line with its flag. */
template <ggas_scope Scope> GGAS_FN int packed(const bench_put &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	ggas_packed_end<Scope> end(&window, { args.rings, args.lanes, args.lines_log2 }, args.peer, ggas_block());
	by_turns source = args.source, arrival = args.arrival;
	auto send = [&](uint64_t) { return end.put_share(pointer<const void>(source.next()), args.bytes); };
	auto receive = [&](uint64_t) { return end.take_share(pointer<void>(arrival.next()), args.bytes); };
	int error = rounds(args, watch, send, receive);
	int closed = end.close();
	return error ? error : closed;
}

/* Fetches what the other node has, in even and odd rounds. */
template <ggas_scope Scope> GGAS_FN int gets(const bench_put &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (ggas_thread() == 0)
			watch.begin(i);
		for (uint32_t k = 0; k < args.batch; k++)
			if (int error = ggas_impl::get<Scope>(&window, args.peer, args.source[i & 1],
							      pointer<void>(args.arrival[i & 1]), args.bytes, __LINE__))
				return error;
		if (ggas_thread() == 0)
			watch.end(i);
	}
	return GGAS_OK;
}

/* Blocks of this node meet; what they did before is performed. */
GGAS_FN int meet(uint64_t counter, const ggas_window &window, uint64_t round)
{
	int error = GGAS_OK;
	ggas_quiet();
	ggas_syncthreads();
	if (ggas_thread() == 0) {
		uint64_t *met = pointer<uint64_t>(counter), all = (round + 1) * ggas_blocks(), seen;
		ggas_red_add(met, uint64_t(1), ggas_order::release);
		ggas_wait wait(window.report, window.timeout_ns, GGAS_WAIT_GRID, window.node);
		while ((seen = ggas_load_acquire(met)) < all && !error)
			error = wait.again(met, all, seen);
	}
	return ggas_block_status(error);
}

GGAS_FN int bandwidth(const bench_put_bandwidth &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		const void *from = pointer<const void>(args.source[i & 1]);
		if (measures)
			watch.begin(i);
		int error = args.bulk ? ggas_put_bulk_grid(&window, args.peer, args.offset, from, args.bytes) :
					ggas_put_grid(&window, args.peer, args.offset, from, args.bytes);
		if (error || (error = meet(args.met, window, i)))
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

/* A thread's messages of a round. */
GGAS_FN int messages(const bench_put_rate &args, const ggas_window &window, uint64_t round)
{
	uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	bool apart = args.form == BENCH_RATE_APART, signals = args.form == BENCH_RATE_SIGNAL;
	uint64_t step = apart ? args.bytes : args.bytes * ggas_blocks() * ggas_threads();
	uint64_t at = apart ? self * args.batch * args.bytes : self * args.bytes;
	uint64_t from = args.source[round & 1], sent = round * args.batch, signal = args.signals + self * sizeof(uint64_t);

	for (uint32_t k = 0; k < args.batch; k++, at += step) {
		auto *source = pointer<const void>(from + at);
		int error = signals ? ggas_put_signal_thread(&window, args.peer, args.offset + at, source, args.bytes,
							     signal, sent + k + 1) :
				      ggas_put_thread(&window, args.peer, args.offset + at, source, args.bytes);
		if (error)
			return error;
	}
	return GGAS_OK;
}

GGAS_FN int rate(const bench_put_rate &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (measures)
			watch.begin(i);
		int error = ggas_block_status(messages(args, window, i));
		if (error || (error = meet(args.met, window, i)))
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

/* A thread's numbers: xorshift, of a seed that is never 0. */
GGAS_FN uint64_t next(uint64_t random)
{
	random ^= random << 13;
	random ^= random >> 7;
	return random ^ random << 17;
}

} // namespace bench_puts

GGAS_KERNEL_BOUND(bench_put_signal, bench_put, 512)
{
	bench_stopwatch watch(args.timing);
	int status;
	if (args.form == BENCH_PUT_THREAD)
		status = bench_puts::signalled<ggas_scope::thread>(args, watch);
	else if (args.form == BENCH_PUT_WARP)
		status = bench_puts::signalled<ggas_scope::warp>(args, watch);
	else
		status = bench_puts::signalled<ggas_scope::block>(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL_BOUND(bench_put_packed, bench_put, 512)
{
	bench_stopwatch watch(args.timing);
	int status;
	if (args.form == BENCH_PUT_THREAD)
		status = bench_puts::packed<ggas_scope::thread>(args, watch);
	else if (args.form == BENCH_PUT_WARP)
		status = bench_puts::packed<ggas_scope::warp>(args, watch);
	else
		status = bench_puts::packed<ggas_scope::block>(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL_BOUND(bench_get, bench_put, 512)
{
	bench_stopwatch watch(args.timing);
	int status;
	if (args.form == BENCH_PUT_THREAD)
		status = bench_puts::gets<ggas_scope::thread>(args, watch);
	else if (args.form == BENCH_PUT_WARP)
		status = bench_puts::gets<ggas_scope::warp>(args, watch);
	else
		status = bench_puts::gets<ggas_scope::block>(args, watch);
	if (ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL(bench_put_stream, bench_put_bandwidth)
{
	bench_stopwatch watch(args.timing);
	int status = bench_puts::bandwidth(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL(bench_put_messages, bench_put_rate)
{
	bench_stopwatch watch(args.timing);
	int status = bench_puts::rate(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

/* Updates go to every node alike, this one too. */
GGAS_KERNEL(bench_atomics_random, bench_atomics)
{
	ggas_window window = *bench_puts::pointer<const ggas_window>(args.window);
	auto *result = bench_puts::pointer<bench_atomics_result>(args.result);
	uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	uint64_t random = args.seed ^ (self + 1) * 0x9e3779b97f4a7c15ull, sum = 0;

	if (ggas_thread() == 0)
		ggas_atomic_min(&result->ns_begin, ggas_time_ns(), ggas_order::relaxed);
	for (uint64_t i = 0; i < args.updates; i++) {
		random = bench_puts::next(random);
		uint32_t node = static_cast<uint32_t>((random >> 32) * window.nodes >> 32);
		uint64_t entry = random & (args.entries - 1);
		auto *word = ggas_global_pointer<uint64_t>(&window, node, args.offset) + entry;
		if (args.fetch)
			sum ^= ggas_atomic_xor(word, random, ggas_order::relaxed) & 0;
		else
			ggas_red_xor(word, random, ggas_order::relaxed);
		sum ^= random;
		/* A long run is no endless wait to the CPU executor; on a GPU this is nothing. */
		if (i % 65536 == 65535)
			ggas_pause();
	}
	ggas_quiet();
	ggas_red_xor(&result->sum, sum, ggas_order::relaxed);
	ggas_syncthreads();
	if (ggas_thread() == 0) {
		ggas_atomic_max(&result->ns_end, ggas_time_ns(), ggas_order::relaxed);
		ggas_red_add(&result->blocks, uint64_t(1), ggas_order::release);
	}
}
