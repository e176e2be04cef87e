// SPDX-License-Identifier: MIT OR Apache-2.0
// reduce, allreduce and collectives that move data, by packets, inside a kernel.
#include "bench_coll.cuh"

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
