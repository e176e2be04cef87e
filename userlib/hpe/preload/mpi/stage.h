/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Host memory that stands in for a buffer of a device while an MPI library uses it. */
#ifndef GGAS_HPE_MPI_STAGE_H
#define GGAS_HPE_MPI_STAGE_H

#include <mpi.h>
#include <stddef.h>

/* What a call does with a buffer. */
enum use { READ = 1, WRITE = 2 };

struct stage {
	/* What to pass to MPI: the caller's own buffer where that is the host's. */
	void *buffer;
	/* The rest only where the buffer is a device's: the bytes' start there and here, and how many. */
	char *device, *host;
	size_t bytes;
	enum use use;
	/* No byte between the elements, and these in order: then a short message tells what to copy back. */
	int dense;
	/* Of a call on a file: that is not cancelled, and Open MPI leaves the word of its status that would say so as it was. */
	int of_file;
	/* Of receives that a long message may come for, into whatever memory: bytes of a message, where the first goes,
	 * and the datatype. Else 0. */
	size_t capacity;
	MPI_Aint start;
	MPI_Datatype type;
};

/* A range of elements of one datatype, from the least displacement to behind the greatest. */
struct range {
	MPI_Aint start, end;
	int dense;
};

/*
 * Says on stderr what cannot be done, and gives the error to the communicator's handler, which by default
 * ends the program. Returns the error.
 */
int hpe_mpi_fail(MPI_Comm comm, int error, const char *call, const char *why);

/* Whether a pointer is a device's; MPI_IN_PLACE and MPI_BOTTOM are not. */
int hpe_mpi_is_device(const void *buffer);

/* The range of `count` elements; of `parts` counts at displacements in elements. MPI_SUCCESS or MPI_ERR_TYPE. */
int hpe_mpi_range(MPI_Count count, MPI_Datatype type, struct range *range);
int hpe_mpi_range_v(int parts, const int *counts, const int *displs, MPI_Datatype type, struct range *range);

/* Copies in what is read. MPI_SUCCESS, or MPI_ERR_NO_MEM, MPI_ERR_BUFFER. */
int hpe_mpi_begin(struct stage *stage, const void *buffer, const struct range *range, enum use use);

/* Memory for a buffer that is copied in later, and again and again: by hpe_mpi_refresh. MPI_SUCCESS, or MPI_ERR_NO_MEM. */
int hpe_mpi_reserve(struct stage *stage, const void *buffer, const struct range *range, enum use use);

/* Copies in what is read, or has to come back as it was. MPI_SUCCESS, or MPI_ERR_BUFFER. */
int hpe_mpi_refresh(struct stage *stage);

/* Copies back as hpe_mpi_end does, and keeps the memory. */
int hpe_mpi_deliver(struct stage *stage, MPI_Status *status, int error);

/*
 * Copies back what was written, `status` telling how much of it (NULL: all), unless the call had an error; lets
 * the memory go. Returns the call's error, or MPI_ERR_BUFFER.
 */
int hpe_mpi_end(struct stage *stage, MPI_Status *status, int error);

#endif
