// SPDX-License-Identifier: MIT OR Apache-2.0
// put-overlap and rma-overlap: a block communicates, computes, or does both at once.
#include "bench.cuh"
#include "ggas/put.cuh"
#include "ggas/rma.cuh"

#include "bench.h"

namespace bench_overlaps
{

constexpr uint32_t warp_threads = 32;

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* Arithmetic in registers. The state is in memory between rounds, so that no compiler moves the work elsewhere. */
GGAS_FN void compute(const bench_overlap &args)
{
	if (ggas_thread() < args.idle || args.steps == 0)
		return;
	uint64_t *state = pointer<uint64_t>(args.state) + ggas_thread();
	uint64_t value = ggas_load_relaxed(state);
	for (uint64_t i = 0; i < args.steps; i++) {
		value ^= value << 13;
		value ^= value >> 7;
		value ^= value << 17;
	}
	ggas_store_relaxed(state, value);
}

/* Begins a transfer; what only its callers can go on with is over on return. */
GGAS_FN int begin(const bench_overlap &args, const ggas_window &window, uint64_t round)
{
	uint64_t source = args.source[round & 1], at = args.peer.target;
	switch (args.way) {
	case BENCH_OVERLAP_BLOCK:
		return ggas_put_block(&window, args.peer.node, at, pointer<const void>(source), args.bytes);
	case BENCH_OVERLAP_WARP:
		if (ggas_thread() >= warp_threads)
			return GGAS_OK;
		return ggas_put_warp(&window, args.peer.node, at, pointer<const void>(source), args.bytes);
	case BENCH_OVERLAP_BULK:
		return ggas_put_bulk_block(&window, args.peer.node, at, pointer<const void>(source), args.bytes);
	case BENCH_OVERLAP_RMA: {
		uint32_t last = round + 1 == args.timing.warm_up + args.timing.count ? EXTOLL_SPEC_COMPLETER : 0u;
		if (ggas_thread() != 0)
			return GGAS_OK;
		return gpu_rma2_put(pointer<ggas_port>(args.port), { args.peer.node, args.peer.vpid }, source, at,
				    static_cast<uint32_t>(args.bytes), EXTOLL_SPEC_REQUESTER | last);
	}
	default:
		return GGAS_OK;
	}
}

/* The transfer is over: performed at the other node; rma: the requester says so. */
GGAS_FN int complete(const bench_overlap &args)
{
	if (args.way == BENCH_OVERLAP_NONE)
		return GGAS_OK;
	if (args.way != BENCH_OVERLAP_RMA) {
		ggas_quiet();
		return GGAS_OK;
	}
	extoll_noti noti;
	return ggas_thread() == 0 ? gpu_rma2_noti_take(pointer<ggas_port>(args.port), &noti) : GGAS_OK;
}

GGAS_FN int rounds(const bench_overlap &args, bench_stopwatch &watch)
{
	ggas_window window = {};
	if (args.window)
		window = *pointer<const ggas_window>(args.window);
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (ggas_thread() == 0)
			watch.begin(i);
		int error = begin(args, window, i);
		compute(args);
		int late = complete(args);
		if (int any = ggas_block_status(error ? error : late))
			return any;
		if (ggas_thread() == 0)
			watch.end(i);
	}
	return GGAS_OK;
}

} // namespace bench_overlaps

GGAS_KERNEL_BOUND(bench_overlap_rounds, bench_overlap, 512)
{
	bench_stopwatch watch(args.timing);
	int status;
	if (args.sender)
		status = bench_overlaps::rounds(args, watch);
	else
		status = ggas_thread() == 0 ? bench_overlaps::complete(args) : GGAS_OK;
	if (ggas_thread() == 0)
		watch.stop(status);
}
