// SPDX-License-Identifier: MIT OR Apache-2.0
// gmpi-himeno (GMPI paper, VI B): Himeno with halos and convergence by MPI calls of one kernel, by puts of the same kernel, and the
// kernels of its rival, which end for each call of the host.
#include "bench_gmpi_himeno.cuh"
#include "himeno_units.cuh"
#include "ggas/coll.cuh"

namespace bench_gmpi_himenos
{

constexpr int halo_tag = 1;

/* Shared memory in which a block keeps coefficients: what a block may have without being asked for more, less what calls need. */
constexpr uint32_t kept_bytes = 45056;

/* Of the field that iteration `next` reads. */
GGAS_FN void pack_all(const bench_gmpi_himeno &args, const messages &all, uint64_t next, uint64_t self, uint64_t threads)
{
	for (uint32_t i = 0; i < all.count(); i++) {
		const message &m = all[i];
		if (m.packed)
			bench_himenos::pack(args.grid, *m.side, bench_himenos::field(args.grid, next), m.out[next & 1], m.begin, m.end, self,
					    threads);
	}
}

GGAS_FN void unpack_all(const bench_gmpi_himeno &args, const messages &all, uint64_t next, uint64_t self, uint64_t threads)
{
	for (uint32_t i = 0; i < all.count(); i++) {
		const message &m = all[i];
		if (m.packed)
			bench_himenos::unpack(args.grid, *m.side, bench_himenos::field(args.grid, next), m.in[next & 1], m.begin, m.end, self,
					      threads);
	}
}

/* The halo by MPI calls: by one block, or each with its pieces. With one neighbour it is one call. */
GGAS_FN int halo_by_calls(const bench_gmpi_himeno &args, const messages &all, gmpi_buf_t *buf, uint64_t next)
{
	uint32_t sides = all.count(), field = next & 1;
	if (sides == 1) {
		const message &m = all[0];
		int node = static_cast<int>(m.node);
		return GMPI_Sendrecv(buf, m.out[field], m.count, m.type, node, halo_tag, m.in[field], m.count, m.type, node, halo_tag,
				     args.comm, MPI_STATUS_IGNORE);
	}
	MPI_Request *requests = pointer<MPI_Request>(args.requests) + uint64_t(ggas_block()) * 2 * sides;
	int error = MPI_SUCCESS;
	for (uint32_t i = 0; i < sides && !error; i++) {
		const message &m = all[i];
		error = GMPI_Irecv(buf, m.in[field], m.count, m.type, static_cast<int>(m.node), halo_tag, args.comm, &requests[i]);
	}
	for (uint32_t i = 0; i < sides && !error; i++) {
		const message &m = all[i];
		error = GMPI_Isend(buf, m.out[field], m.count, m.type, static_cast<int>(m.node), halo_tag, args.comm, &requests[sides + i]);
	}
	return error ? error : GMPI_Waitall(buf, static_cast<int>(2 * sides), requests, MPI_STATUSES_IGNORE);
}

/* The halo by stores into the neighbours' parts of the window, and flags. */
GGAS_FN int halo_by_puts(const bench_gmpi_himeno &args, const messages &all, const ggas_window &window, uint64_t next)
{
	const bench_himeno &grid = args.grid;
	float *field = bench_himenos::field(grid, next);
	uint64_t flag = ggas_block() * sizeof(uint64_t);
	for (uint32_t i = 0; i < all.count(); i++) {
		const message &m = all[i];
		bench_himenos::pack(grid, *m.side, field, m.out[next & 1], m.begin, m.end, ggas_thread(), ggas_threads());
	}
	ggas_syncthreads();
	const uint64_t *awaited = nullptr;
	uint32_t peer = window.node;
	if (ggas_thread() < grid.sides) {
		const bench_himeno_side &side = bench_himenos::side_of(grid, ggas_thread());
		ggas_flag_set(ggas_pointer_of_node<uint64_t>(&window, side.node, side.signal + flag), next);
		awaited = pointer<const uint64_t>(window.local + side.seen + flag);
		peer = side.node;
	}
	if (int error = ggas_parts_wait(window, awaited, next, peer))
		return error;
	for (uint32_t i = 0; i < all.count(); i++) {
		const message &m = all[i];
		if (m.packed)
			bench_himenos::unpack(grid, *m.side, field, m.in[next & 1], m.begin, m.end, ggas_thread(), ggas_threads());
	}
	return GGAS_OK;
}

/* The sum over a block's threads, in an order that does not change, for all of them. */
GGAS_FN double sum_of_threads(double value)
{
	GGAS_SHARED_ARRAY(double, warps, GGAS_WARP_SIZE);
	value = himeno::sum_of_warp(value);
	if (ggas_lane() == 0)
		warps[ggas_warp()] = value;
	ggas_syncthreads();
	double sum = 0;
	for (uint32_t warp = 0; warp < ggas_warps(); warp++)
		sum = sum + warps[warp];
	ggas_syncthreads();
	return sum;
}

/* Squared residuals of this block's units. Each thread reads what it wrote. */
GGAS_FN double sum_of_units(const himeno_field &f, const himeno::cut &cut)
{
	double sum = 0;
	for (uint32_t number = ggas_block(); number < cut.units(); number += ggas_blocks()) {
		himeno::unit u = cut.at(number);
		himeno::tile_of_warp t(f, u);
		for (uint32_t z = u.begin; t.has && z < u.end; z++) {
			uint64_t tile = (static_cast<uint64_t>(z) * f.y + t.s.y) * f.tiles + t.s.tile;
			if (f.lanes)
				sum = sum + f.sums[tile * GGAS_WARP_SIZE + ggas_lane()];
			else if (ggas_lane() == 0)
				sum = sum + f.sums[tile];
		}
	}
	return sum_of_threads(sum);
}

/* Which block adds up: one without a part in the halo, which goes on meanwhile. The daemon knows block 0 only. */
GGAS_FN uint32_t block_that_adds(const bench_gmpi_himeno &args)
{
	return args.way == BENCH_GMPI_DAEMON || args.pieces >= ggas_blocks() ? 0 : args.pieces;
}

/* By that block, when all blocks have left their sums. */
GGAS_FN int convergence(const bench_gmpi_himeno &args, gmpi_buf_t *buf)
{
	auto *sums = pointer<double>(args.sums);
	auto *parts = pointer<const double>(args.parts);
	double own = 0;
	for (uint32_t block = ggas_thread(); block < ggas_blocks(); block += ggas_threads())
		own = own + parts[block];
	own = sum_of_threads(own);
	if (ggas_thread() == 0)
		sums[0] = own;
	ggas_syncthreads();
	switch (args.way) {
	case BENCH_GMPI_DAEMON:
	case BENCH_GMPI_DIRECT:
		return GMPI_Allreduce(buf, sums, sums + 1, 1, MPI_DOUBLE, MPI_SUM, args.comm);
	default:
		return ggas_allreduce(pointer<ggas_group>(args.group), ggas_form::block, ggas_order::relaxed, sums, sums + 1, 1,
				      ggas_sum());
	}
}

/* All blocks of a node. */
class meeting {
public:
	GGAS_FN meeting(const bench_gmpi_himeno &args, const ggas_window &window)
		: window_(window), word_(pointer<uint64_t>(window.local + args.grid.flags)), came_(0)
	{
	}
	GGAS_FN int come()
	{
		ggas_part_tell_near(word_);
		came_ += ggas_blocks();
		return ggas_parts_wait(window_, ggas_thread() == 0 ? word_ : nullptr, came_, window_.node);
	}

private:
	const ggas_window &window_;
	uint64_t *word_;
	uint64_t came_;
};

GGAS_FN int halo(const bench_gmpi_himeno &args, const messages &all, const ggas_window &window, gmpi_buf_t *buf, meeting &blocks,
		 uint64_t next)
{
	if (args.way == BENCH_GMPI_DAEMON) {
		uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
		uint64_t threads = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
		pack_all(args, all, next, self, threads);
		int error = blocks.come();
		if (!error && ggas_block() == 0)
			error = halo_by_calls(args, all, buf, next);
		if (!error)
			error = blocks.come();
		if (!error)
			unpack_all(args, all, next, self, threads);
		return error;
	}
	if (ggas_block() >= args.pieces)
		return GGAS_OK;
	if (args.way == BENCH_GMPI_PUT)
		return halo_by_puts(args, all, window, next);
	return halo_by_calls(args, all, buf, next);
}

struct solver {
	const bench_gmpi_himeno &args;
	messages boundaries;
	ggas_window window;
	gmpi_buf_t *buf;
	himeno::cut cut;
	himeno::kept kept;

