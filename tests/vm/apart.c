/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of a GPU that is on another branch of the bus than the card: registering it, and a window into it, are refused
 * with a reason, where the kernel can tell (CONFIG_PCI_P2PDMA). The processor reaches it.
 */

#include "card.h"
#include "gpu.h"

int main(void)
{
	struct extoll_window_open open_ = { .count = 1, .stride = PAGE, .part_bytes = PAGE, .nodes = { 0 } };
	int fd = open("/dev/gpumap", O_RDWR);
	struct gpumap_pin pin;
	unsigned char *gpu;
	struct port port;
	uint64_t nla;

	signal(SIGBUS, on_bus_error);
	CHECK(fd >= 0);
	gpu = pinned(fd, GPU_BASE, &pin);
	CHECK(touches((void *)gpu));
	port_open(&port);
	log_lines();
	CHECK_ERRNO(mmio(&port, gpu, BYTES, &nla), EREMOTEIO);
	CHECK(log_lines() == 1);
	open_.target_address = (uintptr_t)gpu;
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_WINDOW_OPEN, &open_), EREMOTEIO);
	open_.target_address = 0;
	CHECK(ioctl(port.fd, EXTOLL_IOC_WINDOW_OPEN, &open_) == 0);
	port_close(&port);
	puts("PASS apart");
	return 0;
}
