/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Atomics of system scope; included by vocab_cuda.h. All in the global state space. Of a generic address the hardware
 * answers first whether it is one of block-shared memory, and the thread waits for that before it goes on, so two
 * atomics are never under way together; and atomics without a result do not exist (on two H200, 21 instead of 31
 * updates per nanosecond).
 */
#ifndef GGAS_IMPL_VOCAB_CUDA_ATOMICS_H
#define GGAS_IMPL_VOCAB_CUDA_ATOMICS_H

namespace ggas_impl
{

#define GGAS_ATOM(sem, where, op, suffix, constraint)                                                                  \
	asm volatile("atom." sem where op "." suffix " %0, [%1], %2;"                                                  \
		     : "=" constraint(old)                                                                             \
		     : "l"(at), constraint(v)                                                                          \
		     : "memory")
#define GGAS_DEFINE_ATOM(name, op, T_, suffix, constraint)                                                             \
	GGAS_FN T_ near_atomic_##name(T_ *p, T_ v, ggas_order order)                                                   \
	{                                                                                                              \
		T_ old;                                                                                                \
		auto at = __cvta_generic_to_global(p);                                                                 \
		switch (order) {                                                                                       \
		case ggas_order::relaxed:                                                                              \
			GGAS_ATOM("relaxed", ".sys.global.", op, suffix, constraint);                                  \
			break;                                                                                         \
		case ggas_order::acquire:                                                                              \
			GGAS_ATOM("acquire", ".sys.global.", op, suffix, constraint);                                  \
			break;                                                                                         \
		case ggas_order::release:                                                                              \
			GGAS_ATOM("release", ".sys.global.", op, suffix, constraint);                                  \
			break;                                                                                         \
		default:                                                                                               \
			GGAS_ATOM("acq_rel", ".sys.global.", op, suffix, constraint);                                  \
		}                                                                                                      \
		return old;                                                                                            \
	}
GGAS_DEFINE_ATOM(add, "add", uint32_t, "u32", "r")
GGAS_DEFINE_ATOM(add, "add", uint64_t, "u64", "l")
GGAS_DEFINE_ATOM(add, "add", int32_t, "s32", "r")
GGAS_DEFINE_ATOM(add, "add", int64_t, "u64", "l")
GGAS_DEFINE_ATOM(add, "add", float, "f32", "f")
GGAS_DEFINE_ATOM(add, "add", double, "f64", "d")
GGAS_DEFINE_ATOM(exch, "exch", uint32_t, "b32", "r")
GGAS_DEFINE_ATOM(exch, "exch", uint64_t, "b64", "l")
GGAS_DEFINE_ATOM(and, "and", uint32_t, "b32", "r")
GGAS_DEFINE_ATOM(and, "and", uint64_t, "b64", "l")
GGAS_DEFINE_ATOM(or, "or", uint32_t, "b32", "r")
GGAS_DEFINE_ATOM(or, "or", uint64_t, "b64", "l")
GGAS_DEFINE_ATOM(xor, "xor", uint32_t, "b32", "r")
GGAS_DEFINE_ATOM(xor, "xor", uint64_t, "b64", "l")
#define GGAS_DEFINE_ATOM_LIMITS(T_, suffix, constraint)                                                              \
	GGAS_DEFINE_ATOM(min, "min", T_, suffix, constraint)                                                           \
	GGAS_DEFINE_ATOM(max, "max", T_, suffix, constraint)
GGAS_DEFINE_ATOM_LIMITS(uint32_t, "u32", "r")
GGAS_DEFINE_ATOM_LIMITS(uint64_t, "u64", "l")
GGAS_DEFINE_ATOM_LIMITS(int32_t, "s32", "r")
GGAS_DEFINE_ATOM_LIMITS(int64_t, "s64", "l")
#undef GGAS_DEFINE_ATOM_LIMITS
#undef GGAS_DEFINE_ATOM

#define GGAS_DEFINE_RED(name, op, T_, suffix, constraint)                                                            \
	GGAS_FN void near_red_##name(T_ *p, T_ v, ggas_order order)                                            \
	{                                                                                                              \
		auto at = __cvta_generic_to_global(p);                                                                 \
		if (order == ggas_order::relaxed)                                                                      \
			asm volatile("red.relaxed.sys.global." op "." suffix " [%0], %1;" ::"l"(at), constraint(v)     \
				     : "memory");                                                                      \
		else                                                                                                   \
			asm volatile("red.release.sys.global." op "." suffix " [%0], %1;" ::"l"(at), constraint(v)     \
				     : "memory");                                                                      \
	}
#define GGAS_DEFINE_REDS(T_, number, bits, constraint)                                                               \
	GGAS_DEFINE_RED(add, "add", T_, number, constraint)                                                            \
	GGAS_DEFINE_RED(min, "min", T_, number, constraint)                                                            \
	GGAS_DEFINE_RED(max, "max", T_, number, constraint)                                                            \
	GGAS_DEFINE_RED(and, "and", T_, bits, constraint)                                                              \
	GGAS_DEFINE_RED(or, "or", T_, bits, constraint)                                                                \
	GGAS_DEFINE_RED(xor, "xor", T_, bits, constraint)
GGAS_DEFINE_REDS(uint32_t, "u32", "b32", "r")
GGAS_DEFINE_REDS(uint64_t, "u64", "b64", "l")
GGAS_DEFINE_RED(add, "add", int32_t, "s32", "r")
GGAS_DEFINE_RED(add, "add", int64_t, "u64", "l")
GGAS_DEFINE_RED(min, "min", int32_t, "s32", "r")
GGAS_DEFINE_RED(min, "min", int64_t, "s64", "l")
GGAS_DEFINE_RED(max, "max", int32_t, "s32", "r")
GGAS_DEFINE_RED(max, "max", int64_t, "s64", "l")
GGAS_DEFINE_RED(add, "add", float, "f32", "f")
GGAS_DEFINE_RED(add, "add", double, "f64", "d")
#undef GGAS_DEFINE_REDS
#undef GGAS_DEFINE_RED

#define GGAS_CAS(sem, where, suffix, constraint)                                                                       \
	asm volatile("atom." sem where "cas." suffix " %0, [%1], %2, %3;"                                              \
		     : "=" constraint(old)                                                                             \
		     : "l"(at), constraint(expected), constraint(desired)                                              \
		     : "memory")
#define GGAS_DEFINE_CAS(T_, suffix, constraint)                                                                        \
	GGAS_FN T_ near_atomic_cas(T_ *p, T_ expected, T_ desired, ggas_order order)                                   \
	{                                                                                                              \
		T_ old;                                                                                                \
		auto at = __cvta_generic_to_global(p);                                                                 \
		switch (order) {                                                                                       \
		case ggas_order::relaxed:                                                                              \
			GGAS_CAS("relaxed", ".sys.global.", suffix, constraint);                                       \
			break;                                                                                         \
		case ggas_order::acquire:                                                                              \
			GGAS_CAS("acquire", ".sys.global.", suffix, constraint);                                       \
			break;                                                                                         \
		case ggas_order::release:                                                                              \
			GGAS_CAS("release", ".sys.global.", suffix, constraint);                                       \
			break;                                                                                         \
		default:                                                                                               \
			GGAS_CAS("acq_rel", ".sys.global.", suffix, constraint);                                       \
		}                                                                                                      \
		return old;                                                                                            \
	}
GGAS_DEFINE_CAS(uint32_t, "b32", "r")
GGAS_DEFINE_CAS(uint64_t, "b64", "l")
#undef GGAS_DEFINE_CAS

} /* namespace ggas_impl */

