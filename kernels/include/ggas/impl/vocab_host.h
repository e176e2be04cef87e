/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Host back end of vocab.h: C++20, gcc or clang. System scope is what C++ atomics give. */
#ifndef GGAS_IMPL_VOCAB_HOST_H
#define GGAS_IMPL_VOCAB_HOST_H

#include <string.h>
#include <time.h>

#include <type_traits>

#include "exec.h"

#if defined(__SANITIZE_THREAD__)
/* gcc installs no header for these; memory orders have the numbers of __ATOMIC_*. */
extern "C" __int128 __tsan_atomic128_load(const volatile __int128 *p, int order);
extern "C" void __tsan_atomic128_store(volatile __int128 *p, __int128 v, int order);
#endif

#define GGAS_EXECUTOR 1
#define GGAS_NO_UNROLL
#define GGAS_FN inline
#define GGAS_COLD __attribute__((noinline, cold)) inline
#define GGAS_LONG __attribute__((noinline)) inline
#define GGAS_RARE(condition) (__builtin_expect(!!(condition), 0))
/* The function that the table of kernels names takes the address of the arguments; their size is for those who see
 * the structure from Rust. */
#define GGAS_KERNEL(name, args_type)                                                                                   \
	static void ggas_body_##name(const args_type &args);                                                           \
	extern "C" {                                                                                                   \
	extern const uint64_t ggas_args_##name = sizeof(args_type);                                                    \
	}                                                                                                              \
	extern "C" void ggas_host_##name(const void *bytes)                                                            \
	{                                                                                                              \
		args_type args;                                                                                        \
		memcpy(&args, bytes, sizeof(args));                                                                    \
		ggas_body_##name(args);                                                                                \
	}                                                                                                              \
	static void ggas_body_##name([[maybe_unused]] const args_type &args)
