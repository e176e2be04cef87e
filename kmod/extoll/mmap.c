// SPDX-License-Identifier: GPL-2.0-only
/*
 * What user space maps, each with the caching that suits it. A mapping holds the file, and the file its port, so
 * nothing mapped is freed; when the card goes, all mappings are taken away first (extoll_files_kill).
 */

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "extoll.h"

#define MAP_PART 0x100000ull	/* distance of the first offsets in uapi/extoll/ioctl.h */

/* Pages of BAR 0, uncached or write-combining. */
static int map_bar0(struct extoll_card *card, struct vm_area_struct *vma, unsigned long address,
		    u64 offset, pgprot_t prot)
{
	return io_remap_pfn_range(vma, address, (card->bar0 + offset) >> PAGE_SHIFT, PAGE_SIZE, prot);
}

static int map_register(struct extoll_card *card, struct vm_area_struct *vma, u64 offset)
{
	if (vma->vm_end - vma->vm_start != PAGE_SIZE)
		return -EINVAL;
	return map_bar0(card, vma, vma->vm_start, EXTOLL_BAR0_RF + offset,
			pgprot_noncached(vma->vm_page_prot));
}

/* Page i of the mapping is option (or traffic class) first + i; all must be allowed. */
static int map_requester(struct extoll_port *port, struct vm_area_struct *vma, u64 base, u32 first,
			 u32 allowed)
{
	u32 pages = vma_pages(vma), i;
	int err;

	if (first >= EXTOLL_PAGE_OPTIONS || pages > EXTOLL_PAGE_OPTIONS - first)
		return -EINVAL;
	for (i = first; i < first + pages; i++)
		if (!(allowed & BIT(i)))
			return -EPERM;
	for (i = 0; i < pages; i++) {
		err = map_bar0(port->card, vma, vma->vm_start + i * PAGE_SIZE,
			       base + extoll_page_offset(first + i, port->vpid),
			       pgprot_writecombine(vma->vm_page_prot));
		if (err)
			return err;
	}
	return 0;
}

/* Segments in a row; the card is cache-coherent, so they are ordinary memory. */
static int map_queue(const struct extoll_queue *queue, struct vm_area_struct *vma, u64 offset)
{
	unsigned long address = vma->vm_start;
	u32 i;
	int err;

	if (offset || vma->vm_end - vma->vm_start != extoll_queue_bytes(queue))
		return -EINVAL;
	for (i = 0; i < queue->segments; i++) {
		err = remap_pfn_range(vma, address, page_to_pfn(queue->pages[i]), queue->segment_bytes,
				      vma->vm_page_prot);
		if (err)
			return err;
		address += queue->segment_bytes;
	}
	return 0;
}

static int map_buffer(struct extoll_file *file, struct vm_area_struct *vma, u64 offset)
{
	u32 index = offset / EXTOLL_BUFFER_MAX;
	const struct extoll_buffer *buffer = &file->buffer[index];

	/* Pairs with the release of the call that allocates it. */
	if (index >= smp_load_acquire(&file->buffers))
		return -ENXIO;
	if (offset % EXTOLL_BUFFER_MAX || vma->vm_end - vma->vm_start != buffer->bytes)
		return -EINVAL;
	return remap_pfn_range(vma, vma->vm_start, page_to_pfn(buffer->pages), buffer->bytes,
			       vma->vm_page_prot);
}

static int map_rma(struct extoll_port *port, struct vm_area_struct *vma, u64 offset)
{
	u64 rest = offset % MAP_PART;

	if (!(port->units & EXTOLL_UNIT_RMA))
		return -ENXIO;
	if (offset >= EXTOLL_MAP_QUEUE)
		return map_queue(&port->rma, vma, offset - EXTOLL_MAP_QUEUE);
	if (offset < EXTOLL_MAP_WCB)
		return map_requester(port, vma, EXTOLL_BAR0_RMA, rest >> PAGE_SHIFT, port->options);
	if (rest)
		return -EINVAL;
	if (offset == EXTOLL_MAP_WCB)
		return map_register(port->card, vma, extoll_rf(EXTOLL_RF_RMA_WCB_STATE,
				    EXTOLL_RF_RMA_WCB_STATE_STRIDE, port->vpid));
	return map_register(port->card, vma, extoll_rf(EXTOLL_RF_BQ_RMA_RP, EXTOLL_RF_BQ_RP_STRIDE,
						       port->vpid));
}

