/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The copy unit of a multiprocessor (sm_90): whole blocks of memory by way of shared memory, by one thread; included
 * by vocab_cuda.h. */
#ifndef GGAS_IMPL_VOCAB_CUDA_BULK_H
#define GGAS_IMPL_VOCAB_CUDA_BULK_H

/* Parts accesses of this thread from those of the engine. */
GGAS_FN void ggas_fence_bulk()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("fence.proxy.async;" ::: "memory");
#else
	asm volatile("" ::: "memory");
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GGAS_HAS_BULK 1
namespace ggas_impl
{
GGAS_FN uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

GGAS_FN void bulk_begin(uint64_t *arrival)
{
	asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(arrival)) : "memory");
}
GGAS_FN void bulk_end(uint64_t *arrival)
{
	asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(arrival)) : "memory");
}
/* Begins to load; addresses and `bytes` are multiples of 16. */
GGAS_FN void bulk_load(void *shared, const void *from, uint32_t bytes, uint64_t *arrival)
{
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrival)), "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
			     shared_address(shared)),
		     "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(arrival))
		     : "memory");
}
/* Waits for the load that completes this phase: 0, then 1, then 0 again. */
GGAS_FN void bulk_loaded(uint64_t *arrival, uint32_t phase)
{
	uint32_t done;
	do
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
			     : "=r"(done)
			     : "r"(shared_address(arrival)), "r"(phase)
			     : "memory");
	while (!done);
}
GGAS_FN void bulk_store(void *to, const void *shared, uint32_t bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\tcp.async.bulk.commit_group;" ::"l"(
			     __cvta_generic_to_global(to)),
		     "r"(shared_address(shared)), "r"(bytes)
		     : "memory");
}
/* All stores but the last have left shared memory. */
GGAS_FN void bulk_one_left() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }
/* All stores are performed. */
GGAS_FN void bulk_stored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
} /* namespace ggas_impl */
#endif

#endif /* GGAS_IMPL_VOCAB_CUDA_BULK_H */
