/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls beside messages: on neighbours, packing, files; and those that refuse memory of devices. */
#define _GNU_SOURCE
#include "devices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT(call) do { \
	MPI_Request request; \
	CHECK(!(call)); \
	CHECK(!MPI_Wait(&request, MPI_STATUS_IGNORE)); \
} while (0)

enum { N = 1000 };

/* A row of ranks: the first and the last lack a neighbour, whose part stays. `expect` is where a neighbour's values begin. */
static void came(int step, int expect_low, int expect_high)
{
	CHECK(!copy(back, b, 2 * step * sizeof(int)));
	for (int i = 0; i < N; i++) {
		CHECK(back[i] == (rank ? value(rank - 1, expect_low + i) : value(60, i)));
		CHECK(back[step + i] == (rank < size - 1 ? value(rank + 1, expect_high + i) : value(60, step + i)));
	}
	if (step > N)
		CHECK(back[N] == value(60, N));
}

static void neighbours(void)
{
	int none = 0, counts[2] = { N, N }, at[2] = { 0, N }, apart[2] = { 0, N + 3 };
	MPI_Aint bytes[2] = { 0, N * sizeof(int) }, far[2] = { 0, (N + 3) * sizeof(int) };
	MPI_Datatype types[2] = { MPI_INT, MPI_INT };
	MPI_Comm row;

	CHECK(!MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &none, 0, &row));
	fill(a, rank, 2 * N);
	for (int round = 0; round < 10; round++) {
		fill(b, 60, 3 * N);
		switch (round) {
		case 0:
			CHECK(!MPI_Neighbor_allgather(a, N, MPI_INT, b, N, MPI_INT, row));
			break;
		case 1:
			WAIT(MPI_Ineighbor_allgather(a, N, MPI_INT, b, N, MPI_INT, row, &request));
			break;
		case 2:
			CHECK(!MPI_Neighbor_allgatherv(a, N, MPI_INT, b, counts, apart, MPI_INT, row));
			break;
		case 3:
			WAIT(MPI_Ineighbor_allgatherv(a, N, MPI_INT, b, counts, apart, MPI_INT, row, &request));
			break;
		case 4:
			CHECK(!MPI_Neighbor_alltoall(a, N, MPI_INT, b, N, MPI_INT, row));
			break;
		case 5:
			WAIT(MPI_Ineighbor_alltoall(a, N, MPI_INT, b, N, MPI_INT, row, &request));
			break;
		case 6:
			CHECK(!MPI_Neighbor_alltoallv(a, counts, at, MPI_INT, b, counts, apart, MPI_INT, row));
			break;
		case 7:
			WAIT(MPI_Ineighbor_alltoallv(a, counts, at, MPI_INT, b, counts, apart, MPI_INT, row, &request));
			break;
		case 8:
			CHECK(!MPI_Neighbor_alltoallw(a, counts, bytes, types, b, counts, far, types, row));
			break;
		default:
			WAIT(MPI_Ineighbor_alltoallw(a, counts, bytes, types, b, counts, far, types, row, &request));
		}
		/* The lower neighbour sends its upper part here. */
		came(round < 2 || round == 4 || round == 5 ? N : N + 3, round < 4 ? 0 : N, 0);
	}
	MPI_Comm_free(&row);
}

static void types_for_each(void)
{
	int *counts = calloc(size, sizeof(int)), *displs = calloc(size, sizeof(int));
	MPI_Datatype *types = calloc(size, sizeof(MPI_Datatype));

	/* Nothing to oneself, and one element between the parts. */
	for (int i = 0; i < size; i++) {
		counts[i] = i == rank ? 0 : 10;
		displs[i] = i * 11 * (int)sizeof(int);
		types[i] = MPI_INT;
	}
	for (int round = 0; round < 2; round++) {
		fill(a, rank, N);
		fill(b, 60, N);
		if (round)
			WAIT(MPI_Ialltoallw(a, counts, displs, types, b, counts, displs, types, MPI_COMM_WORLD, &request));
		else
			CHECK(!MPI_Alltoallw(a, counts, displs, types, b, counts, displs, types, MPI_COMM_WORLD));
		CHECK(!copy(back, b, 4000));
		for (int i = 0; i < size * 11; i++)
			CHECK(back[i] == (i % 11 < 10 && i / 11 != rank ? value(i / 11, rank * 11 + i % 11) : value(60, i)));
	}
	free(counts);
	free(displs);
	free(types);
}

/* Columns packed behind a first word, on each side the device's memory or the host's. */
static void packing(void)
{
	int word = 4711, at, room = 1000 * sizeof(int), got = 0;
	MPI_Datatype column;

	CHECK(!MPI_Type_vector(100, 1, 10, MPI_INT, &column) && !MPI_Type_commit(&column));
	for (int round = 0; round < 4; round++) {
		void *packed = round & 1 ? (void *)b : (void *)back, *out = b + 2 * N;

		fill(a, rank, N);
		fill(b, 60, 4 * N);
		at = 0;
		CHECK(!MPI_Pack(&word, 1, MPI_INT, packed, room, &at, MPI_COMM_WORLD) && at == 4);
		CHECK(!MPI_Pack(round & 2 ? host : a, round & 2 ? 100 : 1, round & 2 ? MPI_INT : column, packed, room, &at,
				MPI_COMM_WORLD));
		CHECK(at == 404 && (!(round & 1) || (!copy(back, b, 408) && back[101] == value(60, 101))));
		at = 0;
		CHECK(!MPI_Unpack(packed, room, &at, &got, 1, MPI_INT, MPI_COMM_WORLD) && got == word);
		CHECK(!MPI_Unpack(packed, room, &at, out, 1, column, MPI_COMM_WORLD) && at == 404 && !copy(back, out, 4000));
		for (int i = 0; i < N; i++)
			CHECK(back[i] == (i % 10 ? value(60, 2 * N + i) : value(round & 2 ? 60 : rank, round & 2 ? i / 10 : i)));
	}
	MPI_Type_free(&column);
	fill(a, 3, N);
	fill(b, 2, N);
	CHECK(!MPI_Reduce_local(a, b, N, MPI_INT, MPI_MAX) && holds(b, 3, N));
}

