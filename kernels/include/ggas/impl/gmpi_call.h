/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One call: its attribute, and where it waits its answer. */
#ifndef GGAS_IMPL_GMPI_CALL_H
#define GGAS_IMPL_GMPI_CALL_H

#include "gmpi_types.h"

/* What MPI tells of a message, in this order on every carrier. */
struct gmpi_status {
	int MPI_SOURCE;
	int MPI_TAG;
	int MPI_ERROR;
	int reserved;
	uint64_t bytes;
};

namespace ggas_impl
{

GGAS_FN uint64_t gmpi_int(int value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }
GGAS_FN uint64_t gmpi_address(const void *at) { return reinterpret_cast<uint64_t>(at); }

/* The port of the calling block; null: it has none. */
GGAS_FN gmpi_port *gmpi_port_of(const gmpi_buf *buf)
{
	uint32_t block = buf->single ? 0 : ggas_block();
	return block < buf->port_count ? reinterpret_cast<gmpi_port *>(buf->ports) + block : nullptr;
}

/* In the paper's one context only one block calls. */
GGAS_FN bool gmpi_stands_by(const gmpi_buf *buf) { return buf->single && ggas_block() != 0; }

GGAS_COLD int gmpi_no_port(const gmpi_buf *buf, uint32_t call, uint32_t line)
{
	write_report(reinterpret_cast<ggas_report *>(buf->report), GGAS_ERR_ARGUMENT, GGAS_WAIT_ANSWER, buf->rank, ~0u,
		     line, gmpi_function(call), buf->port_count, ggas_block(), 0);
	return GMPI_ERR_PORT;
}

GGAS_FN void gmpi_set_status(gmpi_status *status, uint64_t where, uint64_t what)
{
	status->MPI_SOURCE = static_cast<int>(where & 0xffffffff);
	status->MPI_TAG = static_cast<int>(where >> 32);
	status->MPI_ERROR = static_cast<int>(what >> GMPI_STATUS_BYTES_BITS);
	status->bytes = what & ((uint64_t(1) << GMPI_STATUS_BYTES_BITS) - 1);
}

/* What a call came to: of the lane that waited, then of all that write. */
struct gmpi_result {
	uint64_t number;	/* of the attribute */
	uint64_t answer;	/* its element 0 */
	int error;
};

/* Writes an attribute; with `waits` reads its answer, too, and leaves it in the ring until gmpi_done. All of a team that write. */
template <class Team, class Element>
GGAS_FN gmpi_result gmpi_send(const gmpi_buf *buf, gmpi_port *port, uint32_t elements, bool waits, uint32_t line,
			      Element element)
{
	gmpi_result result = { 0, 0, GMPI_SUCCESS };
	uint32_t call = gmpi_function(element(0));
	if (Team::lane() == 0) {
		result.error = gmpi_room(buf, port, call, line);
		result.number = port->sent;
	}
	result.error = Team::from_first(result.error);
	result.number = Team::from_first(result.number);
	if (result.error)
		return result;
	gmpi_write<Team>(port, result.number, elements, element);
	if (Team::lane() == 0) {
		port->sent = result.number + 1;
		if (waits)
			result.error = gmpi_take_before(buf, port, result.number, call, line);
		if (waits && !result.error)
			result.error = gmpi_answered(buf, port, result.number, call, line, &result.answer);
		if (waits && !result.error)
			result.error = gmpi_error_of(result.answer);
	}
	if (waits) {
		/* A shuffle orders no accesses. */
		Team::meet();
		result.error = Team::from_first(result.error);
		result.answer = Team::from_first(result.answer);
	}
	return result;
}

/* The answer was read, but for messages. */
template <class Team> GGAS_FN void gmpi_done(gmpi_port *port, const gmpi_result &result)
{
	if ((result.answer >> GMPI_ANSWER_MESSAGES_SHIFT & ((1u << GMPI_ANSWER_MESSAGES_BITS) - 1)) && !port->broken)
		gmpi_deliver<Team>(port, result.number, result.answer);
	Team::meet();
	if (Team::lane() == 0 && port->taken == result.number && !port->broken)
		port->taken = result.number + 1;
}

/* Puts statuses of an answer into memory of the caller, by all lanes. */
template <class Team>
GGAS_FN void gmpi_statuses(const gmpi_port *port, const gmpi_result &result, gmpi_status *statuses)
{
	uint32_t count = result.answer >> GMPI_ANSWER_STATUSES_SHIFT & ((1u << GMPI_ANSWER_STATUSES_BITS) - 1);
	if (!statuses || port->broken)
		return;
	for (uint32_t i = Team::lane(); i < count; i += Team::lanes())
		gmpi_set_status(statuses + i, gmpi_element(port, result.number, 1 + 2 * i),
				gmpi_element(port, result.number, 2 + 2 * i));
}

/* The same with the call and its arguments as words; those that it has not are 0. A short message of Send and Isend goes behind them, and a
 * short vector of Allreduce. */
template <class Team, bool Waits>
GGAS_LONG gmpi_result gmpi_send_words(const gmpi_buf *buf, gmpi_port *port, uint32_t elements, uint32_t line, uint64_t call,
				      uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
				      uint64_t h)
{
	bool adds = Waits && call == GMPI_CALL_ALLREDUCE;
	uint64_t at = adds && a == GMPI_IN_PLACE_ADDRESS ? b : a, count = adds ? c : b, type = adds ? d : c;
	bool may = adds || call == (Waits ? GMPI_CALL_SEND : GMPI_CALL_ISEND);
	uint32_t bytes = may ? gmpi_carried<Team>(buf, at, count, type, elements) : 0;
	call = gmpi_carries(call, bytes);
	auto element = [=](uint32_t i) {
		return i < elements ? gmpi_pick(i, call, a, b, c, d, e, f, g, h) : gmpi_carried_word(at, bytes, i - elements);
	};
	return gmpi_send<Team>(buf, port, elements + gmpi_words(bytes), Waits, line, element);
}
template <class Team, bool Waits, class... Words>
GGAS_FN gmpi_result gmpi_send_all(const gmpi_buf *buf, gmpi_port *port, uint32_t elements, uint32_t line, Words... words)
{
	if constexpr (sizeof...(words) < 9)
		return gmpi_send_all<Team, Waits>(buf, port, elements, line, words..., uint64_t(0));
	else
		return gmpi_send_words<Team, Waits>(buf, port, elements, line, words...);
}

/* A message whose bytes do not lie together: their shape goes behind the arguments. */
template <class Team, bool Waits>
GGAS_LONG gmpi_result gmpi_send_shaped(const gmpi_buf *buf, gmpi_port *port, uint32_t line, uint32_t call, const gmpi_data &data, int rank,
				       int tag, uint64_t comm, uint64_t place)
{
	const gmpi_data d = data;
	const gmpi_shape shape = *d.shape;
	uint32_t elements = place ? 8 : 7;
	auto element = [=](uint32_t i) {
		if (i >= elements)
			return gmpi_shape_word(shape, i - elements);
		return gmpi_pick(i, gmpi_carries(call, sizeof(shape)), gmpi_address(d.at), gmpi_int(d.count), gmpi_type_word(d), gmpi_int(rank),
				 gmpi_int(tag), comm, place);
	};
	return gmpi_send<Team>(buf, port, elements + gmpi_shape_words(&shape), Waits, line, element);
}

/* `send(port)` by all that write, `after(port, result)` by them takes what else the answer says. */
template <ggas_scope Scope, bool Waits, class After, class Send>
GGAS_FN int gmpi_call_by(const gmpi_buf *buf, uint32_t line, uint32_t call, After after, const Send &send)
{
	using team = gmpi_team<Scope>;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, call, line);
	/* What any of the callers wrote is sent. */
	team::all::meet();
	int error = GMPI_SUCCESS;
	if (team::writes()) {
		gmpi_result result = send(port);
		after(port, result);
		if (Waits)
			gmpi_done<team>(port, result);
		error = result.error;
	}
	return team::all::agree(error);
}

