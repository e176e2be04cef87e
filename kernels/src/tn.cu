// SPDX-License-Identifier: MIT OR Apache-2.0
// Registers triggered operations whose table lies in the memory of the processor that triggers them: only atomics of that
// processor join what kernels have counted by then, while they count on.
#include "ggas/tn.cuh"

#include "args.h"

namespace tn_table
{

using ggas_impl::tn_counted;
using ggas_impl::tn_threshold;

/* Kernels that count try first what all entries hold that wait. */
GGAS_FN void note_likely(ggas_tn *tn, uint64_t registered)
{
	uint64_t waits = registered - tn_counted(registered);
	if (tn_threshold(registered) != 1)
		waits = GGAS_TN_UNALIKE;
	uint64_t seen = ggas_atomic_cas(&tn->likely, uint64_t(0), waits, ggas_order::relaxed);
	if (seen && seen != waits)
		ggas_store_relaxed(&tn->likely, uint64_t(GGAS_TN_UNALIKE));
}

/* Whether all that was armed for a tag is complete, but for what waits. Behind an acquire of the count. */
GGAS_FN bool complete(const ggas_tn *tn, const ggas_tn_entry *entry, uint32_t word, bool waits)
{
	uint32_t times = ggas_load_acquire(ggas_impl::tn_times(tn->words, word));
	return times + waits == static_cast<uint32_t>(ggas_load_relaxed(&entry->armed));
}

/* Gives an entry back to those who trigger and re-arm. What waits, and reached its threshold meanwhile, is carried out. */
GGAS_FN void give_back(ggas_tn *tn, ggas_tn_entry *entry, uint64_t before)
{
	bool waits = !ggas_impl::tn_started(before);
	uint32_t threshold = tn_threshold(before);
	uint64_t old = ggas_load_acquire(&entry->count);
	for (;;) {
		uint64_t now = ggas_impl::tn_with(old, tn_counted(old) + (waits ? 0 : threshold), threshold);
		uint64_t seen = ggas_atomic_cas(&entry->count, old, now, ggas_order::release_acquire);
		if (seen == old) {
			if (waits && ggas_impl::tn_started(now))
				ggas_impl::tn_start<ggas_scope::thread>(
					tn, ggas_impl::tn_operation(ggas_impl::tn_words(entry)), GGAS_OK);
			return;
		}
		old = seen;
	}
}

/*
 * Takes an entry whose operation is complete, or waits and is to be cancelled, from all who trigger and re-arm: triggers
 * count on meanwhile, and start nothing. What was counted beyond an operation that was started counts for the next.
 * `before` and `taken`: its counts. A re-arming in between may have had it started once more, and the count be the same
 * again: that is seen only when it is taken, and then it is given back.
 */
GGAS_FN uint32_t take(ggas_tn *tn, ggas_tn_entry *entry, uint32_t word, uint64_t *before, uint64_t *taken)
{
	uint64_t old = ggas_load_acquire(&entry->count);
	for (;;) {
		bool started = ggas_impl::tn_started(old), waits = tn_threshold(old) && !started;
		if (!complete(tn, entry, word, waits))
			return TN_INCOMPLETE;
		*before = old;
		*taken = ggas_impl::tn_with(old, tn_counted(old) - (started ? tn_threshold(old) : 0), 0);
		uint64_t seen = ggas_atomic_cas(&entry->count, old, *taken, ggas_order::release_acquire);
		if (seen == old && complete(tn, entry, word, waits))
			return TN_DONE;
		if (seen == old) {
			give_back(tn, entry, old);
			return TN_INCOMPLETE;
		}
		old = seen;
	}
}

GGAS_FN uint32_t add(ggas_tn *tn, ggas_tn_entry *entry, const tn_command &command)
{
	uint64_t before, old;
	uint64_t now = ggas_load_acquire(&entry->count);
	if (tn_threshold(now) && !ggas_impl::tn_started(now))
		return TN_TAKEN;
	if (uint32_t refused = take(tn, entry, command.word, &before, &old); refused != TN_DONE)
		return refused;
	if (tn_threshold(before) && !ggas_impl::tn_started(before)) {
		give_back(tn, entry, before);
		return TN_TAKEN;
	}
	ggas_impl::tn_operation does;
	does.local = command.local;
	does.offset = command.offset;
	does.signal = command.signal;
	does.value = command.value;
	does.bytes = command.bytes;
	does.node = command.node;
	does.what = command.what;
	does.word = command.word;
	does.write(entry, ggas_impl::tn_registration(old, 0, 0));
	ggas_store_relaxed(ggas_impl::tn_error(tn->words, command.word), 0u);
	ggas_atomic_add_gpu(&entry->armed, 1);
	for (;;) {
		now = ggas_impl::tn_registration(old, tn_counted(old), command.threshold);
		uint64_t seen = ggas_atomic_cas(&entry->count, old, now, ggas_order::release_acquire);
		if (seen == old) {
			note_likely(tn, now);
			if (ggas_impl::tn_started(now))
				ggas_impl::tn_start<ggas_scope::thread>(tn, does, GGAS_OK);
			return TN_DONE;
		}
		old = seen;
	}
}

/* `counted`: what the tag had. Its completions count from 0 again. */
GGAS_FN uint32_t forget(ggas_tn *tn, ggas_tn_entry *entry, uint32_t word, uint64_t *counted)
{
	uint64_t before, old;
	if (uint32_t refused = take(tn, entry, word, &before, &old); refused != TN_DONE)
		return refused;
	bool known = tn_threshold(before) || tn_counted(before), started = ggas_impl::tn_started(before);
	/* Nobody completes it now. Who fails to re-arm adds to `armed` what it takes off again. */
	uint32_t *times = ggas_impl::tn_times(tn->words, word);
	uint64_t armed = ggas_load_relaxed(times) + (tn_threshold(before) && !started);
	ggas_atomic_add_gpu(&entry->armed, ~armed + 1);
	ggas_store_relaxed(times, 0u);
	ggas_store_relaxed(ggas_impl::tn_error(tn->words, word), 0u);
	for (;;) {
		uint64_t seen = ggas_atomic_cas(&entry->count, old, ggas_impl::tn_with(old, 0, 0),
						ggas_order::release_acquire);
		*counted = tn_counted(old) + (started ? tn_threshold(before) : 0);
		if (seen == old)
			return known ? TN_DONE : TN_UNKNOWN;
		old = seen;
	}
}

GGAS_FN uint32_t rearm(ggas_tn *tn, ggas_tn_entry *entry)
{
	if (!tn_threshold(ggas_load_acquire(&entry->count)))
		return TN_UNKNOWN;
	uint64_t left = ggas_impl::tn_rearm_one(entry);
	if (left == ggas_impl::tn_not_counted)
		return TN_WAITS;
	if (ggas_impl::tn_started(left))
		ggas_impl::tn_start<ggas_scope::thread>(tn, ggas_impl::tn_operation(ggas_impl::tn_words(entry)),
							GGAS_OK);
	return TN_DONE;
}

GGAS_FN uint32_t carry_out(ggas_tn *tn, tn_command &command)
{
	ggas_tn_entry *entry = reinterpret_cast<ggas_tn_entry *>(tn->entries) + command.tag;
	uint64_t now = ggas_load_acquire(&entry->count);
	command.counted = tn_counted(now);
	switch (command.command) {
	case TN_REGISTER:
		return add(tn, entry, command);
	case TN_CANCEL:
		return forget(tn, entry, command.word, &command.counted);
	case TN_REARM:
		return rearm(tn, entry);
	default:
		return tn_threshold(now) || tn_counted(now) ? TN_DONE : TN_UNKNOWN;
	}
}

/* Each side writes its word, then reads the other's: the host that finds the command not begun has taken it back. */
GGAS_FN bool begin(tn_command &command)
{
	ggas_store_relaxed(&command.begun, uint64_t(1));
	ggas_fence_sequential();
	return ggas_load_acquire(&command.taken_back) == 0;
}

} /* namespace tn_table */

GGAS_KERNEL_BOUND(ggas_tn_table, tn_commands, 32)
{
	ggas_tn *tn = reinterpret_cast<ggas_tn *>(args.tn);
	tn_command &command = *reinterpret_cast<tn_command *>(args.command);
	uint64_t result = TN_TAKEN_BACK;
	if (tn_table::begin(command))
		result = tn_table::carry_out(tn, command);
	ggas_store_release(&command.result, result);
}
