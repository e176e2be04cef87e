// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What the benchmarks shared-gpu-* do, by MPI. `ggas bench shared-gpu-...` compiles and starts it:
 *
 *   mpirun ... shared_gpu_mpi WAY MEMORY BENCH ROUNDS TRIPS SEED [SIZE ...]
 *
 * MEMORY is where the vectors lie: `host`; `gpu`, on GPU 0 or, with a word `gpus:N` in BENCH, by turns on N, given to the calls as they are; `copied`, the same, copied to
 * and from pinned host memory around the calls. BENCH is `shared-gpu-COLLECTIVE`, more words behind it are for the other side.
 * The GPU is reached by its driver, loaded at run time. It prints a line for each size, as README.md has them.
 */
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes up to which a round has TRIPS operations; longer ones are made less often. */
#define SMALL 8192
/* After so many seconds a size has no more rounds, but it has so many. */
#define ROUNDS 0.2
#define ROUNDS_MIN 3

static int rank, ranks, rounds, trips;
static const char *way, *memory;
static char *from, *to, *from_host, *to_host;
static long most;
/* Of a call: of a vector, or of a part for each process or of each. */
static long elements;
static enum { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, ALLTOALL, REDUCE_SCATTER } kind;
static const char *names[] = { "-allreduce", "-reduce", "-broadcast", "-allgather", "-alltoall", "-reduce-scatter" };

typedef int (*copy_fn)(uintptr_t, uintptr_t, size_t);
static copy_fn copy;

