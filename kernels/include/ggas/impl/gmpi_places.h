/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Long messages of direct communicators without a second copy: a receive of GMPI_DIRECT_PLACED bytes and more tells the sender its place
 * in the communicator's window. A sender that knows it writes the message there, and its first line says so; otherwise it travels in slots.
 *
 * Message k of a member is taken by receive k from it, so a place is known by this number. Two lines, each stored as one:
 * { offset in the receiver's part of the window, or no_place, which has no second line; k + 1 }, { tag, bytes of room; k + 1 }.
 *
 * Order. What the receiver's block did there was before: its last line has release, and the sender acquires behind it.
 */
#ifndef GGAS_IMPL_GMPI_PLACES_H
#define GGAS_IMPL_GMPI_PLACES_H

#include "gmpi_crew.h"
#include "gmpi_mailbox.h"

namespace ggas_impl
{

constexpr uint64_t no_place = ~uint64_t(0);

/* In a message's first line: it is in its place. Tags have no such bit. */
constexpr uint64_t is_placed = uint64_t(1) << 31;

/* A sender's looks for a place: a receive that is begun together with the send tells it within a microsecond or two. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t place_looks = 1;
#else
constexpr uint32_t place_looks = 8;
#endif

/* Where a message goes; address 0: into slots. */
struct direct_place {
	uint64_t address, room;
};

/* Whether the bytes of a receive lie together in the window. */
GGAS_FN bool direct_has_place(const gmpi_direct *direct, uint64_t address, uint64_t bytes, bool shaped)
{
	uint64_t offset = address - direct->local;
	return !shaped && address >= direct->local && bytes <= direct->bytes && offset <= direct->bytes - bytes;
}

/* Tells a member where message `number` of it goes. By the leader. */
template <ggas_scope Scope>
GGAS_LONG void direct_tell_place(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t peer, uint64_t number, const gmpi_direct_op &op)
{
	using team = gmpi_team<Scope>;
	uint64_t offset = op.address - direct->local, tag = static_cast<uint32_t>(op.tag);
	bool is_there = direct_has_place(direct, op.address, op.bytes, op.shaped);
	uint32_t block = buf->single ? 0 : ggas_block();
	ggas_u128 *lines = direct_place_lines(direct_box(direct, block, peer, direct->rank), number);
	team::meet();
	if (team::lane() == 0 && is_there) {
		ggas_store_relaxed(lines + 1, ggas_u128{ tag | uint64_t(op.bytes) << 32, number + 1 });
		ggas_store_release(lines, ggas_u128{ offset, number + 1 });
	} else if (team::lane() == 0) {
		/* Nobody writes there, so nothing is ordered: a fence costs a microsecond. */
		ggas_store_relaxed(lines, ggas_u128{ no_place, number + 1 });
	}
	team::meet();
}

/* The place of message `number` to a member, as far as it is known. With acquire. By the leader. */
template <ggas_scope Scope>
GGAS_FN direct_place direct_place_of(const gmpi_direct *direct, uint64_t *mine, uint32_t peer, uint64_t number, int tag)
{
	using team = gmpi_team<Scope>;
	ggas_u128 *lines = direct_place_lines(mine, number);
	direct_place place = { 0, 0 };
	if (team::lane() == 0) {
		ggas_u128 where = { 0, 0 }, what = { 0, 0 };
		for (uint32_t i = 0; i < place_looks && (where.hi != number + 1 || (where.lo != no_place && what.hi != number + 1)); i++) {
			where = ggas_watch_line(lines);
			what = ggas_watch_line(lines + 1);
		}
		bool known = where.hi == number + 1 && what.hi == number + 1 && where.lo != no_place;
		int wanted = static_cast<int>(what.lo & 0xffffffff);
		/* One of another tag is an error that the receiver tells; its bytes stay away. */
		if (known && (wanted == GMPI_ANY_TAG || wanted == tag)) {
			place = { reinterpret_cast<uint64_t>(direct_pointer<uint8_t>(direct, peer, where.lo)), what.lo >> 32 };
			ggas_fence_acquire();
		}
	}
	place.address = team::from_first(place.address);
	place.room = team::from_first(place.room);
	team::meet();
	return place;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_PLACES_H */
