/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One-sided communication over a window: a node puts, and another waits in its
 * own memory. The window is mapped, or trapped (ggas.cuh): then each put is packets of at most 64 bytes, and queue.cuh moves more at once.
 *
 *	__device__ int exchange(const ggas_window *at, uint32_t peer, const float *in, uint64_t round)
 *	{
 *		ggas_window window = *at;	// in registers from here on
 *		int error = ggas_put_signal_block(&window, peer, DATA, in, 4096, SIGNAL, round);
 *		return error ? error : ggas_wait_block(&window, SIGNAL, ggas_cmp::ge, round, peer);
 *	}
 *
 * Who calls. _thread: each thread for itself. _warp, _block: all threads of one
 * with the same arguments, at the same point. _grid: all threads of all blocks
 * with the same arguments; blocks do not meet, each does its share.
 *
 * Order. A put alone orders nothing. A signal comes after its own put and after
 * everything that its callers did, or saw done, before: who sees it by a wait
 * sees all of that, on any node. Two signals, or a put and a later signal of
 * another thread, are in order only where a barrier or ggas_fence() joins them.
 *
 *	ggas_fence()	whoever sees, on any node, a later store or atomic of this thread sees what it did, or saw
 *			done, before; a later load may still overtake an earlier store
 *	ggas_quiet()	this thread's puts, stores and atomics are performed where they belong: whoever learns,
 *			by whatever way, that it returned sees them
 *
 * Who hands data that arrived to a bulk copy of its own (TMA) puts ggas_fence_bulk() (vocab.h) behind the wait.
 *
 * The source of a put may be written again once it returned (and a barrier
 * parted the callers). A get returns with the data.
 *
 * Result: GGAS_OK, the same for all callers but where said; GGAS_ERR_ARGUMENT
 * for a node or a range that the window does not have (nothing was stored), a
 * signal that is not aligned; GGAS_ERR_TIMEOUT of waits, GGAS_ERR_LOST where an
 * access that the host made for kernels of a GPU failed. The first failure fills the window's report.
 *
 * Remote atomics: ggas_atomic_* (with result) and ggas_red_* (without) of
 * vocab.h on ggas_pointer_of_node(), where the window has atomics.
 */
#ifndef GGAS_PUT_CUH
#define GGAS_PUT_CUH

#include "ggas.cuh"
#include "impl/put_team.h"

/* What a wait compares with; a signal that only grows is best waited for with ge. */
enum class ggas_cmp { eq, ne, gt, ge, lt, le };

/* What a signal does to its word. Words that are added to take signals of several nodes or blocks. */
enum class ggas_signal { set, add };

#include "impl/put_signal.h"
#include "impl/put_bulk.h"
#include "impl/put_packed.h"

/* This thread's puts, stores and atomics are performed. */
GGAS_FN void ggas_quiet() { ggas_settle(); }

#define GGAS_DEFINE_PUTS(scope)                                                                                        \
	/* Copies `bytes` from this node's memory to `offset` of a node's part. */                                     \
	GGAS_FN int ggas_put_##scope(const ggas_window *window, uint32_t node, uint64_t offset, const void *from,      \
				     uint64_t bytes, uint32_t line = __builtin_LINE())                                 \
	{                                                                                                              \
		return ggas_impl::put<ggas_scope::scope>(window, node, offset, from, bytes, line);                     \
	}                                                                                                              \
	/* The same, then signals the word at `signal` of the same part: sets it to `value`, or adds that. */          \
	GGAS_FN int ggas_put_signal_##scope(const ggas_window *window, uint32_t node, uint64_t offset,                 \
					    const void *from, uint64_t bytes, uint64_t signal, uint64_t value,         \
					    ggas_signal what = ggas_signal::set, uint32_t line = __builtin_LINE())     \
	{                                                                                                              \
		return ggas_impl::put_signal<ggas_scope::scope>(window, node, offset, from, bytes, signal, value,      \
								what, line);                                           \
	}                                                                                                              \
	/* Copies `bytes` at `offset` of a node's part here, and returns when all callers may read them. */            \
	GGAS_FN int ggas_get_##scope(const ggas_window *window, uint32_t node, uint64_t offset, void *to,              \
				     uint64_t bytes, uint32_t line = __builtin_LINE())                                 \
	{                                                                                                              \
		return ggas_impl::get<ggas_scope::scope>(window, node, offset, to, bytes, line);                       \
	}                                                                                                              \
	/* Waits until the word at `offset` of this node's own part compares; with acquire. `peer` is the node that    \
	 * sets it, for the report. */                                                                                 \
	GGAS_FN int ggas_wait_##scope(const ggas_window *window, uint64_t offset, ggas_cmp cmp, uint64_t value,        \
				      uint32_t peer = ~0u, uint32_t line = __builtin_LINE())                           \
	{                                                                                                              \
		return ggas_impl::wait_word<ggas_scope::scope>(window, offset, cmp, value, peer, line);                \
	}
