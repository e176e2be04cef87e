/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Puts and gets between two ports, with notifications, with interrupts, per fragment (spec 2.2, 3.1).
 * Buffers are used from quadwords 0xb30 and 0xc00 on, and notification tests run twice.
 */
#include "common.h"

#define FROM (0xb30u * 8)
#define TO (0xc00u * 8)
#define ROOM (MAX_TRANSFER + TO + PAGE)

struct pair {
	RMA2_Port origin, target;
	RMA2_Handle handle;
	uint8_t *here, *there;
	RMA2_Region *local, *remote;
};

static struct pair open_pair(unsigned int options)
{
	struct pair p;

	p.origin = open_port();
	p.target = open_port();
	p.handle = connect_with(p.origin, p.target, options);
	p.here = (uint8_t *)allocate(ROOM);
	p.there = (uint8_t *)allocate(ROOM);
	OK(rma2_register(p.origin, p.here, ROOM, &p.local));
	OK(rma2_register(p.target, p.there, ROOM, &p.remote));
	return p;
}

static void close_pair(struct pair *p)
{
	no_more(p->origin);
	no_more(p->target);
	OK(rma2_unregister(p->origin, p->local));
	OK(rma2_unregister(p->target, p->remote));
	OK(rma2_disconnect(p->origin, p->handle));
	OK(rma2_close(p->origin));
	OK(rma2_close(p->target));
	free(p->here);
	free(p->there);
}

static void put(struct pair *p, int quadwords, uint32_t size, unsigned int spec, unsigned int modifier)
{
	RMA2_Notification_Spec who = (RMA2_Notification_Spec)spec;
	RMA2_Command_Modifier how = (RMA2_Command_Modifier)modifier;
	RMA2_NLA to = nla_of(p->remote, TO);

	if (quadwords)
		OK(rma2_post_put_qw(p->origin, p->handle, p->local, FROM, size, to, who, how));
	else
		OK(rma2_post_put_bt_direct(p->origin, p->handle, nla_of(p->local, FROM), size, to, who, how));
}

static void get(struct pair *p, int quadwords, uint32_t size, unsigned int spec, unsigned int modifier)
{
	RMA2_Notification_Spec who = (RMA2_Notification_Spec)spec;
	RMA2_Command_Modifier how = (RMA2_Command_Modifier)modifier;
	RMA2_NLA from = nla_of(p->remote, TO);

	if (quadwords)
		OK(rma2_post_get_qw_direct(p->origin, p->handle, nla_of(p->local, FROM), size, from, who, how));
	else
		OK(rma2_post_get_bt(p->origin, p->handle, p->local, FROM, size, from, who, how));
}

/* A notification of a transfer names its last fragment (spec 3.1). */
static void names_the_end(RMA2_Notification *n, RMA2_NLA start, uint32_t size)
{
	CHECK(rma2_noti_get_total_size(start, n) == size);
	CHECK(rma2_noti_get_size(n) == (size - 1) % PAYLOAD + 1);
	CHECK(rma2_noti_get_local_address(n) == start + (size - 1) / PAYLOAD * PAYLOAD);
}

static void write_once(struct pair *p, int quadwords, uint32_t size, unsigned int options)
{
	RMA2_Notification sent, arrived;

	fill(p->here + FROM, size, size);
	memset(p->there, 0xee, ROOM);
	put(p, quadwords, size, RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT);
	sent = next_of(p->origin, RMA2_REQUESTER_NOTIFICATION);
	arrived = next_of(p->target, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(p->here + FROM, p->there + TO, size) == 0);
	CHECK(p->there[TO - 1] == 0xee && p->there[TO + size] == 0xee);
	CHECK(rma2_noti_get_remote_vpid(&sent) == rma2_get_vpid(p->target));
	CHECK(rma2_noti_get_remote_vpid(&arrived) == rma2_get_vpid(p->origin));
	CHECK(rma2_noti_get_cmd(&arrived) == (quadwords ? RMA2_QW_PUT : RMA2_BT_PUT));
	CHECK(!(rma2_noti_get_mode(&arrived) & RMA2_NOTI_IRQ) == !(options & RMA2_CONN_IRQ));
	names_the_end(&arrived, nla_of(p->remote, TO), size);
}

static void read_once(struct pair *p, int quadwords, uint32_t size)
{
	RMA2_Notification served, arrived;

	fill(p->there + TO, size, size + 1);
	memset(p->here, 0xee, ROOM);
	get(p, quadwords, size, RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT);
	next_of(p->origin, RMA2_REQUESTER_NOTIFICATION);
	served = next_of(p->target, RMA2_RESPONDER_NOTIFICATION);
	arrived = next_of(p->origin, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(p->here + FROM, p->there + TO, size) == 0);
	CHECK(p->here[FROM - 1] == 0xee && p->here[FROM + size] == 0xee);
	CHECK(rma2_noti_get_cmd(&arrived) == (quadwords ? RMA2_GET_QW_RSP : RMA2_GET_BT_RSP));
	names_the_end(&served, nla_of(p->remote, TO), size);
	names_the_end(&arrived, nla_of(p->local, FROM), size);
}

