/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the benchmark kernels share: samples, and leaving together after an error. */
#ifndef GGAS_BENCH_CUH
#define GGAS_BENCH_CUH

#include "ggas/vocab.h"

#include "bench.h"

/*
 * Takes the samples of one thread. Round numbers below `warm_up` are not timed:
 *
 *	bench_stopwatch watch(args.timing);
 *	for (uint64_t i = 0; i < watch.rounds(); i++) {
 *		watch.begin(i);
 *		...
 *		watch.end(i);
 *	}
 *	watch.stop();
 */
class bench_stopwatch {
public:
	GGAS_FN explicit bench_stopwatch(const bench_timing &timing) : timing_(timing), last_(0)
	{
	}

	GGAS_FN uint64_t rounds() const { return timing_.warm_up + timing_.count; }

	/* A round begins; the first timed one also reads the global timer. */
	GGAS_FN void begin(uint64_t round)
	{
		if (round == timing_.warm_up) {
			clock()->ns_begin = ggas_time_ns();
			clock()->ticks_begin = ggas_ticks();
		}
		last_ = ggas_ticks();
	}

	GGAS_FN void end(uint64_t round)
	{
		uint64_t now = ggas_ticks();
		if (round >= timing_.warm_up)
			reinterpret_cast<uint64_t *>(timing_.samples)[round - timing_.warm_up] = now - last_;
		last_ = now;
	}

	GGAS_FN void stop()
	{
		clock()->ticks_end = ggas_ticks();
		clock()->ns_end = ggas_time_ns();
	}

private:
	GGAS_FN bench_clock *clock() const { return reinterpret_cast<bench_clock *>(timing_.clock); }

	const bench_timing &timing_;
	uint64_t last_;
};

/*
 * Meets the threads of the block and tells all of them whether one brings an
 * error. `failed` is block-shared, 0 before the first call, and stays set.
 */
GGAS_FN bool bench_together(uint32_t *failed, int error)
{
	if (error)
		ggas_store_relaxed(failed, 1u);
	ggas_syncthreads();
	return ggas_load_relaxed(failed) == 0;
}

#endif /* GGAS_BENCH_CUH */
