/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "call.h"

#include "requests.h"

struct call hpe_mpi_call(const char *name, MPI_Comm comm, const void *from, const void *to)
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

void hpe_mpi_stage(struct call *call, struct stage *stage, MPI_Count count, int parts, const int *counts,
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

int hpe_mpi_finish(struct call *call, int error)
{
	int result = hpe_mpi_end(&call->to, NULL, error);

	hpe_mpi_end(&call->from, NULL, error);
	if (result != error)
		hpe_mpi_fail(call->comm, result, call->name, "cannot copy to the device's memory: freed, or too short");
	return result;
}

int hpe_mpi_begun(struct call *call, int error, MPI_Request *request)
{
	return hpe_mpi_keep_both(&call->from, &call->to, error ? MPI_REQUEST_NULL : *request, error, call->comm, call->name);
}

int hpe_mpi_size(MPI_Comm comm)
{
	int size = 0;

	PMPI_Comm_size(comm, &size);
	return size;
}

int hpe_mpi_rank(MPI_Comm comm)
{
	int rank = -1;

	PMPI_Comm_rank(comm, &rank);
	return rank;
}
