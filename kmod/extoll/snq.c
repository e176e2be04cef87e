// SPDX-License-Identifier: GPL-2.0-only
/*
 * System notification queue: the card's only interrupt source (spec 8.4). Triggers start a program of ours in the
 * card, which reads registers and writes an entry to memory; the interrupt's thread reads entries, never registers.
 */

#include <linux/dma-mapping.h>
#include <linux/interrupt.h>

#include "extoll.h"

#define SNQ_BYTES (EXTOLL_SNQ_ENTRIES * sizeof(struct extoll_snq_entry))
#define SNQ_PROGRAM_WORDS 256
#define SNQ_WATERMARK_ENABLE BIT(16)
#define SNQ_HTAX 0x201201ull
static const u64 snq_irq_image[] = { 0xfd2300000040002d, 0x030001000000, 0 };

enum snq_trigger {
	TRIGGER_TIMER = 7,
	TRIGGER_SMFU_TIMEOUT = 12,
	TRIGGER_GLOBAL_INTERRUPT = 16,
	TRIGGER_BQ_ERROR = 21,
	TRIGGER_WCB_ERROR = 22,
	TRIGGER_VELO_NOTI = 23,
	TRIGGER_RMA_NOTI = 25,
	TRIGGER_RMA_ERROR = 27,
	TRIGGER_NETWORK_STATE = 28,
};

#define SNQ_TRIGGERS (BIT(TRIGGER_TIMER) | BIT(TRIGGER_SMFU_TIMEOUT) | \
		      BIT(TRIGGER_GLOBAL_INTERRUPT) | BIT(TRIGGER_BQ_ERROR) | BIT(TRIGGER_WCB_ERROR) | \
		      BIT(TRIGGER_VELO_NOTI) | BIT(TRIGGER_RMA_NOTI) | BIT(TRIGGER_RMA_ERROR) | \
		      BIT(TRIGGER_NETWORK_STATE))

/* Program words (spec 8.4). A handler finds its n words in payload[7 - n] to payload[6]. */
#define SNQ_OP_IDLE	1ull
#define SNQ_OP_READ	3ull
#define SNQ_OP_NONE	4ull
#define SNQ_OP_EMIT	6ull
#define SNQ_END		(0xffull << 4)
#define SNQ_EMIT(words)	(1ull << 48 | (u64)(words) << 49)

static u64 snq_read_and_emit(u64 offset, u32 registers)
{
	return SNQ_OP_READ | SNQ_END | (u64)(7 - registers) << 16 | (u64)(registers - 1) << 19 |
	       (offset >> 3) << 22 | SNQ_EMIT(registers);
}

/* Execution starts at the trigger's number; each program is one word. */
static u64 snq_word(u32 pc)
{
	switch (pc) {
	case TRIGGER_RMA_NOTI:
		return snq_read_and_emit(EXTOLL_RF_RMA_INT_VEC, EXTOLL_RF_RMA_INT_VECS);
	case TRIGGER_GLOBAL_INTERRUPT:
	case TRIGGER_NETWORK_STATE:
		return snq_read_and_emit(EXTOLL_RF_INFO_NETWORK_STATE, 1);
	case TRIGGER_TIMER:
	case TRIGGER_SMFU_TIMEOUT:
	case TRIGGER_BQ_ERROR:
	case TRIGGER_WCB_ERROR:
	case TRIGGER_VELO_NOTI:
	case TRIGGER_RMA_ERROR:
		return SNQ_OP_EMIT | SNQ_END | SNQ_EMIT(0);
	case SNQ_PROGRAM_WORDS - 1:
		return SNQ_OP_IDLE | SNQ_END;
	default:
		return SNQ_OP_NONE | SNQ_END;
	}
}

/* The count is what tells a sleeper that it has to arm the interrupt again. */
static void snq_wake(struct extoll_card *card, u32 vpid)
{
	WRITE_ONCE(card->interrupts[vpid], card->interrupts[vpid] + 1);
	wake_up_all(&card->wait[vpid]);
}

/* Bit v of the vector: VPID v has a notification that asked for an interrupt. */
static void snq_rma_notification(struct extoll_card *card, const struct extoll_snq_entry *entry)
{
	unsigned int word, bit;

	for (word = 0; word < EXTOLL_RF_RMA_INT_VECS; word++) {
		unsigned long vector = le64_to_cpu(entry->payload[3 + word]);

		for_each_set_bit(bit, &vector, 64)
			snq_wake(card, 64 * word + bit);
	}
}

/* The trigger does not say which mailbox: all look, and arm again. */
static void snq_velo_message(struct extoll_card *card)
{
	unsigned int vpid;

	for_each_set_bit(vpid, card->vpids, EXTOLL_VPIDS)
		snq_wake(card, vpid);
}

static void snq_handle(struct extoll_card *card, const struct extoll_snq_entry *entry, u64 header)
{
	u32 trigger = header >> 48 & 0xfff;	/* pc: our programs are one word at the trigger's number */

	if (trigger >= ARRAY_SIZE(card->snq.handled)) {
		extoll_warn(card, "system notification with unknown origin %#llx\n", header);
		return;
	}
	card->snq.handled[trigger]++;
	switch (trigger) {
	case TRIGGER_RMA_NOTI:
		snq_rma_notification(card, entry);
		break;
	case TRIGGER_VELO_NOTI:
		snq_velo_message(card);
		break;
	case TRIGGER_GLOBAL_INTERRUPT:
	case TRIGGER_NETWORK_STATE:
		dev_info_ratelimited(&card->pdev->dev, "network state is %llu\n",
				     le64_to_cpu(entry->payload[6]));
		break;
	case TRIGGER_TIMER:
		break;	/* whoever set it by register access reads the count */
	case TRIGGER_SMFU_TIMEOUT:
		extoll_warn(card, "a load from the window had no answer in time\n");
		break;
	case TRIGGER_BQ_ERROR:
		extoll_warn(card, "a full notification queue lost entries\n");
		break;
	case TRIGGER_WCB_ERROR:
		extoll_warn(card, "malformed stores to a requester page\n");
		break;
	case TRIGGER_RMA_ERROR:
		extoll_warn(card, "RMA unit counted an error; see the counters in sysfs\n");
		break;
	default:
		extoll_warn(card, "system notification %u was not asked for\n", trigger);
	}
}

