// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks and times gaspi.cuh between the processes of a job.
#include "ggas/gaspi.cuh"

#include "selftest.h"

namespace gaspi_checks
{

GGAS_FN uint8_t value(uint32_t rank, uint32_t round, uint32_t block, uint64_t i)
{
	return static_cast<uint8_t>((i + 1) * 167 ^ round * 29 ^ block * 53 ^ rank * 101 ^ i >> 8);
}

/* Waits for notification `id`, and takes its value, which all threads get. */
GGAS_FN int take(const ggas_queue &queue, const ggas_gaspi_segment &own, uint32_t id, uint32_t expected)
{
	uint32_t which = ~0u;
	if (int error = ggas_gaspi_notify_waitsome(queue, own, id, 1, &which))
		return error;
	int error = which == id ? GGAS_OK : GGAS_ERR_ARGUMENT;
	if (ggas_thread() == 0 && ggas_gaspi_notify_reset(own, id) != expected)
		error = GGAS_ERR_ARGUMENT;
	return ggas_block_status(error);
}

/* Notification first + 2 block: data has come; the one behind it: the receiver has read. */
GGAS_FN int ring(const selftest_gaspi &args, const ggas_gaspi *gaspi)
{
	uint32_t block = ggas_block(), blocks = ggas_blocks(), ranks = ggas_gaspi_ranks(gaspi);
	uint32_t rank = ggas_gaspi_rank(gaspi), next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	ggas_queue queue = ggas_gaspi_queue(gaspi, block % 2);
	ggas_gaspi_segment own(gaspi, queue, rank, args.segment), to(gaspi, queue, next, args.segment);
	ggas_gaspi_segment back(gaspi, queue, before, args.segment);
	uint64_t source = block * args.each, arrival = (blocks + block) * args.each;
	uint32_t came = args.first + 2 * block, read = came + 1;
	auto *memory = reinterpret_cast<uint8_t *>(own.at.address);
	for (uint32_t round = 0; round < args.rounds; round++) {
		for (uint64_t i = ggas_thread(); i < args.bytes; i += ggas_threads())
			memory[source + i] = value(rank, round, block, i);
		int error = ggas_gaspi_write_notify(queue, own, source, to, arrival, args.bytes, came, round + 1);
		if (error || (error = take(queue, own, came, round + 1)))
			return error;
		uint64_t wrong = 0;
		for (uint64_t i = ggas_thread(); i < args.bytes; i += ggas_threads())
			wrong += memory[arrival + i] != value(before, round, block, i);
		if (wrong)
			ggas_red_add(reinterpret_cast<uint64_t *>(args.wrong), wrong, ggas_order::relaxed);
		if ((error = ggas_block_status(GGAS_OK)) || (error = ggas_gaspi_notify(queue, back, read, 7)) ||
		    (error = take(queue, own, read, 7)) || (error = ggas_queue_wait(queue)))
			return error;
	}
	return GGAS_OK;
}

/* By two notifications in turns, so that one is reset while the other is under way. */
GGAS_FN int ping(const selftest_gaspi &args, const ggas_gaspi *gaspi)
{
	uint32_t rank = ggas_gaspi_rank(gaspi), which;
	ggas_queue queue = ggas_gaspi_queue(gaspi, 0);
	ggas_gaspi_segment own(gaspi, queue, rank, args.segment), to(gaspi, queue, 1 - rank, args.segment);
	uint64_t began = 0;
	/* The first trips find code and addresses. */
	for (uint32_t round = 0; round < args.rounds + 10; round++) {
		uint32_t id = args.first + (round & 1);
		int error = GGAS_OK;
		if (round == 10)
			began = ggas_time_ns();
		if (rank == 1)
			error = ggas_gaspi_notify_waitsome(queue, own, id, 1, &which);
		if (!error)
			error = ggas_gaspi_write_notify(queue, own, 0, to, args.each, args.bytes, id, round + 1);
		if (!error && rank == 0)
			error = ggas_gaspi_notify_waitsome(queue, own, id, 1, &which);
		if (error)
			return error;
		if (ggas_thread() == 0 && ggas_gaspi_notify_reset(own, id) != round + 1)
			ggas_red_add(reinterpret_cast<uint64_t *>(args.wrong), uint64_t(1), ggas_order::relaxed);
	}
	if (ggas_thread() == 0)
		ggas_store_relaxed(reinterpret_cast<uint64_t *>(args.time), ggas_time_ns() - began);
	return GGAS_OK;
}

GGAS_FN int write(const selftest_gaspi &args, const ggas_gaspi *gaspi)
{
	ggas_queue queue = ggas_gaspi_queue(gaspi, 0);
	ggas_gaspi_segment own(gaspi, queue, queue.member, args.segment), to(gaspi, queue, 1, args.segment);
	uint64_t began = ggas_time_ns(), share = args.bytes / ggas_blocks(), at = ggas_block() * share;
	for (uint32_t round = 0; round < args.rounds; round++)
		if (int error = ggas_gaspi_write(queue, own, at, to, args.each + at, share))
			return error;
	if (int error = ggas_queue_quiet(queue))
		return error;
	ggas_syncthreads();
	if (ggas_thread() == 0)
		ggas_store_relaxed(reinterpret_cast<uint64_t *>(args.time) + ggas_block(), ggas_time_ns() - began);
	return GGAS_OK;
}

/* What there is not. */
GGAS_FN int refuse(const selftest_gaspi &args, const ggas_gaspi *gaspi)
{
	uint32_t rank = ggas_gaspi_rank(gaspi), which = 0;
	ggas_queue queue = ggas_gaspi_queue(gaspi, 0), none = ggas_gaspi_queue(gaspi, GGAS_QUEUES - 1);
	ggas_gaspi_segment own(gaspi, queue, rank, args.segment), missing(gaspi, queue, rank, 200);
	ggas_gaspi_segment nobody(gaspi, queue, ggas_gaspi_ranks(gaspi), args.segment);
	switch (args.first) {
	case 0:
		return ggas_gaspi_write(none, own, 0, own, 0, 8);
	case 1:
		return ggas_gaspi_write(queue, own, 0, nobody, 0, 8);
	case 2:
		return ggas_gaspi_write(queue, own, 0, missing, 0, 8);
	case 3:
		return ggas_gaspi_write(queue, missing, 0, own, 0, 8);
	case 4:
		return ggas_gaspi_write(queue, own, 0, own, args.bytes - 7, 8);
	case 5:
		return ggas_gaspi_write_notify(queue, own, 0, own, 0, 8, gaspi->notifications, 1);
	case 6:
		return ggas_gaspi_notify(queue, own, 0, 0);
	case 7:
		return ggas_gaspi_notify_waitsome(queue, own, gaspi->notifications - 1, 2, &which);
	case 8:
		return ggas_gaspi_notify_waitsome(queue, missing, 0, 1, &which);
	default:
		return ggas_gaspi_notify_waitsome(queue, own, 0, 0, &which);
	}
}

GGAS_FN int run(const selftest_gaspi &args)
{
	auto *gaspi = reinterpret_cast<const ggas_gaspi *>(args.gaspi);
	switch (args.form) {
	case SELFTEST_GASPI_RING:
		return ring(args, gaspi);
	case SELFTEST_GASPI_PING:
		return ping(args, gaspi);
	case SELFTEST_GASPI_WRITE:
		return write(args, gaspi);
	default:
		return refuse(args, gaspi);
	}
}

} // namespace gaspi_checks

GGAS_KERNEL(ggas_selftest_gaspi, selftest_gaspi)
{
	if (int error = gaspi_checks::run(args))
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
