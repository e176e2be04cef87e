/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Flags and notifications (thesis 5.7.5); included by queue.cuh. */
#ifndef GGAS_IMPL_QUEUE_FLAG_H
#define GGAS_IMPL_QUEUE_FLAG_H

namespace ggas_impl
{

/* By one thread, through the network device: behind what was posted before on the same connection. */
GGAS_FN int post_flag(const ggas_queue &queue, const ggas_remote &to, const extoll_desc &desc, uint32_t line)
{
	if (ggas_load_near(&to.peer->lost))
		return report_lost(queue.all, to.member, line);
	ggas_red_add(&to.peer->flags, uint64_t(1), ggas_order::relaxed);
	int error = post_at(queue.port, slot_ring(queue.port, queue.shape), desc, line);
	return GGAS_RARE(error) ? note_failure(queue, error) : GGAS_OK;
}
GGAS_FN extoll_desc flag_desc(const ggas_remote &to, uint32_t number, uint64_t value)
{
	return extoll_desc_immediate_put(to.node, to.vpid, EXTOLL_SPEC_NONE, EXTOLL_MOD_NONE, sizeof(value),
					 to.flags + number * sizeof(value), value);
}

template <ggas_scope Scope>
GGAS_FN int queue_flag(const ggas_queue &queue, const ggas_remote &to, uint32_t number, uint64_t value, uint32_t line)
{
	using team = put_team<Scope>;
	if (int error = check_range(queue, to, 0, 0, traced(trace_by(Scope) | trace_flag, line)))
		return error;
	team::meet();
	if (to.way == GGAS_WAY_STORES) {
		if (team::thread() == 0)
			ggas_store_release(reinterpret_cast<uint64_t *>(to.flags) + number, value);
		return GGAS_OK;
	}
	int error = GGAS_OK;
	if (team::thread() == 0)
		error = post_flag(queue, to, flag_desc(to, number, value), line);
	return team::agree(error);
}

template <ggas_scope Scope>
GGAS_FN int queue_write_flag(const ggas_queue &queue, const ggas_remote &to, uint64_t to_offset,
			     const ggas_remote &from, uint64_t from_offset, uint64_t bytes, uint32_t number,
			     uint64_t value, uint32_t line)
{
	using team = put_team<Scope>;
	auto *there = reinterpret_cast<uint8_t *>(to.address + to_offset);
	auto *here = reinterpret_cast<const void *>(from.address + from_offset);
	bool loads = to.way == GGAS_WAY_STORES && loads_own(from, from_offset, bytes);
	team::meet();
	int error = GGAS_OK;
	if (to.way == GGAS_WAY_DEVICE) {
		if (team::thread() == 0) {
			error = transfer(queue, to, to_offset, from, from_offset, GGAS_QUEUE_PUTS, bytes, line, trace_flag);
			if (!error)
				error = post_flag(queue, to, flag_desc(to, number, value), line);
		}
		return team::agree(error);
	}
	/* Under way while the rest is checked. */
	short_put few(there, here, loads ? bytes : 0, team::thread(), team::threads());
	if ((error = check_ends(queue, to, to_offset, from, from_offset, bytes, traced(trace_by(Scope) | trace_flag, line))))
		return error;
	store_and_signal<Scope>(there, here, bytes, few, reinterpret_cast<uint64_t *>(to.flags) + number, value,
				ggas_signal::set);
	return GGAS_OK;
}

template <ggas_scope Scope> GGAS_FN int queue_notify(const ggas_queue &queue, const ggas_remote &to, uint32_t line)
{
	using team = put_team<Scope>;
	if (int error = check_range(queue, to, 0, 0, traced(trace_by(Scope) | trace_flag, line)))
		return error;
	team::meet();
	if (to.way == GGAS_WAY_STORES) {
		if (team::thread() == 0)
			ggas_red_add(reinterpret_cast<uint64_t *>(to.flags) + notified_word(queue.all, queue.number),
				     uint64_t(1), ggas_order::release);
		return GGAS_OK;
	}
	int error = GGAS_OK;
	if (team::thread() == 0)
		error = post_flag(queue, to,
				  extoll_desc_notification_put(to.node, to.vpid, EXTOLL_SPEC_COMPLETER, EXTOLL_MOD_NONE,
							       queue.number, 0),
				  line);
	return team::agree(error);
}

/* Whether the process of a member that a wait names is gone. */
GGAS_FN bool is_lost(const ggas_queues *all, uint32_t member)
{
	if (member >= all->members)
		return false;
	auto *peers = reinterpret_cast<const ggas_queue_peer *>(all->queue[0].peers);
	return ggas_load_relaxed(&peers[member].lost) != 0;
}

/* What a wait for a flag is, for reports. */
GGAS_FN const void *named_flag(const ggas_queues *all, uint64_t number, ggas_cmp cmp)
{
	if (number >= all->flag_count)
		return named(((number - all->flag_count) & 1) | uint64_t(GGAS_QUEUE_FLAG_ROUND) << 32);
	return named(number | static_cast<uint64_t>(cmp) << 32);
}

/* The slow part of a wait for a flag. What a process sent before it was gone is looked at once more. */
GGAS_COLD int wait_flag_long(const ggas_queues *all, uint32_t number, ggas_cmp cmp, uint64_t value, uint32_t peer,
			     uint32_t line)
{
	const uint64_t *word = own_flag(all, number);
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_QUEUE_FLAG, all->member, peer, line);
	bool lost = false;
	uint64_t seen;
	while (!compares(seen = ggas_load_watched(word), cmp, value)) {
		if (lost)
			return report_lost(all, peer, line);
		if (int error = wait.again(named_flag(all, number, cmp), value, seen))
			return error;
		if (!wait.looks_around())
			continue;
		serve_cards(all);
		lost = is_lost(all, peer);
	}
	return GGAS_OK;
}

