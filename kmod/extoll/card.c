// SPDX-License-Identifier: GPL-2.0-only
/* A card's registers and memory, and bring-up of its units in the order and with the values of the specification. */

#include <linux/dma-mapping.h>
#include <linux/io.h>

#include "extoll.h"

#define LOCK_BYTES (EXTOLL_LOCKS_PER_VPID * EXTOLL_VPIDS * EXTOLL_LOCK_BYTES)

/* HTAX bridge: control word of an interval (spec 1.2). */
#define HTAX_CONTROL(channels, one_hot, port) \
	((u64)(channels) << 14 | (u64)(one_hot) << 5 | (u64)(port) << 1 | 1)
#define HTAX_POSTED		1
#define HTAX_NON_POSTED		2
#define HTAX_TO_HOST_POSTED	0
#define HTAX_TO_HOST_NON_POSTED	1
#define HTAX_TO_RF		3
#define HTAX_TO_VELO		4
#define HTAX_TO_RMA		5
#define HTAX_TO_SMFU		8
#define HTAX_GENERAL		(0x8000 | 8 << 4 | 8)	/* enable, default port SMFU */

/* Where the specification says "enable" and no bit: the one of VELO's time limit (spec 7) [inferred]. */
#define BQ_TIMEOUT_ENABLE	BIT_ULL(EXTOLL_VELO_TIMEOUT_ENABLE_SHIFT)

/* Network ports n0 to n3 as the driver opens them (spec 8.2). */
static const u8 network_ports[EXTOLL_RF_NP_PORTS] = { 81, 0xff, 0xff, 0xff };

int extoll_map_bars(struct extoll_card *card)
{
	struct pci_dev *pdev = card->pdev;

	if (pci_resource_len(pdev, 0) < EXTOLL_BAR0_BYTES) {
		dev_err(&pdev->dev, "BAR 0 has %pa bytes, less than the three units need\n",
			&(resource_size_t){ pci_resource_len(pdev, 0) });
		return -ENODEV;
	}
	card->bar0 = pci_resource_start(pdev, 0);
	card->bus0 = pci_bus_address(pdev, 0);
	card->rf = ioremap(card->bar0 + EXTOLL_BAR0_RF, EXTOLL_BAR0_PART_BYTES);
	if (!card->rf)
		return -ENOMEM;
	/* Else a mapping of several pages, which do not lie in a row in the BAR, is not write-combining on x86. */
	if (devm_arch_io_reserve_memtype_wc(&pdev->dev, card->bar0 + EXTOLL_BAR0_VELO, EXTOLL_BAR0_PART_BYTES) ||
	    devm_arch_io_reserve_memtype_wc(&pdev->dev, card->bar0 + EXTOLL_BAR0_RMA, EXTOLL_BAR0_PART_BYTES))
		dev_warn(&pdev->dev, "requester pages are not write-combining: posting is slower\n");
	if (pci_resource_len(pdev, 2) <= EXTOLL_SMFU_RRA_BYTES)
		return 0;	/* no window: the rest works */
	card->bar2 = pci_resource_start(pdev, 2);
	card->bus2 = pci_bus_address(pdev, 2);
	card->window_bytes = pci_resource_len(pdev, 2);
	card->rra = ioremap(card->bar2, EXTOLL_SMFU_RRA_BYTES);
	return card->rra ? 0 : -ENOMEM;
}

void extoll_unmap_bars(struct extoll_card *card)
{
	if (card->rra)
		iounmap(card->rra);
	if (card->rf)
		iounmap(card->rf);
}

/* Memory that the card uses as long as the driver is bound. */
int extoll_card_memory(struct extoll_card *card)
{
	struct device *dev = &card->pdev->dev;

	card->locks = dma_alloc_coherent(dev, LOCK_BYTES, &card->locks_dma, GFP_KERNEL);
	card->flush_word = dma_alloc_coherent(dev, PAGE_SIZE, &card->flush_dma, GFP_KERNEL);
	if (card->locks && card->flush_word)
		return 0;
	extoll_card_memory_free(card);
	return -ENOMEM;
}

void extoll_card_memory_free(struct extoll_card *card)
{
	struct device *dev = &card->pdev->dev;

	extoll_atu_free(card);
	if (card->flush_word)
		dma_free_coherent(dev, PAGE_SIZE, card->flush_word, card->flush_dma);
	if (card->locks)
		dma_free_coherent(dev, LOCK_BYTES, card->locks, card->locks_dma);
	card->flush_word = NULL;
	card->locks = NULL;
}

