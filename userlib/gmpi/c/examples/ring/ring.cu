/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One block passes its values to the next rank, takes those of the one before, and adds all up, all by MPI calls. */
#include "ggas/gmpi.cuh"

#include "ring.h"

/* Each waits for whichever of its two messages is over first. */
GGAS_FN int ring_exchange(gmpi_buf_t *buf, ring_memory *memory, MPI_Comm comm)
{
	int rank, size, index;
	int error = GMPI_Comm_rank(buf, comm, &rank);
	if (error || (error = GMPI_Comm_size(buf, comm, &size)))
		return error;
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	error = GMPI_Irecv(buf, memory->theirs, RING_VALUES, MPI_LONG, before, 1, comm, memory->requests);
	error = error ? error : GMPI_Isend(buf, memory->mine, RING_VALUES, MPI_LONG, next, 1, comm, memory->requests + 1);
	for (int i = 0; i < 2 && !error; i++)
		error = GMPI_Waitany(buf, 2, memory->requests, &index, MPI_STATUS_IGNORE);
	return error;
}

GGAS_KERNEL(ring, ring_args)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	auto *memory = reinterpret_cast<ring_memory *>(args.memory);
	int error = ring_exchange(buf, memory, args.comm);
	if (ggas_thread() == 0) {
		int64_t sum = 0;
		for (int i = 0; i < RING_VALUES; i++)
			sum += memory->theirs[i];
		memory->sums[0] = sum;
	}
	/* The call is of all threads of the block, and what any of them wrote before is what it sends. */
	error = error ? error : GMPI_Allreduce(buf, memory->sums, memory->sums + 1, 1, MPI_LONG, MPI_SUM, args.comm);
	if (ggas_thread() == 0)
		memory->error = error;
}

int ring_run(gmpi_t *gmpi, const ring_args *args)
{
	return GMPI_RUN(gmpi, ring, 1, 64, *args, 60000);
}