template <ggas_scope Scope>
GGAS_FN int wait_flag(const ggas_queues *all, uint32_t number, ggas_cmp cmp, uint64_t value, uint32_t peer,
		      uint32_t line)
{
	using team = put_team<Scope>;
	int error = GGAS_OK;
	if (team::thread() == 0) {
		const uint64_t *word = own_flag(all, number);
		bool seen = compares(ggas_load_watched(word), cmp, value);
		GGAS_NO_UNROLL
		for (uint32_t i = 1; i < quick_polls && !seen; i++)
			seen = compares(ggas_load_watched(word), cmp, value);
		if (!seen)
			error = wait_flag_long(all, number, cmp, value, peer, line);
		ggas_fence_acquire();
	}
	return team::agree(error);
}

/* `found` and which of the flags, or an error. By one thread. */
GGAS_COLD int wait_any_flag(const ggas_queues *all, uint32_t first, uint32_t count, uint32_t line)
{
	const uint64_t *words = own_flag(all, first);
	const void *what = named(first | uint64_t(GGAS_QUEUE_FLAG_ANY) << 32);
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_QUEUE_FLAG, all->member, ~0u, line);
	for (;;) {
		GGAS_NO_UNROLL
		for (uint32_t i = 0; i < count; i++) {
			if (ggas_load_watched(words + i) == 0)
				continue;
			ggas_fence_acquire();
			return found + static_cast<int>(first + i);
		}
		if (int error = wait.again(what, count, 0))
			return error;
		if (wait.looks_around())
			serve_cards(all);
	}
}

GGAS_COLD int wait_notified(const ggas_queues *all, uint32_t number, uint64_t count, uint32_t line)
{
	const uint64_t *word = own_flag(all, notified_word(all, number));
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_QUEUE_NOTIFIED, all->member, ~0u, line);
	uint64_t seen;
	while ((seen = ggas_load_watched(word)) < count) {
		consume_all(all, line);
		if (ggas_load_watched(word) >= count)
			break;
		if (int error = wait.again(named(number), count, seen))
			return error;
	}
	ggas_fence_acquire();
	return GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_QUEUE_FLAG_H */
