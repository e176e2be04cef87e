/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits for triggered operations; included by tn.cuh. */
#ifndef GGAS_IMPL_TN_WAIT_H
#define GGAS_IMPL_TN_WAIT_H

namespace ggas_impl
{

/* Counts go around at 2^32. */
GGAS_FN bool tn_reached(uint32_t seen, uint32_t times)
{
	return static_cast<int32_t>(seen - times) >= 0;
}

/* Whether the table had no room for some trigger, since the host cleared errors; whether one was not counted. */
GGAS_FN bool tn_found_full(const ggas_tn *tn)
{
	const uint64_t *status = reinterpret_cast<const uint64_t *>(tn->status);
	return ggas_load_acquire(status + EXTOLL_TRIGGER_STATUS_REFUSED) != ggas_load_relaxed(&tn->refused_before);
}
GGAS_FN bool tn_refused(const ggas_tn *tn)
{
	const uint64_t *status = reinterpret_cast<const uint64_t *>(tn->status);
	return tn_found_full(tn) ||
	       ggas_load_relaxed(status + EXTOLL_TRIGGER_STATUS_FAILED) != ggas_load_relaxed(&tn->failed_before);
}

/* The slow part. A trigger that was not counted may be the one that this waits for. */
GGAS_COLD int tn_wait_long(const ggas_tn *tn, const uint32_t *word, uint32_t times, uint32_t line)
{
	ggas_wait wait(tn->report, tn->timeout_ns, GGAS_WAIT_COMPLETION, tn->node, ~0u, line);
	uint32_t seen;
	while (!tn_reached(seen = ggas_load_watched(word), times)) {
		if (int error = wait.again(word, times, seen))
			return error;
		if (!wait.looks_around() || !tn_refused(tn))
			continue;
		const uint64_t *status = reinterpret_cast<const uint64_t *>(tn->status);
		bool full = tn_found_full(tn);
		uint32_t which = full ? EXTOLL_TRIGGER_STATUS_REFUSED_TAG : EXTOLL_TRIGGER_STATUS_FAILED_TAG;
		uint64_t why = !full ? GGAS_TN_FAILED : tn->entries ? GGAS_TN_NO_TAG : GGAS_TN_FULL;
		wait.fail(GGAS_ERR_TRIGGER, tn->status, why, ggas_load_relaxed(status + which), 0);
		return GGAS_ERR_TRIGGER;
	}
	return GGAS_OK;
}

/* No operation has this completion word. */
GGAS_COLD int tn_no_word(const ggas_tn *tn, uint32_t word, uint32_t line)
{
	write_report(reinterpret_cast<ggas_report *>(tn->report), GGAS_ERR_ARGUMENT, GGAS_WAIT_COMPLETION, tn->node, ~0u,
		     line, tn->words, tn->operations, word, 0);
	return GGAS_ERR_ARGUMENT;
}

template <ggas_scope Scope>
GGAS_FN int tn_wait(const ggas_tn *tn, uint32_t word, uint32_t times, uint32_t line)
{
	using team = put_team<Scope>;
	if (word >= tn->operations)
		return team::agree(team::thread() == 0 ? tn_no_word(tn, word, line) : GGAS_OK);
	int error = GGAS_OK;
	if (team::thread() == 0) {
		const uint32_t *at = tn_times(tn->words, word);
		bool seen = tn_reached(ggas_load_watched(at), times);
		GGAS_NO_UNROLL
		for (uint32_t i = 1; i < quick_polls && !seen; i++)
			seen = tn_reached(ggas_load_watched(at), times);
		if (!seen)
			error = tn_wait_long(tn, at, times, line);
		ggas_fence_acquire();
		uint64_t units = ggas_load_relaxed(tn_error(tn->words, word));
		if (!error && units) {
			error = GGAS_ERR_NOTIFICATION;
			write_report(reinterpret_cast<ggas_report *>(tn->report), error, GGAS_WAIT_COMPLETION, tn->node,
				     ~0u, line, reinterpret_cast<uint64_t>(at), times, units << 32 | ggas_load_relaxed(at),
				     0);
		}
	}
	return team::agree(error);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_TN_WAIT_H */
