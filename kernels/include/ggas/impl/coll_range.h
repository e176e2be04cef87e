/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How vectors are cut into parts and rounds; included by coll.cuh. */
#ifndef GGAS_IMPL_COLL_RANGE_H
#define GGAS_IMPL_COLL_RANGE_H

#include "../vocab.h"

namespace ggas_impl
{

GGAS_FN uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A part of something that is cut into packets or elements. */
struct range {
	uint64_t begin, end;
	GGAS_FN uint64_t size() const { return end - begin; }
};

/* Part `index` of `parts` of `count`, cut at multiples of `grain`. */
GGAS_FN range part_of(uint64_t count, uint32_t parts, uint32_t index, uint64_t grain)
{
	uint64_t size = (count + parts - 1) / parts;
	size = (size + grain - 1) / grain * grain;
	uint64_t begin = smaller(size * index, count);
	return { begin, smaller(begin + size, count) };
}

/* Packets of a round of two steps: as many as slots hold, but what is left for the last one is enough for parts for all. */
GGAS_FN uint64_t two_shot_round(uint64_t left, uint64_t most, uint32_t nodes)
{
	uint64_t size = smaller(left, most);
	if (left > size && left - size < nodes * nodes)
		size -= nodes * nodes;
	return size;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_RANGE_H */
