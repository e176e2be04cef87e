/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "parts.h"

#include <stdlib.h>

#include "ggas_hpe.h"
#include "pipe.h"
#include "stage.h"

/* One of a call's buffers, as a part of it sees it. */
struct side {
	char *start;	/* with MPI_IN_PLACE, or without a buffer: NULL */
	char *buffers[2], *pinned;
	void *memory;
	int device;
};

static int open_side(struct side *side, const void *buffer)
{
	*side = (struct side){ .start = buffer == MPI_IN_PLACE ? NULL : (char *)buffer };
	side->device = side->start && hpe_mpi_is_device(side->start);
	return !side->device || hpe_mpi_take_buffers(side->buffers, &side->pinned, &side->memory, hpe_mpi_part());
}

static void close_side(struct side *side)
{
	hpe_mpi_return_buffers(side->pinned, side->memory);
}

static char *at(const struct side *side, size_t offset, int which)
{
	if (!side->start)
		return NULL;
	return side->device ? side->buffers[which] : side->start + offset;
}

/* The parts of one call: `n` elements of `extent` bytes each, but the last. */
struct run {
	const struct coll *coll;
	struct side from, to;
	size_t extent;
	int n, error;
	MPI_Request requests[2];
};

static size_t bytes_of(const struct run *run, int first)
{
	int left = run->coll->count - first;

	return (size_t)(left < run->n ? left : run->n) * run->extent;
}

static void copy(struct run *run, void *to, const void *from, size_t bytes)
{
	if (ggas_hpe_copy(to, from, bytes))
		run->error = MPI_ERR_BUFFER;
}

/* Waits for the part that begins with this element, and puts its result away. */
static void end_part(struct run *run, int first, int which)
{
	size_t offset = (size_t)first * run->extent;
	int error = PMPI_Wait(&run->requests[which], MPI_STATUS_IGNORE);

	if (error)
		run->error = error;
	else if (run->to.device && run->coll->writes)
		copy(run, run->to.start + offset, run->to.buffers[which], bytes_of(run, first));
}

static void begin_part(struct run *run, int first, int which)
{
	size_t offset = (size_t)first * run->extent, bytes = bytes_of(run, first);
	const struct coll *coll = run->coll;
	const void *from = coll->from == MPI_IN_PLACE ? MPI_IN_PLACE : at(&run->from, offset, which);
	int error;

	if (run->from.device)
		copy(run, run->from.buffers[which], run->from.start + offset, bytes);
	if (run->to.device && coll->reads)
		copy(run, run->to.buffers[which], run->to.start + offset, bytes);
	error = coll->begin(coll, from, at(&run->to, offset, which), (int)(bytes / run->extent), &run->requests[which]);
	if (error) {
		run->error = error;
		run->requests[which] = MPI_REQUEST_NULL;
	}
}

/* Whether all ranks make it in parts: their elements are of one size, so that all cut at the same bytes. */
static int agree(const struct coll *coll, int size)
{
	struct range range = { 0, 0, 0 };
	int cut = !hpe_mpi_range(coll->count, coll->type, &range);
	size_t bytes = (size_t)(range.end - range.start);
	int asked[4] = { 0, 1, size, -size };

	/* A device's buffer here? One that cannot be cut, or is not whole? */
	for (int i = 0; i < 2; i++) {
		const void *buffer = i ? coll->to : coll->from;
		int device = buffer && hpe_mpi_is_device(buffer);

		asked[0] |= device;
		if (device && !ggas_hpe_holds((const char *)buffer + range.start, bytes))
			asked[1] = 2;
	}
	if (asked[1] == 1)
		asked[1] = !cut || !range.dense || range.start != 0 || (size_t)size > hpe_mpi_part();
	if (PMPI_Allreduce(MPI_IN_PLACE, asked, 4, MPI_INT, MPI_MAX, coll->comm))
		return 0;
	return asked[0] && !asked[1] && asked[2] == -asked[3];
}

int hpe_mpi_in_parts(const struct coll *coll, int *error)
{
	struct run run = { .coll = coll, .requests = { MPI_REQUEST_NULL, MPI_REQUEST_NULL } };
	int inter = 1, size, first = 0, which = 0, opened;

	if (coll->count <= 0 || !hpe_mpi_part() || PMPI_Type_size(coll->type, &size) ||
	    !hpe_mpi_is_long((size_t)coll->count * (size_t)size) || PMPI_Comm_test_inter(coll->comm, &inter) || inter ||
	    !agree(coll, size))
		return 0;
	run.extent = (size_t)size;
	run.n = (int)(hpe_mpi_part() / run.extent);
	opened = open_side(&run.from, coll->from) & open_side(&run.to, coll->to);
	if (!opened) {
		close_side(&run.from);
		close_side(&run.to);
		*error = hpe_mpi_fail(coll->comm, MPI_ERR_NO_MEM, coll->name, "no memory for parts of a device's buffer");
		return 1;
	}
	for (; first < coll->count; first += run.n, which = 1 - which) {
		if (first >= 2 * run.n)
			end_part(&run, first - 2 * run.n, which);
		begin_part(&run, first, which);
		if (coll->count - first <= run.n)
			break;
	}
	if (first >= run.n)
		end_part(&run, first - run.n, 1 - which);
	end_part(&run, first, which);
	close_side(&run.from);
	close_side(&run.to);
	*error = run.error;
	if (run.error)
		hpe_mpi_fail(coll->comm, run.error, coll->name, "a part of a device's buffer cannot be copied or reduced");
	return 1;
}
