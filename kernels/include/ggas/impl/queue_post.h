/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Writes, reads and quiet; included by queue.cuh. */
#ifndef GGAS_IMPL_QUEUE_POST_H
#define GGAS_IMPL_QUEUE_POST_H

namespace ggas_impl
{

/* To a member whose process is gone. A place in the ring is taken already, so a word that nobody reads goes to this
 * member itself. */
GGAS_FN int post_to_lost(ggas_queue queue, ggas_queue_peer *peer, uint32_t member, uint32_t kind, slot_ring ring,
			   uint32_t line)
{
	const ggas_queues *all = queue.all;
	ggas_red_add(&queue.state->posted, ~uint64_t(0), ggas_order::relaxed);
	ggas_red_add(&peer->posted[kind], ~uint64_t(0), ggas_order::relaxed);
	if (ring.slots) {
		ggas_remote own(queue, reinterpret_cast<const ggas_memory *>(all->flags), all->member);
		uint64_t word = own.nla + quiet_word(all, queue.number) * sizeof(uint64_t);
		extoll_desc desc = extoll_desc_immediate_put(own.node, own.vpid, EXTOLL_SPEC_NONE, EXTOLL_MOD_NONE,
							     sizeof(uint64_t), word, 0);
		if (int error = slot_post(queue.port, ring, desc, line))
			return note_failure(queue, error);
	}
	return report_lost(all, member, line);
}

/* `before`: posts that were counted before this one; `ended`: done and failed. */
GGAS_COLD int posted_late(ggas_queue queue, uint64_t before, ggas_u128 ended, uint32_t line)
{
	if (uint32_t failed = static_cast<uint32_t>(ended.hi))
		return static_cast<int>(failed);
	if (static_cast<int64_t>(before - ended.lo) >= static_cast<int64_t>(queue.limit))
		return make_room(queue, before, line);
	return GGAS_OK;
}

/* A post that something may be in the way of. */
GGAS_COLD int post_slowly(ggas_queue queue, ggas_queue_peer *peer, uint32_t member, uint32_t kind, uint64_t before,
			  ggas_u128 ended, slot_ring ring, extoll_desc desc, uint32_t line)
{
	if (ended.hi >> 32 && ggas_load_relaxed(&peer->lost))
		return post_to_lost(queue, peer, member, kind, ring, line);
	if (int error = post_late(queue.port, ring, desc, line))
		return note_failure(queue, error);
	return posted_late(queue, before, ended, line);
}

/* Posts a command whose end a notification tells. All that a post asks is under way together, its place in the ring too:
 * each answer is a trip to the GPU's L2. Nothing orders the counts before the place for others; queue_watch knows. */
static_assert(offsetof(ggas_queue_state, done) % sizeof(ggas_u128) == 0 &&
		      offsetof(ggas_queue_state, failed) == offsetof(ggas_queue_state, done) + 8 &&
		      offsetof(ggas_queue_state, lost) == offsetof(ggas_queue_state, done) + 12,
	      "one access loads them");
GGAS_FN int queue_post(const ggas_queue &queue, const ggas_remote &to, uint32_t kind, const extoll_desc &desc,
		       uint32_t line)
{
	ggas_queue_state *state = queue.state;
	uint64_t before = ggas_atomic_add(&state->posted, 1u, ggas_order::relaxed);
	ggas_u128 ended = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&state->done));
	ggas_red_add(&to.peer->posted[kind], 1u, ggas_order::relaxed);
	slot_ring ring(queue.port, queue.shape);
	if (GGAS_RARE(!ring.ready() | (ended.hi >> 32 != 0)))
		return post_slowly(queue, to.peer, to.member, kind, before, ended, ring, desc, line);
	slot_write(ring.slots, ring.mask, ring.index, desc, ring.near);
	bool room = static_cast<int64_t>(before - ended.lo) < static_cast<int64_t>(queue.limit);
	if (GGAS_RARE(!room | (ended.hi != 0)))
		return posted_late(queue, before, ended, line);
	return GGAS_OK;
}

