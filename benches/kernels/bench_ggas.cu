// SPDX-License-Identifier: MIT OR Apache-2.0
// ggas-pingpong, ggas-bandwidth and ggas-coalescing (thesis 6.6): plain pointers into another node's memory.
#include "bench.cuh"
#include "ggas/coll.cuh"

#include "bench.h"

/* The number of this thread in the grid. */
static GGAS_FN uint64_t number() { return static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(); }

static GGAS_FN uint64_t all_threads() { return static_cast<uint64_t>(ggas_blocks()) * ggas_threads(); }

/* Store ping-pong by all threads of a grid, each with its own word (thesis Listing 6.2). A word counts up from a seeded input
 * that both sides load: whatever else arrives is waited out and reported. Blocks wait for their own words only. */
static GGAS_FN int write_rounds(const bench_ggas_pingpong &args, bench_stopwatch &watch)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	uint64_t offset = number() * sizeof(uint64_t);
	uint64_t *remote = ggas_pointer_of_node<uint64_t>(window, args.peer, offset);
	uint64_t *local = ggas_pointer_of_node<uint64_t>(window, ggas_node(window), offset);
	uint64_t value = reinterpret_cast<const uint64_t *>(args.input)[number()];
	bool measures = args.first && number() == 0;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		value++;
		if (measures)
			watch.begin(i);
		if (args.first)
			ggas_store_relaxed(remote, value);
		int error = ggas_flag_wait(window, local, value, args.peer);
		if (!args.first && !error)
			ggas_store_relaxed(remote, value);
		if ((error = ggas_block_status(error)))
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_ggas_write, bench_ggas_pingpong)
{
	bench_stopwatch watch(args.timing);
	int status = write_rounds(args, watch);
	if (number() == 0)
		watch.stop(status);
}

/* Remote loads by all threads of a grid (thesis Listing 6.3). */
GGAS_KERNEL(bench_ggas_read, bench_ggas_pingpong)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	auto *remote = ggas_pointer_of_node<const uint64_t>(window, args.peer, number() * sizeof(uint64_t));
	uint64_t *output = reinterpret_cast<uint64_t *>(args.output) + number();
	bool measures = number() == 0;

	bench_stopwatch watch(args.timing);
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (measures)
			watch.begin(i);
		*output = ggas_load_relaxed(remote);
		ggas_fence();
		ggas_syncthreads();
		if (measures)
			watch.end(i);
	}
	if (measures)
		watch.stop(GGAS_OK);
}

/* Each thread copies a stretch of its own: neighbouring threads touch words far apart, so nothing coalesces
 * (thesis 6.6.3). */
static GGAS_FN void copy_strided(ggas_u128 *to, const ggas_u128 *from, uint64_t count)
{
	uint64_t each = (count + all_threads() - 1) / all_threads();
	uint64_t end = (number() + 1) * each < count ? (number() + 1) * each : count;

	for (uint64_t i = number() * each; i < end; i++)
		ggas_write(to + i, ggas_read(from + i));
}

/* One copy to (store) or from (load) the other node per round. The time includes the fence that makes stores
 * arrive, and the meeting of the blocks. */
template <bool Load> static GGAS_FN int copy_rounds(const bench_ggas_bandwidth &args, bench_stopwatch &watch)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	auto *remote = ggas_pointer_of_node<ggas_u128>(window, args.peer, args.offset);
	bool measures = number() == 0;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		auto *local = reinterpret_cast<ggas_u128 *>(args.local[Load ? 0 : i & 1]);
		ggas_u128 *to = Load ? local : remote;
		const ggas_u128 *from = Load ? remote : local;
		if (measures)
			watch.begin(i);
		if (args.strided)
			copy_strided(to, from, args.bytes / sizeof(ggas_u128));
		else
			ggas_copy_grid(to, from, args.bytes);
		ggas_fence();
		if (int error = ggas_sync_grid(group))
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

template <bool Load> static GGAS_FN void bandwidth(const bench_ggas_bandwidth &args)
{
	bench_stopwatch watch(args.timing);
	int status = copy_rounds<Load>(args, watch);
	if (number() == 0)
		watch.stop(status);
}

GGAS_KERNEL(bench_ggas_store, bench_ggas_bandwidth)
{
	bandwidth<false>(args);
}

GGAS_KERNEL(bench_ggas_load, bench_ggas_bandwidth)
{
	bandwidth<true>(args);
}

/* Neighbouring threads access neighbouring values, or every second one, of which the values between stay as they are
 * (thesis 6.6.3). The time includes what that of the copies does. */
template <bool Load> static GGAS_FN int value_rounds(const bench_ggas_values &args, bench_stopwatch &watch)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	auto *remote = ggas_pointer_of_node<uint32_t>(window, args.peer, args.offset);

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		auto *local = reinterpret_cast<uint32_t *>(args.local[Load ? 0 : i & 1]);
		if (number() == 0)
			watch.begin(i);
		for (uint64_t k = number(); k < args.count; k += all_threads()) {
			if (Load)
				local[k] = ggas_read(remote + k * args.step);
			else
				ggas_write(remote + k * args.step, local[k]);
		}
		ggas_fence();
		if (int error = ggas_sync_grid(group))
			return error;
		if (number() == 0)
			watch.end(i);
	}
	return GGAS_OK;
}

template <bool Load> static GGAS_FN void values(const bench_ggas_values &args)
{
	bench_stopwatch watch(args.timing);
	int status = value_rounds<Load>(args, watch);
	if (number() == 0)
		watch.stop(status);
}

GGAS_KERNEL(bench_ggas_store_values, bench_ggas_values)
{
	values<false>(args);
}

GGAS_KERNEL(bench_ggas_load_values, bench_ggas_values)
{
	values<true>(args);
}
