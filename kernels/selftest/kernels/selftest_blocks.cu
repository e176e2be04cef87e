// SPDX-License-Identifier: MIT OR Apache-2.0
// blocks.cuh: the last block sees what all others stored; a grid sends an edge.
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
