/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Triggers: stores of tags to a unit or a ring; included by tn.cuh. */
#ifndef GGAS_IMPL_TN_POST_H
#define GGAS_IMPL_TN_POST_H

namespace ggas_impl
{

GGAS_FN uint64_t tn_rearms()
{
	return EXTOLL_PUT(1, EXTOLL_TRIGGER_IS_REARM);
}

/* Fields are stored to the page by one thread at a time, in turn. */
GGAS_FN int tn_lock(ggas_tn *tn, uint32_t line)
{
	uint64_t turn = ggas_atomic_add(&tn->turn, uint64_t(1) << 32, ggas_order::acquire);
	uint32_t mine = static_cast<uint32_t>(turn >> 32), now = static_cast<uint32_t>(turn);
	ggas_wait wait(tn->report, tn->timeout_ns, GGAS_WAIT_LOCK, tn->node, ~0u, line);
	while (now != mine) {
		if (int error = wait.again(&tn->turn, mine, now))
			return error;
		now = static_cast<uint32_t>(ggas_load_acquire(&tn->turn));
	}
	return GGAS_OK;
}
GGAS_FN void tn_unlock(ggas_tn *tn)
{
	bool last = static_cast<uint32_t>(ggas_load_relaxed(&tn->turn)) == ~0u;
	/* The low half alone, also where it begins again at 0. */
	ggas_atomic_add(&tn->turn, last ? 1 - (uint64_t(1) << 32) : uint64_t(1), ggas_order::release);
}

/* One thread stores a tag to the unit's page. The fence puts what the caller wrote ahead of it. */
GGAS_FN int tn_store(ggas_tn *tn, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	uint64_t *page = reinterpret_cast<uint64_t *>(tn->page);
	if (what == 0 || what == tn_rearms()) {
		ggas_fence_system();
		ggas_store_mmio(page + (what ? EXTOLL_TRIGGER_REARM : EXTOLL_TRIGGER_FIRE) / 8, tag);
		return GGAS_OK;
	}
	if (int error = tn_lock(tn, line))
		return error;
	ggas_fence_system();
	ggas_store_mmio(page + EXTOLL_TRIGGER_WHERE / 8, where);
	ggas_store_mmio(page + EXTOLL_TRIGGER_WHAT / 8, what);
	/* Fields first: a page that combines stores keeps no order of its own. */
	ggas_fence_system();
	ggas_store_mmio(page + EXTOLL_TRIGGER_FIRE_FIELDS / 8, tag);
	ggas_fence_system();
	tn_unlock(tn);
	return GGAS_OK;
}

/* The leader stores, to the page or the ring. */
template <ggas_scope Scope>
GGAS_FN int tn_post(ggas_tn *tn, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	using team = put_team<Scope>;
	team::meet();
	int error = GGAS_OK;
	if (team::thread() == 0) {
		if (tn->page)
			error = tn_store(tn, tag, where, what, line);
		else
			error = slot_post(tn, slot_ring(tn), extoll_desc{ { tag, where, what } }, line);
	}
	return team::agree(error);
}

template <ggas_scope Scope>
GGAS_FN int tn_trigger(const ggas_triggers &at, uint64_t tag, uint64_t where, uint64_t what, uint32_t line)
{
	if (at.entries)
		return tn_count<Scope>(at, tag, where, what, line);
	return tn_post<Scope>(at.tn, tag, where, what, line);
}

/* Fields have no room for more bytes than a card takes. */
GGAS_COLD int tn_too_large(const ggas_tn *tn, uint64_t tag, uint32_t line)
{
	write_report(reinterpret_cast<ggas_report *>(tn->report), GGAS_ERR_TRIGGER, GGAS_WAIT_COMPLETION, tn->node, ~0u,
		     line, tn->status, GGAS_TN_TOO_LARGE, tag, 0);
	return GGAS_ERR_TRIGGER;
}

template <ggas_scope Scope>
GGAS_FN int tn_trigger_fields(const ggas_triggers &at, uint64_t tag, uint64_t where, uint32_t bytes, uint64_t rest,
			      uint32_t line)
{
	using team = put_team<Scope>;
	if (bytes >> EXTOLL_TRIGGER_SIZE_BITS)
		return team::agree(team::thread() == 0 ? tn_too_large(at.tn, tag, line) : GGAS_OK);
	return tn_trigger<Scope>(at, tag, where, rest, line);
}

template <ggas_scope Scope>
GGAS_FN int tn_rearm(const ggas_triggers &at, uint64_t tag, uint32_t line)
{
	if (at.entries)
		return tn_rearm_entry<Scope>(at, tag, line);
	return tn_post<Scope>(at.tn, tag, 0, tn_rearms(), line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_TN_POST_H */
