/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that complete one or some of several requests, or look whether all are over. Up to GMPI_REQUESTS that the daemon knows are one
 * attribute, which the daemon answers once it can; of more, or with direct ones among them, the callers look at all in turn.
 */
#ifndef GGAS_IMPL_GMPI_MANY_H
#define GGAS_IMPL_GMPI_MANY_H

#include "gmpi_requests.h"

namespace ggas_impl
{

/* The answer to a call on several requests as one number: error, flag, which were completed. */
constexpr int gmpi_many_flag = 1 << GMPI_ANSWER_ERROR_BITS;
constexpr uint32_t gmpi_many_over = GMPI_ANSWER_ERROR_BITS + 1;
static_assert(gmpi_many_over + GMPI_REQUESTS < 32, "it is an int");

GGAS_FN int gmpi_many_error(int answer) { return answer & (gmpi_many_flag - 1); }

/* One attribute on at most GMPI_REQUESTS requests; those that the daemon does not know are none. Statuses are of those that were completed,
 * one behind the other. By all callers. */
template <ggas_scope Scope>
GGAS_LONG int gmpi_ask(const gmpi_buf *buf, gmpi_port *port, uint32_t call, uint32_t count, uint64_t *requests, gmpi_status *statuses,
		       uint32_t line)
{
	using team = gmpi_team<Scope>;
	/* All have read the places that are written below. */
	team::all::meet();
	int answer = 0;
	if (team::writes()) {
		uint64_t first = gmpi_quiet(call, statuses);
		auto element = [=](uint32_t i) {
			uint64_t word = i == 0 ? first : i == 1 ? count : requests[i - 2];
			return i > 1 && gmpi_is_direct(word) ? uint64_t(0) : word;
		};
		gmpi_result result = gmpi_send<team>(buf, port, 2 + count, true, line, element);
		gmpi_statuses<team>(port, result, statuses);
		uint32_t over = result.answer >> GMPI_ANSWER_OVER_SHIFT & ((1u << GMPI_REQUESTS) - 1);
		for (uint32_t i = team::lane(); i < count; i += team::lanes())
			if ((over >> i & 1) && !(requests[i] >> GMPI_REQUEST_PERSISTENT_SHIFT))
				requests[i] = 0;
		bool flag = result.answer >> GMPI_ANSWER_FLAG_SHIFT & 1;
		gmpi_done<team>(port, result);
		answer = static_cast<int>(static_cast<uint32_t>(result.error) | (flag ? gmpi_many_flag : 0) | over << gmpi_many_over);
	}
	return team::all::agree(answer);
}

/* What a look at requests found: how many were completed, whether others are under way. The same for all callers. */
struct gmpi_found {
	uint32_t count;
	int error;
	bool open;
};

/* How a call looks at requests. */
struct gmpi_looks {
	bool one;	/* one of those that are over is completed, not all of them */
	bool waits;	/* the daemon answers once there is one */
	bool asks;	/* the daemon is asked, and not only the callers' own channels looked at */
};

/* Direct ones of a part; whether there are others. */
template <ggas_scope Scope>
GGAS_FN bool gmpi_look_direct(const gmpi_buf *buf, gmpi_looks how, uint32_t first, uint32_t count, uint64_t *requests, int *indices,
			      gmpi_status *statuses, gmpi_found *found, uint32_t line)
{
	bool others = false;
	for (uint32_t i = first; i < first + count && !(how.one && found->count); i++) {
		uint64_t handle = requests[i];
		if (!gmpi_is_direct(handle)) {
			others = others || handle;
			continue;
		}
		int flag = 0;
		int error = direct_test_place<Scope>(buf, requests + i, &flag, statuses ? statuses + found->count : nullptr, line);
		if (!flag && !error) {
			found->open = true;
			continue;
		}
		indices[found->count++] = static_cast<int>(i);
		if (error)
			found->error = how.one ? error : GMPI_ERR_IN_STATUS;
	}
	return others && !(how.one && found->count);
}

/* Looks at all of them once, and completes what is over. */
template <ggas_scope Scope>
GGAS_LONG gmpi_found gmpi_look(const gmpi_buf *buf, gmpi_port *port, gmpi_looks how, uint32_t count, uint64_t *requests, int *indices,
			       gmpi_status *statuses, uint32_t line)
{
	uint32_t call = how.one ? (how.waits ? GMPI_CALL_WAITANY : GMPI_CALL_TESTANY) :
				  (how.waits ? GMPI_CALL_WAITSOME : GMPI_CALL_TESTSOME);
	gmpi_found found = { 0, GMPI_SUCCESS, false };
	for (uint32_t first = 0; first < count && !(how.one && found.count); first += GMPI_REQUESTS) {
		uint32_t now = count - first < GMPI_REQUESTS ? count - first : GMPI_REQUESTS;
		if (!gmpi_look_direct<Scope>(buf, how, first, now, requests, indices, statuses, &found, line))
			continue;
		if (!how.asks) {
			found.open = true;
			continue;
		}
		gmpi_status *next = statuses ? statuses + found.count : nullptr;
		int answer = gmpi_ask<Scope>(buf, port, call, now, requests + first, next, line);
		found.open = found.open || !(answer & gmpi_many_flag);
		for (uint32_t i = 0; i < now; i++)
			if (static_cast<uint32_t>(answer) >> gmpi_many_over >> i & 1)
				indices[found.count++] = static_cast<int>(first + i);
		if (gmpi_many_error(answer))
			found.error = gmpi_many_error(answer);
		if (found.error >= GMPI_ERR_TIMEOUT)
			break;
	}
	return found;
}

GGAS_FN bool gmpi_any_direct(const gmpi_buf *buf, uint32_t count, const uint64_t *requests)
{
	bool any = false;
	for (uint32_t i = 0; i < count && buf->direct.comm && !any; i++)
		any = gmpi_is_direct(requests[i]);
	return any;
}

/* Waitany, Testany, Waitsome, Testsome. `found`: how many; GMPI_UNDEFINED: no request is under way. */
template <ggas_scope Scope>
GGAS_LONG int gmpi_complete(const gmpi_buf *buf, uint32_t call, gmpi_looks how, int count, uint64_t *requests, int *many, int *indices,
			    gmpi_status *statuses, uint32_t line)
{
	using team = put_team<Scope>;
	*many = GMPI_UNDEFINED;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, call, line);
	if (count < 0)
		return GMPI_ERR_COUNT;
	team::meet();
	uint32_t all = static_cast<uint32_t>(count);
	bool waits = how.waits, direct = gmpi_any_direct(buf, all, requests);
	how.waits = waits && !direct && all <= GMPI_REQUESTS;
	uint64_t timeout = direct ? buf->direct.timeout_ns : buf->timeout_ns;
	ggas_wait wait(direct ? buf->report : 0, timeout, GGAS_WAIT_ANSWER, buf->rank, ~0u, line);
	for (uint32_t attempt = 0;; attempt++) {
		/* The daemon answers in microseconds, in which direct ones would lie. */
		how.asks = !direct || attempt % 16 == 0;
		gmpi_found found = gmpi_look<Scope>(buf, port, how, all, requests, indices, statuses, line);
		if (found.count || found.error || !found.open || !waits) {
			*many = found.count || found.open || found.error ? static_cast<int>(found.count) : GMPI_UNDEFINED;
			return found.error;
		}
		int late = team::thread() == 0 ? wait.again(requests, 1, 0) : 0;
		if (team::agree(late)) {
			*many = 0;
			return GMPI_ERR_TIMEOUT;
		}
	}
}

