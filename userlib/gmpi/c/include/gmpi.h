/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The host's side of GMPI for C and C++: what a program does so that its kernels may call MPI (ggas/gmpi.cuh). Three calls set it up:
 *
 *	gmpi_t *gmpi;
 *	double *memory;
 *
 *	gmpi_join(NULL, &gmpi);
 *	gmpi_alloc(gmpi, 1 << 20, (void **)&memory);
 *	... kernels that get gmpi_address(gmpi) as their gmpi_buf_t *, and are waited for ...
 *	gmpi_check(gmpi);
 *	gmpi_close(&gmpi);
 *
 * All functions but gmpi_address and gmpi_error_text return an error class, GMPI_SUCCESS is 0; gmpi_error_text says in words what went
 * wrong and what to do. Results of a call that failed are not written. A null pointer, and a gmpi_t that was closed, give GMPI_ERR_ARG.
 *
 * Threads of the program may call at the same time. Collective: all processes of the communicator call it, in the same order.
 */
#ifndef GMPI_H
#define GMPI_H

#include <stddef.h>
#include <stdint.h>

#include "ggas/gmpi_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* GMPI of this process. */
typedef struct gmpi_host gmpi_t;
/* What kernels get. */
typedef struct gmpi_buf gmpi_buf_t;

/* Where the rings of calls lie (userlib/gmpi/README.md has what each costs). */
enum gmpi_placement {
	GMPI_PLACE_MAPPED = 0,	/* host memory that kernels reach */
	GMPI_PLACE_TAGGED = 1,	/* the same, and each 16 bytes say whether they are there */
	GMPI_PLACE_COPIED = 2,	/* GPU memory, by copies */
	GMPI_PLACE_GDRCOPY = 3	/* GPU memory, by gdrcopy's library and module */
};

/* What the daemon's thread does while no kernel calls. */
enum gmpi_polling {
	GMPI_POLL_SPIN = 0,	/* looks again at once: the shortest calls, and a core of the host all the time */
	GMPI_POLL_YIELD = 1,	/* a core that nobody else wants */
	GMPI_POLL_SLEEP = 2	/* spins, yields, then naps: after a quiet time a call takes up to 100 us longer */
};

/* Begin with gmpi_config_init, and change what shall be different. */
typedef struct gmpi_config {
	uint32_t ports;		/* blocks that may call, each by a port of its own: 1 to 1,024; 1 */
	uint32_t single;	/* not 0: one context for the grid, of which block 0 calls; 0 */
	uint32_t entries;	/* calls that a port has room for, a power of two from 2 to 4,096; 64 */
	uint32_t placement;	/* enum gmpi_placement; GMPI_PLACE_TAGGED */
	uint32_t polling;	/* enum gmpi_polling; GMPI_POLL_SLEEP */
	uint32_t timeout_ms;	/* how long a call that waits may take, of kernels and of the host; 30,000 */
	uint32_t grace_ms;	/* how much longer the daemon may stay silent before it is taken for dead; 5,000 */
	uint32_t reserved;
} gmpi_config_t;

int gmpi_config_init(gmpi_config_t *config);

/*
 * Begins, with all processes: by our own messages in a job of `ggas run`, by the MPI library whose mpirun started the program, or alone.
 * GGAS_GMPI=own: our own messages under mpirun, too; GGAS_GMPI=mpi: an MPI library where no launcher is known, which several ranks of `ggas run`
 * refuse. `config` may be null. With an MPI library the daemon's thread initializes MPI; a program that
 * has done so has asked for MPI_THREAD_MULTIPLE. Fails where processes do not come, a number is out of range (GMPI_ERR_ARG), or the library
 * cannot be used.
 */
int gmpi_join(const gmpi_config_t *config, gmpi_t **gmpi);
/*
 * Ends, with all processes, when kernels have ended; *gmpi is null then, also where it fails. Tells what gmpi_check would tell. A program may
 * join again; with an MPI library only where it has initialized MPI itself, as what GMPI initialized is finalized here.
 */
int gmpi_close(gmpi_t **gmpi);

/* For kernels; null: no such gmpi. Valid until it is closed. */
gmpi_buf_t *gmpi_address(gmpi_t *gmpi);
/* The GPU that kernels run on, as cudaSetDevice numbers it; -1: the CPU executor. */
int gmpi_gpu(gmpi_t *gmpi, int *ordinal);
/* What carries calls, in at most `room` bytes with the zero at the end. */
int gmpi_carrier(gmpi_t *gmpi, char *name, size_t room);

/*
 * Memory that kernels name in calls; all other addresses are GMPI_ERR_BUFFER there. It stays so until gmpi_close.
 */

