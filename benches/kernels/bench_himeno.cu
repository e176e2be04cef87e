// SPDX-License-Identifier: MIT OR Apache-2.0
// himeno (thesis 4.5, 5.8, 6.9.1): the kernels of forms whose kernels end with an iteration. himeno.cuh computes.
#include "bench_himeno.cuh"

namespace bench_himenos
{

/* Items of a plane: the warps of a block take tiles of rows as they lie in memory. */
GGAS_FN uint32_t items_of_plane(const himeno_field &f)
{
	return ((f.y - 2) * f.tiles + ggas_warps() - 1) / ggas_warps();
}

/* Planes that neighbours need. A node with neighbours has two planes or more. */
GGAS_FN uint32_t boundary_planes(const bench_himeno &args)
{
	return (has(args.edge[0]) ? 1u : 0u) + (has(args.edge[1]) ? 1u : 0u);
}

/* Items of an iteration: those of the boundary come first. */
struct items {
	uint32_t boundary, interior;
};

/* One of them. The interior goes up in even iterations and down in odd ones, so that each begins with what the one before
 * has left in the cache. */
GGAS_FN void compute(const bench_himeno &args, const ggas_window &window, const himeno_field &f, const items &all,
		     uint64_t iteration, uint32_t item)
{
	uint32_t each = items_of_plane(f), place, z;
	float *remote = nullptr;
	if (item < all.boundary) {
		const bench_himeno_edge &edge = item < each && has(args.edge[0]) ? args.edge[0] : args.edge[1];
		z = static_cast<uint32_t>(edge.plane);
		place = item % each;
		if (args.what & BENCH_HIMENO_STORE)
			remote = place_at(edge, window, iteration + 1);
	} else {
		item -= all.boundary;
		if (iteration & 1)
			item = all.interior - 1 - item;
		z = 2 + item / each;
		place = item % each;
	}
	uint32_t tile = place * ggas_warps() + ggas_warp();
	if (tile < (f.y - 2) * f.tiles)
		himeno::march(f, tile % f.tiles, 1 + tile / f.tiles, z, z + 1, remote);
}

/* Waits for the planes of both neighbours that iteration `iteration` reads; those of the first are there from the start. */
GGAS_FN int wait_for_neighbours(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	int error = GGAS_OK;
	for (uint32_t side = 0; side < 2; side++)
		if (iteration && has(args.edge[side]) && !error)
			error = ggas_edge_wait<ggas_scope::block>(window, edge_of(args, side, iteration), iteration);
	return error;
}

/* By one block: what iteration `iteration` - 1 wrote. */
GGAS_FN int send(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	int error = GGAS_OK;
	for (uint32_t side = 0; side < 2; side++)
		if (has(args.edge[side]) && !error)
			error = ggas_edge_send<ggas_scope::block>(window, edge_of(args, side, iteration), iteration);
	return error;
}

/* Tells the neighbours that all of the boundary is at their place; by one thread of the last block that stored it. */
GGAS_FN void tell(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	for (uint32_t side = 0; side < 2; side++)
		if (has(args.edge[side]))
			ggas_flag_set(ggas_pointer_of_node<uint64_t>(&window, args.edge[side].node, args.edge[side].signal),
				      iteration);
}

/* A block has done its part of the boundary: the last one sends it, or tells the neighbours that it is there. */
GGAS_FN int boundary_done(const bench_himeno &args, const ggas_window &window, bench_himeno_state *state,
			  uint32_t boundary, uint64_t iteration)
{
	if (!ggas_last_block(&state->boundary, ggas_blocks_of_boundary(boundary)))
		return GGAS_OK;
	if (args.what & BENCH_HIMENO_SEND)
		return send(args, window, iteration + 1);
	if (ggas_thread() == 0)
		tell(args, window, iteration + 1);
	return GGAS_OK;
}

GGAS_FN items items_of(const bench_himeno &args)
{
	uint32_t each = items_of_plane(fields(args, 0));
	return { args.what & BENCH_HIMENO_BOUNDARY ? boundary_planes(args) * each : 0,
		 args.what & BENCH_HIMENO_INTERIOR && args.z > 2 ? (args.z - 2) * each : 0 };
}

/* This block's part of an iteration, and what the form does around it. After a failure neighbours wait in vain, and say so. */
GGAS_FN int iterate(const bench_himeno &args, const ggas_window &window, bench_himeno_state *state, const items &all,
		    uint64_t iteration)
{
	himeno_field f = fields(args, iteration);
	uint32_t item = ggas_block();
	bool has_part = item < all.boundary;
	bool says = has_part && args.what & (BENCH_HIMENO_SEND | BENCH_HIMENO_STORE);
	if (has_part && args.what & BENCH_HIMENO_WAIT)
		if (int error = wait_for_neighbours(args, window, iteration))
			return error;
	for (;; item += ggas_blocks()) {
		bool more = item < all.boundary + all.interior;
		if (says && (!more || item >= all.boundary)) {
			says = false;
			if (int error = boundary_done(args, window, state, all.boundary, iteration))
				return error;
		}
		if (!more)
			return GGAS_OK;
		compute(args, window, f, all, iteration, item);
	}
}

/* So many iterations have ended: the next kernel begins the one behind them. */
GGAS_FN void advance(bench_himeno_state *state, uint64_t ended)
{
	if (ggas_thread() == 0 && !ggas_load_relaxed(&state->status))
		ggas_store_relaxed(&state->iteration, ggas_load_relaxed(&state->iteration) + ended);
}

GGAS_FN float unit(uint64_t seed, uint64_t index)
{
	uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return himeno::multiply(static_cast<float>(z >> 40), 1.0f / 16777216.0f);
}

/* Value `which` of a point: 0 to 11 the coefficients, 12 the field. */
GGAS_FN float value(const bench_himeno &args, uint32_t which, uint32_t x, uint32_t y, uint32_t z)
{
	if (args.seed) {
		/* About the benchmark's, but all different. */
		float base = which < 3 ? 0.9f : which == 3 ? 0.15f : which < 7 ? -0.05f : which < 10 ? 0.9f : 0.0f;
		float span = which < 3 ? 0.2f : which == 3 ? 0.02f : which < 7 ? 0.1f : which < 10 ? 0.2f : 1.0f;
		uint64_t point = (static_cast<uint64_t>(z) * args.whole[1] + y) * args.whole[0] + x;
		return himeno::add(base, himeno::multiply(span, unit(args.seed, point * 16 + which)));
	}
	if (which == 12) {
		uint64_t last = args.whole[2] - 1;
		return static_cast<float>(static_cast<uint64_t>(z) * z) / static_cast<float>(last * last);
	}
	return which == 3 ? 1.0f / 6.0f : which < 3 || (which >= 7 && which <= 10) ? 1.0f : 0.0f;
}

} /* namespace bench_himenos */

