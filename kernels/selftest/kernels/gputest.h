/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels that the GPU self-test runs (userlib/gpu/examples/gpu_selftest). */
#ifndef GGAS_GPUTEST_H
#define GGAS_GPUTEST_H

#include <stdint.h>

/* One thread: `rounds` times i = 1, 2, ... into `request`, then waits for i in `answer`. */
struct gputest_ping {
	uint64_t request;
	uint64_t answer;
	uint64_t rounds;
	uint64_t second;	/* 1: waits first, then answers */
	uint64_t status;	/* u64 in host memory: GGAS_OK + 1, or the error + 1 */
	uint64_t timeout_ns;
};

/* Every block counts itself in, then waits until `flag` is not 0. */
struct gputest_hold {
	uint64_t flag;		/* u64 */
	uint64_t counter;	/* u64 */
	uint64_t timeout_ns;
};

/* Stores value + i to word 0 of part i of a window, for all i. */
struct gputest_poke {
	uint64_t base;
	uint64_t stride;
	uint64_t parts;
	uint64_t value;
};

/* Stores to an address that is no memory. */
struct gputest_fault {
	uint64_t address;
};

#endif /* GGAS_GPUTEST_H */
