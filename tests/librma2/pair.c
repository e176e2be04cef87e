/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The expectations of spec 12 between two processes: on one node, or on two. Process 0 acts, process 1 is the target;
 * both check what they see.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "job.h"
#include "pmap.h"

#define ROOM (MAX_TRANSFER + 2 * PAGE)
#define SCRATCHPAD 0x8058

static struct job job;
static RMA2_Handle peer;
static uint8_t *memory;
static RMA2_Region *region;
static int origin;
static RMA2_NLA theirs;

static RMA2_NLA at(size_t offset)
{
	return nla_of(region, offset);
}

static void puts_and_gets(uint32_t size, uint32_t offset)
{
	RMA2_Notification n;

	/* Put. */
	if (origin) {
		fill(memory + offset, size, size);
		OK(rma2_post_put_bt(job.port, peer, region, offset, size, theirs + 5, RMA2_ALL_NOTIFICATIONS,
				    RMA2_CMD_DEFAULT));
		next_of(job.port, RMA2_REQUESTER_NOTIFICATION);
	} else {
		uint8_t *expected = (uint8_t *)malloc(size);

		n = next_of(job.port, RMA2_COMPLETER_NOTIFICATION);
		CHECK(rma2_noti_get_total_size(at(5), &n) == size);
		fill(expected, size, size);
		CHECK(memcmp(memory + 5, expected, size) == 0);
		free(expected);
		fill(memory + offset, size, size + 1);
	}
	synchronise(&job);

	/* Get. */
	if (origin) {
		uint8_t *expected = (uint8_t *)malloc(size);

		OK(rma2_post_get_bt_direct(job.port, peer, at(offset + 3), size, theirs + offset,
					   RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT));
		next_of(job.port, RMA2_REQUESTER_NOTIFICATION);
		n = next_of(job.port, RMA2_COMPLETER_NOTIFICATION);
		CHECK(rma2_noti_get_total_size(at(offset + 3), &n) == size);
		fill(expected, size, size + 1);
		CHECK(memcmp(memory + offset + 3, expected, size) == 0);
		free(expected);
	} else {
		next_of(job.port, RMA2_RESPONDER_NOTIFICATION);
	}
	synchronise(&job);
}

static void small_commands(void)
{
	RMA2_Notification n;
	uint32_t count, i;

	for (count = 1; count <= 8; count++) {
		uint64_t value = UINT64_C(0x0102030405060708) * count;

		if (origin) {
			OK(rma2_post_immediate_put(job.port, peer, count, value, theirs + 8, RMA2_REQCOMPL_NOTIFICATION,
						   RMA2_CMD_DEFAULT));
			n = next_of(job.port, RMA2_REQUESTER_NOTIFICATION);
			CHECK(n.word0.value == value);
		} else {
			next_of(job.port, RMA2_COMPLETER_NOTIFICATION);
			CHECK(memcmp(memory + 8, &value, count) == 0);
		}
		synchronise(&job);
	}
	/* Locks of the target: the origin has the requester's and the completer's, the target the responder's. */
	for (i = 1; i <= 10; i++) {
		if (origin)
			OK(rma2_post_lock(job.port, peer, 0, 2, 28, 7, RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT));
		if (origin)
			next_of(job.port, RMA2_REQUESTER_NOTIFICATION);
		n = next_of(job.port, origin ? RMA2_COMPLETER_NOTIFICATION : RMA2_RESPONDER_NOTIFICATION);
		CHECK(rma2_noti_get_lock_result(&n) == (i <= 5));
		CHECK(rma2_noti_get_lock_value(&n) == (i <= 5 ? 7 * i : 35));
		synchronise(&job);
	}
}

static void ping_pong(void)
{
	int other = 1 - job.me, i;

	for (i = 0; i < 2000; i++) {
		if (origin)
			tell(&job, other, 1, (uint64_t)i);
		CHECK(heard(&job, other, 1) == (uint64_t)i);
		if (!origin)
			tell(&job, other, 1, (uint64_t)i);
	}
	synchronise(&job);
}

static void per_fragment(void)
{
	uint32_t size = 10 * PAYLOAD + 1, i;

	if (origin)
		OK(rma2_post_put_bt(job.port, peer, region, 0, size, theirs, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_NTR));
	else
		for (i = 0; i < 11; i++)
			next_of(job.port, RMA2_COMPLETER_NOTIFICATION);
	synchronise(&job);
}

