/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Puts into a place that the sender names, signals, and waits; included by put.cuh. */
#ifndef GGAS_IMPL_PUT_SIGNAL_H
#define GGAS_IMPL_PUT_SIGNAL_H

namespace ggas_impl
{

/* It has an aligned word there. `line` as of check_put(). */
GGAS_FN int check_signal(const ggas_window *window, uint32_t node, uint64_t signal, uint32_t line)
{
	if (signal % sizeof(uint64_t) == 0)
		return check_put(window, node, signal, sizeof(uint64_t), line);
	return refuse_put(window, node, signal, sizeof(uint64_t), line & line_mask);
}

/* What one thread of a team moves where each moves a unit at most, as in most puts. It is loaded before
 * anything is checked: the multiprocessor's cache knows nothing after a wait, so that takes long. */
class short_put {
public:
	GGAS_FN short_put(void *to, const void *from, uint64_t bytes, uint32_t self, uint32_t all) : unit_{ 0, 0 }
	{
		uint64_t ends = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
		size_ = ends % 16 == 0 ? 16 : ends % 8 == 0 ? 8 : 0;
		at_ = self * size_;
		fits_ = bytes <= all * size_;
		has_ = fits_ && at_ < bytes;
		auto *in = static_cast<const uint8_t *>(from) + at_;
		if (has_ && size_ == 16)
			unit_ = ggas_read(reinterpret_cast<const ggas_u128 *>(in));
		else if (has_)
			unit_.lo = ggas_read(reinterpret_cast<const uint64_t *>(in));
	}
	GGAS_FN bool fits() const { return fits_; }
	GGAS_FN void store(uint8_t *to) const
	{
		if (has_ && size_ == 16)
			ggas_write(reinterpret_cast<ggas_u128 *>(to + at_), unit_);
		else if (has_)
			ggas_write(reinterpret_cast<uint64_t *>(to + at_), unit_.lo);
	}

private:
	ggas_u128 unit_;
	uint32_t size_, at_;
	bool fits_, has_;
};

template <ggas_scope Scope>
GGAS_FN int put(const ggas_window *window, uint32_t node, uint64_t offset, const void *from, uint64_t bytes,
		uint32_t line)
{
	using team = put_team<Scope>;
	uint8_t *to = ggas_pointer_of_node<uint8_t>(window, node, offset);
	short_put few(to, from, bytes, team::thread(), team::threads());
	if (int error = check_put(window, node, offset, bytes, traced(trace_by(Scope), line)))
		return error;
	if (few.fits())
		few.store(to);
	else
		copy_share(to, from, bytes, team::thread(), team::threads());
	return GGAS_OK;
}

/* The data, then the signal. `few`: the same data where they are few. */
template <ggas_scope Scope>
GGAS_FN void store_and_signal(uint8_t *to, const void *from, uint64_t bytes, const short_put &few, uint64_t *word,
			      uint64_t value, ggas_signal what)
{
	using team = put_team<Scope>;
	if (few.fits())
		few.store(to);
	else
		copy_share(to, from, bytes, team::thread(), team::threads());
	team::meet();
	if (team::thread() != 0)
		return;
	if (what == ggas_signal::set)
		ggas_store_release(word, value);
	else
		ggas_red_add(word, value, ggas_order::release);
}

template <ggas_scope Scope>
GGAS_FN int put_signal(const ggas_window *window, uint32_t node, uint64_t offset, const void *from, uint64_t bytes,
		       uint64_t signal, uint64_t value, ggas_signal what, uint32_t line)
{
	using team = put_team<Scope>;
	uint8_t *to = ggas_pointer_of_node<uint8_t>(window, node, offset);
	short_put few(to, from, bytes, team::thread(), team::threads());
	if (int error = check_put(window, node, offset, bytes, traced(trace_by(Scope), line)))
		return error;
	if (int error = check_signal(window, node, signal, traced(trace_by(Scope), line)))
		return error;
	store_and_signal<Scope>(to, from, bytes, few, ggas_pointer_of_node<uint64_t>(window, node, signal), value, what);
	return GGAS_OK;
}

/* Units of one access, four loads of a thread under way together. */
template <class Unit>
GGAS_FN void fetch_units(uint8_t *to, const uint8_t *from, uint64_t count, uint32_t self, uint32_t all)
{
	auto *out = reinterpret_cast<Unit *>(to);
	auto *in = reinterpret_cast<const Unit *>(from);
	for (uint64_t i = self; i < count; i += 4ull * all) {
		Unit unit[4];
		GGAS_UNROLL
		for (uint64_t k = 0; k < 4; k++)
			if (i + k * all < count)
				unit[k] = ggas_load_relaxed(in + i + k * all);
		GGAS_UNROLL
		for (uint64_t k = 0; k < 4; k++)
			if (i + k * all < count)
				out[i + k * all] = unit[k];
	}
}

/* As copy_share, by relaxed loads: plain ones may find in the multiprocessor's cache what an earlier get left there. */
GGAS_FN void fetch_share(void *to, const void *from, uint64_t bytes, uint32_t self, uint32_t all)
{
	auto *out = static_cast<uint8_t *>(to);
	auto *in = static_cast<const uint8_t *>(from);
	uint64_t ends = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from), done = 0;
	if (ends % 16 == 0) {
		fetch_units<ggas_u128>(out, in, bytes / 16, self, all);
		done = bytes & ~static_cast<uint64_t>(15);
	}
	if (ends % 8 == 0) {
		fetch_units<uint64_t>(out + done, in + done, (bytes - done) / 8, self, all);
		done = bytes & ~static_cast<uint64_t>(7);
	}
	if (ends % 4 == 0) {
		fetch_units<uint32_t>(out + done, in + done, (bytes - done) / 4, self, all);
		done = bytes & ~static_cast<uint64_t>(3);
	}
	fetch_units<uint8_t>(out + done, in + done, bytes - done, self, all);
}