/* `bytes`: at most those of one command. */
GGAS_FN int queue_move_one(const ggas_queue &queue, const ggas_remote &at, uint32_t kind, uint64_t read, uint64_t write,
			   uint64_t bytes, uint32_t line)
{
	bool put = kind == GGAS_QUEUE_PUTS;
	extoll_desc desc = extoll_desc_sized(put ? EXTOLL_CMD_BT_PUT : EXTOLL_CMD_BT_GET, at.node, at.vpid,
					     put ? EXTOLL_SPEC_REQUESTER : EXTOLL_SPEC_COMPLETER, EXTOLL_MOD_NONE, read,
					     write, static_cast<uint32_t>(bytes));
	return queue_post(queue, at, kind, desc, line);
}

/* In commands of the longest size there is. */
GGAS_COLD int queue_move_many(ggas_queue queue, ggas_remote at, uint32_t kind, uint64_t read, uint64_t write,
			      uint64_t bytes, uint32_t line)
{
	for (uint64_t done = 0; done < bytes; done += EXTOLL_MAX_TRANSFER) {
		uint64_t left = bytes - done, piece = left < EXTOLL_MAX_TRANSFER ? left : EXTOLL_MAX_TRANSFER;
		if (int error = queue_move_one(queue, at, kind, read + done, write + done, piece, line))
			return error;
	}
	return GGAS_OK;
}

GGAS_FN int queue_move(const ggas_queue &queue, const ggas_remote &at, uint32_t kind, uint64_t read, uint64_t write,
		       uint64_t bytes, uint32_t line)
{
	/* None, too. */
	if (GGAS_RARE(bytes - 1 >= EXTOLL_MAX_TRANSFER))
		return queue_move_many(queue, at, kind, read, write, bytes, line);
	return queue_move_one(queue, at, kind, read, write, bytes, line);
}

template <ggas_scope Scope>
GGAS_FN int queue_write(const ggas_queue &queue, const ggas_remote &to, uint64_t to_offset, const ggas_remote &from,
			uint64_t from_offset, uint64_t bytes, uint32_t line)
{
	using team = put_team<Scope>;
	int error = check_ends(queue, to, to_offset, from, from_offset, bytes, line);
	if (GGAS_RARE(error))
		return error;
	/* Any of the callers may have written the source. */
	team::meet();
	if (to.way == GGAS_WAY_STORES) {
		copy_share(reinterpret_cast<void *>(to.address + to_offset),
			   reinterpret_cast<const void *>(from.address + from_offset), bytes, team::thread(),
			   team::threads());
		return GGAS_OK;
	}
	if (team::thread() == 0)
		error = queue_move(queue, to, GGAS_QUEUE_PUTS, from.nla + from_offset, to.nla + to_offset, bytes, line);
	return team::agree(error);
}

template <ggas_scope Scope>
GGAS_FN int queue_read(const ggas_queue &queue, const ggas_remote &from, uint64_t from_offset, const ggas_remote &to,
		       uint64_t to_offset, uint64_t bytes, uint32_t line)
{
	using team = put_team<Scope>;
	int error = check_ends(queue, from, from_offset, to, to_offset, bytes, line);
	if (GGAS_RARE(error))
		return error;
	team::meet();
	if (from.way == GGAS_WAY_STORES) {
		fetch_share(reinterpret_cast<void *>(to.address + to_offset),
			    reinterpret_cast<const void *>(from.address + from_offset), bytes, team::thread(),
			    team::threads());
		return GGAS_OK;
	}
	if (team::thread() == 0)
		error = queue_move(queue, from, GGAS_QUEUE_GETS, from.nla + from_offset, to.nla + to_offset, bytes,
				   line);
	return team::agree(error);
}

/* By one thread. A member to which nothing was written need not answer. */
GGAS_COLD int queue_quiet_one(ggas_queue queue, uint32_t line)
{
	const ggas_queues *all = queue.all;
	auto *words = reinterpret_cast<const ggas_memory *>(all->flags);
	ggas_remote own(queue, words, all->member);
	uint64_t offset = quiet_word(all, queue.number) * sizeof(uint64_t);
	int error = GGAS_OK;
	for (uint32_t i = 0; i < all->members && !error; i++) {
		ggas_queue_peer *peer = queue.peers + i;
		if (ggas_load_relaxed(&peer->posted[GGAS_QUEUE_PUTS]) == 0 && ggas_load_relaxed(&peer->flags) == 0)
			continue;
		ggas_remote at(queue, words, i);
		error = queue_move(queue, at, GGAS_QUEUE_GETS, at.nla + offset, own.nla + offset, sizeof(uint64_t),
				   line);
	}
	return error ? error : queue_wait_one(queue, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_QUEUE_POST_H */
