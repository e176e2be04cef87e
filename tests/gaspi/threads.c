/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Helpers for threads; sockets and their cores.
 */
#include <sched.h>

#include "common.h"
#include "GASPI_Threads.h"

#define THREADS 4
#define MEETINGS 200

static int arrived[MEETINGS], ended;

static void meet(gaspi_int id)
{
	int i;

	for (i = 0; i < MEETINGS; i++) {
		__atomic_fetch_add(&arrived[i], 1, __ATOMIC_RELAXED);
		gaspi_threads_sync();
		CHECK(__atomic_load_n(&arrived[i], __ATOMIC_RELAXED) == THREADS);
	}
	for (i = 0; i < 20; i++)
		OK(gaspi_threads_sync_all(GASPI_GROUP_ALL, MINUTE));
	/* A group that is none: all threads hear of it. */
	CHECK(gaspi_threads_sync_all(77, MINUTE) == (id == 0 ? GASPI_ERR_INV_GROUP : GASPI_ERROR));
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
}

static void *other(void *argument)
{
	gaspi_int id = -1, again = -1;

	CHECK(argument == &ended);
	GIVES(GASPI_ERROR, gaspi_threads_get_tid(&id));
	OK(gaspi_threads_register(&id));
	CHECK(id > 0 && id < THREADS);
	OK(gaspi_threads_get_tid(&again));
	CHECK(again == id);
	meet(id);
	return NULL;
}

static void cores(void)
{
	gaspi_uchar node = 9;
	cpu_set_t set;

	GIVES(GASPI_ERR_ENV, gaspi_numa_socket(&node));
	CHECK(!setenv("GASPI_SET_NUMA_SOCKET", "1", 1));
	OK(gaspi_numa_socket(&node));
	CHECK(node == job_of().me);
	GIVES(GASPI_ERR_NULLPTR, gaspi_numa_socket(NULL));
	GIVES(GASPI_ERROR, gaspi_set_socket_affinity(16));
	if (gaspi_set_socket_affinity(0) == GASPI_SUCCESS) {
		CHECK(!sched_getaffinity(0, sizeof(set), &set));
		CHECK(CPU_COUNT(&set) > 0);
	}
	gaspi_print_affinity_mask();
}

int main(void)
{
	gaspi_int id = -1, count = 0;
	int i;

	begin();
	GIVES(GASPI_ERROR, gaspi_threads_register(&id));
	GIVES(GASPI_ERROR, gaspi_threads_term());
	GIVES(GASPI_ERROR, gaspi_threads_run(other, &ended));
	GIVES(GASPI_ERROR, gaspi_threads_init_user(0));
	GIVES(GASPI_ERROR, gaspi_threads_init_user(1025));
	OK(gaspi_threads_init(&count));
	CHECK(count > 0);
	OK(gaspi_threads_term());
	OK(gaspi_threads_init_user(THREADS));
	GIVES(GASPI_ERROR, gaspi_threads_init_user(THREADS));
	GIVES(GASPI_ERR_NULLPTR, gaspi_threads_register(NULL));
	GIVES(GASPI_ERR_NULLPTR, gaspi_threads_run(NULL, NULL));
	OK(gaspi_threads_register(&id));
	CHECK(id == 0);
	GIVES(GASPI_ERROR, gaspi_threads_register(&id));
	OK(gaspi_threads_get_total(&count));
	CHECK(count == THREADS);
	OK(gaspi_threads_get_num_cores(&count));
	CHECK(count > 0);
	for (i = 1; i < THREADS; i++)
		OK(gaspi_threads_run(other, &ended));
	meet(0);
	while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < THREADS)
		gaspi_delay();
	OK(gaspi_threads_term());
	GIVES(GASPI_ERROR, gaspi_threads_get_tid(&id));
	cores();
	end();
	return 0;
}
