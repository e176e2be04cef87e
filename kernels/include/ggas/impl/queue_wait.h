/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits for what was posted; included by queue.cuh. */
#ifndef GGAS_IMPL_QUEUE_WAIT_H
#define GGAS_IMPL_QUEUE_WAIT_H

namespace ggas_impl
{

/*
 * Whether all is done that was posted to a port before the watch began. Commands of one kind to one member end in the
 * order in which they were posted, those to different members in any: so it goes from member to member, and waits at
 * each for what was counted there when it came. What others post meanwhile does not keep it.
 *
 * A post counts itself and claims its slot by relaxed atomics, and publishes the slot behind both. So a post that came
 * before this thread's may be counted where this thread does not see it yet, and its end may look like that of this
 * thread's. Who has seen the end, with acquire, sees that count as well: where the counts are still those that were
 * waited for, all is well. Where they are not, the NIC must have taken all slots that were claimed when the watch began:
 * then all that was posted before is counted, and it waits for these counts, once.
 */
class queue_watch {
public:
	/* Looks at a member that is gone before it counts as waited for in vain. A post to it is counted until it is refused, some
	 * accesses later, so what was counted there may be less at the next look. */
	static constexpr uint32_t patience = 64;

	GGAS_FN bool over(const ggas_queue &queue)
	{
		ggas_queue_state *state = queue.state;
		if (!began_)
			claimed_ = ggas_load_relaxed(&queue.port->slot_tail);
		began_ = true;
		/* Most often nothing is under way: then all that was posted is done, if the counts are read in this
		 * order. */
		uint64_t done = ggas_load_watched_gpu(&state->done);
		if (done == ggas_load_relaxed(&state->posted)) {
			ggas_fence_acquire_gpu();
			if (done == ggas_load_relaxed(&state->posted))
				return true;
		}
		for (; member_ < queue.all->members; member_++, came_ = sure_ = false)
			if (!past(queue, queue.peers + member_))
				return false;
		ggas_fence_acquire_gpu();
		return true;
	}

	/* It waits for a member whose process is gone. */
	GGAS_FN bool lost() const { return lost_ > patience; }
	GGAS_FN uint32_t member() const { return member_; }
	/* For the report. */
	GGAS_FN uint64_t expected() const { return until_[0] + until_[1]; }
	GGAS_FN uint64_t seen() const { return seen_[0] + seen_[1]; }

	/* As many operations of one member ended as were counted when it came. */
	GGAS_FN bool counted(ggas_queue_peer *peer)
	{
		bool all = true;
		GGAS_UNROLL
		for (uint32_t kind = 0; kind < GGAS_QUEUE_KINDS; kind++) {
			if (!came_)
				until_[kind] = ggas_load_relaxed(&peer->posted[kind]);
			seen_[kind] = ggas_load_watched_gpu(&peer->done[kind]);
			all &= seen_[kind] >= until_[kind];
		}
		came_ = true;
		lost_ = !all && ggas_load_relaxed(&peer->lost) != 0 ? lost_ + 1 : 0;
		GGAS_UNROLL
		for (uint32_t kind = 0; kind < GGAS_QUEUE_KINDS && lost_; kind++) {
			uint64_t posted = ggas_load_relaxed(&peer->posted[kind]);
			until_[kind] = posted < until_[kind] ? posted : until_[kind];
		}
		return all;
	}

private:
	GGAS_FN bool past(const ggas_queue &queue, ggas_queue_peer *peer)
	{
		if (!counted(peer))
			return false;
		if (sure_)
			return true;
		ggas_fence_acquire_gpu();
		uint64_t more = 0;
		GGAS_UNROLL
		for (uint32_t kind = 0; kind < GGAS_QUEUE_KINDS; kind++)
			more |= ggas_load_relaxed(&peer->posted[kind]) ^ until_[kind];
		if (more == 0)
			return true;
		/* On the card path posts take turns, which order them. */
		if (queue.port->slots && !slots_taken(queue.port, claimed_))
			return false;
		sure_ = true;
		came_ = false;
		return counted(peer);
	}

