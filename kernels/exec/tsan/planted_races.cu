// SPDX-License-Identifier: MIT OR Apache-2.0
// The races that a strongly ordered CPU hides and ThreadSanitizer must find,
// each next to the correct form of the same kernel.
#include "ggas/coll.cuh"

struct race_args {
	uint64_t values;	// uint64_t per thread
	uint64_t flag;
	uint64_t sum;
	uint32_t planted;	// 1: with the bug
};

// Every thread writes its value, thread 0 adds them up. The bug: no barrier between.
GGAS_KERNEL(race_barrier, race_args)
{
	uint64_t *values = reinterpret_cast<uint64_t *>(args.values);
	values[ggas_thread()] = ggas_thread();
	if (!args.planted)
		ggas_syncthreads();
	if (ggas_thread() == 0)
		for (uint32_t i = 0; i < ggas_threads(); i++)
			*reinterpret_cast<uint64_t *>(args.sum) += values[i];
}

// Block 0 hands a value to block 1 by a flag. The bug: the flag is stored relaxed.
GGAS_KERNEL(race_release, race_args)
{
	uint64_t *value = reinterpret_cast<uint64_t *>(args.values);
	uint64_t *flag = reinterpret_cast<uint64_t *>(args.flag);
	if (ggas_block() == 0) {
		*value = 42;
		if (args.planted)
			ggas_store_relaxed(flag, 1u);
		else
			ggas_store_release(flag, 1u);
		return;
	}
	ggas_wait wait(0, 10'000'000'000, GGAS_WAIT_FLAG, 0);
	while (ggas_load_acquire(flag) == 0)
		if (wait.again(flag, 1, 0))
			return;
	*reinterpret_cast<uint64_t *>(args.sum) = *value;
}
