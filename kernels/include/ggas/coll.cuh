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
 *		error = ggas_allreduce(group, ggas_form::block, ggas_order::relaxed, in, out, count, ggas_sum());
 *	}
 *
 * Who calls. All nodes call the same collectives in the same order, with grids
 * of the same size. Functions with a ggas_form:
 *   block	one block per node, by all its threads with the same arguments;
 *		blocks of different numbers may make different collectives
 *   owned	all blocks of a grid that runs at once. Each works on a part of the
 *		vectors, which ggas_owned_part() names, with the blocks of the
 *		same number on the other nodes: it must have written that part of
 *		the input, and only it sees that part of the result
 *   shared	the same, and blocks meet after it: all see the result. Each must
 *		have written its part of the input, or all have met since
 *   grid	the same, and blocks meet before it: the input may come from any block
 * Others: functions without suffix are called by one block per node; their
 * _grid forms by all blocks of a node's grid, which meet first, then nodes
 * (hierarchical, thesis 6.7.1).
 *
 * Order. release_acquire: what any calling thread did before, local or remote,
 * is visible to every calling thread after. acquire or release: that half
 * only. relaxed: nodes meet, and nothing is said of other memory. Input and
 * result of a collective are ordered in any case; `order` speaks of everything else.
 * Where stores pass network cards a release loads from each node: a round trip more.
 *
 * Result, the same in all threads of a block: GGAS_OK; GGAS_ERR_TIMEOUT
 * (reported in ggas_group.report): the group is poisoned then; the members that
 * wait for this node see that and fail with GGAS_ERR_POISONED, and so does every
 * later collective until the host resets the group. GGAS_ERR_POISONED also where
 * a node is waited for whose process has left the job; GGAS_ERR_ARGUMENT.
 *
 * Elements are of 1, 2, 4 or 8 bytes; those of 16 bits, ggas_half and
 * ggas_bfloat16, are reduced in float and rounded once. Reductions go in the
 * order of ranks (but for the binomial tree), and all nodes get the same bits.
 */
#ifndef GGAS_COLL_CUH
#define GGAS_COLL_CUH

#include "ggas.cuh"
#include "impl/coll_area.h"
#include "impl/coll_team.h"
#include "impl/coll_types.h"

enum class ggas_form { block, owned, shared, grid };

/* How data go in a reduce or allreduce. The first two by packets, in all forms
 * (a reduce: in one shot); the five of thesis 6.8 through staging, in forms
 * block and grid. all_gather: allreduce only. */
enum class ggas_way { one_shot, two_shot, remote_read, gather, all_gather, tree, all_to_all };

#include "impl/coll_channel.h"
#include "impl/coll_packed.h"
#include "impl/coll_forms.h"
#include "impl/coll_window.h"
#include "impl/coll_window_others.h"
#include "impl/coll_barrier.h"
#include "impl/coll_staged.h"
#include "impl/coll_ways.h"

/* Nodes meet: nobody leaves before all have come. Says nothing of memory. */
GGAS_FN int ggas_sync(ggas_group *group, uint32_t line = __builtin_LINE())
{
	return ggas_impl::meet_nodes(group, ggas_order::relaxed, line);
}

/* Nodes meet, with `order`: every node tells all others directly. By blocks of
 * numbers below GGAS_CHANNELS, each with those of its number. */
GGAS_FN int ggas_barrier(ggas_group *group, ggas_order order, uint32_t line = __builtin_LINE())
{
	return ggas_impl::meet_nodes(group, order, line);
}
GGAS_FN int ggas_barrier_grid(ggas_group *group, ggas_order order, uint32_t line = __builtin_LINE())
{
	return ggas_impl::meet_grids(group, order, line);
}

/* The barrier of thesis 6.7: check-in flags lie on the master and are polled
 * by as many threads in parallel; check-out flags lie on each node. Fewer flags
 * than ggas_barrier, one more step. */
