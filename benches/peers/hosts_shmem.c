/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Half round trips between two hosts by OpenSHMEM: of puts, with a flag behind them. Lines as of hosts_mpi.c.
 *
 * oshcc -O2 -Wall -Wextra hosts_shmem.c -o hosts_shmem && oshrun --mca memory ^patcher --host h1,h2 -n 2 hosts_shmem
 *
 * Without `memory ^patcher` every OpenSHMEM program of Open MPI 4.1.4 crashes in shmem_finalize(): its last free() calls a hook of a component
 * that has been unloaded.
 */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"

static int other;
static char *from, *to;
static uint64_t *flag, sent, taken;

static void put(size_t bytes)
{
	shmem_putmem(to, from, bytes, other);
	shmem_fence();
	shmem_uint64_p(flag, ++sent, other);
}

static void take_put(size_t bytes)
{
	(void)bytes;
	shmem_uint64_wait_until(flag, SHMEM_CMP_GE, ++taken);
}

int main(void)
{
	shmem_init();
	if (shmem_n_pes() != 2) {
		fprintf(stderr, "hosts_shmem takes two processes, and not %d\n", shmem_n_pes());
		shmem_global_exit(2);
	}
	other = 1 - shmem_my_pe();
	from = shmem_malloc(MOST);
	to = shmem_malloc(MOST);
	flag = shmem_calloc(1, sizeof(*flag));
	if (!from || !to || !flag)
		shmem_global_exit(2);
	memset(from, 7, MOST);
	shmem_barrier_all();
	measure("put", shmem_my_pe(), put, take_put);
	shmem_barrier_all();
	shmem_finalize();
	return 0;
}
