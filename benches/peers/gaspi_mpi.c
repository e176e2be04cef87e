// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What the benchmarks gaspi-* do, by Open MPI, two-sided and one-sided. `ggas bench gaspi-...` compiles and starts it:
 *
 *   mpirun ... gaspi_mpi WAY BENCH ROUNDS TRIPS SEED [SIZE ...]
 *
 * WAY is what carries the messages, as a name for the figures. It prints a line for each figure, as README.md has them, with the
 * fastest round as `min`.
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 8
#define BURST 256

static int rank, ranks, rounds, trips;
static const char *way, *bench;
static char *memory;
static long most;
static MPI_Win window;
/* Bytes or elements of this run. */
static long size;

static int by_time(const void *one, const void *two)
{
	double a = *(const double *)one, b = *(const double *)two;

	return (a > b) - (a < b);
}

static void say(const char *form, const char *what, double *times, double alone, long errors)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;

	if (rank)
		return;
	MPI_Get_library_version(version, &length);
	version[strcspn(version, ",")] = 0;
	qsort(times, rounds, sizeof(*times), by_time);
	printf("{\"peer\": \"%s %s %s\", \"bench\": \"%s\", \"nodes\": %d, ", version, way, form, bench, ranks);
	if (what)
		printf("\"%s\": %ld, ", what, size);
	if (alone > 0)
		printf("\"alone\": %.4f, ", alone);
	printf("\"value\": %.4f, \"min\": %.4f, \"errors\": %ld}\n", times[(rounds - 1) / 2], times[0], errors);
	fflush(stdout);
}

