/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Second names of all calls, for tools that define the first ones.
 */
#ifndef PGASPI_H
#define PGASPI_H

#include "GASPI.h"

#ifdef __cplusplus
extern "C" {
#endif

gaspi_return_t pgaspi_proc_init(gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_proc_term(gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_proc_rank(gaspi_rank_t *rank);
gaspi_return_t pgaspi_proc_num(gaspi_rank_t *proc_num);
gaspi_return_t pgaspi_proc_kill(gaspi_rank_t rank, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_version(float *version);
gaspi_return_t pgaspi_config_get(gaspi_config_t *config);
gaspi_return_t pgaspi_config_set(gaspi_config_t new_config);
gaspi_return_t pgaspi_network_type(gaspi_network_t *network_type);
gaspi_return_t pgaspi_build_infrastructure(gaspi_number_t *build);
gaspi_return_t pgaspi_group_create(gaspi_group_t *group);
gaspi_return_t pgaspi_group_delete(gaspi_group_t group);
gaspi_return_t pgaspi_group_add(gaspi_group_t group, gaspi_rank_t rank);
gaspi_return_t pgaspi_group_commit(gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_group_num(gaspi_number_t *group_num);
gaspi_return_t pgaspi_group_size(gaspi_group_t group, gaspi_number_t *group_size);
gaspi_return_t pgaspi_group_ranks(gaspi_group_t group, gaspi_rank_t *group_ranks);
gaspi_return_t pgaspi_group_max(gaspi_number_t *group_max);
gaspi_return_t pgaspi_segment_alloc(gaspi_segment_id_t segment_id, gaspi_size_t size,
		gaspi_alloc_t alloc_policy);
gaspi_return_t pgaspi_segment_register(gaspi_segment_id_t segment_id, gaspi_rank_t rank,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_segment_create(gaspi_segment_id_t segment_id, gaspi_size_t size,
		gaspi_group_t group, gaspi_timeout_t timeout_ms, gaspi_alloc_t alloc_policy);
gaspi_return_t pgaspi_segment_bind(gaspi_segment_id_t segment_id, gaspi_pointer_t pointer,
		gaspi_size_t size, gaspi_memory_description_t memory_description);
gaspi_return_t pgaspi_segment_use(gaspi_segment_id_t segment_id, gaspi_pointer_t pointer,
		gaspi_size_t size, gaspi_group_t group, gaspi_timeout_t timeout_ms,
		gaspi_memory_description_t memory_description);
gaspi_return_t pgaspi_segment_delete(gaspi_segment_id_t segment_id);
gaspi_return_t pgaspi_segment_ptr(gaspi_segment_id_t segment_id, gaspi_pointer_t *pointer);
gaspi_return_t pgaspi_segment_num(gaspi_number_t *segment_num);
gaspi_return_t pgaspi_segment_list(gaspi_number_t num, gaspi_segment_id_t *segment_id_list);
gaspi_return_t pgaspi_segment_max(gaspi_number_t *segment_max);
gaspi_return_t pgaspi_write(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_read(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_write_list(gaspi_number_t num, gaspi_segment_id_t *segment_id_local,
		gaspi_offset_t *offset_local, gaspi_rank_t rank,
		gaspi_segment_id_t *segment_id_remote, gaspi_offset_t *offset_remote,
		gaspi_size_t *size, gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_read_list(gaspi_number_t num, gaspi_segment_id_t *segment_id_local,
		gaspi_offset_t *offset_local, gaspi_rank_t rank,
		gaspi_segment_id_t *segment_id_remote, gaspi_offset_t *offset_remote,
		gaspi_size_t *size, gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_notify(gaspi_segment_id_t segment_id_remote, gaspi_rank_t rank,
		gaspi_notification_id_t notification_id, gaspi_notification_t notification_value,
		gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_write_notify(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size,
		gaspi_notification_id_t notification_id, gaspi_notification_t notification_value,
		gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_write_list_notify(gaspi_number_t num, gaspi_segment_id_t *segment_id_local,
		gaspi_offset_t *offset_local, gaspi_rank_t rank,
		gaspi_segment_id_t *segment_id_remote, gaspi_offset_t *offset_remote,
		gaspi_size_t *size, gaspi_segment_id_t segment_id_notification,
		gaspi_notification_id_t notification_id, gaspi_notification_t notification_value,
		gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_notify_waitsome(gaspi_segment_id_t segment_id_local,
		gaspi_notification_id_t notification_begin, gaspi_number_t num,
		gaspi_notification_id_t *first_id, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_notify_reset(gaspi_segment_id_t segment_id_local,
		gaspi_notification_id_t notification_id,
		gaspi_notification_t *old_notification_val);
gaspi_return_t pgaspi_wait(gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_queue_create(gaspi_queue_id_t *queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_queue_delete(gaspi_queue_id_t queue);
gaspi_return_t pgaspi_queue_size(gaspi_queue_id_t queue, gaspi_number_t *queue_size);
gaspi_return_t pgaspi_queue_num(gaspi_number_t *queue_num);
gaspi_return_t pgaspi_queue_size_max(gaspi_number_t *queue_size_max);
gaspi_return_t pgaspi_queue_max(gaspi_number_t *queue_max);
gaspi_return_t pgaspi_queue_purge(gaspi_queue_id_t queue, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_transfer_size_min(gaspi_size_t *transfer_size_min);
gaspi_return_t pgaspi_transfer_size_max(gaspi_size_t *transfer_size_max);
gaspi_return_t pgaspi_notification_num(gaspi_number_t *notification_num);
gaspi_return_t pgaspi_passive_send(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_size_t size, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_passive_receive(gaspi_segment_id_t segment_id_local,
		gaspi_offset_t offset_local, gaspi_rank_t *rem_rank, gaspi_size_t size,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_passive_transfer_size_min(gaspi_size_t *passive_transfer_size_min);
gaspi_return_t pgaspi_passive_transfer_size_max(gaspi_size_t *passive_transfer_size_max);
gaspi_return_t pgaspi_atomic_fetch_add(gaspi_segment_id_t segment_id, gaspi_offset_t offset,
		gaspi_rank_t rank, gaspi_atomic_value_t val_add, gaspi_atomic_value_t *val_old,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_atomic_compare_swap(gaspi_segment_id_t segment_id, gaspi_offset_t offset,
		gaspi_rank_t rank, gaspi_atomic_value_t comparator, gaspi_atomic_value_t val_new,
		gaspi_atomic_value_t *val_old, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_atomic_max(gaspi_atomic_value_t *max_value);
gaspi_return_t pgaspi_barrier(gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_allreduce(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive,
		gaspi_number_t num, gaspi_operation_t operation, gaspi_datatype_t datatype,
		gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_allreduce_user(gaspi_pointer_t buffer_send, gaspi_pointer_t buffer_receive,
		gaspi_number_t num, gaspi_size_t element_size,
		gaspi_reduce_operation_t reduce_operation, gaspi_reduce_state_t reduce_state,
		gaspi_group_t group, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_allreduce_elem_max(gaspi_number_t *elem_max);
gaspi_return_t pgaspi_allreduce_buf_size(gaspi_size_t *buf_size);
gaspi_return_t pgaspi_state_vec_get(gaspi_state_vector_t state_vector);
gaspi_return_t pgaspi_connect(gaspi_rank_t rank, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_disconnect(gaspi_rank_t rank, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_time_get(gaspi_time_t *wtime);
gaspi_return_t pgaspi_time_ticks(gaspi_cycles_t *ticks);
gaspi_return_t pgaspi_print_error(gaspi_return_t error_code, gaspi_string_t *error_message);
gaspi_return_t pgaspi_statistic_verbosity_level(gaspi_number_t verbosity_level);
gaspi_return_t pgaspi_statistic_counter_max(gaspi_number_t *counter_max);
gaspi_return_t pgaspi_statistic_counter_info(gaspi_statistic_counter_t counter,
		gaspi_statistic_argument_t *counter_argument, gaspi_string_t *counter_name,
		gaspi_string_t *counter_description, gaspi_number_t *verbosity_level);
gaspi_return_t pgaspi_statistic_counter_get(gaspi_statistic_counter_t counter,
		gaspi_number_t argument, unsigned long *value);
gaspi_return_t pgaspi_statistic_counter_reset(gaspi_statistic_counter_t counter);
gaspi_return_t pgaspi_initialized(gaspi_number_t *initialized);
gaspi_return_t pgaspi_proc_local_rank(gaspi_rank_t *local_rank);
gaspi_return_t pgaspi_proc_local_num(gaspi_rank_t *local_num);
gaspi_return_t pgaspi_proc_ping(gaspi_rank_t rank, gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_segment_size(gaspi_segment_id_t segment_id, gaspi_rank_t rank,
		gaspi_size_t *size);
gaspi_return_t pgaspi_segment_avail_local(gaspi_segment_id_t *segment_id);
gaspi_return_t pgaspi_read_notify(gaspi_segment_id_t segment_id_local, gaspi_offset_t offset_local,
		gaspi_rank_t rank, gaspi_segment_id_t segment_id_remote,
		gaspi_offset_t offset_remote, gaspi_size_t size,
		gaspi_notification_id_t notification_id, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_read_list_notify(gaspi_number_t num, gaspi_segment_id_t *segment_id_local,
		gaspi_offset_t *offset_local, gaspi_rank_t rank,
		gaspi_segment_id_t *segment_id_remote, gaspi_offset_t *offset_remote,
		gaspi_size_t *size, gaspi_segment_id_t segment_id_notification,
		gaspi_notification_id_t notification_id, gaspi_queue_id_t queue,
		gaspi_timeout_t timeout_ms);
gaspi_return_t pgaspi_rw_list_elem_max(gaspi_number_t *elem_max);
gaspi_return_t pgaspi_cpu_frequency(float *cpu_mhz);
gaspi_return_t pgaspi_statistic_counter_get_f(gaspi_statistic_counter_t counter, gaspi_number_t argument,
		float *value);
gaspi_return_t pgaspi_statistic_print_counters(void);
gaspi_size_t pgaspi_notifications_space_size(void);
void pgaspi_printf(const char *fmt, ...);
void pgaspi_printf_to(gaspi_rank_t rank, const char *fmt, ...);
gaspi_string_t pgaspi_error_str(gaspi_return_t error_code);
gaspi_return_t pgaspi_numa_socket(gaspi_uchar *socket);
gaspi_return_t pgaspi_set_socket_affinity(gaspi_uchar socket);

#ifdef __cplusplus
}
#endif

#endif /* PGASPI_H */