GGAS_FN int ggas_barrier_master(ggas_group *group, ggas_order order, uint32_t line = __builtin_LINE())
{
	ggas_impl::block_team team;
	return ggas_impl::barrier_master(team, group, order, line);
}
GGAS_FN int ggas_barrier_master_grid(ggas_group *group, ggas_order order, uint32_t line = __builtin_LINE())
{
	ggas_impl::grid_team team(group);
	return ggas_impl::barrier_master(team, group, order, line);
}

/* Waits for all blocks of this node's grid only. */
GGAS_FN int ggas_sync_grid(ggas_group *group, uint32_t line = __builtin_LINE())
{
	ggas_impl::grid_team team(group);
	return team.meet(ggas_impl::poisoned_before(group), line);
}

/* Elements [begin, end) of vectors of `count` that the calling block owns. */
template <class T> GGAS_FN ggas_impl::range ggas_owned_part(const ggas_group *group, uint64_t count)
{
	return ggas_impl::owned_elements<T>(group, count);
}

/* out[i] on every node = op over all nodes' in[i]. `out` may be `in`. Short
 * vectors in one step, longer ones in two (ggas_group.one_shot_bytes). */
template <class T, class Op>
GGAS_FN int ggas_allreduce(ggas_group *group, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
			   Op op, uint32_t line = __builtin_LINE())
{
	return ggas_impl::allreduce(group, form, order, in, out, count, op, group->one_shot_bytes, line);
}
/* The same for vectors that begin at multiples of 16 bytes in a window of the
 * same nodes, for long ones: read and written in place; `in` may be `out`, and
 * otherwise does not overlap it. By grids of at most GGAS_CHANNELS blocks;
 * ordered as release_acquire between the blocks of the same number. Results are
 * complete when all blocks have returned. The third pointer only names the type. */
template <class T, class Op>
GGAS_FN int ggas_allreduce_window(ggas_group *group, const ggas_window *window, uint64_t in_offset, uint64_t out_offset,
				  const T *, uint64_t count, Op op, uint32_t line = __builtin_LINE())
{
	uint32_t chunks = count * sizeof(T) < ggas_impl::by_writes_from ? 0 : ggas_impl::by_writes_chunks;
	return ggas_impl::allreduce_window<T>(group, window, in_offset, out_offset, count, op, chunks, line);
}
/* The same in a way that the caller names: 0: every node reads what it reduces; else all write it to each other, in so
 * many chunks that travel while others are reduced. */
template <class T, class Op>
GGAS_FN int ggas_allreduce_window_by(ggas_group *group, const ggas_window *window, uint32_t chunks, uint64_t in_offset,
				     uint64_t out_offset, const T *, uint64_t count, Op op,
				     uint32_t line = __builtin_LINE())
{
	return ggas_impl::allreduce_window<T>(group, window, in_offset, out_offset, count, op, chunks, line);
}

/*
 * Long vectors in a window of the same nodes, as ggas_allreduce_window: offsets
 * are multiples of 16, `in` and `out` do not overlap but where said, grids have
 * at most GGAS_CHANNELS blocks, results are complete when all blocks have
 * returned. Counts, and what becomes of the elements, are as below without
 * _window. Moves go by bytes: those of one node's elements.
 */
