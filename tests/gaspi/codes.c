/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is wrong, and the code that says so: before the beginning, during it, and after the end; with any number of processes.
 */
#include "common.h"

#define SIZE 4096
/* A segment that is never made, one that was deleted, one of this process alone, and none. */
#define NEVER 20
#define DELETED 21
#define ALONE 22
#define NONE 255

static void before_and_after(int is_after)
{
	gaspi_number_t number = 5;
	gaspi_rank_t rank = 7;
	gaspi_pointer_t pointer;
	gaspi_atomic_value_t old;
	gaspi_group_t group;
	float value = 0;
	gaspi_cycles_t first = 0, last = 0;
	gaspi_string_t text = NULL;

	OK(gaspi_initialized(&number));
	CHECK(number == 0);
	OK(gaspi_version(&value));
	CHECK(value > 1.59f && value < 1.61f);
	OK(gaspi_time_get(&value));
	OK(gaspi_time_ticks(&first));
	OK(gaspi_cpu_frequency(&value));
	OK(gaspi_time_ticks(&last));
	CHECK(value > 1 && last > first);
	OK(gaspi_print_error(GASPI_ERR_NOINIT, &text));
	CHECK(text && !strcmp(text, gaspi_error_str(GASPI_ERR_NOINIT)));
	free(text);
	CHECK(gaspi_error_str((gaspi_return_t)77) && gaspi_error_str(GASPI_ERROR));
	GIVES(GASPI_ERR_NOINIT, gaspi_proc_rank(&rank));
	GIVES(GASPI_ERR_NOINIT, gaspi_proc_num(&rank));
	GIVES(GASPI_ERR_NOINIT, gaspi_segment_alloc(0, 8, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_NOINIT, gaspi_segment_ptr(0, &pointer));
	GIVES(GASPI_ERR_NOINIT, gaspi_write(0, 0, 0, 0, 0, 8, 0, GASPI_BLOCK));
	GIVES(GASPI_ERR_NOINIT, gaspi_wait(0, GASPI_BLOCK));
	GIVES(GASPI_ERR_NOINIT, gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK));
	GIVES(GASPI_ERR_NOINIT, gaspi_group_create(&group));
	GIVES(GASPI_ERR_NOINIT, gaspi_group_max(&number));
	GIVES(GASPI_ERR_NOINIT, gaspi_atomic_fetch_add(0, 0, 0, 1, &old, GASPI_BLOCK));
	GIVES(GASPI_ERR_NOINIT, gaspi_proc_term(GASPI_BLOCK));
	if (is_after)
		GIVES(GASPI_ERROR, gaspi_proc_init(MINUTE));
}

static void configuration(void)
{
	gaspi_config_t config;

	OK(gaspi_config_get(&config));
	config.notification_num = 0;
	OK(gaspi_config_set(config));
	config.queue_size_max = 16;
	config.notification_num = 1000;
	config.group_max = 4;
	OK(gaspi_config_set(config));
	config.queue_num = 17;
	GIVES(GASPI_ERR_CONFIG, gaspi_config_set(config));
	config.queue_num = 8;
	config.transfer_size_max = (1ul << 30) + 1;
	GIVES(GASPI_ERR_CONFIG, gaspi_config_set(config));
	GIVES(GASPI_ERR_NULLPTR, gaspi_config_get(NULL));
}

