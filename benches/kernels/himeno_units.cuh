/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The computation of himeno.cuh by blocks that live for all iterations. Each block has the same part of a node's planes in all
 * of them, in units: as many tiles beside each other as it has warps, in some planes. So it can keep a part of its
 * coefficients, which never change, in shared memory: what is kept is not read from memory again.
 */
#ifndef GGAS_HIMENO_UNITS_CUH
#define GGAS_HIMENO_UNITS_CUH

#include "himeno.cuh"

namespace himeno
{

struct unit {
	uint32_t group, slab;
	uint32_t begin, end;	/* planes */
};

/* How the planes [first, end) are cut into units for a grid. */
struct cut {
	uint32_t first, end;
	uint32_t groups;	/* units of a plane */
	uint32_t slabs;		/* units above each other */
	uint32_t reach;		/* groups on either side whose points a unit reads */

	GGAS_FN cut(const himeno_field &f, uint32_t first, uint32_t end, uint32_t wanted) : first(first), end(end)
	{
		uint32_t warps = ggas_warps(), planes = end - first;
		groups = ((f.y - 2) * f.tiles + warps - 1) / warps;
		reach = (f.tiles + warps) / warps;
		slabs = wanted < planes ? wanted : planes;
	}
	GGAS_FN uint32_t units() const { return groups * slabs; }
	/* Most units of a block, and most planes of a unit. */
	GGAS_FN uint32_t rounds() const { return (units() + ggas_blocks() - 1) / ggas_blocks(); }
	GGAS_FN uint32_t height() const { return (end - first + slabs - 1) / slabs; }

	GGAS_FN unit at(uint32_t number) const
	{
		uint32_t slab = number / groups, planes = end - first;
		return { number % groups, slab, first + planes * slab / slabs, first + planes * (slab + 1) / slabs };
	}
};

/* The coefficients that a warp keeps in `quads` of shared memory of its block: of each plane's the first few, as many as there is
 * room for in all planes of the block. */
class kept {
public:
	GGAS_FN kept(quad *room, uint32_t quads, const cut &c)
	{
		uint32_t planes = c.rounds() * c.height(), places = quads / GGAS_WARP_SIZE / ggas_warps();
		each_ = planes && places / planes < 12 ? places / planes : 12;
		more_ = each_ < 12 && planes ? places - each_ * planes : 0;
		room_ = room + ggas_warp() * places * GGAS_WARP_SIZE + ggas_lane();
	}
	/* How many are kept of the block's plane of this number, and the first of them. */
	GGAS_FN uint32_t count(uint32_t plane) const { return each_ + (plane < more_ ? 1 : 0); }
	GGAS_FN quad *place(uint32_t plane) const
	{
		return room_ + (plane * each_ + (plane < more_ ? plane : more_)) * GGAS_WARP_SIZE;
	}

private:
	quad *room_;
	uint32_t each_, more_;
};

/* A warp's tile in a unit, if it has one: the last group may have fewer. */
struct tile_of_warp {
	uint32_t number;
	bool has;
	strip s;

	GGAS_FN tile_of_warp(const himeno_field &f, const unit &u)
		: number(u.group * ggas_warps() + ggas_warp()), has(number < (f.y - 2) * f.tiles),
		  s(f, number % f.tiles, 1 + number / f.tiles)
	{
	}
};

/* Fills what a warp keeps of a unit; `number`: that of the unit's first plane in the block. */
GGAS_FN void keep(const himeno_field &f, const unit &u, const kept &k, uint32_t number)
{
	tile_of_warp t(f, u);
	for (uint32_t z = u.begin; t.has && t.s.has && z < u.end; z++, number++)
		for (uint32_t i = 0; i < k.count(number); i++)
			k.place(number)[i * GGAS_WARP_SIZE] = load_coefficient<1>(f, t.s, z * f.plane, i);
}

/* A thread's coefficients of the block's plane of this number. */
GGAS_FN coefficients load_coefficients(const himeno_field &f, const strip &s, uint64_t plane, const kept &k, uint32_t number)
{
	coefficients c = {};
	const quad *place = k.place(number);
	uint32_t count = k.count(number);
	if (s.has) {
		GGAS_UNROLL
		for (uint32_t i = 0; i < 12; i++)
			c.at[i] = i < count ? place[i * GGAS_WARP_SIZE] : load_coefficient<1>(f, s, plane, i);
	}
	return c;
}

/* Where the neighbours below and above have the first and the last plane of a unit, or 0. */
struct neighbours {
	float *at[2];
};

/*
 * An iteration of a unit, its planes from the first one up, or from the last one down; `number`: that of the unit's first plane
 * in the block. By all threads of the block: `stored(side)` is called when a plane that a neighbour has, too, is stored.
 */
template <bool Up, class Stored>
GGAS_FN void walk(const himeno_field &f, const unit &u, const kept &k, uint32_t number, const neighbours &to,
		  const Stored &stored)
{
	tile_of_warp t(f, u);
	int64_t step = Up ? static_cast<int64_t>(f.plane) : -static_cast<int64_t>(f.plane);
	uint32_t z = Up ? u.begin : u.end - 1;
	const float *in = f.in + z * f.plane;
	rows behind = {}, mid = {};
	if (t.has) {
		behind = load_rows(f, t.s, in - step);
		mid = load_rows(f, t.s, in);
	}
	GGAS_NO_UNROLL
	for (uint32_t left = u.end - u.begin; left; left--) {
		uint32_t side = z == u.begin && to.at[0] ? 0 : 1;
		float *remote = side == 0 ? to.at[0] : z + 1 == u.end ? to.at[1] : nullptr;
		in += step;
		if (t.has) {
			coefficients c = load_coefficients(f, t.s, z * f.plane, k, number + z - u.begin);
			rows ahead = load_rows(f, t.s, in);
			relax(f, t.s, z, around(Up ? ahead : behind, mid, Up ? behind : ahead), c, remote);
			behind = mid;
			mid = ahead;
		}
		if (remote)
			stored(side);
		z += Up ? 1 : ~0u;
	}
}

} /* namespace himeno */

#endif /* GGAS_HIMENO_UNITS_CUH */
