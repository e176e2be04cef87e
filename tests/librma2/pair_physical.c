/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Physical buffers and registers of another process's node (spec 2.1, 9.3), on one node or on two.
 * A remote put has 1 notification at the target, a remote get 2 at the origin.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "job.h"
#include "pmap.h"

#define SIZE (4u << 20)
#define OTHER (1 - job.me)
#define SCRATCHPAD 0x8058

static struct job job;
static int origin, file;
static uint8_t *buffer;
static uint64_t mine, theirs;

static void set_up(void)
{
	file = open(PMAP_DEVICE, O_RDWR);
	CHECK(file >= 0 && ioctl(file, PMAP_IOCTL_SET_TYPE, PMAP_TYPE_ALLOC) == 0);
	CHECK(ioctl(file, PMAP_IOCTL_SET_SIZE, (size_t)SIZE) == 0);
	buffer = (uint8_t *)mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(buffer != MAP_FAILED && ioctl(file, PMAP_IOCTL_GET_PADDR, &mine) == 0);
	exchange(&job, mine);
	theirs = job.told[OTHER];
}

static void same_as(uint32_t size, uint32_t seed)
{
	uint8_t *expected = (uint8_t *)malloc(size);

	fill(expected, size, seed);
	CHECK(memcmp(buffer, expected, size) == 0);
	free(expected);
}

static void transfers(unsigned int options, uint32_t size)
{
	RMA2_Handle handle = NULL;
	RMA2_Notification n;

	if (!origin)
		memset(buffer, 0xee, SIZE);
	synchronise(&job);
	if (origin) {
		OK(rma2_connect(job.port, node_of(&job, OTHER), vpid_of(&job, OTHER), (RMA2_Connection_Options)options,
				&handle));
		fill(buffer, size, 77);
		OK(rma2_post_put_bt_direct(job.port, handle, mine, size, theirs, RMA2_COMPLETER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
	} else {
		n = arrival(&job, OTHER, RMA2_BT_PUT, RMA2_COMPLETER_NOTIFICATION, 0);
		CHECK(rma2_noti_get_total_size(mine, &n) == size);
		CHECK(!(rma2_noti_get_mode(&n) & RMA2_NOTI_TE));
		CHECK(!(rma2_noti_get_mode(&n) & RMA2_NOTI_IRQ) == !(options & RMA2_CONN_IRQ));
		same_as(size, 77);
		fill(buffer, size, 78);
	}
	synchronise(&job);
	if (origin) {
		OK(rma2_post_get_qw_direct(job.port, handle, mine, size, theirs, RMA2_REQCOMPL_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
		arrival(&job, OTHER, RMA2_GETS, RMA2_REQUESTER_NOTIFICATION, 0);
		arrival(&job, OTHER, RMA2_GETS, RMA2_COMPLETER_NOTIFICATION, 0);
		same_as(size, 78);
		OK(rma2_disconnect(job.port, handle));
	}
	synchronise(&job);
}

/* The notification of a command to a VPID that need not be open; others of the peer may stand before it. */
static void done(RMA2_Command command, RMA2_Notification_Spec kind)
{
	RMA2_Notification *n = NULL;

	OK(rma2_noti_match_block(job.port, command, RMA2_NODEID_ANY, RMA2_VPID_ANY, kind, RMA2_ANY_NLA, 0, &n));
	CHECK(rma2_noti_get_error(n) == 0);
	OK(rma2_noti_free(job.port, n));
}

/* The other node's registers, through VPIDs that need not be open. */
static void registers(RMA2_VPID through)
{
	volatile uint64_t *word = (volatile uint64_t *)(void *)buffer;
	RMA2_Handle handle = NULL;

	if (origin) {
		OK(rma2_connect(job.port, node_of(&job, OTHER), through,
				(RMA2_Connection_Options)(RMA2_CONN_PHYSICAL | RMA2_CONN_RRA), &handle));
		OK(rma2_post_immediate_put(job.port, handle, 8, 0xabcd00u + through, SCRATCHPAD,
					   RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
		done(RMA2_IMMEDIATE_PUT, RMA2_REQUESTER_NOTIFICATION);
		OK(rma2_post_get_bt_direct(job.port, handle, mine, 8, SCRATCHPAD, RMA2_COMPLETER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
		done(RMA2_GETS, RMA2_COMPLETER_NOTIFICATION);
		CHECK(*word == 0xabcd00u + through);
		/* It is that node's: its id stands in 0x8008 (spec 8.2). */
		OK(rma2_post_get_bt_direct(job.port, handle, mine, 8, 0x8008, RMA2_COMPLETER_NOTIFICATION,
					   RMA2_CMD_DEFAULT));
		done(RMA2_GETS, RMA2_COMPLETER_NOTIFICATION);
		CHECK((*word >> 24 & 0xffff) == node_of(&job, OTHER));
		OK(rma2_disconnect(job.port, handle));
	}
	synchronise(&job);
}

int main(void)
{
	job = join_job();
	CHECK(job.size == 2);
	origin = job.me == 0;
	set_up();
	transfers(RMA2_CONN_PHYSICAL, SIZE);
	transfers(RMA2_CONN_PHYSICAL, 8);
	transfers(RMA2_CONN_PHYSICAL | RMA2_CONN_IRQ | RMA2_CONN_TC1, 65536);
	registers(0);
	registers(127);
	no_more(job.port);
	CHECK(munmap(buffer, SIZE) == 0 && close(file) == 0);
	OK(rma2_close(job.port));
	return 0;
}
