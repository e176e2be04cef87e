// SPDX-License-Identifier: MIT OR Apache-2.0
// reduce, allreduce and collectives that move data, by packets, inside a kernel; global-reduction.
#include "bench_coll.cuh"

namespace bench_globals
{

/* The sum over the threads of a block, in its thread 0. */
GGAS_FN double sum_of_block(double value)
{
	GGAS_SHARED_ARRAY(double, warps, GGAS_WARP_SIZE);
	for (uint32_t delta = GGAS_WARP_SIZE / 2; delta; delta /= 2)
		value += ggas_shfl_down(GGAS_FULL_WARP, value, delta);
	if (ggas_lane() == 0)
		warps[ggas_warp()] = value;
	ggas_syncthreads();
	if (ggas_warp() == 0) {
		value = ggas_lane() < ggas_warps() ? warps[ggas_lane()] : 0;
		for (uint32_t delta = GGAS_WARP_SIZE / 2; delta; delta /= 2)
			value += ggas_shfl_down(GGAS_FULL_WARP, value, delta);
	}
	return value;
}

/* Every block sums its share, block 0 what the blocks have, and the nodes what these have. */
GGAS_FN int sum(const bench_global &args, ggas_group *group, uint64_t round)
{
	auto *in = reinterpret_cast<const double *>(args.in[round & 1]);
	auto *partial = reinterpret_cast<double *>(args.partial) + (round & 1) * ggas_blocks();
	uint64_t all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
	double own = 0;
	for (uint64_t i = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(); i < args.count; i += all)
		own += in[i];
	own = sum_of_block(own);
	if (ggas_thread() == 0)
		partial[ggas_block()] = own;
	if (int error = ggas_sync_grid(group))
		return error;
	if (ggas_block() != 0)
		return GGAS_OK;
	own = 0;
	for (uint32_t block = ggas_thread(); block < ggas_blocks(); block += ggas_threads())
		own += partial[block];
	own = sum_of_block(own);
	auto *out = reinterpret_cast<double *>(args.out);
	if (ggas_thread() == 0)
		*out = own;
	return ggas_allreduce(group, ggas_form::block, ggas_order::relaxed, out, out, 1, ggas_sum());
}

} // namespace bench_globals

GGAS_KERNEL_BOUND(bench_global_sum, bench_global, bench_coll_threads)
{
	auto *group = reinterpret_cast<ggas_group *>(args.group);
	bench_stopwatch watch(args.timing);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	int status = GGAS_OK;
	for (uint64_t i = 0; i < watch.rounds() && !status; i++) {
		if (measures)
			watch.begin(i);
		status = bench_globals::sum(args, group, i);
		if (measures && !status)
			watch.end(i);
	}
	if (measures)
		watch.stop(status);
}

GGAS_KERNEL_BOUND(bench_allreduce_packed, bench_reduce, bench_coll_threads)
{
	auto *group = reinterpret_cast<const ggas_group *>(args.group);
	uint64_t one_shot = args.way == BENCH_WAY_ONE_SHOT ? ~0ull :
			    args.way == BENCH_WAY_TWO_SHOT ? 0 :
							     group->one_shot_bytes;
	bench_coll_run(args, [&](ggas_group *g, ggas_form form, const float *in, float *out, uint64_t count) {
		return ggas_impl::allreduce(g, form, ggas_order::relaxed, in, out, count, ggas_sum(), one_shot,
					    __LINE__);
	});
}

GGAS_KERNEL_BOUND(bench_reduce_packed, bench_reduce, bench_coll_threads)
{
	bench_coll_run(args, [](ggas_group *g, ggas_form form, const float *in, float *out, uint64_t count) {
		return ggas_reduce(g, form, ggas_order::relaxed, 0, in, out, count, ggas_sum());
	});
}

GGAS_KERNEL_BOUND(bench_collective, bench_reduce, bench_coll_threads)
{
	bench_coll_run(args, [&](ggas_group *g, ggas_form form, const float *in, float *out, uint64_t count) {
		constexpr auto order = ggas_order::relaxed;
		switch (args.way) {
		case BENCH_MOVE_BROADCAST: {
			/* The root sends its input; the others receive into their output. */
			float *data = g->node == 0 ? const_cast<float *>(in) : out;
			return ggas_broadcast(g, form, order, 0, data, count);
		}
		case BENCH_MOVE_ALL_GATHER:
			return ggas_all_gather(g, form, order, in, out, count);
		case BENCH_MOVE_ALL_TO_ALL:
			return ggas_all_to_all(g, form, order, in, out, count);
		default:
			return ggas_reduce_scatter(g, form, order, in, out, count, ggas_sum());
		}
	});
}