	uint64_t claimed_ = 0;	/* slots, when it began */
	uint64_t until_[GGAS_QUEUE_KINDS] = {}, seen_[GGAS_QUEUE_KINDS] = {};
	uint32_t member_ = 0, lost_ = 0;
	bool began_ = false, came_ = false, sure_ = false;
};

GGAS_COLD int report_lost(const ggas_queues *all, uint32_t member, uint32_t line)
{
	write_report(reinterpret_cast<ggas_report *>(all->report), GGAS_ERR_LOST, GGAS_WAIT_QUEUE, all->member, member,
		     line, 0, 0, 0, 0);
	return GGAS_ERR_LOST;
}

/* As reports of GGAS_WAIT_QUEUE* tell what was waited for, in place of an address. */
GGAS_FN const void *named(uint64_t what)
{
	return reinterpret_cast<const void *>(what);
}

/* By one thread. */
GGAS_COLD int queue_wait_one(ggas_queue queue, uint32_t line)
{
	const ggas_queues *all = queue.all;
	queue_watch watch;
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_QUEUE, all->member, ~0u, line);
	while (!watch.over(queue)) {
		if (uint32_t failed = ggas_load_relaxed(&queue.state->failed))
			return static_cast<int>(failed);
		if (watch.lost())
			return report_lost(all, watch.member(), line);
		consume(queue, line);
		if (watch.over(queue))
			break;
		if (int error = wait.again(named(queue.number), watch.expected(), watch.seen()))
			return error;
	}
	if (uint32_t failed = ggas_load_relaxed(&queue.state->failed))
		return static_cast<int>(failed);
	/* Flags have no notification: a congested card may have rejected some. */
	return gpu_rma2_drain(queue.port, line);
}

/* `found` and the number of a queue, or an error. */
GGAS_COLD int queue_wait_any(const ggas_queues *all, uint32_t mask, uint32_t line)
{
	queue_watch watch[GGAS_QUEUES];
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_QUEUE, all->member, ~0u, line);
	for (;;) {
		for (uint32_t left = mask; left; left &= left - 1) {
			uint32_t number = ggas_first(left);
			ggas_queue queue(all, number);
			bool over = !queue.state || watch[number].over(queue);
			if (uint32_t failed = queue.state ? ggas_load_relaxed(&queue.state->failed) : 0)
				return static_cast<int>(failed);
			if (over)
				return found + static_cast<int>(number);
			if (watch[number].lost())
				return report_lost(all, watch[number].member(), line);
			consume(queue, line);
		}
		uint32_t first = ggas_first(mask);
		if (int error = wait.again(named(~uint64_t(0)), watch[first].expected(), watch[first].seen()))
			return error;
	}
}

/* A member whose process is gone, and with it operations that were under way there; ~0: none. */
GGAS_FN uint32_t lost_member(const ggas_queue &queue)
{
	for (uint32_t i = 0; i < queue.all->members; i++) {
		queue_watch watch;
		if (ggas_load_relaxed(&queue.peers[i].lost) && !watch.counted(queue.peers + i))
			return i;
	}
	return ~0u;
}

/* A post left more under way than the port's notification queue should hold. It ends as a wait does: operations with a
 * member that is gone never make room. */
GGAS_COLD int make_room(ggas_queue queue, uint64_t before, uint32_t line)
{
	const ggas_queues *all = queue.all;
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_QUEUE, all->member, ~0u, line);
	for (uint32_t looks = 0;;) {
		consume(queue, line);
		/* `before` may be too many: posts that were refused since, flags. */
		uint64_t others = ggas_load_relaxed(&queue.state->posted) - 1;
		if (static_cast<int64_t>(others - before) < 0)
			before = others;
		uint64_t done = ggas_load_relaxed(&queue.state->done);
		if (uint32_t failed = ggas_load_relaxed(&queue.state->failed))
			return static_cast<int>(failed);
		if (static_cast<int64_t>(before - done) < static_cast<int64_t>(queue.limit))
			return GGAS_OK;
		uint32_t lost = lost_member(queue);
		looks = lost != ~0u ? looks + 1 : 0;
		if (looks > queue_watch::patience)
			return report_lost(all, lost, line);
		if (int error = wait.again(named(queue.number), before + 1 - queue.limit, done))
			return error;
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_QUEUE_WAIT_H */
