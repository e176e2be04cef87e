/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocking messages of a block that travel in lines, by all its threads: each sends and takes lines of its own, and nobody waits for
 * jobs. For channels on which nothing else is under way, and messages of whole words; all else, what is wrong among it, is left to the
 * leader (gmpi_direct_requests.h), as nothing of a message is changed by looking at it.
 *
 * A leader that gives jobs costs five barriers, and each thing that it looks up a way to the cache behind the multiprocessor, or to memory
 * where the kernel has swept that; here all threads look at once, what is sent is loaded while the counts are looked up, and three barriers
 * are left: all have come, all lines are here, the counts are stored. A kernel that computes has swept the instructions, too, and pays for each that is run here.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_NOW_H
#define GGAS_IMPL_GMPI_DIRECT_NOW_H

#include "gmpi_direct_few.h"

namespace ggas_impl
{

/* How the messages of a call lie: both together and at multiples of 8; at multiples of 4, together or in parts of whole words; anyhow. */
enum class direct_form { words, halves, any };

GGAS_FN direct_form direct_form_of(const direct_wish &wish)
{
	if (wish.bytes % 8)
		return direct_form::any;
	if (!wish.shape)
		return wish.address % 8 == 0 ? direct_form::words : wish.address % 4 == 0 ? direct_form::halves : direct_form::any;
	return wish.shape->block % 8 == 0 && shape_unit(*wish.shape, wish.address) >= 4 ? direct_form::halves : direct_form::any;
}

/* The words of such messages. */
template <direct_form> struct message_words;
template <> struct message_words<direct_form::words> {
	GGAS_FN explicit message_words(const direct_wish &wish) : words_(reinterpret_cast<uint64_t *>(wish.address)) {}
	GGAS_FN uint64_t load(uint32_t word) const { return words_[word]; }
	GGAS_FN void store(uint32_t word, uint64_t value) const { words_[word] = value; }

private:
	uint64_t *words_;
};
template <> struct message_words<direct_form::halves> {
	GGAS_FN explicit message_words(const direct_wish &wish) : address_(reinterpret_cast<uint8_t *>(wish.address)), shape_{ 8, 1, 1, 0, 0 }
	{
		if (wish.shape)
			shape_ = *wish.shape;
		else if (wish.bytes)
			shape_.block = wish.bytes;
	}
	GGAS_FN uint64_t load(uint32_t word) const { return load_halves(address_ + shape_offset(shape_, 8 * word)); }
	GGAS_FN void store(uint32_t word, uint64_t value) const { store_halves(address_ + shape_offset(shape_, 8 * word), value); }

private:
	uint8_t *address_;
	gmpi_shape shape_;
};

/* Waits a while for a message of whole words, of which the calling thread stores its share. Whether that has come. */
template <direct_form Form>
GGAS_FN bool direct_take_by_all(const gmpi_buf *buf, const direct_wish &in, const ggas_u128 *first, uint64_t number, gmpi_status *status)
{
	uint32_t self = ggas_thread(), all = ggas_threads(), words = static_cast<uint32_t>(in.bytes) / 8, looks = looks_of_all;
	ggas_u128 line[lines_at_once] = {}, head;
	bool asked = false;
	GGAS_NO_UNROLL
	for (bool loads = true;; looks--) {
		/* A message that is not here at the first look is waited for by line 0, which all threads load as one: whole messages at each look of
		 * a hundred blocks were more than the cache behind them gives, and all else waited. */
		head = ggas_watch_line(first);
		for (uint32_t k = 0; k < lines_at_once; k++)
			if (loads && self + k * all < words)
				line[k] = ggas_watch_line(first + 1 + self + k * all);
		bool known = head.hi == number;
		if (known) {
			uint64_t total = head.lo >> 32;
			int tag = static_cast<int>(head.lo & (is_placed - 1));
			if ((head.lo & is_placed) || total > in.bytes || total % 8 || (in.tag != GMPI_ANY_TAG && in.tag != tag))
				return false;
			words = static_cast<uint32_t>(total) / 8;
			bool missing = !loads;
			for (uint32_t k = 0; k < lines_at_once; k++)
				missing |= loads && self + k * all < words && line[k].hi != number;
			if (!missing)
				break;
		}
		loads = known;
		if (looks)
			continue;
		if (asked || !direct_is_quiet(buf))
			return false;
		asked = true;
		looks = looks_if_quiet;
	}
	message_words<Form> to(in);
	for (uint32_t k = 0; k < lines_at_once; k++)
		if (self + k * all < words)
			to.store(self + k * all, line[k].lo);
	GGAS_NO_UNROLL
	for (uint32_t i = self + lines_at_once * all; i < words; i += all) {
		do
			head = ggas_watch_line(first + 1 + i);
		while (head.hi != number && looks--);
		if (head.hi != number)
			return false;
		to.store(i, head.lo);
	}
	if (status && self == 0) {
		head = ggas_watch_line(first);
		*status = { static_cast<int>(in.peer), static_cast<int>(head.lo & (is_placed - 1)), GMPI_SUCCESS, 0, uint64_t(8) * words };
	}
	return true;
}

/* By all threads of a block. */
template <direct_form Form>
GGAS_FN direct_now direct_by_all(const gmpi_buf *buf, const direct_looked &looked, const direct_wish &out, const direct_wish &in,
				 gmpi_status *status)
{
	gmpi_channel *there = looked.state(out.peer), *here = looked.state(in.peer);
	uint32_t slots = looked.slots, self = ggas_thread(), all = ggas_threads(), words = static_cast<uint32_t>(out.bytes) / 8;
	message_words<Form> from(out);
	ggas_syncthreads();
	uint64_t loaded[lines_at_once];
	for (uint32_t k = 0; k < lines_at_once; k++)
		loaded[k] = self + k * all < words ? from.load(self + k * all) : 0;
	uint64_t sent = there->sent, emptied = there->emptied, sends = there->sends.posted, theirs = there->theirs, sends_done = there->sends.done;
	uint64_t taken = here->taken, told = here->told, receives = here->receives.posted, mine = here->mine, done = here->receives.done;
	bool sends_now = !out.is_wanted || (theirs && sends == sends_done && sent - emptied < slots);
	if (!sends_now || (in.is_wanted && !(mine && receives == done)))
		return direct_now::neither;
	uint64_t freed = emptied;
	if (out.is_wanted) {
		ggas_u128 *first = looked.line(theirs, sent);
		uint64_t info = static_cast<uint32_t>(out.tag) | out.bytes << 32;
		if (self == 0)
			ggas_store_relaxed(first, ggas_u128{ info, sent + 1 });
		for (uint32_t k = 0; k < lines_at_once; k++)
			if (self + k * all < words)
				ggas_store_relaxed(first + 1 + self + k * all, ggas_u128{ loaded[k], sent + 1 });
		GGAS_NO_UNROLL
		for (uint32_t i = self + lines_at_once * all; i < words; i += all)
			ggas_store_relaxed(first + 1 + i, ggas_u128{ from.load(i), sent + 1 });
		/* Asked in time, as it takes a while to know. */
		if (self == 0 && sent - emptied >= slots / 2)
			freed = ggas_load_watched(reinterpret_cast<const uint64_t *>(there->mine));
	}
	bool came = true;
	if (in.is_wanted)
		came = direct_take_by_all<Form>(buf, in, looked.line(mine, taken), taken + 1, status);
	else if (status && self == 0)
		*status = { GMPI_PROC_NULL, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
	bool late = ggas_syncthreads_or(!came);
	if (self == 0 && out.is_wanted)
		direct_note_sent(there, sent, sends, out.bytes, emptied, freed);
	if (self == 0 && in.is_wanted && !late)
		direct_note_taken(here, taken, receives, told, slots);
	/* A thread that calls by itself behind this one looks at the counts at once. */
	ggas_syncthreads();
	return !late ? direct_now::over : out.is_wanted ? direct_now::sent : direct_now::neither;
}

/* The less usual one for itself. */
GGAS_LONG direct_now direct_halves_by_all(const gmpi_buf *buf, direct_wish out, direct_wish in, gmpi_status *status)
{
	return direct_by_all<direct_form::halves>(buf, direct_looked(buf), out, in, status);
}

/* Whether this may be asked for; what is wrong the leader says. */
GGAS_FN bool direct_is_fine(const direct_wish &wish, uint32_t size, bool any_tag)
{
	return !wish.is_wanted ||
	       (wish.peer < size && (wish.address || !wish.bytes) && (wish.tag >= 0 || (any_tag && wish.tag == GMPI_ANY_TAG)));
}

/*
 * The messages of a call, `out` before `in`, if they travel in lines: by as many of the callers as there is something for. All that a call
 * needs is one function with its arguments in registers, and begins with what it looks up: in a kernel that computes between its calls, a
 * Sendrecv took 1.6 us until it got here from the call, in three functions with a look-up behind each condition.
 */
template <ggas_scope Scope>
GGAS_LONG direct_now direct_quick(const gmpi_buf *buf, uint64_t comm, direct_wish out, direct_wish in, gmpi_status *status)
{
	direct_looked looked(buf);
	if (looked.stands_by)
		return direct_now::over;
	uint64_t most = out.bytes > in.bytes ? out.bytes : in.bytes;
	if (!comm || looked.comm != comm || !looked.has_port || !(out.is_wanted || in.is_wanted) || !direct_is_fine(out, looked.size, false) ||
	    !direct_is_fine(in, looked.size, true) || !direct_is_short(most, looked.slot_bytes))
		return direct_now::neither;
	if (!direct_is_much<Scope>(most) && !out.shape && !in.shape)
		return direct_by_lanes<Scope>(buf, looked, out, in, status);
	if constexpr (Scope == ggas_scope::block) {
		direct_form form = direct_form_of(out), other = direct_form_of(in);
		form = form > other ? form : other;
		if (form == direct_form::words)
			return direct_by_all<direct_form::words>(buf, looked, out, in, status);
		if (form == direct_form::halves)
			return direct_halves_by_all(buf, out, in, status);
	}
	return direct_now::neither;
}

/* A message of a call; `rank` may be GMPI_PROC_NULL. */
struct direct_words {
	gmpi_data data;
	int rank, tag;

	/* Long ones are the leader's, before anything is looked up. */
	GGAS_FN bool is_short() const { return data.bytes() <= GMPI_DIRECT_SHORT; }

	/* What is no message is too long. */
	GGAS_FN direct_wish wish() const
	{
		bool fine = data.count >= 0 && (static_cast<uint32_t>(data.type) & GMPI_TYPE_SIZE_MASK);
		if (rank == GMPI_PROC_NULL)
			return { false, 0, 0, 0, 0, nullptr };
		return { true, gmpi_address(data.at), fine ? data.bytes() : ~uint64_t(0), static_cast<uint32_t>(rank), tag, data.shape };
	}
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_NOW_H */
