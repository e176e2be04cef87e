// SPDX-License-Identifier: MIT OR Apache-2.0
/* Messages and other operations of the daemon, by the MPI library whose mpicc compiles this; mpi_comms.c has what they go through. */
#include <mpi.h>

#include <stdlib.h>
#include <string.h>

#include "gmpi_layout.h"
#include "mpi_carrier.h"
#include "mpi_comms.h"

static MPI_Request *requests;
static uint64_t request_room;

static MPI_Datatype type_of(int type)
{
	switch (type) {
	case GMPI_CHAR: return MPI_CHAR;
	case GMPI_SIGNED_CHAR: return MPI_SIGNED_CHAR;
	case GMPI_UNSIGNED_CHAR: return MPI_UNSIGNED_CHAR;
	case GMPI_SHORT: return MPI_SHORT;
	case GMPI_UNSIGNED_SHORT: return MPI_UNSIGNED_SHORT;
	case GMPI_INT: return MPI_INT;
	case GMPI_UNSIGNED: return MPI_UNSIGNED;
	case GMPI_LONG: return MPI_LONG;
	case GMPI_UNSIGNED_LONG: return MPI_UNSIGNED_LONG;
	case GMPI_LONG_LONG: return MPI_LONG_LONG;
	case GMPI_UNSIGNED_LONG_LONG: return MPI_UNSIGNED_LONG_LONG;
	case GMPI_FLOAT: return MPI_FLOAT;
	case GMPI_DOUBLE: return MPI_DOUBLE;
	default: return MPI_BYTE;
	}
}

static MPI_Op op_of(int op)
{
	switch (op) {
	case GMPI_MAX: return MPI_MAX;
	case GMPI_MIN: return MPI_MIN;
	case GMPI_PROD: return MPI_PROD;
	case GMPI_LAND: return MPI_LAND;
	case GMPI_BAND: return MPI_BAND;
	case GMPI_LOR: return MPI_LOR;
	case GMPI_BOR: return MPI_BOR;
	case GMPI_LXOR: return MPI_LXOR;
	case GMPI_BXOR: return MPI_BXOR;
	default: return MPI_SUM;
	}
}

/* A place for a request. */
static int free_request(uint64_t *number)
{
	uint64_t room = request_room ? 2 * request_room : 64;
	MPI_Request *more;

	for (*number = 0; *number < request_room; (*number)++)
		if (requests[*number] == MPI_REQUEST_NULL)
			return GMPI_SUCCESS;
	more = realloc(requests, room * sizeof(*requests));
	if (!more)
		return GMPI_ERR_INTERN;
	for (uint64_t i = request_room; i < room; i++)
		more[i] = MPI_REQUEST_NULL;
	requests = more;
	request_room = room;
	return GMPI_SUCCESS;
}

/* A put or get of a process to itself, over at once: a message, as the library may have to copy GPU memory. Its request is a send to nobody. */
static int start_alone(const struct gmpi_shim_call *call, MPI_Request *request)
{
	char *part = wins[call->comm].base + call->displacement;
	int puts = call->kind == GMPI_SHIM_PUT;
	int error = MPI_Sendrecv(puts ? call->from : part, call->count, MPI_BYTE, 0, 0, puts ? part : call->to, call->count, MPI_BYTE, 0, 0,
				 alone, MPI_STATUS_IGNORE);

	return error != MPI_SUCCESS ? error : MPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, alone, request);
}

