// SPDX-License-Identifier: MIT OR Apache-2.0
// himeno by queues (thesis 5.7): boundaries go by stores or by the network device, whatever reaches the neighbours' memory. A block
// for each piece of a message; no block waits for one that sends.
#include "bench_himeno_sides.cuh"
#include "ggas/queue.cuh"

namespace bench_himenos
{

/* The calling block's piece of a message. */
struct piece {
	const bench_himeno_side &side;
	uint32_t number;
	uint64_t begin, end;	/* floats */

	GGAS_FN explicit piece(const bench_himeno &args)
		: side(side_of(args, ggas_block() / BENCH_HIMENO_PIECES)), number(ggas_block() % BENCH_HIMENO_PIECES)
	{
		uint64_t all = floats_of(side), each = (all + BENCH_HIMENO_PIECES - 1) / BENCH_HIMENO_PIECES;
		each = (each + 31) / 32 * 32;
		begin = number * each < all ? number * each : all;
		end = begin + each < all ? begin + each : all;
	}
	GGAS_FN uint64_t bytes() const { return (end - begin) * sizeof(float); }
};

/* The queue of the calling block. */
GGAS_FN uint32_t queue_of_block(const ggas_queues *queues)
{
	return ggas_block() % queues->queues;
}

/* Offset in a part of the window: of what is sent, and of its place there. */
GGAS_FN uint64_t float_at(const bench_himeno &args, uint64_t iteration, int64_t at)
{
	return (iteration & 1 ? args.field[1] : args.field[0]) + static_cast<uint64_t>(at) * sizeof(float);
}

GGAS_FN int post(const bench_himeno &args, const ggas_queue &queue, const piece &part, uint64_t iteration)
{
	const bench_himeno_side &side = part.side;
	auto *memory = pointer<const ggas_memory>(args.memory);
	ggas_remote to(queue, memory, side.node), from(queue, memory, queue.member);
	uint64_t source = float_at(args, iteration, side.from), place = float_at(args, iteration, side.to);
	uint64_t first = part.begin * sizeof(float);
	if (side.packed) {
		source = side.sent;
		place = side.arrives_there[iteration & 1];
		pack(args, side, field(args, iteration), pointer<float>(args.local + side.sent), part.begin, part.end, ggas_thread(),
		     ggas_threads());
		ggas_syncthreads();
	}
	uint32_t flag = side.flag_there + part.number;
	if (part.bytes() == 0)
		return ggas_queue_flag(queue, to, flag, iteration);
	return ggas_queue_write_notify(queue, to, place + first, from, source + first, part.bytes(), flag, iteration);
}

/* A block's piece of what the neighbour sent; and that its own has left. */
GGAS_FN int take(const bench_himeno &args, const ggas_queue &queue, const piece &part, uint64_t iteration)
{
	const bench_himeno_side &side = part.side;
	if (int error = ggas_queues_wait_flag(queue.all, side.flag + part.number, ggas_cmp::ge, iteration, side.node))
		return error;
	if (side.packed)
		unpack(args, side, field(args, iteration), pointer<const float>(args.local + side.arrives[iteration & 1]),
		       part.begin, part.end, ggas_thread(), ggas_threads());
	return ggas_queue_wait(queue);
}

} /* namespace bench_himenos */

/* SEND or WAIT, a block for each piece of each message. The last block of those that waited ends the iteration. */
GGAS_KERNEL_BOUND(bench_himeno_queues, bench_himeno, bench_himenos::most_threads)
{
	using namespace bench_himenos;
	auto *state = pointer<bench_himeno_state>(args.state);
	auto *queues = pointer<const ggas_queues>(args.queues);
	uint64_t next = ggas_load_relaxed(&state->iteration) + 1;
	if (ggas_load_relaxed(&state->status))
		return;
	ggas_queue queue(queues, queue_of_block(queues));
	if (args.what & BENCH_HIMENO_SEND) {
		note(state, post(args, queue, piece(args), next), next - 1);
		return;
	}
	note(state, take(args, queue, piece(args), next), next - 1);
	if (ggas_last_block(&state->finished) && ggas_thread() == 0 && !ggas_load_relaxed(&state->status))
		ggas_store_relaxed(&state->iteration, next);
}
