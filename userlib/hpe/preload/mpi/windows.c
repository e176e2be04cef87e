/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One-sided calls, which refuse memory of devices. Others read and write a window without a call of its process, so nobody could say
 * when a copy of it in memory of the host is to be brought up to date.
 */
#include <stdio.h>

#include "stage.h"

static int refuse(const char *call)
{
	return hpe_mpi_fail(MPI_COMM_NULL, MPI_ERR_BUFFER, call,
			    "takes no memory of a device: have the window in memory of the host (MPI_Win_allocate) and move bytes by "
			    "ggas_hpe_copy or by CUDA's copies, or send messages, which take pointers of devices");
}

int MPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
	if (hpe_mpi_is_device(base))
		return refuse("MPI_Win_create");
	return PMPI_Win_create(base, size, unit, info, comm, win);
}

int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
	if (hpe_mpi_is_device(base))
		return refuse("MPI_Win_attach");
	return PMPI_Win_attach(win, base, size);
}

static int refuse_origin(MPI_Win win, const char *call)
{
	fprintf(stderr, "ggas-hpe: %s: takes no memory of a device on this side: copy it to the host's by ggas_hpe_copy or by CUDA\n", call);
	PMPI_Win_call_errhandler(win, MPI_ERR_BUFFER);
	return MPI_ERR_BUFFER;
}

#define TARGET int rank, MPI_Aint at, int there, MPI_Datatype theirs
#define TARGET_ARGUMENTS rank, at, there, theirs

/* Transfers: without a request and with one. */
#define MOVE(name, rname, constant, more, more_arguments) \
int MPI_##name(constant void *buffer, int count, MPI_Datatype type, TARGET, more MPI_Win win) \
{ \
	if (hpe_mpi_is_device(buffer)) \
		return refuse_origin(win, "MPI_" #name); \
	return PMPI_##name(buffer, count, type, TARGET_ARGUMENTS, more_arguments win); \
} \
\
int MPI_##rname(constant void *buffer, int count, MPI_Datatype type, TARGET, more MPI_Win win, MPI_Request *request) \
{ \
	if (hpe_mpi_is_device(buffer)) \
		return refuse_origin(win, "MPI_" #rname); \
	return PMPI_##rname(buffer, count, type, TARGET_ARGUMENTS, more_arguments win, request); \
}

#define OPERATION MPI_Op op,
#define GIVEN op,

MOVE(Put, Rput, const, , )
MOVE(Get, Rget, , , )
MOVE(Accumulate, Raccumulate, const, OPERATION, GIVEN)

int MPI_Get_accumulate(const void *from, int sends, MPI_Datatype sent, void *result, int results, MPI_Datatype received,
		       TARGET, MPI_Op op, MPI_Win win)
{
	if (hpe_mpi_is_device(from) || hpe_mpi_is_device(result))
		return refuse_origin(win, "MPI_Get_accumulate");
	return PMPI_Get_accumulate(from, sends, sent, result, results, received, TARGET_ARGUMENTS, op, win);
}

int MPI_Rget_accumulate(const void *from, int sends, MPI_Datatype sent, void *result, int results, MPI_Datatype received,
			TARGET, MPI_Op op, MPI_Win win, MPI_Request *request)
{
	if (hpe_mpi_is_device(from) || hpe_mpi_is_device(result))
		return refuse_origin(win, "MPI_Rget_accumulate");
	return PMPI_Rget_accumulate(from, sends, sent, result, results, received, TARGET_ARGUMENTS, op, win, request);
}

int MPI_Fetch_and_op(const void *from, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op, MPI_Win win)
{
	if (hpe_mpi_is_device(from) || hpe_mpi_is_device(result))
		return refuse_origin(win, "MPI_Fetch_and_op");
	return PMPI_Fetch_and_op(from, result, type, rank, at, op, win);
}

int MPI_Compare_and_swap(const void *from, const void *compared, void *result, MPI_Datatype type, int rank, MPI_Aint at,
			 MPI_Win win)
{
	if (hpe_mpi_is_device(from) || hpe_mpi_is_device(compared) || hpe_mpi_is_device(result))
		return refuse_origin(win, "MPI_Compare_and_swap");
	return PMPI_Compare_and_swap(from, compared, result, type, rank, at, win);
}
