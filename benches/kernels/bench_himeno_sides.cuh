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

/* Where float `i` of a message is in a field whose box begins at `first`. A box has fewer than 2^32 points; 64-bit division takes longer than
 * the copy. */
GGAS_FN int64_t float_of_box(const bench_himeno &args, const bench_himeno_side &side, int64_t first, uint32_t i)
{
	uint32_t row = i / side.extent[0], x = i - row * side.extent[0];
	uint32_t z = row / side.extent[1], y = row - z * side.extent[1];
	return first + static_cast<int64_t>(z * plane_floats(args) + static_cast<uint64_t>(y) * args.pitch + x);
}

/* Floats [begin, end) by threads `self` of `all`: `put(i, get(i))`, with some loads under way before the first store. */
template <class Get, class Put>
GGAS_FN void copy_floats(uint64_t begin, uint64_t end, uint64_t self, uint64_t all, const Get &get, const Put &put)
{
	constexpr uint32_t batch = 4;
	for (uint64_t i = begin + self; i < end; i += batch * all) {
		float value[batch] = {};
		for (uint32_t k = 0; k < batch; k++)
			if (i + k * all < end)
				value[k] = get(static_cast<uint32_t>(i + k * all));
		for (uint32_t k = 0; k < batch; k++)
			if (i + k * all < end)
				put(static_cast<uint32_t>(i + k * all), value[k]);
	}
}

/* Floats [begin, end) of a message, by threads `self` of `all`: to a place that may be another node's, */
GGAS_FN void pack(const bench_himeno &args, const bench_himeno_side &side, const float *field, float *message, uint64_t begin,
		  uint64_t end, uint64_t self, uint64_t all)
{
	auto get = [&](uint32_t i) { return field[float_of_box(args, side, side.from, i)]; };
	copy_floats(begin, end, self, all, get, [=](uint32_t i, float value) { ggas_write(message + i, value); });
}
/* and from the place where one has arrived. */
GGAS_FN void unpack(const bench_himeno &args, const bench_himeno_side &side, float *field, const float *message, uint64_t begin,
		    uint64_t end, uint64_t self, uint64_t all)
{
	auto put = [&](uint32_t i, float value) { field[float_of_box(args, side, side.beyond, i)] = value; };
	copy_floats(begin, end, self, all, [=](uint32_t i) { return ggas_load_relaxed(message + i); }, put);
}

} /* namespace bench_himenos */

#endif /* GGAS_BENCH_HIMENO_SIDES_CUH */
