/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Accesses that may be to memory which this GPU does not reach: parts of windows on other hosts. Compiled with
 * GGAS_PROXY, each access looks whether its address is a trapped one, and the host makes those that are (proxy.h); a program has
 * that code beside the other, and runs it once it has such a window. Included by vocab_cuda.h.
 */
#ifndef GGAS_IMPL_VOCAB_CUDA_TRAP_H
#define GGAS_IMPL_VOCAB_CUDA_TRAP_H

#include "access.h"

#if defined(GGAS_PROXY)

#include "proxy.h"

/* The host fills it in by this name. */
extern "C" {
__constant__ ggas_proxy_here ggas_proxy_here_now;
}

namespace ggas_impl
{

/* Called, not inlined: with both ways at each access kernels would have twice the code, and take twice as long to compile. */
#define GGAS_MAY_TRAP __device__ __noinline__

constexpr bool can_trap = true;

GGAS_FN bool may_trap(const void *p)
{
	return reinterpret_cast<uint64_t>(p) - ggas_proxy_here_now.first < ggas_proxy_here_now.bytes;
}
GGAS_FN ggas_proxy *proxy_here() { return reinterpret_cast<ggas_proxy *>(ggas_proxy_here_now.proxy); }

template <class T> GGAS_FN T trapped_load(const T *p)
{
	ggas_u128 all = proxy_load(proxy_here(), reinterpret_cast<uint64_t>(p), sizeof(T));
	T v;
	memcpy(&v, &all, sizeof(T));
	return v;
}
template <class T> GGAS_FN void trapped_store(T *p, T v)
{
	ggas_u128 all = { 0, 0 };
	memcpy(&all, &v, sizeof(T));
	proxy_store(proxy_here(), reinterpret_cast<uint64_t>(p), all, sizeof(T));
}
template <class T> GGAS_FN uint64_t one_word(T v)
{
	uint64_t word = 0;
	memcpy(&word, &v, sizeof(T));
	return word;
}
template <class T> GGAS_FN T trapped_atomic(T *p, uint32_t operation, T v, T expected)
{
	uint64_t old = proxy_atomic(proxy_here(), reinterpret_cast<uint64_t>(p), operation, sizeof(T),
				    { one_word(v), one_word(expected) });
	memcpy(&v, &old, sizeof(T));
	return v;
}
template <class T> GGAS_FN void trapped_reduce(T *p, uint32_t operation, T v)
{
	proxy_reduce(proxy_here(), reinterpret_cast<uint64_t>(p), operation, sizeof(T), one_word(v));
}

/* What the threads of a warp, a block or a grid copy, `self` of `all`: pieces of whole packets of the unit (64 bytes there), as long as
 * they can be if each thread is to have some. */
GGAS_FN void copy_trapped(void *to, const void *from, uint64_t bytes, uint64_t self, uint64_t all)
{
	bool puts = may_trap(to), gets = may_trap(from);
	uint64_t far = reinterpret_cast<uint64_t>(puts ? to : from), head = (64 - far % 64) % 64;
	uint64_t piece = ((bytes + all - 1) / all + 63) / 64 * 64;
	piece = piece < 64 ? 64 : piece > GGAS_PROXY_BYTES ? GGAS_PROXY_BYTES : piece;
	/* Neither end on this host: by way of this thread. */
	if (puts && gets)
		piece = 16;
	head = head % piece;
	for (uint64_t i = self;; i += all) {
		uint64_t begin = i == 0 ? 0 : head + (i - (head != 0)) * piece, end = i == 0 && head ? head : begin + piece;
		if (begin >= bytes)
			return;
		uint32_t count = static_cast<uint32_t>((end < bytes ? end : bytes) - begin);
		uint64_t there = far + begin;
		if (puts && gets) {
			uint64_t at = reinterpret_cast<uint64_t>(from) + begin;
			proxy_store(proxy_here(), there, proxy_load(proxy_here(), at, count), count);
		} else if (puts) {
			proxy_put(proxy_here(), there, static_cast<const uint8_t *>(from) + begin, count);
		} else {
			proxy_get(proxy_here(), static_cast<uint8_t *>(to) + begin, there, count);
		}
	}
}

} /* namespace ggas_impl */

/* Some access that the host made failed, of this GPU's kernels. */
GGAS_FN bool ggas_access_failed()
{
	if (!ggas_proxy_here_now.bytes)
		return false;
	return ggas_impl::near_load_relaxed(reinterpret_cast<const uint64_t *>(ggas_impl::proxy_here()->failed)) != 0;
}

/* Stores of a GPU are performed behind a fence; those of the host it says. */
GGAS_FN void ggas_settle()
{
	ggas_fence_system();
	if (ggas_proxy_here_now.bytes)
		ggas_impl::proxy_settle(ggas_impl::proxy_here());
}

#else

