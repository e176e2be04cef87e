/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collective calls whose buffers are devices': staged whole on both sides. */
#include "call.h"
#include "parts.h"

/* What each part of a call in parts is. */
static int begin_bcast(const struct coll *coll, const void *from, void *to, int n, MPI_Request *request)
{
	(void)from;
	return PMPI_Ibcast(to, n, coll->type, coll->root, coll->comm, request);
}

static int begin_reduce(const struct coll *coll, const void *from, void *to, int n, MPI_Request *request)
{
	return PMPI_Ireduce(from, to, n, coll->type, coll->op, coll->root, coll->comm, request);
}

#define BEGIN(name, call) \
static int begin_##name(const struct coll *coll, const void *from, void *to, int n, MPI_Request *request) \
{ \
	return PMPI_##call(from, to, n, coll->type, coll->op, coll->comm, request); \
}

BEGIN(allreduce, Iallreduce)
BEGIN(Scan, Iscan)
BEGIN(Exscan, Iexscan)

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	int here = hpe_mpi_rank(comm) == root, error;
	struct coll coll = { "MPI_Bcast", NULL, buf, count, type, MPI_OP_NULL, root, comm, here, !here, begin_bcast };
	struct call call;

	if (hpe_mpi_in_parts(&coll, &error))
		return error;
	call = hpe_mpi_call("MPI_Bcast", comm, NULL, buf);
	TO(count, type, here ? READ : WRITE);
	return MAKE(call, PMPI_Bcast(call.to.buffer, count, type, root, comm));
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
	int here = hpe_mpi_rank(comm) == root, error;
	struct coll coll = { "MPI_Reduce", from, here ? to : NULL, count, type, op, root, comm, from == MPI_IN_PLACE, here,
			     begin_reduce };
	struct call call;

	if (hpe_mpi_in_parts(&coll, &error))
		return error;
	call = hpe_mpi_call("MPI_Reduce", comm, from, to);
	FROM(count, type);
	if (here)
		TO(count, type, result(from));
	return MAKE(call, PMPI_Reduce(call.from.buffer, call.to.buffer, count, type, op, root, comm));
}

