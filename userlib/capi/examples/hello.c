/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two nodes: node 1 puts a greeting into memory of node 0, which waits for the notification.
 *
 *	cc hello.c $(pkg-config --cflags --libs librma2) -o hello
 *	ggas run -n 2 -- ./hello
 */
#include <rma2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Classes of notification puts are the program's own; RMA2_CLASS_ANY is none. */
#define READY 1
#define ADDRESS 2

static void ok(RMA2_ERROR result, const char *what)
{
	char text[400];

	if (result == RMA2_SUCCESS)
		return;
	rma2_serror(result, text, sizeof(text));
	fprintf(stderr, "%s: %s\n", what, text);
	exit(1);
}

/* Node 0: says where the greeting goes, and waits for it. */
static void receive(RMA2_Port port, RMA2_Handle peer, RMA2_Region *region, const char *text)
{
	RMA2_Notification *n;
	RMA2_NLA nla;

	ok(rma2_noti_noti_match_block(port, READY, 1, 0, &n), "waiting for node 1");
	ok(rma2_noti_free(port, n), "freeing a notification");

	ok(rma2_get_nla(region, 0, &nla), "asking for the address");
	ok(rma2_post_notification(port, peer, ADDRESS, nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT),
	   "telling the address");

	ok(rma2_noti_match_block(port, RMA2_PUTS, 1, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA, RMA2_DEFAULT_FLAG,
				 &n),
	   "waiting for the put");
	printf("node 0: %u bytes from node %u: %s\n", rma2_noti_get_size(n), rma2_noti_get_remote_nodeid(n), text);
	ok(rma2_noti_free(port, n), "freeing a notification");
}

/* Node 1: asks where the greeting goes, and puts it there. */
static void greet(RMA2_Port port, RMA2_Handle peer, RMA2_Region *region, char *text, size_t room)
{
	RMA2_Notification *n;
	RMA2_ERROR found;
	RMA2_NLA nla;

	/* What comes before node 0 has opened its port is lost, so this is said until there is an answer. */
	do {
		ok(rma2_post_notification(port, peer, READY, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT),
		   "saying that node 1 is here");
		usleep(1000);
		found = rma2_noti_noti_match(port, ADDRESS, 0, 0, &n);
	} while (found == RMA2_NO_NOTI || found == RMA2_ERR_NO_MATCH);
	ok(found, "looking for the address");
	nla = rma2_noti_get_notiput_payload(n);
	ok(rma2_noti_free(port, n), "freeing a notification");

	snprintf(text, room, "hello, this is node 1");
	ok(rma2_post_put_bt(port, peer, region, 0, (uint32_t)strlen(text) + 1, nla, RMA2_REQCOMPL_NOTIFICATION,
			    RMA2_CMD_DEFAULT),
	   "posting the put");
	/* Once the requester has notified, the text may be changed again. */
	ok(rma2_noti_match_block(port, RMA2_PUTS, 0, 0, RMA2_REQUESTER_NOTIFICATION, RMA2_ANY_NLA, RMA2_DEFAULT_FLAG,
				 &n),
	   "waiting until the put is on its way");
	ok(rma2_noti_free(port, n), "freeing a notification");
}

int main(void)
{
	static char text[64];
	RMA2_Port port;
	RMA2_Handle peer;
	RMA2_Region *region;

	ok(rma2_open(&port), "opening a port");
	if (rma2_get_node_num(port) != 2) {
		fprintf(stderr, "this takes two nodes: ggas run -n 2 -- ./hello\n");
		return 1;
	}
	ok(rma2_register(port, text, sizeof(text), &region), "registering memory");
	/* The first port of a node has VPID 0. */
	ok(rma2_connect(port, 1 - rma2_get_nodeid(port), 0, RMA2_CONN_DEFAULT, &peer), "connecting");

	if (rma2_get_nodeid(port) == 0)
		receive(port, peer, region, text);
	else
		greet(port, peer, region, text, sizeof(text));

	ok(rma2_disconnect(port, peer), "disconnecting");
	ok(rma2_unregister(port, region), "unregistering memory");
	ok(rma2_close(port), "closing the port");
	return 0;
}