/* Microseconds of an operation by round; `work` is done `count` times in each, and is `per` operations. */
static void timed(void (*work)(void), int count, double per, double *times)
{
	int round, trip;

	for (trip = 0; trip < count / 4 + 1; trip++)
		work();
	for (round = 0; round < rounds; round++) {
		double began;

		MPI_Barrier(MPI_COMM_WORLD);
		began = MPI_Wtime();
		for (trip = 0; trip < count; trip++)
			work();
		times[round] = (MPI_Wtime() - began) * 1e6 / count / per;
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void fill(void)
{
	long at;

	for (at = 0; at < size; at++)
		memory[at] = (char)(at * 31 + rank);
	memset(memory + most, 0xee, most + 64);
	MPI_Win_sync(window);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Bytes that rank 1 has not got as rank 0 has sent them. */
static long wrong(void)
{
	long at, errors = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(window);
	for (at = 0; rank == 1 && at < size; at++)
		errors += memory[most + at] != (char)(at * 31);
	MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	return errors;
}

static void send(long bytes)
{
	MPI_Send(memory, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
}

static void receive(int from)
{
	MPI_Recv(memory + most, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void two_sided(void)
{
	if (rank == 0)
		send(size);
	if (rank <= 1)
		receive(1 - rank);
	if (rank == 1)
		send(size);
}

/* By whoever sends something. */
static void any_sided(void)
{
	if (rank == 0)
		send(size);
	if (rank <= 1)
		receive(MPI_ANY_SOURCE);
	if (rank == 1)
		send(size);
}

/* Data, a flush, and a word behind them, for which the other side polls in its window. */
static void put_and_flag(long bytes)
{
	static uint64_t sent;

	sent++;
	MPI_Put(memory, bytes, MPI_BYTE, 1 - rank, most, bytes, MPI_BYTE, window);
	MPI_Win_flush(1 - rank, window);
	MPI_Put(&sent, 8, MPI_BYTE, 1 - rank, 2 * most, 8, MPI_BYTE, window);
	MPI_Win_flush(1 - rank, window);
}

static void await_flag(void)
{
	static uint64_t seen;
	volatile uint64_t *word = (volatile uint64_t *)(memory + 2 * most);

	seen++;
	while (*word < seen)
		MPI_Win_sync(window);
}

static void one_sided(void)
{
	if (rank == 0)
		put_and_flag(size);
	if (rank <= 1)
		await_flag();
	if (rank == 1)
		put_and_flag(size);
}

static void sends(void)
{
	MPI_Request requests[WINDOW];
	char answer;
	int at;

	for (at = 0; at < WINDOW; at++) {
		if (rank == 0)
			MPI_Isend(memory, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[at]);
		else if (rank == 1)
			MPI_Irecv(memory + most, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[at]);
	}
	if (rank <= 1)
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
	if (rank == 0)
		MPI_Recv(&answer, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else if (rank == 1)
		MPI_Send(memory, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static void puts_of_window(void)
{
	int at;

	if (rank)
		return;
	for (at = 0; at < WINDOW; at++)
		MPI_Put(memory, size, MPI_BYTE, 1, most, size, MPI_BYTE, window);
	MPI_Win_flush(1, window);
}

static void bursts(void)
{
	char answer;
	int at;

	for (at = 0; at < BURST; at++) {
		if (rank == 0)
			MPI_Send(memory, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		else if (rank == 1)
			receive(0);
	}
	if (rank == 0)
		MPI_Recv(&answer, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else if (rank == 1)
		MPI_Send(memory, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

/* The post alone, of which WINDOW are completed at a time. */
static void posts(int is_put, double *times)
{
	MPI_Request requests[WINDOW];
	int round, at, count, counts = trips / WINDOW + 1;

	for (round = -1; round < rounds; round++) {
		double sum = 0;

		MPI_Barrier(MPI_COMM_WORLD);
		for (count = 0; count < counts; count++) {
			double began;

			for (at = 0; !is_put && rank == 1 && at < WINDOW; at++)
				MPI_Irecv(memory + most, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[at]);
			began = MPI_Wtime();
			for (at = 0; rank == 0 && at < WINDOW; at++) {
				if (is_put)
					MPI_Put(memory, size, MPI_BYTE, 1, most, size, MPI_BYTE, window);
				else
					MPI_Isend(memory, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[at]);
			}
			sum += MPI_Wtime() - began;
			if (is_put && rank == 0)
				MPI_Win_flush(1, window);
			else if (!is_put && rank <= 1)
				MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		}
		if (round >= 0)
			times[round] = sum * 1e6 / counts / WINDOW;
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Seconds that the program works between a post and its wait. */
static double work;

static void spin(void)
{
	double began = MPI_Wtime();

	while (MPI_Wtime() - began < work)
		;
}

static void send_work_wait(void)
{
	MPI_Request request;

	if (rank == 0) {
		MPI_Isend(memory, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
		spin();
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		receive(0);
	}
}

static void put_work_wait(void)
{
	if (rank)
		return;
	MPI_Put(memory, size, MPI_BYTE, 1, most, size, MPI_BYTE, window);
	spin();
	MPI_Win_flush(1, window);
}

static void overlap(const char *form, void (*exchange)(void), double *times)
{
	double alone;

	work = 0;
	timed(exchange, trips, 1, times);
	qsort(times, rounds, sizeof(*times), by_time);
	alone = times[(rounds - 1) / 2];
	MPI_Bcast(&alone, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	work = alone * 1e-6;
	timed(exchange, trips, 1, times);
	say(form, "bytes", times, alone, wrong());
}

static void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static double *from, *to;

static void allreduce(void)
{
	MPI_Allreduce(from, to, size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void reductions(double *times)
{
	long at, errors = 0;

	from = calloc(size + 1, sizeof(*from));
	to = calloc(size + 1, sizeof(*to));
	for (at = 0; at < size; at++)
		from[at] = rank + at;
	timed(allreduce, trips, 1, times);
	for (at = 0; at < size; at++)
		errors += to[at] != ranks * at + ranks * (ranks - 1) / 2;
	MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	say("allreduce", "elements", times, 0, errors);
	free(from);
	free(to);
}

static void run(double *times)
{
	int bursts_of_round = trips / BURST > 4 ? trips / BURST : 4;

	if (!strcmp(bench, "gaspi-allreduce")) {
		reductions(times);
		return;
	}
	if (!strcmp(bench, "gaspi-barrier")) {
		timed(barrier, trips, 1, times);
		say("barrier", NULL, times, 0, 0);
		return;
	}
	fill();
	if (!strcmp(bench, "gaspi-pingpong")) {
		timed(two_sided, trips, 2, times);
		say("send", "bytes", times, 0, wrong());
		fill();
		timed(one_sided, trips, 2, times);
		say("put", "bytes", times, 0, wrong());
	} else if (!strcmp(bench, "gaspi-bandwidth")) {
		timed(sends, trips, WINDOW, times);
		say("send", "bytes", times, 0, wrong());
		fill();
		timed(puts_of_window, trips, WINDOW, times);
		say("put", "bytes", times, 0, wrong());
	} else if (!strcmp(bench, "gaspi-rate")) {
		timed(bursts, bursts_of_round, BURST, times);
		say("send", "bytes", times, 0, wrong());
	} else if (!strcmp(bench, "gaspi-post")) {
		posts(0, times);
		say("send", "bytes", times, 0, wrong());
		fill();
		posts(1, times);
		say("put", "bytes", times, 0, wrong());
	} else if (!strcmp(bench, "gaspi-post-work-wait")) {
		overlap("send", send_work_wait, times);
		fill();
		overlap("put", put_work_wait, times);
	} else if (!strcmp(bench, "gaspi-passive")) {
		timed(any_sided, trips, 2, times);
		say("send", "bytes", times, 0, wrong());
	}
}

int main(int argc, char **argv)
{
	double *times;
	int at;

	if (argc < 6 || (rounds = atoi(argv[3])) < 1 || (trips = atoi(argv[4])) < 1) {
		fprintf(stderr, "usage: %s WAY BENCH ROUNDS TRIPS SEED [SIZE ...]\n", argv[0]);
		return 2;
	}
	way = argv[1];
	bench = argv[2];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	most = 64;
	for (at = 6; at < argc; at++) {
		/* Words at 2 * most are aligned. */
		long bytes = (atol(argv[at]) + 63) / 64 * 64;

		most = bytes > most ? bytes : most;
	}
	times = calloc(rounds, sizeof(*times));
	MPI_Win_allocate(2 * most + 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, 2 * most + 64);
	MPI_Win_lock_all(0, window);
	for (at = 6; at < argc; at++) {
		size = atol(argv[at]);
		run(times);
	}
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
