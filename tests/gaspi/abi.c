/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every constant, size and offset of the interface, and every function with its exact type.
 */
#include <stddef.h>

#include "common.h"
#include "GASPI_Threads.h"
#include "GPI2_VERSION.h"
#include "PGASPI.h"

#ifdef __cplusplus
#define ASSERT(condition) static_assert(condition, #condition)
#else
#define ASSERT(condition) _Static_assert(condition, #condition)
#endif

ASSERT(sizeof(gaspi_char) == 1);
ASSERT(sizeof(gaspi_uchar) == 1);
ASSERT(sizeof(gaspi_short) == 2);
ASSERT(sizeof(gaspi_ushort) == 2);
ASSERT(sizeof(gaspi_int) == 4);
ASSERT(sizeof(gaspi_uint) == 4);
ASSERT(sizeof(gaspi_long) == 8);
ASSERT(sizeof(gaspi_ulong) == 8);
ASSERT(sizeof(gaspi_float) == 4);
ASSERT(sizeof(gaspi_double) == 8);
ASSERT(sizeof(gaspi_timeout_t) == 8);
ASSERT(sizeof(gaspi_rank_t) == 2);
ASSERT(sizeof(gaspi_group_t) == 1);
ASSERT(sizeof(gaspi_segment_id_t) == 1);
ASSERT(sizeof(gaspi_queue_id_t) == 1);
ASSERT(sizeof(gaspi_number_t) == 4);
ASSERT(sizeof(gaspi_size_t) == 8);
ASSERT(sizeof(gaspi_offset_t) == 8);
ASSERT(sizeof(gaspi_notification_id_t) == 4);
ASSERT(sizeof(gaspi_notification_t) == 4);
ASSERT(sizeof(gaspi_atomic_value_t) == 8);
ASSERT(sizeof(gaspi_cycles_t) == 8);
ASSERT(sizeof(gaspi_time_t) == 4);
ASSERT(sizeof(gaspi_pointer_t) == 8);
ASSERT(sizeof(gaspi_reduce_state_t) == 8);
ASSERT(sizeof(gaspi_statistic_counter_t) == 4);
ASSERT(sizeof(gaspi_string_t) == 8);
ASSERT(sizeof(gaspi_memory_description_t) == 4);
ASSERT(sizeof(gaspi_state_vector_t) == 8);
ASSERT(sizeof(gaspi_return_t) == 4);
ASSERT(sizeof(gaspi_operation_t) == 4);
ASSERT(sizeof(gaspi_datatype_t) == 4);
ASSERT(sizeof(gaspi_network_t) == 4);
ASSERT(sizeof(gaspi_alloc_t) == 4);
ASSERT(sizeof(gaspi_statistic_argument_t) == 4);
ASSERT(sizeof(gaspi_topology_t) == 4);
ASSERT(sizeof(gaspi_dev_config_t) == 32);
ASSERT(sizeof(gaspi_config_t) == 144);
ASSERT(sizeof(gaspi_state_t) == 1);

ASSERT(offsetof(gaspi_config_t, logger) == 0);
ASSERT(offsetof(gaspi_config_t, sn_port) == 4);
ASSERT(offsetof(gaspi_config_t, net_info) == 8);
ASSERT(offsetof(gaspi_config_t, user_net) == 12);
ASSERT(offsetof(gaspi_config_t, sn_persistent) == 16);
ASSERT(offsetof(gaspi_config_t, sn_timeout) == 24);
ASSERT(offsetof(gaspi_config_t, dev_config) == 32);
ASSERT(offsetof(gaspi_config_t, network) == 64);
ASSERT(offsetof(gaspi_config_t, queue_size_max) == 68);
ASSERT(offsetof(gaspi_config_t, queue_num) == 72);
ASSERT(offsetof(gaspi_config_t, group_max) == 76);
ASSERT(offsetof(gaspi_config_t, segment_max) == 80);
ASSERT(offsetof(gaspi_config_t, transfer_size_max) == 88);
ASSERT(offsetof(gaspi_config_t, notification_num) == 96);
ASSERT(offsetof(gaspi_config_t, passive_queue_size_max) == 100);
ASSERT(offsetof(gaspi_config_t, passive_transfer_size_max) == 104);
ASSERT(offsetof(gaspi_config_t, allreduce_buf_size) == 112);
ASSERT(offsetof(gaspi_config_t, allreduce_elem_max) == 120);
ASSERT(offsetof(gaspi_config_t, rw_list_elem_max) == 124);
ASSERT(offsetof(gaspi_config_t, build_infrastructure) == 128);
ASSERT(offsetof(gaspi_config_t, user_defined) == 136);
ASSERT(offsetof(gaspi_dev_config_t, network_type) == 0);
ASSERT(offsetof(gaspi_dev_config_t, params.ib) == 4);
ASSERT(offsetof(gaspi_dev_config_t, params.tcp) == 16);
ASSERT(offsetof(gaspi_dev_config_t, params.ofi) == 20);

