/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the benchmark kernels share: taking samples. */
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
 *	watch.stop(status);
 */
class bench_stopwatch {
public:
	GGAS_FN explicit bench_stopwatch(const bench_timing &timing) : timing_(timing), last_(0), taken_(0) {}

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

	GGAS_FN void end(uint64_t round) { end(round, 1, 1); }

	/* The round made `done` operations instead of `planned`: scales the sample. */
	GGAS_FN void end(uint64_t round, uint64_t planned, uint64_t done)
	{
		uint64_t ticks = ggas_ticks() - last_;
		if (round < timing_.warm_up)
			return;
		taken_ = round - timing_.warm_up + 1;
		reinterpret_cast<uint64_t *>(timing_.samples)[taken_ - 1] = ticks * planned / done;
	}

	/* The kernel ends, well or with an error of a wait. */
	GGAS_FN void stop(int status)
	{
		clock()->ticks_end = ggas_ticks();
		clock()->ns_end = ggas_time_ns();
		clock()->taken = taken_;
		clock()->status = status ? status : BENCH_DONE;
	}

private:
	GGAS_FN bench_clock *clock() const { return reinterpret_cast<bench_clock *>(timing_.clock); }

	const bench_timing &timing_;
	uint64_t last_, taken_;
};

#endif /* GGAS_BENCH_CUH */
