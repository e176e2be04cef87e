/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Immediate puts, prepared descriptors, streams of commands (spec 10.2). */
#include "common.h"

#define ROOM (1u << 20)

static RMA2_Port a, b;
static RMA2_Handle handle;
static uint8_t *here, *there;
static RMA2_Region *local, *remote;

/* count bytes of the value change, and no other (spec 2.2). */
static void immediate(void)
{
	const uint64_t value = UINT64_C(0x1122334455667788);
	uint32_t count, offset, i;

	for (count = 1; count <= 8; count++) {
		for (offset = 0; offset < 16; offset += 3) {
			RMA2_Notification n;

			memset(there, 0xee, 64);
			OK(rma2_post_immediate_put(a, handle, count, value, nla_of(remote, 16 + offset),
						   RMA2_REQCOMPL_NOTIFICATION, RMA2_CMD_DEFAULT));
			n = next_of(a, RMA2_REQUESTER_NOTIFICATION);
			CHECK(n.word0.value == value);
			n = next_of(b, RMA2_COMPLETER_NOTIFICATION);
			CHECK(rma2_noti_get_cmd(&n) == RMA2_IMMEDIATE_PUT && rma2_noti_get_size(&n) == count);
			CHECK(memcmp(there + 16 + offset, &value, count) == 0);
			for (i = 0; i < 64; i++)
				CHECK((i >= 16 + offset && i < 16 + offset + count) || there[i] == 0xee);
		}
	}
}

static void pool(void)
{
	RMA2_Descriptor *all[100], own;
	int i, number = 0;

	OK(rma2_desc_query_free(a, &number));
	CHECK(number == 32);
	for (i = 0; i < 100; i++)
		OK(rma2_desc_alloc(a, &all[i]));
	OK(rma2_desc_query_free(a, &number));
	CHECK(number == 28);
	for (i = 0; i < 100; i++)
		OK(rma2_desc_free(a, all[i]));
	GIVES(RMA2_ERR_INV_VALUE, rma2_desc_free(a, all[5]));
	GIVES(RMA2_ERR_INV_VALUE, rma2_post_descriptor(a, handle, all[5]));
	GIVES(RMA2_ERR_INV_VALUE, rma2_desc_set_noti_put(all[5], handle, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT, 1, 1));

	/* A program's own serves as well. */
	memset(&own, 0, sizeof own);
	GIVES(RMA2_ERR_INV_VALUE, rma2_desc_free(a, &own));
	GIVES(RMA2_ERR_WRONG_CMD, rma2_desc_set_notification_value(&own, 1, 1));
	OK(rma2_desc_set_noti_put(&own, handle, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, 1, 2));
	CHECK(own.handle == handle);
	OK(rma2_post_descriptor(a, handle, &own));
	CHECK(next(b).word0.value == 2);
	OK(rma2_desc_set_notification_value(&own, 3, 4));
	OK(rma2_post_descriptor(a, handle, &own));
	RMA2_Notification n = next(b);
	CHECK(rma2_noti_get_notiput_class(&n) == 3 && n.word0.value == 4);
}

