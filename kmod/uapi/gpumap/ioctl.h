/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * /dev/gpumap: GPU memory as a mapping of the process (thesis 3.3.3). Structures follow the rules of
 * extoll/ioctl.h: no padding, sizes in the call's number, outputs written on success only.
 *
 * Errors of every call: ENOTTY, EINVAL (size or flags), E2BIG, EFAULT. Opening the device gives ENODEV while no
 * driver offers nvidia_p2p_get_pages, ENOSPC when all 8,192 files are open, EDQUOT when the user, without
 * CAP_SYS_RESOURCE, has as many as the module's parameter `user_files` allows.
 */
#ifndef GPUMAP_IOCTL_H
#define GPUMAP_IOCTL_H

#include "../extoll/base.h"

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/ioctl.h>
#else
#include <sys/ioctl.h>
#endif

#define GPUMAP_IOC_MAGIC	0xe8
#define GPUMAP_PAGE		0x10000u	/* granularity of addresses and lengths */

/*
 * Pin GPU memory and give it a place in the device file: mmap `length` bytes (or a part) at `offset`, shared. The
 * mapping is write-combining, and filled by page faults. It ends, with every access to it (SIGBUS), when the memory is
 * freed on the GPU.
 *
 * EINVAL: address or length 0 or not a multiple of GPUMAP_PAGE, or no such GPU memory; ENOMEM; ENOSPC: the file's offsets
 * are used up; EIO: the GPU driver's answer does not fit the question; or what the GPU driver says.
 */
struct gpumap_pin {
	__u64 gpu_address;
	__u64 length;
	__u64 offset;			/* out */
};
EXTOLL_ASSERT(sizeof(struct gpumap_pin) == 24, "gpumap_pin");

/* End a pin, and its mappings with it. ENOENT: no pin of this file starts at `offset`. */
struct gpumap_unpin {
	__u64 offset;
};
EXTOLL_ASSERT(sizeof(struct gpumap_unpin) == 8, "gpumap_unpin");

#define GPUMAP_IOC_PIN		_IOWR(GPUMAP_IOC_MAGIC, 0, struct gpumap_pin)
#define GPUMAP_IOC_UNPIN	_IOWR(GPUMAP_IOC_MAGIC, 1, struct gpumap_unpin)

#endif /* GPUMAP_IOCTL_H */