template <class T, class Op>
GGAS_FN int ggas_reduce_window(ggas_group *group, const ggas_window *window, uint32_t root, uint64_t in_offset,
			       uint64_t out_offset, const T *, uint64_t count, Op op, uint32_t line = __builtin_LINE())
{
	ggas_impl::window_call call(group, window, line);
	return ggas_impl::reduce_window<T>(call, { root, 1, call.nodes }, in_offset, out_offset, count, op);
}
template <class T, class Op>
GGAS_FN int ggas_reduce_scatter_window(ggas_group *group, const ggas_window *window, uint64_t in_offset,
				       uint64_t out_offset, const T *, uint64_t count, Op op,
				       uint32_t line = __builtin_LINE())
{
	ggas_impl::window_call call(group, window, line);
	return ggas_impl::reduce_scatter_window<T>(call, in_offset, out_offset, count, op);
}
GGAS_FN int ggas_broadcast_window(ggas_group *group, const ggas_window *window, uint32_t root, uint64_t offset,
				  uint64_t bytes, uint32_t line = __builtin_LINE())
{
	return ggas_impl::broadcast_window({ group, window, line }, root, offset, bytes);
}
/* `in_offset` may be that of this node's part of the result. */
GGAS_FN int ggas_all_gather_window(ggas_group *group, const ggas_window *window, uint64_t in_offset,
				   uint64_t out_offset, uint64_t bytes, uint32_t line = __builtin_LINE())
{
	return ggas_impl::all_gather_window({ group, window, line }, in_offset, out_offset, bytes);
}
GGAS_FN int ggas_all_to_all_window(ggas_group *group, const ggas_window *window, uint64_t in_offset,
				   uint64_t out_offset, uint64_t bytes, uint32_t line = __builtin_LINE())
{
	return ggas_impl::all_to_all_window({ group, window, line }, in_offset, out_offset, bytes);
}

/* out[i] on `root` = op over all nodes' in[i]; other nodes' `out` is not used. */
template <class T, class Op>
GGAS_FN int ggas_reduce(ggas_group *group, ggas_form form, ggas_order order, uint32_t root, const T *in, T *out,
			uint64_t count, Op op, uint32_t line = __builtin_LINE())
{
	return ggas_impl::reduce(group, form, order, root, in, out, count, op, line);
}

/* out[i] = op over all nodes' in[node * count + i], for `count` elements: each node gets its part. */
template <class T, class Op>
GGAS_FN int ggas_reduce_scatter(ggas_group *group, ggas_form form, ggas_order order, const T *in, T *out,
				uint64_t count, Op op, uint32_t line = __builtin_LINE())
{
	return ggas_impl::reduce_scatter(group, form, order, in, out, count, op, line);
}

/* data[i] on all nodes = data[i] on `root`. */
template <class T>
GGAS_FN int ggas_broadcast(ggas_group *group, ggas_form form, ggas_order order, uint32_t root, T *data, uint64_t count,
			   uint32_t line = __builtin_LINE())
{
	return ggas_impl::broadcast(group, form, order, root, data, count, line);
}

/* out[node * count + i] on all nodes = in[i] of that node. `in` may be this node's part of `out`. */
template <class T>
GGAS_FN int ggas_all_gather(ggas_group *group, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
			    uint32_t line = __builtin_LINE())
{
	return ggas_impl::all_gather(group, form, order, in, out, count, line);
}

/* out[node * count + i] = that node's in[this node * count + i]. `out` is not `in`. */
template <class T>
GGAS_FN int ggas_all_to_all(ggas_group *group, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
			    uint32_t line = __builtin_LINE())
{
	return ggas_impl::all_to_all(group, form, order, in, out, count, line);
}

/* The same by a way that the caller names. */
template <ggas_way Way, class T, class Op>
GGAS_FN int ggas_allreduce_by(ggas_group *group, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
			      Op op, uint32_t line = __builtin_LINE())
{
	if constexpr (Way == ggas_way::one_shot || Way == ggas_way::two_shot)
		return ggas_impl::allreduce(group, form, order, in, out, count, op,
					    Way == ggas_way::one_shot ? ~0ull : 0, line);
	else
		return ggas_impl::by_staged_way<Way>(group, form, order, 0, true, in, out, count, op, line);
}
template <ggas_way Way, class T, class Op>
GGAS_FN int ggas_reduce_by(ggas_group *group, ggas_form form, ggas_order order, uint32_t root, const T *in, T *out,
			   uint64_t count, Op op, uint32_t line = __builtin_LINE())
{
	static_assert(Way != ggas_way::two_shot && Way != ggas_way::all_gather, "no way to reduce to a root");
	if constexpr (Way == ggas_way::one_shot)
		return ggas_impl::reduce(group, form, order, root, in, out, count, op, line);
	else
		return ggas_impl::by_staged_way<Way>(group, form, order, root, false, in, out, count, op, line);
}

#endif /* GGAS_COLL_CUH */
