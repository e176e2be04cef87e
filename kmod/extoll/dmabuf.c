// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that another driver exports as a dma-buf: today's way to GPU memory (spec 13). It is not pinned; when the
 * exporter moves or withdraws it, the card's access ends at once and the region is dead.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>

#include "compat.h"
#include "extoll.h"

/* What the card may do with it, as the DMA API says it. */
static enum dma_data_direction dmabuf_direction(const struct extoll_region *region)
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

static void dmabuf_unmap_locked(struct extoll_region *region)
{
	dma_resv_assert_held(region->attach->dmabuf->resv);
	if (region->sgt)
		dma_buf_unmap_attachment(region->attach, region->sgt, dmabuf_direction(region));
	region->sgt = NULL;
}

/*
 * The exporter holds the reservation lock. It may wait for the mapping's end (those of 7.x do), so that does not wait
 * for whoever registered it.
 */
static void dmabuf_revoke(struct dma_buf_attachment *attach)
{
	struct extoll_region *region = attach->importer_priv;
	struct extoll_card *card = region->port->card;

	mutex_lock(&card->atu_lock);
	extoll_atu_clear_locked(region, true);
	mutex_unlock(&card->atu_lock);
	dmabuf_unmap_locked(region);
}

static const struct dma_buf_attach_ops dmabuf_ops = {
	.allow_peer2peer = true,
	.EXTOLL_DMABUF_REVOKE = dmabuf_revoke,
};

/* Who may only read a buffer has the card only read it. */
static int dmabuf_check(const struct extoll_region *region, const struct dma_buf *dmabuf, u64 offset, u64 length)
{
	if (region->access & EXTOLL_ACCESS_WRITE && !(dmabuf->file->f_mode & FMODE_WRITE))
		return -EACCES;
	/* Whole pages must belong to the buffer. */
	return PAGE_ALIGN(offset + length) > dmabuf->size ? -EINVAL : 0;
}

int extoll_dmabuf_attach(struct extoll_region *region, int fd, u64 offset, u64 length)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct dma_buf_attachment *attach;
	int err;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	err = dmabuf_check(region, dmabuf, offset, length);
	if (err) {
		dma_buf_put(dmabuf);
		return err;
	}
	attach = dma_buf_dynamic_attach(dmabuf, &region->port->card->pdev->dev, &dmabuf_ops, region);
	if (IS_ERR(attach)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(attach);
	}
	region->attach = attach;
	return 0;
}

/* The region's pages among those of the buffer, from byte `offset` on. */
static int dmabuf_install(struct extoll_region *region, u64 offset)
{
	u64 at = 0, end = offset + ((u64)region->pages << PAGE_SHIFT);
	struct scatterlist *sg;
	unsigned int i;

	for_each_sgtable_dma_sg(region->sgt, sg, i) {
		u64 bytes = sg_dma_len(sg);
		u64 from = max(at, offset), to = min(at + bytes, end);

		if ((sg_dma_address(sg) | bytes) & ~PAGE_MASK)
			return -EINVAL;
		if (from < to)
			extoll_atu_set(region, (from - offset) >> PAGE_SHIFT,
				       sg_dma_address(sg) + (from - at), (to - from) >> PAGE_SHIFT);
		at += bytes;
	}
	return at >= end ? 0 : -EINVAL;
}

int extoll_dmabuf_map(struct extoll_region *region, u64 offset)
{
	struct extoll_card *card = region->port->card;
	struct dma_resv *resv = region->attach->dmabuf->resv;
	struct sg_table *sgt;
	long left;
	int err;

	err = dma_resv_lock_interruptible(resv, NULL);
	if (err)
		return err;
	sgt = dma_buf_map_attachment(region->attach, dmabuf_direction(region));
	if (IS_ERR(sgt)) {
		dma_resv_unlock(resv);
		return PTR_ERR(sgt);
	}
	region->sgt = sgt;
	/* The exporter may still be moving it to where it says it is. */
	left = dma_resv_wait_timeout(resv, DMA_RESV_USAGE_KERNEL, true, 10 * HZ);
	mutex_lock(&card->atu_lock);
	err = left > 0 ? dmabuf_install(region, offset) : left ?: -ETIMEDOUT;
	region->mapped = true;
	if (err)
		extoll_atu_clear_locked(region, false);
	mutex_unlock(&card->atu_lock);
	dma_resv_unlock(resv);
	return err;
}

/* The card's access has ended before; the region may not have been mapped. */
void extoll_dmabuf_unmap(struct extoll_region *region)
{
	struct dma_buf *dmabuf = region->attach->dmabuf;

	dma_resv_lock(dmabuf->resv, NULL);
	dmabuf_unmap_locked(region);
	dma_resv_unlock(dmabuf->resv);
	dma_buf_detach(dmabuf, region->attach);
	dma_buf_put(dmabuf);
}
