// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address translation: the tables in memory that the card walks, and telling it to forget (spec 4). Only entries of
 * 4 KiB are written: larger ones have not been confirmed on a card.
 */

#include <linux/delay.h>
#include <linux/dma-mapping.h>

#include "extoll.h"

#define NLA_PAGES	((unsigned long)EXTOLL_GAT_TABLES * EXTOLL_GAT_ENTRIES)
#define FLUSH_PAGES	1024u		/* of one command */
#define FLUSH_MOST	(16 * FLUSH_PAGES)	/* beyond, forgetting the whole VPID is cheaper */
#define FLUSH_TIMEOUT_MS 10000

/*
 * Zeroed memory for a table. Of a table of several regions it is on the account of the cgroup whose region is the
 * first; the first table is nobody's, since it stays.
 */
static __le64 *table_alloc(struct extoll_card *card, u32 index, dma_addr_t *dma)
{
	gfp_t gfp = (index ? GFP_KERNEL_ACCOUNT : GFP_KERNEL) | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;
	__le64 *entries = dma_alloc_coherent(&card->pdev->dev, EXTOLL_GAT_BYTES, dma, gfp);

	if (entries && *dma & (EXTOLL_GAT_BYTES - 1)) {
		dma_free_coherent(&card->pdev->dev, EXTOLL_GAT_BYTES, entries, *dma);
		return NULL;
	}
	return entries;
}

/*
 * A table for one more region; its GAT register is written once the table is zeroed. The lock is dropped meanwhile: who
 * is at the limit of a cgroup waits for memory, and others must not wait for that.
 */
static int table_get(struct extoll_card *card, u32 index)
{
	struct extoll_gat *gat = &card->gat[index];
	__le64 *entries;
	dma_addr_t dma;

	lockdep_assert_held(&card->gat_lock);
	if (!gat->entries) {
		mutex_unlock(&card->gat_lock);
		entries = table_alloc(card, index, &dma);
		mutex_lock(&card->gat_lock);
		if (gat->entries) {	/* somebody else was quicker */
			if (entries)
				dma_free_coherent(&card->pdev->dev, EXTOLL_GAT_BYTES, entries, dma);
		} else if (entries) {
			gat->dma = dma;
			WRITE_ONCE(gat->entries, entries);
			extoll_rf_write(card, extoll_rf(EXTOLL_RF_ATU_GAT, EXTOLL_RF_ATU_GAT_STRIDE, index),
					extoll_gat_register(dma));
		} else {
			return -ENOMEM;
		}
	}
	gat->regions++;
	return 0;
}

static void table_free(struct extoll_card *card, struct extoll_gat *gat)
{
	dma_free_coherent(&card->pdev->dev, EXTOLL_GAT_BYTES, gat->entries, gat->dma);
	gat->entries = NULL;
}

/* Taking out may need memory, too; a region that is freed must not stay in the tree. */
static void nla_store(struct extoll_card *card, u32 first, u32 pages, void *entry)
{
	MA_STATE(mas, &card->nlas, first, first + pages - 1);

	mutex_lock(&card->regions_lock);	/* lookups look at regions under it only */
	mas_lock(&mas);
	mas_store_gfp(&mas, entry, GFP_KERNEL | __GFP_NOFAIL);
	mas_unlock(&mas);
	mutex_unlock(&card->regions_lock);
}

/* The range that has rested longest is free; false: none rests. */
static bool nla_wake(struct extoll_card *card)
{
	struct extoll_resting *oldest = &card->resting[card->resting_first];

	if (!card->resting_ranges)
		return false;
	nla_store(card, oldest->first, oldest->pages, NULL);
	card->resting_pages -= oldest->pages;
	card->resting_first = (card->resting_first + 1) % EXTOLL_NLA_REST_RANGES;
	card->resting_ranges--;
	return true;
}