ASSERT(GASPI_ERROR == -1);
ASSERT(GASPI_SUCCESS == 0);
ASSERT(GASPI_TIMEOUT == 1);
ASSERT(GASPI_ERR_EMFILE == 2);
ASSERT(GASPI_ERR_ENV == 3);
ASSERT(GASPI_ERR_SN_PORT == 4);
ASSERT(GASPI_ERR_CONFIG == 5);
ASSERT(GASPI_ERR_NOINIT == 6);
ASSERT(GASPI_ERR_INITED == 7);
ASSERT(GASPI_ERR_NULLPTR == 8);
ASSERT(GASPI_ERR_INV_SEGSIZE == 9);
ASSERT(GASPI_ERR_INV_SEG == 10);
ASSERT(GASPI_ERR_INV_GROUP == 11);
ASSERT(GASPI_ERR_INV_RANK == 12);
ASSERT(GASPI_ERR_INV_QUEUE == 13);
ASSERT(GASPI_ERR_INV_LOC_OFF == 14);
ASSERT(GASPI_ERR_INV_REM_OFF == 15);
ASSERT(GASPI_ERR_INV_COMMSIZE == 16);
ASSERT(GASPI_ERR_INV_NOTIF_VAL == 17);
ASSERT(GASPI_ERR_INV_NOTIF_ID == 18);
ASSERT(GASPI_ERR_INV_NUM == 19);
ASSERT(GASPI_ERR_INV_SIZE == 20);
ASSERT(GASPI_ERR_MANY_SEG == 21);
ASSERT(GASPI_ERR_MANY_GRP == 22);
ASSERT(GASPI_QUEUE_FULL == 23);
ASSERT(GASPI_ERR_UNALIGN_OFF == 24);
ASSERT(GASPI_ERR_ACTIVE_COLL == 25);
ASSERT(GASPI_ERR_DEVICE == 26);
ASSERT(GASPI_ERR_SN == 27);
ASSERT(GASPI_ERR_MEMALLOC == 28);
ASSERT(GASPI_OP_MIN == 0);
ASSERT(GASPI_OP_MAX == 1);
ASSERT(GASPI_OP_SUM == 2);
ASSERT(GASPI_TYPE_INT == 0);
ASSERT(GASPI_TYPE_UINT == 1);
ASSERT(GASPI_TYPE_FLOAT == 2);
ASSERT(GASPI_TYPE_DOUBLE == 3);
ASSERT(GASPI_TYPE_LONG == 4);
ASSERT(GASPI_TYPE_ULONG == 5);
ASSERT(GASPI_IB == 0);
ASSERT(GASPI_ROCE == 1);
ASSERT(GASPI_ETHERNET == 2);
ASSERT(GASPI_GEMINI == 3);
ASSERT(GASPI_ARIES == 4);
ASSERT(GASPI_OFI == 5);
ASSERT(GASPI_MEM_UNINITIALIZED == 0);
ASSERT(GASPI_MEM_INITIALIZED == 1);
ASSERT(GASPI_ALLOC_DEFAULT == 0);
ASSERT(GASPI_STATE_HEALTHY == 0);
ASSERT(GASPI_STATE_CORRUPT == 1);
ASSERT(GASPI_STATISTIC_ARGUMENT_NONE == 0);
ASSERT(GASPI_STATISTIC_ARGUMENT_RANK == 1);
ASSERT(GASPI_TOPOLOGY_NONE == 0);
ASSERT(GASPI_TOPOLOGY_STATIC == 1);
ASSERT(GASPI_TOPOLOGY_DYNAMIC == 2);
ASSERT(GASPI_MAJOR_VERSION == 1);
ASSERT(GASPI_MINOR_VERSION == 6);
ASSERT(GASPI_REVISION == 0);