/* Block-shared memory, between the threads of a block. */
#define GGAS_DEFINE_BLOCK(T_, number, bits, constraint)                                                                \
	GGAS_FN T_ ggas_atomic_add_block(T_ *p, ggas_same<T_>::type v, ggas_order order)                               \
	{                                                                                                              \
		T_ old;                                                                                                \
		auto at = __cvta_generic_to_shared(p);                                                                 \
		if (order == ggas_order::relaxed)                                                                      \
			GGAS_ATOM("relaxed", ".cta.shared.", "add", number, constraint);                               \
		else                                                                                                   \
			GGAS_ATOM("acq_rel", ".cta.shared.", "add", number, constraint);                               \
		return old;                                                                                            \
	}                                                                                                              \
	GGAS_FN T_ ggas_atomic_cas_block(T_ *p, ggas_same<T_>::type expected, ggas_same<T_>::type desired,             \
					 ggas_order order)                                                             \
	{                                                                                                              \
		T_ old;                                                                                                \
		auto at = __cvta_generic_to_shared(p);                                                                 \
		if (order == ggas_order::relaxed)                                                                      \
			GGAS_CAS("relaxed", ".cta.shared.", bits, constraint);                                         \
		else                                                                                                   \
			GGAS_CAS("acq_rel", ".cta.shared.", bits, constraint);                                         \
		return old;                                                                                            \
	}
GGAS_DEFINE_BLOCK(uint32_t, "u32", "b32", "r")
GGAS_DEFINE_BLOCK(uint64_t, "u64", "b64", "l")
#undef GGAS_DEFINE_BLOCK
#undef GGAS_CAS
#undef GGAS_ATOM

#endif /* GGAS_IMPL_VOCAB_CUDA_ATOMICS_H */
