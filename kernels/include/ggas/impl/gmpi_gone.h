/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Members of a direct communicator that are dead: the daemon of each process hears of it, and marks them where its kernels look. */
#ifndef GGAS_IMPL_GMPI_GONE_H
#define GGAS_IMPL_GMPI_GONE_H

#include "gmpi_call.h"

namespace ggas_impl
{

/* What a member sent before it died may still come: whoever sees the mark looks once more, and then gives up. By one thread. */
GGAS_FN bool direct_is_gone(const gmpi_direct *direct, uint32_t peer)
{
	return ggas_load_watched(reinterpret_cast<const uint32_t *>(direct->gone) + peer) != 0;
}

/* The same for all lanes of a leader. */
template <ggas_scope Scope> GGAS_FN bool direct_lead_sees_gone(const gmpi_direct *direct, uint32_t peer)
{
	using team = gmpi_team<Scope>;
	return team::from_first(static_cast<uint32_t>(team::lane() == 0 && direct_is_gone(direct, peer))) != 0;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_GONE_H */
