// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of other devices, by walking the page table of a mapping that their driver made (thesis 3.3.3). What lies
 * behind such a mapping is for the mapping's driver to say, so only mappings of drivers that are known to stay valid
 * until they are unmapped are taken, and any change of the mapping ends the card's access at once.
 */

#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "extoll.h"

static char *mmio_modules = "";
module_param(mmio_modules, charp, 0444);
MODULE_PARM_DESC(mmio_modules, "Modules besides gpumap whose mappings may be registered, separated by commas");

#ifdef CONFIG_MMU_NOTIFIER

#define MMIO_TRIES 16

/* Whether `name` is one of the comma-separated names of `list`. */
static bool named_in(const char *name, const char *list)
{
	size_t length = strlen(name);
	const char *at = list;

	while (at && *at) {
		const char *end = strchrnul(at, ',');

		if ((size_t)(end - at) == length && !strncmp(at, name, length))
			return true;
		at = *end ? end + 1 : end;
	}
	return false;
}

static bool vma_allowed(const struct vm_area_struct *vma)
{
	struct module *owner;

	if (!(vma->vm_flags & VM_PFNMAP) || !(vma->vm_flags & VM_SHARED) || !vma->vm_file)
		return false;
	owner = vma->vm_file->f_op->owner;
	return owner && (!strcmp(module_name(owner), "gpumap") ||
			 named_in(module_name(owner), mmio_modules));
}

/* Whether mappings that may be registered cover the range; their pages are looked at later. */
int extoll_mmio_check(u64 address, u64 pages)
{
	u64 end = address + (pages << PAGE_SHIFT);
	struct vm_area_struct *vma;
	int err = 0;

	mmap_read_lock(current->mm);
	while (!err && address < end) {
		vma = vma_lookup(current->mm, address);
		if (!vma)
			err = -EFAULT;
		else if (!vma_allowed(vma))
			err = -EPERM;
		else
			address = vma->vm_end;
	}
	mmap_read_unlock(current->mm);
	return err;
}

static int run_add(struct extoll_mmio *mmio, unsigned long pfn, u32 *room)
{
	phys_addr_t phys = PFN_PHYS(pfn);
	struct extoll_run *last = mmio->runs ? &mmio->run[mmio->runs - 1] : NULL;

	if (last && last->phys + last->bytes == phys) {
		last->bytes += PAGE_SIZE;
		return 0;
	}
	if (mmio->runs == *room) {
		u32 more = max(2 * *room, 16u);
		struct extoll_run *run = krealloc_array(mmio->run, more, sizeof(*run),
							GFP_KERNEL_ACCOUNT);

		if (!run)
			return -ENOMEM;
		mmio->run = run;
		*room = more;
	}
	mmio->run[mmio->runs++] = (struct extoll_run){ .phys = phys, .bytes = PAGE_SIZE };
	return 0;
}

/*
 * The page frame at an address of `*vma`, which is looked up when needed. Pages may not be there before somebody
 * touches them; a fault may let go of the lock meanwhile.
 */
static int mmio_pfn(struct vm_area_struct **vma, u64 address, unsigned long *pfn, bool write)
{
	bool unlocked = false;
	int err;

	if (!*vma || address >= (*vma)->vm_end)
		*vma = vma_lookup(current->mm, address);
	if (!*vma)
		return -EFAULT;
	if (!vma_allowed(*vma))
		return -EPERM;
	err = extoll_follow(*vma, address, pfn, write);
	if (err != -EINVAL)
		return err;
	if (fixup_user_fault(current->mm, address, write ? FAULT_FLAG_WRITE : 0, &unlocked))
		return -EFAULT;
	if (!unlocked)
		return extoll_follow(*vma, address, pfn, write);
	*vma = NULL;
	return -EAGAIN;
}

/* The page frames of the whole range, which may be several mappings; ordinary memory is refused. */
static int mmio_walk(struct extoll_mmio *mmio, u64 address, u64 pages, bool write)
{
	u64 end = address + (pages << PAGE_SHIFT);
	struct vm_area_struct *vma = NULL;
	unsigned long pfn;
	u32 room = 0;
	int err = 0;

	mmio->runs = 0;
	kfree(mmio->run);
	mmio->run = NULL;
	mmap_read_lock(current->mm);
	for (; !err && address < end; address += PAGE_SIZE) {
		cond_resched();
		err = mmio_pfn(&vma, address, &pfn, write);
		if (!err && pfn_valid(pfn))
			err = -EPERM;
		if (!err)
			err = run_add(mmio, pfn, &room);
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
	}
	mmap_read_unlock(current->mm);
	return err;
}

#ifdef CONFIG_PCI_P2PDMA

/* The PCI device that has the run in a BAR, with a reference; NULL if none has. */
static struct pci_dev *owner_of(const struct extoll_run *run)
{
	const struct resource wanted = DEFINE_RES_MEM(run->phys, run->bytes);
	struct pci_dev *pdev = NULL;
	int bar;

	for_each_pci_dev(pdev)
		for (bar = 0; bar < PCI_STD_NUM_BARS; bar++)
			if (resource_type(&pdev->resource[bar]) == IORESOURCE_MEM &&
			    resource_contains(&pdev->resource[bar], &wanted))
				return pdev;
	return NULL;
}

