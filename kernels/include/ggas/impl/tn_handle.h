/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What kernels hold of triggered operations; included by tn.cuh. */
#ifndef GGAS_IMPL_TN_HANDLE_H
#define GGAS_IMPL_TN_HANDLE_H

/* Triggered operations as a kernel holds them. Made once and kept, a trigger over a mapped window reads nothing but its
 * entry; made from the address at each call, it reads the table's words first. */
struct ggas_triggers {
	ggas_tn *tn;
	uint64_t entries, words, likely;
	uint32_t tags;
	ggas_window window;

	GGAS_FN ggas_triggers(ggas_tn *tn)
		: tn(tn), entries(tn->entries), words(tn->words), likely(ggas_load_relaxed(&tn->likely)), tags(tn->tags),
		  window(tn->window)
	{
		likely = likely == GGAS_TN_UNALIKE ? 0 : likely;
	}

	GGAS_FN ggas_tn_entry *entry(uint64_t tag) const { return reinterpret_cast<ggas_tn_entry *>(entries) + tag; }
};

namespace ggas_impl
{

/* An entry's words behind count and `armed`, as they are read: nothing waits for them before they are used. */
struct tn_words {
	ggas_u128 source = { 0, 0 }, target = { 0, 0 }, rest = { 0, 0 };

	GGAS_FN tn_words() {}
	GGAS_FN explicit tn_words(const ggas_tn_entry *entry)
		: source(ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&entry->local))),
		  target(ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&entry->offset))),
		  rest(ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&entry->word)))
	{
	}

	/* All are of the registration that a count is of. */
	GGAS_FN bool is_of(uint64_t count) const
	{
		uint64_t differ = (source.lo ^ count) | (target.lo ^ count) | (rest.lo ^ count);
		return EXTOLL_GET(differ, GGAS_TN_REGISTRATION) == 0;
	}
	/* Reads them again unless they are of a count that this thread, or one that it met since, has seen: behind an acquire
	 * of that, they are. */
	GGAS_FN void renew(const ggas_tn_entry *entry, uint64_t count)
	{
		if (is_of(count))
			return;
		(void)ggas_load_acquire(&entry->count);
		*this = tn_words(entry);
	}
	GGAS_FN uint32_t what() const { return static_cast<uint32_t>(EXTOLL_GET(rest.lo, GGAS_TN_WHAT)); }
};

/* What an entry says. */
struct tn_operation {
	uint64_t local = 0, offset = 0, signal = 0, value = 0;
	uint32_t bytes = 0, node = 0, what = 0, word = 0;

	GGAS_FN tn_operation() {}
	GGAS_FN explicit tn_operation(const tn_words &words)
		: local(EXTOLL_GET(words.source.lo, GGAS_TN_PLACE)), offset(EXTOLL_GET(words.target.lo, GGAS_TN_PLACE)),
		  signal(words.target.hi), value(words.rest.hi), bytes(static_cast<uint32_t>(words.source.hi)),
		  node(static_cast<uint32_t>(words.source.hi >> 32)), what(words.what()),
		  word(static_cast<uint32_t>(EXTOLL_GET(words.rest.lo, GGAS_TN_WORD)))
	{
	}

	/* Writes it, as of a count's registration. */
	GGAS_FN void write(ggas_tn_entry *entry, uint64_t count) const
	{
		uint64_t of = EXTOLL_PUT(EXTOLL_GET(count, GGAS_TN_REGISTRATION), GGAS_TN_REGISTRATION);
		uint64_t rest = EXTOLL_PUT(word, GGAS_TN_WORD) | EXTOLL_PUT(what, GGAS_TN_WHAT) | of;
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&entry->local),
				   ggas_u128{ EXTOLL_PUT(local, GGAS_TN_PLACE) | of,
					      bytes | static_cast<uint64_t>(node) << 32 });
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&entry->offset),
				   ggas_u128{ EXTOLL_PUT(offset, GGAS_TN_PLACE) | of, signal });
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&entry->word), ggas_u128{ rest, value });
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
	ggas_impl::tn_words words;
};

#endif /* GGAS_IMPL_TN_HANDLE_H */
