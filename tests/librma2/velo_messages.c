/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages within one process: every length, tag and type, both slot sizes, threads, and librma2 beside it. */
#include <pthread.h>

#include "velo.h"

#define THREADS 3
/* A card's mailbox holds 2,048: one that fills up while another is read would hold back that one's messages, too. */
#define EACH (on_card() ? 1500u : 3000u)

static velo2_port_t a, b;

static void each_length_tag_and_type(void)
{
	velo2_connection_t to_b = connect_velo(&a, address_of(&b)), to_self = connect_velo(&a, address_of(&a));
	/* A card's mailbox holds 2,048 messages. */
	uint32_t i, many = on_card() ? 5000 : 40000, late = on_card() ? 1000 : 5000;

	for (i = 0; i < 4 * 256 * 8; i++) {
		send_surely(&to_b, i);
		take_number(&b, i, address_of(&a));
	}
	/* In order, with a mailbox that goes round: three slots of 64 bytes, or one of 128. */
	for (i = 0; i < many; i++) {
		send_surely(&to_b, i);
		if (i >= late)
			take_number(&b, i - late, address_of(&a));
	}
	for (i = many - late; i < many; i++)
		take_number(&b, i, address_of(&a));
	send_surely(&to_self, 77);
	take_number(&a, 77, address_of(&a));
	VOK(velo2_disconnect(&a, &to_b));
	CHECK(to_b.dest.raw == 0 && !to_b.state_map);
	VOK(velo2_disconnect(&a, &to_self));
	no_message(&a);
	no_message(&b);
}

static void short_buffers(void)
{
	velo2_connection_t to_b = connect_velo(&a, address_of(&b));
	uint8_t bytes[VELO2_MAX_BYTES], wanted[VELO2_MAX_BYTES], tag;
	uint32_t length = 0;

	message(wanted, 100);
	send_surely(&to_b, 100);
	send_surely(&to_b, 101);
	memset(bytes, 0xee, sizeof bytes);
	VGIVES(VELO2_RET_INV_MSG, velo2_recv(&b, bytes, 10, &length, NULL, &tag, NULL));
	CHECK(length == 100 && tag == 100 >> 3 && memcmp(bytes, wanted, 10) == 0 && bytes[10] == 0xee);
	take_number(&b, 101, address_of(&a));
	/* Nothing but the message is wanted, and nothing at all. */
	send_surely(&to_b, 8);
	VOK(velo2_recv(&b, bytes, 8, NULL, NULL, NULL, 0));
	VOK(velo2_send(&to_b, NULL, 0, 1, 2));
	VOK(velo2_recv(&b, NULL, 0, &length, NULL, NULL, NULL));
	CHECK(length == 0);
	VOK(velo2_disconnect(&a, &to_b));
}

/* Ports, connections and results at odd addresses, as in packed structures. */
static void unaligned(void)
{
	uint8_t places[64] __attribute__((aligned(8))), bytes[VELO2_MAX_BYTES];
	velo2_port_t *odd_port = (velo2_port_t *)(void *)(places + 1);
	velo2_connection_t *odd_connection = (velo2_connection_t *)(void *)(places + 17);
	uint32_t *length = (uint32_t *)(void *)(places + 41), *source = (uint32_t *)(void *)(places + 49), value, from;
	velo2_port_t port;

	VOK(velo2_open(odd_port));
	memcpy(&port, places + 1, sizeof port);
	from = address_of(odd_port);
	CHECK(port.map && from == address_of(&port));
	VOK(velo2_connect(odd_port, odd_connection, velo2_get_nodeid(odd_port), velo2_get_vpid(odd_port)));
	VOK(velo2_send(odd_connection, "odd", 3, 0, 0));
	VOK(velo2_recv(odd_port, bytes, sizeof bytes, length, source, NULL, NULL));
	memcpy(&value, places + 41, sizeof value);
	CHECK(value == 3);
	memcpy(&value, places + 49, sizeof value);
	CHECK(value == from && memcmp(bytes, "odd", 3) == 0);
	VOK(velo2_disconnect(odd_port, odd_connection));
	VOK(velo2_close(odd_port));
	memcpy(&port, places + 1, sizeof port);
	CHECK(!port.map);
}

