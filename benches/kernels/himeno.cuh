/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The computation of the Himeno benchmark (RIKEN): one Jacobi iteration of a 19-point stencil in float, as its C program
 * writes it, term by term. Each product and each sum is rounded by itself: no fused multiply-add, so that all processors
 * give the same bits.
 *
 * A field has planes of `y` rows of `pitch` floats, of which the first `x` are points; x is the fastest, z the slowest
 * direction. Plane 0 and the plane behind the last one are the neighbours' boundaries; of rows 0 and `y` - 1 nothing is updated. Where
 * processors share rows, the point before a row is the last float of the row before it in memory, the one behind it float `x`. The 12
 * coefficients a0-a3, b0-b2, c0-c2, bnd and wrk1 follow each other, each with as many planes.
 */
#ifndef GGAS_HIMENO_CUH
#define GGAS_HIMENO_CUH

#include "ggas/vocab.h"

/* Points of a row that a warp updates, and those of a thread. */
#define HIMENO_TILE 128u
#define HIMENO_POINTS 4u

struct himeno_field {
	const float *in;
	float *out;
	const float *coefficients;
	double *sums;		/* of the squared residuals: double[planes][y][tiles of a row], or [lanes] of each */
	uint64_t plane;		/* floats of a plane */
	uint64_t array;		/* floats of all planes */
	uint32_t x, y, pitch;
	uint32_t tiles;		/* of a row */
	uint32_t begin, end;	/* points of a row that are updated; 0: the one before it is another processor's */
	bool lanes;		/* each lane of a tile has a sum of its own, for a tile that processors share */
};

namespace himeno
{

struct alignas(16) quad {
	float at[HIMENO_POINTS];
};

#if defined(__CUDACC__)
GGAS_FN float add(float a, float b) { return __fadd_rn(a, b); }
GGAS_FN float subtract(float a, float b) { return __fsub_rn(a, b); }
GGAS_FN float multiply(float a, float b) { return __fmul_rn(a, b); }
GGAS_FN quad load(const float *p)
{
	float4 v = *reinterpret_cast<const float4 *>(p);
	return { v.x, v.y, v.z, v.w };
}
/* What no kernel writes while this one runs: to stay in the caches, or to make room first. */
GGAS_FN quad load_constant(const float *p, bool stays)
{
	auto *q = reinterpret_cast<const float4 *>(p);
	float4 v = stays ? __ldg(q) : __ldcs(q);
	return { v.x, v.y, v.z, v.w };
}
GGAS_FN void store(float *p, const quad &v)
{
	*reinterpret_cast<float4 *>(p) = make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
}
GGAS_FN void store_remote(float *p, const quad &v) { store(p, v); }
#else
/* The executor's compiler contracts nothing (-ffp-contract=off). */
inline float add(float a, float b) { return a + b; }
inline float subtract(float a, float b) { return a - b; }
inline float multiply(float a, float b) { return a * b; }
inline quad load(const float *p) { return *reinterpret_cast<const quad *>(p); }
inline quad load_constant(const float *p, bool) { return load(p); }
inline void store(float *p, const quad &v) { *reinterpret_cast<quad *>(p) = v; }
inline void store_remote(float *p, const quad &v) { ggas_write(reinterpret_cast<quad *>(p), v); }
#endif

/* A warp's tile of row `y`, not the first or last one, and the calling thread's points of it. */
struct strip {
	uint32_t tile, y, x;
	bool has;		/* points at all */
	uint64_t in_plane;	/* where they are in a plane */

	GGAS_FN strip(const himeno_field &f, uint32_t tile, uint32_t y)
		: tile(tile), y(y), x(tile * HIMENO_TILE + ggas_lane() * HIMENO_POINTS), has(x < f.pitch),
		  in_plane(static_cast<uint64_t>(y) * f.pitch + x)
	{
	}
};

/* A thread's points of one row; at the ends of a tile, the point beside it. */
struct row {
	quad mid;
	float end;
};

GGAS_FN row load_row(const himeno_field &f, const strip &s, const float *p)
{
	bool left = ggas_lane() == 0 && (s.x > 0 || f.begin == 0);
	bool right = ggas_lane() == GGAS_WARP_SIZE - 1 && s.x + HIMENO_POINTS < f.pitch;
	row r = {};
	if (s.has)
		r.mid = load(p);
	if (left || right)
		r.end = *(left ? p - 1 : p + HIMENO_POINTS);
	return r;
}

/* Rows y - 1, y and y + 1 of a plane. */
struct rows {
	row lower, same, upper;
};

/* Of the plane that begins at `plane`. */
GGAS_FN rows load_rows(const himeno_field &f, const strip &s, const float *plane)
{
	const float *p = plane + s.in_plane;
	return { load_row(f, s, p - f.pitch), load_row(f, s, p), load_row(f, s, p + f.pitch) };
}

/* The same points with those beside them, which other lanes have loaded. By all lanes, and late: it waits for the loads. */
struct wide {
	quad mid;
	float left, right;

	GGAS_FN explicit wide(const row &r)
		: mid(r.mid), left(ggas_shfl(GGAS_FULL_WARP, r.mid.at[HIMENO_POINTS - 1], beside(GGAS_WARP_SIZE - 1))),
		  right(ggas_shfl(GGAS_FULL_WARP, r.mid.at[0], beside(1)))
	{
		if (ggas_lane() == 0)
			left = r.end;
		if (ggas_lane() == GGAS_WARP_SIZE - 1)
			right = r.end;
	}
	GGAS_FN static uint32_t beside(uint32_t lanes) { return (ggas_lane() + lanes) % GGAS_WARP_SIZE; }
	GGAS_FN float at(uint32_t k) const { return mid.at[k]; }
	GGAS_FN float before(uint32_t k) const { return k == 0 ? left : mid.at[k - 1]; }
	GGAS_FN float after(uint32_t k) const { return k == HIMENO_POINTS - 1 ? right : mid.at[k + 1]; }
};

/* What a point's residual is made of: rows y - 1, y and y + 1 of planes z + 1, z and z - 1. */
struct around {
	quad up_lower, up_upper, down_lower, down_upper;
	wide up, lower, same, upper, down;

