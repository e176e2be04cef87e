/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Triggers: stores of tags, and operations that the caller carries out; included by tn.cuh. */
#ifndef GGAS_IMPL_TN_POST_H
#define GGAS_IMPL_TN_POST_H

namespace ggas_impl
{

GGAS_FN uint64_t tn_rearms()
{
	return EXTOLL_PUT(1, EXTOLL_TRIGGER_IS_REARM);
}

/* What the leader has, for all of its team. */
template <ggas_scope Scope> GGAS_FN uint64_t tn_share(uint64_t value)
{
	using team = put_team<Scope>;
	if constexpr (Scope == ggas_scope::warp) {
		value = ggas_shfl(team::lanes(), value, 0);
		team::meet();
	} else if constexpr (Scope == ggas_scope::block) {
		GGAS_SHARED(uint64_t, shared);
		if (team::thread() == 0)
			ggas_store_relaxed(&shared, value);
		team::meet();
		value = ggas_load_relaxed(&shared);
		team::meet();
	}
	return value;
}

/* Fields are stored to the page by one thread at a time, in turn. */
GGAS_FN int tn_lock(ggas_tn *tn, uint32_t line)
{
	uint64_t turn = ggas_atomic_add(&tn->turn, uint64_t(1) << 32, ggas_order::acquire);
	uint32_t mine = static_cast<uint32_t>(turn >> 32), now = static_cast<uint32_t>(turn);
	ggas_wait wait(tn->report, tn->timeout_ns, GGAS_WAIT_LOCK, tn->node, ~0u, line);
	while (now != mine) {
		if (int error = wait.again(&tn->turn, mine, now))
			return error;
		now = static_cast<uint32_t>(ggas_load_acquire(&tn->turn));
	}
	return GGAS_OK;
}
GGAS_FN void tn_unlock(ggas_tn *tn)
{
	bool last = static_cast<uint32_t>(ggas_load_relaxed(&tn->turn)) == ~0u;
	/* The low half alone, also where it begins again at 0. */
	ggas_atomic_add(&tn->turn, last ? 1 - (uint64_t(1) << 32) : uint64_t(1), ggas_order::release);
}

/* One thread stores a tag to the unit's page. The fence puts what the caller wrote ahead of it. */
GGAS_FN int tn_store(ggas_tn *tn, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	uint64_t *page = reinterpret_cast<uint64_t *>(tn->page);
	if (what == 0 || what == tn_rearms()) {
		ggas_fence_system();
		ggas_store_mmio(page + (what ? EXTOLL_TRIGGER_REARM : EXTOLL_TRIGGER_FIRE) / 8, tag);
		return GGAS_OK;
	}
	if (int error = tn_lock(tn, line))
		return error;
	ggas_fence_system();
	ggas_store_mmio(page + EXTOLL_TRIGGER_WHERE / 8, where);
	ggas_store_mmio(page + EXTOLL_TRIGGER_WHAT / 8, what);
	/* Fields first: a page that combines stores keeps no order of its own. */
	ggas_fence_system();
	ggas_store_mmio(page + EXTOLL_TRIGGER_FIRE_FIELDS / 8, tag);
	ggas_fence_system();
	tn_unlock(tn);
	return GGAS_OK;
}

/* Keeps what nobody else would tell. */
GGAS_COLD int tn_note(ggas_tn *tn, uint32_t which, uint64_t tag, uint32_t line)
{
	uint64_t *status = reinterpret_cast<uint64_t *>(tn->status);
	ggas_store_relaxed(status + which + 1, tag);
	ggas_atomic_add(status + which, 1u, ggas_order::release);
	if (which == EXTOLL_TRIGGER_STATUS_LATE)
		return GGAS_OK;
	write_report(reinterpret_cast<ggas_report *>(tn->report), GGAS_ERR_TRIGGER, GGAS_WAIT_COMPLETION, tn->node, ~0u,
		     line, reinterpret_cast<uint64_t>(status), 0, tag, 0);
	return GGAS_ERR_TRIGGER;
}

/* The team carries out the operation of an entry. `window` is the table's: read before whatever must be waited for. */
template <ggas_scope Scope>
GGAS_FN int tn_start(ggas_tn *tn, const ggas_window &window, const ggas_tn_entry *entry, uint64_t where, uint64_t what,
		     uint32_t line)
{
	using team = put_team<Scope>;
	uint64_t local = ggas_load_relaxed(&entry->local) + EXTOLL_GET(where, EXTOLL_TRIGGER_LOCAL);
	uint64_t offset = ggas_load_relaxed(&entry->offset) + EXTOLL_GET(where, EXTOLL_TRIGGER_REMOTE);
	uint64_t signal = ggas_load_relaxed(&entry->signal), value = ggas_load_relaxed(&entry->value);
	uint32_t kind = ggas_load_relaxed(&entry->what), node = ggas_load_relaxed(&entry->node);
	uint64_t given = EXTOLL_GET(what, EXTOLL_TRIGGER_SIZE);
	uint64_t bytes = given ? given : ggas_load_relaxed(&entry->bytes);
	if (EXTOLL_GET(what, EXTOLL_TRIGGER_HAS_TARGET))
		node = static_cast<uint32_t>(EXTOLL_GET(what, EXTOLL_TRIGGER_NODE));
	int error;
	if (kind & GGAS_TN_GET)
		error = get<Scope>(&window, node, offset, reinterpret_cast<void *>(local), bytes, line);
	else if (kind & GGAS_TN_SIGNAL)
		error = put_signal<Scope>(&window, node, offset, reinterpret_cast<const void *>(local), bytes, signal,
					  value, kind & GGAS_TN_ADD ? ggas_signal::add : ggas_signal::set, line);
	else
		error = put<Scope>(&window, node, offset, reinterpret_cast<const void *>(local), bytes, line);
	team::meet();
	if (team::thread() == 0) {
		uint64_t *words = reinterpret_cast<uint64_t *>(tn->words);
		uint64_t done = EXTOLL_PUT(1, EXTOLL_TRIGGER_WORD_TIMES);
		if (error)
			done |= EXTOLL_PUT(static_cast<uint64_t>(error), EXTOLL_TRIGGER_WORD_ERROR);
		ggas_atomic_add(words + ggas_load_relaxed(&entry->word), done, ggas_order::release);
	}
	return error;
}

/* Beyond this a count might reach into the threshold above it. */
constexpr uint32_t tn_count_max = 1u << 31;

/*
 * Counts in an entry of this processor's memory; who reaches the threshold
 * carries the operation out. Count and threshold are one word, changed by
 * atomics only, so that one of those who trigger, and of those who register or
 * re-arm, finds that the threshold is reached, and no other does. The counts of
 * one word lead from what each team wrote to the one that sends it; its signal
 * is a release at system scope.
 */
template <ggas_scope Scope>
GGAS_FN int tn_count(ggas_tn *tn, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	using team = put_team<Scope>;
	ggas_window window = tn->window;
	team::meet();
	ggas_tn_entry *entry = reinterpret_cast<ggas_tn_entry *>(tn->entries) + tag;
	uint64_t old = ~uint64_t(0);
	if (team::thread() == 0 && tag < tn->tags) {
		bool plain = what == 0 || (ggas_load_relaxed(&entry->what) & GGAS_TN_FIELDS);
		uint64_t now = ggas_load_relaxed(&entry->count);
		bool refused = static_cast<uint32_t>(now) >= tn_count_max || (!plain && now >> 32);
		if (!refused)
			old = ggas_atomic_add_gpu(&entry->count, 1);
	}
	old = tn_share<Scope>(old);
	uint32_t count = static_cast<uint32_t>(old) + 1, threshold = static_cast<uint32_t>(old >> 32);
	if (count == threshold)
		return tn_start<Scope>(tn, window, entry, where, what, line);
	if (count != 0 && (threshold == 0 || count < threshold))
		return GGAS_OK;
	int error = GGAS_OK;
	if (team::thread() == 0) {
		uint32_t which = count != 0 ? EXTOLL_TRIGGER_STATUS_LATE :
			     tag < tn->tags ? EXTOLL_TRIGGER_STATUS_FAILED : EXTOLL_TRIGGER_STATUS_REFUSED;
		error = tn_note(tn, which, tag, line);
	}
	return team::agree(error);
}

template <ggas_scope Scope>
GGAS_FN int tn_rearm_entry(ggas_tn *tn, uint64_t tag, uint32_t line)
{
	using team = put_team<Scope>;
	ggas_window window = tn->window;
	team::meet();
	ggas_tn_entry *entry = reinterpret_cast<ggas_tn_entry *>(tn->entries) + tag;
	uint64_t left = ~uint64_t(0);
	if (team::thread() == 0 && tag < tn->tags) {
		uint64_t old = ggas_load_relaxed(&entry->count);
		for (;;) {
			uint64_t threshold = old >> 32;
			if (threshold == 0 || static_cast<uint32_t>(old) < threshold)
				break;
			uint64_t seen = ggas_atomic_cas(&entry->count, old, old - threshold, ggas_order::release_acquire);
			if (seen == old) {
				left = old - threshold;
				break;
			}
			old = seen;
		}
	}
	left = tn_share<Scope>(left);
	if (left == ~uint64_t(0))
		return team::agree(team::thread() == 0 ? tn_note(tn, EXTOLL_TRIGGER_STATUS_FAILED, tag, line) : GGAS_OK);
	if (static_cast<uint32_t>(left) >= left >> 32)
		return tn_start<Scope>(tn, window, entry, 0, 0, line);
	return GGAS_OK;
}

/* The leader stores, to the page or the ring. */
template <ggas_scope Scope>
GGAS_FN int tn_post(ggas_tn *tn, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	using team = put_team<Scope>;
	team::meet();
	int error = GGAS_OK;
	if (team::thread() == 0) {
		if (tn->page)
			error = tn_store(tn, tag, where, what, line);
		else
			error = slot_post(tn, slot_ring(tn), extoll_desc{ { tag, where, what } }, line);
	}
	return team::agree(error);
}

template <ggas_scope Scope>
GGAS_FN int tn_trigger(ggas_tn *tn, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	if (tn->entries)
		return tn_count<Scope>(tn, tag, where, what, line);
	return tn_post<Scope>(tn, tag, where, what, line);
}

template <ggas_scope Scope>
GGAS_FN int tn_rearm(ggas_tn *tn, uint64_t tag, uint32_t line)
{
	if (tn->entries)
		return tn_rearm_entry<Scope>(tn, tag, line);
	return tn_post<Scope>(tn, tag, 0, tn_rearms(), line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_TN_POST_H */