static void *send_many(void *address)
{
	velo2_connection_t to = connect_velo(&a, *(uint32_t *)address);
	uint32_t i;

	for (i = 0; i < EACH; i++)
		send_surely(&to, i);
	VOK(velo2_disconnect(&a, &to));
	return NULL;
}

/* Threads send over one port to ports of their own. */
static void threads(void)
{
	velo2_port_t ports[THREADS];
	uint32_t addresses[THREADS], i;
	pthread_t running[THREADS];
	int t;

	for (t = 0; t < THREADS; t++) {
		VOK(velo2_open(&ports[t]));
		addresses[t] = address_of(&ports[t]);
		CHECK(pthread_create(&running[t], NULL, send_many, &addresses[t]) == 0);
	}
	for (t = 0; t < THREADS; t++) {
		for (i = 0; i < EACH; i++)
			take_number(&ports[t], i, address_of(&a));
		CHECK(pthread_join(running[t], NULL) == 0);
		VOK(velo2_close(&ports[t]));
	}
}

static void *wait_for_one(void *result)
{
	uint8_t bytes[VELO2_MAX_BYTES];
	velo2_port_t copy = b;

	*(velo2_ret_t *)result = velo2_recv(&copy, bytes, sizeof bytes, NULL, NULL, NULL, NULL);
	return NULL;
}

/* A receiver that sleeps is woken by a message, and by the end of the port. */
static void sleepers(void)
{
	velo2_connection_t to_b = connect_velo(&a, address_of(&b));
	struct timespec moment = { 0, 50000000 };
	velo2_ret_t result = VELO2_RET_ERROR;
	pthread_t thread;
	double start;

	CHECK(pthread_create(&thread, NULL, wait_for_one, &result) == 0);
	nanosleep(&moment, NULL);
	send_surely(&to_b, 1);
	CHECK(pthread_join(thread, NULL) == 0 && result == VELO2_RET_SUCCESS);

	CHECK(pthread_create(&thread, NULL, wait_for_one, &result) == 0);
	nanosleep(&moment, NULL);
	start = seconds();
	VOK(velo2_close(&b));
	CHECK(!b.map);
	CHECK(pthread_join(thread, NULL) == 0 && result == VELO2_RET_INVALID_MBOX && seconds() - start < PATIENCE / 2);
	/* The card takes what nobody receives. */
	send_surely(&to_b, 1);
	VOK(velo2_disconnect(&a, &to_b));
}

/* The node is the same for both libraries, and they share its VPIDs. */
static void beside_librma2(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle self = connect_to(port, port);
	uint32_t i;

	VOK(velo2_open(&b));
	CHECK(velo2_get_nodeid(&b) == rma2_get_nodeid(port));
	CHECK(velo2_get_vpid(&b) != rma2_get_vpid(port) && velo2_get_vpid(&b) != velo2_get_vpid(&a));
	{
		velo2_connection_t to_b = connect_velo(&a, address_of(&b));

		for (i = 0; i < 200; i++) {
			send_surely(&to_b, i);
			OK(rma2_post_notification(port, self, 3, i, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
			CHECK(next(port).word0.value == i);
			take_number(&b, i, address_of(&a));
		}
	}
	OK(rma2_close(port));
}

int main(void)
{
	const char *const slots[] = { "128", "64" };
	int i;

	/* The driver opens a card's mailboxes with slots of 128 bytes. */
	for (i = 0; i < (on_card() ? 1 : 2); i++) {
		setenv("EXTOLL_VELO_SLOTS", slots[i], 1);
		VOK(velo2_open(&a));
		VOK(velo2_open(&b));
		CHECK(address_of(&a) != address_of(&b));
		each_length_tag_and_type();
		short_buffers();
		unaligned();
		threads();
		sleepers();
		beside_librma2();
		VOK(velo2_close(&a));
		VOK(velo2_close(&b));
	}
	return 0;
}
