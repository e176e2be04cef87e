/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Notification puts, matching, and freeing in any order (spec 3.1, 10.2). */
#include "common.h"

#define MANY 10000

static RMA2_Port a, b;
static RMA2_Handle to_b, to_a, to_self;

static void send(RMA2_Port port, RMA2_Handle handle, unsigned int mclass, uint64_t value)
{
	OK(rma2_post_notification(port, handle, (RMA2_Class)mclass, value, RMA2_COMPLETER_NOTIFICATION,
				  RMA2_CMD_DEFAULT));
}

/* Twice, as the original runs: class 42 + i, value, 2 on oneself, else 1. */
static void counts(void)
{
	uint64_t i;

	for (i = 0; i < 20; i++) {
		RMA2_Notification n;

		OK(rma2_post_notification(a, to_self, (RMA2_Class)(42 + i), i << 40 | 7, RMA2_ALL_NOTIFICATIONS,
					  RMA2_CMD_DEFAULT));
		n = next_of(a, RMA2_REQUESTER_NOTIFICATION);
		CHECK(rma2_noti_get_cmd(&n) == RMA2_NOTIFICATION_PUT);
		n = next_of(a, RMA2_COMPLETER_NOTIFICATION);
		CHECK(rma2_noti_get_notiput_class(&n) == 42 + i && rma2_noti_get_notiput_payload(&n) == (i << 40 | 7));
		CHECK(rma2_noti_get_remote_nodeid(&n) == rma2_get_nodeid(a));
		CHECK(rma2_noti_get_remote_vpid(&n) == rma2_get_vpid(a));
		send(a, to_b, (unsigned int)(42 + i), ~i);
		n = next_of(b, RMA2_COMPLETER_NOTIFICATION);
		CHECK(rma2_noti_get_notiput_class(&n) == 42 + i && rma2_noti_get_notiput_payload(&n) == ~i);
	}
	no_more(a);
	no_more(b);
}

static void ping_pong(void)
{
	uint64_t i;

	for (i = 0; i < MANY; i++) {
		send(a, to_b, 1, i);
		CHECK(next(b).word0.value == i);
		send(b, to_a, 2, ~i);
		CHECK(next(a).word0.value == ~i);
	}
}

/* Probing gives the same one until it is freed; only what is there can be freed, and once. */
static void probe(void)
{
	RMA2_Notification *first = NULL, *again = NULL, copy, *none = NULL;

	GIVES(RMA2_NO_NOTI, rma2_noti_probe(b, &none));
	CHECK(none == NULL);
	send(a, to_b, 1, 11);
	send(a, to_b, 1, 12);
	OK(rma2_noti_get_block(b, &first));
	OK(rma2_noti_probe(b, &again));
	CHECK(first == again && first->word0.value == 11);
	OK(rma2_noti_dup(first, &copy));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_free(b, &copy));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_free(a, first));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_free(b, NULL));
	OK(rma2_noti_free(b, first));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_free(b, first));
	CHECK(next(b).word0.value == 12);
}

/* Matches look behind the head, and what they find is freed where it stands. */
static void match(void)
{
	RMA2_Notification *found = NULL;
	RMA2_Nodeid node = rma2_get_nodeid(a);
	unsigned int i;

	GIVES(RMA2_NO_NOTI, rma2_noti_noti_match(b, 3, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found));
	for (i = 0; i < 5; i++)
		send(a, to_b, i, 100 + i);
	OK(rma2_noti_noti_match_block(b, 3, node, rma2_get_vpid(a), &found));
	CHECK(found->word0.value == 103);
	OK(rma2_noti_free(b, found));
	GIVES(RMA2_ERR_NO_MATCH, rma2_noti_noti_match(b, 3, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found));
	GIVES(RMA2_ERR_NO_MATCH, rma2_noti_noti_match(b, RMA2_CLASS_ANY, node, 77, &found));
	GIVES(RMA2_ERR_NO_MATCH, rma2_noti_noti_match(b, RMA2_CLASS_ANY, 77, RMA2_VPID_ANY, &found));
	OK(rma2_noti_match(b, RMA2_ANY, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA,
			   RMA2_DEFAULT_FLAG, &found));
	CHECK(found->word0.value == 100);
	GIVES(RMA2_ERR_NO_MATCH, rma2_noti_match(b, RMA2_PUTS, RMA2_NODEID_ANY, RMA2_VPID_ANY,
						 RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA, 0, &found));
	GIVES(RMA2_ERR_NO_MATCH, rma2_noti_match(b, RMA2_ANY, RMA2_NODEID_ANY, RMA2_VPID_ANY,
						 RMA2_REQUESTER_NOTIFICATION, RMA2_ANY_NLA, 0, &found));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_match(b, (RMA2_Command)4, 0, 0, RMA2_COMPLETER_NOTIFICATION, 0, 0, &found));
	for (i = 4; i < 5; i--) {
		if (i == 3)
			continue;
		OK(rma2_noti_noti_match(b, (RMA2_Class)i, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found));
		OK(rma2_noti_free(b, found));
	}
	no_more(b);
}

