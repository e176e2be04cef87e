/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Writes, reads and quiet; included by queue.cuh. */
#ifndef GGAS_IMPL_QUEUE_POST_H
#define GGAS_IMPL_QUEUE_POST_H

namespace ggas_impl
{

/* Gives a place in the ring back: by a word that nobody reads, to this member itself, since it has to be filled. */
GGAS_FN int give_back(const ggas_queue &queue, const slot_ring &ring, uint32_t line)
{
	if (!ring.slots)
		return GGAS_OK;
	const ggas_queues *all = queue.all;
	ggas_remote own(queue, reinterpret_cast<const ggas_memory *>(all->flags), all->member);
	uint64_t word = own.nla + quiet_word(all, queue.number) * sizeof(uint64_t);
	extoll_desc desc = extoll_desc_immediate_put(own.node, own.vpid, EXTOLL_SPEC_NONE, EXTOLL_MOD_NONE, sizeof(uint64_t),
						     word, 0);
	int error = slot_post(queue.port, ring, desc, line);
	return error ? note_failure(queue, error) : GGAS_OK;
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

/* Of a post: what is wrong with it is still to be said. */
constexpr int refused = -1;

/* A post that something may be in the way of. */
GGAS_COLD int post_slowly(ggas_queue queue, ggas_queue_peer *peer, uint32_t member, uint32_t kind, uint64_t before,
			  ggas_u128 ended, slot_ring ring, extoll_desc desc, uint32_t line)
{
	if (ended.hi >> 32 && ggas_load_relaxed(&peer->lost)) {
		ggas_red_add(&queue.state->posted, ~uint64_t(0), ggas_order::relaxed);
		ggas_red_add(&peer->posted[kind], ~uint64_t(0), ggas_order::relaxed);
		int error = give_back(queue, ring, line);
		return error ? error : report_lost(queue.all, member, line);
	}
	if (int error = post_late(queue.port, ring, desc, line))
		return note_failure(queue, error);
	return posted_late(queue, before, ended, line);
}

static_assert(offsetof(ggas_queue_state, done) % sizeof(ggas_u128) == 0 &&
		      offsetof(ggas_queue_state, failed) == offsetof(ggas_queue_state, done) + 8 &&
		      offsetof(ggas_queue_state, lost) == offsetof(ggas_queue_state, done) + 12,
	      "one access loads them");

/* What a post asks before it takes its place in the ring, whose number tells it of posts that looked at the same time. */
struct post_look {
	uint64_t claimed;	/* first: a post that is not among `before` claims its place later */
	ggas_u128 ended;
	uint64_t before;
	slot_ring ring;

	GGAS_FN explicit post_look(const ggas_queue &queue)
		: claimed(ggas_load_relaxed(&queue.port->slot_tail)),
		  ended(ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&queue.state->done))),
		  before(ggas_load_relaxed(&queue.state->posted)), ring(queue.port, queue.shape, slot_ring::later)
	{
	}
};

GGAS_FN int queue_post_after(const ggas_queue &queue, post_look look, const ggas_remote &to, uint32_t kind,
			     const extoll_desc &desc, uint32_t line)
{
	slot_ring &ring = look.ring;
	ggas_red_add(&queue.state->posted, 1u, ggas_order::relaxed);
	ggas_red_add(&to.peer->posted[kind], 1u, ggas_order::relaxed);
	ring.claim(queue.port);
	/* With flags, and what was counted twice: too many at most. */
	uint64_t before = look.before + (ring.index - look.claimed);
	if (GGAS_RARE(!ring.ready() | (look.ended.hi >> 32 != 0)))
		return post_slowly(queue, to.peer, to.member, kind, before, look.ended, ring, desc, line);
	slot_write(ring.slots, ring.mask, ring.index, desc, ring.near);
	bool room = static_cast<int64_t>(before - look.ended.lo) < static_cast<int64_t>(queue.limit);
	if (GGAS_RARE(!room | (look.ended.hi != 0)))
		return posted_late(queue, before, look.ended, line);
	return GGAS_OK;
}

/* Posts a command whose end a notification tells. All that a post asks is under way together, and what is to be refused is
 * found out meanwhile: each answer is a trip to the GPU's L2. Its place in the ring is asked for last, as an atomic whose
 * result is wanted keeps what follows waiting: 0.2 us. So there is one of them, and its result tells two things: the place,
 * and how many came meanwhile. Else any number of posts at the same time might each find room, and nobody consume.
 * Nothing orders the counts before the place for others; queue_watch knows. The queue has a port. */
GGAS_FN int queue_post(const ggas_queue &queue, const ggas_remote &to, uint32_t kind, const extoll_desc &desc,
		       const refusals &some, uint32_t line)
{
	post_look look(queue);
	if (GGAS_RARE(some.any()))
		return refused;
	return queue_post_after(queue, look, to, kind, desc, line);
}

/* `bytes`: at most those of one command. */
GGAS_FN extoll_desc transfer_desc(const ggas_remote &at, uint32_t kind, uint64_t read, uint64_t write, uint64_t bytes)
{
	bool put = kind == GGAS_QUEUE_PUTS;
	return extoll_desc_sized(put ? EXTOLL_CMD_BT_PUT : EXTOLL_CMD_BT_GET, at.node, at.vpid,
				 put ? EXTOLL_SPEC_REQUESTER : EXTOLL_SPEC_COMPLETER, EXTOLL_MOD_NONE, read, write,
				 static_cast<uint32_t>(bytes));
}

/* What may be wrong with a transfer by the network device, which has to know both ends. */
GGAS_FN refusals refused_transfer(const ggas_queue &queue, const ggas_remote &there, uint64_t there_offset, const ggas_remote &own,
				  uint64_t own_offset, uint64_t bytes)
{
	refusals some = refused_ends(queue, there, there_offset, own, own_offset, bytes);
	some.outside |= own.nla;
	return some;
}

