/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the collectives that the host starts (coll.cu); userlib/coll fills them in. */
#ifndef GGAS_COLL_ARGS_H
#define GGAS_COLL_ARGS_H

#include <stdint.h>

#define COLL_FLOAT	0
#define COLL_DOUBLE	1
#define COLL_INT32	2
#define COLL_INT64	3
#define COLL_HALF	4
#define COLL_BFLOAT16	5

#define COLL_SUM	0
#define COLL_PROD	1
#define COLL_MIN	2
#define COLL_MAX	3
#define COLL_AND	4	/* this and the next two: of whole numbers only */
#define COLL_OR		5
#define COLL_XOR	6

/* What ggas_collective makes of vectors in a window, over all nodes of a group. */
#define COLL_BARRIER		0
#define COLL_BROADCAST		1
#define COLL_ALL_GATHER		2
#define COLL_ALL_TO_ALL		3
#define COLL_REDUCE		4
#define COLL_REDUCE_SCATTER	5
#define COLL_ALLREDUCE		6

struct coll_started {
	uint64_t group;		/* struct ggas_group */
	uint64_t window;	/* struct ggas_window of the same nodes */
	uint64_t in;		/* offsets in it, multiples of 16 */
	uint64_t out;
	uint64_t count;		/* elements, as the functions of coll.cuh count them */
	uint32_t kind;		/* COLL_BARRIER ... */
	uint32_t element;	/* COLL_FLOAT ... */
	uint32_t op;		/* COLL_SUM ... */
	uint32_t root;
	uint32_t chunks;	/* sums at all nodes by writes, in so many parts; 0: by reads */
	uint32_t reserved;
};

#endif /* GGAS_COLL_ARGS_H */