static void htax_interval(struct extoll_card *card, u32 index, u64 start, u64 bytes,
			  u32 channels, u32 unit, u32 port)
{
	u64 base = index * EXTOLL_RF_HTAX_STRIDE;

	/* Both bounds are exclusive, in pages. */
	extoll_rf_write(card, EXTOLL_RF_HTAX_UPPER + base, (start + bytes) >> PAGE_SHIFT);
	extoll_rf_write(card, EXTOLL_RF_HTAX_LOWER + base, (start >> PAGE_SHIFT) - 1);
	extoll_rf_write(card, EXTOLL_RF_HTAX_CONTROL + base, HTAX_CONTROL(channels, BIT(unit), port));
}

/* Which bus addresses go to which unit (spec 1.2). */
static void htax_start(struct extoll_card *card)
{
	u64 rest = card->bus2 + EXTOLL_SMFU_RRA_BYTES;

	htax_interval(card, 0, card->bus0 + EXTOLL_BAR0_RF, EXTOLL_BAR0_PART_BYTES,
		      HTAX_POSTED | HTAX_NON_POSTED, HTAX_TO_RF, HTAX_TO_RF);
	htax_interval(card, 1, card->bus0 + EXTOLL_BAR0_VELO, EXTOLL_BAR0_PART_BYTES,
		      HTAX_POSTED, HTAX_TO_VELO, HTAX_TO_VELO);
	htax_interval(card, 2, card->bus0 + EXTOLL_BAR0_RMA, EXTOLL_BAR0_PART_BYTES,
		      HTAX_POSTED, HTAX_TO_RMA, HTAX_TO_RMA);
	if (card->window_bytes) {
		u64 bytes = card->window_bytes - EXTOLL_SMFU_RRA_BYTES;

		htax_interval(card, 5, card->bus2, EXTOLL_SMFU_RRA_BYTES,
			      HTAX_POSTED | HTAX_NON_POSTED, HTAX_TO_SMFU, HTAX_TO_RF);
		htax_interval(card, 3, rest, bytes, HTAX_POSTED, HTAX_TO_SMFU, HTAX_TO_HOST_POSTED);
		htax_interval(card, 4, rest, bytes, HTAX_NON_POSTED, HTAX_TO_SMFU,
			      HTAX_TO_HOST_NON_POSTED);
	}
	extoll_rf_write(card, EXTOLL_RF_HTAX_GENERAL, HTAX_GENERAL);
}

/* 1: 64, 2: 128, 4: 256, 8: 512 bytes (spec 8.3). */
static u64 payload_code(int bytes)
{
	return clamp(bytes, 64, 512) / 64;
}

/* RMA: fragments, bus requests, locks, time limits (spec 2.4, 3.2, 5, 8.3). */
static void rma_start(struct extoll_card *card)
{
	struct pci_dev *pdev = card->pdev;

	memset(card->locks, 0, LOCK_BYTES);
	extoll_rf_write(card, EXTOLL_RF_RMA_CONFIG,
			EXTOLL_PUT(EXTOLL_MTU, EXTOLL_RMA_CONFIG_MTU) |
			EXTOLL_PUT(payload_code(pcie_get_mps(pdev)), EXTOLL_RMA_CONFIG_WRITE) |
			EXTOLL_PUT(payload_code(pcie_get_readrq(pdev)), EXTOLL_RMA_CONFIG_READ));
	extoll_rf_write(card, EXTOLL_RF_RMA_LOCK_BASE, card->locks_dma);
	extoll_rf_write(card, EXTOLL_RF_RMA_LOCK_CONFIG,
			extoll_lock_config(EXTOLL_LOCKS_PER_VPID, EXTOLL_VPIDS));
	extoll_rf_write(card, EXTOLL_RF_RMA_BQ_TIMEOUT, EXTOLL_BQ_TIMEOUT_DEFAULT | BQ_TIMEOUT_ENABLE);
	extoll_rf_write(card, EXTOLL_RF_RMA_WCB_TIMEOUT,
			EXTOLL_PUT(EXTOLL_WCB_TIMEOUT_DEFAULT, EXTOLL_WCB_TIMEOUT_VALUE) |
			EXTOLL_PUT(1, EXTOLL_WCB_TIMEOUT_ACTIVE));
}

