/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the card refuses between two processes (spec 3.4), on one node or on two: nothing hangs, the target's
 * memory stays as it was, an error notification says so where one was asked for, and both ports work on.
 */
#include "job.h"

#define SIZE 4096u
#define OTHER (1 - job.me)

static struct job job;
static RMA2_Handle peer;
static uint8_t *memory;
static RMA2_Region *region;
static int origin;
static RMA2_NLA here, theirs;

static void next_is_error(RMA2_Port port)
{
	RMA2_Notification n = next(port);

	CHECK(rma2_noti_get_error(&n));
}

/* The target's memory is untouched, and a good command still works. */
static void still_works(void)
{
	uint32_t i;

	synchronise(&job);
	for (i = 0; i < SIZE && !origin; i++)
		CHECK(memory[i] == 0xee);
	synchronise(&job);
	if (origin) {
		fill(memory, SIZE, 1);
		OK(rma2_post_put_bt(job.port, peer, region, 0, SIZE, theirs, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
	} else {
		uint8_t expected[SIZE];

		fill(expected, SIZE, 1);
		arrival(&job, OTHER, RMA2_BT_PUT, RMA2_COMPLETER_NOTIFICATION, 0);
		CHECK(memcmp(memory, expected, SIZE) == 0);
		memset(memory, 0xee, SIZE);
	}
	synchronise(&job);
}

/* One error of this command and kind, at the origin. */
static void at_origin(RMA2_Command command, RMA2_Notification_Spec kind)
{
	if (origin)
		arrival(&job, OTHER, command, kind, 1);
	synchronise(&job);
}

/* The same, of the completer at the target. */
static void at_target(RMA2_Command command)
{
	if (!origin)
		arrival(&job, OTHER, command, RMA2_COMPLETER_NOTIFICATION, 1);
	synchronise(&job);
}

/* Command 4: nothing is seen of it without notifications; with, one on either side. */
static void command(void)
{
	RMA2_Descriptor d;
	int i;

	memset(&d, 0, sizeof d);
	for (i = 0; i < 10; i++) {
		if (origin) {
			OK(rma2_desc_set_put_get(&d, peer, (RMA2_Command)4, 64, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT,
						 here, theirs));
			OK(rma2_post_descriptor(job.port, peer, &d));
			OK(rma2_desc_set_put_get(&d, peer, (RMA2_Command)4, 64, RMA2_ALL_NOTIFICATIONS,
						 RMA2_CMD_DEFAULT, here, theirs));
			OK(rma2_post_descriptor(job.port, peer, &d));
		}
		if (origin)
			arrival(&job, OTHER, RMA2_ANY, RMA2_REQUESTER_NOTIFICATION, 1);
		else
			next_is_error(job.port);
	}
	still_works();
}

/* Addresses that are not registered: at the target, at the origin, and for a get. */
static void addresses(void)
{
	RMA2_NLA far = 0x1000000;

	if (origin)
		OK(rma2_post_put_bt(job.port, peer, region, 0, 64, theirs + far, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
	at_target(RMA2_BT_PUT);
	if (origin)
		OK(rma2_post_put_bt_direct(job.port, peer, here + far, 64, theirs, RMA2_REQUESTER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
	at_origin(RMA2_BT_PUT, RMA2_REQUESTER_NOTIFICATION);
	if (origin)
		OK(rma2_post_get_bt(job.port, peer, region, 0, 64, theirs + far, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
	at_origin(RMA2_GETS, RMA2_COMPLETER_NOTIFICATION);
	if (origin)
		OK(rma2_post_immediate_put(job.port, peer, 8, 1, theirs + far, RMA2_COMPLETER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
	at_target(RMA2_IMMEDIATE_PUT);
	still_works();
}

/* From whatever port: nobody is there to name. */
static void get_is_error(void)
{
	RMA2_Notification *n = NULL;

	OK(rma2_noti_match_block(job.port, RMA2_GETS, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION,
				 RMA2_ANY_NLA, 0, &n));
	CHECK(rma2_noti_get_error(n));
	OK(rma2_noti_free(job.port, n));
}

/* A VPID that nobody has opened, and a VPID that has not registered the memory (illegal_mem_vpid_write). */
static void vpids(void)
{
	RMA2_Port second = origin ? NULL : open_port();
	RMA2_Handle handle = NULL;

	exchange(&job, origin ? 0 : rma2_get_vpid(second));
	if (origin) {
		OK(rma2_connect(job.port, node_of(&job, OTHER), 200, RMA2_CONN_DEFAULT, &handle));
		OK(rma2_post_put_bt(job.port, handle, region, 0, 64, theirs, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
		OK(rma2_post_get_bt(job.port, handle, region, 0, 64, theirs, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
		get_is_error();
		OK(rma2_disconnect(job.port, handle));
		OK(rma2_connect(job.port, node_of(&job, OTHER), (RMA2_VPID)job.told[OTHER], RMA2_CONN_DEFAULT,
				&handle));
		OK(rma2_post_put_bt(job.port, handle, region, 0, 64, theirs, RMA2_COMPLETER_NOTIFICATION,
				    RMA2_CMD_DEFAULT));
		OK(rma2_disconnect(job.port, handle));
	} else {
		next_is_error(second);
		OK(rma2_close(second));
	}
	still_works();
}

/* The Excellerate ports are disabled (illegal_excel, illegal_excel_rra). */
static void excellerate(void)
{
	RMA2_Handle handle = NULL;

	if (origin)
		OK(rma2_post_put_bt(job.port, peer, region, 0, 64, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_EWA));
	at_target(RMA2_BT_PUT);
	if (origin)
		OK(rma2_post_put_bt(job.port, peer, region, 0, 64, 0, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_ERA));
	at_origin(RMA2_BT_PUT, RMA2_REQUESTER_NOTIFICATION);
	if (origin) {
		OK(rma2_connect(job.port, node_of(&job, OTHER), vpid_of(&job, OTHER),
				(RMA2_Connection_Options)(RMA2_CONN_TE | RMA2_CONN_RRA), &handle));
		OK(rma2_post_put_bt(job.port, handle, region, 0, 64, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_EWA));
		OK(rma2_disconnect(job.port, handle));
	}
	at_target(RMA2_BT_PUT);
	still_works();
}

/* A lock that the target does not have. */
static void lock_number(void)
{
	if (origin)
		OK(rma2_post_lock(job.port, peer, 0, 1000, 1, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	at_origin(RMA2_LOCK_RSP, RMA2_COMPLETER_NOTIFICATION);
	still_works();
}

int main(void)
{
	job = join_job();
	CHECK(job.size == 2);
	origin = job.me == 0;
	peer = job.to[OTHER];
	memory = (uint8_t *)allocate(SIZE);
	memset(memory, 0xee, SIZE);
	OK(rma2_register(job.port, memory, SIZE, &region));
	here = nla_of(region, 0);
	exchange(&job, here);
	theirs = job.told[OTHER];
	command();
	addresses();
	vpids();
	excellerate();
	lock_number();
	no_more(job.port);
	OK(rma2_close(job.port));
	free(memory);
	return 0;
}
