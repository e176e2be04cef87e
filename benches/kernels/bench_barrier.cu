// SPDX-License-Identifier: MIT OR Apache-2.0
// barrier (thesis 6.7): nodes meet inside a kernel, by one block per node or by a grid.
#include "bench.cuh"
#include "ggas/coll.cuh"

#include "bench.h"

namespace bench_barriers
{

GGAS_FN int meet(const bench_barrier &args, ggas_group *group)
{
	constexpr auto order = ggas_order::release_acquire;
	bool grid = ggas_blocks() > 1;
	switch (args.kind) {
	case BENCH_MEET_SYNC:
		return grid ? ggas_barrier_grid(group, ggas_order::relaxed) : ggas_sync(group);
	case BENCH_MEET_BARRIER:
		return grid ? ggas_barrier_grid(group, order) : ggas_barrier(group, order);
	default:
		return grid ? ggas_barrier_master_grid(group, order) : ggas_barrier_master(group, order);
	}
}

/* Before the barrier: every block marks the round at every node. */
GGAS_FN void set_marks(const bench_barrier &args, uint64_t round)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	uint64_t own = args.marks + (ggas_block() * ggas_nodes(window) + ggas_node(window)) * sizeof(uint64_t);

	for (uint32_t node = ggas_thread(); node < ggas_nodes(window); node += ggas_threads())
		ggas_store(window, node, own, round + 1);
}

/* After it: every block sees the marks of all blocks of all nodes. A sync says nothing of memory: it may see older
 * ones, and checks nothing. */
GGAS_FN void check_marks(const bench_barrier &args, uint64_t round)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	auto *marks = ggas_pointer_of_node<const uint64_t>(window, ggas_node(window), args.marks);

	for (uint32_t i = ggas_thread(); i < ggas_blocks() * ggas_nodes(window); i += ggas_threads())
		if (ggas_load_relaxed(marks + i) < round + 1 && args.kind != BENCH_MEET_SYNC)
			ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), 1u, ggas_order::relaxed);
}

/* A word of this thread's own on another node. */
GGAS_FN uint64_t *word_of_thread(const bench_barrier &args)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	uint32_t nodes = ggas_nodes(window), thread = ggas_block() * ggas_threads() + ggas_thread();
	uint32_t to = (ggas_node(window) + 1 + thread % (nodes - 1)) % nodes;

	return ggas_pointer_of_node<uint64_t>(window, to,
					      args.writes + (thread * nodes + ggas_node(window)) * sizeof(uint64_t));
}

GGAS_FN int rounds(const bench_barrier &args, bench_stopwatch &watch)
{
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	bool measures = ggas_block() == 0 && ggas_thread() == 0, writes = ~args.writes && group->nodes > 1;
	uint64_t *word = writes ? word_of_thread(args) : nullptr;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (args.wrong)
			set_marks(args, i);
		if (measures)
			watch.begin(i);
		for (uint32_t k = 0; k < args.batch; k++) {
			/* Each thread has one write to another node on its way when it comes to the barrier. */
			if (writes)
				ggas_store_relaxed(word, i);
			if (int error = meet(args, group))
				return error;
		}
		if (measures)
			watch.end(i);
		if (args.wrong)
			check_marks(args, i);
	}
	return GGAS_OK;
}

} // namespace bench_barriers

GGAS_KERNEL(bench_barrier_rounds, bench_barrier)
{
	bench_stopwatch watch(args.timing);
	int status = bench_barriers::rounds(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

/* The end of a kernel performs what it stored, and the next begins when all have ended: what all blocks of all nodes
 * stored in the round before is there. */
GGAS_KERNEL(bench_barrier_relaunched, bench_relaunch)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	if (!args.wrong)
		return;
	auto *marks = ggas_pointer_of_node<const uint64_t>(window, ggas_node(window), args.marks);
	for (uint32_t i = ggas_thread(); i < ggas_blocks() * ggas_nodes(window); i += ggas_threads())
		if (ggas_load_relaxed(marks + i) < args.round)
			ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), 1u, ggas_order::relaxed);
	uint64_t own = args.marks + (ggas_block() * ggas_nodes(window) + ggas_node(window)) * sizeof(uint64_t);
	for (uint32_t node = ggas_thread(); node < ggas_nodes(window); node += ggas_threads())
		ggas_store(window, node, own, args.round + 1);
}

/* Behind a round's kernel of each node, where those of the next are behind their own node's only. An error stays in the
 * group. */
GGAS_KERNEL(bench_barrier_between, bench_relaunch)
{
	ggas_barrier(reinterpret_cast<ggas_group *>(args.group), ggas_order::release_acquire);
}
