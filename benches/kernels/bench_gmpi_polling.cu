// SPDX-License-Identifier: MIT OR Apache-2.0
// gmpi-polling: kernels whose time depends on the memory, or on the multiprocessors, alone.
#include "bench.cuh"

#include "bench.h"

namespace bench_pollings
{

/* All of the data, by all threads of the grid. */
GGAS_FN uint64_t read(const bench_gmpi_polling &args)
{
	auto *data = reinterpret_cast<const uint64_t *>(args.data);
	uint64_t all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads(), sum = 0;
	for (uint64_t round = 0; round < args.rounds; round++)
		for (uint64_t i = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(); i < args.count; i += all)
			sum += ggas_load_relaxed(data + i);
	return sum;
}

/* Each step needs the one before. */
GGAS_FN uint64_t compute(const bench_gmpi_polling &args)
{
	uint32_t x = 1;
	for (uint64_t i = 0; i < args.rounds; i++)
		x = (x ^ (x >> 15)) * 0x2c1b3c6du + 0x9e3779b9u;
	return x;
}

} /* namespace bench_pollings */

GGAS_KERNEL(bench_gmpi_polling_rounds, bench_gmpi_polling)
{
	auto *times = reinterpret_cast<uint64_t *>(args.times);
	uint64_t begun = ggas_time_ns();
	ggas_syncthreads();
	uint64_t sum = args.what == BENCH_POLLING_READ ? bench_pollings::read(args) : bench_pollings::compute(args);
	ggas_atomic_add(reinterpret_cast<uint64_t *>(args.sums) + ggas_block(), sum, ggas_order::relaxed);
	ggas_syncthreads();
	if (ggas_thread() != 0)
		return;
	times[ggas_block()] = begun;
	times[ggas_blocks() + ggas_block()] = ggas_time_ns();
}