/*
 * At most one lap for each interrupt: what a card floods us with cannot keep the thread from being scheduled out.
 * Re-enabling the watermark raises the interrupt again if there is more.
 */
static irqreturn_t snq_thread(int irq, void *data)
{
	struct extoll_card *card = data;
	struct extoll_snq *snq = &card->snq;
	u32 left;

	for (left = EXTOLL_SNQ_ENTRIES; left > 0; left--) {
		const struct extoll_snq_entry *entry = &snq->entries[snq->next];
		u64 header = le64_to_cpu(READ_ONCE(entry->header));

		if (header >> 63 != snq->flip)
			break;
		dma_rmb();	/* the header is written last */
		snq_handle(card, entry, header);
		snq->next = (snq->next + 1) % EXTOLL_SNQ_ENTRIES;
		if (snq->next == 0)
			snq->flip ^= 1;
		snq->count++;
	}
	extoll_rf_write(card, EXTOLL_RF_SNQ_RP, snq->next);
	extoll_rf_write(card, EXTOLL_RF_SNQ_WATERMARK, (u16)(snq->count + 1) | SNQ_WATERMARK_ENABLE);
	return IRQ_HANDLED;
}

int extoll_snq_init(struct extoll_card *card)
{
	struct extoll_snq *snq = &card->snq;
	int err;

	snq->entries = dma_alloc_coherent(&card->pdev->dev, SNQ_BYTES, &snq->dma, GFP_KERNEL);
	if (!snq->entries)
		return -ENOMEM;
	err = pci_alloc_irq_vectors(card->pdev, 1, 1, PCI_IRQ_MSI | PCI_IRQ_MSIX);
	if (err < 0)
		goto err_memory;
	snq->irq = pci_irq_vector(card->pdev, 0);
	err = request_threaded_irq(snq->irq, NULL, snq_thread, IRQF_ONESHOT, "extoll", card);
	if (err)
		goto err_vectors;
	return 0;

err_vectors:
	pci_free_irq_vectors(card->pdev);
err_memory:
	dma_free_coherent(&card->pdev->dev, SNQ_BYTES, snq->entries, snq->dma);
	snq->entries = NULL;
	return err;
}

void extoll_snq_free(struct extoll_card *card)
{
	struct extoll_snq *snq = &card->snq;

	if (!snq->entries)
		return;
	free_irq(snq->irq, card);
	pci_free_irq_vectors(card->pdev);
	dma_free_coherent(&card->pdev->dev, SNQ_BYTES, snq->entries, snq->dma);
	snq->entries = NULL;
}

int extoll_snq_start(struct extoll_card *card)
{
	struct extoll_snq *snq = &card->snq;
	u32 i;

	disable_irq(snq->irq);
	memset(snq->entries, 0, SNQ_BYTES);
	snq->flip = 1;
	snq->count = 0;
	extoll_rf_write(card, EXTOLL_RF_SNQ_EXECUTE, 0);
	extoll_rf_write(card, EXTOLL_RF_SNQ_TRIGGER_ENABLE, 0);
	for (i = 0; i < SNQ_PROGRAM_WORDS; i++)
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_SNQ_PROGRAM, EXTOLL_RF_SNQ_PROGRAM_STRIDE, i),
				snq_word(i));
	for (i = 0; i < ARRAY_SIZE(snq_irq_image); i++)
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_SNQ_IRQ, EXTOLL_RF_SNQ_IRQ_STRIDE, i),
				snq_irq_image[i]);
	extoll_rf_write(card, EXTOLL_RF_SNQ_HTAX, SNQ_HTAX);
	extoll_rf_write(card, EXTOLL_RF_SNQ_MASK, EXTOLL_SNQ_ENTRIES - 1);
	extoll_rf_write(card, EXTOLL_RF_SNQ_BASE, snq->dma >> 10);
	snq->next = extoll_rf_read(card, EXTOLL_RF_SNQ_WP) % EXTOLL_SNQ_ENTRIES;
	extoll_rf_write(card, EXTOLL_RF_SNQ_RP, snq->next);
	extoll_rf_write(card, EXTOLL_RF_SNQ_WATERMARK, 1 | SNQ_WATERMARK_ENABLE);
	extoll_rf_write(card, EXTOLL_RF_SNQ_EXECUTE, 1);
	extoll_rf_write(card, EXTOLL_RF_SNQ_TRIGGER_ENABLE, SNQ_TRIGGERS);
	enable_irq(snq->irq);
	return 0;
}

void extoll_snq_stop(struct extoll_card *card)
{
	extoll_rf_write(card, EXTOLL_RF_SNQ_TRIGGER_ENABLE, 0);
	extoll_rf_write(card, EXTOLL_RF_SNQ_WATERMARK, 0);
	extoll_rf_write(card, EXTOLL_RF_SNQ_EXECUTE, 0);
	extoll_rf_read(card, EXTOLL_RF_SNQ_EXECUTE);
	synchronize_irq(card->snq.irq);
}
