// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives that the host starts, in a stream.
#include "ggas/coll.cuh"

#include "args.h"

namespace coll_start
{

/* The calls of coll.cuh with a kernel's arguments. A failure is in the group: its report, and its poison. */
struct call {
	const coll_started &args;
	ggas_group *group;
	const ggas_window *window;

	GGAS_FN explicit call(const coll_started &a)
		: args(a), group(reinterpret_cast<ggas_group *>(a.group)),
		  window(reinterpret_cast<const ggas_window *>(a.window))
	{
	}

	GGAS_FN void move(uint64_t bytes) const
	{
		if (args.kind == COLL_BROADCAST)
			ggas_broadcast_window(group, window, args.root, args.out, bytes);
		else if (args.kind == COLL_ALL_GATHER)
			ggas_all_gather_window(group, window, args.in, args.out, bytes);
		else
			ggas_all_to_all_window(group, window, args.in, args.out, bytes);
	}

	/* One piece of code for all but sums at all nodes, which have their own, for speed. */
	template <class T, class Op> GGAS_FN void reduce(Op op) const
	{
		const T *type = nullptr;
		if (args.kind == COLL_REDUCE_SCATTER) {
			ggas_reduce_scatter_window(group, window, args.in, args.out, type, args.count, op);
			return;
		}
		ggas_impl::window_call where(group, window, __builtin_LINE());
		bool all = args.kind == COLL_ALLREDUCE;
		ggas_impl::receivers to = { all ? where.self : args.root, all ? where.nodes : 1, where.nodes };
		ggas_impl::reduce_window<T>(where, to, args.in, args.out, args.count, op);
	}

	template <class T> GGAS_FN void reduce() const
	{
		switch (args.op) {
		case COLL_SUM:
			if (args.kind != COLL_ALLREDUCE)
				return reduce<T>(ggas_sum());
			ggas_allreduce_window_by(group, window, args.chunks, args.in, args.out,
						 static_cast<const T *>(nullptr), args.count, ggas_sum());
			return;
		case COLL_PROD:
			return reduce<T>(ggas_prod());
		case COLL_MIN:
			return reduce<T>(ggas_min());
		case COLL_MAX:
			return reduce<T>(ggas_max());
		}
	}

	template <class T> GGAS_FN void reduce_whole() const
	{
		switch (args.op) {
		case COLL_AND:
			return reduce<T>(ggas_and());
		case COLL_OR:
			return reduce<T>(ggas_or());
		case COLL_XOR:
			return reduce<T>(ggas_xor());
		default:
			return reduce<T>();
		}
	}

	GGAS_FN void reduce() const
	{
		switch (args.element) {
		case COLL_FLOAT:
			return reduce<float>();
		case COLL_DOUBLE:
			return reduce<double>();
		case COLL_INT32:
			return reduce_whole<int32_t>();
		case COLL_INT64:
			return reduce_whole<int64_t>();
		case COLL_HALF:
			return reduce<ggas_half>();
		case COLL_BFLOAT16:
			return reduce<ggas_bfloat16>();
		}
	}
};

GGAS_FN uint64_t size_of(uint32_t element)
{
	if (element == COLL_HALF || element == COLL_BFLOAT16)
		return 2;
	return element == COLL_FLOAT || element == COLL_INT32 ? 4 : 8;
}

} // namespace coll_start

GGAS_KERNEL_BOUND(ggas_collective, coll_started, 512)
{
	coll_start::call call(args);
	if (args.kind == COLL_BARRIER)
		ggas_barrier(call.group, ggas_order::release_acquire);
	else if (args.kind < COLL_REDUCE)
		call.move(args.count * coll_start::size_of(args.element));
	else
		call.reduce();
}
