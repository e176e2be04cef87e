// SPDX-License-Identifier: MIT OR Apache-2.0
// himeno (thesis 5.8, 6.9.1): the kernels whose blocks live for all iterations. himeno_units.cuh computes.
#include "bench_himeno_sides.cuh"
#include "himeno_units.cuh"

namespace bench_himenos
{

/* Flags in a node's part of the window: of parts of the neighbours below and above, of nodes that meet, and of units here. */
GGAS_FN uint64_t flags_of_side(const bench_himeno &args, uint32_t side)
{
	return args.flags + side * args.places * sizeof(uint64_t);
}
GGAS_FN uint64_t flags_of_all(const bench_himeno &args)
{
	return flags_of_side(args, 2);
}
GGAS_FN uint64_t flags_of_units(const bench_himeno &args, const ggas_window &window)
{
	return flags_of_all(args) + ggas_meeting_bytes(window.nodes, ggas_blocks());
}

/* This node's flag at a neighbour. */
GGAS_FN uint64_t *flag_there(const bench_himeno &args, const ggas_window &window, uint32_t side, uint32_t part)
{
	return ggas_pointer_of_node<uint64_t>(&window, args.edge[side].node,
					      flags_of_side(args, 1 - side) + part * sizeof(uint64_t));
}

/* A unit of this node and what is beside it. */
struct unit_place {
	const bench_himeno &args;
	const ggas_window &window;
	const himeno::cut &cut;
	himeno::unit unit;

	/* Whether it has the plane that the neighbour below or above needs. */
	GGAS_FN bool is_at(uint32_t side) const
	{
		return has(args.edge[side]) && unit.slab == (side == 0 ? 0 : cut.slabs - 1);
	}

	/* The flag of unit `number` of all whose points this one reads: in three slabs here, then at the neighbours; or 0. */
	GGAS_FN const uint64_t *flag(uint32_t number, uint32_t &peer) const
	{
		uint32_t span = 2 * cut.reach + 1, row = number / span, side = row - 3;
		uint32_t group = unit.group - cut.reach + number % span, slab = unit.slab - 1 + row;
		if (group >= cut.groups || row >= 5)
			return nullptr;
		uint64_t at = flags_of_units(args, window) + (static_cast<uint64_t>(slab) * cut.groups + group) * sizeof(uint64_t);
		peer = window.node;
		if (row >= 3) {
			if (!is_at(side))
				return nullptr;
			at = flags_of_side(args, side) + group * sizeof(uint64_t);
			peer = args.edge[side].node;
		} else if (slab >= cut.slabs) {
			return nullptr;
		}
		return reinterpret_cast<const uint64_t *>(window.local + at);
	}

	GGAS_FN int wait(uint64_t iteration) const
	{
		uint32_t all = 5 * (2 * cut.reach + 1);
		int error = GGAS_OK;
		for (uint32_t first = 0; first < all && !error; first += ggas_threads()) {
			uint32_t peer = window.node;
			const uint64_t *awaited = flag(first + ggas_thread(), peer);
			error = ggas_parts_wait(window, awaited, iteration, peer);
		}
		return error;
	}

