/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Physical buffers and remote registers (spec 2.1, 9.3). The program opens
 * /dev/extoll/pmap itself, as existing ones do; without the device the library gives a buffer of the model.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "pmap.h"

#define SIZE (4u << 20)
/* Scratchpad 4: no unit uses it (spec 8.2). */
#define SCRATCHPAD 0x8058

struct buffer {
	int file;
	uint8_t *memory;
	uint64_t physical;
};

static struct buffer allocate_physical(size_t size)
{
	struct buffer b;
	uint64_t value = 0;

	b.file = open(PMAP_DEVICE, O_RDWR);
	CHECK(b.file >= 0);
	CHECK(ioctl(b.file, PMAP_IOCTL_SET_TYPE, PMAP_TYPE_ALLOC) == 0);
	CHECK(ioctl(b.file, PMAP_IOCTL_SET_SIZE, size) == 0);
	b.memory = (uint8_t *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b.file, 0);
	CHECK(b.memory != MAP_FAILED);
	CHECK(ioctl(b.file, PMAP_IOCTL_GET_SIZE, &value) == 0 && value == size);
	CHECK(ioctl(b.file, PMAP_IOCTL_GET_PADDR, &b.physical) == 0 && b.physical != 0);
	return b;
}

static void free_physical(struct buffer *b, size_t size)
{
	CHECK(munmap(b->memory, size) == 0);
	CHECK(close(b->file) == 0);
}

/* Puts and gets between physical buffers: 2 and 3 notifications. */
static void transfers(unsigned int options)
{
	RMA2_Port a = open_port(), b = open_port();
	RMA2_Handle handle = connect_with(a, b, options);
	struct buffer here = allocate_physical(SIZE), there = allocate_physical(SIZE);

	fill(here.memory, SIZE, 9);
	OK(rma2_post_put_qw_direct(a, handle, here.physical, SIZE, there.physical, RMA2_ALL_NOTIFICATIONS,
				   RMA2_CMD_DEFAULT));
	next_of(a, RMA2_REQUESTER_NOTIFICATION);
	RMA2_Notification n = next_of(b, RMA2_COMPLETER_NOTIFICATION);
	CHECK(rma2_noti_get_total_size(there.physical, &n) == SIZE && !(rma2_noti_get_mode(&n) & RMA2_NOTI_TE));
	CHECK(memcmp(here.memory, there.memory, SIZE) == 0);
	fill(there.memory, SIZE, 10);
	OK(rma2_post_get_bt_direct(a, handle, here.physical + 3, SIZE - 5, there.physical + 1, RMA2_ALL_NOTIFICATIONS,
				   RMA2_CMD_DEFAULT));
	next_of(a, RMA2_REQUESTER_NOTIFICATION);
	next_of(b, RMA2_RESPONDER_NOTIFICATION);
	next_of(a, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(here.memory + 3, there.memory + 1, SIZE - 5) == 0);
	no_more(a);
	no_more(b);

	/* A region of an untranslated connection is meant by its address, which cards cannot reach it by. */
	if (!(options & RMA2_CONN_IRQ)) {
		uint8_t *memory = (uint8_t *)allocate(PAGE);
		RMA2_Region *region = NULL;

		OK(rma2_register(a, memory, PAGE, &region));
		fill(memory, PAGE, 11);
		GIVES(on_card() ? RMA2_ERR_WRONG_ARG : RMA2_SUCCESS,
		      rma2_post_put_bt(a, handle, region, 0, 100, there.physical, RMA2_COMPLETER_NOTIFICATION,
				       RMA2_CMD_DEFAULT));
		if (!on_card()) {
			next_of(b, RMA2_COMPLETER_NOTIFICATION);
			CHECK(memcmp(memory, there.memory, 100) == 0);
		}
		OK(rma2_unregister(a, region));
		free(memory);
	}
	OK(rma2_close(a));
	OK(rma2_close(b));
	free_physical(&here, SIZE);
	free_physical(&there, SIZE);
}

