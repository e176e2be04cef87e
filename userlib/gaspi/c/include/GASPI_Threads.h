/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Helpers for threads, which old programs use; others start threads by themselves. Without threads that are declared, all give
 * GASPI_ERROR.
 */
#ifndef GASPI_THREADS_H
#define GASPI_THREADS_H

#include "GASPI.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Declares one thread for each core, or so many (1024 at most). */
gaspi_return_t gaspi_threads_init(gaspi_int *num_cores);
gaspi_return_t gaspi_threads_init_user(gaspi_uint num_threads);
gaspi_return_t gaspi_threads_term(void);
/* Each thread calls this, the first one as well; ids begin with 0. */
gaspi_return_t gaspi_threads_register(gaspi_int *tid);
gaspi_return_t gaspi_threads_run(void *(*function)(void *), void *arg);
gaspi_return_t gaspi_threads_get_tid(gaspi_int *tid);
gaspi_return_t gaspi_threads_get_total(gaspi_int *num_threads);
gaspi_return_t gaspi_threads_get_num_cores(gaspi_int *num_cores);
/* Waits until all declared threads have called it. */
void gaspi_threads_sync(void);
/* The same, with a barrier of the group in between. */
gaspi_return_t gaspi_threads_sync_all(gaspi_group_t group, gaspi_timeout_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* GASPI_THREADS_H */
