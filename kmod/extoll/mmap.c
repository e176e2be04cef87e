// SPDX-License-Identifier: GPL-2.0-only
/*
 * What user space maps, each with the caching that suits it. A mapping holds the file, and the file its port, so
 * nothing mapped is freed. mmap() only looks whether there is such a thing; page faults map it, as users of the card
 * (extoll_hold). So when the card goes, and no user is left, taking away what is mapped is all there is to do.
 */

#include <linux/fadvise.h>
#include <linux/fs.h>
#include <linux/mm.h>

#include "compat.h"
#include "extoll.h"

#define MAP_PART	0x100000ull	/* distance of the first offsets in uapi/extoll/ioctl.h */
#define FAULT_BYTES	0x200000ul	/* that one page fault maps at most */

static int register_page(struct extoll_card *card, u64 offset, struct extoll_page *page)
{
	page->phys = card->bar0 + EXTOLL_BAR0_RF + offset;
	page->caching = EXTOLL_UNCACHED;
	page->length = PAGE_SIZE;
	return 0;
}

/* Pages are options (or traffic classes) in a row, those that are allowed. */
static int requester_page(struct extoll_port *port, u64 base, u32 option, u32 allowed, struct extoll_page *page)
{
	if (option >= EXTOLL_PAGE_OPTIONS)
		return -EINVAL;
	if (!(allowed & BIT(option)))
		return -EPERM;
	page->phys = port->card->bar0 + base + extoll_page_offset(option, port->vpid);
	page->caching = EXTOLL_WRITE_COMBINING;
	return 0;
}

/*
 * Segments in a row: pages of dma_alloc_pages(), which are ordinary memory, as the card is cache-coherent. What
 * dma_mmap_pages() would map, but by faults as all that is mapped.
 */
static int queue_page(const struct extoll_queue *queue, u64 offset, struct extoll_page *page)
{
	if (offset >= extoll_queue_bytes(queue))
		return -EINVAL;
	page->phys = page_to_phys(queue->pages[offset / queue->segment_bytes]) + offset % queue->segment_bytes;
	page->start = offset;
	page->length = extoll_queue_bytes(queue);
	return 0;
}

static int buffer_page(struct extoll_file *file, u64 offset, struct extoll_page *page)
{
	u32 index = offset / EXTOLL_BUFFER_MAX;
	const struct extoll_buffer *buffer = &file->buffer[index];

	/* Pairs with the release of the call that allocates it. */
	if (index >= smp_load_acquire(&file->buffers))
		return -ENXIO;
	if (offset % EXTOLL_BUFFER_MAX >= buffer->bytes)
		return -EINVAL;
	page->phys = page_to_phys(buffer->pages) + offset % EXTOLL_BUFFER_MAX;
	page->start = offset % EXTOLL_BUFFER_MAX;
	page->length = buffer->bytes;
	return 0;
}

static int rma_page(struct extoll_port *port, u64 offset, struct extoll_page *page)
{
	u64 rest = offset % MAP_PART;

	if (!(port->units & EXTOLL_UNIT_RMA))
		return -ENXIO;
	if (offset >= EXTOLL_MAP_QUEUE)
		return queue_page(&port->rma, offset - EXTOLL_MAP_QUEUE, page);
	if (offset < EXTOLL_MAP_WCB)
		return requester_page(port, EXTOLL_BAR0_RMA, rest >> PAGE_SHIFT, port->options, page);
	if (rest)
		return -EINVAL;
	if (offset == EXTOLL_MAP_WCB)
		return register_page(port->card, extoll_rf(EXTOLL_RF_RMA_WCB_STATE, EXTOLL_RF_RMA_WCB_STATE_STRIDE,
							   port->vpid), page);
	return register_page(port->card, extoll_rf(EXTOLL_RF_BQ_RMA_RP, EXTOLL_RF_BQ_RP_STRIDE, port->vpid), page);
}

static int velo_page(struct extoll_port *port, u64 offset, struct extoll_page *page)
{
	u64 rest = offset % MAP_PART;

	if (!(port->units & EXTOLL_UNIT_VELO))
		return -ENXIO;
	if (offset >= EXTOLL_MAP_VELO_MAILBOX)
		return queue_page(&port->velo, offset - EXTOLL_MAP_VELO_MAILBOX, page);
	if (offset < EXTOLL_MAP_VELO_WCB)
		return requester_page(port, EXTOLL_BAR0_VELO, rest >> PAGE_SHIFT, 0xf, page);
	if (rest)
		return -EINVAL;
	if (offset == EXTOLL_MAP_VELO_WCB)
		return register_page(port->card, extoll_rf(EXTOLL_RF_VELO_WCB_STATE, EXTOLL_RF_VELO_WCB_STATE_STRIDE,
							   port->vpid), page);
	return register_page(port->card, extoll_rf(EXTOLL_RF_BQ_VELO_RP, EXTOLL_RF_BQ_RP_STRIDE, port->vpid), page);
}

