// SPDX-License-Identifier: GPL-2.0-only
/* Registered memory: which kinds there are, whose they are, and their end (spec 4.2, 14). */

#include <linux/capability.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "extoll.h"

static int region_check(const struct extoll_register *arg)
{
	u64 end;

	if (arg->flags || !arg->access || arg->access & ~(EXTOLL_ACCESS_READ | EXTOLL_ACCESS_WRITE))
		return -EINVAL;
	if (arg->kind > EXTOLL_REGION_DMABUF || (arg->kind != EXTOLL_REGION_DMABUF && arg->fd))
		return -EINVAL;
	/* The end of the last page is an address. */
	if (!arg->length || check_add_overflow(arg->address, arg->length - 1, &end) || end >= (u64)PAGE_MASK)
		return -EINVAL;
	if (arg->length > (u64)EXTOLL_GAT_TABLES * EXTOLL_GAT_ENTRIES * PAGE_SIZE - 2 * PAGE_SIZE)
		return -ENOSPC;
	return 0;
}

static struct extoll_region *region_new(struct extoll_port *port, const struct extoll_register *arg)
{
	struct extoll_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);

	if (!region)
		return NULL;
	BUILD_BUG_ON(EXTOLL_ACCESS_READ != EXTOLL_GATE_READ || EXTOLL_ACCESS_WRITE != EXTOLL_GATE_WRITE);
	region->port = port;
	region->kind = arg->kind;
	region->access = arg->access;
	region->offset = offset_in_page(arg->address);
	region->pages = (region->offset + arg->length + PAGE_SIZE - 1) >> PAGE_SHIFT;
	INIT_LIST_HEAD(&region->node);
	return region;
}

/* Gives a charge back to the process and to the port. */
static void charge_end(struct mm_struct *mm, struct extoll_port *port, u32 pages)
{
	atomic64_sub(pages, &mm->pinned_vm);
	atomic64_sub(pages, &port->charged);
}

/*
 * What the registration takes, on the account of the process that asks for it: the pages of its memory; of memory that
 * is another driver's, the pages that its translations fill. And on that of the port: a process may end before the
 * regions that it registered on a port which others hold, too, and its account ends with it.
 */
static int region_charge(struct extoll_region *region)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct extoll_port *port = region->port;
	struct mm_struct *mm = current->mm;
	u64 process, together;

	region->charged = region->kind == EXTOLL_REGION_USER ? region->pages :
			  DIV_ROUND_UP(region->pages, PAGE_SIZE / sizeof(__le64));
	process = atomic64_add_return(region->charged, &mm->pinned_vm);
	together = atomic64_add_return(region->charged, &port->charged);
	if (max(process, together) > limit && !capable(CAP_IPC_LOCK)) {
		charge_end(mm, port, region->charged);
		return -ENOMEM;
	}
	mmgrab(mm);
	region->mm = mm;
	return 0;
}

static void region_uncharge(struct extoll_region *region)
{
	charge_end(region->mm, region->port, region->charged);
	mmdrop(region->mm);
}

static void mmio_revoked(struct extoll_mmio *mmio)
{
	extoll_atu_clear_locked(container_of(mmio, struct extoll_region, mmio), true);
}

/* Under the ATU lock, with the mapping known not to have changed since it was walked. */
static int mmio_install(struct extoll_mmio *mmio)
{
	struct extoll_region *region = container_of(mmio, struct extoll_region, mmio);
	u32 page = 0, i;

	for (i = 0; i < mmio->runs; i++) {
		extoll_atu_set(region, page, mmio->run[i].dma, mmio->run[i].bytes >> PAGE_SHIFT);
		page += mmio->run[i].bytes >> PAGE_SHIFT;
	}
	region->mapped = true;
	return 0;
}

/*
 * The memory, before anything is set up for it: what a caller names but does not have costs nothing, tables for its
 * translations least of all.
 */
static int region_get(struct extoll_region *region, const struct extoll_register *arg)
{
	switch (region->kind) {
	case EXTOLL_REGION_USER:
		return extoll_umem_map(region, arg->address & PAGE_MASK);
	case EXTOLL_REGION_MMIO:
		return extoll_mmio_check(arg->address & PAGE_MASK, region->pages);
	default:
		return extoll_dmabuf_attach(region, arg->fd, arg->address, arg->length);
	}
}

