// SPDX-License-Identifier: MIT OR Apache-2.0
// reduce and allreduce in the five ways of thesis 6.8.
#include "bench_coll.cuh"

namespace bench_staged
{

template <ggas_way Way> struct allreduce {
	GGAS_FN int operator()(ggas_group *g, ggas_form form, const float *in, float *out, uint64_t count) const
	{
		return ggas_allreduce_by<Way>(g, form, ggas_order::relaxed, in, out, count, ggas_sum());
	}
};
template <ggas_way Way> struct reduce {
	GGAS_FN int operator()(ggas_group *g, ggas_form form, const float *in, float *out, uint64_t count) const
	{
		return ggas_reduce_by<Way>(g, form, ggas_order::relaxed, 0, in, out, count, ggas_sum());
	}
};

} // namespace bench_staged

GGAS_KERNEL_BOUND(bench_allreduce_staged, bench_reduce, bench_coll_threads)
{
	switch (args.way) {
	case BENCH_WAY_REMOTE_READ:
		return bench_coll_run(args, bench_staged::allreduce<ggas_way::remote_read>());
	case BENCH_WAY_GATHER:
		return bench_coll_run(args, bench_staged::allreduce<ggas_way::gather>());
	case BENCH_WAY_ALL_GATHER:
		return bench_coll_run(args, bench_staged::allreduce<ggas_way::all_gather>());
	case BENCH_WAY_TREE:
		return bench_coll_run(args, bench_staged::allreduce<ggas_way::tree>());
	default:
		return bench_coll_run(args, bench_staged::allreduce<ggas_way::all_to_all>());
	}
}

GGAS_KERNEL_BOUND(bench_reduce_staged, bench_reduce, bench_coll_threads)
{
	switch (args.way) {
	case BENCH_WAY_REMOTE_READ:
		return bench_coll_run(args, bench_staged::reduce<ggas_way::remote_read>());
	case BENCH_WAY_GATHER:
		return bench_coll_run(args, bench_staged::reduce<ggas_way::gather>());
	case BENCH_WAY_TREE:
		return bench_coll_run(args, bench_staged::reduce<ggas_way::tree>());
	default:
		return bench_coll_run(args, bench_staged::reduce<ggas_way::all_to_all>());
	}
}