template <ggas_scope Scope>
GGAS_FN int get(const ggas_window *window, uint32_t node, uint64_t offset, void *to, uint64_t bytes, uint32_t line)
{
	using team = put_team<Scope>;
	if (int error = check_put(window, node, offset, bytes, traced(trace_by(Scope) | trace_got, line)))
		return error;
	fetch_share(to, ggas_pointer_of_node(window, node, offset), bytes, team::thread(), team::threads());
	team::meet();
	return GGAS_OK;
}

GGAS_FN bool compares(uint64_t seen, ggas_cmp cmp, uint64_t value)
{
	switch (cmp) {
	case ggas_cmp::eq:
		return seen == value;
	case ggas_cmp::ne:
		return seen != value;
	case ggas_cmp::gt:
		return seen > value;
	case ggas_cmp::ge:
		return seen >= value;
	case ggas_cmp::lt:
		return seen < value;
	default:
		return seen <= value;
	}
}

GGAS_FN const uint64_t *own_word(const ggas_window *window, uint64_t offset)
{
	return reinterpret_cast<const uint64_t *>(window->local + offset);
}

/* The slow part of waiting for a word. */
GGAS_COLD int wait_word_long(const uint64_t *word, ggas_cmp cmp, uint64_t value, uint64_t report, uint64_t timeout,
			     uint32_t node, uint32_t peer, uint32_t line)
{
	ggas_wait wait(report, timeout, GGAS_WAIT_FLAG, node, peer, line);
	uint64_t seen;
	while (!compares(seen = ggas_load_watched(word), cmp, value))
		if (int error = wait.again(word, value, seen))
			return error;
	return GGAS_OK;
}

/* One thread of the team polls; the barrier passes on what it saw. */
template <ggas_scope Scope>
GGAS_FN int wait_word(const ggas_window *window, uint64_t offset, ggas_cmp cmp, uint64_t value, uint32_t peer,
		      uint32_t line)
{
	using team = put_team<Scope>;
	if (int error = check_signal(window, window->node, offset, traced(trace_nobody, line)))
		return error;
	int error = GGAS_OK;
	if (team::thread() == 0) {
		const uint64_t *word = own_word(window, offset);
		bool seen = compares(ggas_load_watched(word), cmp, value);
		GGAS_NO_UNROLL
		for (uint32_t i = 1; i < quick_polls && !seen; i++)
			seen = compares(ggas_load_watched(word), cmp, value);
		if (!seen)
			error = wait_word_long(word, cmp, value, window->report, window->timeout_ns, window->node, peer,
					       line);
		ggas_fence_acquire();
	}
	return team::agree(error);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_PUT_SIGNAL_H */