/* Another type of a pointer does not compile. */
static gaspi_return_t (*const p_proc_init[2])(gaspi_timeout_t) = { gaspi_proc_init, pgaspi_proc_init };
static gaspi_return_t (*const p_proc_term[2])(gaspi_timeout_t) = { gaspi_proc_term, pgaspi_proc_term };
static gaspi_return_t (*const p_initialized[2])(gaspi_number_t *) = { gaspi_initialized, pgaspi_initialized };
static gaspi_return_t (*const p_proc_rank[2])(gaspi_rank_t *) = { gaspi_proc_rank, pgaspi_proc_rank };
static gaspi_return_t (*const p_proc_num[2])(gaspi_rank_t *) = { gaspi_proc_num, pgaspi_proc_num };
static gaspi_return_t (*const p_proc_local_rank[2])(gaspi_rank_t *) = { gaspi_proc_local_rank,
		pgaspi_proc_local_rank };
static gaspi_return_t (*const p_proc_local_num[2])(gaspi_rank_t *) = { gaspi_proc_local_num,
		pgaspi_proc_local_num };
static gaspi_return_t (*const p_proc_kill[2])(gaspi_rank_t, gaspi_timeout_t) = { gaspi_proc_kill,
		pgaspi_proc_kill };
static gaspi_return_t (*const p_proc_ping[2])(gaspi_rank_t, gaspi_timeout_t) = { gaspi_proc_ping,
		pgaspi_proc_ping };
static gaspi_return_t (*const p_version[2])(float *) = { gaspi_version, pgaspi_version };
static gaspi_return_t (*const p_config_get[2])(gaspi_config_t *) = { gaspi_config_get, pgaspi_config_get };
static gaspi_return_t (*const p_config_set[2])(gaspi_config_t) = { gaspi_config_set, pgaspi_config_set };
static gaspi_return_t (*const p_network_type[2])(gaspi_network_t *) = { gaspi_network_type,
		pgaspi_network_type };
static gaspi_return_t (*const p_build_infrastructure[2])(gaspi_number_t *) = { gaspi_build_infrastructure,
		pgaspi_build_infrastructure };
static gaspi_return_t (*const p_group_create[2])(gaspi_group_t *) = { gaspi_group_create,
		pgaspi_group_create };
static gaspi_return_t (*const p_group_delete[2])(gaspi_group_t) = { gaspi_group_delete, pgaspi_group_delete };
static gaspi_return_t (*const p_group_add[2])(gaspi_group_t, gaspi_rank_t) = { gaspi_group_add,
		pgaspi_group_add };
static gaspi_return_t (*const p_group_commit[2])(gaspi_group_t,
		gaspi_timeout_t) = { gaspi_group_commit, pgaspi_group_commit };
static gaspi_return_t (*const p_group_num[2])(gaspi_number_t *) = { gaspi_group_num, pgaspi_group_num };
static gaspi_return_t (*const p_group_size[2])(gaspi_group_t, gaspi_number_t *) = { gaspi_group_size,
		pgaspi_group_size };
static gaspi_return_t (*const p_group_ranks[2])(gaspi_group_t, gaspi_rank_t *) = { gaspi_group_ranks,
		pgaspi_group_ranks };
static gaspi_return_t (*const p_group_max[2])(gaspi_number_t *) = { gaspi_group_max, pgaspi_group_max };
static gaspi_return_t (*const p_segment_alloc[2])(gaspi_segment_id_t, gaspi_size_t,
		gaspi_alloc_t) = { gaspi_segment_alloc, pgaspi_segment_alloc };