static void transfers(struct job job)
{
	gaspi_segment_id_t list[3] = { 0, 0, 0 };
	gaspi_offset_t at[3] = { 0, 0, 0 };
	gaspi_size_t sizes[3] = { 8, 8, SIZE + 1 };
	gaspi_rank_t me = job.me;
	gaspi_number_t i, size;

#define BOTH(code, ...)                                                         \
	do {                                                                    \
		GIVES(code, gaspi_write(__VA_ARGS__, 0, MINUTE));               \
		GIVES(code, gaspi_read(__VA_ARGS__, 0, MINUTE));                \
		GIVES(code, gaspi_write_notify(__VA_ARGS__, 1, 1, 0, MINUTE));  \
		GIVES(code, gaspi_read_notify(__VA_ARGS__, 1, 0, MINUTE));      \
	} while (0)
	BOTH(GASPI_ERR_INV_SEG, NONE, 0, me, 0, 0, 8);
	BOTH(GASPI_ERR_NULLPTR, NEVER, 0, me, 0, 0, 8);
	BOTH(GASPI_ERR_NULLPTR, DELETED, 0, me, 0, 0, 8);
	BOTH(GASPI_ERR_INV_LOC_OFF, 0, SIZE, me, 0, 0, 0);
	BOTH(GASPI_ERR_INV_COMMSIZE, 0, 1, me, 0, 0, SIZE);
	BOTH(GASPI_ERR_INV_SEG, 0, 0, me, NONE, 0, 8);
	BOTH(GASPI_ERR_NULLPTR, 0, 0, me, NEVER, 0, 8);
	BOTH(GASPI_ERR_INV_RANK, 0, 0, job.ranks, 0, 0, 8);
	BOTH(GASPI_ERR_INV_REM_OFF, 0, 0, me, 0, SIZE, 8);
	BOTH(GASPI_ERR_INV_COMMSIZE, 0, 0, me, 0, SIZE - 4, 8);
	BOTH(GASPI_ERR_INV_COMMSIZE, 0, 0, me, 0, 0, (gaspi_size_t)-1);
	if (job.ranks > 1)
		BOTH(GASPI_ERR_NULLPTR, 0, 0, (gaspi_rank_t)((me + 1) % job.ranks), ALONE, 0, 8);
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_write(0, 0, me, 0, 0, 8, 8, MINUTE));
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_write(0, 0, me, 0, 0, 0, 200, MINUTE));
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_notify(0, me, 0, 1, 8, MINUTE));
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_wait(8, MINUTE));
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_queue_size(8, &size));
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_queue_delete(8));
	GIVES(GASPI_ERR_INV_NOTIF_VAL, gaspi_notify(0, me, 0, 0, 0, MINUTE));
	GIVES(GASPI_ERR_INV_NOTIF_VAL, gaspi_write_notify(0, 0, me, 0, 0, 8, 0, 0, 0, MINUTE));
	GIVES(GASPI_ERR_INV_NOTIF_ID, gaspi_notify(0, me, 1000, 1, 0, MINUTE));
	GIVES(GASPI_ERR_INV_NUM, gaspi_write_list(0, list, at, me, list, at, sizes, 0, MINUTE));
	GIVES(GASPI_ERR_INV_NUM, gaspi_write_list(257, list, at, me, list, at, sizes, 0, MINUTE));
	GIVES(GASPI_ERR_INV_NUM, gaspi_read_list(257, NULL, NULL, me, NULL, NULL, NULL, 0, MINUTE));
	GIVES(GASPI_ERR_NULLPTR, gaspi_read_list(1, NULL, at, me, list, at, sizes, 0, MINUTE));
	GIVES(GASPI_ERR_INV_COMMSIZE, gaspi_write_list(3, list, at, me, list, at, sizes, 0, MINUTE));
	OK(gaspi_queue_size(0, &size));
	CHECK(size == 0);
	/* Nothing is posted for no bytes; 16 requests have room. */
	OK(gaspi_write(0, 0, me, 0, 0, 0, 0, MINUTE));
	for (i = 0; i < 16; i++)
		OK(gaspi_write(0, 0, me, 0, 8, 8, 0, MINUTE));
	GIVES(GASPI_QUEUE_FULL, gaspi_write(0, 0, me, 0, 8, 8, 0, MINUTE));
	OK(gaspi_wait(0, MINUTE));
}

static void notifications(void)
{
	gaspi_notification_id_t first = 77;
	gaspi_notification_t old = 5;

	OK(gaspi_notify_waitsome(0, 3, 0, &first, GASPI_BLOCK));
	CHECK(first == 77);
	GIVES(GASPI_TIMEOUT, gaspi_notify_waitsome(0, 0, 1000, &first, GASPI_TEST));
	GIVES(GASPI_TIMEOUT, gaspi_notify_waitsome(0, 0, 1000, &first, 5));
	GIVES(GASPI_ERR_INV_NOTIF_ID, gaspi_notify_waitsome(0, 1, 1000, &first, 5));
	GIVES(GASPI_ERR_INV_SEG, gaspi_notify_waitsome(NONE, 0, 1, &first, 5));
	GIVES(GASPI_ERR_NULLPTR, gaspi_notify_waitsome(NEVER, 0, 1, &first, 5));
	GIVES(GASPI_ERR_NULLPTR, gaspi_notify_waitsome(0, 0, 1, NULL, 5));
	OK(gaspi_notify_reset(0, 999, &old));
	CHECK(old == 0);
	OK(gaspi_notify_reset(0, 999, NULL));
	GIVES(GASPI_ERR_INV_NOTIF_ID, gaspi_notify_reset(0, 1000, &old));
}

