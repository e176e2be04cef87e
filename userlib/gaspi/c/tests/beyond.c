/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Vectors on GPUs that begin in a segment and do not end there: each collective refuses them, and standard error says which segment.
 */
#include <GASPI.h>
#include <GASPI_Ext.h>
#include <GASPI_GPU.h>
#include <stdio.h>
#include <stdlib.h>

#define GIVES(expected, call) do { gaspi_return_t code = (call); if (code != (expected)) { \
	fprintf(stderr, "%s: %s\n", #call, gaspi_error_str(code)); exit(1); } } while (0)

int main(void)
{
	gaspi_pointer_t vector, last;

	GIVES(GASPI_SUCCESS, gaspi_proc_init(GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_gpu_init());
	GIVES(GASPI_SUCCESS, gaspi_segment_create(3, 64, GASPI_GROUP_ALL, GASPI_BLOCK, GASPI_MEM_GPU));
	GIVES(GASPI_SUCCESS, gaspi_segment_ptr(3, &vector));
	last = (char *)vector + 60;
	GIVES(GASPI_ERROR, gaspi_gpu_allreduce(last, vector, 5, GASPI_OP_SUM, GASPI_TYPE_INT, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_ERROR, gaspi_gpu_reduce(last, vector, 5, GASPI_OP_SUM, GASPI_TYPE_INT, 0, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_ERROR, gaspi_gpu_broadcast(last, 5, GASPI_TYPE_INT, 0, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_ERROR, gaspi_gpu_allgather(last, vector, 5, GASPI_TYPE_INT, GASPI_GROUP_ALL, GASPI_BLOCK));
	/* Bytes have no alignment, and are as many as there are. */
	last = (char *)vector + 61;
	GIVES(GASPI_ERR_INV_SIZE, gaspi_gpu_broadcast(last, 1, GASPI_TYPE_INT16, 0, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_ERROR, gaspi_gpu_broadcast(last, 4, GASPI_TYPE_UINT8, 0, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_gpu_broadcast(last, 3, GASPI_TYPE_UINT8, 0, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_gpu_allgather(last, vector, 3, GASPI_TYPE_UINT8, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_gpu_allreduce(last, vector, 3, GASPI_OP_MAX, GASPI_TYPE_INT8, GASPI_GROUP_ALL, GASPI_BLOCK));
	last = (char *)vector + 60;
	GIVES(GASPI_SUCCESS, gaspi_gpu_allreduce(last, last, 1, GASPI_OP_SUM, GASPI_TYPE_INT, GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_SUCCESS, gaspi_proc_term(GASPI_BLOCK));
	return 0;
}
