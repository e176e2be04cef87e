/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Meeting of blocks for who communicates in kernels (thesis 5.8). Blocks of a grid are scheduled in any order and cannot
 * wait for each other unless all live at once; five ways out:
 *
 *   in-kernel	the block that finds itself the last one (ggas_last_block) sends for all. Nothing waits for a block.
 *   stream	the end of a kernel is the meeting: kernels that send (ggas_edge_send_grid) and wait (ggas_edge_wait) stand
 *		between those that compute, in the order of a stream or of a graph (ggas_kernels::run_rounds)
 *   device	the same round again and again without the host: a graph with a loop (ggas_kernels::run_loops)
 *   persistent	a grid that lives for all rounds: each block does its part of the boundary before its part of the
 *		interior, the last one of those (ggas_blocks_of_boundary) tells the neighbours, and blocks meet at the end
 *		(ggas_sync_grid of coll.cuh)
 *	parts	the same without a meeting: each block waits for those alone whose data it reads, here and at the neighbours
 *		(ggas_parts_wait, ggas_part_tell)
 *
 *	GGAS_KERNEL(step, step_args)	// in-kernel: a kernel a round
 *	{
 *		ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
 *		ggas_edge edge = { args.peer, args.to, args.from, args.bytes, args.signal };
 *		ggas_edge_wait<ggas_scope::block>(window, edge, args.round);	// what the peer sent in the round before
 *		... // stores the boundary
 *		if (ggas_last_block(reinterpret_cast<uint64_t *>(args.counter)))
 *			ggas_edge_send<ggas_scope::block>(window, edge, args.round + 1);
 *	}
 *
 * benches/kernels/bench_himeno*.cu use all but the meeting of persistent ones. Results are those of put.cuh.
 */
#ifndef GGAS_BLOCKS_CUH
#define GGAS_BLOCKS_CUH

#include "put.cuh"

/*
 * Whether the calling block is the last of `blocks` that came here; the same in all its threads. Called once by all
 * threads of each of these blocks with the same counter, a word of this GPU's memory that is 0 at first and again once
 * the last one has come: it may be used again behind whatever parts two uses, such as the end of a kernel.
 *
 * Order: each block's stores are released before it is counted, and the last one acquires, so it sees and may send on
 * what all of them stored. Nobody waits.
 */
GGAS_FN bool ggas_last_block(uint64_t *counter, uint32_t blocks)
{
	bool last = false;
	ggas_syncthreads();
	if (ggas_thread() == 0) {
		last = ggas_atomic_add_gpu(counter, 1) + 1 == blocks;
		if (last)
			ggas_store_relaxed(counter, uint64_t(0));
	}
	return ggas_syncthreads_or(last);
}
GGAS_FN bool ggas_last_block(uint64_t *counter)
{
	return ggas_last_block(counter, ggas_blocks());
}

/* One side of an exchange of boundaries: where this node's data go, and what tells of the other's. */
struct ggas_edge {
	uint32_t node;	 /* the neighbour */
	uint64_t to;	 /* offset in its part of the window */
	uint64_t from;	 /* address of the data here */
	uint64_t bytes;
	uint64_t signal; /* offset of a word in its part that this node sets to the number of a round */
	uint64_t seen;	 /* offset of the word in this node's part that the neighbour sets */
};

/* The boundary, then the number of the round: who waits for it sees the data. Data of round r may overwrite those of
 * round r - 2 only if a round ends with a wait for the neighbour: keep two buffers, for odd and even rounds (thesis
 * 5.8.1). By all threads of the scope. */
template <ggas_scope Scope>
GGAS_FN int ggas_edge_send(const ggas_window &window, const ggas_edge &edge, uint64_t round,
			   uint32_t line = __builtin_LINE())
{
	return ggas_impl::put_signal<Scope>(&window, edge.node, edge.to, reinterpret_cast<const void *>(edge.from),
					    edge.bytes, edge.signal, round, ggas_signal::set, line);
}

/* The same by all blocks of a grid, each its share; the last one signals, unless the put was refused, as it then is to all
 * blocks. `counter`: as of ggas_last_block. */
GGAS_FN int ggas_edge_send_grid(const ggas_window &window, const ggas_edge &edge, uint64_t round, uint64_t *counter,
				uint32_t line = __builtin_LINE())
{
	uint32_t by_grid = ggas_impl::traced(ggas_impl::trace_grid, line);
	if (int error = ggas_impl::check_signal(&window, edge.node, edge.signal, by_grid))
		return error;
	int error = ggas_put_grid(&window, edge.node, edge.to, reinterpret_cast<const void *>(edge.from), edge.bytes, line);
	if (ggas_last_block(counter) && !error && ggas_thread() == 0)
		ggas_store_release(ggas_pointer_of_node<uint64_t>(&window, edge.node, edge.signal), round);
	return error;
}

/* Waits until the neighbour's boundary of a round is here, with acquire; bounded by the window's time-out. */
template <ggas_scope Scope>
GGAS_FN int ggas_edge_wait(const ggas_window &window, const ggas_edge &edge, uint64_t round,
			   uint32_t line = __builtin_LINE())
{
	return ggas_impl::wait_word<Scope>(&window, edge.seen, ggas_cmp::ge, round, edge.node, line);
}

/* Blocks that have a part of the boundary where blocks take items in turn, those of the boundary first, in the order of their
 * numbers: what they work on at the same time then lies together in memory. */
