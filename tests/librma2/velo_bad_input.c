/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Null, foreign, stale and closed ports and connections, lengths and types that make no message. */
#include "velo.h"

static velo2_port_t port;
static velo2_connection_t to_self;
static uint8_t bytes[200];

static void ports(void)
{
	velo2_port_t closed, wrong[4];
	velo2_connection_t connection, stale;
	uint64_t elsewhere[16] = { 0 };
	size_t i;

	VOK(velo2_open(&closed));
	wrong[1] = closed;
	stale = connect_velo(&closed, address_of(&port));
	VOK(velo2_close(&closed));
	CHECK(!closed.map);
	wrong[0].map = NULL;
	wrong[2].map = elsewhere;
	wrong[3].map = (uint8_t *)port.map + 8;
	for (i = 0; i < 5; i++) {
		velo2_port_t *p = i < 4 ? &wrong[i] : NULL;
		uint32_t length = 5;

		VGIVES(VELO2_RET_INVALID_MBOX, velo2_close(p));
		VGIVES(VELO2_RET_INVALID_MBOX, velo2_connect(p, &connection, 0, 0));
		VGIVES(VELO2_RET_INVALID_MBOX, velo2_disconnect(p, &to_self));
		VGIVES(VELO2_RET_INVALID_MBOX, velo2_recv(p, bytes, 120, &length, NULL, NULL, NULL));
		VGIVES(VELO2_RET_INVALID_MBOX, velo2_probe_recv(p, bytes, 120, &length, NULL, NULL, NULL));
		CHECK(velo2_get_nodeid(p) == 0 && velo2_get_vpid(p) == 0 && length == 5);
	}
	/* Its connections ended with the closed port. */
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_send(&stale, bytes, 8, 0, 0));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_disconnect(&port, &stale));
	VGIVES(VELO2_RET_ERROR, velo2_open(NULL));
}

static void connections(void)
{
	velo2_port_t other;
	velo2_connection_t of_other, ended = connect_velo(&port, address_of(&port)), copy = ended, wrong;
	uint64_t elsewhere[16] = { 0 };

	VOK(velo2_open(&other));
	of_other = connect_velo(&other, address_of(&port));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_disconnect(&port, &of_other));
	VOK(velo2_disconnect(&port, &ended));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_send(&ended, bytes, 8, 0, 0));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_send(&copy, bytes, 8, 0, 0));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_disconnect(&port, &copy));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_send(NULL, bytes, 8, 0, 0));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_disconnect(&port, NULL));
	memset(&wrong, 0, sizeof wrong);
	wrong.state_map = elsewhere;
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_send(&wrong, bytes, 8, 0, 0));
	wrong.state_map = (uint8_t *)to_self.state_map + 8;
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_send(&wrong, bytes, 8, 0, 0));

	VGIVES(VELO2_RET_ERROR, velo2_connect(&port, NULL, 0, 0));
	/* A card does not know which nodes there are. */
	if (!on_card())
		VGIVES(VELO2_RET_INVALID_NODE, velo2_connect(&port, &wrong, 8, 0));
	VGIVES(VELO2_RET_INVALID_NODE, velo2_connect(&port, &wrong, 65536, 0));
	VGIVES(VELO2_RET_INVALID_NODE, velo2_connect(&port, &wrong, VELO2_MCADDR_PACK(64), 0));
	VGIVES(VELO2_RET_INVALID_MBOX, velo2_connect(&port, &wrong, 0, 256));
	VOK(velo2_close(&other));
}

static void messages(void)
{
	char text[200];

	VGIVES(VELO2_RET_INV_MSG, velo2_send(&to_self, bytes, 121, 0, 0));
	VGIVES(VELO2_RET_INV_MSG, velo2_send(&to_self, bytes, UINT32_MAX, 0, 0));
	VGIVES(VELO2_RET_INV_MSG, velo2_send(&to_self, NULL, 1, 0, 0));
	VGIVES(VELO2_RET_INV_MTT, velo2_send(&to_self, bytes, 8, 0, 4));
	VGIVES(VELO2_RET_INV_MTT, velo2_send(&to_self, bytes, 8, 0, 255));
	velo2_serror(VELO2_RET_INV_MTT, text, (int)sizeof text);
	CHECK(strstr(text, "0 to 3"));
	no_message(&port);
	send_surely(&to_self, 50);
	VGIVES(VELO2_RET_ERROR, velo2_recv(&port, NULL, 1, NULL, NULL, NULL, NULL));
	take_number(&port, 50, address_of(&port));
	velo2_serror(VELO2_RET_TRY_AGAIN, NULL, 5);
	velo2_serror((velo2_ret_t)8, text, 3);
	CHECK(strlen(text) == 2);
}

/* Every VPID of the node: one more is refused, and does not harm. */
static void all_ports(void)
{
	static velo2_port_t all[256];
	int open = 0, i;
	velo2_ret_t result;

	while ((result = velo2_open(&all[open])) == VELO2_RET_SUCCESS)
		CHECK(++open < 256);
	VGIVES(VELO2_RET_INVALID_MBOX, result);
	CHECK(open > 200 && !all[open].map);
	for (i = 0; i < open; i++)
		VOK(velo2_close(&all[i]));
}

int main(void)
{
	int i;

	setenv("EXTOLL_VELO_SLOTS", "96", 1);
	VGIVES(VELO2_RET_ERROR, velo2_open(&port));
	CHECK(!port.map);
	if (on_card()) {
		/* The driver has slots of 128 bytes. */
		setenv("EXTOLL_VELO_SLOTS", "64", 1);
		VGIVES(VELO2_RET_ERROR, velo2_open(&port));
		CHECK(!port.map);
	}
	unsetenv("EXTOLL_VELO_SLOTS");
	VOK(velo2_open(&port));
	to_self = connect_velo(&port, address_of(&port));
	ports();
	connections();
	messages();
	all_ports();
	for (i = 0; i < 1000; i++) {
		velo2_port_t once;

		VOK(velo2_open(&once));
		connect_velo(&once, address_of(&port));
		VOK(velo2_close(&once));
	}
	send_surely(&to_self, 5);
	take_number(&port, 5, address_of(&port));
	VOK(velo2_close(&port));
	return 0;
}
