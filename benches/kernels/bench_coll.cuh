/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the benchmark kernels of collectives share. */
#ifndef GGAS_BENCH_COLL_CUH
#define GGAS_BENCH_COLL_CUH

#include "bench.cuh"
#include "ggas/coll.cuh"

#include "bench.h"

/* Most threads of a block: more registers for each than a kernel of 1,024 has. */
constexpr uint32_t bench_coll_threads = 512;

/* Rounds of one collective; `collective(group, form, in, out, count)` is what is timed. */
template <class Collective>
GGAS_FN int bench_coll_rounds(const bench_reduce &args, bench_stopwatch &watch, const Collective &collective)
{
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	auto form = static_cast<ggas_form>(args.form);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (args.apart)
			if (int error = ggas_blocks() == 1 ? ggas_sync(group) :
							     ggas_barrier_grid(group, ggas_order::relaxed))
				return error;
		if (measures)
			watch.begin(i);
		for (uint32_t k = 0; k < args.batch; k++)
			if (int error = collective(group, form, reinterpret_cast<const float *>(args.in[(i + k) & 1]),
						   reinterpret_cast<float *>(args.out), args.count))
				return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

template <class Collective> GGAS_FN void bench_coll_run(const bench_reduce &args, const Collective &collective)
{
	bench_stopwatch watch(args.timing);
	int status = bench_coll_rounds(args, watch, collective);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

#endif /* GGAS_BENCH_COLL_CUH */