static gaspi_return_t (*const p_segment_register[2])(gaspi_segment_id_t, gaspi_rank_t,
		gaspi_timeout_t) = { gaspi_segment_register, pgaspi_segment_register };
static gaspi_return_t (*const p_segment_create[2])(gaspi_segment_id_t, gaspi_size_t, gaspi_group_t,
		gaspi_timeout_t, gaspi_alloc_t) = { gaspi_segment_create, pgaspi_segment_create };
static gaspi_return_t (*const p_segment_bind[2])(gaspi_segment_id_t, gaspi_pointer_t, gaspi_size_t,
		gaspi_memory_description_t) = { gaspi_segment_bind, pgaspi_segment_bind };
static gaspi_return_t (*const p_segment_use[2])(gaspi_segment_id_t, gaspi_pointer_t, gaspi_size_t,
		gaspi_group_t, gaspi_timeout_t, gaspi_memory_description_t) = { gaspi_segment_use,
		pgaspi_segment_use };
static gaspi_return_t (*const p_segment_delete[2])(gaspi_segment_id_t) = { gaspi_segment_delete,
		pgaspi_segment_delete };
static gaspi_return_t (*const p_segment_ptr[2])(gaspi_segment_id_t,
		gaspi_pointer_t *) = { gaspi_segment_ptr, pgaspi_segment_ptr };
static gaspi_return_t (*const p_segment_size[2])(gaspi_segment_id_t, gaspi_rank_t,
		gaspi_size_t *) = { gaspi_segment_size, pgaspi_segment_size };
static gaspi_return_t (*const p_segment_num[2])(gaspi_number_t *) = { gaspi_segment_num, pgaspi_segment_num };
static gaspi_return_t (*const p_segment_list[2])(gaspi_number_t,
		gaspi_segment_id_t *) = { gaspi_segment_list, pgaspi_segment_list };
static gaspi_return_t (*const p_segment_avail_local[2])(gaspi_segment_id_t *) = { gaspi_segment_avail_local,
		pgaspi_segment_avail_local };
static gaspi_return_t (*const p_segment_max[2])(gaspi_number_t *) = { gaspi_segment_max, pgaspi_segment_max };
static gaspi_return_t (*const p_write[2])(gaspi_segment_id_t, gaspi_offset_t, gaspi_rank_t,
		gaspi_segment_id_t, gaspi_offset_t, gaspi_size_t, gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_write, pgaspi_write };
static gaspi_return_t (*const p_read[2])(gaspi_segment_id_t, gaspi_offset_t, gaspi_rank_t,
		gaspi_segment_id_t, gaspi_offset_t, gaspi_size_t, gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_read, pgaspi_read };
static gaspi_return_t (*const p_write_list[2])(gaspi_number_t, gaspi_segment_id_t *,
		gaspi_offset_t *, gaspi_rank_t, gaspi_segment_id_t *, gaspi_offset_t *, gaspi_size_t *,
		gaspi_queue_id_t, gaspi_timeout_t) = { gaspi_write_list, pgaspi_write_list };
static gaspi_return_t (*const p_read_list[2])(gaspi_number_t, gaspi_segment_id_t *, gaspi_offset_t *,
		gaspi_rank_t, gaspi_segment_id_t *, gaspi_offset_t *, gaspi_size_t *, gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_read_list, pgaspi_read_list };
static gaspi_return_t (*const p_notify[2])(gaspi_segment_id_t, gaspi_rank_t, gaspi_notification_id_t,
		gaspi_notification_t, gaspi_queue_id_t, gaspi_timeout_t) = { gaspi_notify, pgaspi_notify };
static gaspi_return_t (*const p_write_notify[2])(gaspi_segment_id_t, gaspi_offset_t, gaspi_rank_t,
		gaspi_segment_id_t, gaspi_offset_t, gaspi_size_t, gaspi_notification_id_t, gaspi_notification_t,
		gaspi_queue_id_t, gaspi_timeout_t) = { gaspi_write_notify, pgaspi_write_notify };
