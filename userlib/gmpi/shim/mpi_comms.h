/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What mpi_carrier.c and mpi_comms.c share, and nobody else: the shim's names are among those of the program. */
#ifndef GGAS_MPI_COMMS_H
#define GGAS_MPI_COMMS_H

#include <mpi.h>

#pragma GCC visibility push(hidden)

extern MPI_Comm *comms;
/* What kernels do not know: messages of hosts go through it. */
extern MPI_Comm plain;
/* Of this process, for its windows. */
extern MPI_Comm alone;

/* `window` is MPI_WIN_NULL where the process is its only member: Open MPI 4.1 has no windows of one member (MPI_ERR_WIN). */
struct win {
	MPI_Win window;
	char *base;
};

extern struct win *wins;

/* The error class of GMPI for an MPI error. */
int class_of(int error);

#pragma GCC visibility pop

#endif /* GGAS_MPI_COMMS_H */
