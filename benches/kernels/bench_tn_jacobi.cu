// SPDX-License-Identifier: MIT OR Apache-2.0
// tn-jacobi: each point becomes the mean of its neighbours, and edges go to the neighbouring nodes.
#include "bench_tn.cuh"

namespace bench_jacobi
{

using namespace bench_tn_programs;

/* One block's part: rows of the node's square. */
class relaxation {
public:
	GGAS_FN explicit relaxation(const bench_tn_jacobi &args)
		: args_(args), window_(*pointer<const ggas_window>(args.program.window)), side_(args.side),
		  begin_(static_cast<uint64_t>(args.side) * ggas_block() / ggas_blocks()),
		  end_(static_cast<uint64_t>(args.side) * (ggas_block() + 1) / ggas_blocks())
	{
	}

	GGAS_FN int run()
	{
		int late = GGAS_OK;
		for (uint64_t k = args_.first; k < args_.first + args_.iterations; k++) {
			float *now = pointer<float>(args_.fields[k & 1]), *next = pointer<float>(args_.fields[(k + 1) & 1]);
			if (k > 0)
				take(now, k & 1);
			sweep(now, next);
			give(next, (k + 1) & 1);
			if (!args_.program.tn)
				continue;
			if (int error = send(k + 1))
				return error;
			/* While these edges are on their way. */
			if (k > args_.first)
				late = rearm_all(k & 1);
			if (int error = meet(k + 1, late))
				return error;
		}
		return args_.program.tn && args_.iterations ? rearm_all((args_.first + args_.iterations) & 1) : GGAS_OK;
	}

private:
	const bench_tn_jacobi &args_;
	ggas_window window_;
	uint32_t side_, begin_, end_;

	GGAS_FN uint64_t at(uint32_t row, uint32_t column) const
	{
		return static_cast<uint64_t>(row) * (side_ + 2) + column;
	}

	/* Whether this block has points at a side where there is a neighbour: then it takes and gives that edge. */
	GGAS_FN bool has(uint32_t side) const
	{
		if (!(args_.neighbours >> side & 1))
			return false;
		return side == BENCH_JACOBI_NORTH ? begin_ == 0 : side == BENCH_JACOBI_SOUTH ? end_ == side_ : true;
	}

	GGAS_FN float *edge(uint64_t base, uint64_t parity, uint32_t side) const
	{
		return pointer<float>(base + (parity * BENCH_JACOBI_SIDES + side) * args_.stride);
	}

	/* This block's points next to a side (border: those beyond it), and their places in the edge. */
	template <class Work> GGAS_FN void along(uint32_t side, bool border, Work work) const
	{
		uint32_t out = border;
		if (side == BENCH_JACOBI_NORTH || side == BENCH_JACOBI_SOUTH) {
			uint32_t row = side == BENCH_JACOBI_NORTH ? 1 - out : side_ + out;
			for (uint32_t i = ggas_thread(); i < side_; i += ggas_threads())
				work(at(row, i + 1), i);
		} else {
			uint32_t column = side == BENCH_JACOBI_WEST ? 1 - out : side_ + out;
			for (uint32_t i = begin_ + ggas_thread(); i < end_; i += ggas_threads())
				work(at(i + 1, column), i);
		}
	}

	/* Edges that came, into the border of what is read. */
	GGAS_FN void take(float *now, uint64_t parity) const
	{
		for (uint32_t side = 0; side < BENCH_JACOBI_SIDES; side++) {
			const float *came = edge(window_.local + BENCH_JACOBI_EDGES, parity, side);
			if (has(side))
				along(side, true, [&](uint64_t point, uint32_t i) { now[point] = came[i]; });
		}
		ggas_syncthreads();
	}

	GGAS_FN void give(const float *next, uint64_t parity) const
	{
		ggas_syncthreads();
		for (uint32_t side = 0; side < BENCH_JACOBI_SIDES; side++) {
			float *sent = edge(args_.edges, parity, side);
			if (has(side))
				along(side, false, [&](uint64_t point, uint32_t i) { sent[i] = next[point]; });
		}
	}

	/* A row of threads for a row of points, or several rows of threads where rows of points are short. */
	GGAS_FN void sweep(const float *now, float *next) const
	{
		uint32_t wide = 32;
		while (wide < side_ && wide * 2 <= ggas_threads())
			wide *= 2;
		uint32_t column = ggas_thread() % wide, high = ggas_threads() / wide;
		if (ggas_thread() / wide >= high)
			return;
		for (uint32_t row = begin_ + ggas_thread() / wide; row < end_; row += high) {
			for (uint32_t i = column; i < side_; i += wide) {
				uint64_t point = at(row + 1, i + 1);
				float above = now[point - side_ - 2], below = now[point + side_ + 2];
				next[point] = 0.25f * (above + below + now[point - 1] + now[point + 1]);
			}
		}
	}

	GGAS_FN int send(uint64_t value) const
	{
		uint64_t parity = value & 1;
		for (uint32_t side = 0; side < BENCH_JACOBI_SIDES; side++) {
			if (!has(side))
				continue;
			uint64_t message = parity * BENCH_JACOBI_SIDES + side;
			uint64_t values = args_.edges + 2 * BENCH_JACOBI_SIDES * args_.stride;
			if (args_.program.words && ggas_thread() == 0)
				ggas_store_relaxed(pointer<uint64_t>(values) + message, value);
			if (int error = trigger(args_.program, message))
				return error;
		}
		return GGAS_OK;
	}

	/* All blocks have done this iteration, as rows of others are read next, and all edges are here. `error`: this thread's
	 * so far. */
	GGAS_FN int meet(uint64_t times, int error) const
	{
		ggas_syncthreads();
		if (ggas_thread() == 0) {
			uint64_t *met = pointer<uint64_t>(args_.met), all = times * ggas_blocks(), seen;
			ggas_red_add_release_gpu(met, 1);
			ggas_wait wait(window_.report, window_.timeout_ns, GGAS_WAIT_GRID, window_.node);
			while ((seen = ggas_load_watched_gpu(met)) < all && !error)
				error = wait.again(met, all, seen);
			ggas_fence_acquire_gpu();
			for (uint32_t side = 0; side < BENCH_JACOBI_SIDES && !error; side++)
				if (args_.neighbours >> side & 1)
					error = ggas_wait_thread(&window_, side * BENCH_JACOBI_COUNTER, ggas_cmp::ge, times);
		}
		return ggas_block_status(error);
	}

	/* The edges of an iteration behind whose meeting this is: all blocks have triggered. The same tags are triggered again
	 * behind the next meeting. */
	GGAS_FN int rearm_all(uint64_t parity) const
	{
		uint32_t side = ggas_thread();
		if (ggas_block() != 0 || side >= BENCH_JACOBI_SIDES || !(args_.neighbours >> side & 1))
			return GGAS_OK;
		return rearm(args_.program, parity * BENCH_JACOBI_SIDES + side);
	}
};

} /* namespace bench_jacobi */

GGAS_KERNEL_BOUND(bench_tn_jacobi_iterations, bench_tn_jacobi, 512)
{
	bench_tn_programs::leave(args.program, bench_jacobi::relaxation(args).run());
}
