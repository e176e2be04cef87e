// SPDX-License-Identifier: MIT OR Apache-2.0
// himeno, grids cut in more directions than one: kernels between those that compute. A message is a box of points, packed; kernels
// store it straight to where it arrives, or make it ready for a host that copies it.
#include "bench_himeno_sides.cuh"

namespace bench_himenos
{

/* What iteration `iteration` - 1 wrote; by all blocks, each its share. */
GGAS_FN void send_sides(const bench_himeno &args, const ggas_window &window, uint64_t iteration, uint64_t self, uint64_t all)
{
	for (uint32_t i = 0; i < args.sides; i++) {
		const bench_himeno_side &side = side_of(args, i);
		float *message = args.what & BENCH_HIMENO_PACK ?
					 pointer<float>(args.local + side.sent) :
					 ggas_pointer_of_node<float>(&window, side.node, side.arrives_there[iteration & 1]);
		pack(args, side, field(args, iteration), message, 0, floats_of(side), self, all);
	}
}

/* All blocks have sent: by a thread for each neighbour of the last one. */
GGAS_FN void tell_sides(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	for (uint32_t i = ggas_thread(); i < args.sides; i += ggas_threads()) {
		const bench_himeno_side &side = side_of(args, i);
		ggas_flag_set(ggas_pointer_of_node<uint64_t>(&window, side.node, side.signal), iteration);
	}
}

/* A thread waits for each neighbour's message. The same result in all threads of the block. */
GGAS_FN int wait_for_sides(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	int error = GGAS_OK;
	for (uint32_t i = ggas_thread(); i < args.sides && !error; i += ggas_threads()) {
		const bench_himeno_side &side = side_of(args, i);
		error = ggas_impl::watch_flag(&window, pointer<const uint64_t>(window.local + side.seen), iteration, side.node,
					      __builtin_LINE());
	}
	ggas_fence_acquire();
	return ggas_block_status(error);
}

/* What has arrived, to where the next iteration reads it. */
GGAS_FN void unpack_sides(const bench_himeno &args, uint64_t iteration, uint64_t self, uint64_t all)
{
	for (uint32_t i = 0; i < args.sides; i++) {
		const bench_himeno_side &side = side_of(args, i);
		auto *message = pointer<const float>(args.local + side.arrives[iteration & 1]);
		unpack(args, side, field(args, iteration), message, 0, floats_of(side), self, all);
	}
}

} /* namespace bench_himenos */

/* SEND: to the neighbours, who are told by the last block; with PACK: to where the host sends from. WAIT: what neighbours sent is
 * unpacked; with PACK nobody is waited for. With ADVANCE the iteration has ended. One of SEND and WAIT: no block of a grid waits for
 * what another one sends. */
GGAS_KERNEL_BOUND(bench_himeno_sides, bench_himeno, bench_himenos::most_threads)
{
	using namespace bench_himenos;
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *state = pointer<bench_himeno_state>(args.state);
	uint64_t next = ggas_load_relaxed(&state->iteration) + (args.what & BENCH_HIMENO_PACK ? 0 : 1);
	uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	uint64_t all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
	bool alone = args.what & BENCH_HIMENO_PACK;
	if (ggas_load_relaxed(&state->status))
		return;
	if (args.what & BENCH_HIMENO_SEND) {
		send_sides(args, window, next, self, all);
		if (!alone && ggas_last_block(state->sent))
			tell_sides(args, window, next);
		return;
	}
	int error = alone ? GGAS_OK : wait_for_sides(args, window, next);
	note(state, error, next - 1);
	if (!error)
		unpack_sides(args, next, self, all);
	if (args.what & BENCH_HIMENO_ADVANCE && ggas_last_block(&state->finished))
		if (ggas_thread() == 0 && !ggas_load_relaxed(&state->status))
			ggas_store_relaxed(&state->iteration, next);
}
