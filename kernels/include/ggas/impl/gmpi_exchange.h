/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A send and a receive in one call. */
#ifndef GGAS_IMPL_GMPI_EXCHANGE_H
#define GGAS_IMPL_GMPI_EXCHANGE_H

#include "gmpi_direct_now.h"
#include "gmpi_requests.h"

namespace ggas_impl
{

/* Between kernels, by the leader; a null way is MPI_PROC_NULL, or a send that went. The send goes first: one that cannot be leaves no receive
 * behind that takes a later message. */
template <ggas_scope Scope>
GGAS_LONG int direct_exchange_led(const gmpi_buf *buf, const gmpi_direct *there, const gmpi_direct *here, direct_words out, direct_words in,
				  gmpi_status *status, uint32_t line)
{
	using team = gmpi_team<Scope>;
	using crew = direct_crew<Scope>;
	crew::enter();
	if (!crew::leads())
		return crew::work();
	crew others;
	uint64_t sends = 0, receives = 0;
	int error = GMPI_SUCCESS, failed = GMPI_SUCCESS;
	/* Both ends send first, and a sender looks for the place of a long message for a while: there is none. */
	uint64_t long_bytes = in.data.bytes();
	if (there && here && !direct_asked(here, true, in.data, in.rank, in.tag) && long_bytes >= GMPI_DIRECT_PLACED &&
	    !direct_has_place(here, gmpi_address(in.data.at), long_bytes, in.data.shape)) {
		uint32_t peer = static_cast<uint32_t>(in.rank);
		gmpi_direct_op none = {};
		none.shaped = 1;
		direct_tell_place<Scope>(buf, here, peer, direct_state(buf, here, peer)->receives.posted, none);
	}
	if (there)
		error = direct_begin<Scope>(buf, there, others, false, out.data, out.rank, out.tag, 0, &sends, line);
	if (here && !error)
		error = direct_begin<Scope>(buf, here, others, true, in.data, in.rank, in.tag, 0, &receives, line);
	if (error)
		return others.end(error);
	team::meet();
	if (here)
		error = direct_wait_in<Scope>(buf, direct_channel_of(buf, receives), others, receives, status, line);
	else if (status && team::lane() == 0)
		*status = { GMPI_PROC_NULL, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
	/* The receive failing ends no send: whoever has it waits for it. */
	if (there && error != GMPI_ERR_TIMEOUT)
		failed = direct_wait_in<Scope>(buf, direct_channel_of(buf, sends), others, sends, nullptr, line);
	return others.end(error ? error : failed);
}

/* By the daemon. */
template <ggas_scope Scope>
GGAS_LONG int gmpi_exchange_by_daemon(const gmpi_buf *buf, const direct_words &out, const direct_words &in, uint64_t comm,
				      gmpi_status *status, uint32_t line)
{
	using team = gmpi_team<Scope>;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, GMPI_CALL_SENDRECV, line);
	team::all::meet();
	int error = GMPI_SUCCESS;
	if (team::writes()) {
		constexpr uint32_t elements = 12;
		const gmpi_shape *there = out.data.shape, *here = in.data.shape;
		uint64_t from = gmpi_address(out.data.at), type = gmpi_type_word(out.data);
		uint32_t shapes = gmpi_shape_words(there) + gmpi_shape_words(here);
		/* Shapes are where a message would be. */
		uint32_t bytes = shapes ? 8 * shapes : gmpi_carried<team>(buf, from, gmpi_int(out.data.count), type, elements);
		auto element = [=](uint32_t i) {
			if (i >= elements && !shapes)
				return gmpi_carried_word(from, bytes, i - elements);
			if (i >= elements)
				return i - elements < gmpi_shape_words(there) ? gmpi_shape_word(*there, i - elements) :
										gmpi_shape_word(*here, i - elements - gmpi_shape_words(there));
			return gmpi_pick(i, gmpi_carries(GMPI_CALL_SENDRECV, bytes), from, gmpi_int(out.data.count), type, gmpi_int(out.rank),
					 gmpi_int(out.tag), gmpi_address(in.data.at), gmpi_int(in.data.count), gmpi_type_word(in.data),
					 gmpi_int(in.rank), gmpi_int(in.tag), comm);
		};
		gmpi_result result = gmpi_send<team>(buf, port, elements + gmpi_words(bytes), true, line, element);
		gmpi_statuses<team>(port, result, status);
		gmpi_done<team>(port, result);
		error = result.error;
	}
	return team::all::agree(error);
}

/* What was not over at once; `sent`: but for its send. */
template <ggas_scope Scope>
GGAS_LONG int gmpi_exchange_later(const gmpi_buf *buf, bool sent, direct_words out, direct_words in, uint64_t comm, gmpi_status *status,
				  uint32_t line)
{
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	const gmpi_direct *there = gmpi_direct_of(buf, comm, out.rank), *here = gmpi_direct_of(buf, comm, in.rank);
	if (!there && !here)
		return gmpi_exchange_by_daemon<Scope>(buf, out, in, comm, status, line);
	if (!gmpi_port_of(buf))
		return gmpi_no_port(buf, GMPI_CALL_SENDRECV, line);
	return direct_exchange_led<Scope>(buf, sent ? nullptr : there, here, out, in, status, line);
}

template <ggas_scope Scope>
GGAS_FN int gmpi_exchange(const gmpi_buf *buf, const direct_words &out, const direct_words &in, uint64_t comm, gmpi_status *status,
			  uint32_t line)
{
	direct_now now = direct_now::neither;
	if (out.is_short() && in.is_short())
		now = direct_quick<Scope>(buf, comm, out.wish(), in.wish(), status);
	return now == direct_now::over ? GMPI_SUCCESS :
					 gmpi_exchange_later<Scope>(buf, now == direct_now::sent, out, in, comm, status, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_EXCHANGE_H */
