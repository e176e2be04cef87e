/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of /dev/gpumap, and the GPU memory that they have pinned. */
#ifndef GPUMAP_H
#define GPUMAP_H

#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>

#include "../uapi/gpumap/ioctl.h"
#include "nv_p2p.h"

#define GPUMAP_FILE_BITS	50	/* of the offsets of one file; those above say which file it is */
#define GPUMAP_FILE_BYTES	BIT_ULL(GPUMAP_FILE_BITS)

struct gpumap_file {
	struct list_head node;		/* of all files */
	kuid_t user;			/* whose limit it counts for */
	/*
	 * Pins: page faults look at them under it, so whoever has marked one under it has only to take away what faults
	 * have mapped before. Not held over calls into the GPU driver, whose callback takes it.
	 */
	struct mutex lock;
	struct list_head pins;
	u64 base;			/* of its offsets: all files' mappings are in one inode */
	u64 next;			/* from base on */
	struct file *filp;
	struct nvidia_p2p gpu;
};

/* Memory in a row in the GPU's BAR. */
struct gpumap_run {
	u64 from;			/* in the pin */
	u64 bytes;
	phys_addr_t phys;
	bool reserved;			/* as write-combining */
};

struct pin {
	struct list_head node;		/* in file->pins */
	struct gpumap_file *file;
	u32 id;				/* by which the GPU driver's callback finds it */
	u64 gpu_address, length;
	u64 offset;			/* once it has a place */
	/* The GPU driver's; while `file->lock` is held and `revoked` is not set, it stays. */
	struct nvidia_p2p_page_table *table;
	int (*free_table)(struct nvidia_p2p_page_table *table);
	u32 runs;
	struct gpumap_run *run;
	bool placed;			/* under file->lock: it may have been mapped */
	bool revoked;			/* under file->lock: the memory is gone */
	bool called;			/* under the lock of ids: the callback is at work, and ends with `over` */
	bool abandoned;			/* likewise: the GPU driver did not let go of it, and its owner has gone */
	struct completion over;
};

int gpumap_pin_new(struct gpumap_file *file, u64 gpu_address, u64 length, u64 *offset);
struct pin *gpumap_pin_at(struct gpumap_file *file, u64 offset);
int gpumap_pin_end(struct gpumap_file *file, u64 offset);
vm_fault_t gpumap_pin_fault(const struct pin *pin, struct vm_fault *vmf);

#endif /* GPUMAP_H */