static void refused(void)
{
	RMA2_Notification n;

	if (origin) {
		RMA2_Handle nobody = NULL;

		OK(rma2_connect(job.port, node_of(&job, 1 - job.me), 200, RMA2_CONN_DEFAULT, &nobody));
		OK(rma2_post_get_bt(job.port, nobody, region, 0, 64, theirs, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
		n = next(job.port);
		CHECK(rma2_noti_get_error(&n));
		OK(rma2_post_get_bt(job.port, peer, region, 0, 64, theirs + 0x10000000, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
		n = next(job.port);
		CHECK(rma2_noti_get_error(&n));
		OK(rma2_post_put_bt(job.port, peer, region, 0, 64, theirs + 0x10000000, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
	} else {
		n = next(job.port);
		CHECK(rma2_noti_get_error(&n));
	}
	synchronise(&job);
}

static void registers(void)
{
	RMA2_Handle handle = NULL;

	if (origin) {
		OK(rma2_connect(job.port, node_of(&job, 1 - job.me), 127,
				(RMA2_Connection_Options)(RMA2_CONN_TE | RMA2_CONN_RRA), &handle));
		OK(rma2_post_immediate_put(job.port, handle, 8, 0xabcdef, SCRATCHPAD, RMA2_REQUESTER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
		next_of(job.port, RMA2_REQUESTER_NOTIFICATION);
		OK(rma2_post_get_bt(job.port, handle, region, 64, 8, SCRATCHPAD, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
		next_of(job.port, RMA2_COMPLETER_NOTIFICATION);
		CHECK(*(volatile uint64_t *)(void *)(memory + 64) == 0xabcdef);
		OK(rma2_disconnect(job.port, handle));
	}
	synchronise(&job);
}

/* The target's physical buffer, written by the origin. */
static void physical(void)
{
	const uint32_t size = 1 << 20;
	uint8_t *buffer = NULL;
	uint64_t address = 0;
	int file = -1;

	if (!origin) {
		file = open(PMAP_DEVICE, O_RDWR);
		CHECK(file >= 0 && ioctl(file, PMAP_IOCTL_SET_TYPE, PMAP_TYPE_ALLOC) == 0);
		CHECK(ioctl(file, PMAP_IOCTL_SET_SIZE, (size_t)size) == 0);
		buffer = (uint8_t *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		CHECK(buffer != MAP_FAILED && ioctl(file, PMAP_IOCTL_GET_PADDR, &address) == 0);
	}
	exchange(&job, address);
	if (origin) {
		RMA2_Handle handle = NULL;

		OK(rma2_connect(job.port, node_of(&job, 1), vpid_of(&job, 1), RMA2_CONN_PHYSICAL, &handle));
		fill(memory, size, 77);
		OK(rma2_post_put_bt(job.port, handle, region, 0, size, job.told[1], RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
		OK(rma2_disconnect(job.port, handle));
	} else {
		next_of(job.port, RMA2_COMPLETER_NOTIFICATION);
		fill(memory, size, 77);
		CHECK(memcmp(buffer, memory, size) == 0);
		CHECK(munmap(buffer, size) == 0 && close(file) == 0);
	}
	synchronise(&job);
}

int main(void)
{
	uint32_t size;

	job = join_job();
	CHECK(job.size == 2);
	CHECK(rma2_get_node_num(job.port) == job.size / job.per_node);
	origin = job.me == 0;
	peer = job.to[1 - job.me];
	memory = (uint8_t *)allocate(2 * ROOM);
	OK(rma2_register(job.port, memory, 2 * ROOM, &region));
	exchange(&job, at(0));
	theirs = job.told[1 - job.me];
	for (size = 1; size <= MAX_TRANSFER; size = size * 7 + 3)
		puts_and_gets(size, ROOM - size % 100);
	puts_and_gets(MAX_TRANSFER, ROOM);
	small_commands();
	ping_pong();
	per_fragment();
	refused();
	registers();
	physical();
	no_more(job.port);
	OK(rma2_unregister(job.port, region));
	OK(rma2_close(job.port));
	free(memory);
	return 0;
}