static int map_velo(struct extoll_port *port, struct vm_area_struct *vma, u64 offset)
{
	u64 rest = offset % MAP_PART;

	if (!(port->units & EXTOLL_UNIT_VELO))
		return -ENXIO;
	if (offset >= EXTOLL_MAP_VELO_MAILBOX)
		return map_queue(&port->velo, vma, offset - EXTOLL_MAP_VELO_MAILBOX);
	if (offset < EXTOLL_MAP_VELO_WCB)
		return map_requester(port, vma, EXTOLL_BAR0_VELO, rest >> PAGE_SHIFT, 0xf);
	if (rest)
		return -EINVAL;
	if (offset == EXTOLL_MAP_VELO_WCB)
		return map_register(port->card, vma, extoll_rf(EXTOLL_RF_VELO_WCB_STATE,
				    EXTOLL_RF_VELO_WCB_STATE_STRIDE, port->vpid));
	return map_register(port->card, vma, extoll_rf(EXTOLL_RF_BQ_VELO_RP, EXTOLL_RF_BQ_RP_STRIDE,
						       port->vpid));
}

static int map_offset(struct extoll_file *file, struct vm_area_struct *vma, u64 offset)
{
	struct extoll_port *port = extoll_file_port(file);

	if (offset >= EXTOLL_MAP_WINDOW)
		return extoll_window_mmap(file, vma, offset - EXTOLL_MAP_WINDOW);
	if (offset >= EXTOLL_MAP_BUFFER)
		return map_buffer(file, vma, offset - EXTOLL_MAP_BUFFER);
	if (offset >= EXTOLL_MAP_TARGET)
		return offset == EXTOLL_MAP_TARGET ? extoll_target_mmap(file, vma) : -EINVAL;
	if (!port)
		return -ENXIO;
	if (port->dead)
		return -EIO;
	if (offset < EXTOLL_MAP_VELO_REQUESTER ||
	    (offset >= EXTOLL_MAP_QUEUE && offset < EXTOLL_MAP_VELO_MAILBOX))
		return map_rma(port, vma, offset);
	if (offset < EXTOLL_MAP_VELO_RP + MAP_PART || offset >= EXTOLL_MAP_VELO_MAILBOX)
		return map_velo(port, vma, offset);
	return -EINVAL;
}

static void mappers_free(struct list_head *mappers)
{
	struct extoll_mapper *mapper, *next;

	list_for_each_entry_safe(mapper, next, mappers, node) {
		mmdrop(mapper->mm);
		kfree(mapper);
	}
}

/*
 * Notes that this process maps the file, unless that is known, and forgets those that have ended: a file may be passed
 * on for as long as it likes.
 */
static int mapper_note(struct extoll_file *file)
{
	struct extoll_mapper *mapper, *next, *new = kmalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	LIST_HEAD(over);

	if (!new)
		return -ENOMEM;
	spin_lock(&file->card->window_lock);
	list_for_each_entry_safe(mapper, next, &file->mappers, node)
		if (mapper->mm == current->mm || !atomic_read(&mapper->mm->mm_users))
			list_move(&mapper->node, &over);
	mmgrab(current->mm);
	new->mm = current->mm;
	list_add(&new->node, &file->mappers);
	spin_unlock(&file->card->window_lock);
	mappers_free(&over);
	return 0;
}

void extoll_mappers_free(struct extoll_file *file)
{
	mappers_free(&file->mappers);
}

/*
 * No page of the file stays mapped. A mapping that is just being made has its pages before it can be found; whoever
 * makes it holds the mmap lock until then. Nobody is inside the file's calls, and nobody gets in.
 */
void extoll_mappings_kill(struct extoll_file *file)
{
	struct extoll_mapper *mapper;

	list_for_each_entry(mapper, &file->mappers, node) {
		mmap_read_lock(mapper->mm);
		mmap_read_unlock(mapper->mm);
	}
	unmap_mapping_range(file->filp->f_mapping, 0, 0, 1);
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
	err = mapper_note(file) ?: map_offset(file, vma, offset);
	extoll_leave(file->card);
	return err;
}
