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
#include <linux/io.h>
#include <linux/log2.h>
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

/* Addresses that meet no interval lead to node 0 by their offset alone. */
static void mask_clear(struct extoll_card *card)
{
	extoll_rf_write(card, EXTOLL_RF_SMFU_ADDR_MASK, 0);
	extoll_rf_write(card, EXTOLL_RF_SMFU_N_NODE_OFFSET, 0);
}

/* Address bits name the nodes (spec 6.2). Parts lie behind remote register access, so those of the first are not 0. */
static void mask_set(struct extoll_card *card, const struct extoll_window_open *arg)
{
	u64 mask = (roundup_pow_of_two(card->window_bytes) - 1) & ~(arg->stride - 1);

	extoll_rf_write(card, EXTOLL_RF_SMFU_N_NODE_OFFSET,
			(u16)(arg->nodes[0] - EXTOLL_SMFU_RRA_BYTES / arg->stride));
	extoll_rf_write(card, EXTOLL_RF_SMFU_ADDR_MASK, mask);
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
	mask_clear(card);
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

/* Bytes of BAR 2 that windows may have. */
static u64 window_room(const struct extoll_card *card)
{
	return card->window_bytes - EXTOLL_SMFU_RRA_BYTES;
}

/*
 * Users of all nodes reach as far into a target as their own window's parts are long. So without privilege no part is
 * longer than the targets that every node has, and no target shorter.
 */
static u64 target_bytes(const struct extoll_file *file, const struct extoll_window_open *arg)
{
	return file->privileged ? arg->part_bytes : EXTOLL_TARGET_BYTES;
}

/* Whether the nodes can be told by intervals, or by address bits. */
static bool nodes_fit(const struct extoll_window_open *arg)
{
	if (!(arg->flags & EXTOLL_WINDOW_MASK))
		return arg->count <= EXTOLL_WINDOW_NODES;
	return is_power_of_2(arg->stride) && arg->stride <= EXTOLL_SMFU_RRA_BYTES &&
	       arg->count <= EXTOLL_NODES - arg->nodes[0];
}

static int window_check(const struct extoll_file *file, const struct extoll_window_open *arg)
{
	const struct extoll_card *card = file->card;

	if (!card->window.target)
		return -EOPNOTSUPP;
	if (arg->flags & ~(EXTOLL_WINDOW_UNCACHED | EXTOLL_WINDOW_MASK) || !arg->count || !nodes_fit(arg))
		return -EINVAL;
	if (!arg->stride || (arg->stride | arg->part_bytes | arg->target_address) & ~PAGE_MASK)
		return -EINVAL;
	if (!arg->part_bytes || arg->part_bytes > arg->stride || arg->stride > window_room(card) / arg->count)
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
	/* Pages are mapped one by one, and x86 makes such a page write-combining only if that was reserved. */
	window->combining = !window->uncached && !arch_io_reserve_memtype_wc(card->bar2 + EXTOLL_SMFU_RRA_BYTES,
									     window_room(card));
	window->intervals = arg->flags & EXTOLL_WINDOW_MASK ? 0 : arg->count;
	window->part_bytes = arg->part_bytes;
	window->stride = arg->stride;
	for (i = 0; i < window->intervals; i++)
		interval_set(card, i + 1, start + i * arg->stride, arg->part_bytes, arg->nodes[i]);
	if (!window->intervals)
		mask_set(card, arg);
	window_publish(card, file, (arg->count - 1) * arg->stride + arg->part_bytes);
	arg->window_offset = EXTOLL_SMFU_RRA_BYTES;
out:
	mutex_unlock(&card->smfu_lock);
	return err;
}

bool extoll_window_of(struct extoll_file *file)
{
	bool own;

	spin_lock(&file->card->window_lock);
	own = file->card->window.owner == file;
	spin_unlock(&file->card->window_lock);
	return own;
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
	if (!window->intervals)
		mask_clear(card);
	if (window->combining)
		arch_io_free_memtype_wc(card->bar2 + EXTOLL_SMFU_RRA_BYTES, window_room(card));
	window->combining = false;
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

void extoll_window_mapped(struct extoll_file *file, int change)
{
	spin_lock(&file->card->window_lock);
	file->window_maps += change;
	spin_unlock(&file->card->window_lock);
}

/* `offset` is in BAR 2. */
int extoll_window_page(struct extoll_file *file, u64 offset, struct extoll_page *page)
{
	struct extoll_card *card = file->card;
	struct extoll_window *window = &card->window;
	int err = 0;

	if (offset < EXTOLL_SMFU_RRA_BYTES || offset >= card->window_bytes)
		return -EINVAL;
	spin_lock(&card->window_lock);
	if (window->owner != file || !window->bytes)
		err = -ENXIO;
	else if (offset - EXTOLL_SMFU_RRA_BYTES >= window->bytes)
		err = -EINVAL;
	/* A store that meets no interval goes to node 0, by its address alone, wherever that leads there (spec 6.2). */
	page->hole = !err && (offset - EXTOLL_SMFU_RRA_BYTES) % window->stride >= window->part_bytes;
	page->phys = card->bar2 + offset;
	page->caching = window->uncached ? EXTOLL_UNCACHED : EXTOLL_WRITE_COMBINING;
	spin_unlock(&card->window_lock);
	return err;
}

/* `offset` is in the memory of the driver where arriving stores go. */
int extoll_target_page(struct extoll_file *file, u64 offset, struct extoll_page *page)
{
	struct extoll_window *window = &file->card->window;
	int err = 0;

	spin_lock(&file->card->window_lock);
	if (window->owner != file || !window->bytes)
		err = -ENXIO;
	else if (window->device || offset >= window->part_bytes)
		err = -EINVAL;
	else
		page->phys = page_to_phys(window->target) + offset;
	spin_unlock(&file->card->window_lock);
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