/* Waitany and Testany: the flag says whether one was completed, or none is under way. */
template <ggas_scope Scope>
GGAS_FN int gmpi_any(const gmpi_buf *buf, uint32_t call, bool waits, int count, uint64_t *requests, int *index, int *flag,
		     gmpi_status *status, uint32_t line)
{
	int many = 0, found = GMPI_UNDEFINED;
	gmpi_looks how = { true, waits, true };
	int error = gmpi_complete<Scope>(buf, call, how, count, requests, &many, &found, status, line);
	*index = found;
	*flag = many != 0;
	if (many == GMPI_UNDEFINED && !error && status && !gmpi_stands_by(buf)) {
		if (put_team<Scope>::thread() == 0)
			*status = { GMPI_ANY_SOURCE, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
		put_team<Scope>::meet();
	}
	return error;
}

/* Whether no request is under way any more: nothing is completed. An error in `error`. */
template <ggas_scope Scope>
GGAS_FN bool gmpi_all_over(const gmpi_buf *buf, gmpi_port *port, uint32_t count, uint64_t *requests, int *error, uint32_t line)
{
	if (gmpi_any_direct(buf, count, requests) && !direct_places_over<Scope>(buf, count, requests, line))
		return false;
	for (uint32_t first = 0; first < count; first += GMPI_REQUESTS) {
		uint32_t now = count - first < GMPI_REQUESTS ? count - first : GMPI_REQUESTS;
		int answer = gmpi_ask<Scope>(buf, port, GMPI_CALL_GET_STATUS, now, requests + first, nullptr, line);
		*error = gmpi_many_error(answer) >= GMPI_ERR_TIMEOUT ? gmpi_many_error(answer) : GMPI_SUCCESS;
		if (*error || !(answer & gmpi_many_flag))
			return false;
	}
	return true;
}

template <ggas_scope Scope>
GGAS_LONG int gmpi_test_all(const gmpi_buf *buf, int count, uint64_t *requests, int *flag, gmpi_status *statuses, uint32_t line)
{
	*flag = 1;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	*flag = 0;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, GMPI_CALL_TESTALL, line);
	if (count < 0)
		return GMPI_ERR_COUNT;
	put_team<Scope>::meet();
	uint32_t all = static_cast<uint32_t>(count);
	if (all <= GMPI_REQUESTS && !gmpi_any_direct(buf, all, requests)) {
		int answer = gmpi_ask<Scope>(buf, port, GMPI_CALL_TESTALL, all, requests, statuses, line);
		*flag = (answer & gmpi_many_flag) != 0;
		return gmpi_many_error(answer);
	}
	int error = GMPI_SUCCESS;
	if (!gmpi_all_over<Scope>(buf, port, all, requests, &error, line))
		return error;
	*flag = 1;
	return gmpi_all<Scope>(buf, GMPI_CALL_WAITALL, count, requests, statuses, line);
}