/* A call with its arguments, eight at most. */
template <ggas_scope Scope, bool Waits, class After, class... Arguments>
GGAS_FN int gmpi_call(const gmpi_buf *buf, uint32_t line, uint32_t call, After after, Arguments... arguments)
{
	return gmpi_call_by<Scope, Waits>(buf, line, call, after, [=](gmpi_port *port) {
		return gmpi_send_all<gmpi_team<Scope>, Waits>(buf, port, 1 + sizeof...(arguments), line, uint64_t(call),
							      static_cast<uint64_t>(arguments)...);
	});
}

/* A send or a receive; `place`: that of its request, if it has one. */
template <ggas_scope Scope, bool Waits, class After, class... Place>
GGAS_FN int gmpi_message(const gmpi_buf *buf, uint32_t line, uint32_t call, After after, const gmpi_data &data, int rank, int tag,
			 uint64_t comm, Place... place)
{
	if (GGAS_RARE(data.shape))
		return gmpi_call_by<Scope, Waits>(buf, line, call, after, [&](gmpi_port *port) {
			return gmpi_send_shaped<gmpi_team<Scope>, Waits>(buf, port, line, call, data, rank, tag, comm, (uint64_t(0) + ... + place));
		});
	return gmpi_call<Scope, Waits>(buf, line, call, after, gmpi_address(data.at), gmpi_int(data.count), gmpi_type_word(data),
				       gmpi_int(rank), gmpi_int(tag), comm, place...);
}

struct gmpi_nothing {
	GGAS_FN void operator()(const gmpi_port *, const gmpi_result &) const {}
};

/* Where an answer's status goes to. */
template <class Team> struct gmpi_one_status {
	gmpi_status *status;
	GGAS_FN void operator()(const gmpi_port *port, const gmpi_result &result) const
	{
		gmpi_statuses<Team>(port, result, status);
	}
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_CALL_H */
