/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels that write between segments in GPU memory (gaspi.cu); userlib/gaspi fills them in. */
#ifndef GGAS_GASPI_ARGS_H
#define GGAS_GASPI_ARGS_H

#include <stdint.h>

/* A write by stores, and behind it a word. With a word the grid is one block. */
struct gaspi_store {
	uint64_t to;
	uint64_t from;
	uint64_t bytes;
	uint64_t word;		/* address of 8 bytes; 0: none */
	uint64_t value;
};

#define GASPI_ORDERS	64	/* under way at most */

/*
 * A short write that is ordered of a kernel on standby: `to`, `from`, the address of a word behind it or 0, and its value with the
 * bytes above it, 32 bits each. Beside each stands the order's number, from 1, stored behind it: an order is there when all
 * four say so. In host memory.
 */
struct gaspi_order {
	uint64_t part[4][2];
};

/* How far a kernel on standby is, in host memory. */
struct gaspi_ordered {
	uint64_t done;		/* number of the last order that is */
	uint64_t here;		/* the life of the kernel that has begun last */
	uint64_t leaves;	/* the life of one that is about to end, or ~0 */
	uint64_t gone;		/* the life of the one that has ended last: it took what is done, and nothing else */
};

struct gaspi_standby {
	uint64_t orders;	/* struct gaspi_order[GASPI_ORDERS], 64-byte aligned */
	uint64_t ordered;	/* struct gaspi_ordered */
	uint64_t life;		/* of this kernel; each has another */
	uint64_t patience_ns;	/* it ends when there was nothing for so long */
};

#endif /* GGAS_GASPI_ARGS_H */
