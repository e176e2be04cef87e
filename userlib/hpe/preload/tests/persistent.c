/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Persistent requests: each start sends what the device has then, and each end puts what came into its memory. */
#define _GNU_SOURCE
#include "devices.h"

#include <stdlib.h>
#include <string.h>

enum { N = 3000, STARTS = 4, BYTES = (N + 1000) * sizeof(int) + MPI_BSEND_OVERHEAD };

/* By all ways to wait, and of no more elements than came. */
static void rounds(int count)
{
	MPI_Request both[2];
	MPI_Status statuses[2];

	CHECK(!MPI_Recv_init(b, COUNT, MPI_INT, left, 50, MPI_COMM_WORLD, &both[0]));
	CHECK(!MPI_Send_init(a, count, MPI_INT, right, 50, MPI_COMM_WORLD, &both[1]));
	/* Not started: complete, and nothing comes. */
	clear(b, COUNT);
	CHECK(!MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
	for (int round = 0; round < STARTS; round++) {
		int flag = 0, index, done, which[2], ended = 0;

		fill(a, 10 * round + rank, count);
		fill(b, 90, COUNT);
		if (round)
			CHECK(!MPI_Startall(2, both));
		else
			CHECK(!MPI_Start(&both[0]) && !MPI_Start(&both[1]));
		if (round == 0) {
			CHECK(!MPI_Wait(&both[0], &statuses[0]) && !MPI_Wait(&both[1], MPI_STATUS_IGNORE));
			CHECK(!MPI_Get_count(&statuses[0], MPI_INT, &done) && done == count && statuses[0].MPI_SOURCE == left);
		}
		if (round == 1)
			CHECK(!MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
		while (round == 2 && ended < 2) {
			CHECK(!MPI_Waitsome(2, both, &done, which, statuses) && done != MPI_UNDEFINED);
			ended += done;
		}
		while (round == 3 && !flag)
			CHECK(!MPI_Test(&both[0], &flag, MPI_STATUS_IGNORE));
		if (round == 3)
			CHECK(!MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE) && index == 1);
		CHECK(both[0] != MPI_REQUEST_NULL && both[1] != MPI_REQUEST_NULL);
		CHECK(holds(b, 10 * round + left, count) && !copy(back, b, sizeof(back)));
		CHECK(count == COUNT || (back[count] == value(90, count) && back[COUNT - 1] == value(90, COUNT - 1)));
	}
	CHECK(!MPI_Request_free(&both[0]) && !MPI_Request_free(&both[1]) && both[0] == MPI_REQUEST_NULL);
}

/* The other kinds of sends; a receive of columns whose datatype is gone; one from nobody. */
static void kinds(void)
{
	int (*init[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
		MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init,
	};
	MPI_Request all[4];
	MPI_Datatype column;
	void *buffer = malloc(BYTES);
	int size_of = BYTES;

	CHECK(buffer && !MPI_Buffer_attach(buffer, size_of));
	CHECK(!MPI_Type_vector(100, 1, 10, MPI_INT, &column) && !MPI_Type_commit(&column));
	CHECK(!MPI_Recv_init(a, 7, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &all[2]));
	CHECK(!MPI_Send_init(a, 7, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &all[3]));
	CHECK(!MPI_Recv_init(b, 1, column, left, 51, MPI_COMM_WORLD, &all[0]));
	MPI_Type_free(&column);
	for (int kind = 0; kind < 3; kind++) {
		CHECK(!init[kind](a, 100, MPI_INT, right, 51, MPI_COMM_WORLD, &all[1]));
		fill(a, rank + kind, 1000);
		fill(b, 50, 1000);
		/* The receives are there when the sends begin: those of Rsend_init ask for it. */
		CHECK(!MPI_Start(&all[0]) && !MPI_Barrier(MPI_COMM_WORLD) && !MPI_Startall(3, all + 1));
		CHECK(!MPI_Waitall(4, all, MPI_STATUSES_IGNORE) && !copy(back, b, 4000));
		for (int i = 0; i < 1000; i++)
			CHECK(back[i] == (i % 10 ? value(50, i) : value(left + kind, i / 10)));
		CHECK(holds(a, rank + kind, 1000) && !MPI_Request_free(&all[1]));
	}
	for (int i = 0; i < 4; i++)
		CHECK(i == 1 || !MPI_Request_free(&all[i]));
	CHECK(!MPI_Ibsend(a, N, MPI_INT, right, 52, MPI_COMM_WORLD, &all[0]));
	CHECK(!MPI_Recv(b, N, MPI_INT, left, 52, MPI_COMM_WORLD, MPI_STATUS_IGNORE) && !MPI_Wait(&all[0], MPI_STATUS_IGNORE));
	CHECK(holds(b, left + 2, 1000) && !MPI_Buffer_detach(&buffer, &size_of));
	free(buffer);
}

/* Requests that are freed while they are under way, of which nothing stays; one that is cancelled writes nothing. */
static void ended_otherwise(void)
{
	size_t before = allocated();
	MPI_Request request;
	double since;

	fill(a, rank, COUNT);
	for (int round = 0; round < 6; round++) {
		CHECK(!MPI_Recv_init(b, COUNT, MPI_INT, left, 53, MPI_COMM_WORLD, &request));
		clear(b, COUNT);
		CHECK(!MPI_Start(&request) && !MPI_Request_free(&request) && request == MPI_REQUEST_NULL);
		CHECK(!MPI_Send(a, COUNT, MPI_INT, right, 53, MPI_COMM_WORLD));
		for (since = MPI_Wtime(); !holds(b, left, COUNT);) {
			CHECK(MPI_Wtime() - since < 120);
			CHECK(!MPI_Sendrecv(a, 1, MPI_INT, rank, 54, a, 1, MPI_INT, rank, 54, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		}
	}
	CHECK(allocated() < before + 3 * sizeof(host));
	fill(b, 90, N);
	CHECK(!MPI_Recv_init(b, N, MPI_INT, left, 55, MPI_COMM_WORLD, &request) && !MPI_Start(&request));
	CHECK(!MPI_Cancel(&request) && !MPI_Wait(&request, MPI_STATUS_IGNORE) && holds(b, 90, N));
	CHECK(!MPI_Request_free(&request));
}

/* A message that may come in parts, for a persistent receive of a device and one of the host. */
static void long_ones(void)
{
	MPI_Status status;
	MPI_Request request;
	int got;

	for (int of_host = 0; of_host < 2; of_host++) {
		CHECK(!MPI_Recv_init(of_host ? back : b, COUNT, MPI_INT, left, 56, MPI_COMM_WORLD, &request));
		for (int round = 0; round < 2; round++) {
			MPI_Request sent;

			fill(a, rank + round, COUNT);
			clear(b, COUNT);
			CHECK(!MPI_Start(&request) && !MPI_Isend(a, COUNT, MPI_INT, right, 56, MPI_COMM_WORLD, &sent));
			CHECK(!MPI_Wait(&request, &status) && !MPI_Get_count(&status, MPI_INT, &got) && got == COUNT);
			CHECK(of_host ? back[COUNT - 1] == value(left + round, COUNT - 1) : holds(b, left + round, COUNT));
			CHECK(!MPI_Wait(&sent, MPI_STATUS_IGNORE));
		}
		/* Behind one in parts a short one. */
		fill(a, rank + 2, N);
		CHECK(!MPI_Start(&request) && !MPI_Send(a, N, MPI_INT, right, 56, MPI_COMM_WORLD));
		CHECK(!MPI_Wait(&request, MPI_STATUS_IGNORE));
		CHECK(of_host ? back[N - 1] == value(left + 2, N - 1) : holds(b, left + 2, N));
		CHECK(!MPI_Request_free(&request));
	}
}

void persistent(void)
{
	rounds(N);
	rounds(COUNT);
	kinds();
	ended_otherwise();
	long_ones();
}
