/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages whose buffers are devices'. */
#include <stdlib.h>

#include <sched.h>

#include "ggas_hpe.h"
#include "held.h"
#include "pipe.h"
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

/* A message that is long enough to go in parts, begun; else NULL. Of the host's where that is asked for, unless it is `now`. */
static struct out *split(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, enum out_kind now)
{
	int device = hpe_mpi_part() && hpe_mpi_is_device(buf);
	enum out_kind kind = now | (device ? OUT_DEVICE : OUT_HOST);
	struct range range;
	size_t bytes;

	if (count <= 0 || dest == MPI_PROC_NULL || buf == MPI_BOTTOM || !hpe_mpi_part() ||
	    (!device && (now || !hpe_mpi_splits_host())) || hpe_mpi_range(count, type, &range) || !range.dense)
		return NULL;
	bytes = (size_t)(range.end - range.start);
	/* What is freed or too short is told before anything is sent: as of short messages. */
	if (!hpe_mpi_is_long(bytes) || !ggas_hpe_holds((const char *)buf + range.start, bytes))
		return NULL;
	return hpe_mpi_out((const char *)buf + range.start, bytes, dest, tag, comm, kind);
}

static int end_out(struct out *out, MPI_Comm comm, const char *call)
{
	int error = hpe_mpi_out_all(out);

	return error ? hpe_mpi_fail(comm, error, call, "cannot send memory of a device in parts") : error;
}

/* The same of a receive, which a message in parts may come for, whatever its buffer. */
static int begin_receive(struct stage *stage, void *buffer, MPI_Count count, MPI_Datatype type, enum use use,
			 MPI_Comm comm, const char *call)
{
	struct range range;
	int size, error = begin(stage, buffer, count, type, use, comm, call);

	if (error || count <= 0 || PMPI_Type_size(type, &size) || !hpe_mpi_is_long((size_t)count * (size_t)size) ||
	    hpe_mpi_range(count, type, &range))
		return error;
	stage->use = use;
	stage->capacity = (size_t)count * (size_t)size;
	stage->start = range.start;
	stage->dense = range.dense;
	stage->type = type;
	return MPI_SUCCESS;
}

/* Ends it; a message in parts comes now. */
static int end_receive(struct stage *stage, struct redirect *redirect, MPI_Status *status, struct out *out, int error,
		       MPI_Comm comm, const char *call)
{
	hpe_mpi_redirected(redirect, status);
	if (!error && (error = hpe_mpi_in(stage, status, out)))
		hpe_mpi_fail(comm, error, call, "cannot take a message that comes in parts: it is too long, or no memory");
	return end(stage, status, error, comm, call);
}

/* Whether MPI's own call does all there is to do. */
static int is_plain(const struct stage *stage, const struct redirect *redirect)
{
	return !stage->host && !stage->capacity && !redirect->data;
}

