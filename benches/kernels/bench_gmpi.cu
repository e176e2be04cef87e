// SPDX-License-Identifier: MIT OR Apache-2.0
// gmpi-calls: what a call of a kernel costs by its arguments. gmpi-pingpong: messages between two kernels.
#include "bench.cuh"
#include "ggas/gmpi.cuh"

#include "bench.h"

GGAS_KERNEL(bench_gmpi_calls_rounds, bench_gmpi_calls)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	bench_stopwatch watch(args.timing);
	bool first = ggas_thread() == 0;
	uint64_t answered = 0;
	int error = MPI_SUCCESS;
	for (uint64_t i = 0; i < watch.rounds() && !error; i++) {
		if (first)
			watch.begin(i);
		/* The first argument says how many follow. */
		error = GMPI_Echo(buf, static_cast<uint32_t>(args.arguments - 1));
		if (first)
			watch.end(i);
		answered += !error;
	}
	if (!first)
		return;
	*reinterpret_cast<uint64_t *>(args.answered) = answered;
	watch.stop(error);
}

namespace bench_of_gmpi
{

GGAS_FN uint64_t word_of(const bench_gmpi_pingpong &args, int rank, uint64_t round, uint64_t index)
{
	return (args.seed + 2 * round + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15 + index;
}

/* One way there and one back (Fig. 6 of the paper), until this side's send is over, too. */
GGAS_FN int round_trip(const bench_gmpi_pingpong &args, gmpi_buf_t *buf, int rank)
{
	auto *from = reinterpret_cast<const uint64_t *>(args.from);
	auto *to = reinterpret_cast<uint64_t *>(args.to);
	auto *requests = reinterpret_cast<MPI_Request *>(args.requests);
	int count = static_cast<int>(args.count), other = 1 - rank;
	MPI_Comm comm = args.comm;
	int error = GMPI_Irecv(buf, to, count, MPI_UNSIGNED_LONG, other, 0, comm, &requests[0]);
	if (!error && rank == 1)
		error = GMPI_Wait(buf, &requests[0], MPI_STATUS_IGNORE);
	if (!error)
		error = GMPI_Isend(buf, from, count, MPI_UNSIGNED_LONG, other, 0, comm, &requests[1]);
	if (!error)
		error = GMPI_Waitall(buf, 2, requests, MPI_STATUSES_IGNORE);
	return error;
}

/* The same by calls that wait. */
GGAS_FN int blocking_trip(const bench_gmpi_pingpong &args, gmpi_buf_t *buf, int rank)
{
	auto *from = reinterpret_cast<const uint64_t *>(args.from);
	auto *to = reinterpret_cast<uint64_t *>(args.to);
	int count = static_cast<int>(args.count), other = 1 - rank, error = MPI_SUCCESS;
	if (rank == 0)
		error = GMPI_Send(buf, from, count, MPI_UNSIGNED_LONG, other, 0, args.comm);
	if (!error)
		error = GMPI_Recv(buf, to, count, MPI_UNSIGNED_LONG, other, 0, args.comm, MPI_STATUS_IGNORE);
	if (!error && rank == 1)
		error = GMPI_Send(buf, from, count, MPI_UNSIGNED_LONG, other, 0, args.comm);
	return error;
}

/* Rounds change so many words of a message at most, evenly spread, others in each round. To write and look at all of 1 MiB by one warp takes a millisecond: behind it
   the host's side is cold, and so would be what is timed, which it is not of kernels that end. */
constexpr uint64_t CHANGES = 512;

/* The last round up to `i` that changed word `k`; the first one wrote all. */
GGAS_FN uint64_t changed(uint64_t i, uint64_t k, uint64_t step)
{
	uint64_t back = (i % step + step - k % step) % step;
	return back <= i ? i - back : 0;
}

template <auto Trip> GGAS_FN void pingpong(const bench_gmpi_pingpong &args)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	auto *from = reinterpret_cast<uint64_t *>(args.from);
	auto *to = reinterpret_cast<const uint64_t *>(args.to);
	bench_stopwatch watch(args.timing);
	bool first = ggas_thread() == 0;
	int rank = static_cast<int>(buf->rank), error = MPI_SUCCESS;
	uint64_t rounds = watch.rounds(), step = args.count / CHANGES + 1, wrong = 0;
	for (uint64_t i = 0; i < rounds && !error; i++) {
		/* All words in the first round; the last one looks at all. */
		uint64_t write = i == 0 ? 1 : step, look = i == 0 || i + 1 == rounds ? 1 : step;
		for (uint64_t k = i % write + ggas_thread() * write; k < args.count; k += ggas_threads() * write)
			from[k] = word_of(args, rank, i, k);
		ggas_syncthreads();
		if (first)
			watch.begin(i);
		error = Trip(args, buf, rank);
		if (first)
			watch.end(i);
		for (uint64_t k = i % look + ggas_thread() * look; k < args.count; k += ggas_threads() * look)
			wrong += to[k] != word_of(args, 1 - rank, changed(i, k, step), k);
		/* The next round's data must not come before all have looked. */
		ggas_syncthreads();
	}
	if (wrong)
		ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), wrong, ggas_order::relaxed);
	if (first)
		watch.stop(error);
}

} /* namespace bench_of_gmpi */

/* Kernels of their own: each call costs the other's instructions room in the cache. */
GGAS_KERNEL(bench_gmpi_pingpong_rounds, bench_gmpi_pingpong) { bench_of_gmpi::pingpong<bench_of_gmpi::round_trip>(args); }
GGAS_KERNEL(bench_gmpi_pingpong_blocking, bench_gmpi_pingpong) { bench_of_gmpi::pingpong<bench_of_gmpi::blocking_trip>(args); }
