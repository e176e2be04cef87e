/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collective calls whose buffers are devices': staged whole on both sides. */
#include <stdlib.h>

#include "parts.h"
#include "stage.h"

/* One call: its two buffers. Those of the host, MPI_IN_PLACE, and those that mean nothing at this rank stay as they are. */
struct call {
	const char *name;
	MPI_Comm comm;
	struct stage from, to;
	int error;
};

static struct call call_of(const char *name, MPI_Comm comm, const void *from, const void *to)
{
	struct call call = { .name = name, .comm = comm };
	int inter = 0;

	call.from.buffer = (void *)from;
	call.to.buffer = (void *)to;
	if (!hpe_mpi_is_device(from) && !hpe_mpi_is_device(to))
		return call;
	call.error = PMPI_Comm_test_inter(comm, &inter);
	if (!call.error && inter)
		call.error = hpe_mpi_fail(comm, MPI_ERR_COMM, name, "takes memory of a device on intracommunicators only");
	return call;
}

/* Stages one of the buffers: `parts` counts at `displs`, or `count` elements where there are none. */
static void stage(struct call *call, struct stage *stage, MPI_Count count, int parts, const int *counts,
		  const int *displs, MPI_Datatype type, enum use use)
{
	struct range range;

	if (call->error || !hpe_mpi_is_device(stage->buffer) || (!counts && count <= 0))
		return;
	call->error = counts ? hpe_mpi_range_v(parts, counts, displs, type, &range) : hpe_mpi_range(count, type, &range);
	if (!call->error)
		call->error = hpe_mpi_begin(stage, stage->buffer, &range, use);
	else if (call->error == MPI_ERR_TYPE)
		hpe_mpi_fail(call->comm, call->error, call->name, "this datatype does not go with memory of a device");
	if (call->error == MPI_ERR_BUFFER || call->error == MPI_ERR_NO_MEM)
		hpe_mpi_fail(call->comm, call->error, call->name,
			     "cannot copy from the device's memory: freed, too short, or none left here");
}

static int finish(struct call *call, int error)
{
	int result = hpe_mpi_end(&call->to, NULL, error);

	hpe_mpi_end(&call->from, NULL, error);
	if (result != error)
		hpe_mpi_fail(call->comm, result, call->name, "cannot copy to the device's memory: freed, or too short");
	return result;
}

/* Makes a call unless its buffers could not be staged. */
#define MAKE(call, made) finish(&(call), (call).error ? (call).error : (made))

#define FROM(count, type) stage(&call, &call.from, count, 0, NULL, NULL, type, READ)
#define TO(count, type, use) stage(&call, &call.to, count, 0, NULL, NULL, type, use)
#define FROM_PARTS(counts, displs, type) stage(&call, &call.from, 0, size_of(comm), counts, displs, type, READ)
/* Other ranks' parts may leave gaps, which stay: all is read. */
#define TO_PARTS(counts, displs, type) stage(&call, &call.to, 0, size_of(comm), counts, displs, type, READ | WRITE)

static int size_of(MPI_Comm comm)
{
	int size = 0;

	PMPI_Comm_size(comm, &size);
	return size;
}

static int rank_of(MPI_Comm comm)
{
	int rank = -1;

	PMPI_Comm_rank(comm, &rank);
	return rank;
}

/* What a receiving buffer is read for: with MPI_IN_PLACE it holds this rank's part. */
static enum use result(const void *from)
{
	return from == MPI_IN_PLACE ? READ | WRITE : WRITE;
}

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
	int here = rank_of(comm) == root, error;
	struct coll coll = { "MPI_Bcast", NULL, buf, count, type, MPI_OP_NULL, root, comm, here, !here, begin_bcast };
	struct call call;

	if (hpe_mpi_in_parts(&coll, &error))
		return error;
	call = call_of("MPI_Bcast", comm, NULL, buf);
	TO(count, type, here ? READ : WRITE);
	return MAKE(call, PMPI_Bcast(call.to.buffer, count, type, root, comm));
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
	int here = rank_of(comm) == root, error;
	struct coll coll = { "MPI_Reduce", from, here ? to : NULL, count, type, op, root, comm, from == MPI_IN_PLACE, here,
			     begin_reduce };
	struct call call;

	if (hpe_mpi_in_parts(&coll, &error))
		return error;
	call = call_of("MPI_Reduce", comm, from, to);
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
	call = call_of("MPI_" #name, comm, from, to); \
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
	call = call_of("MPI_Allreduce", comm, from, to);
	FROM(count, type);
	TO(count, type, result(from));
	return MAKE(call, PMPI_Allreduce(call.from.buffer, call.to.buffer, count, type, op, comm));
}

