/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Extensions to GASPI.
 */
#ifndef GASPI_EXT_H
#define GASPI_EXT_H

#include "GASPI.h"

#ifdef __cplusplus
extern "C" {
#endif

gaspi_return_t gaspi_initialized(gaspi_number_t *initialized);
gaspi_return_t gaspi_proc_local_rank(gaspi_rank_t *local_rank);
gaspi_return_t gaspi_proc_local_num(gaspi_rank_t *local_num);
gaspi_return_t gaspi_proc_ping(gaspi_rank_t rank, gaspi_timeout_t timeout_ms);
gaspi_return_t gaspi_segment_size(gaspi_segment_id_t segment_id, gaspi_rank_t rank,
		gaspi_size_t *size);
gaspi_return_t gaspi_segment_avail_local(gaspi_segment_id_t *segment_id);
gaspi_return_t gaspi_rw_list_elem_max(gaspi_number_t *elem_max);
gaspi_return_t gaspi_cpu_frequency(float *cpu_mhz);
/* A counter as a number with a fraction; all of them, by gaspi_printf. */
gaspi_return_t gaspi_statistic_counter_get_f(gaspi_statistic_counter_t counter, gaspi_number_t argument,
		float *value);
gaspi_return_t gaspi_statistic_print_counters(void);
/* Bytes of the notifications of a segment, which lie beside it; none before gaspi_proc_init. */
gaspi_size_t gaspi_notifications_space_size(void);
/*
 * Text of at most 1023 bytes with its prefix "[host:rank:local rank] ": a datagram to port 17825 of the host of rank 0 (of
 * rank); before gaspi_proc_init on standard output.
 */
void gaspi_printf(const char *fmt, ...);
void gaspi_printf_to(gaspi_rank_t rank, const char *fmt, ...);
/* A text that stays, for any value. */
gaspi_string_t gaspi_error_str(gaspi_return_t error_code);
/* A hint to the processor, for loops that poll. */
void gaspi_delay(void);
/* The local rank where GASPI_SET_NUMA_SOCKET is 1, else GASPI_ERR_ENV; the calling thread on the cores of a node. */
gaspi_return_t gaspi_numa_socket(gaspi_uchar *socket);
gaspi_return_t gaspi_set_socket_affinity(gaspi_uchar socket);
/* The cores that the calling thread may use, by gaspi_printf. */
void gaspi_print_affinity_mask(void);

#ifdef __cplusplus
}
#endif

#endif /* GASPI_EXT_H */