/* VELO: time limits, slots of 128 bytes (spec 7). */
static void velo_start(struct extoll_card *card)
{
	extoll_rf_write(card, EXTOLL_RF_VELO_WCB_TIMEOUT,
			EXTOLL_PUT(EXTOLL_WCB_TIMEOUT_DEFAULT, EXTOLL_WCB_TIMEOUT_VALUE) |
			EXTOLL_PUT(1, EXTOLL_WCB_TIMEOUT_ACTIVE));
	extoll_rf_write(card, EXTOLL_RF_VELO_TIMEOUT,
			EXTOLL_PUT(EXTOLL_VELO_TIMEOUT_DEFAULT, EXTOLL_VELO_TIMEOUT_VALUE) |
			EXTOLL_PUT(1, EXTOLL_VELO_TIMEOUT_ENABLE));
	extoll_rf_write(card, EXTOLL_RF_VELO_COMPLETER,
			EXTOLL_PUT(EXTOLL_VELO_COMPLETER_PORT_DEFAULT, EXTOLL_VELO_COMPLETER_PORT) |
			EXTOLL_PUT(1, EXTOLL_VELO_COMPLETER_128));
}

/* No VPID is open, no queue exists, nothing is translated, whatever ran before (spec 3.2, 4.2). */
static void nothing_open(struct extoll_card *card)
{
	u32 i;

	for (i = 0; i < EXTOLL_VPIDS; i++) {
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_RMA_VPID_TABLE, EXTOLL_RF_RMA_VPID_TABLE_STRIDE, i), 0);
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_VELO_RX, EXTOLL_RF_VELO_DESC_STRIDE, i), 0);
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_BQ_RMA_CURRENT, EXTOLL_RF_BQ_STRIDE, i), 0);
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_BQ_RMA_NEXT, EXTOLL_RF_BQ_STRIDE, i), 0);
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_BQ_VELO_CURRENT, EXTOLL_RF_BQ_STRIDE, i), 0);
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_BQ_VELO_NEXT, EXTOLL_RF_BQ_STRIDE, i), 0);
	}
	for (i = 0; i < EXTOLL_GAT_TABLES; i++)
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_ATU_GAT, EXTOLL_RF_ATU_GAT_STRIDE, i),
				card->gat[i].entries ? extoll_gat_register(card->gat[i].dma) : 0);
}

/* All ports are closed, or the card is out of reach, where writes do nothing. */
void extoll_card_stop(struct extoll_card *card)
{
	u32 i;

	for (i = 0; i < EXTOLL_RF_NP_PORTS; i++)
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_NP_GENERAL, EXTOLL_RF_NP_STRIDE, i), 0);
	extoll_smfu_stop(card);
	extoll_snq_stop(card);
	extoll_rf_write(card, EXTOLL_RF_BQ_RMA_GENERAL, 0);
	extoll_rf_write(card, EXTOLL_RF_BQ_VELO_GENERAL, 0);
	extoll_rf_write(card, EXTOLL_RF_ATU_ENABLE, 0);
	extoll_rf_read(card, EXTOLL_RF_INFO_DRIVER);	/* the writes have arrived */
}

/* The units do nothing, whatever ran before. Takes registers only: the card may not have access to memory yet. */
int extoll_card_clear(struct extoll_card *card)
{
	if (extoll_rf_read(card, EXTOLL_RF_INFO_DRIVER) == ~0ull) {
		dev_err(&card->pdev->dev, "the register file does not answer\n");
		return -ENODEV;
	}
	htax_start(card);
	extoll_card_stop(card);
	nothing_open(card);
	extoll_rf_read(card, EXTOLL_RF_INFO_DRIVER);	/* the writes have arrived */
	return 0;
}

/* After extoll_card_clear. */
int extoll_card_start(struct extoll_card *card)
{
	u32 i;
	int err;

	rma_start(card);
	velo_start(card);
	extoll_rf_write(card, EXTOLL_RF_BQ_RMA_GENERAL, EXTOLL_PUT(1, EXTOLL_BQ_ENABLE));
	extoll_rf_write(card, EXTOLL_RF_BQ_VELO_GENERAL, EXTOLL_PUT(1, EXTOLL_BQ_ENABLE));
	extoll_rf_write(card, EXTOLL_RF_ATU_ENABLE, 1);
	err = extoll_snq_start(card);
	if (err)
		return err;
	extoll_smfu_start(card);
	for (i = 0; i < EXTOLL_RF_NP_PORTS; i++)
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_NP_GENERAL, EXTOLL_RF_NP_STRIDE, i),
				network_ports[i]);
	extoll_card_live(card);
	return 0;
}
