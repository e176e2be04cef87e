// SPDX-License-Identifier: MIT OR Apache-2.0
// Registers triggered operations whose table lies in the memory of the processor that triggers them: only atomics of that
// processor join what kernels have counted by then, while they count on.
#include "ggas/tn.cuh"

#include "args.h"

namespace tn_table
{

/* Kernels that count try first what all entries hold that wait. */
GGAS_FN void note_likely(ggas_tn *tn, uint64_t registered)
{
	uint64_t waits = registered - ggas_impl::tn_counted(registered);
	if (ggas_impl::tn_threshold(registered) != 1)
		waits = GGAS_TN_UNALIKE;
	uint64_t seen = ggas_atomic_cas(&tn->likely, uint64_t(0), waits, ggas_order::relaxed);
	if (seen && seen != waits)
		ggas_store_relaxed(&tn->likely, uint64_t(GGAS_TN_UNALIKE));
}

GGAS_FN uint32_t add(ggas_tn *tn, ggas_tn_entry *entry, const tn_command &command)
{
	uint64_t old = ggas_load_acquire(&entry->count);
	if (ggas_impl::tn_threshold(old) && !ggas_impl::tn_started(old))
		return TN_TAKEN;
	/* Nobody carries out what is read here before the count says that it is registered. */
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
	for (;;) {
		/* What was counted beyond an operation that was started counts for this one. */
		uint32_t count = ggas_impl::tn_counted(old) - ggas_impl::tn_threshold(old);
		uint64_t now = ggas_impl::tn_registration(old, count, command.threshold);
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

/* What the tag had counted. */
GGAS_FN uint32_t forget(ggas_tn_entry *entry, uint64_t old)
{
	for (;;) {
		uint64_t now = ggas_impl::tn_registration(old, 0, 0);
		uint64_t seen = ggas_atomic_cas(&entry->count, old, now, ggas_order::release_acquire);
		if (seen == old)
			return ggas_impl::tn_counted(old);
		old = seen;
	}
}

GGAS_FN uint32_t carry_out(ggas_tn *tn, tn_command &command)
{
	ggas_tn_entry *entry = reinterpret_cast<ggas_tn_entry *>(tn->entries) + command.tag;
	uint64_t now = ggas_load_acquire(&entry->count);
	bool known = ggas_impl::tn_threshold(now) || ggas_impl::tn_counted(now);
	command.counted = ggas_impl::tn_counted(now);
	switch (command.command) {
	case TN_REGISTER:
		return add(tn, entry, command);
	case TN_CANCEL:
		if (!known)
			return TN_UNKNOWN;
		command.counted = forget(entry, now);
		return TN_DONE;
	case TN_REARM:
		if (!ggas_impl::tn_threshold(now))
			return TN_UNKNOWN;
		if (!ggas_impl::tn_started(now))
			return TN_WAITS;
		return ggas_impl::tn_rearm_entry<ggas_scope::thread>(tn, command.tag, __LINE__) == GGAS_ERR_TRIGGER ?
			       TN_WAITS : TN_DONE;
	default:
		return known ? TN_DONE : TN_UNKNOWN;
	}
}

} /* namespace tn_table */

GGAS_KERNEL_BOUND(ggas_tn_table, tn_commands, 32)
{
	ggas_tn *tn = reinterpret_cast<ggas_tn *>(args.tn);
	tn_command *commands = reinterpret_cast<tn_command *>(args.commands);
	for (uint64_t i = ggas_thread(); i < args.count; i += ggas_threads())
		commands[i].result = tn_table::carry_out(tn, commands[i]);
}
