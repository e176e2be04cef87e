// SPDX-License-Identifier: MIT OR Apache-2.0
// himeno by MPI calls of kernels (GMPI paper, V): blocks that live for all iterations, and exchange halos by Isend, Irecv and Waitall.
#include "bench_himeno_sides.cuh"
#include "ggas/gmpi.cuh"
#include "himeno_units.cuh"

namespace bench_himenos
{

/* What a block does for all iterations. */
struct gmpi_block {
	const bench_himeno_gmpi &all;
	const bench_himeno &args;
	const ggas_window &window;
	const himeno::cut &cut;
	const himeno::kept &kept;
	uint64_t meetings;

	GGAS_FN bool first() const { return ggas_block() == 0 && ggas_thread() == 0; }

	/* All blocks of this node. */
	GGAS_FN int meet()
	{
		int error = GGAS_OK;
		uint64_t wanted = ++meetings * ggas_blocks();
		ggas_syncthreads();
		if (ggas_thread() == 0) {
			auto *met = pointer<uint64_t>(all.met);
			ggas_wait wait(window.report, window.timeout_ns, GGAS_WAIT_GRID, window.node);
			ggas_atomic_add_gpu(met, 1);
			uint64_t seen;
			while (!error && (seen = ggas_load_watched_gpu(met)) < wanted)
				error = wait.again(met, wanted, seen);
			ggas_fence_acquire_gpu();
		}
		return ggas_block_status(error);
	}

	GGAS_FN void compute(uint64_t iteration) const
	{
		himeno_field f = fields(args, iteration);
		himeno::neighbours nobody = {};
		uint32_t number = 0;
		for (uint32_t unit = ggas_block(); unit < cut.units(); unit += ggas_blocks(), number += cut.height())
			himeno::walk<true>(f, cut.at(unit), kept, number, nobody, [](uint32_t) {});
	}

	/* This block's floats of a message. */
	GGAS_FN void piece(const bench_himeno_side &side, uint64_t *begin, uint64_t *end) const
	{
		uint64_t floats = floats_of(side), each = ((floats + all.pieces - 1) / all.pieces + 31) / 32 * 32;
		*begin = ggas_block() * each < floats ? ggas_block() * each : floats;
		*end = *begin + each < floats ? *begin + each : floats;
	}

	/* Which message a piece is of: in which direction it goes, and the block. */
	GGAS_FN static int tag_of(uint32_t flag) { return static_cast<int>(flag * (BENCH_HIMENO_MOST_PIECES / BENCH_HIMENO_PIECES) + ggas_block()); }

	/* What iteration `next` - 1 wrote, to where the neighbours read it. */
	GGAS_FN int exchange(uint64_t next) const
	{
		if (ggas_block() >= all.pieces)
			return MPI_SUCCESS;
		auto *buf = pointer<gmpi_buf_t>(all.buf);
		auto *requests = pointer<MPI_Request>(all.requests) + uint64_t(2) * all.count * ggas_block();
		float *data = field(args, next);
		int error = MPI_SUCCESS;
		uint64_t begin, end;
		for (uint32_t i = 0; i < all.count && !error; i++) {
			const bench_himeno_side &side = side_of(args, i);
			piece(side, &begin, &end);
			float *to = side.packed ? pointer<float>(args.local + side.arrives[next & 1]) : data + side.beyond;
			error = GMPI_Irecv(buf, to + begin, static_cast<int>(end - begin), MPI_FLOAT, static_cast<int>(side.node),
					   tag_of(side.flag), all.comm, &requests[i]);
		}
		for (uint32_t i = 0; i < all.count && !error; i++) {
			const bench_himeno_side &side = side_of(args, i);
			piece(side, &begin, &end);
			float *from = side.packed ? pointer<float>(args.local + side.sent) : data + side.from;
			if (side.packed)
				pack(args, side, data, from, begin, end, ggas_thread(), ggas_threads());
			error = GMPI_Isend(buf, from + begin, static_cast<int>(end - begin), MPI_FLOAT, static_cast<int>(side.node),
					   tag_of(side.flag_there), all.comm, &requests[all.count + i]);
		}
		if (!error)
			error = GMPI_Waitall(buf, static_cast<int>(2 * all.count), requests, MPI_STATUSES_IGNORE);
		for (uint32_t i = 0; i < all.count && !error; i++) {
			const bench_himeno_side &side = side_of(args, i);
			piece(side, &begin, &end);
			if (side.packed)
				unpack(args, side, data, pointer<const float>(args.local + side.arrives[next & 1]), begin, end, ggas_thread(),
				       ggas_threads());
		}
		return error;
	}

	/* A sum over the threads of the block, in thread 0. */
	GGAS_FN double sum_of_block(double own) const
	{
		GGAS_SHARED_ARRAY(double, parts, 32);
		double sum = himeno::sum_of_warp(own);
		ggas_syncthreads();
		if (ggas_lane() == 0)
			parts[ggas_warp()] = sum;
		ggas_syncthreads();
		for (uint32_t i = 1; ggas_thread() == 0 && i < ggas_warps(); i++)
			sum += parts[i];
		return sum;
	}

