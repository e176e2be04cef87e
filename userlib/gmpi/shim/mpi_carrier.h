/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the daemon asks of an MPI library. MPI has no binary interface that libraries share, so mpi_carrier.c and mpi_comms.c are
 * compiled once against each library's mpi.h, by its mpicc, when a program first uses that library. src/carrier/mpi has the same in Rust.
 *
 * All functions return an error class of gmpi_layout.h, 0: none. One thread calls them.
 */
#ifndef GGAS_MPI_CARRIER_H
#define GGAS_MPI_CARRIER_H

#include <stdint.h>

#define GMPI_SHIM_VERSION	8

#define GMPI_SHIM_SEND		1
#define GMPI_SHIM_RECV		2
#define GMPI_SHIM_BARRIER	3
#define GMPI_SHIM_BCAST		4
#define GMPI_SHIM_REDUCE	5
#define GMPI_SHIM_ALLREDUCE	6
#define GMPI_SHIM_ALLGATHER	7
#define GMPI_SHIM_ALLTOALL	8
#define GMPI_SHIM_PUT		9
#define GMPI_SHIM_GET		10
#define GMPI_SHIM_GATHER	11
#define GMPI_SHIM_SCATTER	12

/* One operation. Counts are of each block; ranks, tags and types are those of gmpi_layout.h. */
struct gmpi_shim_call {
	void *from, *to;	/* one buffer is in both; null: in place, or none */
	uint64_t displacement;
	int32_t kind;		/* GMPI_SHIM_* */
	int32_t comm;		/* communicator, or window */
	int32_t count;
	int32_t type;
	int32_t rank;		/* the other one, or the root */
	int32_t tag;
	int32_t op;
	int32_t reserved;
};

struct gmpi_shim_status {
	int32_t source, tag;
	int64_t bytes;
};

#endif /* GGAS_MPI_CARRIER_H */
