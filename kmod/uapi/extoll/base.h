/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Ground for the other headers: types, and how a function or an assertion is
 * written in C11, C++17, CUDA and the kernel. "(spec n)" in these headers cites
 * the clean-room interface specification of the card.
 */
#ifndef EXTOLL_BASE_H
#define EXTOLL_BASE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

#if defined(__CUDACC__)
#define EXTOLL_FN __host__ __device__ static inline
#else
#define EXTOLL_FN static inline
#endif

#if defined(__cplusplus)
#define EXTOLL_ASSERT(condition, text) static_assert(condition, text)
#else
#define EXTOLL_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* Bits [shift + bits - 1 : shift] of `word`; bits < 64. */
EXTOLL_FN uint64_t extoll_get(uint64_t word, unsigned int shift, unsigned int bits)
{
	return (word >> shift) & (((uint64_t)1 << bits) - 1);
}

/*
 * `value` in place; what does not fit is cut off, so that no field can change
 * another. Callers check ranges before.
 */
EXTOLL_FN uint64_t extoll_put(uint64_t value, unsigned int shift, unsigned int bits)
{
	return (value & (((uint64_t)1 << bits) - 1)) << shift;
}

/* A field by the name of its two constants. */
#define EXTOLL_GET(word, field) extoll_get(word, field##_SHIFT, field##_BITS)
#define EXTOLL_PUT(value, field) extoll_put(value, field##_SHIFT, field##_BITS)

#endif /* EXTOLL_BASE_H */
