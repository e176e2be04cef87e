// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels with a planted bug, which the executor has to catch; never in the GPU image.
#include "ggas/vocab.h"

#include "planted.h"

// Waits for a flag that nobody sets, and pauses: the launch's own timeout ends it.
GGAS_KERNEL(planted_unbounded_wait, planted_args)
{
	const uint64_t *flag = reinterpret_cast<const uint64_t *>(args.flag);
	ggas_wait wait(0, ~0ull, GGAS_WAIT_FLAG, 0);
	uint64_t seen;
	while ((seen = ggas_load_acquire(flag)) != 42)
		wait.again(flag, 42, seen);
}

// The same without a pause: no other thread of this OS thread can run. Thread 1 of block 0 is the culprit.
GGAS_KERNEL(planted_no_pause, planted_args)
{
	const uint64_t *flag = reinterpret_cast<const uint64_t *>(args.flag);
	if (ggas_thread() == 1 && ggas_block() == 0)
		while (ggas_load_acquire(flag) != 42) {
		}
	ggas_syncthreads();
}

// Half of the threads leave before the barrier.
GGAS_KERNEL(planted_divergent_exit, planted_args)
{
	if (ggas_thread() >= ggas_threads() / 2)
		return;
	ggas_syncthreads();
}

// Threads of one block at two different barriers.
GGAS_KERNEL(planted_divergent_barrier, planted_args)
{
	if (ggas_thread() % 2)
		ggas_syncthreads();
	else
		ggas_syncthreads();
}

// A lane named in the mask never comes: it waits at the block's barrier.
GGAS_KERNEL(planted_divergent_warp, planted_args)
{
	if (ggas_thread() == 3)
		ggas_syncthreads();
	else
		ggas_syncwarp();
	ggas_syncthreads();
}