static gaspi_return_t (*const p_read_notify[2])(gaspi_segment_id_t, gaspi_offset_t, gaspi_rank_t,
		gaspi_segment_id_t, gaspi_offset_t, gaspi_size_t, gaspi_notification_id_t, gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_read_notify, pgaspi_read_notify };
static gaspi_return_t (*const p_write_list_notify[2])(gaspi_number_t, gaspi_segment_id_t *,
		gaspi_offset_t *, gaspi_rank_t, gaspi_segment_id_t *, gaspi_offset_t *, gaspi_size_t *,
		gaspi_segment_id_t, gaspi_notification_id_t, gaspi_notification_t, gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_write_list_notify, pgaspi_write_list_notify };
static gaspi_return_t (*const p_read_list_notify[2])(gaspi_number_t, gaspi_segment_id_t *,
		gaspi_offset_t *, gaspi_rank_t, gaspi_segment_id_t *, gaspi_offset_t *, gaspi_size_t *,
		gaspi_segment_id_t, gaspi_notification_id_t, gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_read_list_notify, pgaspi_read_list_notify };
static gaspi_return_t (*const p_wait[2])(gaspi_queue_id_t, gaspi_timeout_t) = { gaspi_wait, pgaspi_wait };
static gaspi_return_t (*const p_notify_waitsome[2])(gaspi_segment_id_t, gaspi_notification_id_t,
		gaspi_number_t, gaspi_notification_id_t *, gaspi_timeout_t) = { gaspi_notify_waitsome,
		pgaspi_notify_waitsome };
static gaspi_return_t (*const p_notify_reset[2])(gaspi_segment_id_t, gaspi_notification_id_t,
		gaspi_notification_t *) = { gaspi_notify_reset, pgaspi_notify_reset };
static gaspi_return_t (*const p_queue_create[2])(gaspi_queue_id_t *,
		gaspi_timeout_t) = { gaspi_queue_create, pgaspi_queue_create };
static gaspi_return_t (*const p_queue_delete[2])(gaspi_queue_id_t) = { gaspi_queue_delete,
		pgaspi_queue_delete };
static gaspi_return_t (*const p_queue_size[2])(gaspi_queue_id_t,
		gaspi_number_t *) = { gaspi_queue_size, pgaspi_queue_size };
static gaspi_return_t (*const p_queue_num[2])(gaspi_number_t *) = { gaspi_queue_num, pgaspi_queue_num };
static gaspi_return_t (*const p_queue_size_max[2])(gaspi_number_t *) = { gaspi_queue_size_max,
		pgaspi_queue_size_max };
static gaspi_return_t (*const p_queue_max[2])(gaspi_number_t *) = { gaspi_queue_max, pgaspi_queue_max };
static gaspi_return_t (*const p_queue_purge[2])(gaspi_queue_id_t,
		gaspi_timeout_t) = { gaspi_queue_purge, pgaspi_queue_purge };
static gaspi_return_t (*const p_transfer_size_min[2])(gaspi_size_t *) = { gaspi_transfer_size_min,
		pgaspi_transfer_size_min };
static gaspi_return_t (*const p_transfer_size_max[2])(gaspi_size_t *) = { gaspi_transfer_size_max,
		pgaspi_transfer_size_max };
static gaspi_return_t (*const p_notification_num[2])(gaspi_number_t *) = { gaspi_notification_num,
		pgaspi_notification_num };
static gaspi_return_t (*const p_rw_list_elem_max[2])(gaspi_number_t *) = { gaspi_rw_list_elem_max,
		pgaspi_rw_list_elem_max };
static gaspi_return_t (*const p_passive_send[2])(gaspi_segment_id_t, gaspi_offset_t, gaspi_rank_t,
		gaspi_size_t, gaspi_timeout_t) = { gaspi_passive_send, pgaspi_passive_send };
static gaspi_return_t (*const p_passive_receive[2])(gaspi_segment_id_t, gaspi_offset_t,
		gaspi_rank_t *, gaspi_size_t, gaspi_timeout_t) = { gaspi_passive_receive,
		pgaspi_passive_receive };
