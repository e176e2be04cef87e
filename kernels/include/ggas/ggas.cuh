/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The global address space of a window (thesis 6.5.2). Pointers are real: a
 * kernel loads and stores through them with plain C++. In windows on nodes of
 * the model (ggas_window::Mapping::Trapped) other parts are reached by the
 * functions of these headers only, ggas_read() and ggas_write() for one value;
 * plain C++ faults there. For kernels of a GPU the host makes such accesses.
 *
 *	__device__ void remote_write(const ggas_window *w, const float *in, uint32_t remote)
 *	{
 *		float *out = ggas_pointer_of_node<float>(w, remote);
 *		out[ggas_thread()] = in[ggas_thread()];
 *		ggas_syncthreads();
 *		if (ggas_thread() == 0)
 *			ggas_flag_set(ggas_pointer_of_node<uint64_t>(w, remote, FLAG), 1);
 *	}
 *
 * Ordering: plain stores of a block, then a barrier, then ggas_flag_set by one
 * thread: whoever sees the flag by ggas_flag_wait sees the stores. Atomics on
 * remote memory exist where the device offers them: mapped memory does, and the
 * model's SMFU on host memory; no card's.
 * A window that is not mapped for kernels has base 0 (ggas_mapped).
 */
#ifndef GGAS_GGAS_CUH
#define GGAS_GGAS_CUH

#include "vocab.h"

GGAS_FN bool ggas_mapped(const ggas_window *window) { return window->base != 0; }
/* This node's rank in the window, and how many take part. */
GGAS_FN uint32_t ggas_node(const ggas_window *window) { return window->node; }
GGAS_FN uint32_t ggas_nodes(const ggas_window *window) { return window->nodes; }

#include "impl/window_check.h"

/* Global pointer `offset` bytes into the part of any node, this one too: the
 * way through the network, for tests (thesis 6.5.2). Pointers are not checked:
 * node and offset must be the window's. */
template <class T = void> GGAS_FN T *ggas_global_pointer(const ggas_window *window, uint32_t node, uint64_t offset = 0)
{
	return reinterpret_cast<T *>(window->base + node * window->stride + offset);
}

/* Pointer `offset` bytes into the part of a node; of this node: the local pointer. */
template <class T = void> GGAS_FN T *ggas_pointer_of_node(const ggas_window *window, uint32_t node, uint64_t offset = 0)
{
	if (node == window->node)
		return reinterpret_cast<T *>(window->local + offset);
	return ggas_global_pointer<T>(window, node, offset);
}

/* One value at `offset` of a node's part; system scope, 4, 8 or 16 bytes, aligned. A node or a place that the window
 * does not have is reported: nothing is stored and the result is GGAS_ERR_ARGUMENT, and a load gives zeros. */
template <class T>
GGAS_FN int ggas_store(const ggas_window *window, uint32_t node, uint64_t offset, T value,
		       ggas_order order = ggas_order::relaxed, uint32_t line = __builtin_LINE())
{
	uint32_t by = ggas_impl::traced(ggas_impl::trace_by(ggas_scope::thread), line);
	if (int error = ggas_impl::check_put(window, node, offset, sizeof(T), by))
		return error;
	T *p = ggas_pointer_of_node<T>(window, node, offset);
	if (order == ggas_order::relaxed)
		ggas_store_relaxed(p, value);
	else
		ggas_store_release(p, value);
	return GGAS_OK;
}
template <class T>
GGAS_FN T ggas_load(const ggas_window *window, uint32_t node, uint64_t offset, ggas_order order = ggas_order::relaxed,
		    uint32_t line = __builtin_LINE())
{
	uint32_t by = ggas_impl::traced(ggas_impl::trace_by(ggas_scope::thread) | ggas_impl::trace_got, line);
	if (ggas_impl::check_put(window, node, offset, sizeof(T), by))
		return T();
	const T *p = ggas_pointer_of_node<T>(window, node, offset);
	return order == ggas_order::relaxed ? ggas_load_relaxed(p) : ggas_load_acquire(p);
}

/* What this thread did, or saw done, is visible to whoever sees what it stores next, on whatever node. It does not
 * keep a later load from overtaking an earlier store: ggas_fence_sequential() does. */
GGAS_FN void ggas_fence() { ggas_fence_system(); }

/* Stores `value` with release. Flags grow: a flag is written by one node. */
GGAS_FN void ggas_flag_set(uint64_t *flag, uint64_t value) { ggas_store_release(flag, value); }

namespace ggas_impl
{
/* Without order: a fence behind the last one of several makes acquires of them. */
GGAS_FN int watch_flag(const ggas_window *window, const uint64_t *flag, uint64_t value, uint32_t peer, uint32_t line)
{
	ggas_wait wait(window->report, window->timeout_ns, GGAS_WAIT_FLAG, window->node, peer, line);
	uint64_t seen;
	while ((seen = ggas_load_watched(flag)) < value)
		if (int error = wait.again(flag, value, seen))
			return error;
	return GGAS_OK;
}
} /* namespace ggas_impl */

/* Waits until a flag in this node's part reaches `value`, with acquire. `peer`
 * is the node that sets it, for the report. Polls local memory: put flags where
 * they are waited for. */
GGAS_FN int ggas_flag_wait(const ggas_window *window, const uint64_t *flag, uint64_t value, uint32_t peer = ~0u,
			   uint32_t line = __builtin_LINE())
{
	int error = ggas_impl::watch_flag(window, flag, value, peer, line);
	if (!error)
		ggas_fence_acquire();
	return error;
}

#include "impl/copy.h"

/* Copies between any two parts, by all threads of a warp or block with the same
 * arguments. Plain accesses: order them by a barrier and a flag. */
GGAS_FN void ggas_copy_warp(void *to, const void *from, uint64_t bytes)
{
	uint32_t lanes = ggas_threads() - ggas_warp() * GGAS_WARP_SIZE;
	ggas_impl::copy_share(to, from, bytes, ggas_lane(), lanes < GGAS_WARP_SIZE ? lanes : GGAS_WARP_SIZE);
}
GGAS_FN void ggas_copy_block(void *to, const void *from, uint64_t bytes)
{
	ggas_impl::copy_share(to, from, bytes, ggas_thread(), ggas_threads());
}
/* The same by all blocks of the grid. */
GGAS_FN void ggas_copy_grid(void *to, const void *from, uint64_t bytes)
{
	ggas_impl::copy_share(to, from, bytes, ggas_block() * ggas_threads() + ggas_thread(),
			      ggas_blocks() * ggas_threads());
}

#endif /* GGAS_GGAS_CUH */
