/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Who makes a GMPI call together, and which of them write its attribute: up to a warp. */
#ifndef GGAS_IMPL_GMPI_TEAM_H
#define GGAS_IMPL_GMPI_TEAM_H

#include "put_team.h"

namespace ggas_impl
{

template <ggas_scope Scope> struct gmpi_team {
	using all = put_team<Scope>;
	using warp = put_team<ggas_scope::warp>;
	/* Whether this thread is one of those that write: the warp, or the first one of the block. */
	GGAS_FN static bool writes() { return Scope == ggas_scope::warp || ggas_warp() == 0; }
	GGAS_FN static uint32_t lane() { return warp::thread(); }
	GGAS_FN static uint32_t lanes() { return warp::threads(); }
	/* Among those that write. */
	GGAS_FN static void meet() { warp::meet(); }
	GGAS_FN static int agree(int status) { return warp::agree(status); }
	/* How many lanes from the first on say so. */
	GGAS_FN static uint32_t leading(bool says)
	{
		uint32_t not_so = ggas_ballot(warp::lanes(), !says);
		return not_so ? ggas_first(not_so) : lanes();
	}
	template <class T> GGAS_FN static T from(uint32_t lane, T value) { return ggas_shfl(warp::lanes(), value, lane); }
	template <class T> GGAS_FN static T from_first(T value) { return from(0, value); }
};

template <> struct gmpi_team<ggas_scope::thread> {
	using all = put_team<ggas_scope::thread>;
	GGAS_FN static bool writes() { return true; }
	GGAS_FN static uint32_t lane() { return 0; }
	GGAS_FN static uint32_t lanes() { return 1; }
	GGAS_FN static void meet() {}
	GGAS_FN static int agree(int status) { return status; }
	GGAS_FN static uint32_t leading(bool says) { return says; }
	template <class T> GGAS_FN static T from(uint32_t, T value) { return value; }
	template <class T> GGAS_FN static T from_first(T value) { return value; }
};

/* Argument `which` of a call: in registers, by as many selections as there are arguments. */
GGAS_FN uint64_t gmpi_pick(uint32_t) { return 0; }
template <class... Rest> GGAS_FN uint64_t gmpi_pick(uint32_t which, uint64_t first, Rest... rest)
{
	return which == 0 ? first : gmpi_pick(which - 1, static_cast<uint64_t>(rest)...);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_TEAM_H */
