/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ggas/gmpi.cuh"

#include "calls.h"

/* Names that stand for a type are as long as it. */
constexpr bool calls_fits(int type, size_t bytes) { return (type & GMPI_TYPE_SIZE_MASK) == bytes; }
static_assert(calls_fits(MPI_INT8_T, 1) && calls_fits(MPI_INT16_T, 2) && calls_fits(MPI_INT32_T, 4) && calls_fits(MPI_INT64_T, 8), "");
static_assert(calls_fits(MPI_UINT8_T, 1) && calls_fits(MPI_UINT16_T, 2) && calls_fits(MPI_UINT32_T, 4) && calls_fits(MPI_UINT64_T, 8), "");
static_assert(calls_fits(MPI_C_BOOL, sizeof(bool)) && calls_fits(MPI_AINT, sizeof(MPI_Aint)) &&
		      calls_fits(MPI_LONG_LONG_INT, sizeof(long long)), "");

/* What needs no daemon, and a send that a receive waits for. */
GGAS_FN int calls_ready(gmpi_buf_t *buf, uint64_t *words)
{
	double begun = GMPI_Wtime();
	int size = 0;
	bool good = !GMPI_Type_size(MPI_INT32_T, &size) && size == 4 && GMPI_Type_size(0, &size) == MPI_ERR_TYPE;
	int error = GMPI_Irecv(buf, words + 4, 1, MPI_LONG, 0, 5, MPI_COMM_SELF, words + 6);
	error = error ? error : GMPI_Rsend(buf, words + 2, 1, MPI_LONG, 0, 5, MPI_COMM_SELF);
	error = error ? error : GMPI_Wait(buf, words + 6, MPI_STATUS_IGNORE);
	good = good && words[4] == words[2] && GMPI_Wtime() >= begun;
	return error ? error : good ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* Compiled, as all that GMPI_IN_PLACE stands for is a pointer. */
GGAS_FN int calls_in_place(gmpi_buf_t *buf, int32_t *sum)
{
	return GMPI_Allreduce(buf, GMPI_IN_PLACE, sum, 1, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
}

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
	case CALLS_IN_PLACE:
		error = calls_ready(buf, words);
		error = error ? error : calls_in_place(buf, reinterpret_cast<int32_t *>(words + 2));
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
