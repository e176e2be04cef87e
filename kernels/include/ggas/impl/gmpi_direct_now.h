/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocking messages of a block that travel in lines, by all its threads: each sends and takes lines of its own, and nobody waits for
 * jobs. For channels on which nothing else is under way; what does not come soon is left to the leader (gmpi_direct_requests.h).
 *
 * A leader that gives jobs costs five barriers, and each thing that it looks up a way to the cache behind the multiprocessor, or to memory
 * where the kernel has swept that; here all threads look at once, what is sent is loaded while the counts are looked up, and three barriers
 * are left: all have come, all lines are here, the counts are stored.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_NOW_H
#define GGAS_IMPL_GMPI_DIRECT_NOW_H

#include "gmpi_direct_requests.h"

namespace ggas_impl
{

/* Looks for lines before they are left to the leader, who goes on with other messages meanwhile; more where there are none. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t looks_of_all = 3;
#else
constexpr uint32_t looks_of_all = 128;
#endif

/* What is to be sent, or the place for what is received. */
struct direct_wish {
	bool is_wanted;
	uint64_t address, bytes;
	uint32_t peer;
	int tag;
	const gmpi_shape *shape;	/* null: it lies together */
};

struct direct_now {
	bool sent, over;	/* over: the rest is nobody's */
	int error;
};

/* A message as its line 0 says; complete: the thread's lines are here. */
struct direct_arrival {
	bool is_known, is_complete;
	uint64_t info;

	GGAS_FN uint64_t total() const { return info >> 32; }
	GGAS_FN int tag() const { return static_cast<int>(info & (is_placed - 1)); }
	GGAS_FN bool is_wrong(const direct_wish &in) const { return in.tag != GMPI_ANY_TAG && in.tag != tag(); }
	GGAS_FN uint64_t fits(const direct_wish &in) const { return total() < in.bytes ? total() : in.bytes; }
};

/* Waits for line 0 and the calling thread's lines, as many at a time as it loads at once. A message that is not here at the first look is
 * waited for by line 0, which all threads load as one: whole messages at each look of a hundred blocks were more than the cache behind them
 * gives, and all else waited. */
class direct_lines_of_thread {
public:
	GGAS_FN direct_lines_of_thread(const gmpi_buf *buf, const ggas_u128 *first, uint64_t number)
		: buf_(buf), first_(first), number_(number), slot_bytes_(buf->direct.slot_bytes), looks_(looks_of_all), asked_(false)
	{
	}

	template <class Place> GGAS_FN direct_arrival take(const direct_wish &in, const Place &to)
	{
		uint32_t all = ggas_threads();
		/* As long as the message is not known, as many lines are hoped for as there is room for. */
		uint64_t count = 1 + (in.bytes + 7) / 8, i = ggas_thread();
		direct_arrival came = { false, false, 0 };
		do {
			ggas_u128 line[lines_at_once];
			for (bool loads = true;; loads = came.is_known) {
				if (!may_look())
					return came;
				if (loads)
					load(line, i, count, all);
				if (!came.is_known && !knows(&came, &count))
					return came;
				if (loads && !is_missing(came, line, i, count, all))
					break;
			}
			store(to, came.is_wrong(in) ? 0 : came.fits(in), line, i, all);
			i += uint64_t(all) * lines_at_once;
		} while (i < count);
		came.is_complete = true;
		return came;
	}

private:
	GGAS_FN bool may_look()
	{
		if (!looks_ && !asked_) {
			asked_ = true;
			looks_ = direct_is_quiet(buf_) ? looks_if_quiet : 0;
		}
		return looks_ && looks_--;
	}
	GGAS_FN void load(ggas_u128 *line, uint64_t from, uint64_t count, uint32_t all) const
	{
		for (uint32_t k = 0; k < lines_at_once; k++)
			line[k] = from + k * all < count ? ggas_watch_line(first_ + from + k * all) : ggas_u128{ 0, 0 };
	}
	/* Looks at line 0. False: it says that the message does not travel in lines. */
	GGAS_FN bool knows(direct_arrival *came, uint64_t *count) const
	{
		ggas_u128 head = ggas_watch_line(first_);
		if (head.hi != number_)
			return true;
		*came = { true, false, head.lo };
		*count = 1 + (came->total() + 7) / 8;
		return !(head.lo & is_placed) && direct_is_short(came->total(), slot_bytes_);
	}
	GGAS_FN bool is_missing(const direct_arrival &came, const ggas_u128 *line, uint64_t from, uint64_t count, uint32_t all) const
	{
		bool missing = !came.is_known;
		for (uint32_t k = 0; k < lines_at_once; k++)
			missing |= from + k * all < count && line[k].hi != number_;
		return missing;
	}
	template <class Place> GGAS_FN static void store(const Place &to, uint64_t fits, const ggas_u128 *line, uint64_t from, uint32_t all)
	{
		for (uint32_t k = 0; k < lines_at_once; k++)
			to.store(fits, from + k * all, line[k].lo);
	}