static int start(const struct gmpi_shim_call *call, MPI_Request *request)
{
	const void *from = call->from ? call->from : MPI_IN_PLACE;
	MPI_Datatype type = type_of(call->type);
	int one_sided = call->kind == GMPI_SHIM_PUT || call->kind == GMPI_SHIM_GET;
	MPI_Comm comm = one_sided ? MPI_COMM_NULL : comms[call->comm];
	int any = call->tag == GMPI_ANY_TAG ? MPI_ANY_TAG : call->tag;
	int count = call->count;

	if (one_sided && wins[call->comm].window == MPI_WIN_NULL)
		return start_alone(call, request);
	switch (call->kind) {
	case GMPI_SHIM_SEND:
		return MPI_Isend(call->from, count, type, call->rank, call->tag, comm, request);
	case GMPI_SHIM_RECV:
		return MPI_Irecv(call->to, count, type, call->rank == GMPI_ANY_SOURCE ? MPI_ANY_SOURCE : call->rank, any, comm,
				 request);
	case GMPI_SHIM_BARRIER:
		return MPI_Ibarrier(comm, request);
	case GMPI_SHIM_BCAST:
		return MPI_Ibcast(call->to, count, type, call->rank, comm, request);
	case GMPI_SHIM_REDUCE:
		return MPI_Ireduce(from, call->to, count, type, op_of(call->op), call->rank, comm, request);
	case GMPI_SHIM_ALLREDUCE:
		return MPI_Iallreduce(from, call->to, count, type, op_of(call->op), comm, request);
	case GMPI_SHIM_ALLGATHER:
		return MPI_Iallgather(from, count, type, call->to, count, type, comm, request);
	case GMPI_SHIM_ALLTOALL:
		return MPI_Ialltoall(from, count, type, call->to, count, type, comm, request);
	/* At the root the block that a gather takes, and that a scatter leaves, may be in place; elsewhere that is no buffer. */
	case GMPI_SHIM_GATHER:
		return MPI_Igather(from, count, type, call->to, count, type, call->rank, comm, request);
	case GMPI_SHIM_SCATTER:
		return MPI_Iscatter(call->from, count, type, call->to ? call->to : MPI_IN_PLACE, count, type, call->rank, comm, request);
	case GMPI_SHIM_PUT:
		return MPI_Rput(call->from, count, MPI_BYTE, call->rank, (MPI_Aint)call->displacement, count, MPI_BYTE,
				wins[call->comm].window, request);
	case GMPI_SHIM_GET:
		return MPI_Rget(call->to, count, MPI_BYTE, call->rank, (MPI_Aint)call->displacement, count, MPI_BYTE,
				wins[call->comm].window, request);
	default:
		return MPI_ERR_ARG;
	}
}

/* The caller has checked communicators and windows. */
int gmpi_shim_start(const struct gmpi_shim_call *call, uint64_t *number)
{
	int error = free_request(number);

	if (error)
		return error;
	error = start(call, &requests[*number]);
	if (error != MPI_SUCCESS)
		requests[*number] = MPI_REQUEST_NULL;
	return class_of(error);
}

static void tell(struct gmpi_shim_status *out, const MPI_Status *status)
{
	MPI_Count bytes = 0;

	out->source = status->MPI_SOURCE == MPI_ANY_SOURCE ? GMPI_ANY_SOURCE : status->MPI_SOURCE;
	out->tag = status->MPI_TAG == MPI_ANY_TAG ? GMPI_ANY_TAG : status->MPI_TAG;
	/* A count that is an int has no more than 2 GiB, and what is told here is what is stored. */
	MPI_Get_elements_x(status, MPI_BYTE, &bytes);
	out->bytes = bytes == MPI_UNDEFINED ? 0 : bytes;
}

int gmpi_shim_test(uint64_t number, int32_t *over, struct gmpi_shim_status *out)
{
	MPI_Status status;
	int error;

	memset(&status, 0, sizeof(status));
	*over = 0;
	error = MPI_Test(&requests[number], over, &status);
	if (error != MPI_SUCCESS) {
		*over = 1;
		requests[number] = MPI_REQUEST_NULL;
		return class_of(error);
	}
	if (*over)
		tell(out, &status);
	return GMPI_SUCCESS;
}

/* Gives a receive up; anything else goes on. */
void gmpi_shim_forget(uint64_t number, int32_t receives)
{
	if (requests[number] == MPI_REQUEST_NULL)
		return;
	if (receives)
		MPI_Cancel(&requests[number]);
	MPI_Request_free(&requests[number]);
}

/* Blocking calls, as a host program makes them, on a communicator that kernels do not know. */
int gmpi_shim_send(const void *from, int bytes, int rank)
{
	return class_of(MPI_Send(from, bytes, MPI_BYTE, rank, 0, plain));
}

int gmpi_shim_receive(void *to, int bytes, int rank)
{
	return class_of(MPI_Recv(to, bytes, MPI_BYTE, rank, 0, plain, MPI_STATUS_IGNORE));
}

int gmpi_shim_probe(int comm, int rank, int tag, int32_t *found, struct gmpi_shim_status *out)
{
	MPI_Status status;
	int error = MPI_Iprobe(rank == GMPI_ANY_SOURCE ? MPI_ANY_SOURCE : rank, tag == GMPI_ANY_TAG ? MPI_ANY_TAG : tag,
			       comms[comm], found, &status);

	if (error == MPI_SUCCESS && *found)
		tell(out, &status);
	return class_of(error);
}
