/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls on requests: their handles lie in memory that all callers see, and thread 0 of the callers writes them. */
#ifndef GGAS_IMPL_GMPI_REQUESTS_H
#define GGAS_IMPL_GMPI_REQUESTS_H

#include "gmpi_direct.h"

namespace ggas_impl
{

GGAS_FN uint64_t gmpi_handle(const gmpi_buf *buf, uint64_t number, bool persistent)
{
	uint64_t port = buf->single ? 0 : ggas_block();
	return (number + 1) | port << GMPI_REQUEST_PORT_SHIFT | uint64_t(persistent) << GMPI_REQUEST_PERSISTENT_SHIFT;
}

/* Puts the handle of a new request into its place. */
template <class Team> struct gmpi_new_request {
	const gmpi_buf *buf;
	uint64_t *place;
	bool persistent;
	GGAS_FN void operator()(const gmpi_port *, const gmpi_result &result) const
	{
		if (Team::lane() != 0)
			return;
		uint64_t handle = result.error ? 0 : gmpi_handle(buf, result.number, persistent);
		if (buf->direct.comm && handle && !persistent && GGAS_RARE(gmpi_is_direct(*place)))
			handle |= direct_gives_place(buf, *place, handle);
		*place = handle;
	}
};

/* Isend, Irecv and those that make persistent requests: they do not wait for the daemon. */
template <ggas_scope Scope>
GGAS_FN int gmpi_begin(const gmpi_buf *buf, uint32_t call, const gmpi_data &data, int rank, int tag, uint64_t comm, uint64_t *request,
		       uint32_t line)
{
	if (const gmpi_direct *direct = gmpi_direct_of(buf, comm, rank))
		return direct_request<Scope>(buf, direct, call, data, rank, tag, request, line);
	bool persistent = call == GMPI_CALL_SEND_INIT || call == GMPI_CALL_RECV_INIT;
	gmpi_new_request<gmpi_team<Scope>> made = { buf, request, persistent };
	return gmpi_message<Scope, false>(buf, line, call, made, data, rank, tag, comm, gmpi_address(request));
}

/* Collectives that are waited for later: seven arguments at most. */
template <ggas_scope Scope, class... Arguments>
GGAS_FN int gmpi_collective(const gmpi_buf *buf, uint32_t line, uint32_t call, uint64_t *request, Arguments... arguments)
{
	gmpi_new_request<gmpi_team<Scope>> made = { buf, request, false };
	return gmpi_call<Scope, false>(buf, line, call, made, arguments..., gmpi_address(request));
}

/* After a request is over its place holds none, but for persistent ones. */
template <class Team> struct gmpi_over {
	uint64_t *place;
	gmpi_status *status;
	GGAS_FN void operator()(const gmpi_port *port, const gmpi_result &result) const
	{
		gmpi_statuses<Team>(port, result, status);
		bool over = result.error != GMPI_ERR_TIMEOUT && result.error != GMPI_ERR_DAEMON;
		if (Team::lane() == 0 && over && !(*place >> GMPI_REQUEST_PERSISTENT_SHIFT))
			*place = 0;
	}
};

template <ggas_scope Scope>
GGAS_FN int gmpi_wait_one(const gmpi_buf *buf, uint64_t *request, gmpi_status *status, uint32_t line)
{
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	if (gmpi_is_direct(*request))
		return direct_wait_places<Scope, false>(buf, 1, request, status, line);
	gmpi_over<gmpi_team<Scope>> over = { request, status };
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_WAIT, over, *request);
}

/* Test and Iprobe: all callers get the flag. */
template <ggas_scope Scope>
GGAS_FN int gmpi_flagged(int both, int *flag)
{
	*flag = both >> GMPI_ANSWER_ERROR_BITS & 1;
	return both & ((1 << GMPI_ANSWER_ERROR_BITS) - 1);
}

template <class Team> struct gmpi_tested {
	uint64_t *place;
	gmpi_status *status;
	GGAS_FN void operator()(const gmpi_port *port, gmpi_result &result) const
	{
		bool over = result.answer >> GMPI_ANSWER_FLAG_SHIFT & 1;
		if (over || !place)
			gmpi_statuses<Team>(port, result, status);
		if (Team::lane() == 0 && over && place && !(*place >> GMPI_REQUEST_PERSISTENT_SHIFT))
			*place = 0;
		result.error |= static_cast<int>(over) << GMPI_ANSWER_ERROR_BITS;
	}
};

/* Element 0 of a call on several requests: statuses that nobody wants leave room for messages. */
GGAS_FN uint64_t gmpi_quiet(uint32_t call, const gmpi_status *statuses)
{
	return call | uint64_t(!statuses) << GMPI_CALL_QUIET_SHIFT;
}