/* Many more than the queue holds go through it while one stays unfreed for a while. */
static void out_of_order(void)
{
	RMA2_Notification *held = NULL, *found = NULL;
	uint32_t lap, i;

	for (lap = 0; lap < 3; lap++) {
		send(a, to_b, 7, lap);
		OK(rma2_noti_noti_match_block(b, 7, RMA2_NODEID_ANY, RMA2_VPID_ANY, &held));
		for (i = 0; i < 10000; i++) {
			send(a, to_b, 8, i);
			OK(rma2_noti_noti_match_block(b, 8, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found));
			CHECK(found->word0.value == i);
			OK(rma2_noti_free(b, found));
			i += lap == 0 ? 9 : 99;
		}
		CHECK(held->word0.value == lap);
		OK(rma2_noti_free(b, held));
	}
	no_more(b);
}

/* The address that a notification names (spec 3.1). */
static void match_address(void)
{
	uint8_t *memory = (uint8_t *)allocate(PAGE);
	RMA2_Region *here = NULL, *there = NULL;
	RMA2_Notification *found = NULL;
	RMA2_NLA nla;

	OK(rma2_register(a, memory, PAGE, &here));
	OK(rma2_register(b, memory, PAGE, &there));
	nla = nla_of(there, 2000);
	OK(rma2_post_put_bt(a, to_b, here, 0, 100, nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_match_block(b, RMA2_PUTS, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION, nla, 0,
				 &found));
	OK(rma2_noti_match(b, RMA2_BT_PUT, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION, nla + 99,
			   RMA2_MATCH_LAST_NLA_FLAG, &found));
	GIVES(RMA2_ERR_NO_MATCH, rma2_noti_match(b, RMA2_BT_PUT, RMA2_NODEID_ANY, RMA2_VPID_ANY,
						 RMA2_COMPLETER_NOTIFICATION, nla + 1, 0, &found));
	OK(rma2_noti_free(b, found));
	OK(rma2_unregister(a, here));
	OK(rma2_unregister(b, there));
	free(memory);
}

static void text(void)
{
	char line[300] = "so: ", little[8] = "";
	RMA2_Notification *found = NULL;

	send(a, to_b, 42, 43);
	OK(rma2_noti_get_block(b, &found));
	rma2_noti_sdump(found, line, (int)sizeof line);
	CHECK(strncmp(line, "so: ", 4) == 0 && strstr(line, "42"));
	rma2_noti_sdump(found, little, (int)sizeof little);
	CHECK(strlen(little) == 7);
	rma2_noti_fdump(found, stdout);
	rma2_noti_dump(found);
	OK(rma2_noti_free(b, found));
}

/* An empty queue of another size takes over; the smallest has a page. */
static void queue_size(void)
{
	uint64_t i;

	send(a, to_b, 1, 1);
	GIVES(RMA2_ERR_IOCTL, rma2_set_queue_size(b, 100));
	CHECK(next(b).word0.value == 1);
	if (on_card()) {
		/* The driver's queues keep the size with which the port was opened. */
		GIVES(RMA2_ERR_IOCTL, rma2_set_queue_size(b, 3 * PAGE));
		no_more(b);
		return;
	}
	OK(rma2_set_queue_segment_size(b, PAGE));
	OK(rma2_set_queue_size(b, 3 * PAGE));
	CHECK(rma2_get_queue_size(b) == 3 * PAGE && rma2_get_queue_segment_size(b) == PAGE);
	for (i = 0; i < 2000; i++) {
		send(a, to_b, 1, i);
		send(a, to_b, 2, i);
		CHECK(next(b).word0.value == i);
		CHECK(next(b).word0.value == i);
	}
	no_more(b);
}

int main(void)
{
	a = open_port();
	b = open_port();
	to_b = connect_to(a, b);
	to_a = connect_to(b, a);
	to_self = connect_to(a, a);
	counts();
	counts();
	ping_pong();
	probe();
	match();
	out_of_order();
	match_address();
	text();
	queue_size();
	OK(rma2_close(a));
	OK(rma2_close(b));
	return 0;
}
