// SPDX-License-Identifier: MIT OR Apache-2.0
// A Jacobi relaxation on a grid that ranks share in two directions: edges go to four neighbours by MPI calls of the kernel.
#include "ggas/gmpi.cuh"

/* `Halo` in src/main.rs. A field has `rows` + 2 rows of `columns` + 2 points: the outermost are the neighbours', or the fixed border. */
struct halo {
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t field[2];	/* double[rows + 2][columns + 2]; step i reads field[i % 2] */
	uint64_t edges;		/* double[4][rows]: columns to send west and east, and those that come from there */
	uint64_t requests;	/* MPI_Request[8] */
	uint64_t error;		/* uint64_t: the error class that ended it */
	uint32_t rows, columns;
	uint32_t across, down;	/* ranks of a row of them, and of a column */
	uint32_t steps;
	uint32_t reserved;
};

namespace gmpi_halo
{

/* Columns do not lie together: they are packed. */
GGAS_FN void pack(const halo &args, const double *field, double *edges)
{
	uint32_t width = args.columns + 2;
	for (uint32_t i = ggas_thread(); i < args.rows; i += ggas_threads()) {
		const double *row = field + (i + 1) * width;
		edges[i] = row[1];
		edges[args.rows + i] = row[args.columns];
	}
}

GGAS_FN void unpack(const halo &args, double *field, const double *edges, bool has_west, bool has_east)
{
	uint32_t width = args.columns + 2;
	for (uint32_t i = ggas_thread(); i < args.rows; i += ggas_threads()) {
		double *row = field + (i + 1) * width;
		if (has_west)
			row[0] = edges[2 * args.rows + i];
		if (has_east)
			row[args.columns + 1] = edges[3 * args.rows + i];
	}
}

/* Each edge to the neighbour there, and the neighbours' edges into the points around ours. Tags say which way a message goes. */
GGAS_FN int exchange(const halo &args, gmpi_buf_t *buf, double *field)
{
	auto *edges = reinterpret_cast<double *>(args.edges);
	auto *requests = reinterpret_cast<MPI_Request *>(args.requests);
	uint32_t x = buf->rank % args.across, y = buf->rank / args.across, width = args.columns + 2;
	int rank = static_cast<int>(buf->rank), row = static_cast<int>(args.across);
	int rows = static_cast<int>(args.rows), columns = static_cast<int>(args.columns);
	int north = y > 0 ? rank - row : MPI_PROC_NULL, south = y + 1 < args.down ? rank + row : MPI_PROC_NULL;
	int west = x > 0 ? rank - 1 : MPI_PROC_NULL, east = x + 1 < args.across ? rank + 1 : MPI_PROC_NULL;
	double *last = field + args.rows * width;
	pack(args, field, edges);
	MPI_Comm world = MPI_COMM_WORLD;
	int error = GMPI_Irecv(buf, field + 1, columns, MPI_DOUBLE, north, 0, world, requests);
	error |= GMPI_Irecv(buf, last + width + 1, columns, MPI_DOUBLE, south, 1, world, requests + 1);
	error |= GMPI_Irecv(buf, edges + 2 * rows, rows, MPI_DOUBLE, west, 2, world, requests + 2);
	error |= GMPI_Irecv(buf, edges + 3 * rows, rows, MPI_DOUBLE, east, 3, world, requests + 3);
	error |= GMPI_Isend(buf, field + width + 1, columns, MPI_DOUBLE, north, 1, world, requests + 4);
	error |= GMPI_Isend(buf, last + 1, columns, MPI_DOUBLE, south, 0, world, requests + 5);
	error |= GMPI_Isend(buf, edges, rows, MPI_DOUBLE, west, 3, world, requests + 6);
	error |= GMPI_Isend(buf, edges + rows, rows, MPI_DOUBLE, east, 2, world, requests + 7);
	if (!error)
		error = GMPI_Waitall(buf, 8, requests, MPI_STATUSES_IGNORE);
	if (!error)
		unpack(args, field, edges, west != MPI_PROC_NULL, east != MPI_PROC_NULL);
	ggas_syncthreads();
	return error;
}

/* Each point becomes the mean of those around it. */
GGAS_FN void relax(const halo &args, const double *from, double *to)
{
	uint32_t width = args.columns + 2;
	for (uint32_t i = ggas_thread(); i < args.rows * args.columns; i += ggas_threads()) {
		uint32_t at = (i / args.columns + 1) * width + i % args.columns + 1;
		to[at] = (from[at - width] + from[at + width] + from[at - 1] + from[at + 1]) * 0.25;
	}
	ggas_syncthreads();
}

} // namespace gmpi_halo

/* By one block: a grid of several would meet (blocks.cuh) where this one has its barriers. */
GGAS_KERNEL(gmpi_halo_relax, halo)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	int error = MPI_SUCCESS;
	for (uint32_t step = 0; step < args.steps && !error; step++) {
		auto *from = reinterpret_cast<double *>(args.field[step % 2]);
		error = gmpi_halo::exchange(args, buf, from);
		gmpi_halo::relax(args, from, reinterpret_cast<double *>(args.field[1 - step % 2]));
	}
	if (ggas_thread() == 0)
		*reinterpret_cast<uint64_t *>(args.error) = static_cast<uint64_t>(error);
}
