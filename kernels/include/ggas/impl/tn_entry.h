/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations that the caller carries out, from a table in its processor's memory; included by tn.cuh.
 *
 * Count and threshold are one word, changed by atomics only, so that one of those who trigger, and of those who
 * register or re-arm, finds that the threshold is reached, and no other does. The counts of one word lead from what
 * each team wrote to the one that sends it; its signal is a release at system scope.
 *
 * A trigger reads the operation and counts at the same time: what it read is of the count's registration, or is read again.
 *
 * An entry's words change while nothing is registered, or once its operation is complete: `armed` and the completion word
 * tell. So nobody who carries an operation out sees them change.
 */
#ifndef GGAS_IMPL_TN_ENTRY_H
#define GGAS_IMPL_TN_ENTRY_H

namespace ggas_impl
{

template <ggas_scope Scope>
GGAS_FN int tn_trigger(const ggas_triggers &at, uint64_t tag, uint64_t where, uint64_t what, uint32_t line);

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
/* The same registration with other counts; the next one. */
GGAS_FN uint64_t tn_with(uint64_t word, uint32_t counted, uint32_t threshold)
{
	return EXTOLL_PUT(counted, GGAS_TN_COUNTED) | EXTOLL_PUT(threshold, GGAS_TN_THRESHOLD) |
	       EXTOLL_PUT(EXTOLL_GET(word, GGAS_TN_REGISTRATION), GGAS_TN_REGISTRATION);
}
GGAS_FN uint64_t tn_registration(uint64_t word, uint32_t counted, uint32_t threshold)
{
	return tn_with(word, counted, threshold) + EXTOLL_PUT(1, GGAS_TN_REGISTRATION);
}

/* What the leader has, for all of its team. */
template <ggas_scope Scope, class T> GGAS_FN T tn_share(T value)
{
	using team = put_team<Scope>;
	if constexpr (Scope == ggas_scope::warp) {
		value = ggas_shfl(team::lanes(), value, 0);
		team::meet();
	} else if constexpr (Scope == ggas_scope::block) {
		GGAS_SHARED(T, shared);
		if (team::thread() == 0)
			shared = value;
		team::meet();
		value = shared;
		team::meet();
	}
	return value;
}

GGAS_FN void tn_count_status(const ggas_tn *tn, uint32_t which, uint64_t tag)
{
	uint64_t *status = reinterpret_cast<uint64_t *>(tn->status);
	ggas_store_relaxed(status + which + 1, tag);
	ggas_atomic_add(status + which, 1u, ggas_order::release);
}

/* Keeps what nobody else would tell. */
GGAS_COLD int tn_note_late(const ggas_tn *tn, uint64_t tag)
{
	tn_count_status(tn, EXTOLL_TRIGGER_STATUS_LATE, tag);
	return GGAS_OK;
}
GGAS_COLD int tn_note(const ggas_tn *tn, uint32_t why, uint64_t tag, uint32_t line)
{
	tn_count_status(tn, why == GGAS_TN_NO_TAG ? EXTOLL_TRIGGER_STATUS_REFUSED : EXTOLL_TRIGGER_STATUS_FAILED, tag);
	write_report(reinterpret_cast<ggas_report *>(tn->report), GGAS_ERR_TRIGGER, GGAS_WAIT_COMPLETION, tn->node, ~0u,
		     line, tn->status, why, tag, 0);
	return GGAS_ERR_TRIGGER;
}

/* Bytes, place and signal are inside the window: those that were registered are, those that a trigger gives may not be. */
GGAS_FN int tn_check(const ggas_triggers &at, const tn_operation &does, uint32_t line)
{
	/* Who carries it out counts it. */
	line = traced(trace_nobody, line);
	if (int error = check_put(&at.window, does.node, does.offset, does.bytes, line))
		return error;
	return does.what & GGAS_TN_SIGNAL ? check_signal(&at.window, does.node, does.signal, line) : GGAS_OK;
}

/* Counts an operation that is traced: whether it is a get. */
template <ggas_scope Scope> GGAS_COLD bool tn_trace(uint64_t report, uint32_t self, uint32_t node, uint32_t bytes, uint32_t what)
{
	bool gets = !(what & GGAS_TN_PUT);
	if (put_team<Scope>::thread() != 0 || node == self)
		return gets;
	trace_moved(report, node, bytes, gets ? trace_got : 0);
	trace_moved(report, node, what & GGAS_TN_SIGNAL ? sizeof(uint64_t) : 0);
	return gets;
}

/* The team carries out an operation that is inside the window, to its end here. */
template <ggas_scope Scope> GGAS_FN void tn_move(const ggas_triggers &at, const tn_operation &does)
{
	using team = put_team<Scope>;
	void *local = reinterpret_cast<void *>(does.local);
	uint8_t *there = ggas_pointer_of_node<uint8_t>(&at.window, does.node, does.offset);
	bool gets = does.what & GGAS_TN_GET;
	if (gets && GGAS_RARE(does.what & GGAS_TN_TRACED))
		gets = tn_trace<Scope>(at.window.report, at.window.node, does.node, does.bytes, does.what);
	if (gets) {
		fetch_share(local, there, does.bytes, team::thread(), team::threads());
	} else if (does.what & GGAS_TN_SIGNAL) {
		short_put few(there, local, does.bytes, team::thread(), team::threads());
		auto *word = ggas_pointer_of_node<uint64_t>(&at.window, does.node, does.signal);
		store_and_signal<Scope>(there, local, does.bytes, few, word, does.value,
					does.what & GGAS_TN_ADD ? ggas_signal::add : ggas_signal::set);
	} else {
		copy_share(there, local, does.bytes, team::thread(), team::threads());
	}
	team::meet();
}

/* Halves of a completion word: a count that goes around leaves the error alone. */
static_assert(EXTOLL_TRIGGER_WORD_TIMES_SHIFT == 0 && EXTOLL_TRIGGER_WORD_TIMES_BITS == 32 &&
	      EXTOLL_TRIGGER_WORD_ERROR_SHIFT == 32);

GGAS_FN uint32_t *tn_times(uint64_t words, uint32_t word)
{
	return reinterpret_cast<uint32_t *>(words) + 2 * static_cast<uint64_t>(word);
}
GGAS_FN uint32_t *tn_error(uint64_t words, uint32_t word)
{
	return tn_times(words, word) + 1;
}

/* The team carries it out. Once it is complete, none of them looks at the entry any more. */
template <ggas_scope Scope>
GGAS_FN int tn_start(const ggas_triggers &at, const tn_operation &does, int error)
{
	if (error)
		put_team<Scope>::meet();
	else
		tn_move<Scope>(at, does);
	if (put_team<Scope>::thread() == 0) {
		if (error)
			ggas_store_relaxed(tn_error(at.words, does.word), static_cast<uint32_t>(error));
		/* Nobody waits for an answer: on NVLink that would keep the next operation, by 0.3 us. */
		ggas_red_add(tn_times(at.words, does.word), 1u, ggas_order::release);
	}
	return error;
}

/* In place of a count: nothing was counted, since... */
constexpr uint64_t tn_not_counted = ~uint64_t(0), tn_no_fields = tn_not_counted, tn_too_many = tn_not_counted - 1;

/*
 * One thread counts; the count before, or why not. Where the operation waits for this trigger alone, nobody
 * else's data are sent with it, so there is nothing to order here: the operation's own signal is the release of the
 * caller's. Where all operations do, the count is not read before. `words` are read again where the trigger brings
 * fields and they are too old to tell whether it may.
 */
GGAS_FN uint64_t tn_count_one(ggas_tn_entry *entry, uint64_t likely, tn_words &words, bool fields)
{
	uint64_t seen;
	if (fields) {
		seen = ggas_load_acquire(&entry->count);
		words.renew(entry, seen);
		/* Only who carries an operation out has its fields. */
		if (!tn_threshold(seen) || tn_started(seen) || !(words.what() & GGAS_TN_FIELDS))
			return tn_no_fields;
	} else if (likely) {
		seen = ggas_atomic_cas(&entry->count, likely, likely + 1, ggas_order::relaxed);
		if (seen == likely)
			return seen;
	} else {
		seen = ggas_load_relaxed(&entry->count);
	}
	if (tn_counted(seen) >= GGAS_TN_COUNTED_MAX)
		return tn_too_many;
	if (tn_threshold(seen) == 1 && tn_counted(seen) == 0 &&
	    ggas_atomic_cas(&entry->count, seen, seen + 1, ggas_order::relaxed) == seen)
		return seen;
	return ggas_atomic_add_gpu(&entry->count, 1);
}

/* What comes of a trigger. */
enum tn_next : uint32_t {
	TN_START,
	TN_COUNTED,
	TN_LATE,
	TN_FAILED,
};

GGAS_FN tn_next tn_what_next(uint64_t old)
{
	if (old >= tn_too_many)
		return TN_FAILED;
	uint32_t count = tn_counted(old) + 1, threshold = tn_threshold(old);
	if (count == threshold)
		return TN_START;
	return threshold == 0 || count < threshold ? TN_COUNTED : TN_LATE;
}

/* All of a team learn that a trigger did not count as it should. */
template <ggas_scope Scope> GGAS_FN int tn_tell(const ggas_triggers &at, uint32_t why, uint64_t tag, uint32_t line)
{
	using team = put_team<Scope>;
	return team::agree(team::thread() == 0 ? tn_note(at.tn, why, tag, line) : GGAS_OK);
}

/* What a team knows of an entry: a count, and the words of that, in time for the operation that it starts. A block has one
 * thread read them, as hundreds would wait for each other. */
template <ggas_scope Scope> struct tn_reader {
	using team = put_team<Scope>;
	static constexpr bool by_one = Scope == ggas_scope::block;
	uint64_t count = tn_not_counted;
	tn_words words;

	GGAS_FN explicit tn_reader(const ggas_tn_entry *entry)
	{
		if (!by_one || team::thread() == 0)
			words = tn_words(entry);
	}

	/* The leader's count, for all; and the words, if the operation is to be started. */
	GGAS_FN tn_next share(const ggas_tn_entry *entry)
	{
		tn_next next;
		if constexpr (by_one) {
			GGAS_SHARED_ARRAY(ggas_u128, shared, 4);
			if (team::thread() == 0) {
				if (tn_what_next(count) == TN_START)
					words.renew(entry, count);
				shared[0] = { count, 0 };
				shared[1] = words.source;
				shared[2] = words.target;
				shared[3] = words.rest;
			}
			team::meet();
			count = shared[0].lo;
			words.source = shared[1];
			words.target = shared[2];
			words.rest = shared[3];
			next = tn_what_next(count);
			team::meet();
		} else {
			count = tn_share<Scope>(count);
			next = tn_what_next(count);
			if (next == TN_START)
				words.renew(entry, count);
		}
		return next;
	}
};

/* Counts in an entry; who reaches the threshold carries the operation out. */
template <ggas_scope Scope>
GGAS_FN int tn_count(const ggas_triggers &at, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	using team = put_team<Scope>;
	if (tag >= at.tags)
		return tn_tell<Scope>(at, GGAS_TN_NO_TAG, tag, line);
	ggas_tn_entry *entry = at.entry(tag);
	team::meet();
	tn_reader<Scope> read(entry);
	if (team::thread() == 0)
		read.count = tn_count_one(entry, at.likely, read.words, what != 0);
	switch (read.share(entry)) {
	case TN_START:
		break;
	case TN_COUNTED:
		return GGAS_OK;
	case TN_LATE:
		return team::agree(team::thread() == 0 ? tn_note_late(at.tn, tag) : GGAS_OK);
	case TN_FAILED:
		return tn_tell<Scope>(at, read.count == tn_no_fields ? GGAS_TN_NO_FIELDS : GGAS_TN_TOO_MANY, tag, line);
	}
	tn_operation does(read.words);
	int error = GGAS_OK;
	if (where | what) {
		bool takes = does.what & GGAS_TN_FIELDS;
		does.change(where, what);
		error = takes ? tn_check(at, does, line) : tn_tell<Scope>(at, GGAS_TN_NO_FIELDS, tag, line);
	}
	return tn_start<Scope>(at, does, error);
}

/* What a trigger reads, read ahead. */
template <ggas_scope Scope> GGAS_FN ggas_tn_prepared tn_prepare(const ggas_triggers &at, uint64_t tag)
{
	using team = put_team<Scope>;
	ggas_tn_prepared prepared;
	prepared.tag = tag;
	if (!at.entries || tag >= at.tags)
		return prepared;
	if (team::thread() == 0)
		prepared.seen = ggas_load_acquire(&at.entry(tag)->count);
	team::meet();
	prepared.words = tn_words(at.entry(tag));
	return prepared;
}

/* Starts the operation that was read ahead if its count is still the one that was read, and waits for this trigger
 * alone; counts otherwise. */
template <ggas_scope Scope>
GGAS_FN int tn_trigger_prepared(const ggas_triggers &at, const ggas_tn_prepared &prepared, uint32_t line)
{
	using team = put_team<Scope>;
	uint64_t seen = prepared.seen;
	team::meet();
	bool starts = team::thread() == 0 && tn_threshold(seen) == 1 && tn_counted(seen) == 0 &&
		      ggas_atomic_cas(&at.entry(prepared.tag)->count, seen, seen + 1, ggas_order::relaxed) == seen;
	if (tn_share<Scope>(static_cast<uint32_t>(starts)))
		return tn_start<Scope>(at, tn_operation(prepared.words), GGAS_OK);
	return tn_trigger<Scope>(at, prepared.tag, 0, 0, line);
}

/* One thread takes the threshold off; the count after, or tn_not_counted where nothing was started. Who finds the operation
 * started once more finds it armed once more. */
GGAS_FN uint64_t tn_rearm_one(ggas_tn_entry *entry)
{
	uint64_t old = ggas_load_relaxed(&entry->count);
	if (!tn_started(old))
		return tn_not_counted;
	ggas_red_add(&entry->armed, 1u, ggas_order::relaxed);
	while (tn_started(old)) {
		uint64_t left = old - tn_threshold(old);
		uint64_t seen = ggas_atomic_cas_gpu(&entry->count, old, left);
		if (seen == old)
			return left;
		old = seen;
	}
	ggas_red_add(&entry->armed, ~uint64_t(0), ggas_order::relaxed);
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
		return tn_tell<Scope>(at, known ? GGAS_TN_TOO_SOON : GGAS_TN_NO_TAG, tag, line);
	return tn_started(left) ? tn_start<Scope>(at, tn_operation(tn_words(entry)), GGAS_OK) : GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_TN_ENTRY_H */
