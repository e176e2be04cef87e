// SPDX-License-Identifier: MIT OR Apache-2.0
// blocks.cuh: the last block sees what all others stored; a grid sends an edge; parts wait for those beside them.
#include "ggas/blocks.cuh"

#include "selftest.h"

GGAS_KERNEL(ggas_selftest_blocks, selftest_blocks)
{
	uint64_t *words = reinterpret_cast<uint64_t *>(args.words);
	uint64_t *loop = reinterpret_cast<uint64_t *>(args.loop), round = loop ? ggas_load_relaxed(loop) : 0;
	uint64_t all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads(), sum = 0;

	words[ggas_block() * ggas_threads() + ggas_thread()] = args.value + round;
	if (!ggas_last_block(reinterpret_cast<uint64_t *>(args.counter)))
		return;
	for (uint64_t i = ggas_thread(); i < all; i += ggas_threads())
		sum += words[i];
	ggas_red_add(reinterpret_cast<uint64_t *>(args.seen), sum, ggas_order::relaxed);
	if (ggas_thread() != 0)
		return;
	ggas_red_add(reinterpret_cast<uint64_t *>(args.last), uint64_t(1), ggas_order::relaxed);
	if (loop && round + 1 == args.end)
		ggas_store_relaxed(loop + 1, uint64_t(1));
}

GGAS_KERNEL(ggas_selftest_edge, selftest_edge)
{
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	ggas_edge edge = { 1, args.to, args.from, args.bytes, args.signal, 0 };
	int error = ggas_edge_send_grid(window, edge, args.round, reinterpret_cast<uint64_t *>(args.counter));
	if (error && ggas_thread() == 0)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}

namespace parts_checks
{

/* Values of a round, of blocks of all nodes, in a node's part. */
GGAS_FN uint64_t *values(const ggas_window &window, uint32_t node, uint64_t round, uint32_t of, uint32_t block)
{
	uint64_t parts = static_cast<uint64_t>(window.nodes) * ggas_blocks();
	uint64_t place = parts + ((round % 2) * parts + of * ggas_blocks() + block) * ggas_threads();
	return ggas_pointer_of_node<uint64_t>(&window, node, place * sizeof(uint64_t));
}

GGAS_FN uint64_t value(uint64_t round, uint32_t node, uint32_t block)
{
	return round << 32 | node << 16 | (block * ggas_threads() + ggas_thread());
}

/* Blocks block - 1 to block + 1 of all nodes. */
template <class See> GGAS_FN void beside(const ggas_window &window, const See &see)
{
	uint32_t block = ggas_block(), first = block ? block - 1 : 0;
	for (uint32_t node = 0; node < window.nodes; node++)
		for (uint32_t other = first; other < ggas_blocks() && other <= block + 1; other++)
			see(node, other);
}

GGAS_FN int wait(const selftest_parts &args, const ggas_window &window, uint64_t round)
{
	const uint64_t *flag = nullptr;
	uint32_t number = 0, peer = 0;
	beside(window, [&](uint32_t node, uint32_t block) {
		bool counts = args.what != SELFTEST_PARTS_FEW || block == ggas_block();
		if (number++ == ggas_thread() && counts) {
			flag = reinterpret_cast<const uint64_t *>(window.local) + node * ggas_blocks() + block;
			peer = node;
		}
	});
	return ggas_parts_wait(window, flag, round, peer);
}

GGAS_FN void tell(const selftest_parts &args, const ggas_window &window, uint64_t round)
{
	for (uint32_t node = 0; node < window.nodes; node++) {
		uint64_t *flag = ggas_pointer_of_node<uint64_t>(&window, node) + window.node * ggas_blocks() + ggas_block();
		ggas_syncthreads();
		if (args.what == SELFTEST_PARTS_RELAXED && ggas_thread() == 0)
			ggas_store_relaxed(flag, round);
		else if (args.what != SELFTEST_PARTS_RELAXED && node == window.node)
			ggas_part_tell_near(flag);
		else if (args.what != SELFTEST_PARTS_RELAXED)
			ggas_part_tell(flag, round);
	}
}

GGAS_FN int rounds(const selftest_parts &args, const ggas_window &window)
{
	bool meets = args.what == SELFTEST_PARTS_MEET;
	uint64_t wrong = 0;
	for (uint64_t round = 0; round < args.rounds; round++) {
		if (!meets)
			if (int error = wait(args, window, round))
				return error;
		beside(window, [&](uint32_t node, uint32_t block) {
			uint64_t seen = values(window, window.node, round, node, block)[ggas_thread()];
			wrong += round && seen != value(round, node, block);
		});
		for (uint32_t node = 0; node < window.nodes; node++)
			values(window, node, round + 1, window.node, ggas_block())[ggas_thread()] =
				value(round + 1, window.node, ggas_block());
		if (!meets)
			tell(args, window, round + 1);
		else if (int error = ggas_meet_all(window, 0, round + 1))
			return error;
	}
	ggas_red_add(reinterpret_cast<uint64_t *>(args.wrong), wrong, ggas_order::relaxed);
	return GGAS_OK;
}

} /* namespace parts_checks */

/* With 6 threads or more of a block for 2 nodes: one for each part that a block reads. */
GGAS_KERNEL(ggas_selftest_parts, selftest_parts)
{
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	int error = parts_checks::rounds(args, window);
	if (error && ggas_thread() == 0)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
