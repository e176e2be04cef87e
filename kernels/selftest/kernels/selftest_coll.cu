// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks coll.cuh: barriers, and collectives of floats.
#include "selftest_coll.cuh"

namespace coll_checks
{

GGAS_FN int meet(const selftest_coll &args, ggas_group *group)
{
	const auto order = args.method == SELFTEST_SYNC ? ggas_order::relaxed : ggas_order::release_acquire;
	bool grid = ggas_blocks() > 1;
	if (args.method == SELFTEST_BARRIER_MASTER)
		return grid ? ggas_barrier_master_grid(group, order) : ggas_barrier_master(group, order);
	return grid ? ggas_barrier_grid(group, order) : ggas_barrier(group, order);
}

// Before barrier k a node's counter is k, and so is one that it has at the next node; after it nobody's is less. A sync
// orders no memory, so its counters are read and written as flags are, and are the own ones only.
GGAS_FN int barriers(const selftest_coll &args, ggas_group *group)
{
	uint32_t thread = ggas_block() * ggas_threads() + ggas_thread(), threads = ggas_blocks() * ggas_threads();
	bool plain = args.method != SELFTEST_SYNC;
	for (uint64_t round = 1; round <= args.rounds; round++) {
		auto *own = reinterpret_cast<uint64_t *>(args.input + group->node * args.input_stride);
		uint64_t next = args.input + (group->node + 1) % group->nodes * args.input_stride;
		if (thread == threads - 1 && plain) {
			ggas_write(own, round);
			ggas_write(reinterpret_cast<uint64_t *>(next) + 1, round);
		}
		if (thread == threads - 1 && !plain) {
			ggas_store_relaxed(own, round);
			ggas_fence_system();
		}
		if (int error = meet(args, group))
			return error;
		for (uint32_t node = thread; node < group->nodes; node += threads) {
			auto *at = reinterpret_cast<const uint64_t *>(args.input + node * args.input_stride);
			uint64_t seen = plain ? ggas_read(at) : ggas_load_acquire(at);
			if (seen < round || (plain && ggas_read(at + 1) < round))
				ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), 1u, ggas_order::relaxed);
		}
		// Nobody may write the next round before all have looked.
		if (int error = meet(args, group))
			return error;
	}
	return GGAS_OK;
}

} // namespace coll_checks

GGAS_KERNEL_BOUND(ggas_selftest_coll, selftest_coll, 256)
{
	if (args.skip)
		return;
	bool meets = args.method <= SELFTEST_BARRIER_MASTER;
	coll_checks::tell(args, meets ? coll_checks::barriers(args, reinterpret_cast<ggas_group *>(args.group)) :
					coll_checks::typed<float>(args));
}
