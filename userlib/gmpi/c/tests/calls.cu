/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ggas/gmpi.cuh"

#include "calls.h"

GGAS_KERNEL(calls, calls_args)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	auto *words = reinterpret_cast<uint64_t *>(args.memory);
	int rank = 0, size = 1, error = 0;
	switch (args.what) {
	case CALLS_OPEN:
		error = GMPI_Irecv(buf, words + 2, 1, MPI_LONG, 0, 9, MPI_COMM_WORLD, words);
		break;
	case CALLS_BARRIER:
		error = GMPI_Barrier(buf, args.handle);
		break;
	case CALLS_PUT:
		error = GMPI_Win_fence(buf, 0, args.handle);
		error = error ? error : GMPI_Comm_rank(buf, MPI_COMM_WORLD, &rank);
		error = error ? error : GMPI_Comm_size(buf, MPI_COMM_WORLD, &size);
		error = error ? error :
				GMPI_Put(buf, words + 2, 1, MPI_LONG, (rank + 1) % size, 3 * sizeof(uint64_t), 1, MPI_LONG, args.handle);
		error = error ? error : GMPI_Win_fence(buf, 0, args.handle);
		break;
	case CALLS_SEND_NEXT:
		error = GMPI_Comm_rank(buf, args.handle, &rank);
		error = error ? error : GMPI_Comm_size(buf, args.handle, &size);
		error = error ? error :
				GMPI_Sendrecv(buf, words + 2, 1, MPI_LONG, (rank + 1) % size, 0, words + 3, 1, MPI_LONG,
					      (rank + size - 1) % size, 0, args.handle, MPI_STATUS_IGNORE);
		break;
	default:
		break;
	}
	if (ggas_thread() == 0 && ggas_block() == 0)
		words[1] = static_cast<uint64_t>(error);
}

int calls_run(gmpi_t *gmpi, const calls_args *args, unsigned grid, unsigned block)
{
	return GMPI_RUN(gmpi, calls, grid, block, *args, 60000);
}
