/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How kernels of a GPU have the host access what they do not reach themselves: parts of windows that lie on other
 * hosts (kernels/src/proxy). A command takes a line of 64 bytes of a ring in host memory; of a store of more than 16
 * bytes these follow in lines of their own. Units of a command line are written and read as a whole and have the
 * line's tag, so the host sees all of a command or none of it, and nothing need be fenced.
 */
#ifndef GGAS_PROXY_LAYOUT_H
#define GGAS_PROXY_LAYOUT_H

#include <stdint.h>

#define GGAS_PROXY_LINES	4096	/* of the ring, a power of two */
#define GGAS_PROXY_ANSWERS	128	/* commands whose answers are waited for at once */
#define GGAS_PROXY_BYTES	1024	/* most bytes of a command */
#define GGAS_PROXY_UNITS	3	/* of a command line that mean something */

/*
 * unit	word			low
 * 0	address			GGAS_ACCESS_*, GGAS_ATOMIC_* << 4, thread << 8, bytes - 1 << 20
 * 1	bytes 0 to 7 to store,	number of the answer, of commands that have one
 *	or the operand
 * 2	bytes 8 to 15,		block
 *	or what is expected
 */
struct ggas_proxy_unit {
	uint64_t word;
	uint32_t low;
	uint32_t tag;		/* times that this line of the ring was used, from 1 on */
};

struct ggas_proxy_line {
	struct ggas_proxy_unit unit[4];
};

/* Written by the host, `done` last; one for each use of the answer. */
struct ggas_proxy_answer {
	uint64_t word;		/* bytes 0 to 7 */
	uint64_t done;		/* 2 n - 1 behind the n-th use */
};

/* In memory of the kernels' processor; the rest is in host memory. */
struct ggas_proxy {
	uint64_t lines;		/* struct ggas_proxy_line[GGAS_PROXY_LINES] */
	uint64_t taken;		/* u64: lines that the host has taken */
	uint64_t answers;	/* struct ggas_proxy_answer[GGAS_PROXY_ANSWERS] */
	uint64_t bytes;		/* uint8_t[GGAS_PROXY_ANSWERS][GGAS_PROXY_BYTES]: what was loaded */
	uint64_t failed;	/* u64: not 0 once an access failed, of which nobody has heard */

	uint64_t next;		/* next line to claim; the first of what kernels change */
	uint64_t seen;		/* last value read from taken */
	uint64_t uses[GGAS_PROXY_ANSWERS];	/* of an answer: odd while somebody has it */
};

/* Each module of kernels has one, ggas_proxy_here, in constant memory. */
struct ggas_proxy_here {
	uint64_t first;		/* first trapped address */
	uint64_t bytes;		/* how many are; 0: none */
	uint64_t proxy;		/* struct ggas_proxy */
};

#endif /* GGAS_PROXY_LAYOUT_H */
