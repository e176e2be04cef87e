/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lines of packed puts: 12 bytes of data and a flag; included by put_packed.h. */
#ifndef GGAS_IMPL_PUT_LINE_H
#define GGAS_IMPL_PUT_LINE_H

namespace ggas_impl
{

constexpr uint32_t packed_bytes = 12; /* data of a line */

/* Before each ring. */
struct packed_state {
	uint64_t credit; /* lines that the other node took of what this one sent; it writes this */
	uint64_t sent, taken; /* lines of this node, while no kernel has the end open */
	uint64_t reserved[5];
};

struct packed_words {
	uint32_t word[3];
};

/* A line of words. */
GGAS_FN packed_words load_words(const uint8_t *from)
{
	auto *words = reinterpret_cast<const uint32_t *>(from);
	return { { words[0], words[1], words[2] } };
}
GGAS_FN void store_words(uint8_t *to, ggas_u128 line)
{
	auto *words = reinterpret_cast<uint32_t *>(to);
	words[0] = static_cast<uint32_t>(line.lo);
	words[1] = static_cast<uint32_t>(line.lo >> 32);
	words[2] = static_cast<uint32_t>(line.hi);
}

/* A line of 4 bytes, 8, or more. */
GGAS_FN packed_words load_few_words(const uint8_t *from, uint32_t bytes)
{
	auto *words = reinterpret_cast<const uint32_t *>(from);
	return { { words[0], bytes > 4 ? words[1] : 0, bytes > 8 ? words[2] : 0 } };
}
GGAS_FN void store_few_words(uint8_t *to, uint32_t bytes, ggas_u128 line)
{
	auto *words = reinterpret_cast<uint32_t *>(to);
	words[0] = static_cast<uint32_t>(line.lo);
	if (bytes > 4)
		words[1] = static_cast<uint32_t>(line.lo >> 32);
	if (bytes > 8)
		words[2] = static_cast<uint32_t>(line.hi);
}

/* A line of up to 12 bytes, anywhere; rolled up, since few lines are such. */
GGAS_FN packed_words load_bytes(const uint8_t *from, uint32_t bytes)
{
	uint64_t low = 0, high = 0;
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < bytes; i++) {
		uint64_t byte = static_cast<uint64_t>(from[i]) << i % 8 * 8;
		low |= i < 8 ? byte : 0;
		high |= i < 8 ? 0 : byte;
	}
	return { { static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high) } };
}
GGAS_FN void store_bytes(uint8_t *to, uint32_t bytes, ggas_u128 line)
{
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = static_cast<uint8_t>((i < 8 ? line.lo : line.hi) >> i % 8 * 8);
}

GGAS_FN ggas_u128 pack(packed_words words, uint32_t flag)
{
	return { words.word[0] | static_cast<uint64_t>(words.word[1]) << 32,
		 words.word[2] | static_cast<uint64_t>(flag) << 32 };
}
GGAS_FN uint32_t flag_of(ggas_u128 line) { return static_cast<uint32_t>(line.hi >> 32); }

/* The slow part of waiting for a line. */
GGAS_COLD int wait_line(const ggas_u128 *at, uint32_t flag, uint64_t report, uint64_t timeout, uint32_t node, uint32_t peer,
			uint32_t line)
{
	ggas_wait wait(report, timeout, GGAS_WAIT_FLAG, node, peer, line);
	uint32_t seen;
	while ((seen = flag_of(ggas_load_relaxed(at))) != flag)
		if (int error = wait.again(at, flag, seen))
			return error;
	return GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_PUT_LINE_H */
