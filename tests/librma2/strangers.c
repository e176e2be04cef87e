/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that know nothing of jobs meet as on nodes with cards. A server stands; clients come one after the other,
 * open their ports only after they have learnt its address over a socket, talk to it and go. The server opens its port
 * before anyone else is there, and waits on the socket meanwhile: nobody's open waits for a peer.
 */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define CLIENTS 20
#define BYTES 100000u

/* What one tells the other over the socket. */
struct place {
	RMA2_Nodeid node;
	RMA2_VPID vpid;
	RMA2_NLA nla;
};

static void say(int to, const void *bytes, size_t size)
{
	CHECK(write(to, bytes, size) == (ssize_t)size);
}

static void hear(int from, void *bytes, size_t size)
{
	CHECK(read(from, bytes, size) == (ssize_t)size);
}

static struct place place_of(RMA2_Port port, RMA2_Region *region)
{
	struct place place = { rma2_get_nodeid(port), rma2_get_vpid(port), 0 };

	OK(rma2_get_nla(region, 0, &place.nla));
	return place;
}

static void on_node(int node)
{
	char text[16];

	snprintf(text, sizeof text, "%d", node);
	setenv("GGAS_NODE", text, 1);
}

/* Takes what each client puts, and puts it back. */
static void serve(int client)
{
	RMA2_Region *region = NULL;
	unsigned char *memory = (unsigned char *)allocate(BYTES);
	RMA2_Port port;
	struct place here;
	int i;

	on_node(0);
	port = open_port();
	CHECK(rma2_get_nodeid(port) == 0 && rma2_get_vpid(port) == 0);
	OK(rma2_register(port, memory, BYTES, &region));
	here = place_of(port, region);
	for (i = 0; i < CLIENTS; i++) {
		RMA2_Handle to = NULL;
		struct place there;
		RMA2_Notification came;

		say(client, &here, sizeof here);
		hear(client, &there, sizeof there);
		came = next(port);
		CHECK(rma2_noti_get_remote_nodeid(&came) == there.node && rma2_noti_get_remote_vpid(&came) == there.vpid);
		CHECK(memory[0] == (unsigned char)i && memory[BYTES - 1] == (unsigned char)i);
		OK(rma2_connect(port, there.node, there.vpid, RMA2_CONN_DEFAULT, &to));
		OK(rma2_post_put_bt(port, to, region, 0, BYTES, there.nla,
				    (RMA2_Notification_Spec)(RMA2_REQUESTER_NOTIFICATION | RMA2_COMPLETER_NOTIFICATION),
				    RMA2_CMD_DEFAULT));
		next(port);
		OK(rma2_disconnect(port, to));
	}
	OK(rma2_unregister(port, region));
	OK(rma2_close(port));
	free(memory);
}

/* One client: on another node each time, also the server's. */
static void visit(int server, int number)
{
	RMA2_Region *region = NULL;
	unsigned char *memory = (unsigned char *)allocate(2 * BYTES);
	struct place there, here;
	RMA2_Handle to = NULL;
	RMA2_Port port;

	on_node(number % 8);
	hear(server, &there, sizeof there);
	port = open_port();
	CHECK(rma2_get_nodeid(port) == number % 8);
	/* It talks to the server, not to itself. */
	CHECK(rma2_get_nodeid(port) != there.node || rma2_get_vpid(port) != there.vpid);
	OK(rma2_register(port, memory, 2 * BYTES, &region));
	memset(memory, number, BYTES);
	OK(rma2_connect(port, there.node, there.vpid, RMA2_CONN_DEFAULT, &to));
	here = place_of(port, region);
	here.nla += BYTES;
	say(server, &here, sizeof here);
	OK(rma2_post_put_bt(port, to, region, 0, BYTES, there.nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next(port);
	CHECK(memcmp(memory, memory + BYTES, BYTES) == 0);
	OK(rma2_disconnect(port, to));
	OK(rma2_unregister(port, region));
	free(memory);
	/* Some go without a word. */
	if (number % 3 == 0)
		_exit(0);
	OK(rma2_close(port));
}

static pid_t start(void (*role)(int, int), int socket, int other, int number)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		close(other);
		role(socket, number);
		exit(0);
	}
	return pid;
}

static void server_role(int socket, int number)
{
	(void)number;
	serve(socket);
}

static void ends_well(pid_t pid)
{
	int status = 1;

	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	int ends[2], i;
	pid_t server;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	server = start(server_role, ends[0], ends[1], 0);
	for (i = 0; i < CLIENTS; i++)
		ends_well(start(visit, ends[1], ends[0], i));
	ends_well(server);
	return 0;
}