	/* One more iteration has ended, for the blocks of this node. */
	GGAS_FN void tell_own() const
	{
		uint64_t at = flags_of_units(args, window) +
			      (static_cast<uint64_t>(unit.slab) * cut.groups + unit.group) * sizeof(uint64_t);
		ggas_part_tell_near(reinterpret_cast<uint64_t *>(window.local + at));
	}
};

/* The calling thread's points of a unit that neighbours need, to where they read them: what it has just stored here. */
GGAS_FN void store_at_sides(const unit_place &p, const himeno_field &f, uint64_t iteration)
{
	himeno::tile_of_warp t(f, p.unit);
	for (uint32_t i = 0; t.has && i < p.args.sides; i++) {
		const bench_himeno_side &side = side_of(p.args, i);
		/* The first point of a box is in this node's points: never the one before a row. */
		uint32_t first = static_cast<uint32_t>(side.from % static_cast<int64_t>(f.plane));
		uint32_t low = static_cast<uint32_t>(side.from / static_cast<int64_t>(f.plane)), high = low + side.extent[2];
		uint32_t y = first / f.pitch, x = first % f.pitch;
		if (t.s.y < y || t.s.y >= y + side.extent[1])
			continue;
		uint64_t field = iteration & 1 ? p.args.field[1] : p.args.field[0];
		float *there = ggas_pointer_of_node<float>(&p.window, side.node, field) + (side.to - side.from);
		for (uint32_t z = low > p.unit.begin ? low : p.unit.begin; z < high && z < p.unit.end; z++)
			for (uint32_t k = t.s.x; k < t.s.x + HIMENO_POINTS; k++)
				if (k >= x && k < x + side.extent[0]) {
					uint64_t at = z * f.plane + t.s.in_plane + (k - t.s.x);
					ggas_write(there + at, f.out[at]);
				}
	}
}

/* An iteration of a unit. The plane that a neighbour waits for comes first. */
GGAS_FN void iterate(const unit_place &p, const himeno::kept &kept, uint32_t number, uint64_t iteration)
{
	const bench_himeno &args = p.args;
	himeno_field f = fields(args, iteration);
	himeno::neighbours to = {};
	for (uint32_t side = 0; side < 2; side++)
		if (p.is_at(side) && !args.sides)
			to.at[side] = place_at(args.edge[side], p.window, iteration + 1);
	auto stored = [&](uint32_t side) {
		if (args.what & BENCH_HIMENO_WAIT)
			ggas_part_tell(flag_there(args, p.window, side, p.unit.group), iteration + 1);
	};
	if (p.is_at(0) || (!p.is_at(1) && iteration % 2 == 0))
		himeno::walk<true>(f, p.unit, kept, number, to, stored);
	else
		himeno::walk<false>(f, p.unit, kept, number, to, stored);
	if (args.sides)
		store_at_sides(p, f, iteration + 1);
}

/* This block's units. With WAIT each waits for those beside it, here and at neighbours; else all blocks of all nodes meet. */
GGAS_FN int iterate_all(const bench_himeno &args, const ggas_window &window, const himeno::cut &cut,
			const himeno::kept &kept, uint64_t iteration)
{
	bool waits = args.what & BENCH_HIMENO_WAIT;
	uint32_t mine = ggas_block() < cut.units() ? (cut.units() - 1 - ggas_block()) / ggas_blocks() + 1 : 0;
	for (uint32_t i = 0; i < mine; i++) {
		/* Odd iterations begin with what is still in the cache. */
		uint32_t turn = iteration % 2 ? mine - 1 - i : i;
		uint32_t unit = ggas_block() + turn * ggas_blocks(), number = turn * cut.height();
		unit_place p = { args, window, cut, cut.at(unit) };
		if (waits)
			if (int error = p.wait(iteration))
				return error;
		iterate(p, kept, number, iteration);
		if (waits)
			p.tell_own();
	}
	return waits ? GGAS_OK : ggas_meet_all(window, flags_of_all(args), iteration + 1);
}

GGAS_FN int rounds(const bench_himeno &args, bench_stopwatch &watch)
{
	constexpr uint32_t quads = BENCH_HIMENO_KEPT / sizeof(himeno::quad);
	GGAS_SHARED_ARRAY(himeno::quad, room, quads);
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *state = pointer<bench_himeno_state>(args.state);
	himeno_field f = fields(args, 0);
	himeno::cut cut(f, has(args.edge[0]) ? 1 : 2, has(args.edge[1]) ? args.z + 1 : args.z, args.slabs);
	himeno::kept kept(room, quads, cut);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	uint32_t number = 0;
	for (uint32_t unit = ggas_block(); unit < cut.units(); unit += ggas_blocks(), number += cut.height())
		himeno::keep(f, cut.at(unit), kept, number);
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (measures)
			watch.begin(i);
		if (int error = iterate_all(args, window, cut, kept, i)) {
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

/* Every block puts its share of the boundary to the neighbours; then all blocks meet, or each waits for the shares beside
 * its own. */
GGAS_FN int exchange(const bench_himeno &args, const ggas_window &window, uint64_t round)
{
	bool meets = args.what & BENCH_HIMENO_MEET;
	uint32_t block = ggas_block();
	int error = GGAS_OK;
	for (uint32_t side = 0; side < 2 && !error; side++) {
		if (!has(args.edge[side]))
			continue;
		ggas_edge edge = edge_of(args, side, round);
		ggas_impl::put_share share = ggas_impl::share_of_block(edge.bytes, 128);
		auto *from = pointer<const void>(edge.from + share.offset);
		uint64_t flag = flags_of_side(args, 1 - side) + block * sizeof(uint64_t);
		error = meets ? ggas_put_block(&window, edge.node, edge.to + share.offset, from, share.bytes) :
				ggas_put_signal_block(&window, edge.node, edge.to + share.offset, from, share.bytes, flag,
						      round);
	}
	if (error)
		return ggas_block_status(error);
	if (meets)
		return ggas_meet_all(window, flags_of_all(args), round);
	uint32_t side = ggas_thread() / 3, part = block - 1 + ggas_thread() % 3;
	bool waits = side < 2 && part < ggas_blocks() && has(args.edge[side % 2]);
	uint64_t at = window.local + flags_of_side(args, side) + part * sizeof(uint64_t);
	return ggas_parts_wait(window, waits ? pointer<const uint64_t>(at) : nullptr, round, args.edge[side % 2].node);
}

} /* namespace bench_himenos */

/* All iterations, by blocks that live for all of them. */
GGAS_KERNEL_BOUND(bench_himeno_persistent, bench_himeno, BENCH_HIMENO_LASTING)
{
	bench_stopwatch watch(args.timing);
	int status = bench_himenos::rounds(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

/* Boundaries and a meeting, without a computation. */
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
		error = exchange(args, window, i + 1);
		note(state, error, i);
		if (measures && !error) {
			watch.end(i);
			ggas_store_relaxed(&state->iteration, i + 1);
		}
	}
	if (measures)
		watch.stop(error);
}
