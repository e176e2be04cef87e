/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What main.c and the kernel in ring.cu share. */
#ifndef RING_H
#define RING_H

#include <gmpi.h>

#define RING_VALUES 1000

/* Memory of a rank that its kernel names in calls: 8-byte values, so that C, C++ and CUDA lay it out alike. */
struct ring_memory {
	int64_t mine[RING_VALUES];
	int64_t theirs[RING_VALUES];
	int64_t sums[2];	/* of this rank, of all */
	uint64_t requests[2];
	int64_t error;		/* class of the first call that failed */
};

/* Arguments of the kernel: addresses and handles. */
struct ring_args {
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t memory;	/* struct ring_memory */
	uint64_t comm;		/* whose ranks make the ring */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the kernel where kernels of this process run, and waits for it. */
int ring_run(gmpi_t *gmpi, const struct ring_args *args);

#ifdef __cplusplus
}
#endif

#endif /* RING_H */
