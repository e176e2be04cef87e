/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collectives of GMPI: a part of gmpi.cuh, which includes it, and says what holds of all calls. */
#ifndef GGAS_GMPI_CUH
#include "gmpi.cuh"
#elif !defined(GGAS_GMPI_COLLECTIVES_CUH)
#define GGAS_GMPI_COLLECTIVES_CUH

#include "impl/gmpi_direct_gather.h"

/* Collectives. In each communicator all members call them in the same order, by one block each. */
GMPI_SCOPED GMPI_Barrier(gmpi_buf_t *buf, GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	if (gmpi_direct_of(buf, comm, 0))
		return direct_reduce<Scope>(buf, nullptr, nullptr, 0, GMPI_BYTE, 0, line);
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_BARRIER, gmpi_nothing(), comm);
}
GMPI_SCOPED GMPI_Bcast(gmpi_buf_t *buf, void *at, int count, GMPI_Datatype type, int root, GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_BCAST, gmpi_nothing(), gmpi_address(at), gmpi_int(count),
				      gmpi_int(gmpi_predefined(type)), gmpi_int(root), comm);
}
GMPI_SCOPED GMPI_Reduce(gmpi_buf_t *buf, const void *from, void *to, int count, GMPI_Datatype type, GMPI_Op op, int root,
			GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_REDUCE, gmpi_nothing(), gmpi_address(from), gmpi_address(to),
				      gmpi_int(count), gmpi_int(gmpi_predefined(type)), gmpi_int(op), gmpi_int(root), comm);
}
GMPI_SCOPED GMPI_Allreduce(gmpi_buf_t *buf, const void *from, void *to, int count, GMPI_Datatype type, GMPI_Op op,
			   GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	int of = gmpi_predefined(type);
	if (gmpi_direct_of(buf, comm, 0) && direct_reduces(count, of, op))
		return direct_reduce<Scope>(buf, from, to, count, of, op, line);
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_ALLREDUCE, gmpi_nothing(), gmpi_address(from),
				      gmpi_address(to), gmpi_int(count), gmpi_int(gmpi_predefined(type)), gmpi_int(op), comm);
}
GMPI_SCOPED GMPI_Allgather(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			   GMPI_Datatype to_type, GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_ALLGATHER, gmpi_nothing(), gmpi_address(from), gmpi_int(count),
				      gmpi_int(gmpi_predefined(type)), gmpi_address(to), gmpi_int(to_count), gmpi_int(gmpi_predefined(to_type)), comm);
}
GMPI_SCOPED GMPI_Alltoall(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			  GMPI_Datatype to_type, GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_ALLTOALL, gmpi_nothing(), gmpi_address(from), gmpi_int(count),
				      gmpi_int(gmpi_predefined(type)), gmpi_address(to), gmpi_int(to_count), gmpi_int(gmpi_predefined(to_type)), comm);
}

/* The root's `to` gets a block of `to_count` elements of each member, in the order of ranks; `to`, `to_count` and `to_type` are the root's alone.
 * GMPI_IN_PLACE for its `from`: the root's block is there. */
GMPI_SCOPED GMPI_Gather(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			GMPI_Datatype to_type, int root, GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_gather<Scope>(buf, GMPI_CALL_GATHER, { from, count, gmpi_predefined(type) }, { to, to_count, gmpi_predefined(to_type) }, root, comm, line);
}
/* The other way: the root's `from` has a block of `count` elements for each member. GMPI_IN_PLACE for its `to`: the root's stays. */
GMPI_SCOPED GMPI_Scatter(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			 GMPI_Datatype to_type, int root, GMPI_Comm comm, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_gather<Scope>(buf, GMPI_CALL_SCATTER, { from, count, gmpi_predefined(type) }, { to, to_count, gmpi_predefined(to_type) }, root, comm, line);
}

/* The same, waited for later, as messages are. A communicator's collectives begin in the same order at all members, these and those above. */
GMPI_SCOPED GMPI_Ibarrier(gmpi_buf_t *buf, GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	return ggas_impl::gmpi_collective<Scope>(buf, line, GMPI_CALL_IBARRIER, request, comm);
}
GMPI_SCOPED GMPI_Ibcast(gmpi_buf_t *buf, void *at, int count, GMPI_Datatype type, int root, GMPI_Comm comm,
			GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_collective<Scope>(buf, line, GMPI_CALL_IBCAST, request, gmpi_address(at), gmpi_int(count), gmpi_int(gmpi_predefined(type)),
				      gmpi_int(root), comm);
}
GMPI_SCOPED GMPI_Ireduce(gmpi_buf_t *buf, const void *from, void *to, int count, GMPI_Datatype type, GMPI_Op op, int root,
			 GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_collective<Scope>(buf, line, GMPI_CALL_IREDUCE, request, gmpi_address(from), gmpi_address(to), gmpi_int(count),
				      gmpi_int(gmpi_predefined(type)), gmpi_int(op), gmpi_int(root), comm);
}
GMPI_SCOPED GMPI_Iallreduce(gmpi_buf_t *buf, const void *from, void *to, int count, GMPI_Datatype type, GMPI_Op op,
			    GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_collective<Scope>(buf, line, GMPI_CALL_IALLREDUCE, request, gmpi_address(from), gmpi_address(to),
				      gmpi_int(count), gmpi_int(gmpi_predefined(type)), gmpi_int(op), comm);
}
GMPI_SCOPED GMPI_Iallgather(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			    GMPI_Datatype to_type, GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_collective<Scope>(buf, line, GMPI_CALL_IALLGATHER, request, gmpi_address(from), gmpi_int(count),
				      gmpi_int(gmpi_predefined(type)), gmpi_address(to), gmpi_int(to_count), gmpi_int(gmpi_predefined(to_type)), comm);
}
GMPI_SCOPED GMPI_Ialltoall(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			   GMPI_Datatype to_type, GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_collective<Scope>(buf, line, GMPI_CALL_IALLTOALL, request, gmpi_address(from), gmpi_int(count), gmpi_int(gmpi_predefined(type)),
				      gmpi_address(to), gmpi_int(to_count), gmpi_int(gmpi_predefined(to_type)), comm);
}
GMPI_SCOPED GMPI_Igather(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			 GMPI_Datatype to_type, int root, GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_gather_later<Scope>(buf, GMPI_CALL_IGATHER, { from, count, gmpi_predefined(type) }, { to, to_count, gmpi_predefined(to_type) }, root, comm,
						   request, line);
}
GMPI_SCOPED GMPI_Iscatter(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, void *to, int to_count,
			  GMPI_Datatype to_type, int root, GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_gather_later<Scope>(buf, GMPI_CALL_ISCATTER, { from, count, gmpi_predefined(type) }, { to, to_count, gmpi_predefined(to_type) }, root, comm,
						   request, line);
}

#endif /* GGAS_GMPI_COLLECTIVES_CUH */
