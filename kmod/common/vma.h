/* SPDX-License-Identifier: GPL-2.0-only */
/* Flags of mappings: written as the newest kernels have it. */
#ifndef EXTOLL_VMA_H
#define EXTOLL_VMA_H

#include <linux/mm.h>
#include <linux/version.h>

/* 6.3: 1c71222e5f23 ("mm: replace vma->vm_flags direct modifications with modifier calls") */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void extoll_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void extoll_vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#else
#define extoll_vm_flags_set	vm_flags_set
#define extoll_vm_flags_clear	vm_flags_clear
#endif

#endif /* EXTOLL_VMA_H */
