/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Transfers, notifications and locks (spec 3.1, 5) between two processes: on one node, or on two. Process 0 acts, process
 * 1 is the target; both check what they see, and at the end that nothing else has come.
 */
#include "job.h"

#define ROOM (MAX_TRANSFER + 2 * PAGE)
#define OTHER (1 - job.me)

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

static void same_as(const uint8_t *bytes, uint32_t size, uint32_t seed)
{
	uint8_t *expected = (uint8_t *)malloc(size);

	fill(expected, size, seed);
	CHECK(memcmp(bytes, expected, size) == 0);
	free(expected);
}

/* 2 notifications, one here and one there; total size and interrupt flag as they should be. */
static void put(uint32_t size, uint32_t from, uint32_t to, int quadwords, unsigned int options)
{
	RMA2_Command command = quadwords ? RMA2_QW_PUT : RMA2_BT_PUT;
	RMA2_Notification n;

	if (origin) {
		fill(memory + from, size, size);
		if (quadwords)
			OK(rma2_post_put_qw(job.port, peer, region, from, size, theirs + to, RMA2_ALL_NOTIFICATIONS,
					    RMA2_CMD_DEFAULT));
		else
			OK(rma2_post_put_bt(job.port, peer, region, from, size, theirs + to, RMA2_ALL_NOTIFICATIONS,
					    RMA2_CMD_DEFAULT));
		n = arrival(&job, OTHER, command, RMA2_REQUESTER_NOTIFICATION, 0);
	} else {
		n = arrival(&job, OTHER, command, RMA2_COMPLETER_NOTIFICATION, 0);
		CHECK(rma2_noti_get_total_size(at(to), &n) == size);
		same_as(memory + to, size, size);
		CHECK(memory[to + size] == 0xee && (to == 0 || memory[to - 1] == 0xee));
		memset(memory + to, 0xee, size);
	}
	CHECK(!(rma2_noti_get_mode(&n) & RMA2_NOTI_IRQ) == !(options & RMA2_CONN_IRQ));
	synchronise(&job);
}

/* 3 notifications, two here and one there. */
static void get(uint32_t size, uint32_t from, uint32_t to, int quadwords)
{
	RMA2_Command response = quadwords ? RMA2_GET_QW_RSP : RMA2_GET_BT_RSP;
	RMA2_Notification n;

	if (!origin)
		fill(memory + from, size, size + 1);
	synchronise(&job);
	if (origin) {
		memset(memory, 0xdd, ROOM);
		if (quadwords)
			OK(rma2_post_get_qw_direct(job.port, peer, at(to), size, theirs + from, RMA2_ALL_NOTIFICATIONS,
						   RMA2_CMD_DEFAULT));
		else
			OK(rma2_post_get_bt(job.port, peer, region, to, size, theirs + from, RMA2_ALL_NOTIFICATIONS,
					    RMA2_CMD_DEFAULT));
		arrival(&job, OTHER, RMA2_GETS, RMA2_REQUESTER_NOTIFICATION, 0);
		n = arrival(&job, OTHER, response, RMA2_COMPLETER_NOTIFICATION, 0);
		CHECK(rma2_noti_get_total_size(at(to), &n) == size);
		same_as(memory + to, size, size + 1);
		CHECK(memory[to + size] == 0xdd && (to == 0 || memory[to - 1] == 0xdd));
	} else {
		arrival(&job, OTHER, RMA2_GETS, RMA2_RESPONDER_NOTIFICATION, 0);
		memset(memory, 0xee, ROOM);
	}
	synchronise(&job);
}

static void transfers(unsigned int options, uint32_t factor)
{
	uint32_t size;

	OK(rma2_connect(job.port, node_of(&job, OTHER), vpid_of(&job, OTHER), (RMA2_Connection_Options)options, &peer));
	for (size = 1; size <= MAX_TRANSFER; size = size * factor + 3) {
		put(size, size % 100, 5, 0, options);
		get(size, 7, size % 100, 0);
		put((size + 7) & ~7u, 64, 8, 1, options);
		get((size + 7) & ~7u, 16, 800, 1);
	}
	put(MAX_TRANSFER, 0, 1, 0, options);
	get(MAX_TRANSFER, 3, 0, 0);
	OK(rma2_disconnect(job.port, peer));
	peer = job.to[OTHER];
}

/* Without notifications the target sees the last byte last (spec 2.3). */
static void silent(void)
{
	uint32_t size;

	for (size = 1; size < 20000; size = size * 3 + 1) {
		if (origin) {
			fill(memory, size, 7);
			memory[size - 1] = 0x5a;
			OK(rma2_post_put_bt(job.port, peer, region, 0, size, theirs, RMA2_NO_NOTIFICATION,
					    RMA2_CMD_DEFAULT));
		} else {
			volatile uint8_t *last = memory + size - 1;
			double start = seconds();

			/* The card is driven by whoever polls, and by the library's own thread where nobody does. */
			while (*last != 0x5a)
				CHECK(seconds() - start < PATIENCE);
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			memory[size - 1] = 0xee;
			same_as(memory, size - 1, 7);
			memset(memory, 0xee, size);
		}
		synchronise(&job);
	}
}

