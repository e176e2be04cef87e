/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* nvcc back end of vocab.h: with the files that it includes, all inline PTX of the suite. Every statement clobbers
 * memory, so that plain accesses never move across it. */
#ifndef GGAS_IMPL_VOCAB_CUDA_H
#define GGAS_IMPL_VOCAB_CUDA_H

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "kernels of this suite need sm_80 or later"
#endif

#define GGAS_NO_UNROLL _Pragma("unroll 1")
#define GGAS_FN __device__ __forceinline__
/* Rarely taken: kept out of line, so that it costs the fast path no registers. */
#define GGAS_COLD __device__ __noinline__ inline
/* Too long to stand at each of its calls: kernels that make many of them would take minutes to compile. What a call keeps for
 * its caller lies in local memory, which an acquire drops from the multiprocessor's cache: not where 0.1 us matter. */
#define GGAS_LONG __device__ __noinline__ inline
/* Hardly ever true: what follows is laid out behind everything else. A thread alone pays for each jump over code that it
 * does not run, as instructions are fetched a few at a time. */
#define GGAS_RARE(condition) (__builtin_expect(!!(condition), 0))
/* Launched with blocks of at most `threads`, which bounds the registers of each. */
#define GGAS_KERNEL_BOUND(name, args_type, threads)                                                                    \
	extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ args_type args)
#define GGAS_KERNEL(name, args_type) GGAS_KERNEL_BOUND(name, args_type, 1024)
/* Before a loop: all its rounds in a row. */
#define GGAS_UNROLL _Pragma("unroll")
#define GGAS_SHARED(type, name) __shared__ type name
#define GGAS_SHARED_ARRAY(type, name, count) __shared__ type name[count]

