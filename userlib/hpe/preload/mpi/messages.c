/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages whose buffers are devices'. */
#include <stdlib.h>

#include "requests.h"
#include "stage.h"

/* A staged buffer for one call, or the error that the call is to return. */
static int begin(struct stage *stage, const void *buffer, MPI_Count count, MPI_Datatype type, enum use use,
		 MPI_Comm comm, const char *call)
{
	struct range range;
	int error;

	*stage = (struct stage){ .buffer = (void *)buffer };
	if (count <= 0 || !hpe_mpi_is_device(buffer))
		return MPI_SUCCESS;
	error = hpe_mpi_range(count, type, &range);
	if (error == MPI_ERR_TYPE)
		return hpe_mpi_fail(comm, error, call, "this datatype does not go with memory of a device");
	if (error)
		return error;
	error = hpe_mpi_begin(stage, buffer, &range, use);
	if (error)
		hpe_mpi_fail(comm, error, call, "cannot copy from the device's memory: freed, too short, or none left here");
	return error;
}

static int end(struct stage *stage, MPI_Status *status, int error, MPI_Comm comm, const char *call)
{
	int result = hpe_mpi_end(stage, status, error);

	if (result != error)
		hpe_mpi_fail(comm, result, call, "cannot copy to the device's memory: freed, or shorter than the message");
	return result;
}

#define SEND(name) \
int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) \
{ \
	struct stage stage; \
	int error = begin(&stage, buf, count, type, READ, comm, "MPI_" #name); \
\
	if (error) \
		return error; \
	error = PMPI_##name(stage.buffer, count, type, dest, tag, comm); \
	return end(&stage, NULL, error, comm, "MPI_" #name); \
}

SEND(Send)
SEND(Ssend)
SEND(Rsend)
/* The message is in the library's buffer when this returns, as MPI promises. */
SEND(Bsend)

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	struct stage stage;
	int error;

	if (source == MPI_PROC_NULL || !hpe_mpi_is_device(buf))
		return PMPI_Recv(buf, count, type, source, tag, comm, status);
	error = begin(&stage, buf, count, type, WRITE, comm, "MPI_Recv");
	if (error)
		return error;
	error = PMPI_Recv(stage.buffer, count, type, source, tag, comm, to);
	return end(&stage, to, error, comm, "MPI_Recv");
}

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	struct stage stage;
	int error;

	if (*message == MPI_MESSAGE_NO_PROC || !hpe_mpi_is_device(buf))
		return PMPI_Mrecv(buf, count, type, message, status);
	error = begin(&stage, buf, count, type, WRITE, MPI_COMM_NULL, "MPI_Mrecv");
	if (error)
		return error;
	error = PMPI_Mrecv(stage.buffer, count, type, message, to);
	return end(&stage, to, error, MPI_COMM_NULL, "MPI_Mrecv");
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf,
		 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	struct stage out, in;
	int error = begin(&out, sendbuf, sendcount, sendtype, READ, comm, "MPI_Sendrecv");

	if (error)
		return error;
	error = begin(&in, recvbuf, source == MPI_PROC_NULL ? 0 : recvcount, recvtype, WRITE, comm, "MPI_Sendrecv");
	if (!error)
		error = PMPI_Sendrecv(out.buffer, sendcount, sendtype, dest, sendtag, in.buffer, recvcount, recvtype,
				      source, recvtag, comm, to);
	hpe_mpi_end(&out, NULL, error);
	return end(&in, to, error, comm, "MPI_Sendrecv");
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag,
			 MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	struct stage stage;
	int error = begin(&stage, buf, count, type, READ | WRITE, comm, "MPI_Sendrecv_replace");

	if (error)
		return error;
	error = PMPI_Sendrecv_replace(stage.buffer, count, type, dest, sendtag, source, recvtag, comm, to);
	/* From nobody comes nothing: its status counts no bytes. */
	if (source == MPI_PROC_NULL)
		stage.use = READ;
	return end(&stage, to, error, comm, "MPI_Sendrecv_replace");
}

#define ISEND(name) \
int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request) \
{ \
	struct stage stage; \
	int error = begin(&stage, buf, count, type, READ, comm, "MPI_" #name); \
\
	if (error) \
		return error; \
	error = PMPI_##name(stage.buffer, count, type, dest, tag, comm, request); \
	return hpe_mpi_keep(&stage, *request, error, comm, "MPI_" #name); \
}

ISEND(Isend)
ISEND(Issend)
ISEND(Irsend)

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
	struct stage stage;
	int error = begin(&stage, buf, source == MPI_PROC_NULL ? 0 : count, type, WRITE, comm, "MPI_Irecv");

	if (error)
		return error;
	error = PMPI_Irecv(stage.buffer, count, type, source, tag, comm, request);
	return hpe_mpi_keep(&stage, *request, error, comm, "MPI_Irecv");
}

/* Calls that would use the buffer long after they return, or that have no staged form here: said, and not done. */
static int refuse(MPI_Comm comm, const char *call)
{
	return hpe_mpi_fail(comm, MPI_ERR_BUFFER, call,
			    "takes no memory of a device; use a call of the list in the README of ggas-hpe's preload/mpi");
}

#define REFUSE_INIT(name, constant) \
int MPI_##name(constant void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, \
	       MPI_Request *request) \
{ \
	if (hpe_mpi_is_device(buf)) \
		return refuse(comm, "MPI_" #name); \
	return PMPI_##name(buf, count, type, peer, tag, comm, request); \
}

REFUSE_INIT(Send_init, const)
REFUSE_INIT(Ssend_init, const)
REFUSE_INIT(Rsend_init, const)
REFUSE_INIT(Bsend_init, const)
REFUSE_INIT(Recv_init, )
REFUSE_INIT(Ibsend, const)

int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	if (hpe_mpi_is_device(buf))
		return refuse(MPI_COMM_NULL, "MPI_Imrecv");
	return PMPI_Imrecv(buf, count, type, message, request);
}

int MPI_Ibcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
	if (hpe_mpi_is_device(buf))
		return refuse(comm, "MPI_Ibcast");
	return PMPI_Ibcast(buf, count, type, root, comm, request);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		   MPI_Request *request)
{
	if (hpe_mpi_is_device(from) || hpe_mpi_is_device(to))
		return refuse(comm, "MPI_Iallreduce");
	return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}

int MPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
	if (hpe_mpi_is_device(base))
		return refuse(comm, "MPI_Win_create");
	return PMPI_Win_create(base, size, unit, info, comm, win);
}
