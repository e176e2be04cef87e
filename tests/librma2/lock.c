/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Locks, as the specification traces them (spec 5). */
#include "common.h"

/* Posts, and returns the answer. */
static RMA2_Notification operate(RMA2_Port port, RMA2_Handle handle, int32_t compare, int32_t add)
{
	RMA2_Notification first, second, third;

	OK(rma2_post_lock(port, handle, 0, 3, compare, add, RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT));
	first = next_of(port, RMA2_REQUESTER_NOTIFICATION);
	CHECK(rma2_noti_get_lock_result(&first) == 0);
	CHECK(rma2_noti_get_lock_value(&first) == (uint32_t)compare);
	second = next(port);
	third = next(port);
	CHECK(second.word0.value == third.word0.value);
	CHECK(rma2_noti_get_notification_type(&second) != rma2_noti_get_notification_type(&third));
	CHECK(rma2_noti_get_lock_number(&second) == 3);
	CHECK(!rma2_noti_get_error(&second) && !rma2_noti_get_error(&third));
	no_more(port);
	return second;
}

static void trace(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = connect_to(port, port);
	RMA2_Notification answer;
	uint32_t value;

	for (value = 7; value <= 35; value += 7) {
		answer = operate(port, handle, 28, 7);
		CHECK(rma2_noti_get_lock_result(&answer) == 1 && rma2_noti_get_lock_value(&answer) == value);
	}
	answer = operate(port, handle, 28, 7);
	CHECK(rma2_noti_get_lock_result(&answer) == 0 && rma2_noti_get_lock_value(&answer) == 35);
	answer = operate(port, handle, 35, -7);
	CHECK(rma2_noti_get_lock_result(&answer) == 1 && rma2_noti_get_lock_value(&answer) == 28);
	/* The comparison is signed. */
	answer = operate(port, handle, -1, 100);
	CHECK(rma2_noti_get_lock_result(&answer) == 0 && rma2_noti_get_lock_value(&answer) == 28);
	OK(rma2_close(port));
}

/* A port that is opened again finds its locks at 0. */
static void cleared(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = connect_to(port, port);
	RMA2_Notification answer = operate(port, handle, 0, 1);

	CHECK(rma2_noti_get_lock_result(&answer) == 1 && rma2_noti_get_lock_value(&answer) == 1);
	OK(rma2_close(port));
}

/* lock_match finds the answer behind other notifications; each operation has one answer. */
static void match(void)
{
	RMA2_Port port = open_port(), other = open_port();
	RMA2_Handle self = connect_to(port, port), peer = connect_to(port, other);
	RMA2_Notification *found = NULL;
	int i;

	for (i = 0; i < 3; i++) {
		OK(rma2_post_notification(port, self, 9, 9, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
		OK(rma2_post_lock(port, peer, 0, 5, 100, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
		OK(rma2_noti_lock_match_block(port, 5, rma2_get_nodeid(other), rma2_get_vpid(other), &found));
		CHECK(rma2_noti_get_lock_value(found) == (uint32_t)i + 1);
		OK(rma2_noti_free(port, found));
		GIVES(RMA2_ERR_NO_MATCH, rma2_noti_lock_match(port, RMA2_LOCK_ANY, RMA2_NODEID_ANY, RMA2_VPID_ANY,
							      &found));
	}
	OK(rma2_close(port));
	OK(rma2_close(other));
}

int main(void)
{
	trace();
	cleared();
	match();
	return 0;
}
