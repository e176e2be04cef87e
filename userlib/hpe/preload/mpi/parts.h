/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collective calls on long buffers in parts: while MPI moves or reduces one, the results of those before and the next are copied. */
#ifndef GGAS_HPE_MPI_PARTS_H
#define GGAS_HPE_MPI_PARTS_H

#include <mpi.h>

struct coll {
	const char *name;
	const void *from;	/* or MPI_IN_PLACE; NULL for what has one buffer */
	void *to;		/* NULL where this rank gets nothing */
	int count;
	MPI_Datatype type;
	MPI_Op op;
	int root;
	MPI_Comm comm;
	/* Whether `to` is read, and written, here. */
	int reads, writes;
	/* Begins the call on `n` elements. */
	int (*begin)(const struct coll *coll, const void *from, void *to, int n, MPI_Request *request);
};

/*
 * Makes the call in parts if it is long and any rank's buffer is a device's, which all ranks ask each other: all of
 * them come here, with the same number of bytes. 0: it is to be made whole; else `error` is the call's.
 */
int hpe_mpi_in_parts(const struct coll *coll, int *error);

#endif
