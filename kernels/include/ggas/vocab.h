/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The vocabulary of device code (design section 5): every operation of a
 * kernel that is not plain C++ is named here, and nowhere else. Two back ends:
 *
 *   impl/vocab_cuda*.h  nvcc 13.0, sm_80 and later; all inline PTX of the suite
 *   impl/vocab_host.h   host C++20: the CPU executor (fibers), and the same
 *                       header again with one thread per CUDA thread for
 *                       ThreadSanitizer
 *
 * Rules for kernel authors:
 *   - memory that another block, process, device or NIC may touch at the same
 *     time is accessed by the load, store and atomic functions below; plain
 *     accesses are ordered by an acquire or release on some flag;
 *   - every loop that waits calls ggas_pause(), or better uses a ggas_wait,
 *     which also bounds the wait and reports it;
 *   - ordering stands in the name or in a ggas_order argument;
 *   - block-shared memory is declared with GGAS_SHARED, because `__shared__`
 *     variables of the executor would be shared by all blocks;
 *   - grids and blocks have one dimension.
 *
 * Functions (T: a trivial type of 4, 8 or 16 bytes, naturally aligned):
 *
 *   T    ggas_load_relaxed(const T *p)        T ggas_load_acquire(const T *p)
 *   void ggas_store_relaxed(T *p, T v)     void ggas_store_release(T *p, T v)
 *        System scope, single-copy atomic. 16 bytes take ggas_u128.
 *   T    ggas_read(const T *p)    void ggas_write(T *p, T v)
 *        Plain accesses of 1 to 16 bytes to memory that may be another node's: what C++ does, but they reach trapped
 *        windows of the executor (impl/exec.h), too, as all of these functions do.
 *   ggas_u128 ggas_load_entry(const ggas_u128 *p)
 *        An entry of a queue, whose high word is written last: where that is new, so is the low one. Acquire.
 *   uint64_t ggas_watch_entry(const ggas_u128 *p)   its high word, as a look of a poll; ggas_u128 ggas_watch_line(p)   both:
 *   T    ggas_load_watched(const T *p)    void ggas_fence_acquire()
 *        Looks of a poll, and the fence behind the last one, which makes acquires of them: 4 or 8 bytes.
 *   void ggas_fence_release()    void ggas_store_fenced(T *p, T v)
 *        The same for a release: the fence, while something else is on its way, and later stores, 4 or 8 bytes.
 *   T    ggas_atomic_{add,exch,and,or,xor,min,max}(T *p, T v, ggas_order)
 *   T    ggas_atomic_cas(T *p, T expected, T desired, ggas_order)
 *        System scope, 4 or 8 bytes; return the old value. Bits, exch and cas: of numbers without a sign. Not on
 *        block-shared memory: a GPU ends the kernel with "illegal address".
 *   void ggas_red_{add,and,or,xor,min,max}(T *p, T v, ggas_order)
 *        The same without a result, relaxed or release: nobody answers.
 *   uint64_t ggas_load_watched_gpu(const uint64_t *p)   void ggas_red_add_release_gpu(uint64_t *p, uint64_t v)
 *   uint64_t ggas_atomic_add_gpu(uint64_t *p, uint64_t v)    returns the old value; a release and an acquire
 *   uint64_t ggas_atomic_cas_gpu(uint64_t *p, expected, desired)    the same
 *   void ggas_fence_acquire_gpu()   void ggas_fence_gpu()
 *        Between blocks of one GPU only.
 *   T    ggas_load_block(const T *p)    relaxed
 *   T    ggas_atomic_add_block(T *p, T v, ggas_order)    T ggas_atomic_cas_block(T *p, expected, desired, ggas_order)
 *        Between threads of a block only, on block-shared memory; uint32_t or uint64_t.
 *   T    ggas_load_near(const T *p)
 *        4 or 8 bytes; may be as old as what the multiprocessor cached.
 *   float ggas_half_to_float(uint16_t bits)   uint16_t ggas_float_to_half(float)
 *   void ggas_store_mmio(uint64_t *p, uint64_t v)
 *        One store to a device register, of 8 bytes or, for a uint32_t, of 4: never merged, torn or repeated.
 *   uint64_t ggas_load_mmio(const uint64_t *p)
 *   void ggas_fence_system()    a release of everything before and an acquire for everything after; a load
 *        after it may still overtake a store before it
 *   void ggas_settle()    the same, and this thread's stores and reductions are performed, in trapped windows of the executor too
 *   bool ggas_access_failed()    an access that the host made for kernels of this GPU failed, to a node that is gone: what is loaded
 *        from other hosts are ones from now on, and waits fail. For loops without waits. On the executor such an access ends the launch.
 *   void ggas_fence_sequential()    orders everything before with everything after, that too
 *   void ggas_fence_bulk()    parts this thread's accesses from bulk copies (cp.async.bulk, TMA) that it begins after
 *        it, or has waited for before it: these go another way to memory (the async proxy), which no acquire and no
 *        release reaches. Whoever got data by a wait or a get and hands them to such a copy calls it between the two,
 *        in the thread that begins the copy; whoever overwrites what one has read, in front of that. It orders
 *        nothing for others, so a release stays a release. One instruction, which waits for this thread's accesses;
 *        nothing on the CPU executor and before sm_90, which have no such copies.
 *   void ggas_pause(attempt)    one round of a wait loop
 *   uint32_t ggas_unstarted()   blocks of the grid that have not started, where that is known
 *   uint64_t ggas_time_ns()     ggas_ticks()
 *   ggas_thread() ggas_threads() ggas_block() ggas_blocks() ggas_lane() ggas_warp() ggas_warps()
 *   ggas_syncthreads() ggas_syncthreads_or(predicate) ggas_syncwarp(mask)
 *   ggas_meet(&meeting, id, warps)   a barrier of that many warps of a block, all of whose threads call: the same number
 *        at every round. Barriers of a block have an `id` each, 1 to 15, and a block-shared ggas_meeting of zeroes.
 *   ggas_block_status(status)   a barrier; some non-zero status of the block's threads, or 0
 *   ggas_shfl(mask, v, lane) ggas_shfl_down(mask, v, delta) ggas_shfl_xor(mask, v, bits)
 *   ggas_ballot(mask, predicate)   ggas_popc(bits)   ggas_first(bits): number of the lowest bit, of some
 */