/* All points, those of the neighbours too. */
GGAS_KERNEL(bench_himeno_fill, bench_himeno)
{
	using namespace bench_himenos;
	uint64_t array = (args.z + 2) * plane_floats(args), all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
	for (uint64_t i = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(); i < array; i += all) {
		/* What is at the end of a row is the point before the next one. */
		bool before = args.first[0] != 0 && i % args.pitch == args.pitch - 1;
		uint64_t row = (before ? i + 1 : i) / args.pitch;
		uint32_t x = args.first[0] + (before ? ~0u : static_cast<uint32_t>(i % args.pitch));
		uint32_t y = static_cast<uint32_t>(row % args.rows) + args.first[1];
		uint32_t z = static_cast<uint32_t>(row / args.rows) + args.first[2] - 1;
		bool point = x < args.whole[0] && y < args.whole[1] && z < args.whole[2];
		for (uint32_t which = 0; which < 12; which++)
			pointer<float>(args.coefficients)[which * array + i] = point ? value(args, which, x, y, z) : 0.0f;
		float p = point ? value(args, 12, x, y, z) : 0.0f;
		field(args, 0)[i] = p;
		field(args, 1)[i] = p;
	}
}

/* A part of an iteration. */
GGAS_KERNEL_BOUND(bench_himeno_step, bench_himeno, bench_himenos::most_threads)
{
	using namespace bench_himenos;
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *state = pointer<bench_himeno_state>(args.state);
	items all = items_of(args);
	bool talks = ggas_block() < all.boundary &&
		     args.what & (BENCH_HIMENO_WAIT | BENCH_HIMENO_SEND | BENCH_HIMENO_STORE);
	uint64_t iteration = args.offset;
	/* A block that loads this first takes 2 us longer. */
	if (talks || !(args.what & BENCH_HIMENO_EVEN)) {
		iteration += ggas_load_relaxed(&state->iteration);
		/* Behind a failure nobody waits or sends any more, so that the rest of a graph ends soon. */
		if (ggas_load_relaxed(&state->status))
			return;
	}
	note(state, iterate(args, window, state, all, iteration), iteration);
	if (args.what & BENCH_HIMENO_ADVANCE && ggas_last_block(&state->finished))
		advance(state, args.offset + 1);
}

/* Sends the boundary; with WAIT it waits for the neighbours' and, with ADVANCE, ends the iteration. Only its last block waits:
 * the others have sent their share, also where they do not all live at once. */
GGAS_KERNEL_BOUND(bench_himeno_exchange, bench_himeno, bench_himenos::most_threads)
{
	using namespace bench_himenos;
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *state = pointer<bench_himeno_state>(args.state);
	uint64_t next = ggas_load_relaxed(&state->iteration) + 1;
	if (ggas_load_relaxed(&state->status))
		return;
	int error = GGAS_OK;
	for (uint32_t side = 0; side < 2; side++)
		if (args.what & BENCH_HIMENO_SEND && has(args.edge[side]) && !error)
			error = ggas_edge_send_grid(window, edge_of(args, side, next), next, state->sent + side);
	note(state, error, next - 1);
	if (!(args.what & BENCH_HIMENO_WAIT) || !ggas_last_block(&state->finished))
		return;
	if (!error)
		error = wait_for_neighbours(args, window, next);
	note(state, error, next - 1);
	if (args.what & BENCH_HIMENO_ADVANCE)
		advance(state, 1);
}
