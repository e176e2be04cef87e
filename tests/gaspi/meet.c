/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Groups, barriers, reductions, and calls that go on where they timed out.
 */
#include "common.h"

static void timed_out_barrier(struct job job)
{
	int i;

	if (job.ranks > 1 && job.me == 0) {
		double one = 1, all = 0;

		GIVES(GASPI_TIMEOUT, gaspi_barrier(GASPI_GROUP_ALL, 20));
		GIVES(GASPI_ERR_ACTIVE_COLL, gaspi_allreduce(&one, &all, 1, GASPI_OP_SUM, GASPI_TYPE_DOUBLE,
							     GASPI_GROUP_ALL, 20));
		/* Rank 1 comes now. */
		OK(gaspi_notify(0, 1, 0, 1, 0, MINUTE));
	}
	if (job.me == 1)
		CHECK(notified(0, 0) == 1);
	OK(gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK));
	for (i = 0; i < 100; i++)
		OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	while (gaspi_barrier(GASPI_GROUP_ALL, GASPI_TEST) == GASPI_TIMEOUT)
		gaspi_delay();
}

#define REDUCE(type, name)                                                                               \
	do {                                                                                             \
		type send[255], receive[255];                                                            \
		int i_, op_;                                                                             \
		for (op_ = 0; op_ < 3; op_++) {                                                          \
			for (i_ = 0; i_ < 255; i_++)                                                     \
				send[i_] = (type)(i_ + job.me);                                          \
			OK(gaspi_allreduce(send, receive, 255, (gaspi_operation_t)op_, name,             \
					   GASPI_GROUP_ALL, MINUTE));                                    \
			for (i_ = 0; i_ < 255; i_++) {                                                   \
				type least = (type)i_, most = (type)(i_ + job.ranks - 1);                \
				type sum = (type)(job.ranks * i_ + job.ranks * (job.ranks - 1) / 2);     \
				CHECK(receive[i_] == (op_ == 0 ? least : op_ == 1 ? most : sum));        \
			}                                                                                \
			/* Buffers may coincide. */                                                      \
			OK(gaspi_allreduce(send, send, 1, (gaspi_operation_t)op_, name,                  \
					   GASPI_GROUP_ALL, MINUTE));                                    \
			CHECK(send[0] == receive[0]);                                                    \
		}                                                                                        \
	} while (0)

static gaspi_return_t longest(gaspi_pointer_t one, gaspi_pointer_t two, gaspi_pointer_t result,
			      gaspi_reduce_state_t state, gaspi_number_t num, gaspi_size_t element_size,
			      gaspi_timeout_t timeout_ms)
{
	const int *a = (const int *)one, *b = (const int *)two;
	int *c = (int *)result;

	CHECK(num == 2 && element_size == 8 && timeout_ms == MINUTE);
	(*(int *)state)++;
	/* Each element: a length and an owner. */
	memcpy(c, a[0] >= b[0] ? a : b, 8);
	memcpy(c + 2, a[2] >= b[2] ? a + 2 : b + 2, 8);
	return GASPI_SUCCESS;
}

static void reductions(struct job job)
{
	int own[4] = { job.me, job.me, -job.me, job.me }, all[4];
	int calls = 0, called = 0;

	REDUCE(int, GASPI_TYPE_INT);
	REDUCE(unsigned int, GASPI_TYPE_UINT);
	REDUCE(float, GASPI_TYPE_FLOAT);
	REDUCE(double, GASPI_TYPE_DOUBLE);
	REDUCE(long, GASPI_TYPE_LONG);
	REDUCE(unsigned long, GASPI_TYPE_ULONG);
	OK(gaspi_allreduce_user(own, all, 2, 8, longest, &calls, GASPI_GROUP_ALL, MINUTE));
	CHECK(all[0] == job.ranks - 1 && all[1] == job.ranks - 1 && all[2] == 0 && all[3] == 0);
	/* Whoever combines: each value is combined once with the others at least. */
	OK(gaspi_allreduce(&calls, &called, 1, GASPI_OP_SUM, GASPI_TYPE_INT, GASPI_GROUP_ALL, MINUTE));
	CHECK(called >= job.ranks - 1);
}

static void groups(struct job job)
{
	gaspi_group_t odd = 9, all = 9;
	gaspi_number_t count = 0;
	gaspi_rank_t ranks[64], i;
	int one = 1, sum = 0, round;

	for (round = 0; round < 20; round++) {
		/* Ranks of the same parity; in descending order. */
		OK(gaspi_group_create(&odd));
		CHECK(odd == 1);
		OK(gaspi_group_size(odd, &count));
		CHECK(count == 0);
		for (i = job.ranks; i-- > 0;)
			if (i % 2 == job.me % 2)
				OK(gaspi_group_add(odd, i));
		GIVES(GASPI_ERR_INV_RANK, gaspi_group_add(odd, job.me));
		GIVES(GASPI_ERR_INV_GROUP, gaspi_barrier(odd, MINUTE));
		OK(gaspi_group_commit(odd, MINUTE));
		OK(gaspi_group_num(&count));
		CHECK(count == 2);
		OK(gaspi_group_size(odd, &count));
		OK(gaspi_group_ranks(odd, ranks));
		CHECK(count == (gaspi_number_t)(job.ranks + 1 - job.me % 2) / 2 && ranks[0] == job.me % 2);
		OK(gaspi_allreduce(&one, &sum, 1, GASPI_OP_SUM, GASPI_TYPE_INT, odd, MINUTE));
		CHECK(sum == (int)count);
		OK(gaspi_group_create(&all));
		CHECK(all == 2);
		for (i = 0; i < job.ranks; i++)
			OK(gaspi_group_add(all, i));
		while (gaspi_group_commit(all, 5) == GASPI_TIMEOUT)
			gaspi_delay();
		OK(gaspi_barrier(all, MINUTE));
		OK(gaspi_group_delete(odd));
		OK(gaspi_group_delete(all));
		GIVES(GASPI_ERR_INV_GROUP, gaspi_barrier(all, MINUTE));
		/* Nobody begins again while others hold the groups. */
		OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	}
	OK(gaspi_group_commit(GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_group_delete(GASPI_GROUP_ALL));
}

static void others(struct job job)
{
	gaspi_state_t states[64];
	gaspi_rank_t i;

	memset(states, 7, sizeof(states));
	OK(gaspi_state_vec_get(states));
	for (i = 0; i < job.ranks; i++) {
		CHECK(states[i] == GASPI_STATE_HEALTHY);
		OK(gaspi_proc_ping(i, MINUTE));
		OK(gaspi_connect(i, MINUTE));
		OK(gaspi_disconnect(i, MINUTE));
	}
	CHECK(states[job.ranks] == 7);
	GIVES(GASPI_ERR_INV_RANK, gaspi_proc_ping(job.ranks, MINUTE));
	GIVES(GASPI_ERR_INV_RANK, gaspi_proc_kill(job.me, MINUTE));
}

int main(void)
{
	struct job job = begin();

	OK(gaspi_segment_create(0, 8, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_INITIALIZED));
	timed_out_barrier(job);
	reductions(job);
	groups(job);
	others(job);
	end();
	return 0;
}
