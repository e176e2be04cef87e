/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What MPI promises, though messages go in parts; rank 0 sends, rank 1 receives. */
#define _GNU_SOURCE
#include "devices.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies go on though a program has as many pinned buffers as it gets. */
void pinned(void)
{
	void *taken[64];
	size_t bytes;
	int n = 0, file = open("/dev/zero", O_RDONLY);

	while (n < 64 && (taken[n] = take_pinned(&bytes)))
		n++;
	CHECK(n > 0 && file >= 0);
	/* By such buffers; who waits for ever is ended. */
	alarm(300);
	CHECK(read(file, a, 1 << 20) == 1 << 20);
	alarm(0);
	close(file);
	while (n)
		CHECK(!return_pinned(taken[--n]));
}

/* A square matrix that fills its extent, and is sent by columns. */
static MPI_Datatype transposed(void)
{
	MPI_Datatype column, matrix;

	CHECK(!MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &column));
	CHECK(!MPI_Type_create_hvector(SIDE, 1, sizeof(int), column, &matrix) && !MPI_Type_commit(&matrix));
	MPI_Type_free(&column);
	return matrix;
}

/* What is sent and received in another order than it lies in: whole and a few elements, by devices and the host. */
void orders(void)
{
	MPI_Datatype matrix = transposed();
	int all = SIDE * SIDE;

	if (rank == 0) {
		fill(a, 0, all);
		CHECK(!MPI_Send(a, 1, matrix, 1, 20, MPI_COMM_WORLD));
		CHECK(!MPI_Send(a, all, MPI_INT, 1, 20, MPI_COMM_WORLD));
		CHECK(!MPI_Send(a, all, MPI_INT, 1, 20, MPI_COMM_WORLD));
		CHECK(!MPI_Send(a, 10, MPI_INT, 1, 20, MPI_COMM_WORLD));
	}
	for (int round = 0; round < 3 && rank == 1; round++) {
		void *to = round == 2 ? (void *)host : (void *)b;

		clear(b, all);
		CHECK(!MPI_Recv(to, round ? 1 : all, round ? matrix : MPI_INT, 0, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		CHECK(round == 2 || !copy(host, b, sizeof(int) * all));
		for (int i = 0; i < all; i++)
			CHECK(host[i] == value(0, i % SIDE * SIDE + i / SIDE));
	}
	if (rank == 1) {
		fill(b, 9, all);
		CHECK(!MPI_Recv(b, 1, matrix, 0, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE) && !copy(back, b, sizeof(int) * all));
		for (int i = 0; i < 10; i++)
			CHECK(back[i * SIDE] == value(0, i) && back[i * SIDE + 1] == value(9, i * SIDE + 1));
	}
	MPI_Type_free(&matrix);
}

/* Broadcasts of datatypes: of one element as long as all, of rows here and elements there, of columns. */
void broadcasts(void)
{
	MPI_Datatype one, row, matrix = transposed();
	int rows = 1300;

	CHECK(!MPI_Type_contiguous(COUNT, MPI_INT, &one) && !MPI_Type_commit(&one));
	CHECK(!MPI_Type_contiguous(1000, MPI_INT, &row) && !MPI_Type_commit(&row));
	fill(a, rank, COUNT);
	CHECK(!MPI_Bcast(a, 1, one, 1, MPI_COMM_WORLD) && holds(a, 1, COUNT));
	fill(a, rank, COUNT);
	CHECK(!MPI_Bcast(a, rank ? rows * 1000 : rows, rank ? MPI_INT : row, 0, MPI_COMM_WORLD) && holds(a, 0, rows * 1000));
	fill(a, rank, COUNT);
	CHECK(!MPI_Bcast(a, rows, row, 1, MPI_COMM_WORLD) && holds(a, 1, rows * 1000));
	fill(a, rank, SIDE * SIDE);
	CHECK(!MPI_Bcast(a, rank ? 1 : SIDE * SIDE, rank ? matrix : MPI_INT, 0, MPI_COMM_WORLD) && !copy(back, a, sizeof(back)));
	for (int i = 0; i < SIDE * SIDE; i++)
		CHECK(back[i] == value(0, rank ? i % SIDE * SIDE + i / SIDE : i));
	MPI_Type_free(&one);
	MPI_Type_free(&row);
	MPI_Type_free(&matrix);
}

/* A long message is not sent before it is received: rank 1 says when, in memory that both see. */
void waits(void)
{
	atomic_int *word;
	double until;
	int unit;
	MPI_Aint bytes;
	MPI_Win win;

	CHECK(!MPI_Win_allocate_shared(rank ? 0 : sizeof(*word), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win));
	CHECK(!MPI_Win_shared_query(win, 0, &bytes, &unit, &word));
	if (rank == 0)
		atomic_store(word, 0);
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	if (rank == 0) {
		CHECK(!MPI_Send(a, COUNT, MPI_INT, 1, 21, MPI_COMM_WORLD));
		CHECK(atomic_load(word) == 1);
	}
	if (rank == 1) {
		/* Long enough that a sender who waits for a time only goes on: who waits for the receive never does. */
		for (until = MPI_Wtime() + 0.1; MPI_Wtime() < until;)
			sched_yield();
		atomic_store(word, 1);
		CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	}
	CHECK(!MPI_Win_free(&win));
}

/* A probe of one tag leaves the order of all: of a short message, a long one, and one in parts, which it meets. */
void overtaken(void)
{
	MPI_Request requests[2];
	MPI_Message message;
	MPI_Status status;
	char text[LETTER] = "no letter";
	int count;

	if (rank == 0) {
		fill(a, 0, COUNT);
		CHECK(!MPI_Isend(a, 5, MPI_INT, 1, 22, MPI_COMM_WORLD, &requests[0]));
		CHECK(!MPI_Isend(a, COUNT, MPI_INT, 1, 23, MPI_COMM_WORLD, &requests[1]));
		CHECK(!MPI_Send(a, COUNT - 1, MPI_INT, 1, 24, MPI_COMM_WORLD));
		CHECK(!MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
		CHECK(!MPI_Send(text, LETTER, MPI_CHAR, 1, 25, MPI_COMM_WORLD));
	}
	if (rank != 1)
		return;
	CHECK(!MPI_Probe(0, 24, MPI_COMM_WORLD, &status) && counted(&status) == COUNT - 1);
	for (int i = 0; i < 3; i++) {
		clear(b, COUNT);
		CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status) && status.MPI_TAG == 22 + i);
		count = counted(&status);
		CHECK(count == (i == 0 ? 5 : i == 1 ? COUNT : COUNT - 1) && holds(b, 0, count));
	}
	/* As long as a letter, by a matched probe and a receive that does not block. */
	memset(text, 0, sizeof(text));
	CHECK(!MPI_Mprobe(0, 25, MPI_COMM_WORLD, &message, &status));
	CHECK(!MPI_Imrecv(text, LETTER, MPI_CHAR, &message, &requests[0]) && !MPI_Wait(&requests[0], &status));
	CHECK(!strcmp(text, "no letter") && status.MPI_TAG == 25 && !MPI_Get_count(&status, MPI_CHAR, &count) && count == LETTER);
}

/* From memory of the host to that of devices and of the host, which its owner may use again at once. */
void from_host(void)
{
	int *own = malloc(sizeof(host));
	MPI_Status status;

	CHECK(own);
	for (int round = 0; round < 4; round++) {
		int to_device = round < 2;

		if (rank == 0) {
			for (int i = 0; i < COUNT; i++)
				own[i] = value(round, i);
			CHECK(!(round & 1 ? MPI_Ssend : MPI_Send)(own, COUNT, MPI_INT, 1, 26, MPI_COMM_WORLD));
			memset(own, 0, sizeof(host));
		}
		if (rank != 1)
			continue;
		clear(b, COUNT);
		CHECK(!MPI_Recv(to_device ? b : own, COUNT, MPI_INT, 0, 26, MPI_COMM_WORLD, &status));
		CHECK(counted(&status) == COUNT);
		CHECK(!to_device || holds(b, round, COUNT));
		for (int i = 0; i < COUNT && !to_device; i++)
			CHECK(own[i] == value(round, i));
	}
	for (int i = 0; i < COUNT; i++)
		own[i] = value(rank, i);
	clear(b, COUNT);
	CHECK(!MPI_Sendrecv(own, COUNT, MPI_INT, right, 27, b, COUNT, MPI_INT, left, 27, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(holds(b, left, COUNT));
	free(own);
}

/*
 * Sends that do not block: one is not complete before its receive begins, and goes on while its process is in another
 * call. By the largest tag that MPI promises, and from all to all at once, of which some are waited for in another order.
 */
void not_blocking(void)
{
	enum { MANY = 6 };
	MPI_Request request, all[2 * MANY];
	int flag = 0, go = 1, each = COUNT / MANY;

	fill(a, rank, COUNT);
	if (rank == 0) {
		CHECK(!MPI_Issend(a, COUNT, MPI_INT, 1, 32767, MPI_COMM_WORLD, &request));
		CHECK(!MPI_Test(&request, &flag, MPI_STATUS_IGNORE) && !flag);
		CHECK(!MPI_Send(&go, 1, MPI_INT, 1, 28, MPI_COMM_WORLD));
	}
	if (rank == 1) {
		clear(b, COUNT);
		CHECK(!MPI_Recv(&go, 1, MPI_INT, 0, 28, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, 32767, MPI_COMM_WORLD, MPI_STATUS_IGNORE) && holds(b, 0, COUNT));
	}
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	CHECK(rank || !MPI_Wait(&request, MPI_STATUS_IGNORE));
	clear(b, COUNT);
	fill(a, rank, COUNT);
	for (int i = 0; i < MANY; i++) {
		CHECK(!MPI_Isend(a + i * each, each, MPI_INT, right, i, MPI_COMM_WORLD, &all[MANY + i]));
		CHECK(!MPI_Irecv(b + i * each, each, MPI_INT, left, i, MPI_COMM_WORLD, &all[i]));
	}
	CHECK(!MPI_Wait(&all[MANY - 1], MPI_STATUS_IGNORE) && !MPI_Wait(&all[2 * MANY - 1], MPI_STATUS_IGNORE));
	CHECK(!MPI_Waitall(2 * MANY, all, MPI_STATUSES_IGNORE) && holds(b, left, MANY * each));
	/* What was sent may be written again. */
	clear(a, COUNT);
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
}

size_t allocated(void)
{
	struct mallinfo2 now = mallinfo2();

	return now.uordblks + now.hblkhd;
}

/* Requests that nobody waits for: what is sent comes, what is received is in the device's memory, and nothing stays. */
void given_up(void)
{
	enum { MESSAGES = 6 };
	MPI_Request request;
	size_t before = allocated();
	double since;

	fill(a, rank, COUNT);
	clear(b, COUNT);
	CHECK(!MPI_Irecv(b, COUNT, MPI_INT, left, 40, MPI_COMM_WORLD, &request) && !MPI_Request_free(&request));
	CHECK(request == MPI_REQUEST_NULL);
	for (int i = 0; i < MESSAGES; i++) {
		CHECK(!MPI_Isend(a, COUNT, MPI_INT, right, 40, MPI_COMM_WORLD, &request) && !MPI_Request_free(&request));
		if (i)
			CHECK(!MPI_Recv(host, COUNT, MPI_INT, left, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		CHECK(!i || host[COUNT - 1] == value(left, COUNT - 1));
	}
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	/* Calls with memory of devices look after them. */
	for (since = MPI_Wtime(); !holds(b, left, COUNT) || allocated() > before + 2 * sizeof(host);) {
		CHECK(MPI_Wtime() - since < 120);
		CHECK(!MPI_Sendrecv(a, 1, MPI_INT, rank, 41, a, 1, MPI_INT, rank, 41, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		sched_yield();
	}
}