/* It rests, as EXTOLL_NLA_REST_PAGES says. */
static void nla_give(struct extoll_card *card, const struct extoll_region *region)
{
	u32 at, pages = region->pages;

	lockdep_assert_held(&card->gat_lock);
	while (card->resting_ranges == EXTOLL_NLA_REST_RANGES ||
	       (card->resting_ranges && card->resting_pages - card->resting[card->resting_first].pages + pages >=
					EXTOLL_NLA_REST_PAGES))
		nla_wake(card);
	at = (card->resting_first + card->resting_ranges) % EXTOLL_NLA_REST_RANGES;
	card->resting[at] = (struct extoll_resting){ .first = region->first, .pages = pages };
	card->resting_ranges++;
	card->resting_pages += pages;
	nla_store(card, region->first, pages, EXTOLL_NLA_RESTS);
}

/* The lowest range that is free. (mtree_alloc_range does not work on an empty tree before 6.4.) */
static int nla_find(struct extoll_card *card, struct extoll_region *region)
{
	MA_STATE(mas, &card->nlas, 0, 0);
	int err;

	mas_lock(&mas);
	err = mas_empty_area(&mas, 1, NLA_PAGES - 1, region->pages);	/* NLA 0 is never given out */
	mas_unlock(&mas);
	region->first = mas.index;
	return err;
}

static int nla_take(struct extoll_card *card, struct extoll_region *region)
{
	int err;

	lockdep_assert_held(&card->gat_lock);
	while (nla_find(card, region))
		if (!nla_wake(card))
			return -ENOSPC;
	mutex_lock(&card->regions_lock);	/* the tree changes in place: no lookup meanwhile */
	err = mtree_insert_range(&card->nlas, region->first, region->first + region->pages - 1, region, GFP_KERNEL);
	mutex_unlock(&card->regions_lock);
	return err;
}

static __le64 *gat_entry(struct extoll_card *card, u32 nla_page)
{
	return &card->gat[nla_page / EXTOLL_GAT_ENTRIES].entries[nla_page % EXTOLL_GAT_ENTRIES];
}

/* Translate `pages` pages of the region, from its page `page` on, to memory at `dma`. Installing needs no flush. */
void extoll_atu_set(struct extoll_region *region, u32 page, dma_addr_t dma, u32 pages)
{
	struct extoll_card *card = region->port->card;
	u64 gate = extoll_gate(region->port->vpid, region->access, dma, EXTOLL_PAGE_4K);
	u32 at = region->first + page;

	for (; pages > 0; pages--, at++, gate += PAGE_SIZE)
		WRITE_ONCE(*gat_entry(card, at), cpu_to_le64(gate));
	dma_wmb();
}

static void atu_command(struct extoll_card *card, u64 command)
{
	extoll_rf_write(card, EXTOLL_RF_ATU_COMMAND, command);
}

/* Bus mastering is off: the card cannot write the word, nor anything else. */
static bool flush_pointless(struct extoll_card *card)
{
	/* Pairs with extoll_card_fail(). */
	return smp_load_acquire(&card->cut_off);
}

/* The card writes the word when all that began before is over (spec 4.2). */
static void flush_wait(struct extoll_card *card)
{
	unsigned long end = jiffies + msecs_to_jiffies(FLUSH_TIMEOUT_MS);
	u32 looks = 0;

	lockdep_assert_held(&card->atu_lock);
	if (flush_pointless(card))
		return;
	WRITE_ONCE(*card->flush_word, 0);
	atu_command(card, extoll_atu_notify(card->flush_dma));
	while (!READ_ONCE(*card->flush_word)) {
		if (time_after(jiffies, end)) {
			extoll_card_fail(card, "no answer to a flush of address translations");
			return;
		}
		if (++looks < 100) {
			cpu_relax();
			continue;
		}
		usleep_range(10, 100);
		if (flush_pointless(card))
			return;
		if (looks % 64 == 0 && extoll_card_there(card, extoll_rf_read(card, EXTOLL_RF_INFO_DRIVER)))
			return;
	}
	dma_rmb();
}

