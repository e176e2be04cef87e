/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An MPI program that passes pointers of devices. It finds ggas_hpe.h's functions at run time; without them it says
 * "absent". Each value that moves tells its rank and place.
 */
#define _GNU_SOURCE
#include "devices.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *(*alloc)(int, size_t);
int (*copy)(void *, const void *, size_t);
void *(*take_pinned)(size_t *);
int (*return_pinned)(void *);
int rank, size, left, right;
int *a, *b, host[COUNT], back[COUNT];

/* The device: the executor's, which is the first one, or with GGAS_TEST_GPUS the GPU behind it. */
static int number(void)
{
	return getenv("GGAS_TEST_GPUS") ? 1 : 0;
}

int value(int of, int i)
{
	return of * 7919 + i * 31 + 5;
}

void fill(int *device, int of, int count)
{
	for (int i = 0; i < count; i++)
		host[i] = value(of, i);
	CHECK(copy(device, host, sizeof(int) * count) == 0);
}

void clear(int *device, int count)
{
	memset(host, 0xee, sizeof(int) * count);
	CHECK(copy(device, host, sizeof(int) * count) == 0);
}

int holds(int *device, int of, int count)
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

/* Whether messages that are long go in parts. */
static int are_in_parts(void)
{
	const char *part = getenv("GGAS_HPE_MPI_PART");

	return part && strcmp(part, "0");
}

int counted(MPI_Status *status)
{
	int count = -1;

	CHECK(!MPI_Get_count(status, MPI_INT, &count) && status->MPI_SOURCE == 0);
	return count;
}

/* Messages that go in parts, if the library's parts are short: rank 0 sends, rank 1 receives. */
static void senders(void)
{
	char no_letter[LETTER] = "no letter";
	MPI_Request request;

	fill(a, 0, COUNT);
	/* Rank 1 has posted a receive, and waits at a barrier. */
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	CHECK(!MPI_Send(a, COUNT, MPI_INT, 1, 1, MPI_COMM_WORLD));
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	for (int tag = 2; tag < 8; tag++)
		CHECK(!MPI_Send(a + tag, COUNT - tag, MPI_INT, 1, tag, MPI_COMM_WORLD));
	/* Two of one tag; a short one and one that begins later come between. */
	CHECK(!MPI_Send(a, COUNT, MPI_INT, 1, 8, MPI_COMM_WORLD));
	CHECK(!MPI_Isend(a + 1, 5, MPI_INT, 1, 8, MPI_COMM_WORLD, &request));
	CHECK(!MPI_Ssend(a + 1, COUNT - 1, MPI_INT, 1, 8, MPI_COMM_WORLD));
	CHECK(!MPI_Wait(&request, MPI_STATUS_IGNORE));
	/* As long as a letter, and none. */
	for (int i = 0; i < 3; i++)
		CHECK(!MPI_Send(no_letter, sizeof(no_letter), MPI_CHAR, 1, 9, MPI_COMM_WORLD));
	CHECK(!MPI_Send(a, 1000 * 100, MPI_INT, 1, 10, MPI_COMM_WORLD));
	CHECK(!MPI_Send(a, 1000 * 100, MPI_INT, 1, 10, MPI_COMM_WORLD));
}

