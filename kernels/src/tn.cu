// SPDX-License-Identifier: MIT OR Apache-2.0
// Registers triggered operations whose table lies in the memory of the processor that triggers them: only atomics of that
// processor join what kernels have counted by then, while they count on.
#include "ggas/tn.cuh"

#include "args.h"

namespace tn_table
{

GGAS_FN uint32_t add(ggas_tn *tn, ggas_tn_entry *entry, const tn_command &command)
{
	uint64_t old = ggas_load_acquire(&entry->count);
	if (old >> 32 && static_cast<uint32_t>(old) < old >> 32)
		return TN_TAKEN;
	/* Nobody reads the operation until the threshold is there. */
	ggas_store_relaxed(&entry->local, command.local);
	ggas_store_relaxed(&entry->offset, command.offset);
	ggas_store_relaxed(&entry->signal, command.signal);
	ggas_store_relaxed(&entry->value, command.value);
	ggas_store_relaxed(&entry->bytes, command.bytes);
	ggas_store_relaxed(&entry->node, command.node);
	ggas_store_relaxed(&entry->word, command.word);
	ggas_store_relaxed(&entry->what, command.what);
	for (;;) {
		/* What was counted beyond an operation that was started counts for this one. */
		uint64_t count = static_cast<uint32_t>(old) - (old >> 32);
		uint64_t now = count | static_cast<uint64_t>(command.threshold) << 32;
		uint64_t seen = ggas_atomic_cas(&entry->count, old, now, ggas_order::release_acquire);
		if (seen == old) {
			if (count >= command.threshold)
				ggas_impl::tn_start<ggas_scope::thread>(tn, tn->window, entry, 0, 0, __LINE__);
			return TN_DONE;
		}
		old = seen;
	}
}

GGAS_FN uint32_t carry_out(ggas_tn *tn, tn_command &command)
{
	ggas_tn_entry *entry = reinterpret_cast<ggas_tn_entry *>(tn->entries) + command.tag;
	uint64_t now = ggas_load_acquire(&entry->count);
	command.counted = static_cast<uint32_t>(now);
	switch (command.command) {
	case TN_REGISTER:
		return add(tn, entry, command);
	case TN_CANCEL:
		if (now == 0)
			return TN_UNKNOWN;
		command.counted = static_cast<uint32_t>(
			ggas_atomic_exch(&entry->count, 0u, ggas_order::release_acquire));
		return TN_DONE;
	case TN_REARM:
		if (now >> 32 == 0)
			return TN_UNKNOWN;
		if (static_cast<uint32_t>(now) < now >> 32)
			return TN_WAITS;
		return ggas_impl::tn_rearm_entry<ggas_scope::thread>(tn, command.tag, __LINE__) == GGAS_ERR_TRIGGER ?
			       TN_WAITS : TN_DONE;
	default:
		return now ? TN_DONE : TN_UNKNOWN;
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