/*
 * Whether the card's accesses get there. Where the way leads through a host bridge that does not pass them on, writes
 * vanish and reads give anything, without an error.
 */
static int run_reachable(struct extoll_card *card, const struct extoll_run *run)
{
	struct pci_dev *owner = owner_of(run);
	int err = 0;

	if (!owner) {
		extoll_warn(card, "memory at %pa is in no BAR of a PCI device: no way to it is known\n", &run->phys);
		return -EREMOTEIO;
	}
	if (pci_p2pdma_distance(owner, &card->pdev->dev, false) < 0) {
		extoll_warn(card, "no way to memory of %s: it has no bridge in common with the card but a host bridge that is not known to pass accesses on, or ACS redirects them to one\n",
			    pci_name(owner));
		err = -EREMOTEIO;
	}
	pci_dev_put(owner);
	return err;
}

#else /* the kernel does not know */

static int run_reachable(struct extoll_card *card, const struct extoll_run *run)
{
	return 0;
}

#endif

static int mmio_reachable(struct extoll_mmio *mmio)
{
	int err = 0;
	u32 i;

	for (i = 0; !err && i < mmio->runs; i++)
		err = run_reachable(mmio->card, &mmio->run[i]);
	return err;
}

static void mmio_dma_unmap(struct extoll_mmio *mmio, u32 runs)
{
	while (runs-- > 0)
		dma_unmap_resource(&mmio->card->pdev->dev, mmio->run[runs].dma, mmio->run[runs].bytes,
				   DMA_BIDIRECTIONAL, EXTOLL_DMA_ATTRS);
}

static int mmio_dma_map(struct extoll_mmio *mmio)
{
	struct device *dev = &mmio->card->pdev->dev;
	u32 i;

	for (i = 0; i < mmio->runs; i++) {
		struct extoll_run *run = &mmio->run[i];

		run->dma = dma_map_resource(dev, run->phys, run->bytes, DMA_BIDIRECTIONAL, EXTOLL_DMA_ATTRS);
		if (dma_mapping_error(dev, run->dma)) {
			mmio_dma_unmap(mmio, i);
			return -EIO;
		}
	}
	return 0;
}

static bool mmio_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			    unsigned long seq)
{
	struct extoll_mmio *mmio = container_of(notifier, struct extoll_mmio, notifier);

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&mmio->card->atu_lock);
	mmu_interval_set_seq(notifier, seq);
	if (!mmio->revoked) {
		mmio->revoked = true;
		mmio->revoke(mmio);
	}
	mutex_unlock(&mmio->card->atu_lock);
	return true;
}

static const struct mmu_interval_notifier_ops mmio_ops = { .invalidate = mmio_invalidate };

/* Walk, map, and install unless the mapping changed meanwhile: then once more. */
static int mmio_try(struct extoll_mmio *mmio, u64 address, u64 pages, bool write,
		    int (*install)(struct extoll_mmio *mmio))
{
	unsigned long seq = mmu_interval_read_begin(&mmio->notifier);
	int err = mmio_walk(mmio, address, pages, write);

	if (!err)
		err = mmio_reachable(mmio);
	if (err)
		return err;
	err = mmio_dma_map(mmio);
	if (err)
		return err;
	mutex_lock(&mmio->card->atu_lock);
	if (mmu_interval_read_retry(&mmio->notifier, seq)) {
		err = -EAGAIN;
	} else {
		mmio->revoked = false;
		err = install(mmio);
	}
	mutex_unlock(&mmio->card->atu_lock);
	if (err)
		mmio_dma_unmap(mmio, mmio->runs);
	return err;
}

int extoll_mmio_map(struct extoll_mmio *mmio, u64 address, u64 pages, bool write,
		    int (*install)(struct extoll_mmio *mmio))
{
	u32 tries;
	int err;

	if (!access_ok((void __user *)(unsigned long)address, pages << PAGE_SHIFT))
		return -EFAULT;
	mmio->revoked = true;	/* nothing to revoke before it is installed */
	err = mmu_interval_notifier_insert(&mmio->notifier, current->mm, address, pages << PAGE_SHIFT, &mmio_ops);
	if (err)
		return err;
	for (tries = 0, err = -EAGAIN; err == -EAGAIN && tries < MMIO_TRIES; tries++)
		err = mmio_try(mmio, address, pages, write, install);
	if (!err) {
		mmio->watched = true;
		return 0;
	}
	mmu_interval_notifier_remove(&mmio->notifier);
	kfree(mmio->run);
	mmio->run = NULL;
	return err;
}

/* The card's access has ended before. */
void extoll_mmio_unmap(struct extoll_mmio *mmio)
{
	if (!mmio->watched)
		return;
	mmu_interval_notifier_remove(&mmio->notifier);
	mmio_dma_unmap(mmio, mmio->runs);
	kfree(mmio->run);
	mmio->run = NULL;
	mmio->watched = false;
}

#else /* without MMU notifiers the card's access could outlive the mapping */

int extoll_mmio_check(u64 address, u64 pages)
{
	return -EOPNOTSUPP;
}

int extoll_mmio_map(struct extoll_mmio *mmio, u64 address, u64 pages, bool write,
		    int (*install)(struct extoll_mmio *mmio))
{
	return -EOPNOTSUPP;
}

void extoll_mmio_unmap(struct extoll_mmio *mmio)
{
}

#endif
