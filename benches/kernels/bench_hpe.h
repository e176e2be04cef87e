/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arguments of the kernels of the programs of HPE: stencil (bench_hpe_stencil.cu), FFT (bench_hpe_fft.cu), merge sort (hpe_sort.cu). Addresses
 * are whatever device's: where devices reach each other a kernel reads its neighbours' memory by the pointers that it is given.
 */
#ifndef GGAS_BENCH_HPE_H
#define GGAS_BENCH_HPE_H

#include <stdint.h>

/* One step of some planes of a device's part of a cube. The planes next to the part lie anywhere. */
struct bench_hpe_stencil {
	uint64_t in;		/* const float[planes][side][side] */
	uint64_t out;		/* the same; the outer points of planes stay as they are */
	uint64_t below;		/* const float[side][side]: the plane before the first one */
	uint64_t above;		/* and the one behind the last one */
	uint32_t side;
	uint32_t planes;
	uint32_t begin;		/* planes that are updated */
	uint32_t end;
	float weights[4];	/* of the point, and of its 6, 12 and 8 neighbours by faces, edges, corners */
};

/* A step of a transform by decimation in frequency, on `count` numbers of `points`. */
struct bench_hpe_fft {
	uint64_t data;		/* float[count][2], in place where the step stays in it */
	uint64_t partner;	/* across devices: the same numbers of the device with the other halves */
	uint64_t out;		/* across devices: the result */
	uint64_t twiddles;	/* const float[points / 2][2] */
	uint64_t points;	/* a power of two, as are `count` and `half` */
	uint64_t first;		/* number of data[0] among the points */
	uint64_t count;
	uint64_t half;		/* distance of the two numbers of a butterfly */
};

#define BENCH_HPE_SORT_RUN	16	/* numbers that a thread sorts, or merges */

/* Sorts runs of BENCH_HPE_SORT_RUN numbers in place. */
struct bench_hpe_sort_runs {
	uint64_t data;		/* uint32_t[count] */
	uint64_t count;
};

/* Merges neighbouring sorted pieces of `width` numbers, a multiple of BENCH_HPE_SORT_RUN. */
struct bench_hpe_sort_merge {
	uint64_t in;		/* const uint32_t[count] */
	uint64_t out;		/* uint32_t[count] */
	uint64_t count;
	uint64_t width;
};

/*
 * Numbers that lie on several devices, in order, `chunk` of them on each but the last: number i is
 * ((const uint32_t *)table[first + i / chunk])[i % chunk].
 */
struct bench_hpe_sequence {
	uint64_t table;		/* const uint64_t[]: addresses of the chunks */
	uint64_t chunk;
	uint64_t first;		/* place in the table */
	uint64_t begin;		/* the sequence begins with this number */
	uint64_t length;
};

/* Finds how many of a sorted sequence's numbers are among the first `at` of both sequences merged. */
struct bench_hpe_sort_pivot {
	struct bench_hpe_sequence a;
	struct bench_hpe_sequence b;
	uint64_t at[2];
	uint64_t found;		/* uint64_t[2]: how many of `a` */
};

/* Merges two sorted sequences. */
struct bench_hpe_sort_join {
	struct bench_hpe_sequence a;
	struct bench_hpe_sequence b;
	uint64_t out;		/* uint32_t[a.length + b.length] */
};

/* Adds up words of several devices, each GGAS_HPE_LINE of them by one thread. */
struct bench_hpe_loads {
	uint64_t map;		/* const struct ggas_hpe_map */
	uint64_t data;		/* const uint64_t[count], by the host's pointer; begins with a line */
	uint64_t count;
	uint64_t sum;		/* uint64_t, to which all threads add */
	uint32_t kept;		/* whether lines are kept */
	uint32_t reserved;
};

/*
 * Rounds of a writer, on the device whose memory the data are, and of a reader on another, in pairs of threads. The reader loads the
 * data and says so; the writer then stores the round to the data, and to the flag; the reader sees the flag, and loads the data again.
 */
struct bench_hpe_fences {
	uint64_t map;		/* const struct ggas_hpe_map */
	uint64_t data;		/* uint64_t[pairs][GGAS_HPE_LINE / 8] of the writer, by the host's pointer */
	uint64_t said;		/* the same */
	uint64_t flag;		/* the same, of the reader */
	uint64_t counts;	/* struct bench_litmus_counts */
	uint64_t rounds;
	uint64_t timeout_ns;
	uint32_t reads;		/* whether this is the reader */
	uint32_t kept;		/* whether lines are kept */
	uint32_t build;		/* BENCH_LITMUS_RIGHT or _WEAK: without the reader's fence */
	uint32_t reserved;
};

#endif /* GGAS_BENCH_HPE_H */