/*
 * Take the region's translations away and wait until the card has finished with its memory. A card that does not
 * answer loses its access to all memory, so when this returns the pages may go, in any case.
 */
void extoll_atu_clear_locked(struct extoll_region *region, bool revoke)
{
	struct extoll_card *card = region->port->card;
	u32 done, count;

	lockdep_assert_held(&card->atu_lock);
	if (!region->mapped)
		return;
	region->mapped = false;
	region->revoked = revoke;
	for (done = 0; done < region->pages; done++)
		WRITE_ONCE(*gat_entry(card, region->first + done), 0);
	dma_wmb();
	if (region->pages > FLUSH_MOST)
		atu_command(card, extoll_atu_flush_vpid(region->port->vpid));
	else
		for (done = 0; done < region->pages; done += count) {
			count = min(region->pages - done, FLUSH_PAGES);
			atu_command(card, extoll_atu_flush_pages(region->first + done, count));
		}
	flush_wait(card);
}

/* Nothing that the card began for the VPID is under way any more. */
void extoll_atu_quiesce(struct extoll_card *card, u8 vpid)
{
	mutex_lock(&card->atu_lock);
	atu_command(card, extoll_atu_flush_vpid(vpid));
	flush_wait(card);
	mutex_unlock(&card->atu_lock);
}

static u32 first_table(const struct extoll_region *region)
{
	return region->first / EXTOLL_GAT_ENTRIES;
}

/* The one behind the last. */
static u32 end_table(const struct extoll_region *region)
{
	return (region->first + region->pages - 1) / EXTOLL_GAT_ENTRIES + 1;
}

/* Whether nothing is left in a table that is there. The first stays: most regions come and go in it. */
static bool table_over(const struct extoll_card *card, u32 index)
{
	return index && card->gat[index].entries && !card->gat[index].regions;
}

/* Tables `from` to `end` have a region less. Nobody has entries in those that go; but anybody may name addresses. */
static void tables_put(struct extoll_card *card, u32 from, u32 end)
{
	bool over = false;
	u32 i, page;

	lockdep_assert_held(&card->gat_lock);
	mutex_lock(&card->atu_lock);
	for (i = from; i < end; i++) {
		card->gat[i].regions--;
		if (!table_over(card, i))
			continue;
		over = true;
		extoll_rf_write(card, extoll_rf(EXTOLL_RF_ATU_GAT, EXTOLL_RF_ATU_GAT_STRIDE, i), 0);
		for (page = 0; page < EXTOLL_GAT_ENTRIES; page += FLUSH_PAGES)
			atu_command(card, extoll_atu_flush_pages(i * EXTOLL_GAT_ENTRIES + page, FLUSH_PAGES));
	}
	if (over)
		flush_wait(card);
	mutex_unlock(&card->atu_lock);
	for (i = from; i < end; i++)
		if (table_over(card, i))
			table_free(card, &card->gat[i]);
}

/* A range of logical addresses for the region, with its tables. */
int extoll_atu_reserve(struct extoll_card *card, struct extoll_region *region)
{
	u32 table;
	int err;

	mutex_lock(&card->gat_lock);
	err = nla_take(card, region);
	if (err)
		goto out;
	for (table = first_table(region); table < end_table(region); table++) {
		err = table_get(card, table);
		if (!err)
			continue;
		tables_put(card, first_table(region), table);
		nla_give(card, region);
		break;
	}
out:
	mutex_unlock(&card->gat_lock);
	return err;
}

/* After extoll_atu_clear_locked. */
void extoll_atu_release(struct extoll_card *card, struct extoll_region *region)
{
	mutex_lock(&card->gat_lock);
	nla_give(card, region);
	tables_put(card, first_table(region), end_table(region));
	mutex_unlock(&card->gat_lock);
}

/* Only the first table may be there. */
void extoll_atu_free(struct extoll_card *card)
{
	if (card->gat[0].entries)
		table_free(card, &card->gat[0]);
}
