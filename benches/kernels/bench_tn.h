/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels of tn and of the programs of GPU-TN; included by bench.h. */
#ifndef GGAS_BENCH_TN_H
#define GGAS_BENCH_TN_H

#define BENCH_TN_SIGNAL		0	/* puts with signals, one after the other */
#define BENCH_TN_TRIGGER	1	/* the same, registered and triggered */
#define BENCH_TN_SEND		2	/* one of them, by a kernel of its own */
#define BENCH_TN_WAIT		3	/* waits for one, and ends */
#define BENCH_TN_PREPARED	4	/* as BENCH_TN_TRIGGER, read ahead while the last one is under way */

/* tn: ping-pong of puts with signals that are added, as in put-signal. */
struct bench_tn {
	struct bench_timing timing;
	uint64_t window;	/* struct ggas_window */
	uint64_t tn;		/* struct ggas_tn: tags 0 and 1 send what is sent in even and odd rounds */
	uint64_t source[2];
	uint64_t arrival[2];	/* offsets in the window */
	uint64_t bytes;
	uint64_t signal;	/* offset of a uint64_t in the window */
	uint64_t counts;	/* SEND, WAIT: uint64_t[2], sent and seen by the kernels before */
	uint64_t status;	/* SEND, WAIT: uint64_t, the first error */
	uint32_t form;		/* BENCH_TN_SIGNAL ... */
	uint32_t scope;		/* BENCH_PUT_THREAD, BENCH_PUT_WARP, BENCH_PUT_BLOCK */
	uint32_t peer;
	uint32_t first;		/* 1: begins each round, and measures */
};

/* What the programs of GPU-TN share. A message has a tag of `tn`, and a counter at the receiver, which says how many came.
 * Where a card's unit carries puts out, they signal nothing: then the tag `words` further puts the counter's new value
 * behind the data. */
struct bench_tn_program {
	uint64_t window;	/* struct ggas_window: where messages arrive */
	uint64_t tn;		/* struct ggas_tn; 0: the kernel triggers nothing */
	uint64_t words;		/* 0: puts signal */
	uint64_t status;	/* uint64_t, the first error */
};

/* tn-line: one block copies a line, and sends the copy; the target's kernel tells its host what it sees. */
struct bench_tn_line {
	struct bench_tn_program program;
	uint64_t source;
	uint64_t buffer;	/* what is sent */
	uint64_t bytes;		/* a multiple of 4 */
	uint64_t value;		/* uint64_t: the counter's value behind this line, where `words` are put */
	uint64_t round;		/* how many lines were sent before */
	uint64_t counter;	/* offset in the window */
	uint64_t seen;		/* target: uint64_t in host memory, how many lines came */
	uint64_t rounds;	/* target: lines that come */
};

#define BENCH_JACOBI_NORTH	0	/* sides, and bits of `neighbours` */
#define BENCH_JACOBI_SOUTH	1
#define BENCH_JACOBI_WEST	2
#define BENCH_JACOBI_EAST	3
#define BENCH_JACOBI_SIDES	4

/* Bytes from one side's counter to the next, from the begin of the window; behind them lie the edges that come. */
#define BENCH_JACOBI_COUNTER	64
#define BENCH_JACOBI_EDGES	256

/* tn-jacobi: iterations on this node's square of points, rows shared out to blocks. What iteration k reads is field k & 1,
 * what it sends to the neighbours is in the edges (k + 1) & 1, which arrive at the same number. Tags: side + 4 times
 * that number. */
struct bench_tn_jacobi {
	struct bench_tn_program program;
	uint64_t fields[2];	/* float[side + 2][side + 2], with a border */
	uint64_t edges;		/* float[2][4][stride / 4]: what is sent; behind them uint64_t[2][4], values for `words` */
	uint64_t stride;	/* bytes from an edge to the next, here and in the window */
	uint64_t met;		/* uint64_t: blocks that met, all iterations together; 0 at first */
	uint64_t first;		/* iterations before this kernel */
	uint64_t iterations;	/* of this kernel; more than one only with `tn` */
	uint32_t side;
	uint32_t neighbours;	/* bits of sides */
};

/* Bytes from one slice's counter to the next, from the begin of the window. */
#define BENCH_RING_COUNTER	64

/* tn-allreduce: a ring. In step s a node sends part node - s, and gets part node - s - 1; the first nodes - 1 steps add
 * what comes, which lies at `landing`, the others bring sums to `result`. With `tn`, block b does all steps of slice b of
 * each part; the tag of a message is step * slices + slice. Else the grid adds what came in one step. */
struct bench_tn_allreduce {
	struct bench_tn_program program;
	uint64_t data;		/* float[elements]: the node's own, then sums */
	uint64_t landing;	/* offset in the window of float[elements] */
	uint64_t result;	/* offset in the window of float[elements] */
	uint64_t elements;
	uint32_t nodes;
	uint32_t node;
	uint32_t slices;
	uint32_t step;		/* without `tn` */
};

#define BENCH_LITMUS_TRIGGER_SIGNAL	0	/* offsets in the window: how many puts came, and what they brought */
#define BENCH_LITMUS_TRIGGER_DATA	256
#define BENCH_LITMUS_TRIGGER_BESIDE	64	/* what a put brings beside words that were stored to the other node */

#endif /* GGAS_BENCH_TN_H */
