/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Commands that the card refuses (spec 3.4): nothing hangs, memory stays as it was, an error notification
 * says so where one was asked for, and the port works on.
 */
#include "common.h"

#define SIZE 4096u

struct bench {
	RMA2_Port port, target;
	RMA2_Handle handle;
	uint8_t *here, *there;
	RMA2_Region *local, *remote;
};

static struct bench set_up(void)
{
	struct bench b;

	b.port = open_port();
	b.target = open_port();
	b.handle = connect_to(b.port, b.target);
	b.here = (uint8_t *)allocate(SIZE);
	b.there = (uint8_t *)allocate(SIZE);
	OK(rma2_register(b.port, b.here, SIZE, &b.local));
	OK(rma2_register(b.target, b.there, SIZE, &b.remote));
	fill(b.here, SIZE, 1);
	memset(b.there, 0xee, SIZE);
	return b;
}

/* The target's memory is untouched, and a good command still works. */
static void tear_down(struct bench *b)
{
	size_t i;

	no_more(b->port);
	no_more(b->target);
	for (i = 0; i < SIZE; i++)
		CHECK(b->there[i] == 0xee);
	OK(rma2_post_put_bt(b->port, b->handle, b->local, 0, SIZE, nla_of(b->remote, 0),
			    RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_of(b->target, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(b->here, b->there, SIZE) == 0);
	OK(rma2_close(b->port));
	OK(rma2_close(b->target));
	free(b->here);
	free(b->there);
}

/* The next notification has an error. */
static void next_is_error(RMA2_Port port)
{
	RMA2_Notification n = next(port);

	if (!rma2_noti_get_error(&n)) {
		rma2_noti_fdump(&n, stderr);
		CHECK(!"no error in it");
	}
}

static void command(void)
{
	struct bench b = set_up();
	RMA2_Descriptor *descriptor = NULL;
	int i;

	OK(rma2_desc_alloc(b.port, &descriptor));
	/* Without notifications nothing is seen of it but the counters; with, one on either side. */
	for (i = 0; i < 20; i++) {
		OK(rma2_desc_set_put_get(descriptor, b.handle, (RMA2_Command)4, 64, RMA2_NO_NOTIFICATION,
					 RMA2_CMD_DEFAULT, nla_of(b.local, 0), nla_of(b.remote, 0)));
		OK(rma2_post_descriptor(b.port, b.handle, descriptor));
	}
	for (i = 0; i < 20; i++) {
		OK(rma2_desc_set_put_get(descriptor, b.handle, (RMA2_Command)4, 64, RMA2_ALL_NOTIFICATIONS,
					 RMA2_CMD_DEFAULT, nla_of(b.local, 0), nla_of(b.remote, 0)));
		OK(rma2_post_descriptor(b.port, b.handle, descriptor));
		next_is_error(b.port);
		next_is_error(b.target);
	}
	tear_down(&b);
}

/* Addresses that are not registered: at the target, at the origin, and for a get. */
static void address(void)
{
	struct bench b = set_up();
	RMA2_NLA far = 0x1000000;

	OK(rma2_post_put_bt(b.port, b.handle, b.local, 0, 64, nla_of(b.remote, 0) + far,
			    RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_is_error(b.target);
	OK(rma2_post_put_bt_direct(b.port, b.handle, nla_of(b.local, 0) + far, 64, nla_of(b.remote, 0),
				   RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_is_error(b.port);
	OK(rma2_post_get_bt(b.port, b.handle, b.local, 0, 64, nla_of(b.remote, 0) + far,
			    RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_is_error(b.port);
	OK(rma2_post_immediate_put(b.port, b.handle, 8, 1, nla_of(b.remote, 0) + far, RMA2_COMPLETER_NOTIFICATION,
				   RMA2_CMD_DEFAULT));
	next_is_error(b.target);
	tear_down(&b);
}

/* Another port's registration serves that port only (spec 4.1). */
static void foreign_translation(void)
{
	struct bench b = set_up();

	OK(rma2_post_put_bt_direct(b.port, b.handle, nla_of(b.remote, 0), 64, nla_of(b.remote, 64),
				   RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_is_error(b.port);
	tear_down(&b);
}

/* A VPID that is not open: a put vanishes, a get comes back with an error. */
static void vpid(void)
{
	struct bench b = set_up();
	RMA2_Handle nobody = NULL;

	OK(rma2_connect(b.port, rma2_get_nodeid(b.port), 200, RMA2_CONN_DEFAULT, &nobody));
	OK(rma2_post_put_bt(b.port, nobody, b.local, 0, 64, nla_of(b.remote, 0), RMA2_NO_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	OK(rma2_post_get_bt(b.port, nobody, b.local, 0, 64, nla_of(b.remote, 0), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_is_error(b.port);
	tear_down(&b);
}

/* The Excellerate port is disabled (spec 2.2). */
static void excellerate(void)
{
	struct bench b = set_up();

	OK(rma2_post_put_bt(b.port, b.handle, b.local, 0, 64, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_EWA));
	next_is_error(b.target);
	OK(rma2_post_put_bt(b.port, b.handle, b.local, 0, 64, 0, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_ERA));
	next_is_error(b.port);
	tear_down(&b);
}

/* Locks beyond those of a VPID. */
static void lock_number(void)
{
	struct bench b = set_up();

	OK(rma2_post_lock(b.port, b.handle, 0, 1000, 1, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_is_error(b.port);
	tear_down(&b);
}

int main(void)
{
	command();
	address();
	foreign_translation();
	vpid();
	excellerate();
	lock_number();
	return 0;
}
