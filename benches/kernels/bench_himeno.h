/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of himeno's kernels; included by bench.h. */
#ifndef GGAS_BENCH_HIMENO_H
#define GGAS_BENCH_HIMENO_H

/* What a kernel does in an iteration. */
#define BENCH_HIMENO_BOUNDARY	1	/* computes the planes that neighbours need */
#define BENCH_HIMENO_INTERIOR	2	/* computes the others */
#define BENCH_HIMENO_WAIT	4	/* blocks that have a part of the boundary wait for the neighbours' planes first */
#define BENCH_HIMENO_SEND	8	/* the last block to finish the boundary sends it */
#define BENCH_HIMENO_ADVANCE	16	/* the last block to finish ends the iteration */
#define BENCH_HIMENO_STORE	32	/* blocks store their part of the boundary at the neighbours, too; the last one tells them */
#define BENCH_HIMENO_MEET	64	/* all blocks of all nodes meet at the end of an iteration */
#define BENCH_HIMENO_EVEN	128	/* the kernels queued with this one begin with an even iteration: `offset` says which field is read */
#define BENCH_HIMENO_PACK	256	/* messages to neighbours are made ready where they are sent from */

/* bench_himeno_persistent: threads of all its blocks on a multiprocessor, since each wants more registers than there are for more; bytes
 * of shared memory in which a block keeps coefficients, what a block may have without being asked for more. */
#define BENCH_HIMENO_LASTING	384
#define BENCH_HIMENO_KEPT	47104

/* Blocks that send a message by queues: each a piece of it, with a flag. */
#define BENCH_HIMENO_PIECES	4

/* How far a node came, in its own memory. */
struct bench_himeno_state {
	uint64_t iteration;	/* iterations that have ended */
	uint64_t left;		/* device: those that the loop of the graph still makes */
	uint64_t boundary;	/* blocks that finished the boundary (ggas_last_block) */
	uint64_t finished;	/* blocks that finished the iteration */
	uint64_t sent[2];	/* blocks that sent their share, by neighbour */
	uint64_t status;	/* GGAS_OK, or what failed */
};

/* One of a node's two neighbours in the direction of planes. */
struct bench_himeno_edge {
	uint64_t to[2];		/* offset of its boundary plane in its part of the window, of even and odd fields */
	uint64_t signal;	/* offset there of the word that counts iterations of this node */
	uint64_t seen;		/* offset of the word here that counts those of the neighbour */
	uint64_t plane;		/* number of this node's plane that it needs */
	uint32_t node;		/* ~0: there is none */
	uint32_t reserved;
};

/* A neighbour in any direction, where a grid is cut in more than one: a box of points that it needs, and one that it has. Packed they
 * are a message, x first. */
struct bench_himeno_side {
	int64_t from;		/* the first point of the box that it needs: a float of this node's fields */
	int64_t to;		/* where it needs it: a float of its fields */
	int64_t beyond;		/* where this node needs what it has: a float of this node's fields */
	uint64_t sent;		/* offset in this node's part of the window: where a message to it is made ready */
	uint64_t arrives[2];	/* the same, where its messages arrive, those of even and of odd iterations */
	uint64_t arrives_there[2];	/* in its part, where this node's arrive */
	uint64_t signal;	/* offset there of the word that counts iterations of this node */
	uint64_t seen;		/* offset of the word here that counts those of the neighbour */
	uint32_t extent[3];	/* points of a box along x, y and z */
	uint32_t packed;	/* 0: the box lies together in the fields and is sent as it is, straight to its place */
	uint32_t node;
	uint32_t flag;		/* by queues: first of BENCH_HIMENO_PIECES flags here, and there */
	uint32_t flag_there;
	uint32_t reserved;
};

/* himeno: a node has planes 1 to `z`; planes 0 and `z` + 1 are its neighbours'. Where planes are cut, rows 0 or `y` - 1 are, too. Where
 * rows are cut, the points around a row's are: one behind it, and one at the end of the row before it in memory. */
struct bench_himeno {
	struct bench_timing timing;	/* persistent kernels; a sample: an iteration */
	uint64_t window;	/* struct ggas_window */
	uint64_t local;		/* address of this node's part of it */
	uint64_t state;		/* struct bench_himeno_state */
	uint64_t coefficients;	/* float[12][z + 2][rows][pitch] */
	uint64_t sums;		/* double[z + 2][y][tiles of a row], or of each tile one for each lane */
	uint64_t field[2];	/* offsets in the window: float[z + 2][rows][pitch] each; iteration i reads field[i % 2] */
	struct bench_himeno_edge edge[2];	/* below and above */
	uint64_t flags;		/* offset in the window: of the blocks of persistent kernels, uint64_t[2 * places + a meeting's + units] */
	uint64_t seed;		/* of the data; 0: those of the benchmark */
	uint64_t side;		/* struct bench_himeno_side[sides] in this node's memory */
	uint64_t queues;	/* struct ggas_queues */
	uint64_t memory;	/* struct ggas_memory of the window, by member */
	uint32_t x;		/* points of a row that are this node's */
	uint32_t y;		/* rows of a plane, neighbours' included */
	uint32_t z;		/* planes of this node */
	uint32_t pitch;		/* floats of a row */
	uint32_t rows;		/* of a plane in memory */
	uint32_t first[3];	/* x, y and z of point 0 of row 0 of plane 1 in the whole grid */
	uint32_t whole[3];	/* points of the whole grid along x, y and z */
	uint32_t sides;
	uint32_t lanes;		/* 1: each lane of a tile has a sum of its own */
	uint32_t what;		/* BENCH_HIMENO_* */
	uint32_t offset;	/* iterations of kernels queued before this one that are not in the state yet */
	uint32_t places;	/* flags for the parts of a neighbour */
	uint32_t slabs;		/* persistent kernels: units above each other, at least 1, each of as many planes */
	uint32_t reserved;
};

#endif /* GGAS_BENCH_HIMENO_H */
