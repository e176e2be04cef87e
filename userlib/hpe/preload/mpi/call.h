/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A collective call whose buffers may be devices': staged whole on both sides. */
#ifndef GGAS_HPE_MPI_CALL_H
#define GGAS_HPE_MPI_CALL_H

#include "stage.h"

/* One call: its two buffers. Those of the host, MPI_IN_PLACE, and those that mean nothing at this rank stay as they are. */
struct call {
	const char *name;
	MPI_Comm comm;
	struct stage from, to;
	int error;
};

struct call hpe_mpi_call(const char *name, MPI_Comm comm, const void *from, const void *to);

/* Stages one of the buffers: `parts` counts at `displs`, or `count` elements where there are none. */
void hpe_mpi_stage(struct call *call, struct stage *stage, MPI_Count count, int parts, const int *counts,
		   const int *displs, MPI_Datatype type, enum use use);

/* Stages bytes of one of them; parts of a datatype each, at displacements in bytes, which are `displs` or `far`. */
void hpe_mpi_stage_bytes(struct call *call, struct stage *stage, MPI_Aint start, MPI_Aint end, enum use use);
void hpe_mpi_stage_types(struct call *call, struct stage *stage, int parts, const int *counts, const int *displs,
			 const MPI_Aint *far, const MPI_Datatype *types, enum use use);

/* Ends the stages behind a call that had this error; behind one that does not block, when its request is complete. */
int hpe_mpi_finish(struct call *call, int error);
int hpe_mpi_begun(struct call *call, int error, MPI_Request *request);

int hpe_mpi_size(MPI_Comm comm);
int hpe_mpi_rank(MPI_Comm comm);

/* What a receiving buffer is read for: with MPI_IN_PLACE it holds this rank's part. */
static inline enum use result(const void *from)
{
	return from == MPI_IN_PLACE ? READ | WRITE : WRITE;
}

/* Makes a call unless its buffers could not be staged. */
#define MAKE(call, made) hpe_mpi_finish(&(call), (call).error ? (call).error : (made))
#define START(call, made) hpe_mpi_begun(&(call), (call).error ? (call).error : (made), request)

#define FROM(count, type) hpe_mpi_stage(&call, &call.from, count, 0, NULL, NULL, type, READ)
#define TO(count, type, use) hpe_mpi_stage(&call, &call.to, count, 0, NULL, NULL, type, use)
#define FROM_PARTS(counts, displs, type) \
	hpe_mpi_stage(&call, &call.from, 0, hpe_mpi_size(comm), counts, displs, type, READ)
/* Other ranks' parts may leave gaps, which stay: all is read. */
#define TO_PARTS(counts, displs, type) \
	hpe_mpi_stage(&call, &call.to, 0, hpe_mpi_size(comm), counts, displs, type, READ | WRITE)

#endif
