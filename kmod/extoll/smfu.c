// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared memory functional unit: a global address window on BAR 2, and through its first part other nodes' register
 * files (spec 6, thesis 6.5).
 *
 * Where arriving stores go is one base address for the whole node, and nothing in the card bounds the offset: a
 * sender's interval does. So there is one window at a time, nodes trust each other's kernels, and users get no interval
 * longer than what lies behind every node's base.
 */

#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/mm.h>

#include "compat.h"
#include "extoll.h"

static void interval_set(struct extoll_card *card, u32 index, u64 start, u64 bytes, u32 node)
{
	u64 at = extoll_rf(0, EXTOLL_RF_SMFU_INTERVAL_STRIDE, index);

	extoll_rf_write(card, EXTOLL_RF_SMFU_INTERVAL_CONTROL + at, 0);
	extoll_rf_write(card, EXTOLL_RF_SMFU_INTERVAL_START + at, start);
	extoll_rf_write(card, EXTOLL_RF_SMFU_INTERVAL_END + at, (start + bytes - 1) & EXTOLL_SMFU_ADDRESS_MASK);
	extoll_rf_write(card, EXTOLL_RF_SMFU_INTERVAL_CONTROL + at, extoll_smfu_control(node));
}

static void interval_clear(struct extoll_card *card, u32 index)
{
	extoll_rf_write(card, extoll_rf(EXTOLL_RF_SMFU_INTERVAL_CONTROL, EXTOLL_RF_SMFU_INTERVAL_STRIDE, index), 0);
}

/* All arriving stores go to the driver's own memory until a window says otherwise (spec 6.3). */
void extoll_smfu_start(struct extoll_card *card)
{
	struct extoll_window *window = &card->window;
	u32 i;

	extoll_rf_write(card, EXTOLL_RF_SMFU_STATUS_CONTROL, 0);
	for (i = 0; i < EXTOLL_SMFU_INTERVALS; i++) {
		interval_clear(card, i);
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_SMFU_VPID_T_START_ADDR,
						EXTOLL_RF_SMFU_VPID_T_START_ADDR_STRIDE, i), 0);
	}
	if (!card->window_bytes)
		return;
	if (!window->target)
		window->target = extoll_pages_alloc(&card->pdev->dev, EXTOLL_TARGET_BYTES, &window->target_dma);
	if (!window->target) {
		dev_warn(&card->pdev->dev, "no contiguous memory for the SMFU: no windows\n");
		return;
	}
	extoll_rf_write(card, EXTOLL_RF_SMFU_O_START_ADDR, card->bus2);
	extoll_rf_write(card, EXTOLL_RF_SMFU_T_START_ADDR, window->target_dma);
	extoll_rf_write(card, EXTOLL_RF_SMFU_ADDR_MASK, 0);
	extoll_rf_write(card, EXTOLL_RF_SMFU_TRAFFIC_CLASS, EXTOLL_SMFU_TC_DEFAULT);
	extoll_rf_write(card, EXTOLL_RF_SMFU_STATUS_CONTROL, EXTOLL_PUT(1, EXTOLL_SMFU_ENABLE));
}

void extoll_smfu_stop(struct extoll_card *card)
{
	extoll_rf_write(card, EXTOLL_RF_SMFU_STATUS_CONTROL, 0);
}

void extoll_smfu_free(struct extoll_card *card)
{
	struct extoll_window *window = &card->window;

	if (window->target)
		dma_free_pages(&card->pdev->dev, EXTOLL_TARGET_BYTES, window->target, window->target_dma,
			       DMA_BIDIRECTIONAL);
	window->target = NULL;
}

/*
 * Users of all nodes reach as far into a target as their own window's parts are long. So without privilege no part is
 * longer than the targets that every node has, and no target shorter.
 */
static u64 target_bytes(const struct extoll_file *file, const struct extoll_window_open *arg)
{
	return file->privileged ? arg->part_bytes : EXTOLL_TARGET_BYTES;
}

