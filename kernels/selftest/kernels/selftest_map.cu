// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads and stores by a map of the runtime (userlib/hpe): each word gets one more, whatever device has it.
#include "ggas/hpe.cuh"

#include "selftest.h"

GGAS_KERNEL(ggas_selftest_map, selftest_map)
{
	ggas_hpe<> memory(*reinterpret_cast<const ggas_hpe_map *>(args.map));
	uint64_t *words = reinterpret_cast<uint64_t *>(args.words);
	const uint64_t threads = uint64_t(ggas_blocks()) * ggas_threads();
	for (uint64_t i = uint64_t(ggas_block()) * ggas_threads() + ggas_thread(); i < args.count; i += threads)
		memory.store(words + i, memory.load(words + i) + 1);
	memory.end();
}
