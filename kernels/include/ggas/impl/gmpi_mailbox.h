/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where things lie in a mailbox (gmpi_channel.h): its head, places, the lines of all slots, the bytes of long messages. */
#ifndef GGAS_IMPL_GMPI_MAILBOX_H
#define GGAS_IMPL_GMPI_MAILBOX_H

#include "../ggas.cuh"
#include "gmpi_call.h"

namespace ggas_impl
{

static_assert(GMPI_DIRECT_PLACE == 2 * sizeof(ggas_u128), "a place is two lines");

/* Bytes in front of a mailbox's lines. */
constexpr uint64_t direct_front = GMPI_DIRECT_HEAD + GMPI_DIRECT_OPS * GMPI_DIRECT_PLACE;

/* Bytes of a slot's lines. */
GGAS_FN uint64_t direct_lines_room(uint64_t slot_bytes)
{
	uint64_t half = slot_bytes / 2;
	return GMPI_DIRECT_HEAD + 2 * (half < GMPI_DIRECT_SHORT ? half : GMPI_DIRECT_SHORT);
}

/* The first line of slot `number` of a mailbox. */
GGAS_FN ggas_u128 *direct_line(uint64_t box, uint64_t number, uint64_t slots, uint64_t slot_bytes)
{
	return reinterpret_cast<ggas_u128 *>(box + direct_front + (number & (slots - 1)) * direct_lines_room(slot_bytes));
}

/* Pointer `offset` bytes into a member's part of the window (ggas.cuh). */
template <class T> GGAS_FN T *direct_pointer(const gmpi_direct *direct, uint32_t owner, uint64_t offset)
{
	return reinterpret_cast<T *>(offset + (owner == direct->rank ? direct->local : direct->base + owner * direct->stride));
}

/* The mailbox of `owner` for messages of member `of` to its block of this number. */
GGAS_FN uint64_t *direct_box(const gmpi_direct *direct, uint32_t block, uint32_t owner, uint32_t of)
{
	uint64_t bytes = direct_front + direct->slots * (direct_lines_room(direct->slot_bytes) + direct->slot_bytes);
	uint64_t number = uint64_t(block) * direct->size + of;
	return direct_pointer<uint64_t>(direct, owner, direct->offset + number * bytes);
}

/* The lines of place `number`. */
GGAS_FN ggas_u128 *direct_place_lines(uint64_t *box, uint64_t number)
{
	uint64_t at = GMPI_DIRECT_HEAD + number % GMPI_DIRECT_OPS * GMPI_DIRECT_PLACE;
	return reinterpret_cast<ggas_u128 *>(reinterpret_cast<uint64_t>(box) + at);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_MAILBOX_H */
