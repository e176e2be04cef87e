/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An MPI program that passes pointers of devices. It finds ggas_hpe.h's functions at run time; without them it says
 * "absent". Each value that moves tells its rank and place.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
		MPI_Abort(MPI_COMM_WORLD, 1); \
	} \
} while (0)

/* More than a pinned buffer, and no multiple of one. */
enum { COUNT = 1300000 + 77, PARTS = 1000 };

static void *(*alloc)(int, size_t);
static int (*copy)(void *, const void *, size_t);
static int rank, size, left, right;
static int *a, *b, host[COUNT], back[COUNT];

static int value(int of, int i)
{
	return of * 7919 + i * 31 + 5;
}

static void fill(int *device, int of, int count)
{
	for (int i = 0; i < count; i++)
		host[i] = value(of, i);
	CHECK(copy(device, host, sizeof(int) * count) == 0);
}

static void clear(int *device, int count)
{
	memset(host, 0xee, sizeof(int) * count);
	CHECK(copy(device, host, sizeof(int) * count) == 0);
}

static int holds(int *device, int of, int count)
{
	CHECK(copy(back, device, sizeof(int) * count) == 0);
	for (int i = 0; i < count; i++)
		if (back[i] != value(of, i))
			return 0;
	return 1;
}

static void blocking(void)
{
	MPI_Status status;
	int got;

	/* Device to device, device to host, host to device, to rank 1 and back. */
	clear(b, COUNT);
	fill(a, rank, COUNT);
	if (rank == 0) {
		CHECK(!MPI_Send(a, COUNT, MPI_INT, 1, 1, MPI_COMM_WORLD));
		CHECK(!MPI_Ssend(a, COUNT, MPI_INT, 1, 2, MPI_COMM_WORLD));
		CHECK(!MPI_Send(host, COUNT, MPI_INT, 1, 3, MPI_COMM_WORLD));
		/* A short message. */
		CHECK(!MPI_Send(a, 10, MPI_INT, 1, 4, MPI_COMM_WORLD));
	} else if (rank == 1) {
		CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		CHECK(holds(b, 0, COUNT));
		CHECK(!MPI_Recv(host, COUNT, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status));
		CHECK(host[COUNT - 1] == value(0, COUNT - 1) && status.MPI_SOURCE == 0);
		clear(b, COUNT);
		CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		CHECK(holds(b, 0, COUNT));
		fill(b, 9, COUNT);
		CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
		CHECK(!MPI_Get_count(&status, MPI_INT, &got) && got == 10 && status.MPI_TAG == 4);
		/* Behind it all is as it was. */
		CHECK(holds(b, 0, 10) && !copy(back, b, sizeof(back)));
		CHECK(back[10] == value(9, 10) && back[COUNT - 1] == value(9, COUNT - 1));
	}
	clear(b, COUNT);
	CHECK(!MPI_Sendrecv(a, COUNT, MPI_INT, right, 5, b, COUNT, MPI_INT, left, 5, MPI_COMM_WORLD, &status));
	CHECK(holds(b, left, COUNT) && holds(a, rank, COUNT));
	CHECK(!MPI_Sendrecv_replace(a, COUNT, MPI_INT, right, 6, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(holds(a, left, COUNT));
	/* Nobody sends: nothing changes. */
	CHECK(!MPI_Recv(a, COUNT, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(!MPI_Sendrecv_replace(a, COUNT, MPI_INT, MPI_PROC_NULL, 6, MPI_PROC_NULL, 6, MPI_COMM_WORLD, &status));
	CHECK(holds(a, left, COUNT));
}

static void requests(void)
{
	MPI_Request all[8];
	MPI_Status statuses[8];
	int flag = 0, index, done, which[8], part = COUNT / 4, seen = 0;

	clear(b, COUNT);
	fill(a, rank, COUNT);
	for (int i = 0; i < 4; i++) {
		CHECK(!MPI_Irecv(b + i * part, part, MPI_INT, left, i, MPI_COMM_WORLD, &all[i]));
		CHECK(!MPI_Isend(a + i * part, part, MPI_INT, right, i, MPI_COMM_WORLD, &all[4 + i]));
	}
	CHECK(!MPI_Waitall(8, all, MPI_STATUSES_IGNORE) && holds(b, left, 4 * part));
	/* Few bytes, which libraries send at once, and all other ways to wait. */
	clear(b, COUNT);
	for (int i = 0; i < 4; i++) {
		CHECK(!MPI_Isend(a + i * 3, 3, MPI_INT, right, i, MPI_COMM_WORLD, &all[4 + i]));
		CHECK(!MPI_Irecv(b + i * 3, 3, MPI_INT, left, i, MPI_COMM_WORLD, &all[i]));
	}
	while (!flag)
		CHECK(!MPI_Test(&all[0], &flag, MPI_STATUS_IGNORE));
	CHECK(holds(b, left, 3));
	CHECK(!MPI_Wait(&all[1], &statuses[0]) && statuses[0].MPI_SOURCE == left && holds(b, left, 6));
	CHECK(!MPI_Waitany(1, &all[2], &index, MPI_STATUS_IGNORE) && index == 0 && holds(b, left, 9));
	while (seen < 5) {
		CHECK(!MPI_Waitsome(5, &all[3], &done, which, statuses));
		CHECK(done != MPI_UNDEFINED);
		seen += done;
	}
	CHECK(holds(b, left, 12));
}

/* Columns of a matrix: what lies between them stays. */
static void gaps(void)
{
	MPI_Datatype column;

	CHECK(!MPI_Type_vector(100, 1, 10, MPI_INT, &column) && !MPI_Type_commit(&column));
	fill(a, rank, 1000);
	fill(b, 50, 1000);
	CHECK(!MPI_Sendrecv(a, 1, column, right, 7, b, 1, column, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(!copy(back, b, 4000));
	for (int i = 0; i < 1000; i++)
		CHECK(back[i] == value(i % 10 ? 50 : left, i));
	MPI_Type_free(&column);
}

static void reductions(void)
{
	int ranks = size * (size - 1) / 2 * 7919;

	fill(a, rank, COUNT);
	clear(b, COUNT);
	CHECK(!MPI_Allreduce(a, b, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD) && !copy(back, b, sizeof(back)));
	for (int i = 0; i < COUNT; i++)
		CHECK(back[i] == ranks + size * (i * 31 + 5));
	CHECK(!MPI_Allreduce(MPI_IN_PLACE, a, COUNT, MPI_INT, MPI_MAX, MPI_COMM_WORLD) && holds(a, size - 1, COUNT));
	fill(a, rank, COUNT);
	clear(b, COUNT);
	CHECK(!MPI_Reduce(a, rank ? NULL : b, COUNT, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD));
	CHECK(rank || holds(b, 0, COUNT));
	CHECK(!MPI_Scan(a, b, 100, MPI_INT, MPI_MAX, MPI_COMM_WORLD) && holds(b, rank, 100));
	fill(b, 60, 100);
	CHECK(!MPI_Exscan(a, b, 100, MPI_INT, MPI_MAX, MPI_COMM_WORLD) && holds(b, rank ? rank - 1 : 60, 100));
	CHECK(!MPI_Reduce_scatter_block(a, b, PARTS, MPI_INT, MPI_MIN, MPI_COMM_WORLD) && !copy(back, b, PARTS * 4));
	CHECK(back[3] == value(0, rank * PARTS + 3));
}

static void parts(void)
{
	int *counts = calloc(size, sizeof(int)), *displs = calloc(size, sizeof(int));

	/* Parts of each rank, with one element between them. */
	for (int i = 0; i < size; i++) {
		counts[i] = i + 1;
		displs[i] = i * (size + 1);
	}
	fill(a, rank, COUNT);
	CHECK(!MPI_Bcast(a, COUNT, MPI_INT, 1, MPI_COMM_WORLD) && holds(a, 1, COUNT));
	fill(a, rank, size * PARTS);
	CHECK(!MPI_Allgather(a, PARTS, MPI_INT, b, PARTS, MPI_INT, MPI_COMM_WORLD));
	for (int i = 0; i < size; i++)
		CHECK(holds(b + i * PARTS, i, PARTS));
	clear(b, size * PARTS);
	CHECK(!MPI_Gather(a, PARTS, MPI_INT, b, PARTS, MPI_INT, 0, MPI_COMM_WORLD));
	for (int i = 0; i < size && !rank; i++)
		CHECK(holds(b + i * PARTS, i, PARTS));
	CHECK(!MPI_Scatter(b, PARTS, MPI_INT, a, PARTS, MPI_INT, 0, MPI_COMM_WORLD) && holds(a, rank, PARTS));
	CHECK(!MPI_Alltoall(a, PARTS / size, MPI_INT, b, PARTS / size, MPI_INT, MPI_COMM_WORLD));
	CHECK(!copy(back, b, PARTS * 4));
	for (int i = 0; i < size; i++)
		CHECK(back[i * (PARTS / size) + 2] == value(i, rank * (PARTS / size) + 2));
	fill(b, 70, 1000);
	CHECK(!MPI_Allgatherv(a, rank + 1, MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD));
	CHECK(!copy(back, b, 4000));
	for (int i = 0; i < size; i++) {
		CHECK(back[displs[i] + i] == value(i, i));
		CHECK(back[displs[i] + i + 1] == value(70, displs[i] + i + 1));
	}
	free(counts);
	free(displs);
}

/* What does not go gives an error. */
static void refused(void)
{
	MPI_Request request;
	int *short_of = alloc(0, 64);

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Send_init(a, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &request) != MPI_SUCCESS);
	CHECK(MPI_Ibcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD, &request) != MPI_SUCCESS);
	CHECK(MPI_Send(short_of, 100, MPI_INT, right, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	left = (rank + size - 1) % size;
	right = (rank + 1) % size;
	*(void **)&alloc = dlsym(RTLD_DEFAULT, "ggas_hpe_alloc");
	*(void **)&copy = dlsym(RTLD_DEFAULT, "ggas_hpe_copy");
	if (alloc) {
		a = alloc(0, sizeof(host));
		b = alloc(0, sizeof(host));
		CHECK(a && b);
		blocking();
		requests();
		gaps();
		reductions();
		parts();
		refused();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		puts(alloc ? "all well" : "absent");
	return MPI_Finalize();
}