static void immediate_puts(void)
{
	RMA2_Notification n;
	uint32_t count;

	for (count = 1; count <= 8; count++) {
		uint64_t value = UINT64_C(0x0102030405060708) * count;

		if (!origin)
			memset(memory, 0xee, 32);
		synchronise(&job);
		if (origin) {
			OK(rma2_post_immediate_put(job.port, peer, count, value, theirs + 8, RMA2_REQCOMPL_NOTIFICATION,
						   RMA2_CMD_DEFAULT));
			n = arrival(&job, OTHER, RMA2_IMMEDIATE_PUT, RMA2_REQUESTER_NOTIFICATION, 0);
			CHECK(n.word0.value == value);
		} else {
			arrival(&job, OTHER, RMA2_IMMEDIATE_PUT, RMA2_COMPLETER_NOTIFICATION, 0);
			CHECK(memcmp(memory + 8, &value, count) == 0);
			CHECK(memory[7] == 0xee && memory[8 + count] == 0xee);
		}
		synchronise(&job);
	}
}

/* Locks of the target: the origin has the requester's and the completer's answer, the target the responder's. */
static void locks(void)
{
	RMA2_Notification n;
	uint32_t i;

	for (i = 1; i <= 10; i++) {
		if (origin) {
			OK(rma2_post_lock(job.port, peer, 0, 2, 28, 7, RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT));
			n = arrival(&job, OTHER, RMA2_LOCK_REQ, RMA2_REQUESTER_NOTIFICATION, 0);
			CHECK(rma2_noti_get_lock_result(&n) == 0 && rma2_noti_get_lock_value(&n) == 28);
			n = arrival(&job, OTHER, RMA2_LOCK_RSP, RMA2_COMPLETER_NOTIFICATION, 0);
		} else {
			n = arrival(&job, OTHER, RMA2_LOCK_REQ, RMA2_RESPONDER_NOTIFICATION, 0);
		}
		CHECK(rma2_noti_get_lock_number(&n) == 2);
		CHECK(rma2_noti_get_lock_result(&n) == (i <= 5));
		CHECK(rma2_noti_get_lock_value(&n) == (i <= 5 ? 7 * i : 35));
		synchronise(&job);
	}
}

/* Notification puts: one here if asked for, one there; 10,000 of them in turn (rma2test), fewer in a guest. */
static void notifications(void)
{
	uint64_t i, turns = on_card() ? 1000 : 10000;

	for (i = 0; i < 20; i++) {
		if (origin) {
			OK(rma2_post_notification(job.port, peer, (RMA2_Class)(42 + i), ~i, RMA2_ALL_NOTIFICATIONS,
						  RMA2_CMD_DEFAULT));
			arrival(&job, OTHER, RMA2_NOTIFICATION_PUT, RMA2_REQUESTER_NOTIFICATION, 0);
		} else {
			CHECK(heard(&job, OTHER, (unsigned int)(42 + i)) == ~i);
		}
	}
	for (i = 0; i < turns; i++) {
		if (origin)
			tell(&job, OTHER, 1, i);
		CHECK(heard(&job, OTHER, 1) == i);
		if (!origin)
			tell(&job, OTHER, 1, i);
	}
	synchronise(&job);
}

/* A notification for each fragment (NTR). */
static void per_fragment(void)
{
	uint32_t size = 10 * PAYLOAD + 1, i;

	for (i = 0; i < 11; i++) {
		if (origin && i == 0)
			OK(rma2_post_put_bt(job.port, peer, region, 0, size, theirs, RMA2_COMPLETER_NOTIFICATION,
					    RMA2_CMD_NTR));
		if (!origin)
			arrival(&job, OTHER, RMA2_BT_PUT, RMA2_COMPLETER_NOTIFICATION, 0);
	}
	synchronise(&job);
	for (i = 0; i < 11; i++) {
		if (origin && i == 0)
			OK(rma2_post_get_bt(job.port, peer, region, 0, size, theirs, RMA2_RESPCOMPL_NOTIFICATION,
					    RMA2_CMD_NTR));
		if (origin)
			arrival(&job, OTHER, RMA2_GETS, RMA2_COMPLETER_NOTIFICATION, 0);
		else
			arrival(&job, OTHER, RMA2_GETS, RMA2_RESPONDER_NOTIFICATION, 0);
	}
	synchronise(&job);
}

int main(void)
{
	job = join_job();
	CHECK(job.size == 2 && (on_card() || rma2_get_node_num(job.port) == job.size / job.per_node));
	origin = job.me == 0;
	peer = job.to[OTHER];
	memory = (uint8_t *)allocate(ROOM);
	memset(memory, 0xee, ROOM);
	OK(rma2_register(job.port, memory, ROOM, &region));
	exchange(&job, at(0));
	theirs = job.told[OTHER];
	transfers(RMA2_CONN_DEFAULT, 7);
	transfers(RMA2_CONN_TE | RMA2_CONN_IRQ | RMA2_CONN_TC2, 90);
	silent();
	immediate_puts();
	locks();
	notifications();
	per_fragment();
	no_more(job.port);
	OK(rma2_unregister(job.port, region));
	OK(rma2_close(job.port));
	free(memory);
	return 0;
}
