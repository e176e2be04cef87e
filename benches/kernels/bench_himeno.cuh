/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What himeno's kernels share: where a node's data are, and its failures. */
#ifndef GGAS_BENCH_HIMENO_CUH
#define GGAS_BENCH_HIMENO_CUH

#include "bench.cuh"
#include "ggas/blocks.cuh"

#include "bench.h"
#include "himeno.cuh"

namespace bench_himenos
{

/* Most threads of a block; a bound of 512 keeps two blocks of 256 on a multiprocessor. */
constexpr uint32_t most_threads = 512;

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

GGAS_FN uint64_t plane_floats(const bench_himeno &args)
{
	return static_cast<uint64_t>(args.rows) * args.pitch;
}

GGAS_FN float *field(const bench_himeno &args, uint64_t iteration)
{
	return pointer<float>(args.local + (iteration & 1 ? args.field[1] : args.field[0]));
}

GGAS_FN himeno_field fields(const bench_himeno &args, uint64_t iteration)
{
	himeno_field f;
	f.in = field(args, iteration);
	f.out = field(args, iteration + 1);
	f.coefficients = pointer<const float>(args.coefficients);
	f.sums = pointer<double>(args.sums);
	f.plane = plane_floats(args);
	f.array = (args.z + 2) * f.plane;
	f.x = args.x;
	f.y = args.y;
	f.pitch = args.pitch;
	f.tiles = (args.x + HIMENO_TILE - 1) / HIMENO_TILE;
	f.begin = args.first[0] == 0 ? 1 : 0;
	f.end = args.first[0] + args.x == args.whole[0] ? args.x - 1 : args.x;
	f.lanes = args.lanes;
	return f;
}

GGAS_FN bool has(const bench_himeno_edge &edge)
{
	return edge.node != ~0u;
}

/* Where a neighbour has this node's boundary. */
GGAS_FN float *place_at(const bench_himeno_edge &edge, const ggas_window &window, uint64_t iteration)
{
	return ggas_pointer_of_node<float>(&window, edge.node, iteration & 1 ? edge.to[1] : edge.to[0]);
}

GGAS_FN ggas_edge edge_of(const bench_himeno &args, uint32_t side, uint64_t iteration)
{
	const bench_himeno_edge &edge = args.edge[side];
	uint64_t bytes = plane_floats(args) * sizeof(float);
	uint64_t from = reinterpret_cast<uint64_t>(field(args, iteration)) + edge.plane * bytes;
	return { edge.node, iteration & 1 ? edge.to[1] : edge.to[0], from, bytes, edge.signal, edge.seen };
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

} /* namespace bench_himenos */

#endif /* GGAS_BENCH_HIMENO_CUH */