static gaspi_return_t (*const p_passive_transfer_size_min[2])(gaspi_size_t *) = { gaspi_passive_transfer_size_min,
		pgaspi_passive_transfer_size_min };
static gaspi_return_t (*const p_passive_transfer_size_max[2])(gaspi_size_t *) = { gaspi_passive_transfer_size_max,
		pgaspi_passive_transfer_size_max };
static gaspi_return_t (*const p_atomic_fetch_add[2])(gaspi_segment_id_t, gaspi_offset_t,
		gaspi_rank_t, gaspi_atomic_value_t, gaspi_atomic_value_t *,
		gaspi_timeout_t) = { gaspi_atomic_fetch_add, pgaspi_atomic_fetch_add };
static gaspi_return_t (*const p_atomic_compare_swap[2])(gaspi_segment_id_t, gaspi_offset_t,
		gaspi_rank_t, gaspi_atomic_value_t, gaspi_atomic_value_t, gaspi_atomic_value_t *,
		gaspi_timeout_t) = { gaspi_atomic_compare_swap, pgaspi_atomic_compare_swap };
static gaspi_return_t (*const p_atomic_max[2])(gaspi_atomic_value_t *) = { gaspi_atomic_max,
		pgaspi_atomic_max };
static gaspi_return_t (*const p_barrier[2])(gaspi_group_t, gaspi_timeout_t) = { gaspi_barrier,
		pgaspi_barrier };
static gaspi_return_t (*const p_allreduce[2])(gaspi_pointer_t, gaspi_pointer_t, gaspi_number_t,
		gaspi_operation_t, gaspi_datatype_t, gaspi_group_t, gaspi_timeout_t) = { gaspi_allreduce,
		pgaspi_allreduce };
static gaspi_return_t (*const p_allreduce_user[2])(gaspi_pointer_t, gaspi_pointer_t, gaspi_number_t,
		gaspi_size_t, gaspi_reduce_operation_t, gaspi_reduce_state_t, gaspi_group_t,
		gaspi_timeout_t) = { gaspi_allreduce_user, pgaspi_allreduce_user };
static gaspi_return_t (*const p_allreduce_elem_max[2])(gaspi_number_t *) = { gaspi_allreduce_elem_max,
		pgaspi_allreduce_elem_max };
static gaspi_return_t (*const p_allreduce_buf_size[2])(gaspi_size_t *) = { gaspi_allreduce_buf_size,
		pgaspi_allreduce_buf_size };
static gaspi_return_t (*const p_state_vec_get[2])(gaspi_state_vector_t) = { gaspi_state_vec_get,
		pgaspi_state_vec_get };
static gaspi_return_t (*const p_connect[2])(gaspi_rank_t, gaspi_timeout_t) = { gaspi_connect,
		pgaspi_connect };
static gaspi_return_t (*const p_disconnect[2])(gaspi_rank_t, gaspi_timeout_t) = { gaspi_disconnect,
		pgaspi_disconnect };
static gaspi_return_t (*const p_time_get[2])(gaspi_time_t *) = { gaspi_time_get, pgaspi_time_get };
static gaspi_return_t (*const p_time_ticks[2])(gaspi_cycles_t *) = { gaspi_time_ticks, pgaspi_time_ticks };
static gaspi_return_t (*const p_cpu_frequency[2])(float *) = { gaspi_cpu_frequency, pgaspi_cpu_frequency };
static gaspi_return_t (*const p_print_error[2])(gaspi_return_t,
		gaspi_string_t *) = { gaspi_print_error, pgaspi_print_error };
static gaspi_return_t (*const p_statistic_verbosity_level[2])(gaspi_number_t) = { gaspi_statistic_verbosity_level,
		pgaspi_statistic_verbosity_level };
static gaspi_return_t (*const p_statistic_counter_max[2])(gaspi_number_t *) = { gaspi_statistic_counter_max,
		pgaspi_statistic_counter_max };
static gaspi_return_t (*const p_statistic_counter_info[2])(gaspi_statistic_counter_t,
		gaspi_statistic_argument_t *, gaspi_string_t *, gaspi_string_t *,
		gaspi_number_t *) = { gaspi_statistic_counter_info, pgaspi_statistic_counter_info };
