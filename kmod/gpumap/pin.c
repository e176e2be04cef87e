// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pins: GPU memory from nvidia_p2p_get_pages to its end, which its owner brings about, or the GPU driver's callback, or
 * both at the same time.
 */

#include <linux/io.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "gpumap.h"

#define FAULT_BYTES	0x200000ull	/* that one page fault maps at most */

/*
 * The GPU driver is given a number, not an address: should it call back late, when the owner has been told that the
 * memory is put back, it finds nothing.
 */
static DEFINE_XARRAY_ALLOC1(pins);
static DEFINE_MUTEX(pins_lock);		/* who ends a pin */
static u32 next_id;

static void runs_free(struct pin *pin)
{
	while (pin->runs-- > 0)
		if (pin->run[pin->runs].reserved)
			arch_io_free_memtype_wc(pin->run[pin->runs].phys, pin->run[pin->runs].bytes);
	pin->runs = 0;
	kvfree(pin->run);
	pin->run = NULL;
}

/*
 * Where the pin's memory lies in the BAR. Pages of it are mapped one by one, and x86 makes such a page write-combining
 * only if that was reserved. -EIO: what the GPU driver says does not fit what was asked for.
 */
static int runs_of(struct pin *pin)
{
	const struct nvidia_p2p_page_table *table = pin->table;
	u64 bytes = nvidia_p2p_page_bytes(table), from;
	u32 i;

	if (!nvidia_p2p_compatible(table) || !bytes || table->entries * bytes < pin->length)
		return -EIO;
	pin->run = kvcalloc(DIV_ROUND_UP(pin->length, bytes), sizeof(*pin->run), GFP_KERNEL_ACCOUNT);
	if (!pin->run)
		return -ENOMEM;
	for (from = 0, i = 0; from < pin->length; from += bytes, i++) {
		struct gpumap_run *last = pin->runs ? &pin->run[pin->runs - 1] : NULL;
		u64 phys = table->pages[i]->physical_address, most = min(bytes, pin->length - from);

		if (phys % PAGE_SIZE)
			return -EIO;
		if (last && last->phys + last->bytes == phys)
			last->bytes += most;
		else
			pin->run[pin->runs++] = (struct gpumap_run){ .from = from, .bytes = most, .phys = phys };
	}
	for (i = 0; i < pin->runs; i++) {
		pin->run[i].reserved = !arch_io_reserve_memtype_wc(pin->run[i].phys, pin->run[i].bytes);
		if (!pin->run[i].reserved)
			pr_warn_once("gpumap: GPU memory is not write-combining: the processor's stores are slower\n");
	}
	return 0;
}

static const struct gpumap_run *run_at(const struct pin *pin, u64 from)
{
	u32 low = 0, high = pin->runs;

	while (high - low > 1) {
		u32 middle = low + (high - low) / 2;

		if (pin->run[middle].from <= from)
			low = middle;
		else
			high = middle;
	}
	return &pin->run[low];
}

/* Maps the page, and those around it; under the file's lock, and the pin is not revoked. */
vm_fault_t gpumap_pin_fault(const struct pin *pin, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long first = max(vma->vm_start, ALIGN_DOWN(vmf->address, FAULT_BYTES));
	unsigned long end = min(vma->vm_end, ALIGN_DOWN(vmf->address, FAULT_BYTES) + FAULT_BYTES);
	u64 start = ((u64)vma->vm_pgoff << PAGE_SHIFT) - pin->offset;
	vm_fault_t fault = VM_FAULT_SIGBUS;
	unsigned long at;

	lockdep_assert_held(&pin->file->lock);
	for (at = first; at < end; at += PAGE_SIZE) {
		u64 from = start + (at - vma->vm_start);
		const struct gpumap_run *run = run_at(pin, from);
		vm_fault_t one = vmf_insert_pfn(vma, at, PHYS_PFN(run->phys + (from - run->from)));

		if (at == (vmf->address & PAGE_MASK))
			fault = one;
		if (one != VM_FAULT_NOPAGE && at >= (vmf->address & PAGE_MASK))
			break;
	}
	return fault;
}

/* No page of the pin stays mapped. None comes after it: it is revoked, or no longer in the list. */
static void pin_zap(const struct pin *pin)
{
	unmap_mapping_range(pin->file->filp->f_mapping, pin->offset, pin->length, 1);
}

static void pin_free(struct pin *pin)
{
	runs_free(pin);
	kfree(pin);
}

/* The owner has gone, and with it all mappings. What still holds us is the GPU driver, which now lets go. */
static void abandoned_over(struct pin *pin)
{
	pin->free_table(pin->table);
	pin_free(pin);
	module_put(THIS_MODULE);
}