/* Every kind of command through a descriptor, posted several times. */
static void prepared(void)
{
	RMA2_Descriptor *d = NULL;
	RMA2_Notification n;
	int i;

	OK(rma2_desc_alloc(a, &d));
	OK(rma2_desc_set_put_get(d, handle, RMA2_BT_PUT, 77, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT,
				 nla_of(local, 5), nla_of(remote, 6)));
	/* Word 0 as the card takes it (spec 2.2). */
	CHECK(d->value[0] == (3u | 2u << 2 | (uint64_t)rma2_get_vpid(b) << 8 | (uint64_t)rma2_get_nodeid(b) << 16 |
			      UINT64_C(4) << 32 | UINT64_C(76) << 40));
	for (i = 0; i < 3; i++) {
		fill(here, 100, (uint32_t)i);
		OK(rma2_post_descriptor(a, handle, d));
		next_of(b, RMA2_COMPLETER_NOTIFICATION);
		CHECK(memcmp(here + 5, there + 6, 77) == 0);
	}
	OK(rma2_desc_set_put_get(d, handle, RMA2_QW_GET, 64, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT,
				 nla_of(remote, 8), nla_of(local, 512)));
	OK(rma2_post_descriptor(a, handle, d));
	next_of(a, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(here + 512, there + 8, 64) == 0);
	OK(rma2_desc_set_immediate_put(d, handle, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, 3, nla_of(remote, 0),
				       0xaabbccdd));
	OK(rma2_post_descriptor(a, handle, d));
	next_of(b, RMA2_COMPLETER_NOTIFICATION);
	CHECK(there[0] == 0xdd && there[1] == 0xcc && there[2] == 0xbb);
	/* Bit 40: which unit of the target (spec 2.2). */
	OK(rma2_desc_set_lock(d, handle, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, 1, 1, 0, 5));
	CHECK((d->value[0] >> 40 & 1) == 1);
	OK(rma2_desc_set_lock(d, handle, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, 0, 1, 0, 5));
	CHECK((d->value[0] >> 40 & 1) == 0);
	OK(rma2_post_descriptor(a, handle, d));
	n = next_of(a, RMA2_COMPLETER_NOTIFICATION);
	CHECK(rma2_noti_get_lock_result(&n) == 1 && rma2_noti_get_lock_value(&n) == 5);
	GIVES(RMA2_ERR_WRONG_ARG, rma2_desc_set_put_get(d, handle, RMA2_QW_PUT, 7, RMA2_NO_NOTIFICATION,
							RMA2_CMD_DEFAULT, 0, 0));
	GIVES(RMA2_ERR_WRONG_CMD, rma2_desc_set_put_get(d, handle, (RMA2_Command)16, 8, RMA2_NO_NOTIFICATION,
							RMA2_CMD_DEFAULT, 0, 0));
	OK(rma2_desc_free(a, d));
}

/* More commands in flight than the card's buffer holds, in both directions; all arrive, in order. */
static void stream(void)
{
	uint32_t i;

	for (i = 0; i < 20000; i++) {
		memcpy(here + i % 512 * 8, &i, sizeof i);
		OK(rma2_post_immediate_put(a, handle, 4, i, nla_of(remote, 4 * (i % 1000)), RMA2_NO_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
	}
	OK(rma2_post_notification(a, handle, 1, i, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	CHECK(next(b).word0.value == i);
	for (i = 19000; i < 20000; i++) {
		uint32_t value;

		memcpy(&value, there + 4 * (i % 1000), 4);
		CHECK(value == i);
	}
	for (i = 0; i < 200; i++)
		OK(rma2_post_put_bt(a, handle, local, 0, 65536, nla_of(remote, i % 10 * 65536), RMA2_NO_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
	for (i = 0; i < 200; i++)
		OK(rma2_post_get_bt(a, handle, local, i % 10 * 65536, 65536, nla_of(remote, 0),
				    i == 199 ? RMA2_COMPLETER_NOTIFICATION : RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_of(a, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(here, there, 10 * 65536) == 0);
	rma2_replay_buffer_drain(a);
}

static void replay_mode(void)
{
	CHECK(rma2_get_replay_buffer_mode(a) == RMA2_REPLAY_ALL);
	rma2_set_replay_mode(a, RMA2_REPLAY_MANUAL);
	CHECK(rma2_get_replay_buffer_mode(a) == RMA2_REPLAY_MANUAL);
	stream();
	rma2_set_replay_mode(a, RMA2_REPLAY_ALL);
}

/* A put of 128 bytes to oneself. */
static void send_recv(void)
{
	RMA2_Handle self = connect_to(a, a);

	fill(here, 128, 3);
	OK(rma2_post_put_bt(a, self, local, 0, 128, nla_of(local, 4096), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_of(a, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(here, here + 4096, 128) == 0);
	OK(rma2_disconnect(a, self));
}

int main(void)
{
	a = open_port();
	b = open_port();
	handle = connect_to(a, b);
	here = (uint8_t *)allocate(ROOM);
	there = (uint8_t *)allocate(ROOM);
	OK(rma2_register(a, here, ROOM, &local));
	OK(rma2_register(b, there, ROOM, &remote));
	immediate();
	pool();
	prepared();
	stream();
	replay_mode();
	send_recv();
	OK(rma2_close(a));
	OK(rma2_close(b));
	free(here);
	free(there);
	return 0;
}