#define REDUCTION(name) \
int MPI_##name(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) \
{ \
	struct coll coll = { "MPI_" #name, from, to, count, type, op, 0, comm, 1, 1, begin_##name }; \
	struct call call; \
	int error; \
\
	if (hpe_mpi_in_parts(&coll, &error)) \
		return error; \
	call = hpe_mpi_call("MPI_" #name, comm, from, to); \
	FROM(count, type); \
	/* Read, too: what rank 0 of an MPI_Exscan has there stays. */ \
	TO(count, type, READ | WRITE); \
	return MAKE(call, PMPI_##name(call.from.buffer, call.to.buffer, count, type, op, comm)); \
}

REDUCTION(Scan)
REDUCTION(Exscan)

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct coll coll = { "MPI_Allreduce", from, to, count, type, op, 0, comm, from == MPI_IN_PLACE, 1, begin_allreduce };
	struct call call;
	int error;

	if (hpe_mpi_in_parts(&coll, &error))
		return error;
	call = hpe_mpi_call("MPI_Allreduce", comm, from, to);
	FROM(count, type);
	TO(count, type, result(from));
	return MAKE(call, PMPI_Allreduce(call.from.buffer, call.to.buffer, count, type, op, comm));
}

int MPI_Reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Reduce_scatter_block", comm, from, to);
	MPI_Count whole = (MPI_Count)count * hpe_mpi_size(comm);

	FROM(whole, type);
	TO(from == MPI_IN_PLACE ? whole : count, type, result(from));
	return MAKE(call, PMPI_Reduce_scatter_block(call.from.buffer, call.to.buffer, count, type, op, comm));
}

int MPI_Reduce_scatter(const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Reduce_scatter", comm, from, to);
	int rank = hpe_mpi_rank(comm), size = hpe_mpi_size(comm);
	MPI_Count whole = 0;

	for (int i = 0; i < size; i++)
		whole += counts[i];
	FROM(whole, type);
	TO(from == MPI_IN_PLACE || rank < 0 ? whole : counts[rank], type, result(from));
	return MAKE(call, PMPI_Reduce_scatter(call.from.buffer, call.to.buffer, counts, type, op, comm));
}

int MPI_Gather(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received, int root,
	       MPI_Comm comm)
{
	int here = hpe_mpi_rank(comm) == root;
	struct call call = hpe_mpi_call("MPI_Gather", comm, from, to);

	FROM(sends, sent);
	if (here)
		TO((MPI_Count)receives * hpe_mpi_size(comm), received, result(from));
	return MAKE(call, PMPI_Gather(call.from.buffer, sends, sent, call.to.buffer, receives, received, root, comm));
}

int MPI_Gatherv(const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[],
		MPI_Datatype received, int root, MPI_Comm comm)
{
	int here = hpe_mpi_rank(comm) == root;
	struct call call = hpe_mpi_call("MPI_Gatherv", comm, from, to);

	FROM(sends, sent);
	if (here)
		TO_PARTS(receives, displs, received);
	return MAKE(call, PMPI_Gatherv(call.from.buffer, sends, sent, call.to.buffer, receives, displs, received, root,
				       comm));
}

int MPI_Scatter(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received, int root,
		MPI_Comm comm)
{
	int here = hpe_mpi_rank(comm) == root;
	struct call call = hpe_mpi_call("MPI_Scatter", comm, from, to);

	if (here)
		FROM((MPI_Count)sends * hpe_mpi_size(comm), sent);
	TO(receives, received, WRITE);
	return MAKE(call, PMPI_Scatter(call.from.buffer, sends, sent, call.to.buffer, receives, received, root, comm));
}

int MPI_Scatterv(const void *from, const int sends[], const int displs[], MPI_Datatype sent, void *to, int receives,
		 MPI_Datatype received, int root, MPI_Comm comm)
{
	int here = hpe_mpi_rank(comm) == root;
	struct call call = hpe_mpi_call("MPI_Scatterv", comm, from, to);

	if (here)
		FROM_PARTS(sends, displs, sent);
	TO(receives, received, WRITE);
	return MAKE(call, PMPI_Scatterv(call.from.buffer, sends, displs, sent, call.to.buffer, receives, received, root,
					comm));
}

int MPI_Allgather(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received,
		  MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Allgather", comm, from, to);

	FROM(sends, sent);
	TO((MPI_Count)receives * hpe_mpi_size(comm), received, result(from));
	return MAKE(call, PMPI_Allgather(call.from.buffer, sends, sent, call.to.buffer, receives, received, comm));
}

int MPI_Allgatherv(const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[],
		   MPI_Datatype received, MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Allgatherv", comm, from, to);

	FROM(sends, sent);
	TO_PARTS(receives, displs, received);
	return MAKE(call, PMPI_Allgatherv(call.from.buffer, sends, sent, call.to.buffer, receives, displs, received,
					  comm));
}

int MPI_Alltoall(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received,
		 MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Alltoall", comm, from, to);

	FROM((MPI_Count)sends * hpe_mpi_size(comm), sent);
	TO((MPI_Count)receives * hpe_mpi_size(comm), received, result(from));
	return MAKE(call, PMPI_Alltoall(call.from.buffer, sends, sent, call.to.buffer, receives, received, comm));
}

int MPI_Alltoallv(const void *from, const int sends[], const int from_displs[], MPI_Datatype sent, void *to,
		  const int receives[], const int to_displs[], MPI_Datatype received, MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Alltoallv", comm, from, to);

	/* With MPI_IN_PLACE these three mean nothing. */
	if (from != MPI_IN_PLACE)
		FROM_PARTS(sends, from_displs, sent);
	TO_PARTS(receives, to_displs, received);
	return MAKE(call, PMPI_Alltoallv(call.from.buffer, sends, from_displs, sent, call.to.buffer, receives, to_displs,
					 received, comm));
}
