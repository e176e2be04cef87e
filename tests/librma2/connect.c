/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connections with any option, and what can be asked of them (spec 10.2). */
#include "common.h"

static void every_option(RMA2_Port port)
{
	unsigned int options;

	for (options = 0; options < 32; options++) {
		RMA2_Handle handle = NULL;

		OK(rma2_connect(port, 3, 200, (RMA2_Connection_Options)options, &handle));
		CHECK(rma2_handle_get_node(handle) == 3 && rma2_handle_get_vpid(handle) == 200);
		CHECK(handle->nodeid == 3 && handle->vpid == 200);
		CHECK((rma2_get_interrupt(port, handle) == RMA2_SUCCESS) == !!(options & RMA2_CONN_IRQ));
		CHECK((rma2_get_rra(port, handle) == RMA2_SUCCESS) == !!(options & RMA2_CONN_RRA));
		CHECK((rma2_get_physical_access(port, handle) == RMA2_SUCCESS) == !(options & RMA2_CONN_TE));
		OK(rma2_disconnect(port, handle));
		GIVES(RMA2_ERR_INV_HANDLE, rma2_disconnect(port, handle));
	}
}

static void requests(RMA2_Port port)
{
	RMA2_Handle handle = connect_to(port, port);
	uint32_t request = 9, response = 9;

	CHECK(rma2_get_interrupt(port, handle) != RMA2_SUCCESS);
	OK(rma2_request_interrupt(port, handle));
	CHECK(rma2_get_interrupt(port, handle) == RMA2_SUCCESS);
	OK(rma2_request_tcs(port, handle, 2, 3));
	OK(rma2_get_tcs(port, handle, &request, &response));
	CHECK(request == 2 && response == 3);
	GIVES(RMA2_ERR_INV_VALUE, rma2_request_tcs(port, handle, 4, 0));
	CHECK(rma2_get_physical_access(port, handle) != RMA2_SUCCESS);

	/* The interrupt option shows in the notification (spec 3.1), and the class works. */
	OK(rma2_post_notification(port, handle, 5, 6, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	RMA2_Notification arrived = next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(rma2_noti_get_mode(&arrived) & RMA2_NOTI_IRQ);

	OK(rma2_request_rra(port, handle));
	CHECK(rma2_get_rra(port, handle) == RMA2_SUCCESS);
	OK(rma2_request_physical_access(port, handle));
	CHECK(rma2_get_physical_access(port, handle) == RMA2_SUCCESS);
	OK(rma2_disconnect(port, handle));
}

/* Packets with another protection id are dropped; the same one lets them through. */
static void protection(RMA2_Port port)
{
	RMA2_Port other = open_port();
	RMA2_Handle handle = connect_to(port, other);

	OK(rma2_set_protectionid(other, 0x1234));
	OK(rma2_post_notification(port, handle, 1, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	no_more(other);
	OK(rma2_set_protectionid(port, 0x1234));
	OK(rma2_post_notification(port, handle, 1, 2, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	CHECK(next(other).word0.value == 2);
	OK(rma2_set_protectionid(port, 0));
	OK(rma2_close(other));
}

int main(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = NULL;

	every_option(port);
	requests(port);
	protection(port);
	GIVES(RMA2_ERR_INV_VALUE, rma2_connect(port, 0, 0, (RMA2_Connection_Options)32, &handle));
	GIVES(RMA2_ERR_INV_VALUE, rma2_connect(port, 0, 256, RMA2_CONN_DEFAULT, &handle));
	GIVES(RMA2_ERR_INV_VALUE, rma2_connect(port, 0, 0, RMA2_CONN_DEFAULT, NULL));
	CHECK(handle == NULL);
	OK(rma2_close(port));
	return 0;
}
