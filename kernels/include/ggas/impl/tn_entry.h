/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations that the caller carries out, from a table in its processor's memory; included by tn.cuh.
 *
 * Count and threshold are one word, changed by atomics only, so that one of those who trigger, and of those who
 * register or re-arm, finds that the threshold is reached, and no other does. The counts of one word lead from what
 * each team wrote to the one that sends it; its signal is a release at system scope.
 */
#ifndef GGAS_IMPL_TN_ENTRY_H
#define GGAS_IMPL_TN_ENTRY_H

namespace ggas_impl
{

GGAS_FN uint32_t tn_counted(uint64_t word)
{
	return static_cast<uint32_t>(EXTOLL_GET(word, GGAS_TN_COUNTED));
}
GGAS_FN uint32_t tn_threshold(uint64_t word)
{
	return static_cast<uint32_t>(EXTOLL_GET(word, GGAS_TN_THRESHOLD));
}
/* It has been started, and was not re-armed since. */
GGAS_FN bool tn_started(uint64_t word)
{
	return tn_threshold(word) && tn_counted(word) >= tn_threshold(word);
}
/* The same tag, registered anew or no longer. */
GGAS_FN uint64_t tn_registration(uint64_t word, uint32_t counted, uint32_t threshold)
{
	return EXTOLL_PUT(counted, GGAS_TN_COUNTED) | EXTOLL_PUT(threshold, GGAS_TN_THRESHOLD) |
	       EXTOLL_PUT(EXTOLL_GET(word, GGAS_TN_REGISTRATION) + 1, GGAS_TN_REGISTRATION);
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

/* Keeps what nobody else would tell. */
GGAS_COLD int tn_note(const ggas_tn *tn, uint32_t which, uint64_t tag, uint32_t line)
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

/* What an entry says: read behind a count with a threshold. */
struct tn_operation {
	uint64_t local, offset, signal, value;
	uint32_t bytes, node, what, word;

	GGAS_FN explicit tn_operation(const ggas_tn_entry *entry)
		: local(ggas_load_relaxed(&entry->local)), offset(ggas_load_relaxed(&entry->offset)),
		  signal(ggas_load_relaxed(&entry->signal)), value(ggas_load_relaxed(&entry->value)),
		  bytes(ggas_load_relaxed(&entry->bytes)), node(ggas_load_relaxed(&entry->node)),
		  what(ggas_load_relaxed(&entry->what)), word(ggas_load_relaxed(&entry->word))
	{
	}

	GGAS_FN void change(uint64_t where, uint64_t what_else)
	{
		local += EXTOLL_GET(where, EXTOLL_TRIGGER_LOCAL);
		offset += EXTOLL_GET(where, EXTOLL_TRIGGER_REMOTE);
		if (uint64_t given = EXTOLL_GET(what_else, EXTOLL_TRIGGER_SIZE))
			bytes = static_cast<uint32_t>(given);
		if (EXTOLL_GET(what_else, EXTOLL_TRIGGER_HAS_TARGET))
			node = static_cast<uint32_t>(EXTOLL_GET(what_else, EXTOLL_TRIGGER_NODE));
	}
};

/* The team carries it out. */
template <ggas_scope Scope>
GGAS_FN int tn_start(const ggas_triggers &at, const tn_operation &does, uint32_t line)
{
	using team = put_team<Scope>;
	void *local = reinterpret_cast<void *>(does.local);
	int error;
	if (does.what & GGAS_TN_GET)
		error = get<Scope>(&at.window, does.node, does.offset, local, does.bytes, line);
	else if (does.what & GGAS_TN_SIGNAL)
		error = put_signal<Scope>(&at.window, does.node, does.offset, local, does.bytes, does.signal,
					  does.value, does.what & GGAS_TN_ADD ? ggas_signal::add : ggas_signal::set,
					  line);
	else
		error = put<Scope>(&at.window, does.node, does.offset, local, does.bytes, line);
	team::meet();
	if (team::thread() == 0) {
		uint64_t done = EXTOLL_PUT(1, EXTOLL_TRIGGER_WORD_TIMES);
		if (error)
			done |= EXTOLL_PUT(static_cast<uint64_t>(error), EXTOLL_TRIGGER_WORD_ERROR);
		ggas_atomic_add(reinterpret_cast<uint64_t *>(at.words) + does.word, done, ggas_order::release);
	}
	return error;
}

constexpr uint64_t tn_not_counted = ~uint64_t(0);

/*
 * One thread counts; the count before, or tn_not_counted. `seen` is a count that it read. Where the operation waits for
 * this trigger alone, nobody else's data are sent with it, so there is nothing to order here: the operation's own
 * signal is the release of the caller's.
 */
GGAS_FN uint64_t tn_count_one(ggas_tn_entry *entry, uint64_t seen, bool takes)
{
	if (tn_counted(seen) >= GGAS_TN_COUNTED_MAX || (tn_threshold(seen) && !takes))
		return tn_not_counted;
	if (tn_threshold(seen) == 1 && tn_counted(seen) == 0 &&
	    ggas_atomic_cas(&entry->count, seen, seen + 1, ggas_order::relaxed) == seen)
		return seen;
	return ggas_atomic_add_gpu(&entry->count, 1);
}

/* Counts in an entry; who reaches the threshold carries the operation out. The operation is read while it is counted:
 * it is that of the count if the registration is still the one seen before. */
template <ggas_scope Scope>
GGAS_FN int tn_count(const ggas_triggers &at, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	using team = put_team<Scope>;
	bool known = tag < at.tags;
	ggas_tn_entry *entry = at.entry(known ? tag : 0);
	team::meet();
	uint64_t seen = tn_share<Scope>(team::thread() == 0 ? ggas_load_acquire(&entry->count) : 0);
	tn_operation does(entry);
	uint64_t old = tn_not_counted;
	if (team::thread() == 0 && known)
		old = tn_count_one(entry, seen, what == 0 || (does.what & GGAS_TN_FIELDS));
	old = tn_share<Scope>(old);
	bool counted = old != tn_not_counted;
	uint32_t count = tn_counted(old) + 1, threshold = tn_threshold(old);
	if (counted && count == threshold) {
		if (!tn_threshold(seen) || tn_registration(seen, 0, 0) != tn_registration(old, 0, 0))
			does = tn_operation(entry);
		does.change(where, what);
		return tn_start<Scope>(at, does, line);
	}
	if (counted && (threshold == 0 || count < threshold))
		return GGAS_OK;
	int error = GGAS_OK;
	if (team::thread() == 0)
		error = tn_note(at.tn,
				counted ? EXTOLL_TRIGGER_STATUS_LATE :
				known	? EXTOLL_TRIGGER_STATUS_FAILED :
					  EXTOLL_TRIGGER_STATUS_REFUSED,
				tag, line);
	return team::agree(error);
}

/* One thread takes the threshold off; the count after, or tn_not_counted where nothing was started. */
GGAS_FN uint64_t tn_rearm_one(ggas_tn_entry *entry)
{
	uint64_t old = ggas_load_relaxed(&entry->count);
	while (tn_started(old)) {
		uint64_t left = old - tn_threshold(old);
		uint64_t seen = ggas_atomic_cas(&entry->count, old, left, ggas_order::release_acquire);
		if (seen == old)
			return left;
		old = seen;
	}
	return tn_not_counted;
}

template <ggas_scope Scope> GGAS_FN int tn_rearm_entry(const ggas_triggers &at, uint64_t tag, uint32_t line)
{
	using team = put_team<Scope>;
	bool known = tag < at.tags;
	ggas_tn_entry *entry = at.entry(known ? tag : 0);
	team::meet();
	uint64_t left = tn_share<Scope>(team::thread() == 0 && known ? tn_rearm_one(entry) : tn_not_counted);
	if (left == tn_not_counted)
		return team::agree(team::thread() == 0 ? tn_note(at.tn, EXTOLL_TRIGGER_STATUS_FAILED, tag, line) :
							 GGAS_OK);
	return tn_started(left) ? tn_start<Scope>(at, tn_operation(entry), line) : GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_TN_ENTRY_H */