static int window_check(const struct extoll_file *file, const struct extoll_window_open *arg)
{
	const struct extoll_card *card = file->card;
	u64 room = card->window_bytes - EXTOLL_SMFU_RRA_BYTES;

	if (!card->window.target)
		return -EOPNOTSUPP;
	if (arg->flags & ~EXTOLL_WINDOW_UNCACHED || !arg->count || arg->count > EXTOLL_WINDOW_NODES)
		return -EINVAL;
	if (!arg->stride || (arg->stride | arg->part_bytes | arg->target_address) & ~PAGE_MASK)
		return -EINVAL;
	if (!arg->part_bytes || arg->part_bytes > arg->stride || arg->stride > room / arg->count)
		return -EINVAL;
	if (!arg->target_address && arg->part_bytes > EXTOLL_TARGET_BYTES)
		return -EINVAL;
	return arg->part_bytes > target_bytes(file, arg) ? -EPERM : 0;
}

/* Under the ATU lock. The base register holds one address, so the mapping must be contiguous. */
static int target_install(struct extoll_mmio *mmio)
{
	if (mmio->runs != 1)
		return -EINVAL;
	extoll_rf_write(mmio->card, EXTOLL_RF_SMFU_T_START_ADDR, mmio->run[0].dma);
	return 0;
}

static void target_reset(struct extoll_card *card)
{
	extoll_rf_write(card, EXTOLL_RF_SMFU_T_START_ADDR, card->window.target_dma);
	extoll_rf_read(card, EXTOLL_RF_SMFU_T_START_ADDR);
}

static void target_revoked(struct extoll_mmio *mmio)
{
	target_reset(mmio->card);
}

static int target_open(struct extoll_file *file, const struct extoll_window_open *arg)
{
	struct extoll_card *card = file->card;
	struct extoll_window *window = &card->window;

	window->device = arg->target_address;
	if (!window->device) {
		memset(page_address(window->target), 0, EXTOLL_TARGET_BYTES);
		return 0;
	}
	window->mmio = (struct extoll_mmio){ .card = card, .revoke = target_revoked };
	return extoll_mmio_map(&window->mmio, arg->target_address, target_bytes(file, arg) >> PAGE_SHIFT, true,
			       target_install);
}

static int window_claim(struct extoll_file *file)
{
	struct extoll_card *card = file->card;
	int err = 0;

	spin_lock(&card->window_lock);
	if (card->window.owner)
		err = -EBUSY;
	else
		card->window.owner = file;
	spin_unlock(&card->window_lock);
	return err;
}

static void window_publish(struct extoll_card *card, struct extoll_file *owner, u64 bytes)
{
	spin_lock(&card->window_lock);
	card->window.owner = owner;
	card->window.bytes = bytes;
	spin_unlock(&card->window_lock);
}

int extoll_window_open(struct extoll_file *file, struct extoll_window_open *arg)
{
	struct extoll_card *card = file->card;
	struct extoll_window *window = &card->window;
	u64 start = card->bus2 + EXTOLL_SMFU_RRA_BYTES;
	u32 i;
	int err;

	err = window_check(file, arg);
	if (err)
		return err;
	mutex_lock(&card->smfu_lock);
	err = window_claim(file);
	if (err)
		goto out;
	err = target_open(file, arg);
	if (err) {
		window_publish(card, NULL, 0);
		goto out;
	}
	window->uncached = arg->flags & EXTOLL_WINDOW_UNCACHED;
	window->intervals = arg->count;
	window->part_bytes = arg->part_bytes;
	for (i = 0; i < arg->count; i++)
		interval_set(card, i + 1, start + i * arg->stride, arg->part_bytes, arg->nodes[i]);
	window_publish(card, file, (arg->count - 1) * arg->stride + arg->part_bytes);
	arg->window_offset = EXTOLL_SMFU_RRA_BYTES;
out:
	mutex_unlock(&card->smfu_lock);
	return err;
}

/* `force`: the file goes, and with it all mappings went. */
int extoll_window_close(struct extoll_file *file, bool force)
{
	struct extoll_card *card = file->card;
	struct extoll_window *window = &card->window;
	int err = 0;
	u32 i;

	mutex_lock(&card->smfu_lock);
	spin_lock(&card->window_lock);
	if (window->owner != file)
		err = -ENXIO;
	else if (file->window_maps && !force)
		err = -EBUSY;
	else
		window->bytes = 0;	/* no new mappings */
	spin_unlock(&card->window_lock);
	if (err)
		goto out;
	for (i = 0; i < window->intervals; i++)
		interval_clear(card, i + 1);
	if (window->device) {
		mutex_lock(&card->atu_lock);
		target_reset(card);
		mutex_unlock(&card->atu_lock);
		extoll_mmio_unmap(&window->mmio);
	}
	window_publish(card, NULL, 0);
out:
	mutex_unlock(&card->smfu_lock);
	return err;
}