static void receivers(void)
{
	MPI_Request three[3];
	MPI_Status status;
	MPI_Message message;
	MPI_Datatype column;
	MPI_Count bytes;
	char text[LETTER];
	int flag = 0, count, five[5];

	clear(b, COUNT);
	CHECK(!MPI_Irecv(b, COUNT, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &three[0]));
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	CHECK(!MPI_Wait(&three[0], &status) && counted(&status) == COUNT && status.MPI_TAG == 1 && holds(b, 0, COUNT));
	/* What the library's own probe sees. */
	CHECK(!PMPI_Probe(0, 2, MPI_COMM_WORLD, &status) && !MPI_Get_elements_x(&status, MPI_BYTE, &bytes));
	CHECK((bytes == LETTER) == are_in_parts());
	/* To a buffer of the host; with room to spare; by what a probe says. */
	CHECK(!MPI_Recv(host, COUNT - 2, MPI_INT, 0, 2, MPI_COMM_WORLD, &status) && counted(&status) == COUNT - 2);
	CHECK(host[0] == value(0, 2) && host[COUNT - 3] == value(0, COUNT - 1));
	fill(b, 9, COUNT);
	CHECK(!MPI_Recv(b, COUNT, MPI_INT, 0, 3, MPI_COMM_WORLD, &status) && counted(&status) == COUNT - 3);
	CHECK(!copy(back, b, sizeof(back)) && back[COUNT - 4] == value(0, COUNT - 1) && back[COUNT - 3] == value(9, COUNT - 3));
	CHECK(!MPI_Probe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status) && counted(&status) == COUNT - 4);
	CHECK(!MPI_Probe(0, 4, MPI_COMM_WORLD, &status) && counted(&status) == COUNT - 4);
	CHECK(!MPI_Recv(host, COUNT - 4, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
	CHECK(counted(&status) == COUNT - 4 && status.MPI_TAG == 4 && host[0] == value(0, 4));
	while (!flag)
		CHECK(!MPI_Iprobe(0, 5, MPI_COMM_WORLD, &flag, &status));
	CHECK(counted(&status) == COUNT - 5);
	CHECK(!MPI_Irecv(b, COUNT, MPI_INT, 0, 5, MPI_COMM_WORLD, &three[0]) && !MPI_Wait(&three[0], &status));
	CHECK(counted(&status) == COUNT - 5 && status.MPI_TAG == 5 && !copy(back, b, sizeof(back)) && back[0] == value(0, 5));
	CHECK(!MPI_Mprobe(0, 6, MPI_COMM_WORLD, &message, &status) && counted(&status) == COUNT - 6);
	CHECK(!MPI_Mrecv(b, COUNT, MPI_INT, &message, &status) && counted(&status) == COUNT - 6 && status.MPI_TAG == 6);
	CHECK(!copy(back, b, sizeof(back)) && back[COUNT - 7] == value(0, COUNT - 1));
	for (flag = 0; !flag;)
		CHECK(!MPI_Improbe(0, 7, MPI_COMM_WORLD, &flag, &message, &status));
	CHECK(counted(&status) == COUNT - 7 && !MPI_Mrecv(host, COUNT, MPI_INT, &message, MPI_STATUS_IGNORE));
	CHECK(host[COUNT - 8] == value(0, COUNT - 1));
	/* In the order of the receives, though waited for in another. */
	clear(a, COUNT);
	CHECK(!MPI_Irecv(a, COUNT, MPI_INT, 0, 8, MPI_COMM_WORLD, &three[0]));
	CHECK(!MPI_Irecv(five, 5, MPI_INT, 0, 8, MPI_COMM_WORLD, &three[1]));
	CHECK(!MPI_Irecv(b, COUNT, MPI_INT, 0, 8, MPI_COMM_WORLD, &three[2]));
	CHECK(!MPI_Wait(&three[2], &status) && counted(&status) == COUNT - 1 && !copy(back, b, sizeof(back)));
	CHECK(back[0] == value(0, 1) && back[COUNT - 2] == value(0, COUNT - 1));
	CHECK(!MPI_Waitall(2, three, MPI_STATUSES_IGNORE) && five[4] == value(0, 5) && holds(a, 0, COUNT));
	/* No letters, whoever looks. */
	CHECK(!MPI_Probe(0, 9, MPI_COMM_WORLD, &status) && !MPI_Get_count(&status, MPI_CHAR, &count) && count == LETTER);
	CHECK(!MPI_Recv(text, LETTER, MPI_CHAR, 0, 9, MPI_COMM_WORLD, &status) && !strcmp(text, "no letter"));
	CHECK(status.MPI_TAG == 9 && !MPI_Get_count(&status, MPI_CHAR, &count) && count == LETTER);
	memset(text, 0, sizeof(text));
	CHECK(!MPI_Mprobe(0, 9, MPI_COMM_WORLD, &message, &status));
	CHECK(!MPI_Mrecv(text, LETTER, MPI_CHAR, &message, &status) && !strcmp(text, "no letter") && status.MPI_TAG == 9);
	memset(text, 0, sizeof(text));
	CHECK(!MPI_Recv(text, LETTER, MPI_CHAR, 0, 9, MPI_COMM_WORLD, &status) && !strcmp(text, "no letter"));
	/* To elements with gaps, of the host and of a device. */
	CHECK(!MPI_Type_vector(100, 1, 10, MPI_INT, &column) && !MPI_Type_commit(&column));
	for (int to_device = 0; to_device < 2; to_device++) {
		fill(b, 50, COUNT);
		memcpy(back, host, sizeof(back));
		CHECK(!MPI_Irecv(to_device ? b : back, 1000, column, 0, 10, MPI_COMM_WORLD, &three[0]));
		if (to_device)
			MPI_Type_free(&column);
		CHECK(!MPI_Wait(&three[0], MPI_STATUS_IGNORE));
		if (to_device)
			CHECK(!copy(back, b, sizeof(back)));
		for (int i = 0; i < 100000; i++)
			CHECK(back[i / 100 * 991 + i % 100 * 10] == value(0, i));
		CHECK(back[1] == value(50, 1) && back[990] == value(0, 99) && back[989] == value(50, 989));
	}
}

/* One that is too short tells so, and what was to come is gone. */
static void truncated(void)
{
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rank == 0)
		CHECK(!MPI_Send(a, COUNT, MPI_INT, 1, 11, MPI_COMM_WORLD));
	if (rank == 1) {
		fill(b, 9, COUNT);
		CHECK(MPI_Recv(b, COUNT - 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_ERR_TRUNCATE);
		CHECK(holds(b, 9, COUNT));
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void long_messages(void)
{
	if (rank == 0)
		senders();
	if (rank == 1)
		receivers();
	/* The others meet them. */
	for (int i = 0; i < 2 && rank > 1; i++)
		CHECK(!MPI_Barrier(MPI_COMM_WORLD));
	/* Both ways at once, and to oneself. */
	fill(a, rank, COUNT);
	clear(b, COUNT);
	CHECK(!MPI_Sendrecv(a, COUNT, MPI_INT, right, 12, b, COUNT, MPI_INT, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(holds(b, left, COUNT));
	clear(b, COUNT);
	CHECK(!MPI_Sendrecv(a, COUNT, MPI_INT, rank, 13, b, COUNT, MPI_INT, rank, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(holds(b, rank, COUNT));
	orders();
	broadcasts();
	overtaken();
	from_host();
	not_blocking();
	given_up();
	if (are_in_parts()) {
		waits();
		truncated();
	}
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
	*(void **)&take_pinned = dlsym(RTLD_DEFAULT, "ggas_hpe_take_pinned");
	*(void **)&return_pinned = dlsym(RTLD_DEFAULT, "ggas_hpe_return_pinned");
	if (alloc) {
		a = alloc(number(), sizeof(host));
		b = alloc(number(), sizeof(host));
		CHECK(a && b);
		pinned();
		blocking();
		requests();
		gaps();
		reductions();
		parts();
		begun();
		persistent();
		others();
		long_messages();
		refused(alloc(number(), 64));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		puts(alloc ? "all well" : "absent");
	return MPI_Finalize();
}
