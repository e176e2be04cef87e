// SPDX-License-Identifier: MIT OR Apache-2.0
// barrier, reduce, allreduce (thesis 6.7, 6.8): collectives inside a kernel, by one block per node or by a grid.
#include "bench.cuh"
#include "ggas/coll.cuh"

#include "args.h"

static GGAS_FN int meet(ggas_group *group, ggas_order order)
{
	return ggas_blocks() == 1 ? ggas_barrier(group, order) : ggas_barrier_grid(group, order);
}

/* Before the barrier: every block marks the round at every node. */
static GGAS_FN void set_marks(const bench_barrier &args, uint64_t round)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	uint64_t own = args.marks + (ggas_block() * ggas_nodes(window) + ggas_node(window)) * sizeof(uint64_t);

	for (uint32_t node = ggas_thread(); node < ggas_nodes(window); node += ggas_threads())
		ggas_store(window, node, own, round + 1);
}

/* After it: every block sees the marks of all blocks of all nodes. */
static GGAS_FN void check_marks(const bench_barrier &args, uint64_t round)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	auto *marks = ggas_pointer_of_node<const uint64_t>(window, ggas_node(window), args.marks);

	for (uint32_t i = ggas_thread(); i < ggas_blocks() * ggas_nodes(window); i += ggas_threads())
		if (ggas_load_relaxed(marks + i) < round + 1)
			ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), 1u, ggas_order::relaxed);
}

static GGAS_FN int barrier_rounds(const bench_barrier &args, bench_stopwatch &watch)
{
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (args.window)
			set_marks(args, i);
		if (measures)
			watch.begin(i);
		if (int error = meet(group, ggas_order::release_acquire))
			return error;
		if (measures)
			watch.end(i);
		if (args.window)
			check_marks(args, i);
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_barrier_rounds, bench_barrier)
{
	bench_stopwatch watch(args.timing);
	int status = barrier_rounds(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

/* Rounds of one reduction; `reduce(group, in, out, count)` is what is timed. */
template <class Reduce>
static GGAS_FN int reduce_rounds(const bench_reduce &args, bench_stopwatch &watch, const Reduce &reduce)
{
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (args.apart)
			if (int error = meet(group, ggas_order::relaxed))
				return error;
		if (measures)
			watch.begin(i);
		if (int error = reduce(group, reinterpret_cast<const float *>(args.in[i & 1]),
				       reinterpret_cast<float *>(args.out), args.count))
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

template <class Reduce> static GGAS_FN void run_reduce(const bench_reduce &args, const Reduce &reduce)
{
	bench_stopwatch watch(args.timing);
	int status = reduce_rounds(args, watch, reduce);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL(bench_reduce_gather, bench_reduce)
{
	run_reduce(args, [](ggas_group *group, const float *in, float *out, uint64_t count) {
		constexpr auto order = ggas_order::relaxed;
		return ggas_blocks() == 1 ? ggas_reduce(group, order, 0, in, out, count, ggas_sum()) :
					    ggas_reduce_grid(group, order, 0, in, out, count, ggas_sum());
	});
}

GGAS_KERNEL(bench_allreduce_all_gather, bench_reduce)
{
	run_reduce(args, [](ggas_group *group, const float *in, float *out, uint64_t count) {
		constexpr auto order = ggas_order::relaxed;
		return ggas_blocks() == 1 ?
			       ggas_allreduce_all_gather(group, order, in, out, count, ggas_sum()) :
			       ggas_allreduce_all_gather_grid(group, order, in, out, count, ggas_sum());
	});
}

GGAS_KERNEL(bench_allreduce_all_to_all, bench_reduce)
{
	run_reduce(args, [](ggas_group *group, const float *in, float *out, uint64_t count) {
		constexpr auto order = ggas_order::relaxed;
		return ggas_blocks() == 1 ?
			       ggas_allreduce_all_to_all(group, order, in, out, count, ggas_sum()) :
			       ggas_allreduce_all_to_all_grid(group, order, in, out, count, ggas_sum());
	});
}