int MPI_Reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct call call = call_of("MPI_Reduce_scatter_block", comm, from, to);
	MPI_Count whole = (MPI_Count)count * size_of(comm);

	FROM(whole, type);
	TO(from == MPI_IN_PLACE ? whole : count, type, result(from));
	return MAKE(call, PMPI_Reduce_scatter_block(call.from.buffer, call.to.buffer, count, type, op, comm));
}

int MPI_Reduce_scatter(const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct call call = call_of("MPI_Reduce_scatter", comm, from, to);
	int rank = rank_of(comm), size = size_of(comm);
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
	int here = rank_of(comm) == root;
	struct call call = call_of("MPI_Gather", comm, from, to);

	FROM(sends, sent);
	if (here)
		TO((MPI_Count)receives * size_of(comm), received, result(from));
	return MAKE(call, PMPI_Gather(call.from.buffer, sends, sent, call.to.buffer, receives, received, root, comm));
}

int MPI_Gatherv(const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[],
		MPI_Datatype received, int root, MPI_Comm comm)
{
	int here = rank_of(comm) == root;
	struct call call = call_of("MPI_Gatherv", comm, from, to);

	FROM(sends, sent);
	if (here)
		TO_PARTS(receives, displs, received);
	return MAKE(call, PMPI_Gatherv(call.from.buffer, sends, sent, call.to.buffer, receives, displs, received, root,
				       comm));
}

int MPI_Scatter(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received, int root,
		MPI_Comm comm)
{
	int here = rank_of(comm) == root;
	struct call call = call_of("MPI_Scatter", comm, from, to);

	if (here)
		FROM((MPI_Count)sends * size_of(comm), sent);
	TO(receives, received, WRITE);
	return MAKE(call, PMPI_Scatter(call.from.buffer, sends, sent, call.to.buffer, receives, received, root, comm));
}

int MPI_Scatterv(const void *from, const int sends[], const int displs[], MPI_Datatype sent, void *to, int receives,
		 MPI_Datatype received, int root, MPI_Comm comm)
{
	int here = rank_of(comm) == root;
	struct call call = call_of("MPI_Scatterv", comm, from, to);

	if (here)
		FROM_PARTS(sends, displs, sent);
	TO(receives, received, WRITE);
	return MAKE(call, PMPI_Scatterv(call.from.buffer, sends, displs, sent, call.to.buffer, receives, received, root,
					comm));
}

int MPI_Allgather(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received,
		  MPI_Comm comm)
{
	struct call call = call_of("MPI_Allgather", comm, from, to);

	FROM(sends, sent);
	TO((MPI_Count)receives * size_of(comm), received, result(from));
	return MAKE(call, PMPI_Allgather(call.from.buffer, sends, sent, call.to.buffer, receives, received, comm));
}

int MPI_Allgatherv(const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[],
		   MPI_Datatype received, MPI_Comm comm)
{
	struct call call = call_of("MPI_Allgatherv", comm, from, to);

	FROM(sends, sent);
	TO_PARTS(receives, displs, received);
	return MAKE(call, PMPI_Allgatherv(call.from.buffer, sends, sent, call.to.buffer, receives, displs, received,
					  comm));
}

int MPI_Alltoall(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received,
		 MPI_Comm comm)
{
	struct call call = call_of("MPI_Alltoall", comm, from, to);

	FROM((MPI_Count)sends * size_of(comm), sent);
	TO((MPI_Count)receives * size_of(comm), received, result(from));
	return MAKE(call, PMPI_Alltoall(call.from.buffer, sends, sent, call.to.buffer, receives, received, comm));
}

int MPI_Alltoallv(const void *from, const int sends[], const int from_displs[], MPI_Datatype sent, void *to,
		  const int receives[], const int to_displs[], MPI_Datatype received, MPI_Comm comm)
{
	struct call call = call_of("MPI_Alltoallv", comm, from, to);

	/* With MPI_IN_PLACE these three mean nothing. */
	if (from != MPI_IN_PLACE)
		FROM_PARTS(sends, from_displs, sent);
	TO_PARTS(receives, to_displs, received);
	return MAKE(call, PMPI_Alltoallv(call.from.buffer, sends, from_displs, sent, call.to.buffer, receives, to_displs,
					 received, comm));
}
