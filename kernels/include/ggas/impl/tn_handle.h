/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What kernels hold of triggered operations; included by tn.cuh. */
#ifndef GGAS_IMPL_TN_HANDLE_H
#define GGAS_IMPL_TN_HANDLE_H

/* Triggered operations as a kernel holds them. Made once and kept, a trigger over a mapped window reads nothing but its
 * entry; made from the address at each call, it reads the table's words first. */
struct ggas_triggers {
	ggas_tn *tn;
	uint64_t entries, words;
	uint32_t tags;
	ggas_window window;

	GGAS_FN ggas_triggers(ggas_tn *tn)
		: tn(tn), entries(tn->entries), words(tn->words), tags(tn->tags), window(tn->window)
	{
	}

	GGAS_FN ggas_tn_entry *entry(uint64_t tag) const { return reinterpret_cast<ggas_tn_entry *>(entries) + tag; }
};

namespace ggas_impl
{

/* What an entry says: read behind a count with a threshold. */
struct tn_operation {
	uint64_t local = 0, offset = 0, signal = 0, value = 0;
	uint32_t bytes = 0, node = 0, what = 0, word = 0;

	GGAS_FN tn_operation() {}
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

} /* namespace ggas_impl */

/* An operation that was read ahead (ggas_tn_prepare). */
struct ggas_tn_prepared {
	uint64_t tag = 0, seen = 0;
	ggas_impl::tn_operation does;
};

#endif /* GGAS_IMPL_TN_HANDLE_H */
