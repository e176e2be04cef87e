/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a kernel's accesses by HPE's pointers need (hpe.cuh). C, C++ and CUDA compile this file alike; Rust sees it through bindgen
 * (ggas_hpe).
 */
#ifndef GGAS_HPE_LAYOUT_H
#define GGAS_HPE_LAYOUT_H

#include <stdint.h>

/* Whose an address is, by its bits: device n has n << GGAS_HPE_SEGMENT_BITS and up, n from 1 to GGAS_HPE_DEVICES. */
#define GGAS_HPE_SEGMENT_BITS	40
#define GGAS_HPE_DEVICES	31

#define GGAS_HPE_LINE		32	/* bytes of what a kernel keeps of another device's memory */

/* Accesses of a kernel's threads, added up. */
struct ggas_hpe_counts {
	uint64_t local;		/* to memory of the device that runs the kernel */
	uint64_t remote;	/* to other devices': what went there, for words or for whole lines */
	uint64_t kept;		/* loads of other devices' memory that a kept line answered */
	uint64_t outside;	/* to memory that the map does not have: the host's, or other objects */
};

/* Memory of devices as kernels of one of them see it. */
struct ggas_hpe_map {
	uint64_t begin;		/* where kernels find all of it */
	uint64_t bytes;
	uint64_t own;		/* the part of the device that runs the kernel */
	uint64_t own_bytes;
	uint64_t bit;		/* what the host's names of devices' memory lack (the executor's view), or 0 */
	uint64_t counts;	/* struct ggas_hpe_counts, or 0 */
};

#endif /* GGAS_HPE_LAYOUT_H */
