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

/* Stages a buffer whose range was found with this error. */
static void stage_found(struct call *call, struct stage *stage, const struct range *range, enum use use, int error)
{
	call->error = error;
	if (!call->error)
		call->error = hpe_mpi_begin(stage, stage->buffer, range, use);
	else if (call->error == MPI_ERR_TYPE)
		hpe_mpi_fail(call->comm, call->error, call->name, "this datatype does not go with memory of a device");
	if (call->error == MPI_ERR_BUFFER || call->error == MPI_ERR_NO_MEM)
		hpe_mpi_fail(call->comm, call->error, call->name,
			     "cannot copy from the device's memory: freed, too short, or none left here");
}

void hpe_mpi_stage(struct call *call, struct stage *stage, MPI_Count count, int parts, const int *counts,
		   const int *displs, MPI_Datatype type, enum use use)
{
	struct range range;
	int error;

	if (call->error || !hpe_mpi_is_device(stage->buffer) || (!counts && count <= 0))
		return;
	error = counts ? hpe_mpi_range_v(parts, counts, displs, type, &range) : hpe_mpi_range(count, type, &range);
	stage_found(call, stage, &range, use, error);
}

void hpe_mpi_stage_bytes(struct call *call, struct stage *stage, MPI_Aint start, MPI_Aint end, enum use use)
{
	struct range range = { start, end, 1 };

	if (!call->error && end > start && hpe_mpi_is_device(stage->buffer))
		stage_found(call, stage, &range, use, MPI_SUCCESS);
}

void hpe_mpi_stage_types(struct call *call, struct stage *stage, int parts, const int *counts, const int *displs,
			 const MPI_Aint *far, const MPI_Datatype *types, enum use use)
{
	struct range range = { 0, 0, 0 }, part;
	int error = MPI_SUCCESS;

	if (call->error || !hpe_mpi_is_device(stage->buffer))
		return;
	for (int i = 0; i < parts && !error; i++) {
		MPI_Aint at = displs ? displs[i] : far[i];

		if (counts[i] <= 0)
			continue;
		error = hpe_mpi_range(counts[i], types[i], &part);
		if (range.start == range.end)
			range = (struct range){ at + part.start, at + part.end, 0 };
		if (at + part.start < range.start)
			range.start = at + part.start;
		if (at + part.end > range.end)
			range.end = at + part.end;
	}
	stage_found(call, stage, &range, use, error);
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
