/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A rank that does not come to a collective of vectors on GPUs: the others have a code, and standard error says whom they missed.
 */
#include <GASPI.h>
#include <GASPI_Ext.h>
#include <GASPI_GPU.h>
#include <stdio.h>
#include <stdlib.h>

#define GIVES(expected, call) do { gaspi_return_t code = (call); if (code != (expected)) { \
	fprintf(stderr, "%s: %s\n", #call, gaspi_error_str(code)); exit(1); } } while (0)

static gaspi_return_t sum(gaspi_pointer_t vector, gaspi_timeout_t timeout)
{
	return gaspi_gpu_allreduce(vector, vector, 8, GASPI_OP_SUM, GASPI_TYPE_INT, GASPI_GROUP_ALL, timeout);
}

int main(void)
{
	gaspi_pointer_t vector;
	gaspi_rank_t me;

	GIVES(GASPI_SUCCESS, gaspi_proc_init(GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_gpu_init());
	GIVES(GASPI_SUCCESS, gaspi_proc_rank(&me));
	GIVES(GASPI_SUCCESS, gaspi_segment_create(0, 32, GASPI_GROUP_ALL, GASPI_BLOCK, GASPI_MEM_GPU));
	GIVES(GASPI_SUCCESS, gaspi_segment_ptr(0, &vector));
	GIVES(GASPI_SUCCESS, sum(vector, GASPI_BLOCK));
	if (me != 1)
		GIVES(GASPI_ERROR, sum(vector, 2000));
	GIVES(GASPI_SUCCESS, gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK));
	if (me == 1)
		GIVES(GASPI_ERROR, sum(vector, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK));
	/* New ones. */
	GIVES(GASPI_SUCCESS, sum(vector, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_proc_term(GASPI_BLOCK));
	return 0;
}
