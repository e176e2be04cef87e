/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What kernels on a CPU ask of what runs them. Implemented twice: by the
 * executor (kernels/src/exec, fibers) and by the thread mode for
 * ThreadSanitizer (kernels/exec/tsan, one std::thread per CUDA thread).
 */
#ifndef GGAS_IMPL_EXEC_H
#define GGAS_IMPL_EXEC_H

#include <stddef.h>
#include <stdint.h>

#include "access.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One CUDA thread. */
struct ggas_exec_thread {
	uint32_t thread, threads;
	uint32_t block, blocks;
	/* What it waits for, shown when a launch is stuck. */
	uint32_t wait, line, peer;
	uint32_t virtual_time;	/* not 0: ask ggas_exec_time */
	uint64_t address, expected, seen;
	void *runtime;		/* the implementation's own */
	void *shared;		/* the block's shared memory, the implementation's own */
};

/* The thread that runs now on this OS thread; null outside of kernels. */
extern __thread struct ggas_exec_thread *ggas_exec_self;

/* First trapped address, and the first behind all of them (kernels/src/trap.rs): all ones and 0 while there are none. */
extern uint64_t ggas_exec_traps[2];

#define GGAS_WARP_SYNC		0	/* result 0 */
#define GGAS_WARP_SHUFFLE	1	/* result: value of lane `argument` */
#define GGAS_WARP_BALLOT	2	/* result: bit i set where value of lane i is not 0 */

void ggas_exec_pause(struct ggas_exec_thread *self, uint32_t attempt);
/* The block's barrier; 1 if `predicate` of any thread is not 0. */
uint32_t ggas_exec_syncthreads(struct ggas_exec_thread *self, uint32_t predicate, const char *file, uint32_t line);
uint64_t ggas_exec_warp(struct ggas_exec_thread *self, uint32_t op, uint32_t mask, uint64_t value, uint32_t argument);
/* A store of 8 or 4 bytes to a register. */
void ggas_exec_mmio(struct ggas_exec_thread *self, uint64_t address, uint64_t value, uint32_t bytes);
/* Access of 1 to 16 bytes, an atomic one of 4 or 8. Not 0: the address is trapped, and it is done; one that fails never returns, and ends the launch.
 * 0: it is memory, and nothing was done. */
uint32_t ggas_exec_access(struct ggas_exec_thread *self, uint32_t op, uint64_t address, void *value, uint32_t bytes);
/* What kernels stored at trapped addresses before, and what they reduced there, is performed; one that fails never returns, and ends the launch. */
void ggas_exec_settle(struct ggas_exec_thread *self);
/* The device clock where time is virtual, in nanoseconds. */
uint64_t ggas_exec_time(struct ggas_exec_thread *self);
/* Blocks of the grid that have not started. */
uint32_t ggas_exec_unstarted(struct ggas_exec_thread *self);
/* Memory of the block named by `key`; the same for every thread of the block. */
void *ggas_exec_shared(struct ggas_exec_thread *self, const void *key, size_t size, size_t align);

#ifdef __cplusplus
}
#endif

#endif /* GGAS_IMPL_EXEC_H */
