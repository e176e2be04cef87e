/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernels of all processes pass values around a ring and add them up, once by the daemon and once from kernel to kernel.
 * What is built how: userlib/gmpi/c/README.md. Runs as `ggas run -n 3 -- ./ring`, `mpirun -n 3 ./ring`, or alone.
 */
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ok(int error, const char *what)
{
	if (error == GMPI_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", what, gmpi_error_text(error));
	exit(1);
}

/* Values of a rank: so many from `rank` times that on. */
static void round_of(gmpi_t *gmpi, struct ring_memory *memory, uint64_t comm, const char *how)
{
	static struct ring_memory host;
	struct ring_args args = { (uintptr_t)gmpi_address(gmpi), (uintptr_t)memory, comm };
	int rank, size;
	int64_t all;

	ok(gmpi_comm_rank(gmpi, comm, &rank), "asking for the rank");
	ok(gmpi_comm_size(gmpi, comm, &size), "asking for the size");
	memset(&host, 0, sizeof(host));
	for (int i = 0; i < RING_VALUES; i++)
		host.mine[i] = (int64_t)rank * RING_VALUES + i;
	ok(gmpi_write(gmpi, memory, &host, sizeof(host)), "writing the values");
	ok(ring_run(gmpi, &args), "running the kernel");
	ok(gmpi_check(gmpi), "looking what the kernel left");
	ok(gmpi_read(gmpi, &host, memory, sizeof(host)), "reading the sums");
	ok((int)host.error, "a call of the kernel");
	all = (int64_t)size * RING_VALUES * ((int64_t)size * RING_VALUES - 1) / 2;
	if (host.theirs[0] != (int64_t)((rank + size - 1) % size) * RING_VALUES || host.sums[1] != all) {
		fprintf(stderr, "%s: the sum is %lld, not %lld\n", how, (long long)host.sums[1], (long long)all);
		exit(1);
	}
	if (rank == 0)
		printf("%d ranks, %s: the sum of all values is %lld\n", size, how, (long long)all);
}

int main(void)
{
	gmpi_t *gmpi;
	void *memory;
	uint64_t direct;
	int gpu, error;
	char carrier[100];

	ok(gmpi_join(NULL, &gmpi), "joining");
	ok(gmpi_gpu(gmpi, &gpu), "asking where kernels run");
	ok(gmpi_alloc(gmpi, sizeof(struct ring_memory), &memory), "getting memory");
	ok(gmpi_carrier(gmpi, carrier, sizeof(carrier)), "asking what carries calls");
	round_of(gmpi, memory, GMPI_COMM_WORLD, carrier);
	/* Processes of ggas run whose kernels reach each other need no host for messages. */
	error = gmpi_comm_direct(gmpi, GMPI_COMM_WORLD, 0, 0, &direct);
	if (error == GMPI_SUCCESS) {
		round_of(gmpi, memory, direct, "from kernel to kernel");
		ok(gmpi_comm_free(gmpi, &direct), "freeing the communicator");
	} else if (error != GMPI_ERR_WIN) {
		ok(error, "making a direct communicator");
	}
	ok(gmpi_close(&gmpi), "closing");
	return 0;
}