/* Test that leaves the request as it is. */
template <ggas_scope Scope>
GGAS_LONG int gmpi_get_status(const gmpi_buf *buf, uint64_t *request, int *flag, gmpi_status *status, uint32_t line)
{
	using team = put_team<Scope>;
	*flag = 1;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	*flag = 0;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, GMPI_CALL_GET_STATUS, line);
	team::meet();
	uint64_t handle = *request;
	if (!gmpi_is_direct(handle)) {
		int answer = gmpi_ask<Scope>(buf, port, GMPI_CALL_GET_STATUS, 1, request, status, line);
		*flag = (answer & gmpi_many_flag) != 0;
		return gmpi_many_error(answer);
	}
	gmpi_channel *state = direct_channel_of(buf, handle);
	if (!state && !direct_is_after(buf, handle))
		return GMPI_ERR_REQUEST;
	if (!direct_places_over<Scope>(buf, 1, request, line))
		return GMPI_SUCCESS;
	if (!state) {
		uint64_t plain = handle & ~(uint64_t(1) << GMPI_REQUEST_AFTER_SHIFT);
		int answer = gmpi_ask<Scope>(buf, port, GMPI_CALL_GET_STATUS, 1, &plain, status, line);
		*flag = (answer & gmpi_many_flag) != 0;
		return gmpi_many_error(answer);
	}
	*flag = 1;
	int error = direct_is_over(buf, handle) ? direct_kept<ggas_scope::thread>(state, handle, false).error : GMPI_ERR_PROC_FAILED;
	if (team::thread() == 0 && error == GMPI_ERR_PROC_FAILED)
		direct_failed<ggas_scope::thread>(handle, status);
	else if (team::thread() == 0)
		error = direct_told<ggas_scope::thread>(state, handle, { false, 0, 0, 0 }, status, false);
	team::meet();
	return direct_receives(handle) || error == GMPI_ERR_PROC_FAILED ? error : GMPI_SUCCESS;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_MANY_H */