#ifndef GGAS_VOCAB_H
#define GGAS_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/* Memory order of an operation; release_acquire for read-modify-write and for
 * collectives (what was written before is visible to whoever comes after). */
enum class ggas_order { relaxed, acquire, release, release_acquire };

/* Two words that are loaded or stored as one. */
struct alignas(16) ggas_u128 {
	uint64_t lo, hi;
};

/* Where some warps of a block meet (ggas_meet). */
struct ggas_meeting {
	uint64_t came;
};

#define GGAS_WARP_SIZE 32u
#define GGAS_FULL_WARP 0xffffffffu

#if defined(__CUDACC__)
#include "impl/vocab_cuda.h"
#else
#include "impl/vocab_host.h"
#endif

GGAS_FN ggas_u128 ggas_load_entry(const ggas_u128 *p)
{
#if defined(__CUDACC__)
	/* A poll that acquires empties the cache at every look. */
	ggas_u128 entry = ggas_load_relaxed(p);
	if (entry.hi != 0)
		ggas_fence_acquire();
	return entry;
#elif defined(__SANITIZE_THREAD__)
	return ggas_load_acquire(p);
#else
	/* An emulated processor may make two accesses of one of 16 bytes. */
	uint64_t hi = ggas_load_acquire(&p->hi);
	return { ggas_load_relaxed(&p->lo), hi };
#endif
}

/* The high word of such an entry, for ggas_fence_acquire behind the last look. */
GGAS_FN uint64_t ggas_watch_entry(const ggas_u128 *p)
{
#if defined(__SANITIZE_THREAD__)
	return ggas_load_acquire(p).hi;
#else
	return ggas_load_watched(&p->hi);
#endif
}

/* Both words; so that the sanitizer sees the order that the fence behind it makes. */
GGAS_FN ggas_u128 ggas_watch_line(const ggas_u128 *p)
{
#if defined(__SANITIZE_THREAD__)
	return ggas_load_acquire(p);
#else
	return ggas_load_relaxed(p);
#endif
}

#include "impl/wait.h"

/* A barrier of the block that tells all threads of a failure: returns a
 * non-zero `status` if any thread has one. */
GGAS_FN int ggas_block_status(int status)
{
	if (!ggas_syncthreads_or(status != 0))
		return 0;
	GGAS_SHARED(int, found);
	if (status)
		ggas_store_relaxed(&found, status);
	ggas_syncthreads();
	int result = ggas_load_relaxed(&found);
	ggas_syncthreads();
	return result;
}

/* The same for a warp, given the status of lane 0. */
GGAS_FN int ggas_warp_status(int status)
{
	return ggas_shfl(GGAS_FULL_WARP, status, 0);
}

#endif /* GGAS_VOCAB_H */