GGAS_DEFINE_PUTS(thread)
GGAS_DEFINE_PUTS(warp)
GGAS_DEFINE_PUTS(block)
#undef GGAS_DEFINE_PUTS

/* A put by all blocks of the grid, each its share. The result is that of the calling block. */
GGAS_FN int ggas_put_grid(const ggas_window *window, uint32_t node, uint64_t offset, const void *from, uint64_t bytes,
			  uint32_t line = __builtin_LINE())
{
	uint32_t by_grid = ggas_impl::traced(ggas_impl::trace_grid, line);
	if (int error = ggas_impl::check_put(window, node, offset, bytes, by_grid))
		return error;
	ggas_copy_grid(ggas_pointer_of_node(window, node, offset), from, bytes);
	return GGAS_OK;
}

/* The same, and each block adds `value` to the signal after its share: the put is
 * complete once the word grew by `value` times the blocks of the grid. */
GGAS_FN int ggas_put_signal_grid(const ggas_window *window, uint32_t node, uint64_t offset, const void *from,
				 uint64_t bytes, uint64_t signal, uint64_t value, uint32_t line = __builtin_LINE())
{
	uint32_t by_grid = ggas_impl::traced(ggas_impl::trace_grid, line);
	if (int error = ggas_impl::check_put(window, node, offset, bytes, by_grid))
		return error;
	/* Each block signals. */
	uint32_t by_block = ggas_impl::traced(ggas_impl::trace_by(ggas_scope::block), line);
	if (int error = ggas_impl::check_signal(window, node, signal, by_block))
		return error;
	ggas_copy_grid(ggas_pointer_of_node(window, node, offset), from, bytes);
	ggas_syncthreads();
	if (ggas_thread() == 0)
		ggas_red_add(ggas_pointer_of_node<uint64_t>(window, node, signal), value, ggas_order::release);
	return GGAS_OK;
}

/* As ggas_put_block and ggas_put_grid for long puts, by the copy units of the multiprocessors where they have
 * one (sm_90): small blocks suffice, and their other threads are free. Quickest where all is a multiple of 16. */
GGAS_FN int ggas_put_bulk_block(const ggas_window *window, uint32_t node, uint64_t offset, const void *from,
				uint64_t bytes, uint32_t line = __builtin_LINE())
{
	uint32_t by_block = ggas_impl::traced(ggas_impl::trace_by(ggas_scope::block), line);
	if (int error = ggas_impl::check_put(window, node, offset, bytes, by_block))
		return error;
	ggas_impl::copy_bulk(ggas_pointer_of_node(window, node, offset), from, bytes);
	return GGAS_OK;
}
GGAS_FN int ggas_put_bulk_grid(const ggas_window *window, uint32_t node, uint64_t offset, const void *from,
			       uint64_t bytes, uint32_t line = __builtin_LINE())
{
	uint32_t by_grid = ggas_impl::traced(ggas_impl::trace_grid, line);
	if (int error = ggas_impl::check_put(window, node, offset, bytes, by_grid))
		return error;
	ggas_impl::put_share share = ggas_impl::share_of_block(bytes, 128);
	ggas_impl::copy_bulk(ggas_pointer_of_node(window, node, offset + share.offset),
			     static_cast<const uint8_t *>(from) + share.offset, share.bytes);
	return GGAS_OK;
}

/* Looks once, with acquire, whether the word at `offset` of this node's part compares. */
GGAS_FN bool ggas_test(const ggas_window *window, uint64_t offset, ggas_cmp cmp, uint64_t value)
{
	return ggas_impl::compares(ggas_load_acquire(ggas_impl::own_word(window, offset)), cmp, value);
}

#endif /* GGAS_PUT_CUH */
