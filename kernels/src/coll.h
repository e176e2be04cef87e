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

/* Sums vectors in a window over all nodes of a group. */
struct coll_allreduce {
	uint64_t group;		/* struct ggas_group */
	uint64_t window;	/* struct ggas_window of the same nodes */
	uint64_t in;		/* offsets in it of `count` elements, multiples of 16 */
	uint64_t out;
	uint64_t count;
	uint32_t element;	/* COLL_FLOAT ... */
	uint32_t chunks;	/* by writes, in so many parts; 0: by reads, as always where `in` is `out` */
};

#endif /* GGAS_COLL_ARGS_H */
