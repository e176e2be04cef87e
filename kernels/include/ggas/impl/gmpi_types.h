/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Types that programs make (MPI_Type_vector and so on). A type is a value: what MPI calls its handle holds all of it, so making one takes no
 * memory and no call of the host, and a message under way needs none when it is freed. Rows of blocks are all there is: a type whose
 * elements would have a third stride is refused.
 */
#ifndef GGAS_IMPL_GMPI_TYPES_H
#define GGAS_IMPL_GMPI_TYPES_H

#include "gmpi_shape.h"

struct gmpi_type {
	gmpi_type() = default;
	GGAS_FN gmpi_type(int base) : base(static_cast<uint32_t>(base)), state(0), shape{ 0, 0, 0, 0, 0 }, first(0), lower(0), extent(0) {}

	uint32_t base;		/* GMPI_FLOAT ..., of all its elements; 0: GMPI_DATATYPE_NULL */
	uint32_t state;		/* gmpi_type_is_made ...; 0: `base` itself, and what follows is not looked at */
	gmpi_shape shape;	/* of one */
	int64_t first;		/* bytes from a buffer's begin to the first block */
	int64_t lower, extent;	/* MPI's */
};

namespace ggas_impl
{

constexpr uint32_t gmpi_type_is_made = 1, gmpi_type_is_committed = 2, gmpi_type_overlaps = 4;
/* Bytes of the largest extent, so that no sum overflows. */
constexpr int64_t gmpi_extent_most = int64_t(1) << 47;

/* Whether there is such a predefined type: the sizes of all of them by their numbers. */
GGAS_FN bool gmpi_is_predefined(uint32_t base)
{
	constexpr uint64_t sizes = 0x84888844221111;
	return base >> 8 <= GMPI_DOUBLE >> 8 && (sizes >> (base >> 8) * 4 & 0xf) == (base & GMPI_TYPE_SIZE_MASK);
}

/* A predefined type as one that was made; `state` 0: there is none such. */
GGAS_FN gmpi_type gmpi_as_made(const gmpi_type &type)
{
	if (type.state)
		return type;
	gmpi_type made = type;
	uint32_t size = gmpi_is_predefined(type.base) ? type.base & GMPI_TYPE_SIZE_MASK : 0;
	made.state = size ? gmpi_type_is_made | gmpi_type_is_committed : 0;
	made.shape = { size, 1, 1, 0, 0 };
	made.first = 0;
	made.lower = 0;
	made.extent = size;
	return made;
}

/* Makes `times` of a shape, `apart` bytes from one to the next. False: that has a third stride. */
GGAS_FN bool gmpi_repeat(gmpi_shape *s, uint32_t times, int64_t apart)
{
	if (times == 0 || shape_bytes(*s) == 0) {
		*s = { 0, 0, 0, 0, 0 };
	} else if (times == 1) {
		return true;
	} else if (s->count == 1 && s->rows == 1) {
		if (apart == static_cast<int64_t>(s->block)) {
			s->block *= times;
		} else {
			s->count = times;
			s->stride = apart;
		}
	} else if (s->rows == 1) {
		if (apart == s->count * s->stride) {
			s->count *= times;
		} else {
			s->rows = times;
			s->pitch = apart;
		}
	} else if (apart == s->rows * s->pitch) {
		s->rows *= times;
	} else {
		return false;
	}
	return true;
}

/* Whether blocks have bytes in common. Each row has the extent that its blocks reach, or more of them. */
GGAS_FN bool gmpi_overlaps(const gmpi_shape &s)
{
	auto size = [](int64_t value) { return static_cast<uint64_t>(value < 0 ? -value : value); };
	uint64_t row = (s.count - uint64_t(1)) * size(s.stride) + s.block;
	return shape_bytes(s) && ((s.count > 1 && size(s.stride) < s.block) || (s.rows > 1 && size(s.pitch) < row));
}

/* A type of `count` blocks of `length` elements of another one, `stride` of its extents apart. */
GGAS_FN int gmpi_make_vector(int count, int length, int64_t stride, const gmpi_type &old, gmpi_type *made)
{
	gmpi_type of = gmpi_as_made(old);
	if (!made)
		return GMPI_ERR_ARG;
	*made = gmpi_type(GMPI_DATATYPE_NULL);
	if (count < 0)
		return GMPI_ERR_COUNT;
	if (length < 0)
		return GMPI_ERR_ARG;
	if (!of.state)
		return GMPI_ERR_TYPE;
	uint64_t bytes = shape_bytes(of.shape) * static_cast<uint64_t>(length);
	auto is_long = [](int64_t value, int64_t times) { return times > 1 && (value < 0 ? -value : value) > gmpi_extent_most / times; };
	if (bytes > 0x7fffffff || (bytes && static_cast<uint64_t>(count) > 0x7fffffff / bytes))
		return GMPI_ERR_ARG;
	/* The strides of blocks that there are: of one, none matters. */
	int64_t apart = count > 1 ? stride : 0, blocks = count > 1 ? count - 1 : 0, elements = length > 1 ? length - 1 : 0;
	if (is_long(of.extent, apart < 0 ? -apart : apart) || is_long(apart * of.extent, count) || is_long(of.extent, length))
		return GMPI_ERR_ARG;
	apart *= of.extent;
	if (!gmpi_repeat(&of.shape, static_cast<uint32_t>(length), of.extent) || !gmpi_repeat(&of.shape, static_cast<uint32_t>(count), apart))
		return GMPI_ERR_TYPE;
	int64_t reach = blocks * apart, wide = elements * of.extent, below = reach < 0 ? reach : 0, above = reach > 0 ? reach : 0;
	below += wide < 0 ? wide : 0;
	above += wide > 0 ? wide : 0;
	bool empty = count == 0 || length == 0;
	of.state = gmpi_type_is_made;
	of.lower = empty ? 0 : of.lower + below;
	of.extent = empty ? 0 : of.extent + above - below;
	of.first = empty ? 0 : of.first;
	*made = of;
	return GMPI_SUCCESS;
}

/* A type of a part of an array, whose extent is the whole array's. */
GGAS_FN int gmpi_make_subarray(int dimensions, const int *sizes, const int *parts, const int *starts, int order, const gmpi_type &old,
			       gmpi_type *made)
{
	gmpi_type of = gmpi_as_made(old);
	if (!made)
		return GMPI_ERR_ARG;
	*made = gmpi_type(GMPI_DATATYPE_NULL);
	if (dimensions < 1 || !sizes || !parts || !starts || (order != GMPI_ORDER_C && order != GMPI_ORDER_FORTRAN))
		return GMPI_ERR_ARG;
	if (!of.state)
		return GMPI_ERR_TYPE;
	uint64_t bytes = shape_bytes(of.shape);
	int64_t apart = of.extent;
	/* From the dimension whose elements lie together on. */
	for (int i = 0; i < dimensions; i++) {
		int at = order == GMPI_ORDER_C ? dimensions - 1 - i : i;
		if (sizes[at] < 1 || parts[at] < 1 || parts[at] > sizes[at] || starts[at] < 0 || starts[at] > sizes[at] - parts[at])
			return GMPI_ERR_ARG;
		bytes *= static_cast<uint64_t>(parts[at]);
		if (bytes > 0x7fffffff || apart > gmpi_extent_most / sizes[at])
			return GMPI_ERR_ARG;
		of.first += starts[at] * apart;
		if (!gmpi_repeat(&of.shape, static_cast<uint32_t>(parts[at]), apart))
			return GMPI_ERR_TYPE;
		apart *= sizes[at];
	}
	of.state = gmpi_type_is_made;
	of.extent = apart;
	*made = of;
	return GMPI_SUCCESS;
}

/* A buffer, a count and a type of a message, as elements of a predefined type. */
struct gmpi_data {
	const void *at;		/* the first of them */
	int count, type;	/* `type` 0: there is none such, or it may not be used here */
	const gmpi_shape *shape;	/* they lie as it says; null: together */

