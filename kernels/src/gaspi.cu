// SPDX-License-Identifier: MIT OR Apache-2.0
// A write between segments in GPU memory that the host posts: by stores, over NVLink to another GPU's.
#include "ggas/put.cuh"

#include "args.h"

GGAS_KERNEL(ggas_gaspi_store, gaspi_store)
{
	uint32_t self = ggas_block() * ggas_threads() + ggas_thread(), all = ggas_blocks() * ggas_threads();
	ggas_impl::copy_share(reinterpret_cast<void *>(args.to), reinterpret_cast<const void *>(args.from), args.bytes,
			      self, all);
	if (!args.word)
		return;
	ggas_syncthreads();
	if (ggas_thread() == 0) {
		ggas_fence_system();
		ggas_store_release(reinterpret_cast<uint64_t *>(args.word), args.value);
	}
}