static void fail(const char *what, long code)
{
	fprintf(stderr, "shared_gpu_mpi: %s (%ld)\n", what, code);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *driver(const char *name)
{
	static void *library;
	void *found;

	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	found = library ? dlsym(library, name) : NULL;
	if (!found)
		fail("no driver of a GPU", 0);
	return found;
}

static void check(int code, const char *what)
{
	if (code)
		fail(what, code);
}

/* Two vectors on a GPU, and two in pinned memory. */
static void open_gpu(int gpus)
{
	int (*init)(unsigned int) = (int (*)(unsigned int))driver("cuInit");
	int (*device)(int *, int) = (int (*)(int *, int))driver("cuDeviceGet");
	int (*retain)(void **, int) = (int (*)(void **, int))driver("cuDevicePrimaryCtxRetain");
	int (*current)(void *) = (int (*)(void *))driver("cuCtxSetCurrent");
	int (*alloc)(uintptr_t *, size_t) = (int (*)(uintptr_t *, size_t))driver("cuMemAlloc_v2");
	int (*pinned)(void **, size_t) = (int (*)(void **, size_t))driver("cuMemAllocHost_v2");
	uintptr_t one, two;
	void *context;
	int which;

	check(init(0), "cuInit");
	check(device(&which, rank % gpus), "cuDeviceGet");
	check(retain(&context, which), "cuDevicePrimaryCtxRetain");
	check(current(context), "cuCtxSetCurrent");
	check(alloc(&one, most), "cuMemAlloc");
	check(alloc(&two, most), "cuMemAlloc");
	check(pinned((void **)&from_host, most), "cuMemAllocHost");
	check(pinned((void **)&to_host, most), "cuMemAllocHost");
	from = (char *)one;
	to = (char *)two;
	/* Synchronous; pointers say where they are. */
	copy = (copy_fn)driver("cuMemcpy");
}

static void move(char *target, const char *source, long bytes)
{
	if (copy)
		check(copy((uintptr_t)target, (uintptr_t)source, bytes), "cuMemcpy");
	else if (target != source)
		memcpy(target, source, bytes);
}

/* Whole numbers, whose sums are exact in whatever order they are added. */
static float value(int of, long at)
{
	return (float)((at * 7 + of * 31) % 1021);
}

static void collective(const char *source, char *target)
{
	switch (kind) {
	case ALLREDUCE:
		MPI_Allreduce(source, target, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	case REDUCE:
		MPI_Reduce(source, target, elements, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
		break;
	case BROADCAST:
		MPI_Bcast(target, elements, MPI_FLOAT, 0, MPI_COMM_WORLD);
		break;
	case ALLGATHER:
		MPI_Allgather(source, elements, MPI_FLOAT, target, elements, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	case ALLTOALL:
		MPI_Alltoall(source, elements, MPI_FLOAT, target, elements, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	case REDUCE_SCATTER:
		MPI_Reduce_scatter_block(source, target, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	}
}

/* Floats of a process's input and result. */
static long inputs(void)
{
	return kind == ALLTOALL || kind == REDUCE_SCATTER ? ranks * elements : elements;
}

static long results(void)
{
	return kind == ALLTOALL || kind == ALLGATHER ? ranks * elements : elements;
}

static void trip(void)
{
	if (strcmp(memory, "copied")) {
		collective(from, to);
		return;
	}
	if (kind != BROADCAST)
		move(from_host, from, inputs() * sizeof(float));
	else if (rank == 0)
		move(to_host, to, results() * sizeof(float));
	collective(from_host, to_host);
	if ((kind != REDUCE && kind != BROADCAST) || (kind == REDUCE) == (rank == 0))
		move(to, to_host, results() * sizeof(float));
}

/* Poison, but for what a root sends. */
static void spoil(void)
{
	long at, bytes = results() * sizeof(float);

	memset(to_host, 0xee, bytes);
	for (at = 0; kind == BROADCAST && rank == 0 && at < elements; at++)
		((float *)to_host)[at] = value(0, at);
	move(to, to_host, bytes);
}

static float sum(long at)
{
	float all = value(0, at);
	int other;

	for (other = 1; other < ranks; other++)
		all += value(other, at);
	return all;
}

/* What a float of the result should be. */
static float expected(long at)
{
	switch (kind) {
	case BROADCAST:
		return value(0, at);
	case ALLGATHER:
		return value(at / elements, at % elements);
	case ALLTOALL:
		return value(at / elements, rank * elements + at % elements);
	case REDUCE_SCATTER:
		return sum(rank * elements + at);
	default:
		return sum(at);
	}
}

/* Elements that are wrong, of all ranks: where all have the same result, each compares its share, and the whole with that of rank 0. */
static long wrong(void)
{
	long at, begin = 0, end = results(), errors = 0, all = 0;
	int alike = kind == ALLREDUCE || kind == BROADCAST || kind == ALLGATHER;
	uint64_t hash = 0xcbf29ce484222325, first;
	uint32_t word;

	spoil();
	trip();
	move(to_host, to, results() * sizeof(float));
	if (alike) {
		begin = results() * rank / ranks;
		end = results() * (rank + 1) / ranks;
	} else if (kind == REDUCE && rank) {
		end = 0;
	}
	for (at = begin; at < end; at++)
		errors += ((float *)to_host)[at] != expected(at);
	for (at = 0; at < results(); at++) {
		memcpy(&word, to_host + at * sizeof(word), sizeof(word));
		hash = (hash ^ word) * 0x100000001b3;
	}
	first = hash;
	MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	errors += alike && first != hash;
	MPI_Reduce(&errors, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	return all;
}

static int by_time(const void *one, const void *two)
{
	double a = *(const double *)one, b = *(const double *)two;

	return (a > b) - (a < b);
}

/* A round takes as long as it takes the slowest rank. */
static void measure(const char *bench, long bytes, double *times)
{
	long count = trips * (long)SMALL / (bytes > SMALL ? bytes : SMALL), at;
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	double start;
	int length, round;
	long errors;

	elements = bytes / sizeof(float);
	/* A part is a float at least. */
	if (kind > BROADCAST)
		elements = elements / ranks > 0 ? elements / ranks : 1;
	for (at = 0; at < inputs(); at++)
		((float *)from_host)[at] = value(rank, at);
	move(from, from_host, inputs() * sizeof(float));
	errors = wrong();
	count = count > 2 ? count : 2;
	start = MPI_Wtime();
	for (round = 0; round < rounds; round++) {
		int is_late = round >= ROUNDS_MIN && MPI_Wtime() - start > ROUNDS;
		double began, mine;

		MPI_Bcast(&is_late, 1, MPI_INT, 0, MPI_COMM_WORLD);
		if (is_late)
			break;
		MPI_Barrier(MPI_COMM_WORLD);
		began = MPI_Wtime();
		for (at = 0; at < count; at++)
			trip();
		mine = (MPI_Wtime() - began) * 1e6 / count;
		MPI_Reduce(&mine, &times[round], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	}
	errors += wrong();
	if (rank)
		return;
	MPI_Get_library_version(version, &length);
	version[strcspn(version, ",")] = 0;
	qsort(times, round, sizeof(*times), by_time);
	printf("{\"peer\": \"%s %s, %s\", \"bench\": \"%s\", \"nodes\": %d, \"bytes\": %ld, \"value\": %.4f, \"min\": %.4f, "
	       "\"errors\": %ld}\n",
	       version, way, memory, bench, ranks, bytes, times[(round - 1) / 2], times[0], errors);
	fflush(stdout);
}

static int knows_gpus(void)
{
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
	return MPIX_Query_cuda_support();
#else
	return 0;
#endif
}

int main(int argc, char **argv)
{
	char bench[64] = "";
	const char *turns, *name;
	double *times;
	int at, gpus = 1;

	if (argc < 7 || (rounds = atoi(argv[4])) < 1 || (trips = atoi(argv[5])) < 1) {
		fprintf(stderr, "usage: %s WAY MEMORY BENCH ROUNDS TRIPS SEED [SIZE ...]\n", argv[0]);
		return 2;
	}
	way = argv[1];
	memory = argv[2];
	sscanf(argv[3], "%63s", bench);
	name = strlen(bench) > strlen("shared-gpu") ? bench + strlen("shared-gpu") : bench;
	for (at = 0; at < (int)(sizeof(names) / sizeof(*names)); at++)
		if (!strcmp(name, names[at]))
			kind = at;
	turns = strstr(argv[3], " gpus:");
	gpus = turns && atoi(turns + 6) > 0 ? atoi(turns + 6) : 1;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	most = ranks * sizeof(float);
	for (at = 7; at < argc; at++)
		most = atol(argv[at]) > most ? atol(argv[at]) : most;
	if (!strcmp(memory, "gpu") && !knows_gpus()) {
		if (rank == 0)
			fprintf(stderr, "this library was built without CUDA, so it takes no GPU memory\n");
		MPI_Finalize();
		return 3;
	}
	times = calloc(rounds, sizeof(*times));
	if (strcmp(memory, "host")) {
		open_gpu(gpus);
	} else {
		from = from_host = malloc(most + 8);
		to = to_host = malloc(most + 8);
	}
	for (at = 7; at < argc; at++)
		measure(bench, atol(argv[at]), times);
	MPI_Finalize();
	return 0;
}
