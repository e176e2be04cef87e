// SPDX-License-Identifier: MIT OR Apache-2.0
#include "ggas/vocab.h"

#include "args.h"

// out[global thread] = threads in the grid, counted by atomics and met grid-wide.
GGAS_KERNEL(ggas_selftest_threads, ggas_selftest_args)
{
	uint64_t *out = reinterpret_cast<uint64_t *>(args.out);
	uint64_t *counter = reinterpret_cast<uint64_t *>(args.counter);
	uint64_t everyone = static_cast<uint64_t>(ggas_blocks()) * ggas_threads(), seen;

	ggas_atomic_add(counter, 1u, ggas_order::release_acquire);
	ggas_wait wait(args.report, args.timeout_ns, GGAS_WAIT_GRID, 0);
	while ((seen = ggas_load_acquire(counter)) < everyone)
		if (wait.again(counter, everyone, seen))
			return;
	out[static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread()] = seen;
}
