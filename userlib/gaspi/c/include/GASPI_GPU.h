/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Segments in GPU memory. Both spellings of the calls that releases had. Include it before or behind GASPI.h.
 *
 * A process uses one GPU: the one that its rank takes of those that it sees. Without a GPU the CPU stands in.
 */
#ifndef GASPI_GPU_H
#define GASPI_GPU_H

#include "GASPI.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int gaspi_gpu_t;
typedef int gaspi_gpu_num;
typedef int gaspi_gpu_id_t;

/* Finds the GPU. Behind gaspi_proc_init, and before segments in GPU memory. */
gaspi_return_t gaspi_init_GPUs(void);
gaspi_return_t gaspi_gpu_init(void);
/* How many there are for segments of this process, and which. */
gaspi_return_t gaspi_number_of_GPUs(gaspi_gpu_num *num_gpus);
gaspi_return_t gaspi_gpu_number(gaspi_number_t *num_gpus);
gaspi_return_t gaspi_GPU_ids(gaspi_gpu_t *gpu_ids);
gaspi_return_t gaspi_gpu_ids(gaspi_gpu_id_t *gpu_ids);
/* As gaspi_write and gaspi_write_notify; through a card a long write from GPU memory goes through host memory in pieces. */
gaspi_return_t gaspi_gpu_write(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t gaspi_gpu_write_notify(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size,
		gaspi_notification_id_t notification_id,
		gaspi_notification_t notification_value, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
/* Makes a segment of memory that the program has allocated on its GPU, with all of a group or alone; gaspi_segment_delete ends it. */
gaspi_return_t gaspi_map_create(gaspi_segment_id_t segment_id, gaspi_pointer_t pointer, gaspi_size_t size,
		gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t gaspi_map_seg(gaspi_segment_id_t segment_id, gaspi_pointer_t pointer, gaspi_size_t size);

gaspi_return_t pgaspi_init_GPUs(void);
gaspi_return_t pgaspi_gpu_init(void);
gaspi_return_t pgaspi_number_of_GPUs(gaspi_gpu_num *num_gpus);
gaspi_return_t pgaspi_gpu_number(gaspi_number_t *num_gpus);
gaspi_return_t pgaspi_GPU_ids(gaspi_gpu_t *gpu_ids);
gaspi_return_t pgaspi_gpu_ids(gaspi_gpu_id_t *gpu_ids);
gaspi_return_t pgaspi_gpu_write(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_gpu_write_notify(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size,
		gaspi_notification_id_t notification_id,
		gaspi_notification_t notification_value, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_map_create(gaspi_segment_id_t segment_id, gaspi_pointer_t pointer, gaspi_size_t size,
		gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_map_seg(gaspi_segment_id_t segment_id, gaspi_pointer_t pointer, gaspi_size_t size);

/*
 * Extensions of this library.
 *
 * GASPI_MEM_GPU_NOTIFIED, or-ed with GASPI_MEM_GPU, has the notifications of a segment in GPU memory, where kernels wait for
 * them; hosts see them there late.
 */
enum { GASPI_MEM_GPU_NOTIFIED = 4 };

/* By what hosts write between GPU memory: by the GPUs where they reach each other; always by the card; never. */
enum { GASPI_GPU_WAY_AUTO = 0, GASPI_GPU_WAY_CARD = 1, GASPI_GPU_WAY_DIRECT = 2 };
/* How GPUs do it: as the limits say; stores of a kernel; a copy engine; pieces by two streams. */
enum { GASPI_GPU_BY_SIZE = 0, GASPI_GPU_STORES = 1, GASPI_GPU_ENGINE = 2, GASPI_GPU_HYBRID = 3 };

typedef struct {
	gaspi_uint way;
	gaspi_uint copies;
	gaspi_size_t standby_max;	/* longest write by a kernel that stays on the GPU for 100 us, at most 2^20 bytes; 0: none */
	gaspi_size_t engine_max;	/* longest write by one copy engine, bytes */
	gaspi_size_t stores_max;	/* longest one by stores; above it pieces by two streams */
	gaspi_size_t piece;		/* bytes of such a piece */
	gaspi_size_t staged_min;	/* longest gaspi_gpu_write that a card fetches from GPU memory itself */
	gaspi_size_t staged_piece;	/* bytes of a piece through host memory */
} gaspi_gpu_config_t;

/* Before the GPUs are initialised. */
gaspi_return_t gaspi_gpu_config_get(gaspi_gpu_config_t *config);
gaspi_return_t gaspi_gpu_config_set(gaspi_gpu_config_t config);
/*
 * The ggas_gaspi of ggas/gaspi.cuh for kernels of this process, with 1 to 32 queues; collective over all processes, behind
 * the start of their GPUs. It stays until gaspi_proc_term, or until it is asked for again. timeout_ms bounds the waits of
 * kernels as well; GASPI_BLOCK stands for 10 s.
 */
gaspi_return_t gaspi_gpu_context(gaspi_number_t queues, gaspi_pointer_t *context, gaspi_timeout_t timeout_ms);
/* GASPI_ERROR once a kernel's call has failed, or a process that kernels wait for has died. */
gaspi_return_t gaspi_gpu_context_check(void);
/*
 * As gaspi_allreduce, of any number of elements in memory of the processes' GPUs; both buffers may be the same, and else share no bytes
 * (GASPI_ERROR). What begins in a segment that GASPI has allocated does not leave it (GASPI_ERROR). They begin at multiples of an element's size (GASPI_ERR_INV_SIZE). Processes that share a GPU reduce there, then GPU by
 * GPU, and then host by host; timeout_ms bounds each wait for another process, GASPI_TEST is too short (GASPI_TIMEOUT), and a call that failed is not gone
 * on with. Where it gives GASPI_ERROR, standard error says what failed. The group's first such call
 * sets that up, and takes 64 MiB of GPU memory until the group is deleted.
 */
gaspi_return_t gaspi_gpu_allreduce(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive, gaspi_size_t num,
		gaspi_operation_t operation, gaspi_datatype_t datatype, gaspi_group_t group,
		gaspi_timeout_t timeout_ms);
/* The same at `root` alone, a rank of the group; the others' buffer_receive is not used, and may be NULL. */
gaspi_return_t gaspi_gpu_reduce(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive, gaspi_size_t num,
		gaspi_operation_t operation, gaspi_datatype_t datatype, gaspi_rank_t root, gaspi_group_t group,
		gaspi_timeout_t timeout_ms);
/* The elements of `root`, a rank of the group, to all. */
gaspi_return_t gaspi_gpu_broadcast(gaspi_pointer_t buffer, gaspi_size_t num, gaspi_datatype_t datatype, gaspi_rank_t root,
		gaspi_group_t group, gaspi_timeout_t timeout_ms);
/* The num elements of each member, in the order of ranks, at buffer_receive of all. */
gaspi_return_t gaspi_gpu_allgather(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive, gaspi_size_t num,
		gaspi_datatype_t datatype, gaspi_group_t group, gaspi_timeout_t timeout_ms);

gaspi_return_t pgaspi_gpu_config_get(gaspi_gpu_config_t *config);
gaspi_return_t pgaspi_gpu_config_set(gaspi_gpu_config_t config);
gaspi_return_t pgaspi_gpu_context(gaspi_number_t queues, gaspi_pointer_t *context, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_gpu_context_check(void);
gaspi_return_t pgaspi_gpu_allreduce(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive, gaspi_size_t num,
		gaspi_operation_t operation, gaspi_datatype_t datatype, gaspi_group_t group,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_gpu_reduce(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive, gaspi_size_t num,
		gaspi_operation_t operation, gaspi_datatype_t datatype, gaspi_rank_t root, gaspi_group_t group,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_gpu_broadcast(gaspi_pointer_t buffer, gaspi_size_t num, gaspi_datatype_t datatype, gaspi_rank_t root,
		gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_gpu_allgather(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive, gaspi_size_t num,
		gaspi_datatype_t datatype, gaspi_group_t group, gaspi_timeout_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* GASPI_GPU_H */
