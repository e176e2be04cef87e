/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A send and a receive in one call. */
#ifndef GGAS_IMPL_GMPI_EXCHANGE_H
#define GGAS_IMPL_GMPI_EXCHANGE_H

#include "gmpi_requests.h"

namespace ggas_impl
{

/* One of the two messages. */
struct gmpi_message {
	const void *at;
	int count, type, rank, tag;
};

/* Functions of their own, which leave a kernel its registers. */
template <ggas_scope Scope>
GGAS_LONG direct_begun direct_begin_message(const gmpi_buf *buf, const gmpi_direct *direct, bool receives, const gmpi_message &message,
					    uint32_t line)
{
	return direct_begin<Scope>(buf, direct, receives, message.at, message.count, message.type, message.rank, message.tag, 0, line);
}
template <ggas_scope Scope>
GGAS_LONG int direct_wait_message(const gmpi_buf *buf, uint64_t handle, gmpi_status *status, uint32_t line)
{
	return direct_wait<Scope>(buf, handle, status, line);
}

/* Between kernels; a null way is MPI_PROC_NULL. The send goes first: one that cannot be leaves no receive behind that takes a later message. */
template <ggas_scope Scope>
GGAS_LONG int direct_exchange(const gmpi_buf *buf, const gmpi_direct *there, const gmpi_direct *here, const gmpi_message &out,
			      const gmpi_message &in, gmpi_status *status, uint32_t line)
{
	using team = put_team<Scope>;
	direct_begun sends = { 0, GMPI_SUCCESS }, receives = sends;
	if (there)
		sends = direct_begin_message<Scope>(buf, there, false, out, line);
	if (sends.error)
		return sends.error;
	if (here)
		receives = direct_begin_message<Scope>(buf, here, true, in, line);
	if (receives.error)
		return receives.error;
	int error = here ? direct_wait_message<Scope>(buf, receives.handle, status, line) : GMPI_SUCCESS;
	if (!here && status && team::thread() == 0)
		*status = { GMPI_PROC_NULL, GMPI_ANY_TAG, GMPI_SUCCESS, 0, 0 };
	/* The receive failing ends no send: whoever has it waits for it. */
	int failed = there && error != GMPI_ERR_TIMEOUT ? direct_wait_message<Scope>(buf, sends.handle, nullptr, line) : GMPI_SUCCESS;
	team::meet();
	return error ? error : failed;
}

template <ggas_scope Scope>
GGAS_LONG int gmpi_exchange(const gmpi_buf *buf, const gmpi_message &out, const gmpi_message &in, uint64_t comm, gmpi_status *status,
			    uint32_t line)
{
	using team = gmpi_team<Scope>;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	const gmpi_direct *there = gmpi_direct_of(buf, comm, out.rank), *here = gmpi_direct_of(buf, comm, in.rank);
	if (there || here)
		return direct_exchange<Scope>(buf, there, here, out, in, status, line);
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, GMPI_CALL_SENDRECV, line);
	team::all::meet();
	int error = GMPI_SUCCESS;
	if (team::writes()) {
		auto element = [=](uint32_t i) {
			return gmpi_pick(i, uint64_t(GMPI_CALL_SENDRECV), gmpi_address(out.at), gmpi_int(out.count), gmpi_int(out.type),
					 gmpi_int(out.rank), gmpi_int(out.tag), gmpi_address(in.at), gmpi_int(in.count),
					 gmpi_int(in.type), gmpi_int(in.rank), gmpi_int(in.tag), comm);
		};
		gmpi_result result = gmpi_send<team>(buf, port, 12, true, line, element);
		gmpi_statuses<team>(port, result, status);
		gmpi_done<team>(port, result);
		error = result.error;
	}
	return team::all::agree(error);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_EXCHANGE_H */
