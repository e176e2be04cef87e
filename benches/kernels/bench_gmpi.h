/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels of gmpi-himeno and gmpi-polling; included by bench.h. */
#ifndef GGAS_BENCH_GMPI_H
#define GGAS_BENCH_GMPI_H

/* What carries halos and sums of gmpi-himeno. */
#define BENCH_GMPI_DAEMON	0	/* calls to the daemon by block 0; all blocks pack and unpack */
#define BENCH_GMPI_DIRECT	1	/* messages from kernel to kernel; each of `pieces` blocks has a piece of every boundary */
#define BENCH_GMPI_PUT		2	/* stores and flags in the window, by the same pieces; sums by a group */

/* Most pieces of a boundary: the flags that lie between the words of two neighbours. */
#define BENCH_GMPI_PIECES	16
/* Blocks that make calls: each with a piece, and one that adds up. */
#define BENCH_GMPI_CALLERS	17

/* gmpi-himeno (GMPI paper, Fig. 5, VI B): Himeno of a node that is a rank. */
struct bench_gmpi_himeno {
	struct bench_himeno grid;	/* its `sides` are all neighbours, and flags[0] counts blocks that met */
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t comm;		/* MPI_Comm: ranks are nodes */
	uint64_t group;		/* struct ggas_group; PUT only */
	uint64_t message;	/* attached: packed boundaries out, behind them those that come in */
	uint64_t message_bytes;	/* of those out */
	uint64_t place;		/* uint64_t[sides]: offset of each among them */
	uint64_t sums;		/* double[2 + nodes], attached: squared residuals of this rank, of all, and of each */
	uint64_t parts;		/* double[blocks]: those of blocks */
	uint64_t requests;	/* MPI_Request[pieces][2 * max(sides, nodes)] */
	uint64_t phases;	/* uint64_t[iterations][3]: ticks of computation, halo, convergence; the last two at the same time, but by DAEMON */
	double tolerance;	/* an iteration whose sum is less is the last */
	uint32_t way;		/* BENCH_GMPI_DAEMON ... */
	uint32_t pieces;
};

/* What gmpi-polling's kernel does. */
#define BENCH_POLLING_READ	0	/* reads memory */
#define BENCH_POLLING_COMPUTE	1	/* computes in registers */

/* gmpi-polling: a kernel that fills the processor, beside a daemon that nobody calls. */
struct bench_gmpi_polling {
	uint64_t data;		/* uint64_t[count], READ only */
	uint64_t count;
	uint64_t rounds;	/* over the data; COMPUTE: steps of each thread */
	uint64_t sums;		/* uint64_t[blocks]: of what was read, or of the threads' last values */
	uint64_t times;		/* uint64_t[2][blocks]: global timer when a block began and ended */
	uint32_t what;		/* BENCH_POLLING_READ ... */
	uint32_t reserved;
};

#endif /* GGAS_BENCH_GMPI_H */