	GGAS_FN void compute(uint64_t iteration) const
	{
		himeno_field f = bench_himenos::fields(args.grid, iteration);
		uint32_t mine = ggas_block() < cut.units() ? (cut.units() - 1 - ggas_block()) / ggas_blocks() + 1 : 0;
		for (uint32_t i = 0; i < mine; i++) {
			/* Odd iterations begin with what is still in the cache. */
			uint32_t turn = iteration % 2 ? mine - 1 - i : i;
			himeno::unit u = cut.at(ggas_block() + turn * ggas_blocks());
			auto nothing = [](uint32_t) {};
			if (iteration % 2 == 0)
				himeno::walk<true>(f, u, kept, turn * cut.height(), {}, nothing);
			else
				himeno::walk<false>(f, u, kept, turn * cut.height(), {}, nothing);
		}
		double sum = sum_of_units(f, cut);
		if (ggas_thread() == 0)
			pointer<double>(args.parts)[ggas_block()] = sum;
	}

	/* Computation, halo, convergence; `times`: ticks of each. The last two go on at the same time. */
	GGAS_FN int iterate(meeting &blocks, uint64_t iteration, uint64_t *times) const
	{
		uint64_t before = ggas_ticks();
		auto mark = [&](uint32_t phase, uint32_t block) {
			uint64_t now = ggas_ticks();
			if (ggas_block() == block && ggas_thread() == 0)
				times[phase] = now - before;
			before = now;
		};
		compute(iteration);
		int error = blocks.come();
		mark(0, 0);
		if (!error)
			error = halo(args, boundaries, window, buf, blocks, iteration + 1);
		mark(1, 0);
		uint32_t adds = block_that_adds(args);
		if (!error && ggas_block() == adds)
			error = convergence(args, buf);
		mark(2, adds);
		return error ? error : blocks.come();
	}
};

} /* namespace bench_gmpi_himenos */