static void with_notifications(unsigned int options)
{
	static const uint32_t sizes[] = { 8, 64, 488, 496, 504, 992, 4096, 65536 + 8, 1u << 20, MAX_TRANSFER };
	struct pair p = open_pair(options);
	size_t i;
	int round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
			write_once(&p, 1, sizes[i], options);
			write_once(&p, 0, sizes[i] - (i % 2 && sizes[i] > 8 ? 3 : 0), options);
			read_once(&p, 1, sizes[i]);
			read_once(&p, 0, sizes[i] - (i % 2 && sizes[i] > 8 ? 5 : 0));
		}
	}
	close_pair(&p);
}

/* Without notifications the last bytes become visible last (spec 2.3). */
static void silent(void)
{
	struct pair p = open_pair(RMA2_CONN_DEFAULT);
	uint32_t size;

	for (size = 1; size < 1000; size = size * 3 + 1) {
		volatile uint8_t *last = p.there + TO + size - 1;
		double start = seconds();

		fill(p.here + FROM, size, 7);
		p.here[FROM + size - 1] = 0x5a;
		*last = 0;
		put(&p, 0, size, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT);
		while (*last != 0x5a)
			CHECK(seconds() - start < PATIENCE);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		CHECK(memcmp(p.here + FROM, p.there + TO, size) == 0);
	}
	close_pair(&p);
}

/* One notification for each fragment (spec 2.2, NTR). */
static void per_fragment(void)
{
	struct pair p = open_pair(RMA2_CONN_DEFAULT);
	uint32_t size;

	for (size = 1; size < 40000; size = size * 2 + 300) {
		uint32_t fragments = (size + PAYLOAD - 1) / PAYLOAD, i;

		fill(p.here + FROM, size, size);
		put(&p, 0, size, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_NTR);
		for (i = 0; i < fragments; i++) {
			RMA2_Notification n = next_of(p.target, RMA2_COMPLETER_NOTIFICATION);

			CHECK(rma2_noti_get_mode(&n) & RMA2_NOTI_NTR);
			CHECK(rma2_noti_get_local_address(&n) == nla_of(p.remote, TO) + i * PAYLOAD);
			CHECK(rma2_noti_get_size(&n) == (i + 1 < fragments ? PAYLOAD : size - i * PAYLOAD));
		}
		CHECK(memcmp(p.here + FROM, p.there + TO, size) == 0);
		get(&p, 0, size, RMA2_RESPCOMPL_NOTIFICATION, RMA2_CMD_NTR);
		for (i = 0; i < fragments; i++) {
			next_of(p.target, RMA2_RESPONDER_NOTIFICATION);
			next_of(p.origin, RMA2_COMPLETER_NOTIFICATION);
		}
	}
	close_pair(&p);
}

/* On one port: 2 notifications of a put, 3 of a get (spec 3.1). */
static void loop_back(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = connect_to(port, port);
	uint8_t *memory = (uint8_t *)allocate(2 * PAGE);
	RMA2_Region *region = NULL;
	unsigned int kinds = 0;
	int i;

	OK(rma2_register(port, memory, 2 * PAGE, &region));
	fill(memory, PAGE, 1);
	OK(rma2_post_put_bt(port, handle, region, 0, 128, nla_of(region, PAGE), RMA2_ALL_NOTIFICATIONS,
			    RMA2_CMD_DEFAULT));
	for (i = 0; i < 2; i++) {
		RMA2_Notification n = next(port);
		kinds |= (unsigned int)rma2_noti_get_notification_type(&n);
	}
	CHECK(kinds == RMA2_REQCOMPL_NOTIFICATION && memcmp(memory, memory + PAGE, 128) == 0);
	no_more(port);
	OK(rma2_post_get_bt(port, handle, region, 0, 256, nla_of(region, PAGE), RMA2_ALL_NOTIFICATIONS,
			    RMA2_CMD_DEFAULT));
	for (kinds = 0, i = 0; i < 3; i++) {
		RMA2_Notification n = next(port);
		kinds |= (unsigned int)rma2_noti_get_notification_type(&n);
	}
	CHECK(kinds == RMA2_ALL_NOTIFICATIONS);
	no_more(port);
	OK(rma2_close(port));
	free(memory);
}

int main(void)
{
	with_notifications(RMA2_CONN_DEFAULT);
	with_notifications(RMA2_CONN_TE | RMA2_CONN_IRQ);
	with_notifications(RMA2_CONN_TE | RMA2_CONN_TC3);
	silent();
	per_fragment();
	loop_back();
	return 0;
}
