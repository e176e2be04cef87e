/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* /dev/gpustub: what a test asks of the stand-in for a GPU driver. */
#ifndef GPUMAP_STUB_H
#define GPUMAP_STUB_H

#include "../extoll/base.h"

#ifdef __KERNEL__
#include <linux/ioctl.h>
#else
#include <sys/ioctl.h>
#endif

#define GPUSTUB_BASE	0x700000000000ull	/* "GPU address" of the BAR's first byte */
#define GPUSTUB_PAGE	0x10000u

/* Memory as a dma-buf: the call gives its descriptor. EINVAL: not whole pages of the memory. */
struct gpustub_export {
	uint64_t gpu_address;
	uint64_t length;
};
EXTOLL_ASSERT(sizeof(struct gpustub_export) == 16, "gpustub_export");

#define GPUSTUB_IOC_EXPORT	_IOW(0xe9, 0, struct gpustub_export)
#define GPUSTUB_IOC_EXPORT_READ	_IOW(0xe9, 1, struct gpustub_export)	/* for reading only */

#endif /* GPUMAP_STUB_H */