	/* The squared residuals of this block's units. */
	GGAS_FN void sum_own(uint64_t iteration) const
	{
		himeno_field f = fields(args, iteration);
		double own = 0;
		for (uint32_t number = ggas_block(); number < cut.units(); number += ggas_blocks()) {
			himeno::unit unit = cut.at(number);
			himeno::tile_of_warp t(f, unit);
			for (uint32_t z = unit.begin; t.has && z < unit.end; z++) {
				uint64_t tile = (static_cast<uint64_t>(z) * f.y + t.s.y) * f.tiles + t.s.tile;
				if (f.lanes)
					own += f.sums[tile * GGAS_WARP_SIZE + ggas_lane()];
				else if (ggas_lane() == 0)
					own += f.sums[tile];
			}
		}
		double sum = sum_of_block(own);
		if (ggas_thread() == 0)
			pointer<double>(all.residuals)[2 + ggas_block()] = sum;
	}

	/* Behind a meeting: of all nodes, by block 0. Between kernels rank 0 adds up and tells the others. */
	GGAS_FN int converge() const
	{
		if (ggas_block() != 0)
			return MPI_SUCCESS;
		auto *residuals = pointer<double>(all.residuals);
		auto *buf = pointer<gmpi_buf_t>(all.buf);
		int rank = static_cast<int>(buf->rank), size = static_cast<int>(buf->size), tag = 0, error = MPI_SUCCESS;
		double own = 0;
		for (uint32_t i = ggas_thread(); i < ggas_blocks(); i += ggas_threads())
			own += residuals[2 + i];
		own = sum_of_block(own);
		if (ggas_thread() == 0)
			residuals[0] = own;
		if (all.converges == 2)
			return GMPI_Allreduce(buf, MPI_IN_PLACE, residuals, 1, MPI_DOUBLE, MPI_SUM, all.comm);
		if (rank != 0) {
			error = GMPI_Send(buf, residuals, 1, MPI_DOUBLE, 0, tag, all.comm);
			return error ? error : GMPI_Recv(buf, residuals, 1, MPI_DOUBLE, 0, tag, all.comm, MPI_STATUS_IGNORE);
		}
		for (int from = 1; from < size && !error; from++) {
			error = GMPI_Recv(buf, residuals + 1, 1, MPI_DOUBLE, from, tag, all.comm, MPI_STATUS_IGNORE);
			if (ggas_thread() == 0)
				residuals[0] += residuals[1];
		}
		for (int to = 1; to < size && !error; to++)
			error = GMPI_Send(buf, residuals, 1, MPI_DOUBLE, to, tag, all.comm);
		return error;
	}

	/* Adds to what block 0 has spent since the last call. */
	GGAS_FN void spent(uint32_t on, uint64_t *since) const
	{
		if (!first())
			return;
		uint64_t now = ggas_time_ns();
		pointer<uint64_t>(all.spent)[on] += now - *since;
		*since = now;
	}

	GGAS_FN int iterate(uint64_t iteration)
	{
		uint64_t since = first() ? ggas_time_ns() : 0;
		compute(iteration);
		if (all.converges)
			sum_own(iteration);
		int error = meet();
		spent(0, &since);
		if (!error)
			error = exchange(iteration + 1);
		spent(1, &since);
		if (!error && all.converges)
			error = converge();
		spent(2, &since);
		/* Who failed does not come, and the others wait for it in vain. */
		if (!error)
			error = meet();
		spent(1, &since);
		return error;
	}
};

} /* namespace bench_himenos */

GGAS_KERNEL_BOUND(bench_himeno_gmpi_rounds, bench_himeno_gmpi, BENCH_HIMENO_LASTING)
{
	using namespace bench_himenos;
	constexpr uint32_t quads = BENCH_HIMENO_KEPT / sizeof(himeno::quad);
	GGAS_SHARED_ARRAY(himeno::quad, room, quads);
	const bench_himeno &h = args.himeno;
	bench_stopwatch watch(h.timing);
	ggas_window window = *pointer<const ggas_window>(h.window);
	auto *state = pointer<bench_himeno_state>(h.state);
	himeno_field f = fields(h, 0);
	himeno::cut cut(f, has(h.edge[0]) ? 1 : 2, has(h.edge[1]) ? h.z + 1 : h.z, h.slabs);
	himeno::kept kept(room, quads, cut);
	gmpi_block block = { args, h, window, cut, kept, 0 };
	uint32_t number = 0;
	for (uint32_t unit = ggas_block(); unit < cut.units(); unit += ggas_blocks(), number += cut.height())
		himeno::keep(f, cut.at(unit), kept, number);
	int error = GGAS_OK;
	for (uint64_t i = 0; i < watch.rounds() && !error; i++) {
		if (block.first())
			watch.begin(i);
		error = block.iterate(i);
		note(state, error, i);
		if (block.first() && !error) {
			watch.end(i);
			ggas_store_relaxed(&state->iteration, i + 1);
		}
	}
	if (block.first())
		watch.stop(error);
}
