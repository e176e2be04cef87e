/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Collectives over GGAS (thesis 6.7, 6.8). Push only: every wait polls local
 * memory, every flag has one writer and only grows.
 *
 *	GGAS_KERNEL(step, step_args)
 *	{
 *		ggas_group *group = reinterpret_cast<ggas_group *>(args.group);
 *		...
 *		if (int error = ggas_barrier(group, ggas_order::release_acquire))
 *			return;
 *		error = ggas_allreduce_all_to_all(group, ggas_order::release_acquire, in, out, count, ggas_sum());
 *	}
 *
 * Who calls. Functions without suffix are called by one block per node, by all
 * its threads with the same arguments. Their _grid forms are called by all
 * threads of all blocks of a node's grid, which must all run at once: blocks
 * meet first, then nodes (hierarchical, thesis 6.7.1). All nodes call the same
 * collectives in the same order.
 *
 * Order. release_acquire: what any calling thread did before, local or remote,
 * is visible to every calling thread after. acquire or release: that half
 * only. relaxed: nodes meet, and nothing is said of other memory. The data of
 * reductions is ordered in any case; `order` speaks of everything else.
 *
 * Result, the same in all threads that called: GGAS_OK; GGAS_ERR_TIMEOUT
 * (reported in ggas_group.report): the group is poisoned then; the members that
 * wait for this node see that and fail with GGAS_ERR_POISONED, and so does every
 * later collective until the host resets the group; GGAS_ERR_ARGUMENT.
 *
 * Sums are made in the order of ranks on every node: all nodes get the same bits.
 */
#ifndef GGAS_COLL_CUH
#define GGAS_COLL_CUH

#include "ggas.cuh"
#include "impl/coll_area.h"
#include "impl/coll_team.h"

/* Operations: any functor with T operator()(T, T) that is associative. */
struct ggas_sum {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a + b; }
};
struct ggas_min {
	template <class T> GGAS_FN T operator()(T a, T b) const { return b < a ? b : a; }
};
struct ggas_max {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a < b ? b : a; }
};

#include "impl/coll_barrier.h"
#include "impl/coll_reduce.h"

/* Waits until all nodes of the group have called. Check-in flags lie on the
 * master and are polled by as many threads in parallel; check-out flags lie on
 * each node (thesis 6.7). */
GGAS_FN int ggas_barrier(ggas_group *group, ggas_order order, uint32_t line = __builtin_LINE())
{
	return ggas_impl::barrier(ggas_impl::block_team(), group, order, line);
}
GGAS_FN int ggas_barrier_grid(ggas_group *group, ggas_order order, uint32_t line = __builtin_LINE())
{
	return ggas_impl::barrier(ggas_impl::grid_team(group), group, order, line);
}

/* Waits for all blocks of this node's grid only. */
GGAS_FN int ggas_sync_grid(ggas_group *group, uint32_t line = __builtin_LINE())
{
	return ggas_impl::grid_team(group).meet(GGAS_OK, line);
}

/* out[i] on `root` = op over all nodes' in[i], for `count` elements; gathered on
 * the root, which reduces (thesis 6.8.2). `out` may be `in`; other nodes' `out`
 * is not used. Other nodes return once their data is on its way. */
template <class T, class Op>
GGAS_FN int ggas_reduce(ggas_group *group, ggas_order order, uint32_t root, const T *in, T *out, uint64_t count, Op op,
			uint32_t line = __builtin_LINE())
{
	return ggas_impl::reduce_gather(ggas_impl::block_team(), group, order, root, in, out, count, op, line);
}
template <class T, class Op>
GGAS_FN int ggas_reduce_grid(ggas_group *group, ggas_order order, uint32_t root, const T *in, T *out, uint64_t count,
			     Op op, uint32_t line = __builtin_LINE())
{
	return ggas_impl::reduce_gather(ggas_impl::grid_team(group), group, order, root, in, out, count, op, line);
}

/* out[i] on every node = op over all nodes' in[i]. All-gather: every node sends
 * everything to all and reduces for itself; one synchronisation, for short
 * vectors (thesis 6.8.2). */
template <class T, class Op>
GGAS_FN int ggas_allreduce_all_gather(ggas_group *group, ggas_order order, const T *in, T *out, uint64_t count, Op op,
				      uint32_t line = __builtin_LINE())
{
	return ggas_impl::allreduce_all_gather(ggas_impl::block_team(), group, order, in, out, count, op, line);
}
template <class T, class Op>
GGAS_FN int ggas_allreduce_all_gather_grid(ggas_group *group, ggas_order order, const T *in, T *out, uint64_t count,
					   Op op, uint32_t line = __builtin_LINE())
{
	return ggas_impl::allreduce_all_gather(ggas_impl::grid_team(group), group, order, in, out, count, op, line);
}

/* The same result by work sharing: each node reduces its part of the vector,
 * sent to it by all, and sends the result to all; for long vectors (thesis 6.8.3). */
template <class T, class Op>
GGAS_FN int ggas_allreduce_all_to_all(ggas_group *group, ggas_order order, const T *in, T *out, uint64_t count, Op op,
				      uint32_t line = __builtin_LINE())
{
	return ggas_impl::allreduce_all_to_all(ggas_impl::block_team(), group, order, in, out, count, op, line);
}
template <class T, class Op>
GGAS_FN int ggas_allreduce_all_to_all_grid(ggas_group *group, ggas_order order, const T *in, T *out, uint64_t count,
					   Op op, uint32_t line = __builtin_LINE())
{
	return ggas_impl::allreduce_all_to_all(ggas_impl::grid_team(group), group, order, in, out, count, op, line);
}

#endif /* GGAS_COLL_CUH */
