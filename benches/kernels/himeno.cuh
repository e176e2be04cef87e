/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The computation of the Himeno benchmark (RIKEN): one Jacobi iteration of a 19-point stencil in float, as its C program
 * writes it, term by term. Each product and each sum is rounded by itself: no fused multiply-add, so that all processors
 * give the same bits.
 *
 * A field has planes of `y` rows of `pitch` floats, of which the first `x` are points; x is the fastest, z the slowest
 * direction. Plane 0 and the plane behind the last one are the neighbours' boundaries. The 12 coefficients a0-a3, b0-b2,
 * c0-c2, bnd and wrk1 follow each other, each with as many planes.
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
	double *sums;		/* of the squared residuals: double[planes][y][tiles of a row] */
	uint64_t plane;		/* floats of a plane */
	uint64_t array;		/* floats of all planes */
	uint32_t x, y, pitch;
	uint32_t tiles;		/* of a row */
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
/* What no kernel writes while this one runs. */
GGAS_FN quad load_constant(const float *p)
{
	float4 v = __ldg(reinterpret_cast<const float4 *>(p));
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
inline quad load_constant(const float *p) { return load(p); }
inline void store(float *p, const quad &v) { *reinterpret_cast<quad *>(p) = v; }
inline void store_remote(float *p, const quad &v) { ggas_write(reinterpret_cast<quad *>(p), v); }
#endif

/* A thread's points of one row, and the points beside them. */
struct row {
	quad mid;
	float left, right;

	GGAS_FN float at(uint32_t k) const { return mid.at[k]; }
	GGAS_FN float before(uint32_t k) const { return k == 0 ? left : mid.at[k - 1]; }
	GGAS_FN float after(uint32_t k) const { return k == HIMENO_POINTS - 1 ? right : mid.at[k + 1]; }
};

GGAS_FN row load_row(const float *p)
{
	return { load(p), p[-1], p[HIMENO_POINTS] };
}

/* Rows y - 1, y and y + 1 of a plane. */
struct rows {
	row lower, same, upper;
};

GGAS_FN rows load_rows(const float *p, uint32_t pitch)
{
	return { load_row(p - pitch), load_row(p), load_row(p + pitch) };
}

/* (a - b) - c + d, from the left. */
GGAS_FN float cross(float a, float b, float c, float d)
{
	return add(subtract(subtract(a, b), c), d);
}

/* The residual of point k. `up`, `mid`, `down`: planes z + 1, z and z - 1; `at`: the 12 coefficients. */
GGAS_FN float residual(const rows &up, const rows &mid, const rows &down, const quad *at, uint32_t k)
{
	float s = multiply(at[0].at[k], up.same.at(k));
	s = add(s, multiply(at[1].at[k], mid.upper.at(k)));
	s = add(s, multiply(at[2].at[k], mid.same.after(k)));
	s = add(s, multiply(at[4].at[k],
			    cross(up.upper.at(k), up.lower.at(k), down.upper.at(k), down.lower.at(k))));
	s = add(s, multiply(at[5].at[k], cross(mid.upper.after(k), mid.lower.after(k), mid.upper.before(k),
					       mid.lower.before(k))));
	s = add(s, multiply(at[6].at[k],
			    cross(up.same.after(k), down.same.after(k), up.same.before(k), down.same.before(k))));
	s = add(s, multiply(at[7].at[k], down.same.at(k)));
	s = add(s, multiply(at[8].at[k], mid.lower.at(k)));
	s = add(s, multiply(at[9].at[k], mid.same.before(k)));
	s = add(s, at[11].at[k]);
	return multiply(subtract(multiply(s, at[3].at[k]), mid.same.at(k)), at[10].at[k]);
}

/* The sum over a warp in an order that no decomposition changes. */
GGAS_FN double sum_of_warp(double v)
{
	GGAS_UNROLL
	for (uint32_t step = GGAS_WARP_SIZE / 2; step; step /= 2)
		v = v + ggas_shfl_xor(GGAS_FULL_WARP, v, step);
	return v;
}

/*
 * A warp's tile of row `y`, not the first or last one, in planes [begin, end). Called by all lanes. `remote`: 0, or where a
 * neighbour has this plane (of one plane only).
 */
GGAS_FN void march(const himeno_field &f, uint32_t tile, uint32_t y, uint32_t begin, uint32_t end, float *remote)
{
	constexpr float omega = 0.8f;
	uint32_t x = tile * HIMENO_TILE + ggas_lane() * HIMENO_POINTS;
	bool has = x < f.pitch;
	uint64_t in_plane = static_cast<uint64_t>(y) * f.pitch + x, at = begin * f.plane + in_plane;
	rows down, mid, up;
	if (has) {
		down = load_rows(f.in + at - f.plane, f.pitch);
		mid = load_rows(f.in + at, f.pitch);
	}
	GGAS_NO_UNROLL
	for (uint32_t z = begin; z < end; z++) {
		double sum = 0.0;
		if (has) {
			quad coefficients[12], out;
			GGAS_UNROLL
			for (uint32_t i = 0; i < 12; i++)
				coefficients[i] = load_constant(f.coefficients + i * f.array + at);
			up = load_rows(f.in + at + f.plane, f.pitch);
			GGAS_UNROLL
			for (uint32_t k = 0; k < HIMENO_POINTS; k++) {
				float ss = residual(up, mid, down, coefficients, k);
				bool inner = x + k > 0 && x + k + 1 < f.x;
				float now = mid.same.at(k);
				out.at[k] = inner ? add(now, multiply(omega, ss)) : now;
				if (inner)
					sum = sum + static_cast<double>(multiply(ss, ss));
			}
			store(f.out + at, out);
			if (remote)
				store_remote(remote + in_plane, out);
			down = mid;
			mid = up;
		}
		sum = sum_of_warp(sum);
		if (ggas_lane() == 0)
			f.sums[(static_cast<uint64_t>(z) * f.y + y) * f.tiles + tile] = sum;
		at += f.plane;
	}
}

} /* namespace himeno */

#endif /* GGAS_HIMENO_CUH */
