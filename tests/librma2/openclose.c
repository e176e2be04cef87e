/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ports: ids, all VPIDs of a node, and 10,000 cycles without growth (spec 10.2). */
#include <dirent.h>

#include "common.h"

#define CYCLES 10000
#define PORTS 251

/* Entries of a directory of the process: open files, or threads. */
static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	CHECK(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void ids(void)
{
	RMA2_Port first = open_port(), second = open_port();

	CHECK(sizeof(RMA2_Endpoint) == 408);
	CHECK(rma2_get_nodeid(first) == rma2_get_nodeid(second));
	CHECK(rma2_get_vpid(first) != rma2_get_vpid(second));
	CHECK(first->nodeid == rma2_get_nodeid(first) && first->vpid == rma2_get_vpid(first));
	CHECK(rma2_get_node_num(first) >= 1 && rma2_get_proc_num(first) == 256);
	CHECK(rma2_get_queue_size(first) == 256 << 10 && rma2_get_queue_segment_size(first) == 64 << 10);
	CHECK(first->queue.size == 16384 && first->queue.queue != NULL);
	OK(rma2_close(first));
	GIVES(RMA2_ERR_INV_PORT, rma2_close(first));
	OK(rma2_close(second));
}

/*
 * Every VPID is given once, and again when it is free: those that were just given back come last, since packets to
 * their last owner may still be on the way.
 */
static void all_vpids(void)
{
	RMA2_Port ports[PORTS], more = NULL;
	unsigned char given[PORTS];
	int i;

	memset(given, 0, sizeof given);
	for (i = 0; i < PORTS; i++) {
		ports[i] = open_port();
		CHECK(rma2_get_vpid(ports[i]) < PORTS && !given[rma2_get_vpid(ports[i])]++);
	}
	GIVES(RMA2_ERR_PORTS_USED, rma2_open(&more));
	CHECK(more == NULL);
	i = rma2_get_vpid(ports[7]);
	OK(rma2_close(ports[7]));
	ports[7] = open_port();
	CHECK(rma2_get_vpid(ports[7]) == i);
	for (i = 0; i < PORTS; i++)
		OK(rma2_close(ports[i]));
}

static void cycle(int i)
{
	RMA2_Port port = open_port();
	RMA2_Handle handle = connect_to(port, port);
	RMA2_Descriptor *descriptor = NULL;

	OK(rma2_desc_alloc(port, &descriptor));
	OK(rma2_post_notification(port, handle, 1, (uint64_t)i, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	CHECK(next(port).word0.value == (uint64_t)i);
	if (i % 2)
		OK(rma2_disconnect(port, handle));
	OK(rma2_close(port));
}

static void no_growth(int cycles)
{
	long before, after;
	int files, threads, i;

	for (i = 0; i < cycles / 10; i++)
		cycle(i);
	before = resident_kib();
	files = entries("/proc/self/fd");
	threads = entries("/proc/self/task");
	for (i = 0; i < cycles; i++)
		cycle(i);
	after = resident_kib();
	printf("%d cycles: %ld KiB more\n", cycles, after - before);
	CHECK(after - before < 1024);
	CHECK(entries("/proc/self/fd") == files && entries("/proc/self/task") == threads);
}

int main(int argc, char **argv)
{
	ids();
	all_vpids();
	no_growth(argc > 1 ? atoi(argv[1]) : CYCLES);
	return 0;
}