namespace ggas_impl
{
#define GGAS_MAY_TRAP GGAS_FN

constexpr bool can_trap = false;
GGAS_FN constexpr bool may_trap(const void *) { return false; }
template <class T> GGAS_FN T trapped_load(const T *) { return T(); }
template <class T> GGAS_FN void trapped_store(T *, T) {}
template <class T> GGAS_FN T trapped_atomic(T *, uint32_t, T, T) { return T(); }
template <class T> GGAS_FN void trapped_reduce(T *, uint32_t, T) {}
GGAS_FN void copy_trapped(void *, const void *, uint64_t, uint64_t, uint64_t) {}
} /* namespace ggas_impl */

GGAS_FN constexpr bool ggas_access_failed() { return false; }

/* Stores of a GPU are performed behind a fence. */
GGAS_FN void ggas_settle() { ggas_fence_system(); }

#endif /* GGAS_PROXY */

template <class T> GGAS_MAY_TRAP T ggas_load_relaxed(const T *p)
{
	if (ggas_impl::may_trap(p))
		return ggas_impl::trapped_load(p);
	return ggas_impl::near_load_relaxed(p);
}
template <class T> GGAS_MAY_TRAP T ggas_load_acquire(const T *p)
{
	if (ggas_impl::may_trap(p))
		return ggas_impl::trapped_load(p);
	return ggas_impl::near_load_acquire(p);
}
template <class T> GGAS_MAY_TRAP void ggas_store_relaxed(T *p, typename ggas_same<T>::type v)
{
	if (ggas_impl::may_trap(p))
		return ggas_impl::trapped_store(p, v);
	ggas_impl::near_store_relaxed(p, v);
}
template <class T> GGAS_MAY_TRAP void ggas_store_release(T *p, typename ggas_same<T>::type v)
{
	if (ggas_impl::may_trap(p)) {
		/* Also of what other threads of this GPU stored in its memory, which others read from there. */
		ggas_fence_system();
		return ggas_impl::trapped_store(p, v);
	}
	ggas_impl::near_store_release(p, v);
}

/* An acquire invalidates the multiprocessor's cache; a poll that acquires does so every time. */
template <class T> GGAS_FN T ggas_load_watched(const T *p)
{
	return ggas_load_relaxed(p);
}
template <class T> GGAS_FN void ggas_store_fenced(T *p, typename ggas_same<T>::type v)
{
	ggas_store_relaxed(p, v);
}

template <class T> GGAS_MAY_TRAP T ggas_read(const T *p)
{
	if (ggas_impl::may_trap(p))
		return ggas_impl::trapped_load(p);
	return *p;
}
template <class T> GGAS_MAY_TRAP void ggas_write(T *p, typename ggas_same<T>::type v)
{
	if (ggas_impl::may_trap(p))
		return ggas_impl::trapped_store(p, v);
	*p = v;
}

#define GGAS_DEFINE_ATOM(name)                                                                                         \
	template <class T> GGAS_MAY_TRAP T ggas_atomic_##name(T *p, typename ggas_same<T>::type v, ggas_order order)         \
	{                                                                                                              \
		if (ggas_impl::may_trap(p)) {                                                                          \
			if (order != ggas_order::relaxed)                                                              \
				ggas_fence_system();                                                                   \
			return ggas_impl::trapped_atomic(p, ggas_impl::op_##name<T>, v, T());                          \
		}                                                                                                      \
		return ggas_impl::near_atomic_##name(p, v, order);                                                     \
	}
#define GGAS_DEFINE_RED(name)                                                                                          \
	template <class T> GGAS_MAY_TRAP void ggas_red_##name(T *p, typename ggas_same<T>::type v, ggas_order order)         \
	{                                                                                                              \
		if (ggas_impl::may_trap(p)) {                                                                          \
			if (order != ggas_order::relaxed)                                                              \
				ggas_fence_system();                                                                   \
			return ggas_impl::trapped_reduce(p, ggas_impl::op_##name<T>, v);                               \
		}                                                                                                      \
		ggas_impl::near_red_##name(p, v, order);                                                               \
	}
GGAS_DEFINE_ATOM(exch)
GGAS_DEFINE_ATOM(add)
GGAS_DEFINE_ATOM(and)
GGAS_DEFINE_ATOM(or)
GGAS_DEFINE_ATOM(xor)
GGAS_DEFINE_ATOM(min)
GGAS_DEFINE_ATOM(max)
GGAS_DEFINE_RED(add)
GGAS_DEFINE_RED(and)
GGAS_DEFINE_RED(or)
GGAS_DEFINE_RED(xor)
GGAS_DEFINE_RED(min)
GGAS_DEFINE_RED(max)
#undef GGAS_DEFINE_RED
#undef GGAS_DEFINE_ATOM

template <class T>
GGAS_MAY_TRAP T ggas_atomic_cas(T *p, typename ggas_same<T>::type expected, typename ggas_same<T>::type desired, ggas_order order)
{
	if (ggas_impl::may_trap(p)) {
		if (order != ggas_order::relaxed)
			ggas_fence_system();
		return ggas_impl::trapped_atomic(p, GGAS_ATOMIC_CAS, desired, expected);
	}
	return ggas_impl::near_atomic_cas(p, expected, desired, order);
}

#undef GGAS_MAY_TRAP

#endif /* GGAS_IMPL_VOCAB_CUDA_TRAP_H */