/* New memory, zeroed, aligned to 256 bytes: of the GPU, or of the host for the executor. gmpi_close frees it. */
int gmpi_alloc(gmpi_t *gmpi, size_t bytes, void **memory);
/* Memory of the program: by cudaMalloc on that GPU, or any for the executor; it begins at a multiple of 8. Freed behind gmpi_close at the earliest. */
int gmpi_attach(gmpi_t *gmpi, void *memory, size_t bytes);
/* Copies between such memory and the program's own, as cudaMemcpy does. GMPI_ERR_BUFFER: not all of it is such memory. */
int gmpi_write(gmpi_t *gmpi, void *to, const void *from, size_t bytes);
int gmpi_read(gmpi_t *gmpi, void *to, const void *from, size_t bytes);

/*
 * Communicators, for kernels: GMPI_COMM_WORLD, GMPI_COMM_SELF and those made here. Collective, and not while kernels use the communicator that
 * they are made of.
 */
int gmpi_comm_rank(gmpi_t *gmpi, uint64_t comm, int *rank);
int gmpi_comm_size(gmpi_t *gmpi, uint64_t comm, int *size);
int gmpi_comm_dup(gmpi_t *gmpi, uint64_t comm, uint64_t *made);
/* Of those who give the same `color`, ordered by `key`; GMPI_UNDEFINED: of none, and *made is 0. */
int gmpi_comm_split(gmpi_t *gmpi, uint64_t comm, int color, int key, uint64_t *made);
/*
 * A copy whose messages go from kernel to kernel without the host (gmpi.cuh says what holds there), among all processes of a job of `ggas run`
 * whose kernels reach each other's memory. A mailbox has `slots` slots, a power of two from 2 to 4,096, of `slot_bytes` bytes, a multiple of 64
 * from 1,024 to 16 MiB; 0: 8 slots, 32 KiB. One at a time. GMPI_ERR_WIN: kernels do not reach each other.
 */
int gmpi_comm_direct(gmpi_t *gmpi, uint64_t comm, uint32_t slots, uint32_t slot_bytes, uint64_t *made);
/* Kernels that use it from then on get GMPI_ERR_COMM; *comm is 0 then. GMPI_ERR_COMM: GMPI_COMM_WORLD and GMPI_COMM_SELF stay. */
int gmpi_comm_free(gmpi_t *gmpi, uint64_t *comm);

/* A window over attached memory, from its first byte on, of each member. Collective. */
int gmpi_win_create(gmpi_t *gmpi, void *memory, uint64_t comm, uint64_t *win);
/* When all members have fenced; *win is 0 then. */
int gmpi_win_free(gmpi_t *gmpi, uint64_t *win);

/*
 * After all kernels that make calls have ended: what they left open, requests or a call in which one was ended (GMPI_ERR_PENDING; it is given up), whether a block called that has no port (GMPI_ERR_PORT), or
 * a wait for the daemon or another kernel ended without success (GMPI_ERR_TIMEOUT; the text says who waited).
 */
int gmpi_check(gmpi_t *gmpi);

/* What `error` means; where it is what this thread's last failed call gave, the reason of that. Valid until the thread calls again. */
const char *gmpi_error_text(int error);

/*
 * Runs a kernel of the program on the CPU executor, and waits for it. `kernel` is ggas_host_NAME of a GGAS_KERNEL(NAME, type) that a C++20 compiler
 * has compiled; `args` is a `type`, of `bytes` bytes, at most 32,764. Blocks have 1 to 1,024 threads. GMPI_ERR_TIMEOUT: it has not ended. GMPI_ERR_CALL: this
 * process has a GPU, where the program launches its kernels itself.
 */
int gmpi_run_on_cpu(gmpi_t *gmpi, const char *name, void (*kernel)(const void *args), const void *args, size_t bytes, unsigned grid,
		    unsigned block, unsigned timeout_ms);

#ifdef __cplusplus
}
#endif

/*
 * The same in a file that holds the kernel, which nvcc or the host's C++ compiler compiles: there GMPI_RUN(gmpi, NAME, grid, block, args, timeout_ms)
 * runs it on whatever it was compiled for, and waits. On a GPU the waits of kernels are bounded, and nothing else ends them.
 */
#if defined(__CUDACC__)
static inline int gmpi_ran(cudaError_t started, cudaError_t ended) { return started || ended ? GMPI_ERR_OTHER : GMPI_SUCCESS; }
#define GMPI_RUN(gmpi, name, grid, block, args, timeout_ms)                                                                    \
	((void)(gmpi), (void)(timeout_ms), name<<<(grid), (block)>>>(args), gmpi_ran(cudaGetLastError(), cudaDeviceSynchronize()))
#elif defined(__cplusplus)
#define GMPI_RUN(gmpi, name, grid, block, args, timeout_ms)                                                                    \
	gmpi_run_on_cpu(gmpi, #name, ggas_host_##name, &(args), sizeof(args), grid, block, timeout_ms)
#endif

#endif /* GMPI_H */
