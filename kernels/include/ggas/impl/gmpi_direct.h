/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls on direct communicators: messages from kernel to kernel (gmpi_channel.h). A leader makes each of them, its crew copies. */
#ifndef GGAS_IMPL_GMPI_DIRECT_H
#define GGAS_IMPL_GMPI_DIRECT_H

#include "gmpi_direct_now.h"

namespace ggas_impl
{

/* Waits for the requests whose places another one took, from the latest on; it is rarely done. */
template <ggas_scope Scope>
GGAS_LONG int direct_wait_before(const gmpi_buf *buf, uint64_t handle, uint32_t line, uint32_t *jobs)
{
	direct_crew<Scope> others(*jobs);
	int error = GMPI_SUCCESS;
	while (handle && !error) {
		uint64_t before = direct_before(buf, handle);
		gmpi_channel *state = direct_channel_of(buf, handle);
		if (!direct_is_own(handle))
			error = direct_asks_daemon<Scope>(buf, true, handle, nullptr, line).error;
		else
			error = state ? direct_wait_in<Scope>(buf, state, others, handle, nullptr, line) : GMPI_ERR_REQUEST;
		handle = before;
	}
	*jobs = others.jobs();
	return error;
}

/* Waits for one of the daemon's that took the place of a direct one, and for that; its place then holds none. By the leader. */
template <ggas_scope Scope>
GGAS_LONG int direct_wait_after(const gmpi_buf *buf, uint64_t *request, gmpi_status *status, uint32_t line, uint32_t *jobs)
{
	using team = gmpi_team<Scope>;
	uint64_t handle = *request;
	if (!direct_is_after(buf, handle))
		return GMPI_ERR_REQUEST;
	uint64_t before = direct_before(buf, handle);
	int error = direct_asks_daemon<Scope>(buf, true, handle, status, line).error;
	bool is_open = error == GMPI_ERR_TIMEOUT || error == GMPI_ERR_DAEMON;
	if (!is_open) {
		int failed = direct_wait_before<Scope>(buf, before, line, jobs);
		is_open = failed == GMPI_ERR_TIMEOUT || failed == GMPI_ERR_DAEMON;
		error = is_open || !error ? failed : error;
	}
	team::meet();
	if (team::lane() == 0 && !is_open)
		*request = 0;
	else if (team::lane() == 0 && before)
		direct_gives_place(buf, before, handle); /* who waits again finds it */
	team::meet();
	return error;
}

/* Waits for the request in a place, which then holds none. By the leader. */
template <ggas_scope Scope>
GGAS_FN int direct_wait_led(const gmpi_buf *buf, direct_crew<Scope> &others, uint64_t *request, gmpi_status *status, uint32_t line)
{
	using team = gmpi_team<Scope>;
	uint64_t handle = *request;
	gmpi_channel *state = direct_channel_of(buf, handle);
	if (GGAS_RARE(!state)) {
		uint32_t jobs = others.jobs();
		int failed = direct_wait_after<Scope>(buf, request, status, line, &jobs);
		others = direct_crew<Scope>(jobs);
		return failed;
	}
	uint64_t before = direct_before(buf, handle);
	int error = direct_wait_in<Scope>(buf, state, others, handle, status, line);
	if (GGAS_RARE(before && !error)) {
		uint32_t jobs = others.jobs();
		error = direct_wait_before<Scope>(buf, before, line, &jobs);
		others = direct_crew<Scope>(jobs);
	}
	team::meet();
	if (team::lane() == 0 && error != GMPI_ERR_TIMEOUT)
		*request = 0;
	return error;
}

/* The same by all callers, and for those of `count` places that have a direct one. `Many`: GMPI_ERR_IN_STATUS says that some failed. */
template <ggas_scope Scope, bool Many>
GGAS_FN int direct_wait_places(const gmpi_buf *buf, uint32_t count, uint64_t *requests, gmpi_status *statuses, uint32_t line)
{
	using crew = direct_crew<Scope>;
	crew::enter();
	if (!crew::leads())
		return crew::work();
	crew others;
	int error = GMPI_SUCCESS;
	for (uint32_t i = 0; i < count; i++) {
		gmpi_status *status = statuses ? statuses + i : nullptr;
		if (gmpi_is_direct(requests[i])) {
			int failed = direct_wait_led<Scope>(buf, others, requests + i, status, line);
			if (failed)
				error = failed == GMPI_ERR_TIMEOUT || !Many ? failed : GMPI_ERR_IN_STATUS;
			if (failed == GMPI_ERR_TIMEOUT)
				break;
		} else if (!requests[i] && status && gmpi_team<Scope>::lane() == 0) {
			*status = { GMPI_ANY_SOURCE, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
		}
	}
	return others.end(error);
}

/* Isend and Irecv whose handle goes into memory. */
template <ggas_scope Scope>
GGAS_FN int direct_request(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t call, const gmpi_data &data, int rank,
			   int tag, uint64_t *request, uint32_t line)
{
	using crew = direct_crew<Scope>;
	bool receives = call == GMPI_CALL_IRECV;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	if (call != GMPI_CALL_ISEND && !receives)
		return GMPI_ERR_CALL;
	if (!gmpi_port_of(buf))
		return gmpi_no_port(buf, call, line);
	crew::enter();
	if (!crew::leads())
		return crew::work();
	crew others;
	uint64_t handle = 0, before = *request;
	int error = direct_begin<Scope>(buf, direct, others, receives, data, rank, tag, before, &handle, line);
	gmpi_team<Scope>::meet();
	if (gmpi_team<Scope>::lane() == 0)
		*request = error ? 0 : handle;
	return others.end(error);
}

/* Send or Recv by the leader. What the program says when it is compiled is so here: all that both may be takes microseconds more. */
template <ggas_scope Scope, bool Receives, bool Shaped>
GGAS_LONG int direct_message_led(const gmpi_buf *buf, direct_words words, gmpi_status *status, uint32_t line)
{
	using crew = direct_crew<Scope>;
	const gmpi_direct *direct = &buf->direct;
	if (!Shaped)
		words.data.shape = nullptr;
	crew::enter();
	if (!crew::leads())
		return crew::work();
	crew others;
	uint64_t handle = 0;
	int error = direct_begin<Scope>(buf, direct, others, Receives, words.data, words.rank, words.tag, 0, &handle, line);
	gmpi_team<Scope>::meet();
	if (!error)
		error = direct_wait_in<Scope>(buf, direct_state(buf, direct, direct_peer(handle)), others, handle, status, line);
	return others.end(error);
}

/* Send and Recv that were not over at once. */
template <ggas_scope Scope, bool Receives>
GGAS_FN int direct_message(const gmpi_buf *buf, const direct_words &words, gmpi_status *status, uint32_t line)
{
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	if (!gmpi_port_of(buf))
		return gmpi_no_port(buf, Receives ? GMPI_CALL_RECV : GMPI_CALL_SEND, line);
	if (words.data.shape)
		return direct_message_led<Scope, Receives, true>(buf, words, status, line);
	return direct_message_led<Scope, Receives, false>(buf, words, status, line);
}

/* Nobody will wait for this one. By all callers. */
template <ggas_scope Scope> GGAS_LONG int direct_free(const gmpi_buf *buf, uint64_t handle)
{
	bool known = direct_channel_of(buf, handle);
	/* All callers have read the place of the handle, which one of them clears behind this. */
	gmpi_team<Scope>::all::meet();
	if (!known)
		return GMPI_ERR_REQUEST;
	if (gmpi_team<Scope>::all::thread() == 0)
		direct_forget(buf, handle);
	gmpi_team<Scope>::all::meet();
	return GMPI_SUCCESS;
}

/* Goes on with what is under way; whether the request in a place is over, which then holds none. */
template <ggas_scope Scope>
GGAS_LONG int direct_test_place(const gmpi_buf *buf, uint64_t *request, int *flag, gmpi_status *status, uint32_t line)
{
	using team = gmpi_team<Scope>;
	using crew = direct_crew<Scope>;
	auto told = [=](int both) {
		*flag = both >> GMPI_ANSWER_ERROR_BITS & 1;
		return both & ((1 << GMPI_ANSWER_ERROR_BITS) - 1);
	};
	crew::enter();
	if (!crew::leads())
		return told(crew::work());
	crew others;
	uint64_t handle = *request, before = handle;
	gmpi_channel *state = direct_channel_of(buf, handle);
	if (!state && !direct_is_after(buf, handle))
		return told(others.end(GMPI_ERR_REQUEST));
	const gmpi_direct *direct = &buf->direct;
	others = crew(direct_progress<Scope>(buf, direct, line, others.jobs()).jobs);
	uint64_t gone = 0;
	for (; before && !gone; before = direct_before(buf, before)) {
		if (direct_either_is_over<Scope>(buf, before, line))
			continue;
		/* What a dead member sent before may come with one more step. */
		if (direct_is_own(before) && direct_lead_sees_gone<Scope>(direct, direct_peer(before)))
			gone = before;
		direct_moved moved = { false, others.jobs() };
		if (gone)
			moved = direct_progress<Scope>(buf, direct, line, others.jobs());
		others = crew(moved.jobs);
		if (!gone || moved.any)
			return told(others.end(GMPI_SUCCESS));
	}
	int failed = GMPI_SUCCESS;
	for (before = direct_before(buf, handle); GGAS_RARE(before);) {
		uint64_t told_too = before;
		before = direct_before(buf, before);
		/* What is over takes no time. */
		if (!direct_is_own(told_too) && !gone && !failed)
			failed = direct_asks_daemon<Scope>(buf, true, told_too, nullptr, line).error;
		team::meet();
		if (team::lane() == 0)
			direct_forget(buf, told_too);
	}
	int error;
	if (gone)
		error = direct_failed<Scope>(state ? handle : gone, status);
	else if (state)
		error = direct_told<Scope>(state, handle, { false, 0, 0, 0 }, status);
	else
		error = direct_asks_daemon<Scope>(buf, true, handle, status, line).error;
	error = error ? error : failed;
	team::meet();
	if (team::lane() == 0)
		*request = 0;
	return told(others.end(error | 1 << GMPI_ANSWER_ERROR_BITS));
}

/* Whether all direct ones of some requests are over, or will never be; goes on with what is under way. By all callers. */
template <ggas_scope Scope>
GGAS_LONG bool direct_places_over(const gmpi_buf *buf, uint32_t count, const uint64_t *requests, uint32_t line)
{
	using team = gmpi_team<Scope>;
	using crew = direct_crew<Scope>;
	crew::enter();
	if (!crew::leads())
		return !crew::work();
	const gmpi_direct *direct = &buf->direct;
	crew others(direct_progress<Scope>(buf, direct, line, 0).jobs);
	int open = 0;
	for (uint32_t i = 0; i < count && team::lane() == 0 && !open; i++)
		for (uint64_t handle = gmpi_is_direct(requests[i]) ? requests[i] : 0; handle; handle = direct_before(buf, handle))
			open |= !direct_is_over(buf, handle) && !direct_is_gone(direct, direct_peer(handle));
	open = team::from_first(open);
	for (uint32_t i = 0; i < count && !open; i++)
		for (uint64_t handle = gmpi_is_direct(requests[i]) ? requests[i] : 0; handle && !open; handle = direct_before(buf, handle))
			open = !direct_is_own(handle) && !direct_either_is_over<Scope>(buf, handle, line);
	return !others.end(open);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_H */