	GGAS_FN uint64_t bytes() const { return (static_cast<uint32_t>(type) & GMPI_TYPE_SIZE_MASK) * static_cast<uint64_t>(count); }
};

/* The same of a type that was made; `shape`: where its shape goes. */
GGAS_LONG gmpi_data gmpi_data_of_made(const void *at, int count, const gmpi_type &type, bool receives, gmpi_shape *shape)
{
	uint32_t times = count > 0 ? static_cast<uint32_t>(count) : 0, size = type.base & GMPI_TYPE_SIZE_MASK;
	/* 1, 2, 4 and 8 bytes are 0 to 3 bits. */
	uint64_t elements = (shape_bytes(type.shape) >> ((size >> 1) - (size >> 3))) * times;
	gmpi_data data = { at, count, 0, nullptr };
	if (!(type.state & gmpi_type_is_committed))
		return data;
	*shape = type.shape;
	bool overlaps = type.state & gmpi_type_overlaps, whole = true;
	if (times != 1) {
		whole = gmpi_repeat(shape, times, type.extent);
		overlaps = gmpi_overlaps(*shape);
	}
	/* A count below zero, or one that is too large, is an error that the call tells. */
	data.count = count < 0 || elements > 0x7fffffff ? -1 : static_cast<int>(elements);
	if (data.count >= 0 && (!whole || (receives && overlaps)))
		return data;
	data.type = static_cast<int>(type.base);
	/* Of nothing any address will do. */
	if (data.count > 0 && at)
		data.at = static_cast<const uint8_t *>(at) + type.first;
	if (data.count > 0 && shape->count * uint64_t(shape->rows) > 1)
		data.shape = shape;
	return data;
}

class gmpi_typed {
public:
	GGAS_FN gmpi_typed(const void *at, int count, const gmpi_type &type, bool receives) : data{ at, count, static_cast<int>(type.base), nullptr }
	{
		/* Of predefined types that is known as the program is compiled, and nothing else is left of it. */
		if (type.state)
			data = gmpi_data_of_made(at, count, type, receives, &shape_);
	}
	gmpi_typed(const gmpi_typed &) = delete;
	gmpi_typed &operator=(const gmpi_typed &) = delete;

	gmpi_data data;

private:
	gmpi_shape shape_;
};

/* The type in an attribute, the words of a shape that follow its arguments, and each of them. */
GGAS_FN uint64_t gmpi_type_word(const gmpi_data &data)
{
	return static_cast<uint32_t>(data.type) | (data.shape ? static_cast<uint32_t>(GMPI_TYPE_SHAPED) : 0);
}
GGAS_FN uint32_t gmpi_shape_words(const gmpi_shape *shape) { return shape ? sizeof(gmpi_shape) / 8 : 0; }
GGAS_FN uint64_t gmpi_shape_word(const gmpi_shape &s, uint32_t index)
{
	return index == 0 ? s.block : index == 1 ? s.count | uint64_t(s.rows) << 32 : static_cast<uint64_t>(index == 2 ? s.stride : s.pitch);
}

/* The code of a predefined type; 0: it is none. */
GGAS_FN int gmpi_predefined(const gmpi_type &type) { return type.state ? 0 : static_cast<int>(type.base); }

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_TYPES_H */
