// SPDX-License-Identifier: GPL-2.0-only
/* Memory of a process: pinned for as long as the card may reach it. */

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "extoll.h"

#define CHUNK_PAGES (PAGE_SIZE / sizeof(struct page *))

/*
 * Pages are taken as for writing wherever the mapping allows it, even if others may only read: so no later
 * copy-on-write parts the process from what the card sees. Mappings without write access are taken as they are.
 */
static int umem_pin_chunk(unsigned long address, u32 pages, bool write, struct page **list)
{
	int got = pin_user_pages_fast(address, pages, FOLL_WRITE | FOLL_LONGTERM, list);

	if (got == -EFAULT && !write)
		got = pin_user_pages_fast(address, pages, FOLL_LONGTERM, list);
	return got;
}

static int umem_pin(struct extoll_region *region, unsigned long address, struct page **list)
{
	bool write = region->access & EXTOLL_ACCESS_WRITE;
	u32 left = region->pages;
	int got, err;

	while (left > 0) {
		cond_resched();
		if (signal_pending(current))
			return -EINTR;
		got = umem_pin_chunk(address, min_t(u32, left, CHUNK_PAGES), write, list);
		if (got <= 0)
			return got ?: -EFAULT;
		left -= got;
		address += (unsigned long)got * PAGE_SIZE;
		err = sg_alloc_append_table_from_pages(&region->table, list, got, 0,
						       (unsigned long)got * PAGE_SIZE, UINT_MAX & PAGE_MASK,
						       left, GFP_KERNEL_ACCOUNT);
		if (err) {
			unpin_user_pages(list, got);
			return err;
		}
	}
	return 0;
}

static void umem_unpin(struct extoll_region *region)
{
	struct scatterlist *sg;
	unsigned int i;

	/* All entries, not only those that the DMA mapping joined. */
	for_each_sgtable_sg(&region->table.sgt, sg, i) {
		unpin_user_page_range_dirty_lock(sg_page(sg), DIV_ROUND_UP(sg->length, PAGE_SIZE),
						 region->access & EXTOLL_ACCESS_WRITE);
		cond_resched();
	}
	sg_free_append_table(&region->table);
}

static enum dma_data_direction umem_direction(const struct extoll_region *region)
{
	switch (region->access) {
	case EXTOLL_ACCESS_READ:
		return DMA_TO_DEVICE;
	case EXTOLL_ACCESS_WRITE:
		return DMA_FROM_DEVICE;
	default:
		return DMA_BIDIRECTIONAL;
	}
}

/* The pages get the region's logical addresses. */
void extoll_umem_install(struct extoll_region *region)
{
	struct scatterlist *sg;
	unsigned int i;
	u32 page = 0;

	for_each_sgtable_dma_sg(&region->table.sgt, sg, i) {
		u32 pages = sg_dma_len(sg) >> PAGE_SHIFT;

		extoll_atu_set(region, page, sg_dma_address(sg), pages);
		page += pages;
	}
	region->mapped = true;
}

/* `address` is a page's. */
int extoll_umem_map(struct extoll_region *region, u64 address)
{
	struct device *dev = &region->port->card->pdev->dev;
	struct page **list;
	int err;

	if (!access_ok((void __user *)(unsigned long)address, (u64)region->pages << PAGE_SHIFT))
		return -EFAULT;
	list = (struct page **)__get_free_page(GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	err = umem_pin(region, address, list);
	free_page((unsigned long)list);
	if (!err)
		err = dma_map_sgtable(dev, &region->table.sgt, umem_direction(region), EXTOLL_DMA_ATTRS);
	if (err)
		umem_unpin(region);
	return err;
}

void extoll_umem_unmap(struct extoll_region *region)
{
	dma_unmap_sgtable(&region->port->card->pdev->dev, &region->table.sgt, umem_direction(region),
			  EXTOLL_DMA_ATTRS);
	umem_unpin(region);
}