/* One that is not one command, of no bytes or of more than a command moves; one by a queue without a port, or that is refused unless
 * it is traced. `line`: of traced(). */
GGAS_COLD int transfer_many(ggas_queue queue, ggas_remote there, uint64_t there_offset, ggas_remote own, uint64_t own_offset,
			    uint32_t kind, uint64_t bytes, uint32_t line)
{
	if (refused_transfer(queue, there, there_offset, own, own_offset, bytes).any())
		if (int error = refuse_ends(queue, there, there_offset, own, own_offset, bytes, line))
			return error;
	line &= line_mask;
	uint64_t far = there.nla + there_offset, near = own.nla + own_offset;
	bool put = kind == GGAS_QUEUE_PUTS;
	for (uint64_t done = 0; done < bytes; done += EXTOLL_MAX_TRANSFER) {
		uint64_t left = bytes - done, piece = left < EXTOLL_MAX_TRANSFER ? left : EXTOLL_MAX_TRANSFER;
		extoll_desc desc = transfer_desc(there, kind, done + (put ? near : far), done + (put ? far : near), piece);
		if (int error = queue_post(queue, there, kind, desc, refusals(), line))
			return error;
	}
	return GGAS_OK;
}

/* A put or a get through the network device. By one thread. `how`: trace_flag behind which a flag follows. */
GGAS_FN int transfer(const ggas_queue &queue, const ggas_remote &there, uint64_t there_offset, const ggas_remote &own,
		     uint64_t own_offset, uint32_t kind, uint64_t bytes, uint32_t line, uint32_t how = 0)
{
	how |= trace_by(ggas_scope::thread) | (kind == GGAS_QUEUE_GETS ? trace_got : 0);
	int error = refused;
	if (!GGAS_RARE(!queue.state | (bytes - 1 >= EXTOLL_MAX_TRANSFER))) {
		uint64_t far = there.nla + there_offset, near = own.nla + own_offset;
		bool put = kind == GGAS_QUEUE_PUTS;
		extoll_desc desc = transfer_desc(there, kind, put ? near : far, put ? far : near, bytes);
		refusals some = refused_transfer(queue, there, there_offset, own, own_offset, bytes);
		error = queue_post(queue, there, kind, desc, some, line);
	}
	if (GGAS_RARE(error == refused))
		return transfer_many(queue, there, there_offset, own, own_offset, kind, bytes, traced(how, line));
	return error;
}

/* Copies of a thread alone: apart, so that its post need not jump over them. Others have no time for a call. */
GGAS_LONG void store_alone(void *to, const void *from, uint64_t bytes) { copy_share(to, from, bytes, 0, 1); }
GGAS_LONG void load_alone(void *to, const void *from, uint64_t bytes) { fetch_share(to, from, bytes, 0, 1); }

template <ggas_scope Scope>
GGAS_FN int queue_write(const ggas_queue &queue, const ggas_remote &to, uint64_t to_offset, const ggas_remote &from,
			uint64_t from_offset, uint64_t bytes, uint32_t line)
{
	using team = put_team<Scope>;
	int error = GGAS_OK;
	/* Any of the callers may have written the source. */
	team::meet();
	if (to.way == GGAS_WAY_DEVICE) {
		if (team::thread() == 0)
			error = transfer(queue, to, to_offset, from, from_offset, GGAS_QUEUE_PUTS, bytes, line);
		return team::agree(error);
	}
	auto *there = reinterpret_cast<uint8_t *>(to.address + to_offset);
	auto *here = reinterpret_cast<const void *>(from.address + from_offset);
	bool loads = loads_own(from, from_offset, bytes);
	/* Under way while the rest is checked. */
	short_put few(there, here, loads ? bytes : 0, team::thread(), team::threads());
	if ((error = check_ends(queue, to, to_offset, from, from_offset, bytes, traced(trace_by(Scope), line))))
		return error;
	if (few.fits())
		few.store(there);
	else if constexpr (Scope == ggas_scope::thread)
		store_alone(there, here, bytes);
	else
		copy_share(there, here, bytes, team::thread(), team::threads());
	return GGAS_OK;
}

template <ggas_scope Scope>
GGAS_FN int queue_read(const ggas_queue &queue, const ggas_remote &from, uint64_t from_offset, const ggas_remote &to,
		       uint64_t to_offset, uint64_t bytes, uint32_t line)
{
	using team = put_team<Scope>;
	int error = GGAS_OK;
	team::meet();
	if (from.way == GGAS_WAY_DEVICE) {
		if (team::thread() == 0)
			error = transfer(queue, from, from_offset, to, to_offset, GGAS_QUEUE_GETS, bytes, line);
		return team::agree(error);
	}
	if ((error = check_ends(queue, from, from_offset, to, to_offset, bytes, traced(trace_by(Scope) | trace_got, line))))
		return error;
	auto *there = reinterpret_cast<const void *>(from.address + from_offset);
	auto *here = reinterpret_cast<void *>(to.address + to_offset);
	if constexpr (Scope == ggas_scope::thread)
		load_alone(here, there, bytes);
	else
		fetch_share(here, there, bytes, team::thread(), team::threads());
	return GGAS_OK;
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
		extoll_desc desc = transfer_desc(at, GGAS_QUEUE_GETS, at.nla + offset, own.nla + offset, sizeof(uint64_t));
		error = queue_post(queue, at, GGAS_QUEUE_GETS, desc, refusals(), line);
	}
	return error ? error : queue_wait_one(queue, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_QUEUE_POST_H */
