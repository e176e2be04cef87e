// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * GPU segments by both spellings of the calls: writes between all kinds of segments, memory that is mapped and unmapped,
 * reductions, and the codes of what is wrong. Where no GPU is the CPU stands in.
 */
#include "common.h"

#include "GASPI_GPU.h"

#define BYTES 300000

static void fill(unsigned char *memory, unsigned int seed)
{
	unsigned int i;

	for (i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(i * 7 + seed);
}

static void before(void)
{
	int ids[8];
	gaspi_gpu_num count;
	gaspi_pointer_t context;

	GIVES(GASPI_ERROR, gaspi_number_of_GPUs(&count));
	GIVES(GASPI_ERROR, gaspi_GPU_ids(ids));
	GIVES(GASPI_ERROR, gaspi_segment_alloc(0, 8, GASPI_MEM_GPU | GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERROR, gaspi_map_seg(0, ids, sizeof(ids)));
	GIVES(GASPI_ERROR, gaspi_gpu_context(1, &context, MINUTE));
	GIVES(GASPI_ERR_NULLPTR, gaspi_gpu_context_check());
}

static void start(void)
{
	gaspi_gpu_config_t config;
	gaspi_number_t number;
	gaspi_gpu_num count;
	int ids[8] = { -1 };

	OK(gaspi_gpu_config_get(&config));
	CHECK(config.stores_max > 0 && config.piece > 0);
	config.staged_min = 10000;
	config.staged_piece = 30000;
	config.piece = 0;
	OK(gaspi_gpu_config_set(config));
	GIVES(GASPI_ERR_CONFIG, gaspi_init_GPUs());
	config.piece = 1 << 20;
	config.way = 3;
	GIVES(GASPI_ERR_CONFIG, gaspi_gpu_config_set(config));
	config.way = GASPI_GPU_WAY_AUTO;
	OK(gaspi_gpu_config_set(config));
	OK(gaspi_init_GPUs());
	OK(gaspi_gpu_init());
	GIVES(GASPI_ERR_INITED, gaspi_gpu_config_set(config));
	OK(gaspi_number_of_GPUs(&count));
	OK(gaspi_gpu_number(&number));
	CHECK(count == 1 && number == 1);
	OK(gaspi_GPU_ids(ids));
	CHECK(ids[0] >= 0);
	ids[0] = -1;
	OK(gaspi_gpu_ids(ids));
	CHECK(ids[0] >= 0);
	GIVES(GASPI_ERR_NULLPTR, gaspi_GPU_ids(NULL));
	GIVES(GASPI_ERR_NULLPTR, gaspi_gpu_number(NULL));
}

/* Segment 0 is on the host, 1 on the GPU, 2 on the GPU with its notifications. */
static void writes(struct job job, unsigned char *memory, unsigned char *other)
{
	static const gaspi_alloc_t policies[] = { GASPI_MEM_INITIALIZED, GASPI_MEM_INITIALIZED | GASPI_MEM_GPU,
						  GASPI_MEM_GPU | GASPI_MEM_GPU_NOTIFIED };
	gaspi_rank_t next = (gaspi_rank_t)((job.me + 1) % job.ranks);
	gaspi_rank_t last = (gaspi_rank_t)((job.me + job.ranks - 1) % job.ranks);
	gaspi_notification_id_t id;
	gaspi_notification_t value;
	gaspi_segment_id_t from, to, first = 20;
	gaspi_pointer_t pointer;
	gaspi_number_t size;

	for (from = 0; from < 3; from++)
		OK(gaspi_segment_create((gaspi_segment_id_t)(first + from), 2 * BYTES, GASPI_GROUP_ALL, MINUTE,
					policies[from]));
	/* The program's memory is bound: the host writes there before and reads there behind. */
	OK(gaspi_segment_use(30, memory, BYTES, GASPI_GROUP_ALL, MINUTE, 0));
	OK(gaspi_segment_use(31, other, BYTES, GASPI_GROUP_ALL, MINUTE, 0));
	for (from = first; from < first + 3; from++)
		for (to = first; to < first + 3; to++) {
			fill(memory, job.me + from * 3u + to);
			OK(gaspi_write(30, 0, job.me, from, 0, BYTES, 1, MINUTE));
			OK(gaspi_wait(1, MINUTE));
			OK(gaspi_notify(from, job.me, 9, 1, 1, MINUTE));
			CHECK(notified(from, 9) == 1);
			OK(gaspi_gpu_write_notify(from, 0, next, to, BYTES, BYTES, 11, 5, 0, MINUTE));
			OK(gaspi_notify_waitsome(to, 0, 20, &id, MINUTE));
			OK(gaspi_notify_reset(to, id, &value));
			CHECK(id == 11 && value == 5);
			OK(gaspi_read(31, 0, job.me, to, BYTES, BYTES, 2, MINUTE));
			OK(gaspi_wait(2, MINUTE));
			OK(gaspi_wait(0, MINUTE));
			fill(memory, last + from * 3u + to);
			CHECK(memcmp(memory, other, BYTES) == 0);
			OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
		}
	OK(gaspi_gpu_write(21, 0, next, 22, 0, BYTES, 3, MINUTE));
	OK(gaspi_queue_size(3, &size));
	CHECK(size >= 1);
	OK(gaspi_wait(3, MINUTE));
	GIVES(GASPI_ERR_INV_NOTIF_VAL, gaspi_gpu_write_notify(21, 0, next, 22, 0, 8, 0, 0, 0, MINUTE));
	GIVES(GASPI_ERR_INV_COMMSIZE, gaspi_gpu_write(21, 0, next, 22, BYTES, 2 * BYTES, 0, MINUTE));
	GIVES(GASPI_ERR_INV_RANK, gaspi_gpu_write(21, 0, job.ranks, 22, 0, 8, 0, MINUTE));
	GIVES(GASPI_ERROR, gaspi_segment_alloc(40, 8, 8));
	GIVES(GASPI_ERROR, gaspi_segment_alloc(40, 8, GASPI_MEM_GPU_NOTIFIED));
	OK(gaspi_segment_ptr(21, &pointer));
	CHECK(pointer && (uintptr_t)pointer % 64 == 0);
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_segment_delete(30));
	OK(gaspi_segment_delete(31));
}

/* What is on the GPU is combined as well: through the segment's own pointer. */
static void reduces(struct job job)
{
	static long values[4];
	gaspi_pointer_t pointer;
	long i;

	OK(gaspi_segment_ptr(22, &pointer));
	for (i = 0; i < 4; i++)
		values[i] = job.me + i;
	OK(gaspi_segment_bind(30, values, sizeof(values), 0));
	OK(gaspi_segment_register(30, job.me, MINUTE));
	OK(gaspi_write(30, 0, job.me, 22, 0, sizeof(values), 0, MINUTE));
	OK(gaspi_notify(22, job.me, 1, 1, 0, MINUTE));
	OK(gaspi_wait(0, MINUTE));
	CHECK(notified(22, 1) == 1);
	OK(gaspi_allreduce(pointer, (char *)pointer + 64, 4, GASPI_OP_SUM, GASPI_TYPE_LONG, GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_read(30, 0, job.me, 22, 64, sizeof(values), 0, MINUTE));
	OK(gaspi_wait(0, MINUTE));
	for (i = 0; i < 4; i++)
		CHECK(values[i] == job.ranks * (job.ranks - 1) / 2 + i * job.ranks);
	OK(gaspi_segment_delete(30));
}

/* Vectors of any length, by whatever the GPUs reach; of the group of all, and of one of its own, and codes. */
static void reduces_long(struct job job)
{
	const gaspi_size_t count = 50000;
	long *values = (long *)malloc(count * sizeof(long));
	gaspi_group_t groups[2] = { GASPI_GROUP_ALL, 0 };
	gaspi_pointer_t pointer;
	gaspi_rank_t rank;
	gaspi_size_t i;
	int one;

	CHECK(values);
	OK(gaspi_group_create(&groups[1]));
	for (rank = 0; rank < job.ranks; rank++)
		OK(gaspi_group_add(groups[1], rank));
	OK(gaspi_group_commit(groups[1], MINUTE));
	OK(gaspi_segment_create(31, count * sizeof(long), GASPI_GROUP_ALL, MINUTE, GASPI_MEM_GPU));
	OK(gaspi_segment_ptr(31, &pointer));
	OK(gaspi_segment_bind(30, values, count * sizeof(long), 0));
	OK(gaspi_segment_register(30, job.me, MINUTE));
	for (one = 0; one < 2; one++) {
		gaspi_size_t number = one ? 600 : count;

		for (i = 0; i < count; i++)
			values[i] = job.me + (long)i;
		OK(gaspi_write(30, 0, job.me, 31, 0, count * sizeof(long), 0, MINUTE));
		OK(gaspi_notify(31, job.me, 1, 1, 0, MINUTE));
		OK(gaspi_wait(0, MINUTE));
		CHECK(notified(31, 1) == 1);
		OK(gaspi_gpu_allreduce(pointer, pointer, number, GASPI_OP_SUM, GASPI_TYPE_LONG, groups[one], MINUTE));
		OK(gaspi_read(30, 0, job.me, 31, 0, count * sizeof(long), 0, MINUTE));
		OK(gaspi_wait(0, MINUTE));
		for (i = 0; i < number; i++)
			CHECK(values[i] == job.ranks * (job.ranks - 1) / 2 + (long)i * job.ranks);
		for (; i < count; i++)
			CHECK(values[i] == job.me + (long)i);
	}
	GIVES(GASPI_ERR_NULLPTR, gaspi_gpu_allreduce(NULL, pointer, 1, GASPI_OP_SUM, GASPI_TYPE_LONG, GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_ERR_INV_GROUP, gaspi_gpu_allreduce(pointer, pointer, 1, GASPI_OP_SUM, GASPI_TYPE_LONG, 99, MINUTE));
	GIVES(GASPI_ERROR, gaspi_gpu_allreduce(pointer, pointer, 1, (gaspi_operation_t)9, GASPI_TYPE_LONG, GASPI_GROUP_ALL, MINUTE));
	GIVES(GASPI_TIMEOUT, gaspi_gpu_allreduce(pointer, pointer, 1, GASPI_OP_SUM, GASPI_TYPE_LONG, GASPI_GROUP_ALL, GASPI_TEST));
	OK(gaspi_segment_delete(30));
	OK(gaspi_segment_delete(31));
	free(values);
}

/* Of the group of all, and of one without rank 0: sums at its last rank, that rank's numbers at all, and all numbers at all. */
static void from_and_to_a_root(struct job job)
{
	const gaspi_size_t count = 20000;
	gaspi_rank_t others = job.ranks - 1, root = others;
	gaspi_size_t bytes = count * sizeof(long), all = bytes * job.ranks, i;
	long *values = (long *)malloc(all);
	gaspi_group_t groups[2] = { GASPI_GROUP_ALL, 0 };
	gaspi_pointer_t pointer;
	char *out;
	int one;

	CHECK(values);
	OK(gaspi_segment_create(31, bytes + all, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_GPU));
	OK(gaspi_segment_ptr(31, &pointer));
	out = (char *)pointer + bytes;
	OK(gaspi_segment_bind(30, values, all, 0));
	OK(gaspi_segment_register(30, job.me, MINUTE));
	if (job.me && others) {
		gaspi_rank_t rank;

		OK(gaspi_group_create(&groups[1]));
		for (rank = 1; rank < job.ranks; rank++)
			OK(gaspi_group_add(groups[1], rank));
		OK(gaspi_group_commit(groups[1], MINUTE));
	}
	for (one = 0; one < 2; one++) {
		gaspi_rank_t first = one, members = job.ranks - first, rank;
		long sum = (long)(job.ranks - 1 + first) * members / 2;

		if (job.me < first)
			continue;
		for (i = 0; i < count; i++)
			values[i] = job.me + (long)i;
		OK(gaspi_write(30, 0, job.me, 31, 0, bytes, 0, MINUTE));
		OK(gaspi_notify(31, job.me, 1, 1, 0, MINUTE));
		OK(gaspi_wait(0, MINUTE));
		CHECK(notified(31, 1) == 1);
		OK(gaspi_gpu_allgather(pointer, out, count, GASPI_TYPE_LONG, groups[one], MINUTE));
		OK(gaspi_read(30, 0, job.me, 31, bytes, bytes * members, 0, MINUTE));
		OK(gaspi_wait(0, MINUTE));
		for (rank = 0; rank < members; rank++)
			for (i = 0; i < count; i++)
				CHECK(values[rank * count + i] == first + rank + (long)i);
		OK(gaspi_gpu_reduce(pointer, job.me == root ? out : NULL, count, GASPI_OP_SUM, GASPI_TYPE_LONG, root, groups[one],
				MINUTE));
		OK(gaspi_gpu_broadcast(out, count, GASPI_TYPE_LONG, root, groups[one], MINUTE));
		OK(gaspi_read(30, 0, job.me, 31, bytes, bytes, 0, MINUTE));
		OK(gaspi_wait(0, MINUTE));
		for (i = 0; i < count; i++)
			CHECK(values[i] == sum + (long)i * members);
		GIVES(GASPI_ERR_INV_RANK, gaspi_gpu_broadcast(out, 1, GASPI_TYPE_LONG, job.ranks, groups[one], MINUTE));
		GIVES(GASPI_ERR_NULLPTR, gaspi_gpu_allgather(pointer, NULL, 1, GASPI_TYPE_LONG, groups[one], MINUTE));
		GIVES(GASPI_ERROR, gaspi_gpu_broadcast(out, 1, (gaspi_datatype_t)10, root, groups[one], MINUTE));
	}
	GIVES(GASPI_ERR_INV_GROUP, gaspi_gpu_reduce(pointer, out, 1, GASPI_OP_SUM, GASPI_TYPE_LONG, root, 99, MINUTE));
	OK(gaspi_segment_delete(30));
	OK(gaspi_segment_delete(31));
	free(values);
}

int main(void)
{
	unsigned char *memory, *other;
	gaspi_pointer_t context, again;
	struct job job;

	GIVES(GASPI_ERR_NOINIT, gaspi_init_GPUs());
	job = begin();
	memory = (unsigned char *)malloc(BYTES);
	other = (unsigned char *)malloc(BYTES);
	CHECK(memory && other);
	before();
	start();
	writes(job, memory, other);
	reduces(job);
	reduces_long(job);
	from_and_to_a_root(job);
	GIVES(GASPI_ERR_INV_NUM, gaspi_gpu_context(33, &context, MINUTE));
	OK(gaspi_gpu_context(4, &context, MINUTE));
	CHECK(context);
	OK(gaspi_gpu_context_check());
	OK(gaspi_gpu_context(4, &again, MINUTE));
	CHECK(again);
	end();
	free(memory);
	free(other);
	return 0;
}