static void segments(struct job job)
{
	gaspi_pointer_t pointer = NULL;
	gaspi_size_t size = 0;
	char own[8];

	GIVES(GASPI_ERR_INV_SEGSIZE, gaspi_segment_alloc(5, 0, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_INV_SEG, gaspi_segment_alloc(NONE, 8, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_INV_SEG, gaspi_segment_alloc(0, 8, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_INV_SEG, gaspi_segment_create(0, 8, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_INV_SEG, gaspi_segment_use(0, own, 8, GASPI_GROUP_ALL, MINUTE, 0));
	GIVES(GASPI_ERR_INV_SEG, gaspi_segment_bind(0, own, 8, 0));
	GIVES(GASPI_ERR_NULLPTR, gaspi_segment_bind(5, NULL, 8, 0));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_segment_create(5, 8, 3, MINUTE, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_NULLPTR, gaspi_segment_delete(NEVER));
	GIVES(GASPI_ERR_INV_SEGSIZE, gaspi_segment_delete(DELETED));
	GIVES(GASPI_ERR_INV_SEG, gaspi_segment_delete(NONE));
	GIVES(GASPI_ERR_NULLPTR, gaspi_segment_ptr(NEVER, &pointer));
	GIVES(GASPI_ERR_INV_SEGSIZE, gaspi_segment_ptr(DELETED, &pointer));
	GIVES(GASPI_ERR_NULLPTR, gaspi_segment_ptr(0, NULL));
	GIVES(GASPI_ERR_NULLPTR, gaspi_segment_register(NEVER, job.me, MINUTE));
	GIVES(GASPI_ERR_INV_SEGSIZE, gaspi_segment_register(DELETED, job.me, MINUTE));
	GIVES(GASPI_ERR_INV_RANK, gaspi_segment_register(0, job.ranks, MINUTE));
	GIVES(GASPI_ERR_INV_SEGSIZE, gaspi_segment_size(NEVER, job.me, &size));
	OK(gaspi_segment_size(0, job.me, &size));
	CHECK(size == SIZE);
}

/* As many as there may be. */
static void most(struct job job)
{
	gaspi_segment_id_t id = 0;
	gaspi_number_t count = 0, more;
	gaspi_group_t group = 0;
	int i;

	OK(gaspi_segment_num(&count));
	for (more = count; more < 255; more++) {
		OK(gaspi_segment_avail_local(&id));
		OK(gaspi_segment_alloc(id, 1, GASPI_MEM_UNINITIALIZED));
	}
	GIVES(GASPI_ERR_MANY_SEG, gaspi_segment_avail_local(&id));
	for (i = 254; i > 30; i--)
		OK(gaspi_segment_delete((gaspi_segment_id_t)i));
	for (i = 1; i < 4; i++) {
		OK(gaspi_group_create(&group));
		CHECK(group == i);
	}
	GIVES(GASPI_ERR_MANY_GRP, gaspi_group_create(&group));
	OK(gaspi_group_add(1, job.me));
	GIVES(GASPI_ERR_INV_RANK, gaspi_group_add(1, job.ranks));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_group_add(99, job.me));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_group_commit(2, MINUTE));
	for (i = 1; i < 4; i++)
		OK(gaspi_group_delete((gaspi_group_t)i));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_group_delete(1));
}

static gaspi_return_t refuse(gaspi_pointer_t one, gaspi_pointer_t two, gaspi_pointer_t result,
			     gaspi_reduce_state_t state, gaspi_number_t num, gaspi_size_t element_size,
			     gaspi_timeout_t timeout_ms)
{
	(void)one, (void)two, (void)result, (void)state, (void)num, (void)element_size, (void)timeout_ms;
	return GASPI_ERROR;
}

static void others(struct job job)
{
	gaspi_atomic_value_t old = 3;
	gaspi_rank_t sender = 0;
	char buffer[8] = { 0 };

	GIVES(GASPI_ERR_INV_SEG, gaspi_atomic_fetch_add(NONE, 0, job.me, 1, &old, GASPI_TEST));
	GIVES(GASPI_ERR_NULLPTR, gaspi_atomic_fetch_add(NEVER, 0, job.me, 1, &old, GASPI_TEST));
	GIVES(GASPI_ERR_INV_RANK, gaspi_atomic_fetch_add(0, 0, job.ranks, 1, &old, MINUTE));
	GIVES(GASPI_ERR_INV_REM_OFF, gaspi_atomic_fetch_add(0, SIZE, job.me, 1, &old, MINUTE));
	GIVES(GASPI_ERR_INV_COMMSIZE, gaspi_atomic_compare_swap(0, SIZE - 7, job.me, 1, 1, &old, MINUTE));
	GIVES(GASPI_ERR_NULLPTR, gaspi_atomic_fetch_add(0, 4, job.me, 1, NULL, MINUTE));
	GIVES(GASPI_ERR_UNALIGN_OFF, gaspi_atomic_fetch_add(0, 4, job.me, 1, &old, MINUTE));
	OK(gaspi_atomic_max(&old));
	CHECK(old == 0xffffffffffffffff);
	GIVES(GASPI_ERR_INV_LOC_OFF, gaspi_passive_send(0, SIZE, job.me, 8, MINUTE));
	GIVES(GASPI_ERR_INV_COMMSIZE, gaspi_passive_send(0, 8, job.me, SIZE, MINUTE));
	GIVES(GASPI_ERR_INV_RANK, gaspi_passive_send(0, 0, job.ranks, 8, MINUTE));
	GIVES(GASPI_ERR_NULLPTR, gaspi_passive_receive(0, 0, NULL, 8, MINUTE));
	GIVES(GASPI_TIMEOUT, gaspi_passive_receive(0, 0, &sender, 8, 5));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_barrier(5, MINUTE));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_allreduce(buffer, buffer, 1, GASPI_OP_MIN, GASPI_TYPE_INT, 5, MINUTE));
	GIVES(GASPI_ERR_NULLPTR,
	      gaspi_allreduce(NULL, buffer, 1, GASPI_OP_MIN, GASPI_TYPE_INT, GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_ERR_INV_NUM,
	      gaspi_allreduce(buffer, buffer, 256, GASPI_OP_MIN, GASPI_TYPE_INT, GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_ERR_INV_SIZE,
	      gaspi_allreduce_user(buffer, buffer, 3, 681, refuse, NULL, GASPI_GROUP_ALL, MINUTE));
	/* One rank combines and fails: all hear of it, and the next one works. */
	if (job.ranks > 1)
		GIVES(GASPI_ERROR, gaspi_allreduce_user(buffer, buffer, 1, 8, refuse, NULL, GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_allreduce(buffer, buffer, 1, GASPI_OP_SUM, GASPI_TYPE_INT, GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_ERROR,
	      gaspi_allreduce(buffer, buffer, 1, (gaspi_operation_t)3, GASPI_TYPE_INT, GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_ERROR,
	      gaspi_allreduce(buffer, buffer, 1, GASPI_OP_SUM, (gaspi_datatype_t)10, GASPI_GROUP_ALL, MINUTE));
	if (job.ranks > 1) {
		/* Not alike on all ranks: all hear of it, and nothing is stored. */
		long sums[3] = { 1, 2, 3 };

		GIVES(GASPI_ERR_INV_NUM, gaspi_allreduce(sums, sums, job.me ? 1 : 2, GASPI_OP_SUM, GASPI_TYPE_LONG,
							 GASPI_GROUP_ALL, MINUTE));
		GIVES(GASPI_ERR_INV_NUM, gaspi_allreduce(sums, sums, 1, job.me ? GASPI_OP_MIN : GASPI_OP_MAX,
							 GASPI_TYPE_LONG, GASPI_GROUP_ALL, MINUTE));
		GIVES(GASPI_ERR_INV_NUM,
		      gaspi_allreduce(sums, sums, 1, GASPI_OP_SUM, job.me ? GASPI_TYPE_LONG : GASPI_TYPE_ULONG,
				      GASPI_GROUP_ALL, MINUTE));
		CHECK(sums[0] == 1 && sums[1] == 2 && sums[2] == 3);
	}
	GIVES(GASPI_ERR_NULLPTR, gaspi_proc_rank(NULL));
	GIVES(GASPI_ERR_NULLPTR, gaspi_state_vec_get(NULL));
}

int main(void)
{
	struct job job;
	gaspi_config_t config;
	gaspi_number_t number = 0;

	before_and_after(0);
	configuration();
	job = begin();
	GIVES(GASPI_ERR_INITED, gaspi_proc_init(MINUTE));
	OK(gaspi_config_get(&config));
	GIVES(GASPI_ERR_INITED, gaspi_config_set(config));
	OK(gaspi_initialized(&number));
	CHECK(number == 1);
	OK(gaspi_notification_num(&number));
	CHECK(number == 1000);
	OK(gaspi_segment_create(0, SIZE, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_INITIALIZED));
	OK(gaspi_segment_alloc(DELETED, 8, GASPI_MEM_INITIALIZED));
	OK(gaspi_segment_delete(DELETED));
	OK(gaspi_segment_alloc(ALONE, 8, GASPI_MEM_INITIALIZED));
	transfers(job);
	notifications();
	segments(job);
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	others(job);
	most(job);
	OK(gaspi_proc_term(MINUTE));
	before_and_after(1);
	return 0;
}
