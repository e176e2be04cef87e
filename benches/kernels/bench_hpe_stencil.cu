// SPDX-License-Identifier: MIT OR Apache-2.0
// A step of a 27-point stencil on a cube that devices share by planes. The neighbours' planes are halos of this device, or
// memory of the neighbours themselves: the kernel does not know.
#include "bench_hpe.cuh"

#include "bench.h"

namespace hpe_stencil_step
{

using hpe::add;
using hpe::multiply;

/* Sums of a plane around a point: itself, the 4 beside it, the 4 at its corners. */
struct around {
	float centre, cross, corners;

	GGAS_FN around(const float *p, uint32_t side)
		: centre(p[0]), cross(add(add(p[-1], p[1]), add(*(p - side), p[side])))
	{
		const float *before = p - side, *behind = p + side;
		corners = add(add(before[-1], before[1]), add(behind[-1], behind[1]));
	}
};

GGAS_FN float updated(const bench_hpe_stencil &args, const around &below, const around &here, const around &above)
{
	float faces = add(here.cross, add(below.centre, above.centre));
	float edges = add(here.corners, add(below.cross, above.cross));
	float corners = add(below.corners, above.corners);
	float sum = add(multiply(args.weights[0], here.centre), multiply(args.weights[1], faces));
	return add(add(sum, multiply(args.weights[2], edges)), multiply(args.weights[3], corners));
}

} /* namespace hpe_stencil_step */

GGAS_KERNEL(bench_hpe_stencil_planes, bench_hpe_stencil)
{
	using namespace hpe_stencil_step;
	const uint32_t side = args.side, end = args.end < args.planes ? args.end : args.planes;
	if (side < 3 || args.begin >= end)
		return;
	const uint64_t inner = side - 2, plane = uint64_t(side) * side;
	const float *in = reinterpret_cast<const float *>(args.in);
	float *out = reinterpret_cast<float *>(args.out);
	const uint64_t points = (end - args.begin) * inner * inner;
	for (uint64_t i = hpe::thread(); i < points; i += hpe::threads()) {
		uint64_t row = i / inner, z = args.begin + row / inner;
		uint64_t at = (row % inner + 1) * side + i % inner + 1;
		const float *here = in + z * plane;
		const float *below = z > 0 ? here - plane : reinterpret_cast<const float *>(args.below);
		const float *above = z + 1 < args.planes ? here + plane : reinterpret_cast<const float *>(args.above);
		out[z * plane + at] =
			updated(args, around(below + at, side), around(here + at, side), around(above + at, side));
	}
}
