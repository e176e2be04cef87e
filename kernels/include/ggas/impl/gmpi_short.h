/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Short messages, and vectors of allreduces, travel in the rings: what is sent in the attribute, what is received in the answer. So the
 * daemon sends from and receives into host memory, and copies nothing from or to the kernels' memory, which takes longer than the call.
 */
#ifndef GGAS_IMPL_GMPI_SHORT_H
#define GGAS_IMPL_GMPI_SHORT_H

#include "gmpi_ring.h"

namespace ggas_impl
{

/* A word at a multiple of 4. */
GGAS_FN uint64_t load_halves(const uint8_t *from)
{
	auto *halves = reinterpret_cast<const uint32_t *>(from);
	return halves[0] | static_cast<uint64_t>(halves[1]) << 32;
}
GGAS_FN void store_halves(uint8_t *to, uint64_t word)
{
	auto *halves = reinterpret_cast<uint32_t *>(to);
	halves[0] = static_cast<uint32_t>(word);
	halves[1] = static_cast<uint32_t>(word >> 32);
}

/* Up to 8 bytes, as the low ones of a word. */
GGAS_FN uint64_t load_word(const uint8_t *from, uint64_t left)
{
	uint64_t at = reinterpret_cast<uint64_t>(from), word = 0, i = 0;
	if (left >= 8 && at % 8 == 0)
		return *reinterpret_cast<const uint64_t *>(from);
	if (left >= 8 && at % 4 == 0)
		return load_halves(from);
	if (left >= 4 && at % 4 == 0) {
		word = *reinterpret_cast<const uint32_t *>(from);
		i = 4;
	}
	GGAS_NO_UNROLL
	for (; i < 8 && i < left; i++)
		word |= static_cast<uint64_t>(from[i]) << i * 8;
	return word;
}

GGAS_FN void store_word(uint8_t *to, uint64_t left, uint64_t word)
{
	uint64_t at = reinterpret_cast<uint64_t>(to), i = 0;
	if (left >= 8 && at % 8 == 0) {
		*reinterpret_cast<uint64_t *>(to) = word;
		return;
	}
	if (left >= 8 && at % 4 == 0) {
		store_halves(to, word);
		return;
	}
	if (left >= 4 && at % 4 == 0) {
		*reinterpret_cast<uint32_t *>(to) = static_cast<uint32_t>(word);
		i = 4;
	}
	GGAS_NO_UNROLL
	for (; i < 8 && i < left; i++)
		to[i] = static_cast<uint8_t>(word >> i * 8);
}

/* How many bytes of a message go behind so many elements: all, if they fit and are attached; else none, and the daemon, which says what is
 * wrong with them, reads them. By all that write. */
template <class Team>
GGAS_FN uint32_t gmpi_carried(const gmpi_buf *buf, uint64_t at, uint64_t count, uint64_t type, uint32_t elements)
{
	/* A count below zero is too many. */
	uint64_t bytes = count * (type & GMPI_TYPE_SIZE_MASK), most = (GMPI_ELEMENTS - elements) * uint64_t(8);
	if (bytes - 1 >= most)
		return 0;
	int found = 0;
	GGAS_NO_UNROLL
	for (uint32_t i = Team::lane(); i < buf->ranges; i += Team::lanes()) {
		uint64_t offset = at - buf->range[i].start, room = buf->range[i].bytes;
		found |= offset < room && bytes <= room - offset;
	}
	return Team::agree(found) ? static_cast<uint32_t>(bytes) : 0;
}

/* Element 0 of a call that carries a message. */
GGAS_FN uint64_t gmpi_carries(uint64_t call, uint32_t bytes) { return call | uint64_t(bytes) << GMPI_CALL_BYTES_SHIFT; }
GGAS_FN uint32_t gmpi_words(uint32_t bytes) { return (bytes + 7) / 8; }

/* Word `index` of the message. */
GGAS_FN uint64_t gmpi_carried_word(uint64_t at, uint32_t bytes, uint32_t index)
{
	return load_word(reinterpret_cast<const uint8_t *>(at) + index * uint64_t(8), bytes - index * uint64_t(8));
}

/* Stores the messages that an answer brought. By all that write, which meet behind it. */
template <class Team> GGAS_LONG void gmpi_deliver(const gmpi_port *port, uint64_t number, uint64_t answer)
{
	constexpr uint64_t where = (uint64_t(1) << GMPI_MESSAGE_BYTES_SHIFT) - 1;
	uint32_t count = answer >> GMPI_ANSWER_MESSAGES_SHIFT & ((1u << GMPI_ANSWER_MESSAGES_BITS) - 1);
	uint32_t at = 1 + 2 * (answer >> GMPI_ANSWER_STATUSES_SHIFT & ((1u << GMPI_ANSWER_STATUSES_BITS) - 1));
	uint32_t lane = Team::lane();
	/* A whole warp has all elements by one look across the bus. */
	bool whole = Team::lanes() == GMPI_ELEMENTS;
	uint64_t mine = whole && lane >= at ? gmpi_element(port, number, lane) : 0;
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < count && at < GMPI_ELEMENTS; i++) {
		uint64_t head = whole ? Team::from(at, mine) : gmpi_element(port, number, at);
		uint32_t bytes = static_cast<uint32_t>(head >> GMPI_MESSAGE_BYTES_SHIFT);
		auto *to = reinterpret_cast<uint8_t *>(head & where);
		GGAS_NO_UNROLL
		for (uint32_t k = whole ? lane - at - 1 : lane; k < gmpi_words(bytes); k += Team::lanes())
			store_word(to + k * 8, bytes - k * 8, whole ? mine : gmpi_element(port, number, at + 1 + k));
		at += 1 + gmpi_words(bytes);
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_SHORT_H */
