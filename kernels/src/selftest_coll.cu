// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that check coll.cuh on whatever runs them. A grid of one block calls
// the block forms, a larger one the grid forms.
#include "ggas/coll.cuh"

#include "args.h"

namespace coll_checks
{

// Before barrier k a node's counter is k; after it nobody's is less.
GGAS_FN int barriers(const selftest_coll &args, ggas_group *group)
{
	uint32_t thread = ggas_block() * ggas_threads() + ggas_thread(), threads = ggas_blocks() * ggas_threads();
	for (uint64_t round = 1; round <= args.rounds; round++) {
		if (thread == threads - 1)
			*reinterpret_cast<uint64_t *>(args.input + group->node * args.input_stride) = round;
		int error = ggas_blocks() == 1 ? ggas_barrier(group, ggas_order::release_acquire) :
						 ggas_barrier_grid(group, ggas_order::release_acquire);
		if (error)
			return error;
		for (uint32_t node = thread; node < group->nodes; node += threads)
			if (*reinterpret_cast<const uint64_t *>(args.input + node * args.input_stride) < round)
				ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), 1u, ggas_order::relaxed);
		// Nobody may write the next round before all have looked.
		error = ggas_blocks() == 1 ? ggas_barrier(group, ggas_order::release_acquire) :
					     ggas_barrier_grid(group, ggas_order::release_acquire);
		if (error)
			return error;
	}
	return GGAS_OK;
}

template <class T> GGAS_FN int reductions(const selftest_coll &args, ggas_group *group)
{
	const T *in = reinterpret_cast<const T *>(args.input);
	T *out = reinterpret_cast<T *>(args.out);
	const ggas_order order = ggas_order::relaxed;
	bool grid = ggas_blocks() > 1;
	for (uint32_t round = 0; round < args.rounds; round++) {
		int error;
		switch (args.method) {
		case SELFTEST_REDUCE:
			error = grid ? ggas_reduce_grid(group, order, args.root, in, out, args.count, ggas_sum()) :
				       ggas_reduce(group, order, args.root, in, out, args.count, ggas_sum());
			break;
		case SELFTEST_ALL_GATHER:
			error = grid ? ggas_allreduce_all_gather_grid(group, order, in, out, args.count, ggas_sum()) :
				       ggas_allreduce_all_gather(group, order, in, out, args.count, ggas_sum());
			break;
		default:
			error = grid ? ggas_allreduce_all_to_all_grid(group, order, in, out, args.count, ggas_sum()) :
				       ggas_allreduce_all_to_all(group, order, in, out, args.count, ggas_sum());
		}
		if (error)
			return error;
	}
	return GGAS_OK;
}

GGAS_FN int run(const selftest_coll &args)
{
	ggas_group *group = reinterpret_cast<ggas_group *>(args.group);
	if (args.skip)
		return GGAS_OK;
	if (args.method == SELFTEST_BARRIER)
		return barriers(args, group);
	switch (args.element) {
	case SELFTEST_FLOAT:
		return reductions<float>(args, group);
	case SELFTEST_DOUBLE:
		return reductions<double>(args, group);
	case SELFTEST_INT32:
		return reductions<int32_t>(args, group);
	default:
		return reductions<int64_t>(args, group);
	}
}

} // namespace coll_checks

GGAS_KERNEL(ggas_selftest_coll, selftest_coll)
{
	if (int error = coll_checks::run(args))
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