namespace ggas_impl
{

template <size_t Size> struct memory;

#define GGAS_DEFINE_MEMORY(size, word_type, suffix, constraint)                                                        \
	template <> struct memory<size> {                                                                              \
		using word = word_type;                                                                                \
		GGAS_FN static word load_relaxed(const void *p)                                                        \
		{                                                                                                      \
			word v;                                                                                        \
			asm volatile("ld.relaxed.sys." suffix " %0, [%1];" : constraint(v) : "l"(p) : "memory");       \
			return v;                                                                                      \
		}                                                                                                      \
		GGAS_FN static word load_acquire(const void *p)                                                        \
		{                                                                                                      \
			word v;                                                                                        \
			asm volatile("ld.acquire.sys." suffix " %0, [%1];" : constraint(v) : "l"(p) : "memory");       \
			return v;                                                                                      \
		}                                                                                                      \
	}
GGAS_DEFINE_MEMORY(4, uint32_t, "b32", "=r");
GGAS_DEFINE_MEMORY(8, uint64_t, "b64", "=l");
#undef GGAS_DEFINE_MEMORY

GGAS_FN void store_relaxed(void *p, uint32_t v)
{
	asm volatile("st.relaxed.sys.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
GGAS_FN void store_relaxed(void *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
GGAS_FN void store_release(void *p, uint32_t v)
{
	asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
GGAS_FN void store_release(void *p, uint64_t v)
{
	asm volatile("st.release.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

template <class To, class From> GGAS_FN To bits(From from)
{
	static_assert(sizeof(To) == sizeof(From), "bits: sizes differ");
	To to;
	memcpy(&to, &from, sizeof(to));
	return to;
}

/* Memory that is mapped: vocab_cuda_trap.h decides whether it is. */
template <class T> GGAS_FN T near_load_relaxed(const T *p)
{
	return bits<T>(memory<sizeof(T)>::load_relaxed(p));
}
template <class T> GGAS_FN T near_load_acquire(const T *p)
{
	return bits<T>(memory<sizeof(T)>::load_acquire(p));
}
template <class T> GGAS_FN void near_store_relaxed(T *p, T v)
{
	store_relaxed(p, bits<typename memory<sizeof(T)>::word>(v));
}
template <class T> GGAS_FN void near_store_release(T *p, T v)
{
	store_release(p, bits<typename memory<sizeof(T)>::word>(v));
}

template <> GGAS_FN uint8_t near_load_relaxed(const uint8_t *p)
{
	uint32_t v;
	asm volatile("ld.relaxed.sys.b8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return static_cast<uint8_t>(v);
}

/* 16 bytes in one access: .b128 (PTX 8.3, sm_70); .v4 is not single-copy atomic. */
#define GGAS_DEFINE_LOAD128(order)                                                                                     \
	template <> GGAS_FN ggas_u128 near_load_##order(const ggas_u128 *p)                                            \
	{                                                                                                              \
		ggas_u128 v;                                                                                           \
		asm volatile("{ .reg .b128 t; ld." #order ".sys.b128 t, [%2]; mov.b128 {%0, %1}, t; }"                 \
			     : "=l"(v.lo), "=l"(v.hi)                                                                  \
			     : "l"(p)                                                                                  \
			     : "memory");                                                                              \
		return v;                                                                                              \
	}
#define GGAS_DEFINE_STORE128(order)                                                                                    \
	template <> GGAS_FN void near_store_##order(ggas_u128 *p, ggas_u128 v)                                         \
	{                                                                                                              \
		asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2}; st." #order ".sys.b128 [%0], t; }" ::"l"(p),      \
			     "l"(v.lo), "l"(v.hi)                                                                      \
			     : "memory");                                                                              \
	}
GGAS_DEFINE_LOAD128(relaxed)
GGAS_DEFINE_LOAD128(acquire)
GGAS_DEFINE_STORE128(relaxed)
GGAS_DEFINE_STORE128(release)
#undef GGAS_DEFINE_LOAD128
#undef GGAS_DEFINE_STORE128

} /* namespace ggas_impl */

template <class T> struct ggas_same {
	using type = T;
};

GGAS_FN void ggas_store_mmio(uint64_t *p, uint64_t v)
{
	/* .mmio wants the global state space. */
	asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v) : "memory");
}
GGAS_FN void ggas_store_mmio(uint32_t *p, uint32_t v)
{
	asm volatile("st.mmio.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(v) : "memory");
}

GGAS_FN uint64_t ggas_load_mmio(const uint64_t *p)
{
	uint64_t v;
	asm volatile("ld.mmio.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(__cvta_generic_to_global(p)) : "memory");
	return v;
}

GGAS_FN void ggas_fence_system()
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

GGAS_FN void ggas_fence_sequential()
{
	asm volatile("fence.sc.sys;" ::: "memory");
}

GGAS_FN void ggas_fence_acquire()
{
	asm volatile("fence.acquire.sys;" ::: "memory");
}
GGAS_FN void ggas_fence_release()
{
	asm volatile("fence.release.sys;" ::: "memory");
}
#include "vocab_cuda_atomics.h"
#include "vocab_cuda_bulk.h"

/* Latency first: no sleep while an answer is likely at any moment. */
GGAS_FN void ggas_pause(uint32_t attempt = 1)
{
	if (attempt > 4096)
		__nanosleep(256);
	else if (attempt > 256)
		__nanosleep(32);
}

/* Only the executor knows which blocks have not started. */
GGAS_FN uint32_t ggas_unstarted() { return 0; }

/* Only the executor can show what a running thread waits for. */
GGAS_FN void ggas_show_wait(uint32_t, uint32_t, uint32_t, uint64_t, uint64_t, uint64_t)
{
}

GGAS_FN uint64_t ggas_time_ns()
{
	uint64_t ns;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
	return ns;
}
GGAS_FN uint64_t ggas_ticks()
{
	return static_cast<uint64_t>(clock64());
}

GGAS_FN uint32_t ggas_thread() { return threadIdx.x; }
GGAS_FN uint32_t ggas_threads() { return blockDim.x; }
GGAS_FN uint32_t ggas_block() { return blockIdx.x; }
GGAS_FN uint32_t ggas_blocks() { return gridDim.x; }

GGAS_FN void ggas_syncthreads() { __syncthreads(); }
GGAS_FN bool ggas_syncthreads_or(bool predicate) { return __syncthreads_or(predicate) != 0; }
GGAS_FN void ggas_syncwarp(uint32_t mask = GGAS_FULL_WARP) { __syncwarp(mask); }
/* The hardware has the counter. */
GGAS_FN void ggas_meet(ggas_meeting *, uint32_t id, uint32_t warps)
{
	asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(warps * GGAS_WARP_SIZE) : "memory");
}
GGAS_FN uint32_t ggas_ballot(uint32_t mask, bool predicate) { return __ballot_sync(mask, predicate); }
template <class T> GGAS_FN T ggas_shfl(uint32_t mask, T v, uint32_t lane) { return __shfl_sync(mask, v, lane); }
template <class T> GGAS_FN T ggas_shfl_down(uint32_t mask, T v, uint32_t delta)
{
	return __shfl_down_sync(mask, v, delta);
}
template <class T> GGAS_FN T ggas_shfl_xor(uint32_t mask, T v, uint32_t lanes)
{
	return __shfl_xor_sync(mask, v, lanes);
}

GGAS_FN uint32_t ggas_popc(uint32_t bits) { return static_cast<uint32_t>(__popc(bits)); }
GGAS_FN uint32_t ggas_first(uint32_t bits) { return static_cast<uint32_t>(__ffs(static_cast<int>(bits)) - 1); }

GGAS_FN uint32_t ggas_lane() { return ggas_thread() % GGAS_WARP_SIZE; }
GGAS_FN uint32_t ggas_warp() { return ggas_thread() / GGAS_WARP_SIZE; }
GGAS_FN uint32_t ggas_warps() { return (ggas_threads() + GGAS_WARP_SIZE - 1) / GGAS_WARP_SIZE; }

/* Order and visibility within one GPU only. */
GGAS_FN uint64_t ggas_load_watched_gpu(const uint64_t *p)
{
	uint64_t v;
	asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
GGAS_FN void ggas_red_add_release_gpu(uint64_t *p, uint64_t v)
{
	asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v) : "memory");
}
GGAS_FN uint64_t ggas_atomic_add_gpu(uint64_t *p, uint64_t v)
{
	uint64_t old;
	asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(__cvta_generic_to_global(p)), "l"(v)
		     : "memory");
	return old;
}
GGAS_FN uint64_t ggas_atomic_cas_gpu(uint64_t *p, uint64_t expected, uint64_t desired)
{
	uint64_t old;
	asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(__cvta_generic_to_global(p)), "l"(expected), "l"(desired)
		     : "memory");
	return old;
}
GGAS_FN void ggas_fence_acquire_gpu()
{
	asm volatile("fence.acquire.gpu;" ::: "memory");
}
GGAS_FN void ggas_fence_gpu()
{
	asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
template <class T> GGAS_FN T ggas_load_block(const T *p)
{
	return *static_cast<const volatile T *>(p);
}
/* May be as old as what the multiprocessor's cache holds. */
GGAS_FN uint32_t ggas_load_near(const uint32_t *p)
{
	uint32_t v;
	asm volatile("ld.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}
GGAS_FN uint64_t ggas_load_near(const uint64_t *p)
{
	uint64_t v;
	asm volatile("ld.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

GGAS_FN float ggas_half_to_float(uint16_t bits)
{
	float value;
	asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
	return value;
}
GGAS_FN uint16_t ggas_float_to_half(float value)
{
	uint16_t bits;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
	return bits;
}

#include "vocab_cuda_trap.h"

#endif /* GGAS_IMPL_VOCAB_CUDA_H */