static int region_install(struct extoll_region *region, const struct extoll_register *arg)
{
	switch (region->kind) {
	case EXTOLL_REGION_USER:
		extoll_umem_install(region);
		return 0;
	case EXTOLL_REGION_MMIO:
		region->mmio.card = region->port->card;
		region->mmio.revoke = mmio_revoked;
		return extoll_mmio_map(&region->mmio, arg->address & PAGE_MASK, region->pages,
				       region->access & EXTOLL_ACCESS_WRITE, mmio_install);
	default:
		return extoll_dmabuf_map(region, arg->address & PAGE_MASK);
	}
}

/* What region_get and region_install took; the card's access has ended before. */
static void region_put(struct extoll_region *region)
{
	switch (region->kind) {
	case EXTOLL_REGION_USER:
		extoll_umem_unmap(region);
		break;
	case EXTOLL_REGION_MMIO:
		extoll_mmio_unmap(&region->mmio);
		break;
	default:
		extoll_dmabuf_unmap(region);
	}
}

/* Ends the region: first the card's access, then what the kind holds. */
static void region_end(struct extoll_region *region)
{
	struct extoll_card *card = region->port->card;

	mutex_lock(&card->atu_lock);
	extoll_atu_clear_locked(region, false);
	mutex_unlock(&card->atu_lock);
	region_put(region);
	extoll_atu_release(card, region);
	region_uncharge(region);
	kfree(region);
}

int extoll_register(struct extoll_port *port, struct extoll_register *arg)
{
	struct extoll_card *card = port->card;
	struct extoll_region *region;
	int err;

	if (!(port->units & EXTOLL_UNIT_RMA))
		return -ENXIO;
	err = region_check(arg);
	if (err)
		return err;
	region = region_new(port, arg);
	if (!region)
		return -ENOMEM;
	err = region_charge(region);
	if (err)
		goto err_free;
	err = region_get(region, arg);
	if (err)
		goto err_charge;
	err = extoll_atu_reserve(card, region);
	if (err)
		goto err_put;
	err = region_install(region, arg);
	if (err)
		goto err_release;
	mutex_lock(&card->regions_lock);
	list_add(&region->node, &port->regions);
	region->live = true;
	mutex_unlock(&card->regions_lock);
	arg->nla = ((u64)region->first << PAGE_SHIFT) + region->offset;
	return 0;

err_release:
	extoll_atu_release(card, region);
err_put:
	region_put(region);
err_charge:
	region_uncharge(region);
err_free:
	kfree(region);
	return err;
}

/* The caller's own region that starts at `nla`, taken out of the tables of names; NULL if there is none. */
static struct extoll_region *region_take(struct extoll_port *port, u64 nla)
{
	struct extoll_card *card = port->card;
	struct extoll_region *region;

	if (nla >> EXTOLL_NLA_BITS)
		return NULL;
	mutex_lock(&card->regions_lock);
	region = mtree_load(&card->nlas, nla >> PAGE_SHIFT);
	if (xa_is_value(region))	/* EXTOLL_NLA_RESTS */
		region = NULL;
	if (region && (region->port != port || !region->live ||
		       nla != ((u64)region->first << PAGE_SHIFT) + region->offset))
		region = NULL;
	if (region) {
		region->live = false;
		list_del_init(&region->node);
	}
	mutex_unlock(&card->regions_lock);
	return region;
}

int extoll_unregister(struct extoll_port *port, struct extoll_unregister *arg)
{
	struct extoll_region *region;

	if (arg->flags)
		return -EINVAL;
	region = region_take(port, arg->nla);
	if (!region)
		return -ENOENT;
	arg->state = READ_ONCE(region->revoked) ? EXTOLL_REGION_WAS_REVOKED : 0;
	region_end(region);
	return 0;
}

/* The port closes: nobody registers or unregisters any more. */
void extoll_regions_drop(struct extoll_port *port)
{
	struct extoll_region *region, *next;

	list_for_each_entry_safe(region, next, &port->regions, node) {
		list_del_init(&region->node);
		region_end(region);
	}
}