static gaspi_return_t (*const p_statistic_counter_get[2])(gaspi_statistic_counter_t, gaspi_number_t,
		unsigned long *) = { gaspi_statistic_counter_get, pgaspi_statistic_counter_get };
static gaspi_return_t (*const p_statistic_counter_get_f[2])(gaspi_statistic_counter_t, gaspi_number_t,
		float *) = { gaspi_statistic_counter_get_f, pgaspi_statistic_counter_get_f };
static gaspi_return_t (*const p_statistic_print_counters[2])(void) = { gaspi_statistic_print_counters,
		pgaspi_statistic_print_counters };
static gaspi_size_t (*const p_notifications_space_size[2])(void) = { gaspi_notifications_space_size,
		pgaspi_notifications_space_size };
static gaspi_return_t (*const p_statistic_counter_reset[2])(gaspi_statistic_counter_t) = { gaspi_statistic_counter_reset,
		pgaspi_statistic_counter_reset };
static void (*const p_printf[2])(const char *, ...) = { gaspi_printf, pgaspi_printf };
static void (*const p_printf_to[2])(gaspi_rank_t, const char *, ...) = { gaspi_printf_to, pgaspi_printf_to };
static gaspi_string_t (*const p_error_str[2])(gaspi_return_t) = { gaspi_error_str, pgaspi_error_str };
static void (*const p_delay[1])(void) = { gaspi_delay };
static gaspi_return_t (*const p_numa_socket[2])(gaspi_uchar *) = { gaspi_numa_socket, pgaspi_numa_socket };
static gaspi_return_t (*const p_set_socket_affinity[2])(gaspi_uchar) = { gaspi_set_socket_affinity,
		pgaspi_set_socket_affinity };
static void (*const p_print_affinity_mask[1])(void) = { gaspi_print_affinity_mask };
static gaspi_return_t (*const p_threads_init[1])(gaspi_int *) = { gaspi_threads_init };
static gaspi_return_t (*const p_threads_init_user[1])(gaspi_uint) = { gaspi_threads_init_user };
static gaspi_return_t (*const p_threads_term[1])(void) = { gaspi_threads_term };
static gaspi_return_t (*const p_threads_register[1])(gaspi_int *) = { gaspi_threads_register };
static gaspi_return_t (*const p_threads_run[1])(void *(*)(void *), void *) = { gaspi_threads_run };
static gaspi_return_t (*const p_threads_get_tid[1])(gaspi_int *) = { gaspi_threads_get_tid };
static gaspi_return_t (*const p_threads_get_total[1])(gaspi_int *) = { gaspi_threads_get_total };
static gaspi_return_t (*const p_threads_get_num_cores[1])(gaspi_int *) = { gaspi_threads_get_num_cores };
static void (*const p_threads_sync[1])(void) = { gaspi_threads_sync };
static gaspi_return_t (*const p_threads_sync_all[1])(gaspi_group_t, gaspi_timeout_t) = { gaspi_threads_sync_all };

#define THERE(function) CHECK((function)[0] && (function)[sizeof(function) / sizeof((function)[0]) - 1])

static void defaults(void)
{
	gaspi_config_t config;

	memset(&config, 0xff, sizeof(config));
	OK(gaspi_config_get(&config));
	CHECK(config.logger == 1 && config.sn_port == 12121 && config.net_info == 0 && config.user_net == 0);
	CHECK(config.sn_persistent == 1 && config.sn_timeout == 30000 && config.dev_config.params.ib.netdev_id == -1);
	CHECK(config.dev_config.params.ib.mtu == 0 && config.dev_config.params.ib.port_check == 1);
	CHECK(config.queue_size_max == 1024 && config.queue_num == 8 && config.group_max == 32);
	CHECK(config.segment_max == 255 && config.transfer_size_max == 1ul << 30 && config.notification_num == 65536);
	CHECK(config.passive_queue_size_max == 1024 && config.passive_transfer_size_max == 65535);
	CHECK(config.allreduce_buf_size == 2040 && config.allreduce_elem_max == 255 && config.rw_list_elem_max == 255);
	CHECK(config.build_infrastructure == GASPI_TOPOLOGY_STATIC && config.user_defined == NULL);
}