/* What lies at an offset of the file, for a user of the card: the port, if there is one, does not go meanwhile. */
static int page_at(struct extoll_file *file, u64 offset, struct extoll_page *page)
{
	struct extoll_port *port = extoll_file_port(file);

	*page = (struct extoll_page){ .caching = EXTOLL_CACHED };
	if (offset >= EXTOLL_MAP_WINDOW)
		return extoll_window_page(file, offset - EXTOLL_MAP_WINDOW, page);
	if (offset >= EXTOLL_MAP_BUFFER)
		return buffer_page(file, offset - EXTOLL_MAP_BUFFER, page);
	if (offset >= EXTOLL_MAP_TARGET)
		return extoll_target_page(file, offset - EXTOLL_MAP_TARGET, page);
	if (!port)
		return -ENXIO;
	if (port->dead)
		return -EIO;
	if (offset < EXTOLL_MAP_VELO_REQUESTER ||
	    (offset >= EXTOLL_MAP_QUEUE && offset < EXTOLL_MAP_VELO_MAILBOX))
		return rma_page(port, offset, page);
	if (offset < EXTOLL_MAP_VELO_RP + MAP_PART || offset >= EXTOLL_MAP_VELO_MAILBOX)
		return velo_page(port, offset, page);
	return -EINVAL;
}

/* Maps pages of the range; how it went with the one at `address`. The caller is a user of the card. */
static vm_fault_t fill(struct vm_area_struct *vma, unsigned long from, unsigned long end, unsigned long address)
{
	struct extoll_file *file = vma->vm_file->private_data;
	vm_fault_t result = VM_FAULT_SIGBUS, one;
	struct extoll_page page;

	for (; from < end; from += PAGE_SIZE) {
		u64 offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (from - vma->vm_start);
		int err = page_at(file, offset, &page);

		if (!err && page.hole)
			continue;
		one = err ? VM_FAULT_SIGBUS : vmf_insert_pfn(vma, from, PHYS_PFN(page.phys));
		if (from == address)
			result = one;
		if (one != VM_FAULT_NOPAGE && from >= address)
			break;
		cond_resched();
	}
	return result;
}

static vm_fault_t extoll_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct extoll_file *file = vma->vm_file->private_data;
	unsigned long address = vmf->address & PAGE_MASK, block = ALIGN_DOWN(address, FAULT_BYTES);
	vm_fault_t result;

	if (!extoll_hold(file->card))
		return VM_FAULT_SIGBUS;
	result = fill(vma, max(vma->vm_start, block), min(vma->vm_end, block + FAULT_BYTES), address);
	extoll_leave(file->card);
	return result;
}

static const struct vm_operations_struct extoll_vm_ops = { .fault = extoll_fault };

static void window_vma_open(struct vm_area_struct *vma)
{
	extoll_window_mapped(vma->vm_file->private_data, 1);
}

static void window_vma_close(struct vm_area_struct *vma)
{
	extoll_window_mapped(vma->vm_file->private_data, -1);
}

/* A window stays while it is mapped. */
static const struct vm_operations_struct window_vm_ops = {
	.open = window_vma_open,
	.close = window_vma_close,
	.fault = extoll_fault,
};

/*
 * madvise(MADV_WILLNEED): maps the pages now. Requester pages must not be touched for that, and other drivers look for
 * them in page tables.
 */
int extoll_fadvise(struct file *filp, loff_t offset, loff_t length, int advice)
{
	struct extoll_file *file = filp->private_data;
	struct vm_area_struct *vma;
	struct vma_iterator vmas;

	if (advice != POSIX_FADV_WILLNEED || offset < 0 || length < 0)
		return 0;
	vma_iter_init(&vmas, current->mm, 0);
	mmap_read_lock(current->mm);
	for_each_vma(vmas, vma) {
		u64 start = (u64)vma->vm_pgoff << PAGE_SHIFT, end = start + (vma->vm_end - vma->vm_start);
		u64 from = max(start, (u64)offset & PAGE_MASK), to = min(end, PAGE_ALIGN((u64)offset + length));

		if (vma->vm_file != filp || from >= to || !extoll_hold(file->card))
			continue;
		fill(vma, vma->vm_start + (from - start), vma->vm_start + (to - start), vma->vm_start);
		extoll_leave(file->card);
	}
	mmap_read_unlock(current->mm);
	return 0;
}

/* No page of the file stays mapped. Nobody uses the card, and nobody begins to. */
void extoll_mappings_kill(struct extoll_file *file)
{
	unmap_mapping_range(file->filp->f_mapping, 0, 0, 1);
}

/* Whether all of it can be mapped, and how. */
static int map_check(struct extoll_file *file, u64 offset, u64 bytes, struct extoll_page *page)
{
	u64 at;
	int err = page_at(file, offset, page);

	if (!err && page->length && (page->start || page->length != bytes))
		err = -EINVAL;
	for (at = PAGE_SIZE; !err && at < bytes; at += PAGE_SIZE)
		err = page_at(file, offset + at, page);
	return err;
}

static int map(struct extoll_file *file, struct vm_area_struct *vma, u64 offset)
{
	bool window = offset >= EXTOLL_MAP_WINDOW || (offset >= EXTOLL_MAP_TARGET && offset < EXTOLL_MAP_BUFFER);
	struct extoll_page page;
	int err;

	if (window)	/* before it is looked at: it stays from here on */
		extoll_window_mapped(file, 1);
	err = map_check(file, offset, vma->vm_end - vma->vm_start, &page);
	if (err) {
		if (window)	/* when mmap fails nobody calls close */
			extoll_window_mapped(file, -1);
		return err;
	}
	extoll_vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	if (page.caching == EXTOLL_UNCACHED)
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	else if (page.caching == EXTOLL_WRITE_COMBINING)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_ops = window ? &window_vm_ops : &extoll_vm_ops;
	return 0;
}

int extoll_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct extoll_file *file = filp->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	int err;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_pgoff >> (64 - PAGE_SHIFT))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	extoll_vm_flags_clear(vma, VM_MAYEXEC);
	err = extoll_enter(file->card);
	if (err)
		return err;
	err = map(file, vma, offset);
	extoll_leave(file->card);
	return err;
}
