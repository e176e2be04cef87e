/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages whose bytes do not lie together (gmpi_types.h): they are gathered from where they lie into the receiver's lines or slots, and
 * scattered from there, in the pass that copies others.
 *
 * A message has fewer than 2^32 bytes: 64-bit division takes longer than the copy.
 */
#ifndef GGAS_IMPL_GMPI_SHAPE_H
#define GGAS_IMPL_GMPI_SHAPE_H

#include "gmpi_short.h"

namespace ggas_impl
{

GGAS_FN uint64_t shape_bytes(const gmpi_shape &s) { return s.block * s.count * s.rows; }

/* Where byte `at` of a message lies, from its first block on. */
GGAS_FN int64_t shape_offset(const gmpi_shape &s, uint32_t at)
{
	uint32_t each = static_cast<uint32_t>(s.block), block = at / each, row = 0;
	int64_t offset = at - block * each;
	if (s.rows > 1) {
		row = block / s.count;
		block -= row * s.count;
	}
	return offset + static_cast<int64_t>(block) * s.stride + static_cast<int64_t>(row) * s.pitch;
}

/* The longest of 16, 8, 4 and 1 bytes of which all blocks are whole and aligned units, and this number is a multiple, too. */
GGAS_FN uint32_t shape_unit(const gmpi_shape &s, uint64_t address)
{
	uint64_t all = address | s.block;
	if (s.count > 1)
		all |= static_cast<uint64_t>(s.stride);
	if (s.rows > 1)
		all |= static_cast<uint64_t>(s.pitch);
	return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1;
}

/* Bytes [at, at + bytes) of a message between where they lie and a place where they lie together; thread `self` of `all` copies its share,
 * with some loads under way before the first store. */
template <bool Gathers, class Unit>
GGAS_FN void shape_copy_units(const gmpi_shape &s, uint64_t shaped, uint64_t dense, uint32_t at, uint32_t bytes, uint32_t self, uint32_t all)
{
	constexpr uint32_t batch = 4, size = sizeof(Unit);
	uint32_t count = bytes / size;
	auto from = [=](uint32_t i) {
		return reinterpret_cast<Unit *>(Gathers ? shaped + static_cast<uint64_t>(shape_offset(s, at + i * size)) : dense + uint64_t(i) * size);
	};
	auto to = [=](uint32_t i) {
		return reinterpret_cast<Unit *>(Gathers ? dense + uint64_t(i) * size : shaped + static_cast<uint64_t>(shape_offset(s, at + i * size)));
	};
	GGAS_NO_UNROLL
	for (uint64_t i = self; i < count; i += uint64_t(batch) * all) {
		Unit unit[batch] = {};
		GGAS_UNROLL
		for (uint32_t k = 0; k < batch; k++)
			if (i + k * all < count)
				unit[k] = ggas_read(from(static_cast<uint32_t>(i + k * all)));
		GGAS_UNROLL
		for (uint32_t k = 0; k < batch; k++)
			if (i + k * all < count)
				ggas_write(to(static_cast<uint32_t>(i + k * all)), unit[k]);
	}
}

/* The same with the longest units that there are. */
template <bool Gathers>
GGAS_LONG void shape_copy(const gmpi_shape &s, uint64_t shaped, uint64_t dense, uint64_t at, uint64_t bytes, uint32_t self, uint32_t all)
{
	uint32_t first = static_cast<uint32_t>(at), count = static_cast<uint32_t>(bytes);
	/* A message that is longer than its receive may end within a block. */
	uint32_t unit = bytes ? shape_unit(s, shaped | dense | at | bytes) : 1;
	if (unit == 16)
		shape_copy_units<Gathers, ggas_u128>(s, shaped, dense, first, count, self, all);
	else if (unit == 8)
		shape_copy_units<Gathers, uint64_t>(s, shaped, dense, first, count, self, all);
	else if (unit == 4)
		shape_copy_units<Gathers, uint32_t>(s, shaped, dense, first, count, self, all);
	else
		shape_copy_units<Gathers, uint8_t>(s, shaped, dense, first, count, self, all);
}

/* Words of a message, 8 bytes each, of which the last may be shorter, as lines carry them. */
template <uint32_t Unit> struct shaped_place {
	uint64_t address;
	gmpi_shape shape;

	GGAS_FN uint64_t load(uint64_t word, uint64_t left = 8) const
	{
		if constexpr (Unit == 8)
			if (left == 8)
				return *at<uint64_t>(8 * word);
		if constexpr (Unit == 4)
			if (left == 8)
				return *at<uint32_t>(8 * word) | static_cast<uint64_t>(*at<uint32_t>(8 * word + 4)) << 32;
		uint64_t loaded = 0;
		GGAS_NO_UNROLL
		for (uint32_t i = 0; i < left; i++)
			loaded |= static_cast<uint64_t>(*at<uint8_t>(8 * word + i)) << i * 8;
		return loaded;
	}
	/* What line `line` has, of a message of which `fits` bytes are wanted; line 0 has none of them. */
	GGAS_FN void store(uint64_t fits, uint64_t line, uint64_t word) const
	{
		uint64_t begin = 8 * (line - 1), left = fits - begin;
		if (!line || begin >= fits)
			return;
		if constexpr (Unit == 8)
			if (left >= 8) {
				*at<uint64_t>(begin) = word;
				return;
			}
		if constexpr (Unit == 4)
			if (left >= 8) {
				*at<uint32_t>(begin) = static_cast<uint32_t>(word);
				*at<uint32_t>(begin + 4) = static_cast<uint32_t>(word >> 32);
				return;
			}
		GGAS_NO_UNROLL
		for (uint32_t i = 0; i < 8 && i < left; i++)
			*at<uint8_t>(begin + i) = static_cast<uint8_t>(word >> i * 8);
	}

private:
	template <class T> GGAS_FN T *at(uint64_t byte) const
	{
		return reinterpret_cast<T *>(address + static_cast<uint64_t>(shape_offset(shape, static_cast<uint32_t>(byte))));
	}
};

/* What `with` comes to with the words of a message at an address. */
template <class With> GGAS_FN auto with_shaped_place(const gmpi_shape &shape, uint64_t address, const With &with)
{
	uint32_t unit = shape_unit(shape, address);
	if (unit >= 8)
		return with(shaped_place<8>{ address, shape });
	if (unit == 4)
		return with(shaped_place<4>{ address, shape });
	return with(shaped_place<1>{ address, shape });
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_SHAPE_H */