/* All iterations, by blocks that live for all of them. */
GGAS_KERNEL_BOUND(bench_gmpi_himeno_lasting, bench_gmpi_himeno, BENCH_HIMENO_LASTING)
{
	using namespace bench_gmpi_himenos;
	constexpr uint32_t quads = kept_bytes / sizeof(himeno::quad);
	GGAS_SHARED_ARRAY(himeno::quad, room, quads);
	const bench_himeno &grid = args.grid;
	bench_stopwatch watch(grid.timing);
	himeno_field f = bench_himenos::fields(grid, 0);
	himeno::cut cut(f, bench_himenos::has(grid.edge[0]) ? 1 : 2, bench_himenos::has(grid.edge[1]) ? grid.z + 1 : grid.z,
			grid.slabs);
	solver s = { args, messages(args), *pointer<const ggas_window>(grid.window), pointer<gmpi_buf_t>(args.buf), cut,
		     himeno::kept(room, quads, cut) };
	uint32_t number = 0;
	for (uint32_t unit = ggas_block(); unit < cut.units(); unit += ggas_blocks(), number += cut.height())
		himeno::keep(f, cut.at(unit), s.kept, number);
	meeting blocks(args, s.window);
	auto *state = pointer<bench_himeno_state>(grid.state);
	auto *phases = pointer<uint64_t>(args.phases);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	int error = GGAS_OK;
	for (uint64_t i = 0; i < watch.rounds() && !error; i++) {
		if (measures)
			watch.begin(i);
		error = s.iterate(blocks, i, phases + 3 * i);
		bench_himenos::note(state, error, i);
		if (measures && !error) {
			watch.end(i);
			ggas_store_relaxed(&state->iteration, i + 1);
		}
		if (!error && pointer<const double>(args.sums)[1] < args.tolerance)
			break;
	}
	if (measures)
		watch.stop(error);
}

/* Behind a kernel that made an iteration: boundaries to where the host sends them from, and the sum of residuals. */
GGAS_KERNEL_BOUND(bench_gmpi_himeno_pack, bench_gmpi_himeno, bench_himenos::most_threads)
{
	using namespace bench_gmpi_himenos;
	const bench_himeno &grid = args.grid;
	auto *state = pointer<bench_himeno_state>(grid.state);
	auto *parts = pointer<double>(args.parts);
	uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	uint64_t all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
	pack_all(args, messages(args), ggas_load_relaxed(&state->iteration), self, all);
	himeno_field f = bench_himenos::fields(grid, 0);
	uint32_t first = bench_himenos::has(grid.edge[0]) ? 1 : 2;
	uint32_t end = bench_himenos::has(grid.edge[1]) ? grid.z + 1 : grid.z;
	uint64_t of_row = static_cast<uint64_t>(f.tiles) * (f.lanes ? GGAS_WARP_SIZE : 1), of_plane = (f.y - 2) * of_row;
	double sum = 0;
	for (uint64_t i = self; i < (end - first) * of_plane; i += all)
		sum = sum + f.sums[(first + i / of_plane) * f.y * of_row + of_row + i % of_plane];
	sum = sum_of_threads(sum);
	if (ggas_thread() == 0)
		parts[ggas_block()] = sum;
	if (!ggas_last_block(state->sent))
		return;
	sum = 0;
	for (uint32_t block = ggas_thread(); block < ggas_blocks(); block += ggas_threads())
		sum = sum + parts[block];
	sum = sum_of_threads(sum);
	if (ggas_thread() == 0)
		*pointer<double>(args.sums) = sum;
}

/* In front of the next one: what came. */
GGAS_KERNEL_BOUND(bench_gmpi_himeno_unpack, bench_gmpi_himeno, bench_himenos::most_threads)
{
	using namespace bench_gmpi_himenos;
	uint64_t next = ggas_load_relaxed(&pointer<bench_himeno_state>(args.grid.state)->iteration);
	unpack_all(args, messages(args), next, static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(),
		   static_cast<uint64_t>(ggas_blocks()) * ggas_threads());
}