	const gmpi_buf *buf_;
	const ggas_u128 *first_;
	uint64_t number_, slot_bytes_;
	uint32_t looks_;
	bool asked_;
};

/* What `with` comes to with the words of a message; `Shaped`: it may lie in parts. */
template <bool Shaped, class With> GGAS_FN auto direct_with_place(const direct_wish &wish, const With &with)
{
	if constexpr (Shaped)
		if (wish.shape)
			return with_shaped_place(*wish.shape, wish.address, with);
	return with_dense_place(wish.address, with);
}

template <bool Shaped>
GGAS_FN direct_arrival direct_take_by_all(const gmpi_buf *buf, const direct_wish &in, const ggas_u128 *first, uint64_t number)
{
	direct_lines_of_thread lines(buf, first, number);
	return direct_with_place<Shaped>(in, [&](const auto &to) { return lines.take(in, to); });
}

/* The words that the calling thread sends first. */
template <bool Shaped> GGAS_FN void direct_load_first(const direct_wish &out, uint64_t *loaded)
{
	if constexpr (Shaped) {
		if (out.shape) {
			with_shaped_place(*out.shape, out.address, [&](const auto &from) {
				for (uint32_t k = 0; k < lines_at_once; k++) {
					uint64_t i = ggas_thread() + uint64_t(k) * ggas_threads();
					loaded[k] = i < out.bytes / 8 ? from.load(i) : 0;
				}
			});
			return;
		}
	}
	load_first_words(reinterpret_cast<const uint8_t *>(out.address), out.bytes, ggas_thread(), ggas_threads(), loaded);
}

/* By all threads of a block. What is not over, the leader's way goes on with. */
template <bool Shaped>
GGAS_LONG direct_now direct_by_all(const gmpi_buf *buf, direct_wish out, direct_wish in, gmpi_status *status)
{
	const gmpi_direct *direct = &buf->direct;
	gmpi_channel *there = direct_state(buf, direct, out.peer), *here = direct_state(buf, direct, in.peer);
	uint64_t slots = direct->slots, slot_bytes = direct->slot_bytes;
	ggas_syncthreads();
	uint64_t loaded[lines_at_once] = {};
	if (out.is_wanted)
		direct_load_first<Shaped>(out, loaded);
	uint64_t sent = there->sent, emptied = there->emptied, sends = there->sends.posted;
	uint64_t taken = here->taken, told = here->told, receives = here->receives.posted, mine = here->mine;
	bool sends_now = there->theirs && sends == there->sends.done && direct_is_short(out.bytes, slot_bytes) && sent - emptied < slots;
	bool receives_now = mine && receives == here->receives.done && direct_is_short(in.bytes, slot_bytes);
	if ((out.is_wanted && !sends_now) || (in.is_wanted && !receives_now))
		return { false, false, GMPI_SUCCESS };
	bool leads = ggas_thread() == 0;
	uint64_t freed = emptied;
	if (out.is_wanted) {
		/* Asked in time, as it takes a while to know. */
		if (leads && sent - emptied >= slots / 2)
			freed = ggas_load_watched(reinterpret_cast<const uint64_t *>(there->mine));
		uint64_t info = static_cast<uint32_t>(out.tag) | out.bytes << 32;
		direct_lines lines = { direct_line(there->theirs, sent, slots, slot_bytes), sent + 1, info, 0, 0, 0, 0, 0 };
		direct_with_place<Shaped>(out, [&](const auto &from) { lines.send(from, out.bytes, ggas_thread(), ggas_threads(), loaded); });
	}
	direct_arrival came = { false, true, 0 };
	if (in.is_wanted)
		came = direct_take_by_all<Shaped>(buf, in, direct_line(mine, taken, slots, slot_bytes), taken + 1);
	bool late = ggas_block_status(came.is_complete ? 0 : 1);
	int error = came.total() > in.bytes ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS;
	error = !in.is_wanted ? GMPI_SUCCESS : came.is_wrong(in) ? GMPI_ERR_TAG : error;
	if (leads && out.is_wanted) {
		there->sent = sent + 1;
		there->sends.posted = sends + 1;
		there->sends.done = sends + 1;
		ggas_red_add(&there->bytes, out.bytes, ggas_order::relaxed);
		if (freed != emptied) {
			ggas_fence_acquire();
			there->emptied = freed;
		}
	}
	if (leads && in.is_wanted && !late) {
		here->taken = taken + 1;
		here->receives.posted = receives + 1;
		here->receives.done = receives + 1;
		if (taken + 1 - told >= slots / 2) {
			/* Whoever sees it may write the slots again: all have read them. */
			ggas_store_release(reinterpret_cast<uint64_t *>(here->theirs), taken + 1);
			here->told = taken + 1;
		}
	}
	if (leads && status && !late) {
		int source = in.is_wanted ? static_cast<int>(in.peer) : GMPI_PROC_NULL;
		*status = { source, in.is_wanted ? came.tag() : GMPI_ANY_TAG, error, 0, in.is_wanted ? came.fits(in) : 0 };
	}
	ggas_syncthreads();
	return { out.is_wanted, !late, late ? GMPI_SUCCESS : error };
}

/* The same, if these callers are a block of more threads than a leader has. `out`, `in`: null for a message that is not wanted. */
struct direct_words {
	gmpi_data data;
	int rank, tag;
};
template <ggas_scope Scope>
GGAS_FN direct_now direct_try_all(const gmpi_buf *buf, const gmpi_direct *direct, const direct_words *out, const direct_words *in,
				  gmpi_status *status)
{
	if (!direct_crew<Scope>::has_others())
		return { false, false, GMPI_SUCCESS };
	bool fails = out && direct_asked(direct, false, out->data, out->rank, out->tag);
	fails |= in && direct_asked(direct, true, in->data, in->rank, in->tag);
	if (fails)
		return { false, false, GMPI_SUCCESS };
	/* A long one is the leader's, before anything is looked up. */
	uint64_t slot_bytes = direct->slot_bytes;
	auto is_long = [=](const direct_words *words) { return words && !direct_is_short(words->data.bytes(), slot_bytes); };
	if (is_long(out) || is_long(in))
		return { false, false, GMPI_SUCCESS };
	auto wish = [](const direct_words *words) -> direct_wish {
		if (!words)
			return { false, 0, 0, 0, 0, nullptr };
		const gmpi_data &data = words->data;
		return { true, gmpi_address(data.at), data.bytes(), static_cast<uint32_t>(words->rank), words->tag, data.shape };
	};
	if (GGAS_RARE((out && out->data.shape) || (in && in->data.shape)))
		return direct_by_all<true>(buf, wish(out), wish(in), status);
	return direct_by_all<false>(buf, wish(out), wish(in), status);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_NOW_H */
