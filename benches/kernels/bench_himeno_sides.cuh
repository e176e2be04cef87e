/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Boxes of points that neighbours need where a grid is cut in more directions than one, and messages of them. */
#ifndef GGAS_BENCH_HIMENO_SIDES_CUH
#define GGAS_BENCH_HIMENO_SIDES_CUH

#include "bench_himeno.cuh"

namespace bench_himenos
{

GGAS_FN const bench_himeno_side &side_of(const bench_himeno &args, uint32_t number)
{
	return pointer<const bench_himeno_side>(args.side)[number];
}

/* Floats of a message. */
GGAS_FN uint64_t floats_of(const bench_himeno_side &side)
{
	return static_cast<uint64_t>(side.extent[0]) * side.extent[1] * side.extent[2];
}

/* Where float `i` of a message is in a field whose box begins at `first`. */
GGAS_FN int64_t float_of_box(const bench_himeno &args, const bench_himeno_side &side, int64_t first, uint64_t i)
{
	uint64_t x = i % side.extent[0], row = i / side.extent[0];
	uint64_t y = row % side.extent[1], z = row / side.extent[1];
	return first + static_cast<int64_t>(z * plane_floats(args) + y * args.pitch + x);
}

/* Floats [begin, end) of a message, by threads `self` of `all`: to a place that may be another node's, */
GGAS_FN void pack(const bench_himeno &args, const bench_himeno_side &side, const float *field, float *message, uint64_t begin,
		  uint64_t end, uint64_t self, uint64_t all)
{
	for (uint64_t i = begin + self; i < end; i += all)
		ggas_write(message + i, field[float_of_box(args, side, side.from, i)]);
}
/* and from the place where one has arrived. */
GGAS_FN void unpack(const bench_himeno &args, const bench_himeno_side &side, float *field, const float *message, uint64_t begin,
		    uint64_t end, uint64_t self, uint64_t all)
{
	for (uint64_t i = begin + self; i < end; i += all)
		field[float_of_box(args, side, side.beyond, i)] = ggas_load_relaxed(message + i);
}

} /* namespace bench_himenos */

#endif /* GGAS_BENCH_HIMENO_SIDES_CUH */
