/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Persistent requests: what is sent is copied to memory of the host at each start, and what came from there when it is complete. */
#include <stdlib.h>

#include "ggas_hpe.h"
#include "kept.h"
#include "pipe.h"

/* Keeps a stage for a persistent request, until that is freed: `error` is that of the call that made it. */
static int keep(struct stage *stage, MPI_Request request, int error, MPI_Comm comm, const char *call)
{
	struct kept *kept;

	if (error || (!stage->host && !stage->capacity)) {
		free(stage->host);
		return error;
	}
	kept = calloc(1, sizeof(*kept));
	if (!kept) {
		PMPI_Request_free(&request);
		free(stage->host);
		return hpe_mpi_fail(comm, MPI_ERR_NO_MEM, call, "no memory for a request");
	}
	kept->request = request;
	kept->stage = *stage;
	kept->use = stage->use;
	kept->persistent = 1;
	/* The program may free its own while the request is there. */
	if (stage->capacity && !stage->dense)
		PMPI_Type_dup(stage->type, &kept->stage.type);
	hpe_mpi_put_idle(kept);
	return MPI_SUCCESS;
}

/* A stage that is copied in by each start. A device's memory that is freed or too short is told now, as nothing is copied yet. */
static int prepare(struct stage *stage, const void *buf, int count, MPI_Datatype type, int peer, enum use use, MPI_Comm comm,
		   const char *call)
{
	struct range range;
	int size, error, device = hpe_mpi_is_device(buf);

	*stage = (struct stage){ .buffer = (void *)buf };
	if (count <= 0 || peer == MPI_PROC_NULL || buf == MPI_BOTTOM || (!device && (use == READ || !hpe_mpi_part())))
		return MPI_SUCCESS;
	error = hpe_mpi_range(count, type, &range);
	if (error && device)
		return hpe_mpi_fail(comm, error, call, "this datatype does not go with memory of a device");
	/* Of the host's MPI says it. */
	if (error)
		return MPI_SUCCESS;
	error = hpe_mpi_reserve(stage, buf, &range, use);
	if (!error && stage->host && !ggas_hpe_holds(stage->device, stage->bytes))
		error = MPI_ERR_BUFFER;
	if (error) {
		free(stage->host);
		return hpe_mpi_fail(comm, error, call, "cannot use the device's memory: freed, too short, or none left here");
	}
	/* A message in parts may come, whatever the buffer. */
	if (use == WRITE && !PMPI_Type_size(type, &size) && hpe_mpi_is_long((size_t)count * (size_t)size)) {
		stage->capacity = (size_t)count * (size_t)size;
		stage->start = range.start;
		stage->type = type;
	}
	return MPI_SUCCESS;
}

#define INIT(name, constant, use) \
int MPI_##name(constant void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request) \
{ \
	struct stage stage; \
	int error = prepare(&stage, buf, count, type, peer, use, comm, "MPI_" #name); \
\
	if (error) \
		return error; \
	error = PMPI_##name(stage.buffer, count, type, peer, tag, comm, request); \
	return keep(&stage, *request, error, comm, "MPI_" #name); \
}

INIT(Send_init, const, READ)
INIT(Ssend_init, const, READ)
INIT(Rsend_init, const, READ)
INIT(Bsend_init, const, READ)
INIT(Recv_init, , WRITE)

/* What a start of a persistent request needs: its bytes as they are now. */
static int ready(struct kept *kept, const char *call)
{
	int error;

	kept->stage.use = kept->use;
	error = hpe_mpi_refresh(&kept->stage);
	return error ? hpe_mpi_fail(MPI_COMM_NULL, error, call, "cannot copy from the device's memory: freed, or too short") : error;
}

/* Behind a start: MPI may have given the request another handle. */
static void started(struct kept *kept, MPI_Request request, int error)
{
	if (!error)
		kept->request = request;
	if (error)
		hpe_mpi_put_idle(kept);
	else
		hpe_mpi_put(kept);
}

int MPI_Start(MPI_Request *request)
{
	struct kept *kept = hpe_mpi_take_idle(*request);
	int error;

	if (!kept)
		return PMPI_Start(request);
	error = ready(kept, "MPI_Start");
	if (!error)
		error = PMPI_Start(request);
	started(kept, *request, error);
	return error;
}

int MPI_Startall(int n, MPI_Request requests[])
{
	struct kept **kept = n > 0 && hpe_mpi_idles_any() ? calloc((size_t)n, sizeof(*kept)) : NULL;
	int error = MPI_SUCCESS;

	if (!kept && n > 0 && hpe_mpi_idles_any())
		return hpe_mpi_fail(MPI_COMM_NULL, MPI_ERR_NO_MEM, "MPI_Startall", "no memory for requests");
	for (int i = 0; kept && i < n && !error; i++)
		if ((kept[i] = hpe_mpi_take_idle(requests[i])))
			error = ready(kept[i], "MPI_Startall");
	/* None is started where one cannot be. */
	if (!error)
		error = PMPI_Startall(n, requests);
	for (int i = 0; kept && i < n; i++)
		if (kept[i])
			started(kept[i], requests[i], error);
	free(kept);
	return error;
}
