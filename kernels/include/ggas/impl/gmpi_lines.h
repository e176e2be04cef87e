/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Short messages of a direct communicator: lines of 16 bytes, each stored as one, of 8 and a number that says whose they are. */
#ifndef GGAS_IMPL_GMPI_LINES_H
#define GGAS_IMPL_GMPI_LINES_H

#include "../ggas.cuh"
#include "gmpi_call.h"
#include "gmpi_shape.h"

namespace ggas_impl
{

static_assert(GMPI_DIRECT_LINE == sizeof(ggas_u128), "lines are stored as one");

/* Lines of a thread that are under way at a time. */
constexpr uint32_t lines_at_once = 4;

/* How words of a message are accessed: at multiples of 8, of 4, or byte by byte. All loads of a batch are begun before one is waited for, so
 * which it is is found out once. */
struct by_words {
	GGAS_FN static uint64_t load(const uint8_t *from) { return *reinterpret_cast<const uint64_t *>(from); }
	GGAS_FN static void store(uint8_t *to, uint64_t word) { *reinterpret_cast<uint64_t *>(to) = word; }
};
struct by_halves {
	GGAS_FN static uint64_t load(const uint8_t *from) { return load_halves(from); }
	GGAS_FN static void store(uint8_t *to, uint64_t word) { store_halves(to, word); }
};
struct by_bytes {
	GGAS_FN static uint64_t load(const uint8_t *from) { return load_word(from, 8); }
	GGAS_FN static void store(uint8_t *to, uint64_t word) { store_word(to, 8, word); }
};

/* What a line has, into the place of a message of which `fits` bytes are wanted. */
template <class Access> GGAS_FN void store_line(uint8_t *to, uint64_t fits, uint64_t line, uint64_t word)
{
	uint64_t end = 8 * line;
	if (line && end <= fits)
		Access::store(to + end - 8, word);
	else if (line && end < fits + 8)
		store_word(to + end - 8, fits + 8 - end, word);
}

/* Words of a message that lies together, 8 bytes each, of which the last may be shorter. */
template <class Access> struct dense_place {
	uint64_t address;

	GGAS_FN uint64_t load(uint64_t word) const { return Access::load(reinterpret_cast<const uint8_t *>(address) + 8 * word); }
	GGAS_FN uint64_t load(uint64_t word, uint64_t left) const
	{
		return load_word(reinterpret_cast<const uint8_t *>(address) + 8 * word, left);
	}
	GGAS_FN void store(uint64_t fits, uint64_t line, uint64_t word) const
	{
		store_line<Access>(reinterpret_cast<uint8_t *>(address), fits, line, word);
	}
};

/* What `with` comes to with the words of such a message at an address. */
template <class With> GGAS_FN auto with_dense_place(uint64_t address, const With &with)
{
	if (address % 8 == 0)
		return with(dense_place<by_words>{ address });
	if (address % 4 == 0)
		return with(dense_place<by_halves>{ address });
	return with(dense_place<by_bytes>{ address });
}

/* The lines of one message: line 0 says what it is, the others have 8 of its bytes each. */
struct direct_lines {
	ggas_u128 *first;
	uint64_t number;	/* in each line */
	uint64_t info;		/* out: of line 0; in: bytes of the whole message, more than its place has room for maybe */
	uint64_t report, timeout_ns;
	uint32_t rank, peer, source_line;

	/* The share of thread `self` of `all`. */
	template <class Place> GGAS_FN void send(const Place &from, uint64_t bytes, uint32_t self, uint32_t all) const
	{
		uint64_t words = bytes / 8, batch = uint64_t(all) * lines_at_once;
		if (self == 0)
			put(0, info);
		if (bytes % 8 && self == all - 1)
			put(1 + words, from.load(words, bytes % 8));
		GGAS_NO_UNROLL
		for (uint64_t i = self; i < words; i += batch) {
			uint64_t word[lines_at_once] = {};
			for (uint32_t k = 0; k < lines_at_once; k++)
				if (i + k * all < words)
					word[k] = from.load(i + k * all);
			for (uint32_t k = 0; k < lines_at_once; k++)
				if (i + k * all < words)
					put(1 + i + k * all, word[k]);
		}
	}

	/* Waits for all lines, also those that do not fit: the slot is given back behind it. `fits`: bytes that do. */
	template <class Place> GGAS_FN int take(const Place &to, uint64_t fits, uint32_t self, uint32_t all) const
	{
		ggas_wait wait(report, timeout_ns, GGAS_WAIT_FLAG, rank, peer, source_line);
		uint64_t count = 1 + (info + 7) / 8, batch = uint64_t(all) * lines_at_once;
		GGAS_NO_UNROLL
		for (uint64_t i = self; i < count; i += batch) {
			ggas_u128 line[lines_at_once];
			if (int error = wait_for(wait, line, i, count, all))
				return error;
			for (uint32_t k = 0; k < lines_at_once; k++)
				to.store(fits, i + k * all, line[k].lo);
		}
		return GMPI_SUCCESS;
	}

private:
	GGAS_FN void put(uint64_t line, uint64_t word) const { ggas_store_relaxed(first + line, ggas_u128{ word, number }); }

	/* Loads a batch until all of it has come; behind the last line it is empty. */
	GGAS_FN int wait_for(ggas_wait &wait, ggas_u128 *line, uint64_t from, uint64_t count, uint32_t apart) const
	{
		for (;;) {
			uint64_t missing = count, seen = 0;
			for (uint32_t k = 0; k < lines_at_once; k++)
				line[k] = from + k * apart < count ? ggas_load_relaxed(first + from + k * apart) : ggas_u128{ 0, number };
			for (uint32_t k = 0; k < lines_at_once; k++)
				if (line[k].hi != number) {
					missing = from + k * apart;
					seen = line[k].hi;
				}
			if (missing == count)
				return GMPI_SUCCESS;
			if (wait.again(first + missing, number, seen))
				return GMPI_ERR_TIMEOUT;
		}
	}
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_LINES_H */
