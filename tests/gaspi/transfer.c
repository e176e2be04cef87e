/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Segments of all kinds; writes, reads, lists, notifications, queues, passive messages and atomics, in a ring of any size.
 */
#include <pthread.h>

#include "common.h"

#define BYTES 100000

static unsigned char byte_of(gaspi_rank_t rank, unsigned int round, size_t at)
{
	return (unsigned char)(rank * 31 + round * 7 + at * 3);
}

static void fill(unsigned char *to, gaspi_rank_t rank, unsigned int round, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		to[i] = byte_of(rank, round, i);
}

static void same(const unsigned char *from, gaspi_rank_t rank, unsigned int round, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		CHECK(from[i] == byte_of(rank, round, i));
}

static void ring(struct job job, gaspi_rank_t next, gaspi_rank_t before)
{
	static const gaspi_size_t sizes[] = { 1, 8, 4096, 65537, BYTES };
	unsigned int round;

	OK(gaspi_segment_create(0, 2 * BYTES, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_INITIALIZED));
	for (round = 0; round < 5; round++) {
		unsigned char *memory = memory_of(0);
		gaspi_queue_id_t queue = (gaspi_queue_id_t)round;
		gaspi_number_t size = 7;

		fill(memory, job.me, round, sizes[round]);
		OK(gaspi_write_notify(0, 0, next, 0, BYTES, sizes[round], 65535, round + 1, queue, GASPI_TEST));
		OK(gaspi_queue_size(queue, &size));
		CHECK(size == 1);
		CHECK(notified(0, 65535) == round + 1);
		same(memory + BYTES, before, round, sizes[round]);
		OK(gaspi_wait(queue, MINUTE));
		OK(gaspi_queue_size(queue, &size));
		CHECK(size == 0);
		OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
		/* The same data back by a read. */
		memset(memory + BYTES, 0, sizes[round]);
		OK(gaspi_read_notify(0, BYTES, next, 0, 0, sizes[round], 3, queue, MINUTE));
		CHECK(notified(0, 3) == 1);
		same(memory + BYTES, next, round, sizes[round]);
		OK(gaspi_wait(queue, MINUTE));
		OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	}
}

static void lists(struct job job, gaspi_rank_t next, gaspi_rank_t before)
{
	gaspi_segment_id_t segments[3] = { 0, 0, 0 };
	gaspi_offset_t from[3] = { 1, 500, 1000 }, to[3] = { BYTES, BYTES + 500, BYTES + 1000 };
	gaspi_size_t sizes[3] = { 3, 0, 70 };
	unsigned char *memory = memory_of(0);
	gaspi_number_t size = 0;

	fill(memory, job.me, 9, 2000);
	memset(memory + BYTES, 0, 2000);
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_write_list_notify(3, segments, from, next, segments, to, sizes, 0, 40000, 0xffffffff, 1, MINUTE));
	OK(gaspi_queue_size(1, &size));
	CHECK(size == 3);
	CHECK(notified(0, 40000) == 0xffffffff);
	CHECK(memory[BYTES] == byte_of(before, 9, 1) && memory[BYTES + 2] == byte_of(before, 9, 3));
	CHECK(memory[BYTES + 3] == 0 && memory[BYTES + 500] == 0);
	CHECK(memory[BYTES + 1069] == byte_of(before, 9, 1069) && memory[BYTES + 1070] == 0);
	OK(gaspi_wait(1, MINUTE));
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	memset(memory + BYTES, 0, 2000);
	OK(gaspi_read_list(3, segments, to, next, segments, from, sizes, 1, MINUTE));
	OK(gaspi_wait(1, MINUTE));
	CHECK(memory[BYTES + 1] == byte_of(next, 9, 2) && memory[BYTES + 1000] == byte_of(next, 9, 1000));
	OK(gaspi_read_list_notify(3, segments, to, next, segments, from, sizes, 0, 5, 1, MINUTE));
	CHECK(notified(0, 5) == 1);
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_write_list(3, segments, from, next, segments, to, sizes, 1, MINUTE));
	OK(gaspi_wait(1, MINUTE));
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
}

/* Memory of the program, unaligned; one direction only; a notification after the local segment is gone. */
static void bound(struct job job, gaspi_rank_t next, gaspi_rank_t before)
{
	unsigned char *own = (unsigned char *)malloc(5000);
	gaspi_size_t size = 0;
	gaspi_number_t count = 0;
	gaspi_segment_id_t ids[2], free_id = 9;

	CHECK(own);
	memset(own, 0, 5000);
	OK(gaspi_segment_bind(1, own + 3, 4000 + job.me, 0));
	OK(gaspi_segment_avail_local(&free_id));
	CHECK(free_id == 2);
	OK(gaspi_segment_num(&count));
	CHECK(count == 2);
	GIVES(GASPI_ERROR, gaspi_segment_list(1, ids));
	OK(gaspi_segment_list(2, ids));
	CHECK(ids[0] == 0 && ids[1] == 1);
	OK(gaspi_segment_register(1, before, MINUTE));
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_segment_size(1, next, &size));
	CHECK(size == 4000u + next);
	memory_of(0)[0] = (unsigned char)(job.me + 1);
	OK(gaspi_write(0, 0, next, 1, size - 1, 1, 0, MINUTE));
	OK(gaspi_notify(1, next, 0, 1, 0, MINUTE));
	CHECK(notified(1, 0) == 1);
	CHECK(own[3 + 3999 + job.me] == before + 1);
	OK(gaspi_wait(0, MINUTE));
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	/* Only the local segment goes: the notification of the other's is still reached. */
	if (job.ranks > 1) {
		if (job.me == 0) {
			OK(gaspi_segment_delete(1));
			OK(gaspi_notify(1, next, 2, 5, 0, MINUTE));
			OK(gaspi_wait(0, MINUTE));
		}
		if (before == 0)
			CHECK(notified(1, 2) == 5);
	}
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	if (job.me != 0 || job.ranks == 1)
		OK(gaspi_segment_delete(1));
	free(own);
}