/* A file in which each rank has `COUNT` elements, by calls with an offset, of a view, of all, and by requests. */
static void files(void)
{
	char name[] = "/tmp/ggas-hpe-mpi-XXXXXX";
	MPI_Offset mine = (MPI_Offset)rank * COUNT * (MPI_Offset)sizeof(int);
	MPI_Status status;
	MPI_File file;
	int got;

	if (!rank) {
		int made = mkstemp(name);

		CHECK(made >= 0 && !close(made));
	}
	CHECK(!MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD));
	CHECK(!MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	for (int round = 0; round < 4; round++) {
		fill(a, rank + round, COUNT);
		clear(b, COUNT);
		CHECK(!MPI_File_seek(file, mine, MPI_SEEK_SET) && !MPI_Barrier(MPI_COMM_WORLD));
		if (round == 0)
			CHECK(!MPI_File_write_at(file, mine, a, COUNT, MPI_INT, MPI_STATUS_IGNORE));
		if (round == 1)
			CHECK(!MPI_File_write_all(file, a, COUNT, MPI_INT, &status));
		if (round == 2)
			CHECK(!MPI_File_write(file, a, COUNT, MPI_INT, &status));
		if (round == 3)
			WAIT(MPI_File_iwrite_at(file, mine, a, COUNT, MPI_INT, &request));
		CHECK(!MPI_File_sync(file) && !MPI_Barrier(MPI_COMM_WORLD));
		CHECK(!MPI_File_seek(file, mine, MPI_SEEK_SET));
		if (round == 0)
			CHECK(!MPI_File_read(file, b, COUNT, MPI_INT, MPI_STATUS_IGNORE));
		if (round == 1)
			CHECK(!MPI_File_read_at(file, mine, b, COUNT, MPI_INT, &status));
		if (round == 2)
			CHECK(!MPI_File_read_at_all(file, mine, b, COUNT, MPI_INT, &status));
		if (round == 3)
			WAIT(MPI_File_iread_at(file, mine, b, COUNT, MPI_INT, &request));
		CHECK(holds(b, rank + round, COUNT));
	}
	/* At the file's end there is less; what is behind it in memory stays. */
	fill(b, 60, N);
	CHECK(!MPI_File_read_at(file, (MPI_Offset)size * COUNT * 4 - 400, b, N, MPI_INT, &status));
	CHECK(!MPI_Get_count(&status, MPI_INT, &got) && got == 100);
	CHECK(!MPI_File_read_at(file, (MPI_Offset)size * COUNT * 4 - 400, b, N, MPI_INT, MPI_STATUS_IGNORE));
	CHECK(!copy(back, b, 4000) && back[99] == value(size - 1 + 3, COUNT - 1));
	CHECK(back[100] == value(60, 100) && back[N - 1] == value(60, N - 1));
	/* Told, and the program goes on, as with MPI's own errors of files. */
	CHECK(MPI_File_write_all_begin(file, a, N, MPI_INT) == MPI_ERR_BUFFER);
	CHECK(MPI_File_write_at(file, 0, b + COUNT - 5, 10, MPI_INT, &status) == MPI_ERR_BUFFER);
	CHECK(!MPI_File_close(&file) && (rank || !unlink(name)));
}

void others(void)
{
	neighbours();
	types_for_each();
	packing();
	files();
}

/* What does not go gives an error. */
void refused(int *short_of)
{
	MPI_Request request;
	MPI_Win win;
	int *base;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Send(short_of, 100, MPI_INT, right, 0, MPI_COMM_WORLD) == MPI_ERR_BUFFER);
	CHECK(MPI_Send_init(short_of, 100, MPI_INT, right, 0, MPI_COMM_WORLD, &request) == MPI_ERR_BUFFER);
	CHECK(MPI_Recv_init(short_of, 100, MPI_INT, left, 0, MPI_COMM_WORLD, &request) == MPI_ERR_BUFFER);
	CHECK(MPI_Pack(a, 1, MPI_INT, short_of, 100, &(int){ 80 }, MPI_COMM_WORLD) != MPI_SUCCESS);
	CHECK(MPI_Win_create(a, 100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_ERR_BUFFER);
	CHECK(!MPI_Win_allocate(100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
	CHECK(!MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN) && !MPI_Win_fence(0, win));
	CHECK(MPI_Put(a, 1, MPI_INT, right, 0, 1, MPI_INT, win) == MPI_ERR_BUFFER);
	CHECK(MPI_Get(a, 1, MPI_INT, right, 0, 1, MPI_INT, win) == MPI_ERR_BUFFER);
	CHECK(MPI_Accumulate(a, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_SUM, win) == MPI_ERR_BUFFER);
	CHECK(MPI_Fetch_and_op(a, b, MPI_INT, right, 0, MPI_SUM, win) == MPI_ERR_BUFFER);
	CHECK(MPI_Compare_and_swap(host, host, b, MPI_INT, right, 0, win) == MPI_ERR_BUFFER);
	CHECK(!MPI_Win_fence(0, win) && !MPI_Win_free(&win));
}