int main(void)
{
	CHECK(GASPI_GROUP_ALL == 0 && GASPI_BLOCK == 0xffffffffffffffff && GASPI_TEST == 0);
	CHECK(GASPI_VERSION > 1.59f && GASPI_VERSION < 1.61f);
	defaults();
	THERE(p_proc_init);
	THERE(p_proc_term);
	THERE(p_initialized);
	THERE(p_proc_rank);
	THERE(p_proc_num);
	THERE(p_proc_local_rank);
	THERE(p_proc_local_num);
	THERE(p_proc_kill);
	THERE(p_proc_ping);
	THERE(p_version);
	THERE(p_config_get);
	THERE(p_config_set);
	THERE(p_network_type);
	THERE(p_build_infrastructure);
	THERE(p_group_create);
	THERE(p_group_delete);
	THERE(p_group_add);
	THERE(p_group_commit);
	THERE(p_group_num);
	THERE(p_group_size);
	THERE(p_group_ranks);
	THERE(p_group_max);
	THERE(p_segment_alloc);
	THERE(p_segment_register);
	THERE(p_segment_create);
	THERE(p_segment_bind);
	THERE(p_segment_use);
	THERE(p_segment_delete);
	THERE(p_segment_ptr);
	THERE(p_segment_size);
	THERE(p_segment_num);
	THERE(p_segment_list);
	THERE(p_segment_avail_local);
	THERE(p_segment_max);
	THERE(p_write);
	THERE(p_read);
	THERE(p_write_list);
	THERE(p_read_list);
	THERE(p_notify);
	THERE(p_write_notify);
	THERE(p_read_notify);
	THERE(p_write_list_notify);
	THERE(p_read_list_notify);
	THERE(p_wait);
	THERE(p_notify_waitsome);
	THERE(p_notify_reset);
	THERE(p_queue_create);
	THERE(p_queue_delete);
	THERE(p_queue_size);
	THERE(p_queue_num);
	THERE(p_queue_size_max);
	THERE(p_queue_max);
	THERE(p_queue_purge);
	THERE(p_transfer_size_min);
	THERE(p_transfer_size_max);
	THERE(p_notification_num);
	THERE(p_rw_list_elem_max);
	THERE(p_passive_send);
	THERE(p_passive_receive);
	THERE(p_passive_transfer_size_min);
	THERE(p_passive_transfer_size_max);
	THERE(p_atomic_fetch_add);
	THERE(p_atomic_compare_swap);
	THERE(p_atomic_max);
	THERE(p_barrier);
	THERE(p_allreduce);
	THERE(p_allreduce_user);
	THERE(p_allreduce_elem_max);
	THERE(p_allreduce_buf_size);
	THERE(p_state_vec_get);
	THERE(p_connect);
	THERE(p_disconnect);
	THERE(p_time_get);
	THERE(p_time_ticks);
	THERE(p_cpu_frequency);
	THERE(p_print_error);
	THERE(p_statistic_verbosity_level);
	THERE(p_statistic_counter_max);
	THERE(p_statistic_counter_info);
	THERE(p_statistic_counter_get);
	THERE(p_statistic_counter_get_f);
	THERE(p_statistic_print_counters);
	THERE(p_notifications_space_size);
	THERE(p_statistic_counter_reset);
	THERE(p_printf);
	THERE(p_printf_to);
	THERE(p_error_str);
	THERE(p_delay);
	THERE(p_numa_socket);
	THERE(p_set_socket_affinity);
	THERE(p_print_affinity_mask);
	THERE(p_threads_init);
	THERE(p_threads_init_user);
	THERE(p_threads_term);
	THERE(p_threads_register);
	THERE(p_threads_run);
	THERE(p_threads_get_tid);
	THERE(p_threads_get_total);
	THERE(p_threads_get_num_cores);
	THERE(p_threads_sync);
	THERE(p_threads_sync_all);
	return 0;
}