/* The GPU driver takes the memory back: nobody may reach it once this returns. */
static void pin_revoked(void *data)
{
	struct nvidia_p2p_page_table *table;
	struct pin *pin;
	bool mapped;

	mutex_lock(&pins_lock);
	pin = xa_load(&pins, (unsigned long)data);
	if (pin && pin->abandoned)
		xa_erase(&pins, pin->id);
	else if (pin)
		pin->called = true;
	mutex_unlock(&pins_lock);
	if (!pin)
		return;
	if (pin->abandoned) {
		abandoned_over(pin);
		return;
	}
	mutex_lock(&pin->file->lock);
	pin->revoked = true;
	mapped = pin->placed;
	table = pin->table;
	pin->table = NULL;
	mutex_unlock(&pin->file->lock);
	/* Whoever ends the pin meanwhile does the same, but we must not return before it is done. */
	if (mapped)
		pin_zap(pin);
	if (table)
		pin->free_table(table);
	complete(&pin->over);
}

/* The GPU driver keeps the memory pinned, and may call back at any time: what it needs then stays, and we do. */
static void pin_abandon(struct pin *pin, int err)
{
	lockdep_assert_held(&pins_lock);
	pr_warn_ratelimited("gpumap: the GPU driver does not take memory back (error %d)\n", err);
	pin->abandoned = true;
	pin->file = NULL;
	__module_get(THIS_MODULE);
}

/*
 * Gives the memory back. Nobody finds the pin any more but the callback, which may come at any time until here, and
 * which then frees the table: a put that is too late has nothing to do, and says so by 0.
 */
static void pin_put(struct pin *pin)
{
	struct gpumap_file *file = pin->file;
	struct nvidia_p2p_page_table *table;
	bool called, revoked;
	int err = 0;

	mutex_lock(&file->lock);
	table = pin->table;
	revoked = pin->revoked;
	mutex_unlock(&file->lock);
	if (table && revoked)	/* the callback came before the table */
		pin->free_table(table);
	else if (table)
		err = file->gpu.put_pages(0, 0, pin->gpu_address, table);
	mutex_lock(&pins_lock);
	called = pin->called;
	if (called || !err)
		xa_erase(&pins, pin->id);
	else
		pin_abandon(pin, err);
	mutex_unlock(&pins_lock);
	if (called)
		wait_for_completion(&pin->over);
	if (called || !err)
		pin_free(pin);
}

/* The pin, known to the callback; its memory is yet to be asked for. */
static struct pin *pin_alloc(struct gpumap_file *file, u64 gpu_address, u64 length)
{
	struct pin *pin = kzalloc(sizeof(*pin), GFP_KERNEL_ACCOUNT);
	int err;

	if (!pin)
		return NULL;
	pin->file = file;
	pin->free_table = file->gpu.free_table;
	pin->gpu_address = gpu_address;
	pin->length = length;
	init_completion(&pin->over);
	mutex_lock(&pins_lock);
	err = xa_alloc_cyclic(&pins, &pin->id, pin, xa_limit_32b, &next_id, GFP_KERNEL_ACCOUNT);
	mutex_unlock(&pins_lock);
	if (err >= 0)
		return pin;
	kfree(pin);
	return NULL;
}

/* A place among the file's offsets. The memory may have gone already, and its table with it. */
static int pin_place(struct pin *pin)
{
	struct gpumap_file *file = pin->file;
	int err;

	lockdep_assert_held(&file->lock);
	if (pin->revoked)
		return -EINVAL;
	if (file->next > GPUMAP_FILE_BYTES - pin->length)
		return -ENOSPC;
	err = runs_of(pin);
	if (err)
		return err;
	pin->placed = true;
	pin->offset = file->base + file->next;
	file->next += pin->length;
	list_add(&pin->node, &file->pins);
	return 0;
}

int gpumap_pin_new(struct gpumap_file *file, u64 gpu_address, u64 length, u64 *offset)
{
	struct pin *pin = pin_alloc(file, gpu_address, length);
	int err;

	if (!pin)
		return -ENOMEM;
	err = file->gpu.get_pages(0, 0, gpu_address, length, &pin->table, pin_revoked,
				  (void *)(unsigned long)pin->id);
	if (err) {
		mutex_lock(&pins_lock);
		xa_erase(&pins, pin->id);
		mutex_unlock(&pins_lock);
		kfree(pin);
		return err;
	}
	mutex_lock(&file->lock);
	err = pin_place(pin);
	if (!err)
		*offset = pin->offset;
	mutex_unlock(&file->lock);
	if (err)
		pin_put(pin);
	return err;
}

struct pin *gpumap_pin_at(struct gpumap_file *file, u64 offset)
{
	struct pin *pin;

	lockdep_assert_held(&file->lock);
	list_for_each_entry(pin, &file->pins, node)
		if (offset >= pin->offset && offset - pin->offset < pin->length)
			return pin;
	return NULL;
}

int gpumap_pin_end(struct gpumap_file *file, u64 offset)
{
	struct pin *pin;

	mutex_lock(&file->lock);
	pin = gpumap_pin_at(file, offset);
	if (pin && pin->offset != offset)
		pin = NULL;
	if (pin)
		list_del(&pin->node);
	mutex_unlock(&file->lock);
	if (!pin)
		return -ENOENT;
	pin_zap(pin);
	pin_put(pin);
	return 0;
}
