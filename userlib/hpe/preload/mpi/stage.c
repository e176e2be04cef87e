/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>

#include "ggas_hpe.h"
#include "requests.h"

int hpe_mpi_fail(MPI_Comm comm, int error, const char *call, const char *why)
{
	fprintf(stderr, "ggas-hpe: %s: %s\n", call, why);
	PMPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, error);
	return error;
}

int hpe_mpi_is_device(const void *buffer)
{
	return buffer != MPI_IN_PLACE && buffer != MPI_BOTTOM && ggas_hpe_is_device(buffer);
}

/*
 * Whether elements lie in the order in which they are sent. A type that fills its extent may have them in another one: a
 * matrix whose rows are sent as columns. Of types that are made otherwise nobody asks; they may well be in order.
 */
static int in_order(MPI_Datatype type)
{
	int integers, addresses, types, combiner, repeats, ordered = 0;
	MPI_Aint none;
	MPI_Datatype inner;

	if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner))
		return 0;
	if (combiner == MPI_COMBINER_NAMED)
		return 1;
	if (combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_DUP)
		return 0;
	if (PMPI_Type_get_contents(type, integers, 0, 1, &repeats, &none, &inner))
		return 0;
	ordered = in_order(inner);
	/* What is named may not be freed, nor Fortran's types of a precision, which are predefined, too. */
	if (!PMPI_Type_get_envelope(inner, &integers, &addresses, &types, &combiner) && combiner != MPI_COMBINER_NAMED &&
	    combiner != MPI_COMBINER_F90_REAL && combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER)
		PMPI_Type_free(&inner);
	return ordered;
}

int hpe_mpi_range(MPI_Count count, MPI_Datatype type, struct range *range)
{
	int one = 1, zero = 0, size;
	MPI_Aint bound, extent;
	int error = hpe_mpi_range_v(count > 0, &one, &zero, type, range);

	if (error || count <= 1)
		return error;
	if ((error = PMPI_Type_get_extent(type, &bound, &extent)) || (error = PMPI_Type_size(type, &size)))
		return error;
	range->end += (MPI_Aint)(count - 1) * extent;
	range->dense = size == extent && range->dense;
	return MPI_SUCCESS;
}

int hpe_mpi_range_v(int parts, const int *counts, const int *displs, MPI_Datatype type, struct range *range)
{
	MPI_Aint bound, extent, true_bound, true_extent;
	int error, size, any = 0;

	*range = (struct range){ 0, 0, 0 };
	if ((error = PMPI_Type_get_extent(type, &bound, &extent)) ||
	    (error = PMPI_Type_get_true_extent(type, &true_bound, &true_extent)) || (error = PMPI_Type_size(type, &size)))
		return error;
	/* Elements that lie backwards: no program that we know has them. */
	if (extent < 0)
		return MPI_ERR_TYPE;
	for (int i = 0; i < parts; i++) {
		MPI_Aint start = displs[i] * extent + true_bound;
		MPI_Aint end = start + (counts[i] - 1) * extent + true_extent;

		if (counts[i] <= 0)
			continue;
		if (!any || start < range->start)
			range->start = start;
		if (!any || end > range->end)
			range->end = end;
		any = 1;
	}
	range->dense = parts == 1 && counts[0] == 1 && size == true_extent && in_order(type);
	return MPI_SUCCESS;
}

int hpe_mpi_reserve(struct stage *stage, const void *buffer, const struct range *range, enum use use)
{
	*stage = (struct stage){ .buffer = (void *)buffer, .use = use, .dense = range->dense };
	stage->bytes = (size_t)(range->end - range->start);
	if (!stage->bytes || !hpe_mpi_is_device(buffer))
		return MPI_SUCCESS;
	hpe_mpi_reap_requests();
	stage->host = malloc(stage->bytes);
	if (!stage->host)
		return MPI_ERR_NO_MEM;
	stage->device = (char *)buffer + range->start;
	stage->buffer = stage->host - range->start;
	return MPI_SUCCESS;
}

int hpe_mpi_refresh(struct stage *stage)
{
	/* Bytes between the elements come back as they were. */
	if (!stage->host || (!(stage->use & READ) && stage->dense))
		return MPI_SUCCESS;
	return ggas_hpe_copy(stage->host, stage->device, stage->bytes) ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

int hpe_mpi_begin(struct stage *stage, const void *buffer, const struct range *range, enum use use)
{
	int error = hpe_mpi_reserve(stage, buffer, range, use);

	if (!error && (error = hpe_mpi_refresh(stage))) {
		free(stage->host);
		stage->host = NULL;
	}
	return error;
}

/* The bytes of a message that came, or all where it has gaps. */
static size_t arrived(const struct stage *stage, MPI_Status *status)
{
	MPI_Count bytes;
	int cancelled = 0;

	if (!stage->of_file && (PMPI_Test_cancelled(status, &cancelled) || cancelled))
		return 0;
	if (!stage->dense)
		return stage->bytes;
	if (PMPI_Get_elements_x(status, MPI_BYTE, &bytes) || bytes == MPI_UNDEFINED || bytes < 0)
		return stage->bytes;
	return (size_t)bytes < stage->bytes ? (size_t)bytes : stage->bytes;
}

int hpe_mpi_deliver(struct stage *stage, MPI_Status *status, int error)
{
	size_t bytes;

	if (!stage->host || error || !(stage->use & WRITE))
		return error;
	bytes = status ? arrived(stage, status) : stage->bytes;
	return bytes && ggas_hpe_copy(stage->device, stage->host, bytes) ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

int hpe_mpi_end(struct stage *stage, MPI_Status *status, int error)
{
	if (!stage->host)
		return error;
	error = hpe_mpi_deliver(stage, status, error);
	free(stage->host);
	stage->host = NULL;
	return error;
}
