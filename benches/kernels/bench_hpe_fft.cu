// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps of a radix-2 transform by decimation in frequency: numbers in order become coefficients in bit-reversed order.
#include "bench_hpe.cuh"

#include "bench.h"

namespace hpe_fft_step
{

struct alignas(8) complex_number {
	float re, im;
};

GGAS_FN complex_number plus(complex_number a, complex_number b) { return { hpe::add(a.re, b.re), hpe::add(a.im, b.im) }; }
GGAS_FN complex_number minus(complex_number a, complex_number b) { return { hpe::subtract(a.re, b.re), hpe::subtract(a.im, b.im) }; }

GGAS_FN complex_number times(complex_number a, complex_number w)
{
	return { hpe::subtract(hpe::multiply(a.re, w.re), hpe::multiply(a.im, w.im)),
		 hpe::add(hpe::multiply(a.re, w.im), hpe::multiply(a.im, w.re)) };
}

/* The factor of the second number of a butterfly that is the `i`th of its block. */
GGAS_FN complex_number factor(const bench_hpe_fft &args, uint64_t i)
{
	return reinterpret_cast<const complex_number *>(args.twiddles)[i * (args.points / (2 * args.half))];
}

} /* namespace hpe_fft_step */

/* Both numbers of each butterfly are this device's. */
GGAS_KERNEL(bench_hpe_fft_alone, bench_hpe_fft)
{
	using namespace hpe_fft_step;
	complex_number *data = reinterpret_cast<complex_number *>(args.data);
	if (args.half == 0 || 2 * args.half > args.count)
		return;
	for (uint64_t i = hpe::thread(); i < args.count / 2; i += hpe::threads()) {
		uint64_t in_block = i % args.half, at = 2 * (i - in_block) + in_block;
		complex_number a = data[at], b = data[at + args.half];
		data[at] = plus(a, b);
		data[at + args.half] = times(minus(a, b), factor(args, in_block));
	}
}

/* The other number of each is the partner's, who computes its own result: each reads all of the other. */
GGAS_KERNEL(bench_hpe_fft_across, bench_hpe_fft)
{
	using namespace hpe_fft_step;
	const complex_number *data = reinterpret_cast<const complex_number *>(args.data);
	const complex_number *partner = reinterpret_cast<const complex_number *>(args.partner);
	complex_number *out = reinterpret_cast<complex_number *>(args.out);
	if (args.half == 0 || args.half < args.count)
		return;
	bool second = args.first & args.half;
	for (uint64_t i = hpe::thread(); i < args.count; i += hpe::threads()) {
		if (second)
			out[i] = times(minus(partner[i], data[i]), factor(args, (args.first + i) % args.half));
		else
			out[i] = plus(data[i], partner[i]);
	}
}