GGAS_FN uint32_t ggas_blocks_of_boundary(uint64_t boundary)
{
	return boundary < ggas_blocks() ? static_cast<uint32_t>(boundary) : ggas_blocks();
}

/*
 * Parts of data that blocks which all live at once have in every round, by two buffers: round r reads buffer r % 2 and stores
 * into the other one, here or at another node. Each part has a flag wherever its end of a round is waited for: a word in
 * that node's part of the window, 0 at first, which this block alone sets.
 *
 *	for (uint64_t round = 0; round < rounds; round++) {
 *		// a flag for each thread, or 0: those of the parts that this one reads, here and at neighbours
 *		if (int error = ggas_parts_wait(window, flag, round, peer))
 *			return error;
 *		... // reads these parts, stores its own
 *		ggas_part_tell(flag_of_mine, round + 1);
 *	}
 *
 * Two buffers suffice where parts read each other's. Who comes from the wait of round r knows that the parts beside its own have
 * ended round r - 1: so all that round r reads is there; and what round r overwrites, the buffer of round r - 1, has been read
 * by all who read it, the same parts. Nobody is two rounds ahead of a part beside its own. From the stores of a block to the
 * block that waits for them it is one step, over whatever lies between; blocks do not meet, nor do nodes. So a node may end while a
 * neighbour still tells it of the last round: flags go back to 0 once the grids of all nodes have ended.
 */

/* This block's part has ended round `round` - 1: what its threads stored, and read, is before whatever comes behind a wait
 * for this flag. By all threads of the block. */
GGAS_FN void ggas_part_tell(uint64_t *flag, uint64_t round)
{
	ggas_syncthreads();
	if (ggas_thread() == 0)
		ggas_flag_set(flag, round);
}

/* The same for blocks of this GPU alone, and quicker: one round more. */
GGAS_FN void ggas_part_tell_near(uint64_t *flag)
{
	ggas_syncthreads();
	if (ggas_thread() == 0)
		ggas_red_add_release_gpu(flag, 1);
}

/* Each thread waits for a flag in this node's part, if it has one: until all have reached `round`, with acquire, bounded by
 * the window's time-out. `peer`: the node that sets it; of this node's own blocks ggas_part_tell_near is enough. The same
 * result in all threads of the block. */
GGAS_FN int ggas_parts_wait(const ggas_window &window, const uint64_t *flag, uint64_t round, uint32_t peer,
			    uint32_t line = __builtin_LINE())
{
	int error = flag ? ggas_impl::watch_flag(&window, flag, round, peer, line) : GGAS_OK;
	if (flag && peer == window.node)
		ggas_fence_acquire_gpu();
	else if (flag)
		ggas_fence_acquire();
	return ggas_block_status(error);
}

/* Most blocks of a node of which each tells all nodes that it has come to a meeting: one step. Of more only the last one tells. Each
 * looks at what all have told, so beyond it takes longer than two steps (measured on two H100: 64 blocks 3.3 and 3.7 us, 396 blocks 8.6
 * and 4.3 us, with a put of 64 KiB). */
constexpr uint32_t ggas_meeting_each = 64;

/* Bytes of the words of a meeting in each node's part. */
GGAS_FN uint64_t ggas_meeting_bytes(uint32_t nodes, uint32_t blocks)
{
	return (static_cast<uint64_t>(nodes) * (blocks <= ggas_meeting_each ? blocks : 1) + 1) * sizeof(uint64_t);
}

/*
 * All blocks of all nodes meet: each, or the last one of a node, tells every node, and all wait for what all tell. `words`: offset in each
 * node's part of ggas_meeting_bytes(), 0 at first: flags by node, and a count of blocks; `round`: 1 in the first meeting, one more in
 * each. By all threads of grids of the same size whose blocks all live at once. A release of everything before and an acquire for
 * everything after it.
 *
 * ggas_barrier_grid (coll.cuh) orders the same in three steps: blocks, nodes, blocks.
 */
GGAS_FN int ggas_meet_all(const ggas_window &window, uint64_t words, uint64_t round, uint32_t line = __builtin_LINE())
{
	uint32_t blocks = ggas_blocks(), nodes = window.nodes, thread = ggas_thread();
	bool each = blocks <= ggas_meeting_each;
	uint32_t flags = each ? blocks : 1;
	uint64_t own = words + (static_cast<uint64_t>(window.node) * flags + (each ? ggas_block() : 0)) * sizeof(uint64_t);
	auto *all = reinterpret_cast<uint64_t *>(window.local + words);
	ggas_syncthreads();
	if (each) {
		for (uint32_t node = thread; node < nodes; node += ggas_threads())
			ggas_flag_set(ggas_pointer_of_node<uint64_t>(&window, node, own), round);
	} else if (thread == 0 && ggas_atomic_add_gpu(all + nodes, 1) + 1 == round * blocks) {
		for (uint32_t node = 0; node < nodes; node++)
			ggas_flag_set(ggas_pointer_of_node<uint64_t>(&window, node, own), round);
	}
	int error = GGAS_OK;
	for (uint32_t i = thread; i < nodes * flags && !error; i += ggas_threads())
		error = ggas_impl::watch_flag(&window, all + i, round, i / flags, line);
	ggas_fence_acquire();
	return ggas_block_status(error);
}

#endif /* GGAS_BLOCKS_CUH */
