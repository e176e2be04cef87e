/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernels of hostile.c. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <gmpi.h>

/* What a kernel does, by all threads of its blocks. */
enum {
	HOSTILE_BARRIER = 1,	/* nothing of the kind: what comes before must not have broken it */
	HOSTILE_COUNTS,		/* messages and collectives of wrong counts, types, ranks, tags, buffers, operations */
	HOSTILE_HANDLES,	/* requests that are none, were waited for, or were freed */
	HOSTILE_TYPES,		/* types that were freed, not committed, or never made */
	HOSTILE_DIRECT,		/* messages from kernel to kernel by `handle` of wrong counts, types, ranks, tags, buffers */
	HOSTILE_WINDOW,		/* puts and gets outside of `handle`, and to nobody */
	HOSTILE_NO_WINDOW,	/* puts and gets by `handle`, which is none */
	HOSTILE_NO_COMM,	/* messages by `handle`, which is none */
	HOSTILE_LEAVES,		/* begins much, and waits for none of it */
	HOSTILE_WAITS,		/* waits for a message that nobody sends */
	HOSTILE_SENDS,		/* that message to itself, and receives it */
	HOSTILE_PAUSES,		/* runs for ever, and lets others run */
	HOSTILE_SPINS		/* runs for ever */
};

struct hostile_args {
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t memory;	/* attached: HOSTILE_WORDS values of 8 bytes */
	uint64_t handle;	/* a communicator or a window */
	uint64_t what;		/* HOSTILE_* */
};

/* In the memory: the first wrong line, and what it gave; errors of what waits; places of requests; data. */
#define HOSTILE_LINE	0
#define HOSTILE_GOT	1
#define HOSTILE_PLACES	16
#define HOSTILE_DATA	256
#define HOSTILE_WORDS	1024

#ifdef __cplusplus
extern "C" {
#endif

int hostile_run(gmpi_t *gmpi, const struct hostile_args *args, unsigned grid, unsigned block, unsigned timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* HOSTILE_H */