#define SEND(name) \
int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) \
{ \
	struct stage stage; \
	struct out *out = split(buf, count, type, dest, tag, comm, 0); \
	int error; \
\
	if (out) \
		return end_out(out, comm, "MPI_" #name); \
	error = begin(&stage, buf, count, type, READ, comm, "MPI_" #name); \
	if (error) \
		return error; \
	error = PMPI_##name(stage.buffer, count, type, dest, tag, comm); \
	return end(&stage, NULL, error, comm, "MPI_" #name); \
}

SEND(Send)
SEND(Ssend)
SEND(Rsend)

/* The message is in the library's buffer when this returns, as MPI promises. */
int MPI_Bsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
	struct stage stage;
	int error = begin(&stage, buf, count, type, READ, comm, "MPI_Bsend");

	if (error)
		return error;
	error = PMPI_Bsend(stage.buffer, count, type, dest, tag, comm);
	return end(&stage, NULL, error, comm, "MPI_Bsend");
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	struct redirect redirect;
	struct stage stage;
	MPI_Comm from = comm;
	int error;

	if (source == MPI_PROC_NULL)
		return PMPI_Recv(buf, count, type, source, tag, comm, status);
	error = begin_receive(&stage, buf, count, type, WRITE, comm, "MPI_Recv");
	if (error)
		return error;
	hpe_mpi_redirect(&redirect, &source, &tag, &from);
	if (is_plain(&stage, &redirect))
		return PMPI_Recv(buf, count, type, source, tag, comm, status);
	error = PMPI_Recv(stage.buffer, count, type, source, tag, from, to);
	return end_receive(&stage, &redirect, to, NULL, error, comm, "MPI_Recv");
}

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	struct redirect redirect;
	struct stage stage;
	int error;

	if (*message == MPI_MESSAGE_NO_PROC)
		return PMPI_Mrecv(buf, count, type, message, status);
	error = begin_receive(&stage, buf, count, type, WRITE, MPI_COMM_NULL, "MPI_Mrecv");
	if (error)
		return error;
	hpe_mpi_redirect_message(&redirect, *message);
	if (is_plain(&stage, &redirect))
		return PMPI_Mrecv(buf, count, type, message, status);
	error = PMPI_Mrecv(stage.buffer, count, type, message, to);
	return end_receive(&stage, &redirect, to, NULL, error, MPI_COMM_NULL, "MPI_Mrecv");
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf,
		 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	MPI_Request request;
	struct redirect redirect = { .data = NULL };
	struct stage out, in;
	struct out *parts;
	MPI_Comm from = comm;
	int flag = 0, sent, error;

	error = begin_receive(&in, recvbuf, source == MPI_PROC_NULL ? 0 : recvcount, recvtype, WRITE, comm, "MPI_Sendrecv");
	if (error)
		return error;
	if (source != MPI_PROC_NULL)
		hpe_mpi_redirect(&redirect, &source, &recvtag, &from);
	parts = split(sendbuf, sendcount, sendtype, dest, sendtag, comm, 0);
	if (!parts && !redirect.data) {
		error = begin(&out, sendbuf, sendcount, sendtype, READ, comm, "MPI_Sendrecv");
		if (!error)
			error = PMPI_Sendrecv(out.buffer, sendcount, sendtype, dest, sendtag, in.buffer, recvcount,
					      recvtype, source, recvtag, comm, to);
		hpe_mpi_end(&out, NULL, error);
		return end_receive(&in, &redirect, to, NULL, error, comm, "MPI_Sendrecv");
	}
	error = PMPI_Irecv(in.buffer, recvcount, recvtype, source, recvtag, from, &request);
	while (parts && !error && !flag) {
		error = PMPI_Test(&request, &flag, to);
		if (!flag) {
			hpe_mpi_out_moves(parts);
			sched_yield();
		}
	}
	if (!parts && !error) {
		error = MPI_Send(sendbuf, sendcount, sendtype, dest, sendtag, comm);
		flag = PMPI_Wait(&request, to);
		error = error ? error : flag;
	}
	error = end_receive(&in, &redirect, to, parts, error, comm, "MPI_Sendrecv");
	sent = parts ? end_out(parts, comm, "MPI_Sendrecv") : MPI_SUCCESS;
	return error ? error : sent;
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag,
			 MPI_Comm comm, MPI_Status *status)
{
	MPI_Status own, *to = status == MPI_STATUS_IGNORE ? &own : status;
	MPI_Request request;
	struct redirect redirect = { .data = NULL };
	struct stage stage;
	MPI_Comm from = comm;
	int error = begin_receive(&stage, buf, count, type, READ | WRITE, comm, "MPI_Sendrecv_replace");

	if (error)
		return error;
	if (source != MPI_PROC_NULL)
		hpe_mpi_redirect(&redirect, &source, &recvtag, &from);
	if (!redirect.data) {
		error = PMPI_Sendrecv_replace(stage.buffer, count, type, dest, sendtag, source, recvtag, comm, to);
	} else {
		/* What comes is here already. */
		error = PMPI_Isend(stage.buffer, count, type, dest, sendtag, comm, &request);
		if (!error)
			error = PMPI_Wait(&request, MPI_STATUS_IGNORE);
		if (!error)
			error = PMPI_Recv(stage.buffer, count, type, source, recvtag, from, to);
	}
	/* From nobody comes nothing: its status counts no bytes. */
	if (source == MPI_PROC_NULL) {
		stage.use = READ;
		stage.capacity = 0;
	}
	return end_receive(&stage, &redirect, to, NULL, error, comm, "MPI_Sendrecv_replace");
}

#define ISEND(name) \
int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request) \
{ \
	struct stage stage; \
	struct out *out = split(buf, count, type, dest, tag, comm, OUT_NOW); \
	int error = out ? hpe_mpi_out_now(out, request) : begin(&stage, buf, count, type, READ, comm, "MPI_" #name); \
\
	if (out) \
		return error ? hpe_mpi_fail(comm, error, "MPI_" #name, "cannot send memory of a device in parts") : error; \
	if (error) \
		return error; \
	error = PMPI_##name(stage.buffer, count, type, dest, tag, comm, request); \
	return hpe_mpi_keep(&stage, NULL, *request, error, comm, "MPI_" #name); \
}

ISEND(Isend)
ISEND(Issend)
ISEND(Irsend)

/* Whole, as MPI_Bsend. */
int MPI_Ibsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
	struct stage stage;
	int error = begin(&stage, buf, count, type, READ, comm, "MPI_Ibsend");

	if (error)
		return error;
	error = PMPI_Ibsend(stage.buffer, count, type, dest, tag, comm, request);
	return hpe_mpi_keep(&stage, NULL, *request, error, comm, "MPI_Ibsend");
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
	struct redirect redirect = { .data = NULL };
	struct stage stage;
	MPI_Comm from = comm;
	int error = begin_receive(&stage, buf, source == MPI_PROC_NULL ? 0 : count, type, WRITE, comm, "MPI_Irecv");

	if (error)
		return error;
	if (source != MPI_PROC_NULL)
		hpe_mpi_redirect(&redirect, &source, &tag, &from);
	error = PMPI_Irecv(stage.buffer, count, type, source, tag, from, request);
	return hpe_mpi_keep(&stage, &redirect, *request, error, comm, "MPI_Irecv");
}

int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	struct redirect redirect;
	struct stage stage;
	int error;

	if (*message == MPI_MESSAGE_NO_PROC)
		return PMPI_Imrecv(buf, count, type, message, request);
	error = begin_receive(&stage, buf, count, type, WRITE, MPI_COMM_NULL, "MPI_Imrecv");
	if (error)
		return error;
	hpe_mpi_redirect_message(&redirect, *message);
	error = PMPI_Imrecv(stage.buffer, count, type, message, request);
	return hpe_mpi_keep(&stage, &redirect, *request, error, MPI_COMM_NULL, "MPI_Imrecv");
}