#define GGAS_KERNEL_BOUND(name, args_type, threads) GGAS_KERNEL(name, args_type)
#define GGAS_UNROLL
#define GGAS_SHARED(type, name)                                                                                        \
	static const char ggas_key_##name = 0;                                                                         \
	type &name = *static_cast<type *>(                                                                             \
		ggas_exec_shared(ggas_exec_self, &ggas_key_##name, sizeof(type), alignof(type)))
#define GGAS_SHARED_ARRAY(type, name, count)                                                                           \
	static const char ggas_key_##name = 0;                                                                         \
	type *const name = static_cast<type *>(                                                                        \
		ggas_exec_shared(ggas_exec_self, &ggas_key_##name, sizeof(type) * (count), alignof(type)))

#include "vocab_host_trap.h"

namespace ggas_impl
{

constexpr int host_order(ggas_order order)
{
	switch (order) {
	case ggas_order::relaxed:
		return __ATOMIC_RELAXED;
	case ggas_order::acquire:
		return __ATOMIC_ACQUIRE;
	case ggas_order::release:
		return __ATOMIC_RELEASE;
	default:
		return __ATOMIC_ACQ_REL;
	}
}

/* gcc calls libatomic for 16 bytes; an aligned SSE move is single-copy atomic on
 * every x86-64 CPU with AVX, and x86 orders it as a release or an acquire. */
#if defined(__SANITIZE_THREAD__)
inline ggas_u128 load128(const ggas_u128 *p, int order)
{
	auto v = static_cast<unsigned __int128>(
		__tsan_atomic128_load(reinterpret_cast<const volatile __int128 *>(p), order));
	return { static_cast<uint64_t>(v), static_cast<uint64_t>(v >> 64) };
}
inline void store128(ggas_u128 *p, ggas_u128 v, int order)
{
	auto whole = static_cast<unsigned __int128>(v.hi) << 64 | v.lo;
	__tsan_atomic128_store(reinterpret_cast<volatile __int128 *>(p), static_cast<__int128>(whole), order);
}
#elif defined(__x86_64__)
typedef long long v2di __attribute__((vector_size(16), may_alias));
inline ggas_u128 load128(const ggas_u128 *p, int)
{
	v2di v;
	asm volatile("movdqa %1, %0" : "=x"(v) : "m"(*reinterpret_cast<const v2di *>(p)) : "memory");
	return { static_cast<uint64_t>(v[0]), static_cast<uint64_t>(v[1]) };
}
inline void store128(ggas_u128 *p, ggas_u128 v, int)
{
	v2di whole = { static_cast<long long>(v.lo), static_cast<long long>(v.hi) };
	asm volatile("movdqa %1, %0" : "=m"(*reinterpret_cast<v2di *>(p)) : "x"(whole) : "memory");
}
#elif defined(__aarch64__)
/* FEAT_LSE2 (Armv8.4): an aligned LDP or STP is single-copy atomic. */
inline ggas_u128 load128(const ggas_u128 *p, int order)
{
	ggas_u128 v;
	asm volatile("ldp %0, %1, %2" : "=r"(v.lo), "=r"(v.hi) : "Q"(*p) : "memory");
	if (order != __ATOMIC_RELAXED)
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return v;
}
inline void store128(ggas_u128 *p, ggas_u128 v, int order)
{
	if (order != __ATOMIC_RELAXED)
		__atomic_thread_fence(__ATOMIC_RELEASE);
	asm volatile("stp %1, %2, %0" : "=Q"(*p) : "r"(v.lo), "r"(v.hi) : "memory");
}
#else
#error "the executor knows no 16-byte atomic access on this CPU"
#endif

} /* namespace ggas_impl */

template <class T> inline T ggas_load_relaxed(const T *p)
{
	if (T trapped; ggas_impl::may_trap(p) && ggas_impl::trapped_load(p, &trapped))
		return trapped;
	T v;
	__atomic_load(const_cast<T *>(p), &v, __ATOMIC_RELAXED);
	return v;
}
template <class T> inline T ggas_load_acquire(const T *p)
{
	if (T trapped; ggas_impl::may_trap(p) && ggas_impl::trapped_load(p, &trapped))
		return trapped;
	T v;
	__atomic_load(const_cast<T *>(p), &v, __ATOMIC_ACQUIRE);
	return v;
}
template <class T> inline void ggas_store_relaxed(T *p, std::type_identity_t<T> v)
{
	if (ggas_impl::may_trap(p) && ggas_impl::trapped_store(p, v))
		return;
	__atomic_store(p, &v, __ATOMIC_RELAXED);
}
template <class T> inline void ggas_store_release(T *p, std::type_identity_t<T> v)
{
	if (ggas_impl::may_trap(p) && ggas_impl::trapped_store(p, v))
		return;
	__atomic_store(p, &v, __ATOMIC_RELEASE);
}
template <> inline ggas_u128 ggas_load_relaxed(const ggas_u128 *p)
{
	if (ggas_u128 trapped; ggas_impl::may_trap(p) && ggas_impl::trapped_load(p, &trapped))
		return trapped;
	return ggas_impl::load128(p, __ATOMIC_RELAXED);
}
template <> inline ggas_u128 ggas_load_acquire(const ggas_u128 *p)
{
	if (ggas_u128 trapped; ggas_impl::may_trap(p) && ggas_impl::trapped_load(p, &trapped))
		return trapped;
	return ggas_impl::load128(p, __ATOMIC_ACQUIRE);
}
template <> inline void ggas_store_relaxed(ggas_u128 *p, ggas_u128 v)
{
	if (ggas_impl::may_trap(p) && ggas_impl::trapped_store(p, v))
		return;
	ggas_impl::store128(p, v, __ATOMIC_RELAXED);
}
template <> inline void ggas_store_release(ggas_u128 *p, ggas_u128 v)
{
	if (ggas_impl::may_trap(p) && ggas_impl::trapped_store(p, v))
		return;
	ggas_impl::store128(p, v, __ATOMIC_RELEASE);
}

template <class T> inline T ggas_read(const T *p)
{
	if (T trapped; ggas_impl::may_trap(p) && ggas_impl::trapped_load(p, &trapped))
		return trapped;
	return *p;
}
template <class T> inline void ggas_write(T *p, std::type_identity_t<T> v)
{
	if (ggas_impl::may_trap(p) && ggas_impl::trapped_store(p, v))
		return;
	*p = v;
}

#include "vocab_host_atomics.h"

inline void ggas_store_mmio(uint64_t *p, uint64_t v)
{
	ggas_exec_mmio(ggas_exec_self, reinterpret_cast<uint64_t>(p), v, 8);
}
inline void ggas_store_mmio(uint32_t *p, uint32_t v)
{
	ggas_exec_mmio(ggas_exec_self, reinterpret_cast<uint64_t>(p), v, 4);
}

inline uint64_t ggas_load_mmio(const uint64_t *p) { return ggas_load_acquire(p); }

/* Here nothing but threads accesses memory. */
inline void ggas_fence_bulk() {}

inline void ggas_fence_system()
{
#if defined(__SANITIZE_THREAD__)
	/* ThreadSanitizer does not model fences; an atomic that all of them share has the same effect. */
	static uint32_t everyone;
	__atomic_fetch_add(&everyone, 0u, __ATOMIC_ACQ_REL);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

inline void ggas_fence_sequential() { ggas_fence_system(); }
/* It would have ended the launch. */
constexpr bool ggas_access_failed() { return false; }
inline void ggas_settle()
{
	ggas_fence_system();
	/* None are trapped in most programs. */
	if (__builtin_expect(__atomic_load_n(&ggas_exec_traps[1], __ATOMIC_RELAXED) != 0, 0))
		ggas_exec_settle(ggas_exec_self);
}

/* ThreadSanitizer does not model these fences either: the loads and stores have the order. */
template <class T> inline T ggas_load_watched(const T *p) { return ggas_load_acquire(p); }
inline void ggas_fence_acquire() {}
inline void ggas_fence_release() {}
template <class T> inline void ggas_store_fenced(T *p, std::type_identity_t<T> v) { ggas_store_release(p, v); }

inline void ggas_pause(uint32_t attempt = 1) { ggas_exec_pause(ggas_exec_self, attempt); }

inline void ggas_show_wait(uint32_t kind, uint32_t line, uint32_t peer, uint64_t address, uint64_t expected,
			   uint64_t seen)
{
	ggas_exec_thread *self = ggas_exec_self;
	self->wait = kind;
	self->line = line;
	self->peer = peer;
	self->address = address;
	self->expected = expected;
	self->seen = seen;
}

inline uint32_t ggas_unstarted() { return ggas_exec_unstarted(ggas_exec_self); }

inline uint64_t ggas_time_ns()
{
	ggas_exec_thread *self = ggas_exec_self;
	if (self && self->virtual_time)
		return ggas_exec_time(self);
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}
inline uint64_t ggas_ticks()
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return ggas_time_ns();
#endif
}

inline uint32_t ggas_popc(uint32_t bits) { return static_cast<uint32_t>(__builtin_popcount(bits)); }
inline uint32_t ggas_first(uint32_t bits) { return static_cast<uint32_t>(__builtin_ctz(bits)); }

inline uint32_t ggas_thread() { return ggas_exec_self->thread; }
inline uint32_t ggas_threads() { return ggas_exec_self->threads; }
inline uint32_t ggas_block() { return ggas_exec_self->block; }
inline uint32_t ggas_blocks() { return ggas_exec_self->blocks; }
inline uint32_t ggas_lane() { return ggas_thread() % GGAS_WARP_SIZE; }
inline uint32_t ggas_warp() { return ggas_thread() / GGAS_WARP_SIZE; }
inline uint32_t ggas_warps() { return (ggas_threads() + GGAS_WARP_SIZE - 1) / GGAS_WARP_SIZE; }

/* File and line let the executor see threads of a block at different barriers. */
inline void ggas_syncthreads(const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE())
{
	ggas_exec_syncthreads(ggas_exec_self, false, file, line);
}
inline bool ggas_syncthreads_or(bool predicate, const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE())
{
	return ggas_exec_syncthreads(ggas_exec_self, predicate, file, line) != 0;
}
inline void ggas_syncwarp(uint32_t mask = GGAS_FULL_WARP)
{
	ggas_exec_warp(ggas_exec_self, GGAS_WARP_SYNC, mask, 0, 0);
}
inline void ggas_meet(ggas_meeting *at, uint32_t, uint32_t warps)
{
	ggas_syncwarp();
	if (ggas_lane() == 0) {
		uint64_t before = ggas_atomic_add(&at->came, 1u, ggas_order::release_acquire);
		uint64_t all = (before / warps + 1) * warps;
		for (uint32_t attempt = 1; ggas_load_acquire(&at->came) < all; attempt++)
			ggas_pause(attempt);
	}
	ggas_syncwarp();
}
inline uint32_t ggas_ballot(uint32_t mask, bool predicate)
{
	return static_cast<uint32_t>(ggas_exec_warp(ggas_exec_self, GGAS_WARP_BALLOT, mask, predicate, 0));
}
template <class T> inline T ggas_shfl(uint32_t mask, T v, uint32_t lane)
{
	static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
	uint64_t bits = 0;
	memcpy(&bits, &v, sizeof(v));
	bits = ggas_exec_warp(ggas_exec_self, GGAS_WARP_SHUFFLE, mask, bits, lane % GGAS_WARP_SIZE);
	memcpy(&v, &bits, sizeof(v));
	return v;
}
template <class T> inline T ggas_shfl_down(uint32_t mask, T v, uint32_t delta)
{
	uint32_t source = ggas_lane() + delta;
	return ggas_shfl(mask, v, source < GGAS_WARP_SIZE ? source : ggas_lane());
}
template <class T> inline T ggas_shfl_xor(uint32_t mask, T v, uint32_t lanes)
{
	return ggas_shfl(mask, v, ggas_lane() ^ lanes);
}

inline void ggas_fence_gpu() { ggas_fence_system(); }
inline uint64_t ggas_load_watched_gpu(const uint64_t *p) { return ggas_load_acquire(p); }
inline void ggas_red_add_release_gpu(uint64_t *p, uint64_t v) { ggas_red_add(p, v, ggas_order::release); }
inline uint64_t ggas_atomic_add_gpu(uint64_t *p, uint64_t v)
{
	return ggas_atomic_add(p, v, ggas_order::release_acquire);
}
inline uint64_t ggas_atomic_cas_gpu(uint64_t *p, uint64_t expected, uint64_t desired)
{
	return ggas_atomic_cas(p, expected, desired, ggas_order::release_acquire);
}
inline void ggas_fence_acquire_gpu() {}
template <class T> inline T ggas_load_block(const T *p) { return ggas_load_relaxed(p); }
inline uint32_t ggas_atomic_add_block(uint32_t *p, uint32_t v, ggas_order order)
{
	return ggas_atomic_add(p, v, order);
}
inline uint64_t ggas_atomic_add_block(uint64_t *p, uint64_t v, ggas_order order)
{
	return ggas_atomic_add(p, v, order);
}
inline uint32_t ggas_atomic_cas_block(uint32_t *p, uint32_t expected, uint32_t desired, ggas_order order)
{
	return ggas_atomic_cas(p, expected, desired, order);
}
inline uint64_t ggas_atomic_cas_block(uint64_t *p, uint64_t expected, uint64_t desired, ggas_order order)
{
	return ggas_atomic_cas(p, expected, desired, order);
}
template <class T> inline T ggas_load_near(const T *p) { return ggas_load_relaxed(p); }

/* IEEE binary16 by its bits: gcc 12 has no such type in C++. */
inline float ggas_half_to_float(uint16_t bits)
{
	uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f;
	uint32_t fraction = bits & 0x3ff;
	if (exponent == 0)
		return (sign ? -1.0f : 1.0f) * static_cast<float>(fraction) / 16777216.0f;
	uint32_t whole = exponent == 0x1f ? sign | 0x7f800000 | fraction << 13 :
					    sign | (exponent + 112) << 23 | fraction << 13;
	float value;
	memcpy(&value, &whole, sizeof(value));
	return value;
}
inline uint16_t ggas_float_to_half(float value)
{
	uint32_t whole;
	memcpy(&whole, &value, sizeof(whole));
	uint32_t sign = whole >> 16 & 0x8000, magnitude = whole & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return static_cast<uint16_t>(sign | 0x7e00);
	if (magnitude >= 0x477ff000)	/* 65520 and more */
		return static_cast<uint16_t>(sign | 0x7c00);
	if (magnitude < 0x38800000) {	/* below 2^-14: adding 2^-1 rounds at the last bit that a subnormal has */
		float shifted;
		memcpy(&shifted, &magnitude, sizeof(shifted));
		shifted += 0.5f;
		uint32_t fraction;
		memcpy(&fraction, &shifted, sizeof(fraction));
		return static_cast<uint16_t>(sign | (fraction - 0x3f000000));
	}
	magnitude += 0xfff + (magnitude >> 13 & 1);
	return static_cast<uint16_t>(sign | (magnitude - 0x38000000) >> 13);
}

#endif /* GGAS_IMPL_VOCAB_HOST_H */
