// SPDX-License-Identifier: MIT OR Apache-2.0
// himeno (thesis 4.5, 5.8, 6.9.1): the kernels of all forms. himeno.cuh computes.
#include "bench.cuh"
#include "ggas/blocks.cuh"
#include "ggas/coll.cuh"

#include "bench.h"
#include "himeno.cuh"

namespace bench_himenos
{

/* Most threads of a block; a bound of 512 keeps two blocks of 256 on a multiprocessor. */
constexpr uint32_t most_threads = 512;

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

GGAS_FN uint64_t plane_floats(const bench_himeno &args)
{
	return static_cast<uint64_t>(args.y) * args.pitch;
}

GGAS_FN float *field(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	return pointer<float>(window.local + (iteration & 1 ? args.field[1] : args.field[0]));
}

GGAS_FN himeno_field fields(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	himeno_field f;
	f.in = field(args, window, iteration);
	f.out = field(args, window, iteration + 1);
	f.coefficients = pointer<const float>(args.coefficients);
	f.sums = pointer<double>(args.sums);
	f.plane = plane_floats(args);
	f.array = (args.z + 2) * f.plane;
	f.x = args.x;
	f.y = args.y;
	f.pitch = args.pitch;
	f.tiles = (args.x + HIMENO_TILE - 1) / HIMENO_TILE;
	return f;
}

/* Items of a plane: the warps of a block take tiles of rows as they lie in memory. */
GGAS_FN uint32_t items_of_plane(const himeno_field &f)
{
	return ((f.y - 2) * f.tiles + ggas_warps() - 1) / ggas_warps();
}

GGAS_FN bool has(const bench_himeno_edge &edge)
{
	return edge.node != ~0u;
}

/* Planes that neighbours need. A node with neighbours has two planes or more. */
GGAS_FN uint32_t boundary_planes(const bench_himeno &args)
{
	return (has(args.edge[0]) ? 1u : 0u) + (has(args.edge[1]) ? 1u : 0u);
}

/* Where a neighbour has this node's boundary. */
GGAS_FN float *place_at(const bench_himeno_edge &edge, const ggas_window &window, uint64_t iteration)
{
	return ggas_pointer_of_node<float>(&window, edge.node, iteration & 1 ? edge.to[1] : edge.to[0]);
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

GGAS_FN ggas_edge edge_of(const bench_himeno &args, const ggas_window &window, uint32_t side, uint64_t iteration)
{
	const bench_himeno_edge &edge = args.edge[side];
	uint64_t bytes = plane_floats(args) * sizeof(float);
	uint64_t from = reinterpret_cast<uint64_t>(field(args, window, iteration)) + edge.plane * bytes;
	return { edge.node, iteration & 1 ? edge.to[1] : edge.to[0], from, bytes, edge.signal, edge.seen };
}

/* Waits for the planes of both neighbours that iteration `iteration` reads; those of the first are there from the start. */
GGAS_FN int wait_for_neighbours(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	int error = GGAS_OK;
	for (uint32_t side = 0; side < 2; side++)
		if (iteration && has(args.edge[side]) && !error)
			error = ggas_edge_wait<ggas_scope::block>(window, edge_of(args, window, side, iteration), iteration);
	return error;
}

/* By one block: what iteration `iteration` - 1 wrote. */
GGAS_FN int send(const bench_himeno &args, const ggas_window &window, uint64_t iteration)
{
	int error = GGAS_OK;
	for (uint32_t side = 0; side < 2; side++)
		if (has(args.edge[side]) && !error)
			error = ggas_edge_send<ggas_scope::block>(window, edge_of(args, window, side, iteration), iteration);
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

/* The first failure of a node stays, and in which iteration it was. */
GGAS_FN void note(bench_himeno_state *state, int error, uint64_t iteration)
{
	if (!error || ggas_thread() != 0)
		return;
	if (ggas_atomic_cas(&state->status, uint64_t(0), static_cast<uint64_t>(error), ggas_order::relaxed) == 0)
		ggas_store_relaxed(&state->iteration, iteration);
	/* A graph's loop makes no further round. */
	ggas_store_relaxed(&state->left, uint64_t(1));
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

/* This block's part of an iteration, and what the form does around it. After a failure neighbours wait in vain, and say so. */
GGAS_FN int iterate(const bench_himeno &args, const ggas_window &window, bench_himeno_state *state, uint64_t iteration)
{
	himeno_field f = fields(args, window, iteration);
	uint32_t each = items_of_plane(f);
	items all = { args.what & BENCH_HIMENO_BOUNDARY ? boundary_planes(args) * each : 0,
		      args.what & BENCH_HIMENO_INTERIOR && args.z > 2 ? (args.z - 2) * each : 0 };
	uint32_t item = ggas_block();
	bool has_part = item < all.boundary;
	bool says = has_part && args.what & (BENCH_HIMENO_SEND | BENCH_HIMENO_STORE) && !(args.what & BENCH_HIMENO_MEET);
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

/* The iteration has ended: the next kernel begins the next one. */
GGAS_FN void advance(bench_himeno_state *state, uint64_t iteration)
{
	if (ggas_thread() == 0 && !ggas_load_relaxed(&state->status))
		ggas_store_relaxed(&state->iteration, iteration + 1);
}

GGAS_FN int rounds(const bench_himeno &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *group = pointer<ggas_group>(args.group);
	auto *state = pointer<bench_himeno_state>(args.state);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (measures)
			watch.begin(i);
		int error = iterate(args, window, state, i);
		note(state, error, i);
		/* Who failed does not come to the meeting, but poisons it. */
		ggas_impl::grid_team team(group);
		if (args.what & BENCH_HIMENO_MEET)
			error = error ? team.meet(error, __LINE__) :
					ggas_barrier_grid(group, ggas_order::release_acquire);
		else
			error = team.meet(error ? error : ggas_impl::poisoned_before(group), __LINE__);
		if (error) {
			note(state, error, i);
			return error;
		}
		if (measures) {
			watch.end(i);
			ggas_store_relaxed(&state->iteration, i + 1);
		}
	}
	return GGAS_OK;
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
		uint64_t point = (static_cast<uint64_t>(z) * args.y + y) * args.x + x;
		return himeno::add(base, himeno::multiply(span, unit(args.seed, point * 16 + which)));
	}
	if (which == 12) {
		uint64_t last = args.whole_z - 1;
		return static_cast<float>(static_cast<uint64_t>(z) * z) / static_cast<float>(last * last);
	}
	return which == 3 ? 1.0f / 6.0f : which < 3 || (which >= 7 && which <= 10) ? 1.0f : 0.0f;
}

} /* namespace bench_himenos */

/* All points, those of the neighbours' planes too. */
GGAS_KERNEL(bench_himeno_fill, bench_himeno)
{
	using namespace bench_himenos;
	ggas_window window = *pointer<const ggas_window>(args.window);
	uint64_t array = (args.z + 2) * plane_floats(args), all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
	for (uint64_t i = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(); i < array; i += all) {
		uint32_t x = static_cast<uint32_t>(i % args.pitch), y = static_cast<uint32_t>(i / args.pitch % args.y);
		uint32_t z = static_cast<uint32_t>(i / plane_floats(args)) + args.first_z - 1;
		bool point = x < args.x && z < args.whole_z;
		for (uint32_t which = 0; which < 12; which++)
			pointer<float>(args.coefficients)[which * array + i] = point ? value(args, which, x, y, z) : 0.0f;
		float p = point ? value(args, 12, x, y, z) : 0.0f;
		field(args, window, 0)[i] = p;
		field(args, window, 1)[i] = p;
	}
}

/* A part of an iteration. */
GGAS_KERNEL_BOUND(bench_himeno_step, bench_himeno, bench_himenos::most_threads)
{
	using namespace bench_himenos;
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *state = pointer<bench_himeno_state>(args.state);
	uint64_t iteration = ggas_load_relaxed(&state->iteration) + args.offset;
	/* Behind a failure nothing happens any more, so that the rest of a graph ends at once. */
	if (ggas_load_relaxed(&state->status))
		return;
	note(state, iterate(args, window, state, iteration), iteration);
	if (args.what & BENCH_HIMENO_ADVANCE && ggas_last_block(&state->finished))
		advance(state, iteration);
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
			error = ggas_edge_send_grid(window, edge_of(args, window, side, next), next, state->sent + side);
	note(state, error, next - 1);
	if (!(args.what & BENCH_HIMENO_WAIT) || !ggas_last_block(&state->finished))
		return;
	if (!error)
		error = wait_for_neighbours(args, window, next);
	note(state, error, next - 1);
	if (args.what & BENCH_HIMENO_ADVANCE)
		advance(state, next - 1);
}

/* All iterations, by blocks that live for all of them. */
GGAS_KERNEL_BOUND(bench_himeno_persistent, bench_himeno, bench_himenos::most_threads)
{
	bench_stopwatch watch(args.timing);
	int status = bench_himenos::rounds(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

namespace bench_himenos
{

/* Blocks of this node and of its neighbours meet: the last block here tells the neighbours and its own. */
GGAS_FN int meet_neighbours(const bench_himeno &args, const ggas_window &window, bench_himeno_state *state, uint64_t round)
{
	auto *met = pointer<uint64_t>(window.local + BENCH_HIMENO_MET);
	int error = GGAS_OK;
	if (ggas_last_block(&state->boundary) && ggas_thread() == 0) {
		tell(args, window, round);
		ggas_flag_set(met, round);
	}
	if (ggas_thread() < 3) {
		uint32_t side = ggas_thread();
		if (side == 2)
			error = ggas_flag_wait(&window, met, round);
		else if (has(args.edge[side]))
			error = ggas_flag_wait(&window, pointer<uint64_t>(window.local + args.edge[side].seen), round,
					       args.edge[side].node);
	}
	return ggas_block_status(error);
}

} // namespace bench_himenos

/* Boundaries and a meeting, without a computation: every block stores its share at the neighbours, then all nodes meet, or
 * each with its neighbours. */
GGAS_KERNEL_BOUND(bench_himeno_boundary, bench_himeno, bench_himenos::most_threads)
{
	using namespace bench_himenos;
	bench_stopwatch watch(args.timing);
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *state = pointer<bench_himeno_state>(args.state);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	int error = GGAS_OK;
	for (uint64_t i = 0; i < watch.rounds() && !error; i++) {
		if (measures)
			watch.begin(i);
		for (uint32_t side = 0; side < 2; side++)
			if (has(args.edge[side]) && !error) {
				ggas_edge edge = edge_of(args, window, side, i + 1);
				error = ggas_put_grid(&window, edge.node, edge.to,
						      reinterpret_cast<const void *>(edge.from), edge.bytes);
			}
		if (!error && args.what & BENCH_HIMENO_MEET)
			error = ggas_barrier_grid(pointer<ggas_group>(args.group), ggas_order::release_acquire);
		else if (!error)
			error = meet_neighbours(args, window, state, i + 1);
		note(state, error, i);
		if (measures && !error) {
			watch.end(i);
			ggas_store_relaxed(&state->iteration, i + 1);
		}
	}
	if (measures)
		watch.stop(error);
}
