/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rank and size of a communicator. */
#ifndef GGAS_IMPL_GMPI_PLACE_H
#define GGAS_IMPL_GMPI_PLACE_H

#include "gmpi_call.h"

namespace ggas_impl
{

/* What COMM_PLACE answers: rank (`Rank`) or size, plus one. */
template <ggas_scope Scope, bool Rank> GGAS_FN int gmpi_place(gmpi_buf_t *buf, uint64_t comm, int *out, uint32_t line)
{
	using team = gmpi_team<Scope>;
	if (comm == GMPI_COMM_WORLD) {
		*out = static_cast<int>(Rank ? buf->rank : buf->size);
		return GMPI_SUCCESS;
	}
	int value = 0;
	auto place = [&value](const gmpi_port *port, const gmpi_result &result) {
		if (!result.error && !port->broken)
			value = 1 + static_cast<int>(gmpi_element(port, result.number, 1) >> (Rank ? 0 : 32) & 0xffffffff);
	};
	if (int error = gmpi_call<Scope, true>(buf, line, GMPI_CALL_COMM_PLACE, place, comm))
		return error;
	*out = team::all::agree(value) - 1;
	return GMPI_SUCCESS;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_PLACE_H */
