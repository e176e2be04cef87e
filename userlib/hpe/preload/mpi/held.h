/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages of a letter's size that a probe met. Only who takes one sees whether it is a letter; then no receive finds it in MPI's own
 * queue any more, so receives look here first.
 */
#ifndef GGAS_HPE_MPI_HELD_H
#define GGAS_HPE_MPI_HELD_H

#include <mpi.h>

/* A message that comes from here, by way of this process itself. */
struct redirect {
	void *data;	/* NULL: none */
	MPI_Request sent;
	int source, tag;
};

/*
 * If a held message is what a receive would get: sends it again, on a communicator of this process alone, and has the
 * receive's arguments say so.
 */
void hpe_mpi_redirect(struct redirect *redirect, int *source, int *tag, MPI_Comm *comm);

/* Behind the receive: tells the true source and tag. */
void hpe_mpi_redirected(struct redirect *redirect, MPI_Status *status);

/* The same of a message that MPI_Mprobe gave. */
void hpe_mpi_redirect_message(struct redirect *redirect, MPI_Message message);

#endif
