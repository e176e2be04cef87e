/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is kept of requests, for the calls that begin and end them. */
#ifndef GGAS_HPE_MPI_KEPT_H
#define GGAS_HPE_MPI_KEPT_H

#include "held.h"
#include "stage.h"

struct kept {
	struct kept *next;
	MPI_Request request;
	struct stage stage;
	/* Of collective calls: what is sent; then no status tells how much of the stage was written. */
	struct stage from;
	int collective;
	struct redirect redirect;
	/* Of a persistent request, which stays when it is complete: what the stage is used for at each start. */
	int persistent;
	enum use use;
};

/*
 * Takes what is kept of a request under way, before MPI may end the request: its handle may be another thread's at once. Libraries
 * give one handle to many requests that were complete at once; then any of them is as good. NULL: nothing. It is put back, or settled.
 */
struct kept *hpe_mpi_take(MPI_Request request);
void hpe_mpi_put(struct kept *kept);

/* Whether anything is kept of requests under way. */
int hpe_mpi_keeps_any(void);

/* Ends a request's stage; that of a persistent one until its next start. Returns the error. */
int hpe_mpi_settle(struct kept *kept, MPI_Status *status, int error, const char *call);

/* The same of persistent requests that are not started. */
struct kept *hpe_mpi_take_idle(MPI_Request request);
void hpe_mpi_put_idle(struct kept *kept);
int hpe_mpi_idles_any(void);

#endif
