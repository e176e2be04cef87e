/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between the supported kernels: written for the newest, older ones adapted here. */
#ifndef EXTOLL_COMPAT_H
#define EXTOLL_COMPAT_H

#include <linux/device/class.h>
#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/version.h>

#include "../common/vma.h"

/* 6.2: ff62b8e6588f ("driver core: make struct class.devnode() take a const *") */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define EXTOLL_DEVNODE_CONST const
#else
#define EXTOLL_DEVNODE_CONST
#endif

/* 7.x: dma_buf_attach_ops.move_notify became invalidate_mappings. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define EXTOLL_DMABUF_REVOKE invalidate_mappings
#else
#define EXTOLL_DMABUF_REVOKE move_notify
#endif

/* 6.13: cdd30ebb1b9f ("module: Convert symbol namespace to string literal") */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define EXTOLL_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#else
#define EXTOLL_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#endif

/*
 * The page frame behind a user address of a device mapping, with the mmap lock held.
 * 6.12: 6da8e9634bb7 ("mm: new follow_pfnmap API") in place of follow_pfn.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
static inline int extoll_follow(struct vm_area_struct *vma, unsigned long address,
				unsigned long *pfn, bool write)
{
	struct follow_pfnmap_args args = { .vma = vma, .address = address };
	int err = follow_pfnmap_start(&args);

	if (err)
		return err;
	*pfn = args.pfn;
	if (write && !args.writable)
		err = -EFAULT;
	follow_pfnmap_end(&args);
	return err;
}
#else
static inline int extoll_follow(struct vm_area_struct *vma, unsigned long address,
				unsigned long *pfn, bool write)
{
	if (write && !(vma->vm_flags & VM_WRITE))
		return -EFAULT;
	return follow_pfn(vma, address, pfn);
}
#endif

#endif /* EXTOLL_COMPAT_H */
