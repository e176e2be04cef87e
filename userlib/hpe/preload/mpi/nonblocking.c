/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collective calls that do not block: staged as the others, until their requests are complete. */
#include "call.h"

int MPI_Ibcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Ibcast", comm, NULL, buf);

	TO(count, type, hpe_mpi_rank(comm) == root ? READ : WRITE);
	return START(call, PMPI_Ibcast(call.to.buffer, count, type, root, comm, request));
}

int MPI_Ireduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
		MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Ireduce", comm, from, to);

	FROM(count, type);
	if (hpe_mpi_rank(comm) == root)
		TO(count, type, result(from));
	return START(call, PMPI_Ireduce(call.from.buffer, call.to.buffer, count, type, op, root, comm, request));
}

/* What rank 0 of an MPI_Iexscan has in the result stays, so it is read. */
#define REDUCTION(name, use) \
int MPI_##name(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request) \
{ \
	struct call call = hpe_mpi_call("MPI_" #name, comm, from, to); \
\
	FROM(count, type); \
	TO(count, type, use); \
	return START(call, PMPI_##name(call.from.buffer, call.to.buffer, count, type, op, comm, request)); \
}

REDUCTION(Iallreduce, result(from))
REDUCTION(Iscan, READ | WRITE)
REDUCTION(Iexscan, READ | WRITE)

int MPI_Ireduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
			      MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Ireduce_scatter_block", comm, from, to);
	MPI_Count whole = (MPI_Count)count * hpe_mpi_size(comm);

	FROM(whole, type);
	TO(from == MPI_IN_PLACE ? whole : count, type, result(from));
	return START(call, PMPI_Ireduce_scatter_block(call.from.buffer, call.to.buffer, count, type, op, comm, request));
}

int MPI_Ireduce_scatter(const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
			MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Ireduce_scatter", comm, from, to);
	int rank = hpe_mpi_rank(comm), size = hpe_mpi_size(comm);
	MPI_Count whole = 0;

	for (int i = 0; i < size; i++)
		whole += counts[i];
	FROM(whole, type);
	TO(from == MPI_IN_PLACE || rank < 0 ? whole : counts[rank], type, result(from));
	return START(call, PMPI_Ireduce_scatter(call.from.buffer, call.to.buffer, counts, type, op, comm, request));
}

int MPI_Igather(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received, int root,
		MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Igather", comm, from, to);

	FROM(sends, sent);
	if (hpe_mpi_rank(comm) == root)
		TO((MPI_Count)receives * hpe_mpi_size(comm), received, result(from));
	return START(call, PMPI_Igather(call.from.buffer, sends, sent, call.to.buffer, receives, received, root, comm,
					request));
}

int MPI_Igatherv(const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[],
		 MPI_Datatype received, int root, MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Igatherv", comm, from, to);

	FROM(sends, sent);
	if (hpe_mpi_rank(comm) == root)
		TO_PARTS(receives, displs, received);
	return START(call, PMPI_Igatherv(call.from.buffer, sends, sent, call.to.buffer, receives, displs, received, root,
					 comm, request));
}

int MPI_Iscatter(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received, int root,
		 MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Iscatter", comm, from, to);

	if (hpe_mpi_rank(comm) == root)
		FROM((MPI_Count)sends * hpe_mpi_size(comm), sent);
	TO(receives, received, WRITE);
	return START(call, PMPI_Iscatter(call.from.buffer, sends, sent, call.to.buffer, receives, received, root, comm,
					 request));
}

int MPI_Iscatterv(const void *from, const int sends[], const int displs[], MPI_Datatype sent, void *to, int receives,
		  MPI_Datatype received, int root, MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Iscatterv", comm, from, to);

	if (hpe_mpi_rank(comm) == root)
		FROM_PARTS(sends, displs, sent);
	TO(receives, received, WRITE);
	return START(call, PMPI_Iscatterv(call.from.buffer, sends, displs, sent, call.to.buffer, receives, received, root,
					  comm, request));
}

int MPI_Iallgather(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received,
		   MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Iallgather", comm, from, to);

	FROM(sends, sent);
	TO((MPI_Count)receives * hpe_mpi_size(comm), received, result(from));
	return START(call, PMPI_Iallgather(call.from.buffer, sends, sent, call.to.buffer, receives, received, comm,
					   request));
}

int MPI_Iallgatherv(const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[],
		    MPI_Datatype received, MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Iallgatherv", comm, from, to);

	FROM(sends, sent);
	TO_PARTS(receives, displs, received);
	return START(call, PMPI_Iallgatherv(call.from.buffer, sends, sent, call.to.buffer, receives, displs, received,
					    comm, request));
}

int MPI_Ialltoall(const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received,
		  MPI_Comm comm, MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Ialltoall", comm, from, to);

	FROM((MPI_Count)sends * hpe_mpi_size(comm), sent);
	TO((MPI_Count)receives * hpe_mpi_size(comm), received, result(from));
	return START(call, PMPI_Ialltoall(call.from.buffer, sends, sent, call.to.buffer, receives, received, comm,
					  request));
}

int MPI_Ialltoallv(const void *from, const int sends[], const int from_displs[], MPI_Datatype sent, void *to,
		   const int receives[], const int to_displs[], MPI_Datatype received, MPI_Comm comm,
		   MPI_Request *request)
{
	struct call call = hpe_mpi_call("MPI_Ialltoallv", comm, from, to);

	/* With MPI_IN_PLACE these three mean nothing. */
	if (from != MPI_IN_PLACE)
		FROM_PARTS(sends, from_displs, sent);
	TO_PARTS(receives, to_displs, received);
	return START(call, PMPI_Ialltoallv(call.from.buffer, sends, from_displs, sent, call.to.buffer, receives, to_displs,
					   received, comm, request));
}