/* The same id again, of another size, with the barrier of its creation alone. */
static void again(struct job job, gaspi_rank_t next, gaspi_rank_t before)
{
	gaspi_size_t round;

	for (round = 1; round <= 50; round++) {
		OK(gaspi_segment_create(7, round * 8, GASPI_GROUP_ALL, MINUTE, GASPI_ALLOC_DEFAULT));
		((uint64_t *)(void *)memory_of(0))[0] = job.me + round;
		OK(gaspi_write_notify(0, 0, next, 7, round * 8 - 8, 8, 1, 1, 0, MINUTE));
		CHECK(notified(7, 1) == 1);
		CHECK(((uint64_t *)(void *)memory_of(7))[round - 1] == before + round);
		OK(gaspi_wait(0, MINUTE));
		OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
		OK(gaspi_segment_delete(7));
	}
}

static void queues(gaspi_rank_t next)
{
	gaspi_number_t count = 0, i;
	gaspi_queue_id_t queue = 0;

	OK(gaspi_queue_num(&count));
	CHECK(count == 8);
	for (i = 8; i < 16; i++) {
		OK(gaspi_queue_create(&queue, MINUTE));
		CHECK(queue == i);
	}
	GIVES(GASPI_ERROR, gaspi_queue_create(&queue, MINUTE));
	for (i = 0; i < 1024; i++)
		OK(gaspi_write_notify(0, 0, next, 0, BYTES, 8, i, 1, 15, MINUTE));
	GIVES(GASPI_QUEUE_FULL, gaspi_notify(0, next, 0, 1, 15, MINUTE));
	OK(gaspi_wait(15, MINUTE));
	for (i = 0; i < 1024; i++)
		CHECK(notified(0, i) == 1);
	for (i = 16; i-- > 8;)
		OK(gaspi_queue_delete((gaspi_queue_id_t)i));
	GIVES(GASPI_ERR_INV_QUEUE, gaspi_wait(15, MINUTE));
	OK(gaspi_queue_purge(0, MINUTE));
}

static void *sender(void *rank)
{
	OK(gaspi_passive_send(0, 0, *(gaspi_rank_t *)rank, 65535, MINUTE));
	return NULL;
}

static void passive(struct job job, gaspi_rank_t next, gaspi_rank_t before)
{
	unsigned char *memory = memory_of(0);
	gaspi_rank_t from = 99;
	pthread_t thread;

	fill(memory, job.me, 4, 65535);
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	CHECK(pthread_create(&thread, NULL, sender, &next) == 0);
	OK(gaspi_passive_receive(0, BYTES, &from, 65535, MINUTE));
	CHECK(from == before);
	same(memory + BYTES, before, 4, 65535);
	CHECK(pthread_join(thread, NULL) == 0);
	GIVES(GASPI_TIMEOUT, gaspi_passive_receive(0, BYTES, &from, 65535, GASPI_TEST));
	GIVES(GASPI_TIMEOUT, gaspi_passive_receive(0, BYTES, &from, 65535, 10));
}

static void atomics(struct job job)
{
	gaspi_atomic_value_t old = 0;
	gaspi_rank_t i;

	OK(gaspi_segment_create(2, 16, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_INITIALIZED));
	for (i = 0; i < 40; i++)
		OK(gaspi_atomic_fetch_add(2, 8, 0, 3, &old, GASPI_TEST));
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_atomic_fetch_add(2, 8, 0, 0, &old, MINUTE));
	CHECK(old == 120u * job.ranks);
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_atomic_compare_swap(2, 8, job.me, 1, 2, &old, MINUTE));
	CHECK(old == (job.me ? 0 : 120u * job.ranks));
	CHECK(((uint64_t *)(void *)memory_of(2))[1] == old);
	OK(gaspi_atomic_compare_swap(2, 8, job.me, old, 2, &old, MINUTE));
	OK(gaspi_atomic_fetch_add(2, 8, job.me, (gaspi_atomic_value_t)-1, &old, MINUTE));
	CHECK(old == 2 && ((uint64_t *)(void *)memory_of(2))[1] == 1);
}

int main(void)
{
	struct job job = begin();
	gaspi_rank_t next = (gaspi_rank_t)((job.me + 1) % job.ranks);
	gaspi_rank_t before = (gaspi_rank_t)((job.me + job.ranks - 1) % job.ranks);

	ring(job, next, before);
	lists(job, next, before);
	bound(job, next, before);
	again(job, next, before);
	queues(next);
	passive(job, next, before);
	atomics(job);
	end();
	return 0;
}
