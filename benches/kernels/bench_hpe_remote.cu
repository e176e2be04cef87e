// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that load memory of other devices where it is: how many loads leave the device, and that none is stale behind a fence.
#include "ggas/hpe.cuh"

#include "bench_hpe.cuh"

#include "bench.h"

namespace hpe_remote
{

template <unsigned Lines> GGAS_FN void add_up(const bench_hpe_loads &args)
{
	constexpr uint64_t line = GGAS_HPE_LINE / 8;
	ggas_hpe<Lines> memory(*reinterpret_cast<const ggas_hpe_map *>(args.map));
	const uint64_t *data = reinterpret_cast<const uint64_t *>(args.data);
	uint64_t sum = 0;
	for (uint64_t at = hpe::thread() * line; at < args.count; at += hpe::threads() * line)
		for (uint64_t i = at; i < at + line && i < args.count; i++)
			sum += memory.load(data + i);
	ggas_red_add(reinterpret_cast<uint64_t *>(args.sum), sum, ggas_order::relaxed);
	memory.end();
}

/* One thread's words, in the host's names. */
struct pair {
	uint64_t *data, *said, *flag;
	uint64_t timeout_ns;
	bool reads;

	GGAS_FN explicit pair(const bench_hpe_fences &args, const ggas_hpe_map &map)
		: timeout_ns(args.timeout_ns), reads(args.reads)
	{
		uint64_t at = hpe::thread() * GGAS_HPE_LINE;
		data = reinterpret_cast<uint64_t *>(args.data + at);
		/* These are polled: by the names of kernels. */
		said = reinterpret_cast<uint64_t *>((args.said + at) | map.bit);
		flag = reinterpret_cast<uint64_t *>((args.flag + at) | map.bit);
	}

	/* Without an acquire behind it. */
	GGAS_FN int wait(const uint64_t *word, uint64_t round) const
	{
		ggas_wait wait(0, timeout_ns, GGAS_WAIT_FLAG, reads, !reads);
		uint64_t seen;
		while ((seen = ggas_load_watched(word)) < round)
			if (int error = wait.again(word, round, seen))
				return error;
		return GGAS_OK;
	}
};

template <unsigned Lines> GGAS_FN int play(const bench_hpe_fences &args, uint64_t *observed, uint64_t *forbidden)
{
	const ggas_hpe_map &map = *reinterpret_cast<const ggas_hpe_map *>(args.map);
	ggas_hpe<Lines> memory(map);
	pair self(args, map);
	for (uint64_t round = 1; round <= args.rounds; round++) {
		if (self.reads) {
			/* Now there is something to keep. */
			*forbidden += memory.load(self.data) >= round;
			ggas_store_release(self.said, round);
			if (int error = self.wait(self.flag, round))
				return error;
			if (args.build != BENCH_LITMUS_WEAK)
				memory.fence();
			*forbidden += memory.load(self.data) < round;
			*observed += 1;
		} else {
			if (int error = self.wait(self.said, round))
				return error;
			memory.fence();
			memory.store(self.data, round);
			ggas_store_release(self.flag, round);
		}
	}
	memory.end();
	return GGAS_OK;
}

} /* namespace hpe_remote */

GGAS_KERNEL(bench_hpe_loads_sum, bench_hpe_loads)
{
	if (args.kept)
		hpe_remote::add_up<4>(args);
	else
		hpe_remote::add_up<0>(args);
}

GGAS_KERNEL(bench_hpe_fences_rounds, bench_hpe_fences)
{
	uint64_t observed = 0, forbidden = 0;
	int error = args.kept ? hpe_remote::play<4>(args, &observed, &forbidden) :
				hpe_remote::play<0>(args, &observed, &forbidden);
	auto *counts = reinterpret_cast<bench_litmus_counts *>(args.counts);
	ggas_red_add(&counts->observed, observed, ggas_order::relaxed);
	ggas_red_add(&counts->forbidden, forbidden, ggas_order::relaxed);
	ggas_red_add(&counts->ended, uint64_t(error == GGAS_OK), ggas_order::relaxed);
	if (error)
		ggas_atomic_cas(&counts->status, uint64_t(0), static_cast<uint64_t>(error), ggas_order::relaxed);
}
