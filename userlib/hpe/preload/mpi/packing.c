/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that send nothing: packing, and the reduction of two buffers. */
#include "call.h"

/* Behind the bytes that a call packs or takes at a position, of a buffer that ends at `size`. */
static MPI_Aint end_of(int count, MPI_Datatype type, MPI_Comm comm, int position, int size)
{
	int most = 0;

	if (count < 0 || PMPI_Pack_size(count, type, comm, &most) || most > size - position)
		return size;
	return (MPI_Aint)position + most;
}

int MPI_Pack(const void *from, int count, MPI_Datatype type, void *to, int size, int *position, MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Pack", comm, from, to);
	int start = *position, error;

	FROM(count, type);
	hpe_mpi_stage_bytes(&call, &call.to, start, end_of(count, type, comm, start, size), WRITE);
	error = call.error ? call.error : PMPI_Pack(call.from.buffer, count, type, call.to.buffer, size, position, comm);
	/* What was packed is copied back, and no more. */
	if (!error && call.to.host)
		call.to.bytes = (size_t)(*position - start);
	return hpe_mpi_finish(&call, error);
}

int MPI_Unpack(const void *from, int size, int *position, void *to, int count, MPI_Datatype type, MPI_Comm comm)
{
	struct call call = hpe_mpi_call("MPI_Unpack", comm, from, to);

	hpe_mpi_stage_bytes(&call, &call.from, *position, end_of(count, type, comm, *position, size), READ);
	TO(count, type, WRITE);
	return MAKE(call, PMPI_Unpack(call.from.buffer, size, position, call.to.buffer, count, type, comm));
}

int MPI_Reduce_local(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
	struct call call = hpe_mpi_call("MPI_Reduce_local", MPI_COMM_WORLD, from, to);

	FROM(count, type);
	TO(count, type, READ | WRITE);
	return MAKE(call, PMPI_Reduce_local(call.from.buffer, call.to.buffer, count, type, op));
}
