/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Staged buffers of requests that are not complete. */
#ifndef GGAS_HPE_MPI_REQUESTS_H
#define GGAS_HPE_MPI_REQUESTS_H

#include "held.h"
#include "stage.h"

/*
 * Keeps a stage until its request is complete; a stage of the host's own buffer is nothing to keep, unless a message in
 * parts may come. `redirect` (or NULL): what a receive takes. `error` is that of the call that began the request. Returns
 * the error, or MPI_ERR_NO_MEM.
 */
int hpe_mpi_keep(struct stage *stage, struct redirect *redirect, MPI_Request request, int error, MPI_Comm comm,
		 const char *call);

/*
 * Keeps both stages of a collective call that does not block. All of `to` is copied back, whatever a status says.
 */
int hpe_mpi_keep_both(struct stage *from, struct stage *to, MPI_Request request, int error, MPI_Comm comm, const char *call);

/*
 * Ends what is complete of requests that the program gave up (MPI_Request_free): lets memory go, and copies back what a
 * receive got.
 */
void hpe_mpi_reap_requests(void);

#endif