/* Registers of a node, through a VPID that need not be open. */
static void registers(RMA2_VPID through)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = NULL;
	struct buffer buffer = allocate_physical(PAGE);
	volatile uint64_t *word = (volatile uint64_t *)(void *)buffer.memory;
	RMA2_Notification n;

	OK(rma2_connect(port, rma2_get_nodeid(port), through,
			(RMA2_Connection_Options)(RMA2_CONN_PHYSICAL | RMA2_CONN_RRA), &handle));
	OK(rma2_post_immediate_put(port, handle, 8, 0x1234 + through, SCRATCHPAD, RMA2_REQUESTER_NOTIFICATION,
				   RMA2_CMD_DEFAULT));
	n = next_of(port, RMA2_REQUESTER_NOTIFICATION);
	CHECK(rma2_noti_get_mode(&n) & RMA2_NOTI_RRA);
	OK(rma2_post_get_bt_direct(port, handle, buffer.physical, 8, SCRATCHPAD, RMA2_COMPLETER_NOTIFICATION,
				   RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(*word == 0x1234u + through);
	/* The node's own id (spec 8.2). */
	OK(rma2_post_get_bt_direct(port, handle, buffer.physical, 8, 0x8008, RMA2_COMPLETER_NOTIFICATION,
				   RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK((*word >> 24 & 0xffff) == rma2_get_nodeid(port));
	OK(rma2_close(port));
	free_physical(&buffer, PAGE);
}

/* An address that nobody made reachable is an error, not an access. */
static void hostile(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = connect_with(port, port, RMA2_CONN_PHYSICAL);
	static const uint64_t wrong[] = { 0, 8, 0x7ffffffff000, UINT64_C(0xffffffffffffff00) };
	struct buffer buffer = allocate_physical(PAGE);
	size_t i;

	for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		OK(rma2_post_put_bt_direct(port, handle, buffer.physical, 64, wrong[i], RMA2_COMPLETER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
		{
			RMA2_Notification n = next(port);
			CHECK(rma2_noti_get_error(&n));
		}
	}
	/* A buffer that was given up is not reachable any more. */
	free_physical(&buffer, PAGE);
	OK(rma2_post_immediate_put(port, handle, 8, 1, buffer.physical, RMA2_COMPLETER_NOTIFICATION,
				   RMA2_CMD_DEFAULT));
	RMA2_Notification n = next(port);
	CHECK(rma2_noti_get_error(&n));
	OK(rma2_close(port));
}

static void refused(void)
{
	int file = open(PMAP_DEVICE, O_RDWR);
	uint64_t value = 0;

	CHECK(file >= 0);
	CHECK(ioctl(file, PMAP_IOCTL_GET_PADDR, &value) == -1 && errno == EINVAL);
	CHECK(ioctl(file, PMAP_IOCTL_SET_SIZE, (size_t)0) == -1 && errno == EINVAL);
	CHECK(ioctl(file, PMAP_IOCTL_SET_TYPE, PMAP_TYPE_PHYSICAL) == -1 && errno == EPERM);
	CHECK(ioctl(file, PMAP_IOCTL_GET_SIZE, NULL) == -1 && errno == EFAULT);
	if (on_card()) {
		CHECK(ioctl(file, PMAP_IOCTL_SET_SIZE, (size_t)SIZE + 1) == -1 && errno == EINVAL);
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED && errno == EINVAL);
		CHECK(ioctl(file, PMAP_IOCTL_SET_SIZE, (size_t)PAGE) == 0);
		CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED && errno == EINVAL);
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, PAGE) == MAP_FAILED && errno == EINVAL);
	}
	CHECK(close(file) == 0);
	CHECK(ioctl(file, PMAP_IOCTL_GET_SIZE, &value) == -1 && errno == EBADF);
}

/* On a card: without CAP_SYS_RAWIO there are neither buffers nor untranslated commands nor registers of nodes. */
static void unprivileged(void)
{
	static const unsigned int options[] = { RMA2_CONN_PHYSICAL, RMA2_CONN_TE | RMA2_CONN_RRA };
	RMA2_Port port;
	uint64_t value = 0;
	int status = -1, file, i;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		CHECK(setgid(1000) == 0 && setuid(1000) == 0);
		file = open(PMAP_DEVICE, O_RDWR);
		CHECK(file >= 0 && ioctl(file, PMAP_IOCTL_SET_SIZE, (size_t)PAGE) == 0);
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED && errno == EPERM);
		CHECK(ioctl(file, PMAP_IOCTL_GET_PADDR, &value) == -1 && errno == EPERM && value == 0);
		port = open_port();
		for (i = 0; i < 2; i++) {
			RMA2_Handle handle = connect_with(port, port, options[i]);

			GIVES(RMA2_ERR_ERROR, rma2_post_immediate_put(port, handle, 8, 1, SCRATCHPAD,
								      RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
		}
		no_more(port);
		OK(rma2_close(port));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	/* A program may have its buffer before it has a port. */
	struct buffer first = allocate_physical(PAGE);

	transfers(RMA2_CONN_PHYSICAL);
	transfers(RMA2_CONN_PHYSICAL | RMA2_CONN_IRQ | RMA2_CONN_TC2);
	registers(0);
	registers(127);
	/* Any address may be a machine's memory. */
	if (!on_card())
		hostile();
	refused();
	if (on_card())
		unprivileged();
	free_physical(&first, PAGE);
	return 0;
}