static void window_vma_open(struct vm_area_struct *vma)
{
	struct extoll_file *file = vma->vm_file->private_data;

	spin_lock(&file->card->window_lock);
	file->window_maps++;
	spin_unlock(&file->card->window_lock);
}

static void window_vma_close(struct vm_area_struct *vma)
{
	struct extoll_file *file = vma->vm_file->private_data;

	spin_lock(&file->card->window_lock);
	file->window_maps--;
	spin_unlock(&file->card->window_lock);
}

static const struct vm_operations_struct window_vma_ops = {
	.open = window_vma_open,
	.close = window_vma_close,
};

/* A window that can be mapped, counted as mapped; -ENXIO, or -EINVAL when `end` lies outside. */
static int window_get(struct extoll_file *file, u64 end)
{
	struct extoll_window *window = &file->card->window;
	int err = 0;

	spin_lock(&file->card->window_lock);
	if (window->owner != file || !window->bytes)
		err = -ENXIO;
	else if (end > window->bytes)
		err = -EINVAL;
	else
		file->window_maps++;
	spin_unlock(&file->card->window_lock);
	return err;
}

/* `offset` is in BAR 2. When mmap fails nobody calls close, so the count goes back here. */
int extoll_window_mmap(struct extoll_file *file, struct vm_area_struct *vma, u64 offset)
{
	struct extoll_card *card = file->card;
	u64 bytes = vma->vm_end - vma->vm_start;
	pgprot_t prot;
	int err;

	if (offset < EXTOLL_SMFU_RRA_BYTES || offset >= card->window_bytes)
		return -EINVAL;
	err = window_get(file, offset - EXTOLL_SMFU_RRA_BYTES + bytes);
	if (err)
		return err;
	prot = card->window.uncached ? pgprot_noncached(vma->vm_page_prot) :
				       pgprot_writecombine(vma->vm_page_prot);
	err = io_remap_pfn_range(vma, vma->vm_start, (card->bar2 + offset) >> PAGE_SHIFT, bytes, prot);
	if (err)
		window_vma_close(vma);
	else
		vma->vm_ops = &window_vma_ops;
	return err;
}

int extoll_target_mmap(struct extoll_file *file, struct vm_area_struct *vma)
{
	struct extoll_window *window = &file->card->window;
	u64 bytes = vma->vm_end - vma->vm_start;
	int err = window_get(file, 0);

	if (err)
		return err;
	if (window->device || bytes > window->part_bytes)
		err = -EINVAL;
	else
		err = remap_pfn_range(vma, vma->vm_start, page_to_pfn(window->target), bytes,
				      vma->vm_page_prot);
	if (err)
		window_vma_close(vma);
	else
		vma->vm_ops = &window_vma_ops;
	return err;
}

/* Interval 0 leads to the register file of one node at a time (spec 6.4). */
static void remote_access(struct extoll_card *card, struct extoll_rf_access *arg)
{
	mutex_lock(&card->smfu_lock);
	interval_set(card, EXTOLL_SMFU_RRA_INTERVAL, card->bus2, EXTOLL_SMFU_RRA_BYTES, arg->node);
	if (arg->flags & EXTOLL_RF_WRITE)
		writeq(arg->value, card->rra + arg->offset);
	else
		arg->value = readq(card->rra + arg->offset);
	interval_clear(card, EXTOLL_SMFU_RRA_INTERVAL);
	mutex_unlock(&card->smfu_lock);
}

int extoll_rf_access(struct extoll_card *card, struct extoll_rf_access *arg)
{
	if (arg->flags & ~(EXTOLL_RF_WRITE | EXTOLL_RF_REMOTE) || arg->offset % 8 ||
	    arg->offset >= EXTOLL_BAR0_PART_BYTES)
		return -EINVAL;
	if (arg->flags & EXTOLL_RF_REMOTE) {
		if (arg->node >= EXTOLL_NODES)
			return -EINVAL;
		if (!card->rra)
			return -EOPNOTSUPP;
		remote_access(card, arg);
		return !(arg->flags & EXTOLL_RF_WRITE) && arg->value == ~0ull ? -EIO : 0;
	}
	if (arg->node)
		return -EINVAL;
	if (arg->flags & EXTOLL_RF_WRITE)
		extoll_rf_write(card, arg->offset, arg->value);
	else
		arg->value = extoll_rf_read(card, arg->offset);
	return 0;
}
