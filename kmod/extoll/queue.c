// SPDX-License-Identifier: GPL-2.0-only
/* Buffer queues: rings of slots that the card fills and user space reads (spec 3.2). */

#include <linux/dma-mapping.h>
#include <linux/nospec.h>
#include <linux/slab.h>

#include "extoll.h"

const struct extoll_bq_regs extoll_bq_rma = {
	.general = EXTOLL_RF_BQ_RMA_GENERAL,
	.ub = EXTOLL_RF_BQ_RMA_UB,
	.dcq = EXTOLL_RF_BQ_RMA_DCQ,
	.current_segment = EXTOLL_RF_BQ_RMA_CURRENT,
	.next_segment = EXTOLL_RF_BQ_RMA_NEXT,
	.wp = EXTOLL_RF_BQ_RMA_WP,
	.rp = EXTOLL_RF_BQ_RMA_RP,
};

const struct extoll_bq_regs extoll_bq_velo = {
	.general = EXTOLL_RF_BQ_VELO_GENERAL,
	.ub = EXTOLL_RF_BQ_VELO_UB,
	.dcq = EXTOLL_RF_BQ_VELO_DCQ,
	.current_segment = EXTOLL_RF_BQ_VELO_CURRENT,
	.next_segment = EXTOLL_RF_BQ_VELO_NEXT,
	.wp = EXTOLL_RF_BQ_VELO_WP,
	.rp = EXTOLL_RF_BQ_VELO_RP,
};

static u64 queue_descriptor(const struct extoll_queue *queue, u32 segment)
{
	return extoll_bq_segment(queue->slot_bytes == 16 ? EXTOLL_BQ_SLOT_16 : EXTOLL_BQ_SLOT_128,
				 queue->segment_bytes / queue->slot_bytes, queue->dma[segment]);
}

bool extoll_queue_shape_ok(u32 bytes, u32 segment_bytes)
{
	return segment_bytes && segment_bytes % PAGE_SIZE == 0 && segment_bytes <= EXTOLL_SEGMENT_MAX &&
	       bytes && bytes % segment_bytes == 0 && bytes / segment_bytes <= EXTOLL_BQ_MAX_SEGMENTS;
}

/* Segments are physically contiguous and zeroed; they need not be neighbours. The shape is a queue's. */
int extoll_queue_alloc(struct extoll_card *card, struct extoll_queue *queue,
		       const struct extoll_bq_regs *regs, u32 slot_bytes, u32 bytes, u32 segment_bytes)
{
	struct device *dev = &card->pdev->dev;
	u32 i;

	queue->regs = regs;
	queue->slot_bytes = slot_bytes;
	queue->segment_bytes = segment_bytes;
	queue->segments = bytes / segment_bytes;
	queue->pages = kcalloc(queue->segments, sizeof(*queue->pages), GFP_KERNEL_ACCOUNT);
	queue->dma = kcalloc(queue->segments, sizeof(*queue->dma), GFP_KERNEL_ACCOUNT);
	queue->table = dma_alloc_coherent(dev, PAGE_SIZE, &queue->table_dma, GFP_KERNEL);
	if (!queue->pages || !queue->dma || !queue->table)
		goto err;
	for (i = 0; i < queue->segments; i++) {
		queue->pages[i] = extoll_pages_alloc(dev, segment_bytes, &queue->dma[i]);
		if (!queue->pages[i])
			goto err;
		queue->table[i] = cpu_to_le64(queue_descriptor(queue, i));
	}
	return 0;
err:
	extoll_queue_free(card, queue);
	return -ENOMEM;
}

void extoll_queue_free(struct extoll_card *card, struct extoll_queue *queue)
{
	struct device *dev = &card->pdev->dev;
	u32 i;

	for (i = 0; queue->pages && queue->dma && i < queue->segments && queue->pages[i]; i++)
		dma_free_pages(dev, queue->segment_bytes, queue->pages[i], queue->dma[i],
			       DMA_BIDIRECTIONAL);
	if (queue->table)
		dma_free_coherent(dev, PAGE_SIZE, queue->table, queue->table_dma);
	kfree(queue->dma);
	kfree(queue->pages);
	memset(queue, 0, sizeof(*queue));
}

static u64 queue_rp(const struct extoll_queue *queue, u8 vpid)
{
	return extoll_rf(queue->regs->rp, EXTOLL_RF_BQ_RP_STRIDE, vpid);
}

void extoll_queue_start(struct extoll_card *card, const struct extoll_queue *queue, u8 vpid)
{
	const struct extoll_bq_regs *regs = queue->regs;
	u64 at = EXTOLL_RF_BQ_STRIDE * vpid;
	u32 second = queue->segments > 1 ? 1 : 0;	/* a single segment follows itself */

	extoll_rf_write(card, regs->ub + at, extoll_queue_bytes(queue) / queue->slot_bytes - 1);
	extoll_rf_write(card, regs->dcq + at, extoll_bq_dcq(queue->table_dma, queue->segments));
	extoll_rf_write(card, regs->current_segment + at, extoll_bq_segment_valid(queue_descriptor(queue, 0)));
	extoll_rf_write(card, regs->next_segment + at, extoll_bq_segment_valid(queue_descriptor(queue, second)));
	extoll_rf_write(card, regs->wp + at, queue->segments > 2 ? 2 : 0);
	extoll_rf_write(card, queue_rp(queue, vpid), extoll_bq_rp(0, 1));
}

/* Afterwards the card has no address of the queue's memory; the read says that the writes have arrived. */
void extoll_queue_stop(struct extoll_card *card, const struct extoll_queue *queue, u8 vpid)
{
	const struct extoll_bq_regs *regs = queue->regs;
	u64 at = EXTOLL_RF_BQ_STRIDE * vpid;

	extoll_rf_write(card, regs->current_segment + at, 0);
	extoll_rf_write(card, regs->next_segment + at, 0);
	extoll_rf_write(card, regs->dcq + at, 0);
	extoll_rf_write(card, regs->ub + at, 0);
	extoll_rf_write(card, regs->wp + at, 0);
	extoll_rf_write(card, queue_rp(queue, vpid), 0);
	extoll_rf_read(card, regs->wp + at);
}

/* Whether slot `index` holds something: its last word says so for both units (spec 3.1, 7). */
bool extoll_queue_news(const struct extoll_queue *queue, u32 index)
{
	u64 at = (u64)index * queue->slot_bytes;
	const __le64 *slot;

	if (!queue->pages || at >= extoll_queue_bytes(queue))
		return false;
	/* `index` is a user's. */
	at = array_index_nospec(at, extoll_queue_bytes(queue));
	slot = page_address(queue->pages[at / queue->segment_bytes]) + at % queue->segment_bytes;
	return READ_ONCE(slot[queue->slot_bytes / 8 - 1]) != 0;
}