	GGAS_FN around(const rows &up, const rows &mid, const rows &down)
		: up_lower(up.lower.mid), up_upper(up.upper.mid), down_lower(down.lower.mid), down_upper(down.upper.mid),
		  up(up.same), lower(mid.lower), same(mid.same), upper(mid.upper), down(down.same)
	{
	}
};

/* (a - b) - c + d, from the left. */
GGAS_FN float cross(float a, float b, float c, float d)
{
	return add(subtract(subtract(a, b), c), d);
}

/* The residual of point k; `at`: the 12 coefficients. */
GGAS_FN float residual(const around &p, const quad *at, uint32_t k)
{
	float s = multiply(at[0].at[k], p.up.at(k));
	s = add(s, multiply(at[1].at[k], p.upper.at(k)));
	s = add(s, multiply(at[2].at[k], p.same.after(k)));
	s = add(s, multiply(at[4].at[k],
			    cross(p.up_upper.at[k], p.up_lower.at[k], p.down_upper.at[k], p.down_lower.at[k])));
	s = add(s, multiply(at[5].at[k],
			    cross(p.upper.after(k), p.lower.after(k), p.upper.before(k), p.lower.before(k))));
	s = add(s, multiply(at[6].at[k], cross(p.up.after(k), p.down.after(k), p.up.before(k), p.down.before(k))));
	s = add(s, multiply(at[7].at[k], p.down.at(k)));
	s = add(s, multiply(at[8].at[k], p.lower.at(k)));
	s = add(s, multiply(at[9].at[k], p.same.before(k)));
	s = add(s, at[11].at[k]);
	return multiply(subtract(multiply(s, at[3].at[k]), p.same.at(k)), at[10].at[k]);
}

/* The sum over a warp in an order that no decomposition changes. */
GGAS_FN double sum_of_warp(double v)
{
	GGAS_UNROLL
	for (uint32_t step = GGAS_WARP_SIZE / 2; step; step /= 2)
		v = v + ggas_shfl_xor(GGAS_FULL_WARP, v, step);
	return v;
}

/* A thread's coefficients of a plane. */
struct coefficients {
	quad at[12];
};

/*
 * Coefficient i. Most arrays are gone from the L2 cache when the next iteration reads them, so they make room first, and
 * the field stays; the last few stay, too, as many as there is room for (measured on H100, 128x128x128 and 256x256x512 points).
 */
template <uint32_t Staying>
GGAS_FN quad load_coefficient(const himeno_field &f, const strip &s, uint64_t plane, uint32_t i)
{
	return load_constant(f.coefficients + i * f.array + plane + s.in_plane, i >= 12 - Staying);
}

GGAS_FN coefficients load_coefficients(const himeno_field &f, const strip &s, uint64_t plane)
{
	coefficients c = {};
	if (s.has) {
		GGAS_UNROLL
		for (uint32_t i = 0; i < 12; i++)
			c.at[i] = load_coefficient<2>(f, s, plane, i);
	}
	return c;
}

/* The new values of the points of plane z, at `remote`, too, unless it is 0; and their sum. By all lanes. */
GGAS_FN void relax(const himeno_field &f, const strip &s, uint32_t z, const around &p, const coefficients &c,
		   float *remote)
{
	constexpr float omega = 0.8f;
	double sum = 0.0;
	quad out;
	GGAS_UNROLL
	for (uint32_t k = 0; k < HIMENO_POINTS; k++) {
		float ss = residual(p, c.at, k), now = p.same.at(k);
		bool inner = s.x + k >= f.begin && s.x + k < f.end;
		out.at[k] = inner ? add(now, multiply(omega, ss)) : now;
		if (inner)
			sum = sum + static_cast<double>(multiply(ss, ss));
	}
	/* What fills a row up may be a neighbour's. */
	if (s.x < f.x)
		store(f.out + z * f.plane + s.in_plane, out);
	if (s.x < f.x && remote)
		store_remote(remote + s.in_plane, out);
	uint64_t tile = (static_cast<uint64_t>(z) * f.y + s.y) * f.tiles + s.tile;
	if (f.lanes) {
		f.sums[tile * GGAS_WARP_SIZE + ggas_lane()] = sum;
		return;
	}
	sum = sum_of_warp(sum);
	if (ggas_lane() == 0)
		f.sums[tile] = sum;
}

/*
 * A warp's tile of row `y`, not the first or last one, in planes [begin, end). Called by all lanes. `remote`: 0, or where a
 * neighbour has this plane (of one plane only).
 */
GGAS_FN void march(const himeno_field &f, uint32_t tile, uint32_t y, uint32_t begin, uint32_t end, float *remote)
{
	strip s(f, tile, y);
	const float *in = f.in + begin * f.plane;
	rows down = load_rows(f, s, in - f.plane), mid = load_rows(f, s, in);
	GGAS_NO_UNROLL
	for (uint32_t z = begin; z < end; z++) {
		coefficients c = load_coefficients(f, s, z * f.plane);
		in += f.plane;
		rows up = load_rows(f, s, in);
		relax(f, s, z, around(up, mid, down), c, remote);
		down = mid;
		mid = up;
	}
}

} /* namespace himeno */

#endif /* GGAS_HIMENO_CUH */
