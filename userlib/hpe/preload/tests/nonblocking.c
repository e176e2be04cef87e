/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collective calls that do not block: several under way at once, and each is whole when its request is complete. */
#define _GNU_SOURCE
#include "devices.h"

#include <stdlib.h>

enum { N = 10000 };

/* The values of all ranks, summed. */
static int sum_of(int i)
{
	return size * (size - 1) / 2 * 7919 + size * (i * 31 + 5);
}

static int holds_sums(int *device)
{
	CHECK(copy(back, device, N * sizeof(int)) == 0);
	for (int i = 0; i < N; i++)
		if (back[i] != sum_of(i))
			return 0;
	return 1;
}

/* Four at once; the first half of `b` is theirs. */
static void at_once(void)
{
	int *sums = b, *in_place = b + N, *all = b + 2 * N, *root = b + 3 * N, flag = 0;
	MPI_Request requests[4];

	fill(a, rank, COUNT);
	clear(b, 5 * N);
	fill(in_place, rank, N);
	fill(root, rank, N);
	CHECK(!MPI_Iallreduce(a, sums, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
	CHECK(!MPI_Iallreduce(MPI_IN_PLACE, in_place, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
	CHECK(!MPI_Iallgather(a, PARTS, MPI_INT, all, PARTS, MPI_INT, MPI_COMM_WORLD, &requests[2]));
	CHECK(!MPI_Ibcast(root, N, MPI_INT, size - 1, MPI_COMM_WORLD, &requests[3]));
	while (!flag)
		CHECK(!MPI_Test(&requests[3], &flag, MPI_STATUS_IGNORE));
	CHECK(holds(root, size - 1, N));
	CHECK(!MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
	CHECK(holds_sums(sums) && holds_sums(in_place));
	for (int i = 0; i < size; i++)
		CHECK(holds(all + i * PARTS, i, PARTS));
}

#define WAIT(call) do { \
	MPI_Request request; \
	CHECK(!(call)); \
	CHECK(!MPI_Wait(&request, MPI_STATUS_IGNORE)); \
} while (0)

static void reductions(void)
{
	int *counts = calloc(size, sizeof(int));

	for (int i = 0; i < size; i++)
		counts[i] = i + 1;
	fill(a, rank, COUNT);
	clear(b, N);
	WAIT(MPI_Ireduce(a, rank ? NULL : b, N, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &request));
	CHECK(rank || holds_sums(b));
	WAIT(MPI_Iscan(a, b, N, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request));
	CHECK(holds(b, rank, N));
	fill(b, 60, N);
	WAIT(MPI_Iexscan(a, b, N, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request));
	CHECK(holds(b, rank ? rank - 1 : 60, N));
	WAIT(MPI_Ireduce_scatter_block(a, b, PARTS, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request));
	CHECK(!copy(back, b, PARTS * 4) && back[3] == value(0, rank * PARTS + 3));
	WAIT(MPI_Ireduce_scatter(a, b, counts, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request));
	CHECK(!copy(back, b, PARTS * 4) && back[rank] == value(0, rank * (rank + 1) / 2 + rank));
	free(counts);
}

static void parts(void)
{
	int *counts = calloc(size, sizeof(int)), *displs = calloc(size, sizeof(int));
	int *ones = calloc(size, sizeof(int)), *zeroes = calloc(size, sizeof(int));
	int part = PARTS / size;

	/* Parts of each rank, with one element between them. */
	for (int i = 0; i < size; i++) {
		counts[i] = i + 1;
		ones[i] = rank + 1;
		displs[i] = i * (size + 1);
	}
	fill(a, rank, COUNT);
	WAIT(MPI_Igather(a, PARTS, MPI_INT, b, PARTS, MPI_INT, 0, MPI_COMM_WORLD, &request));
	for (int i = 0; i < size && !rank; i++)
		CHECK(holds(b + i * PARTS, i, PARTS));
	WAIT(MPI_Iscatter(b, PARTS, MPI_INT, a, PARTS, MPI_INT, 0, MPI_COMM_WORLD, &request));
	CHECK(holds(a, rank, PARTS));
	WAIT(MPI_Ialltoall(a, part, MPI_INT, b, part, MPI_INT, MPI_COMM_WORLD, &request));
	CHECK(!copy(back, b, PARTS * 4));
	for (int i = 0; i < size; i++)
		CHECK(back[i * part + 2] == value(i, rank * part + 2));
	for (int round = 0; round < 3; round++) {
		fill(b, 70, N);
		if (round == 0)
			WAIT(MPI_Iallgatherv(a, rank + 1, MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD, &request));
		if (round == 1)
			WAIT(MPI_Igatherv(a, rank + 1, MPI_INT, b, counts, displs, MPI_INT, 0, MPI_COMM_WORLD, &request));
		/* Each gets from the beginning of all others. */
		if (round == 2)
			WAIT(MPI_Ialltoallv(a, ones, zeroes, MPI_INT, b, counts, displs, MPI_INT,
					    MPI_COMM_WORLD, &request));
		CHECK(!copy(back, b, 4000));
		for (int i = 0; i < size; i++) {
			CHECK(back[displs[i] + i] == (round == 1 && rank ? value(70, displs[i] + i) : value(i, i)));
			CHECK(back[displs[i] + i + 1] == value(70, displs[i] + i + 1));
		}
	}
	fill(a, rank, N);
	fill(b, 70, N);
	WAIT(MPI_Iscatterv(a, counts, displs, MPI_INT, b, rank + 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
	CHECK(!copy(back, b, 4000) && back[rank] == value(0, displs[rank] + rank));
	CHECK(back[rank + 1] == value(70, rank + 1));
	free(counts);
	free(displs);
	free(ones);
	free(zeroes);
}

void begun(void)
{
	at_once();
	reductions();
	parts();
}