/* Waitall and Startall: as many requests at a time as an attribute has room for. */
template <ggas_scope Scope>
GGAS_LONG int gmpi_some(const gmpi_buf *buf, gmpi_port *port, uint32_t call, uint32_t count, uint64_t *requests,
		      gmpi_status *statuses, uint32_t line)
{
	using team = gmpi_team<Scope>;
	if (!team::writes())
		return GMPI_SUCCESS;
	uint64_t first = gmpi_quiet(call, statuses);
	auto element = [=](uint32_t i) { return i == 0 ? first : i == 1 ? uint64_t(count) : requests[i - 2]; };
	bool waits = call == GMPI_CALL_WAITALL;
	gmpi_result result = gmpi_send<team>(buf, port, 2 + count, waits, line, element);
	if (!waits)
		return result.error;
	gmpi_statuses<team>(port, result, statuses);
	bool over = result.error != GMPI_ERR_TIMEOUT && result.error != GMPI_ERR_DAEMON;
	for (uint32_t i = team::lane(); over && i < count; i += team::lanes())
		if (!(requests[i] >> GMPI_REQUEST_PERSISTENT_SHIFT))
			requests[i] = 0;
	gmpi_done<team>(port, result);
	return result.error;
}

/* Direct ones among them are waited for first: they go on by their callers only. */
enum class gmpi_direct_ones { none, some, all };

template <ggas_scope Scope>
GGAS_FN gmpi_direct_ones gmpi_all_direct(const gmpi_buf *buf, uint32_t count, uint64_t *requests, gmpi_status *statuses,
					 uint32_t line, int *error)
{
	bool any = false, others = false;
	for (uint32_t i = 0; i < count && buf->direct.comm; i++) {
		uint64_t handle = requests[i];
		any |= gmpi_is_direct(handle);
		others |= handle && !gmpi_is_direct(handle);
	}
	if (!any)
		return gmpi_direct_ones::none;
	*error = direct_wait_places<Scope, true>(buf, count, requests, statuses, line);
	return others ? gmpi_direct_ones::some : gmpi_direct_ones::all;
}

/* How many from the first on the daemon knows; skips those that it does not. */
GGAS_FN uint32_t gmpi_run(const uint64_t *requests, uint32_t count, uint32_t *first)
{
	auto known = [=](uint32_t i) { return requests[i] && !gmpi_is_direct(requests[i]); };
	while (*first < count && !known(*first))
		++*first;
	uint32_t end = *first;
	while (end < count && end - *first < GMPI_REQUESTS && known(end))
		end++;
	return end - *first;
}

template <ggas_scope Scope>
GGAS_FN int gmpi_all(const gmpi_buf *buf, uint32_t call, int count, uint64_t *requests, gmpi_status *statuses,
		     uint32_t line)
{
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, call, line);
	if (count < 0)
		return GMPI_ERR_COUNT;
	gmpi_team<Scope>::all::meet();
	int error = GMPI_SUCCESS;
	uint32_t all = static_cast<uint32_t>(count);
	gmpi_direct_ones direct = gmpi_direct_ones::none;
	if (call == GMPI_CALL_WAITALL)
		direct = gmpi_all_direct<Scope>(buf, all, requests, statuses, line, &error);
	if (direct == gmpi_direct_ones::all)
		return error;
	bool skips = direct == gmpi_direct_ones::some;
	for (uint32_t done = 0, now; done < all; done += now) {
		now = all - done < GMPI_REQUESTS ? all - done : GMPI_REQUESTS;
		if (skips)
			now = gmpi_run(requests, all, &done);
		if (!now)
			break;
		/* The others read them, too, before they are over. */
		if (skips)
			gmpi_team<Scope>::all::meet();
		int failed = gmpi_some<Scope>(buf, port, call, now, requests + done, statuses ? statuses + done : nullptr, line);
		if (skips)
			gmpi_team<Scope>::all::meet();
		/* All are waited for; one that did not end in time, or a daemon that is gone, is worse than another error. */
		if (failed && (!error || failed >= GMPI_ERR_TIMEOUT))
			error = failed;
	}
	return gmpi_team<Scope>::all::agree(error);
}

/* Waits until the daemon has answered all that this block asked for. The first error that no call has told. */
template <ggas_scope Scope> GGAS_LONG int gmpi_synchronize(const gmpi_buf *buf, uint32_t line)
{
	using team = gmpi_team<Scope>;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, 0, line);
	team::all::meet();
	int error = GMPI_SUCCESS;
	if (team::writes() && team::lane() == 0) {
		error = port->broken ? GMPI_ERR_DAEMON : gmpi_take_before(buf, port, port->sent, 0, line);
		if (!error) {
			error = static_cast<int>(port->error);
			port->error = GMPI_SUCCESS;
		}
	}
	return team::all::agree(error);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_REQUESTS_H */
