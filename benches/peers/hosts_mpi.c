/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Half round trips between two ranks on different hosts by Open MPI, or another MPI: of messages, and of puts with a notification, which
 * is an empty message behind a flush. A line for each: what, bytes, median, and what a tenth stayed below, in microseconds.
 *
 * mpicc -O2 -Wall -Wextra hosts_mpi.c -o hosts_mpi && mpirun --host h1,h2 -n 2 hosts_mpi
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"

static int rank;
static char *from, *to; /* `to` is in the window */
static MPI_Win window;

static void send_message(size_t bytes)
{
	MPI_Send(from, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
}

static void take_message(size_t bytes)
{
	MPI_Recv(to, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void put(size_t bytes)
{
	MPI_Put(from, (int)bytes, MPI_BYTE, 1 - rank, 0, (int)bytes, MPI_BYTE, window);
	MPI_Win_flush(1 - rank, window);
	send_message(0);
}

static void take_put(size_t bytes)
{
	(void)bytes;
	take_message(0);
}

int main(int argc, char **argv)
{
	int size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2) {
		fprintf(stderr, "hosts_mpi takes two ranks, and not %d\n", size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	from = malloc(MOST);
	to = malloc(MOST);
	if (!from || !to)
		MPI_Abort(MPI_COMM_WORLD, 2);
	memset(from, 7, MOST);
	measure("message", rank, send_message, take_message);
	/* Not all components between hosts have windows. */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (MPI_Win_create(to, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS) {
		MPI_Win_lock_all(0, window);
		measure("put", rank, put, take_put);
		MPI_Win_unlock_all(window);
		MPI_Win_free(&window);
	} else if (rank == 0) {
		fprintf(stderr, "no windows: see ompi_info for components of osc\n");
	}
	free(from);
	free(to);
	MPI_Finalize();
	return 0;
}
