/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Element types and operations of reductions; included by coll.cuh. Elements of
 * 16 bits are reduced in float and rounded once, to the nearest even.
 */
#ifndef GGAS_IMPL_COLL_TYPES_H
#define GGAS_IMPL_COLL_TYPES_H

#include "../vocab.h"

/* IEEE binary16; the same bits as __half. */
struct ggas_half {
	uint16_t bits;
};
/* The upper half of a float; the same bits as __nv_bfloat16. */
struct ggas_bfloat16 {
	uint16_t bits;
};

namespace ggas_impl
{

GGAS_FN float bfloat16_to_float(uint16_t bits)
{
	uint32_t whole = static_cast<uint32_t>(bits) << 16;
	float value;
	memcpy(&value, &whole, sizeof(value));
	return value;
}
GGAS_FN uint16_t float_to_bfloat16(float value)
{
	uint32_t whole;
	memcpy(&whole, &value, sizeof(whole));
	if ((whole & 0x7fffffff) > 0x7f800000)
		return static_cast<uint16_t>(whole >> 16 | 0x40);	/* NaN stays one */
	return static_cast<uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
}

} /* namespace ggas_impl */

/* In what a type is reduced. */
template <class T> struct ggas_wide {
	using type = T;
};
template <> struct ggas_wide<ggas_half> {
	using type = float;
};
template <> struct ggas_wide<ggas_bfloat16> {
	using type = float;
};

template <class T> GGAS_FN T ggas_widen(T value)
{
	return value;
}
GGAS_FN float ggas_widen(ggas_half value)
{
	return ggas_half_to_float(value.bits);
}
GGAS_FN float ggas_widen(ggas_bfloat16 value)
{
	return ggas_impl::bfloat16_to_float(value.bits);
}
template <class T> struct ggas_narrowing {
	GGAS_FN static T of(T value) { return value; }
};
template <> struct ggas_narrowing<ggas_half> {
	GGAS_FN static ggas_half of(float value) { return { ggas_float_to_half(value) }; }
};
template <> struct ggas_narrowing<ggas_bfloat16> {
	GGAS_FN static ggas_bfloat16 of(float value) { return { ggas_impl::float_to_bfloat16(value) }; }
};
template <class T> GGAS_FN T ggas_narrow(typename ggas_wide<T>::type value)
{
	return ggas_narrowing<T>::of(value);
}

/* Operations: any functor with T operator()(T, T) that is associative; float for elements of 16 bits. */
struct ggas_sum {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a + b; }
};
struct ggas_prod {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a * b; }
};
struct ggas_min {
	template <class T> GGAS_FN T operator()(T a, T b) const { return b < a ? b : a; }
};
struct ggas_max {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a < b ? b : a; }
};
/* Of whole numbers only. */
struct ggas_and {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a & b; }
};
struct ggas_or {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a | b; }
};
struct ggas_xor {
	template <class T> GGAS_FN T operator()(T a, T b) const { return a ^ b; }
};

#endif /* GGAS_IMPL_COLL_TYPES_H */
