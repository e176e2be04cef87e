/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A child of fork has none of the parent's ports, and may open its own; the parent does not notice. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "pmap.h"

static void echo(RMA2_Port port, uint64_t value)
{
	RMA2_Handle self = connect_to(port, port);

	OK(rma2_post_notification(port, self, 1, value, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	CHECK(next(port).word0.value == value);
	OK(rma2_disconnect(port, self));
}

static void child(RMA2_Port parents, RMA2_VPID vpid, RMA2_Handle handle, RMA2_Region *region, void *memory)
{
	RMA2_Port port;
	RMA2_Region *own = NULL;
	RMA2_NLA nla = 0;

	GIVES(RMA2_ERR_INV_PORT, rma2_post_notification(parents, handle, 1, 1, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
	GIVES(RMA2_ERR_INV_PORT, rma2_close(parents));
	GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(region, 0, &nla));
	port = open_port();
	/* The node is the parent's too. Which VPID is free depends on who had one before: those rest for a moment. */
	CHECK(rma2_get_vpid(port) != vpid);
	echo(port, 42);
	OK(rma2_register(port, memory, PAGE, &own));
	GIVES(RMA2_ERR_INV_HANDLE, rma2_post_notification(port, handle, 1, 1, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_unregister(port, own));
	OK(rma2_close(port));
	free(memory);
}

/* A child of vfork closes its files in the parent's memory, as those who start programs do. */
static void closes(void)
{
	int file = open("/dev/extoll/pmap", O_RDWR);
	uint64_t address = 0;
	pid_t pid;
	int status = 1;

	CHECK(file >= 0 && ioctl(file, PMAP_IOCTL_SET_TYPE, 0) == 0 && ioctl(file, PMAP_IOCTL_SET_SIZE, PAGE) == 0);
	CHECK(ioctl(file, PMAP_IOCTL_GET_PADDR, &address) == 0 && address);
	pid = vfork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(file);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	address = 0;
	CHECK(ioctl(file, PMAP_IOCTL_GET_PADDR, &address) == 0 && address);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(file);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(ioctl(file, PMAP_IOCTL_GET_PADDR, &address) == 0);
	CHECK(close(file) == 0);
}

int main(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = connect_to(port, port);
	void *memory = allocate(PAGE);
	RMA2_VPID vpid = rma2_get_vpid(port);
	RMA2_Region *region = NULL;
	int status = 1, i;

	OK(rma2_register(port, memory, PAGE, &region));
	echo(port, 1);
	for (i = 0; i < 3; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			child(port, vpid, handle, region, memory);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
		echo(port, 2);
	}
	/* The library's physical buffers are the model's. */
	if (!on_card())
		closes();
	OK(rma2_unregister(port, region));
	OK(rma2_close(port));
	free(memory);
	return 0;
}
