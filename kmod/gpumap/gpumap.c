// SPDX-License-Identifier: GPL-2.0-only
/*
 * GPU memory as a mapping of the process: pinned through the GPU driver's peer-to-peer interface and mapped where it
 * lies in the GPU's BAR (thesis 3.3.3). Other drivers find it there by walking the mapping, and an MMU notifier tells
 * them when it goes.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../uapi/gpumap/ioctl.h"
#include "nv_p2p.h"

#define FILE_BITS	50	/* of the offsets of one file; those above say which file it is */
#define FILES_MOST	8191
#define FILE_BYTES	BIT_ULL(FILE_BITS)

static DEFINE_IDA(file_numbers);

/* An address space in which a file was mapped. */
struct mapper {
	struct list_head node;
	struct mm_struct *mm;
};

struct gpumap_file {
	/* Pins and mappers; not held over calls into the GPU driver, whose callback takes it. */
	struct mutex lock;
	struct list_head pins;
	struct list_head mappers;	/* grows at its front, and shrinks while no walk is under way */
	u32 walks;			/* over mappers, without the lock */
	u64 base;			/* of its offsets: all files' mappings are in one inode */
	u64 next;			/* from base on */
	struct file *filp;
	struct nvidia_p2p gpu;
};

struct pin {
	struct list_head node;		/* in file->pins */
	struct gpumap_file *file;
	u64 gpu_address, length, offset;
	u32 page_bytes;
	struct nvidia_p2p_page_table *table;
	bool placed;			/* under file->lock: it has an offset, and may be mapped */
	bool revoked;			/* under file->lock: the memory is gone */
	struct completion over;		/* the callback has let go of the pin */
};

/*
 * A mapping that is just being made has its pages before it can be found, and whoever makes it holds the mmap lock
 * until then: wait for that. The GPU driver may call us with this very lock held; then nobody else makes a mapping, and
 * the tries, which are bounded, cost time only.
 */
static void mapping_settled(struct mm_struct *mm)
{
	u32 tries;

	for (tries = 0; tries < 1000; tries++) {
		if (mmap_read_trylock(mm)) {
			mmap_read_unlock(mm);
			return;
		}
		usleep_range(100, 1000);
	}
}

/* No page of the pin stays mapped; it cannot be mapped any more. */
static void pin_zap(const struct pin *pin)
{
	struct gpumap_file *file = pin->file;
	struct mapper *mapper;

	mutex_lock(&file->lock);
	mapper = list_first_entry_or_null(&file->mappers, struct mapper, node);
	file->walks++;
	mutex_unlock(&file->lock);
	/* Those that come later find the pin revoked or gone. */
	if (mapper)
		list_for_each_entry_from(mapper, &file->mappers, node)
			mapping_settled(mapper->mm);
	mutex_lock(&file->lock);
	file->walks--;
	mutex_unlock(&file->lock);
	unmap_mapping_range(pin->file->filp->f_mapping, pin->offset, pin->length, 1);
}

/* The GPU driver takes the memory back: nobody may reach it once this returns. */
static void pin_revoked(void *data)
{
	struct pin *pin = data;
	struct gpumap_file *file = pin->file;
	bool placed;

	mutex_lock(&file->lock);
	pin->revoked = true;
	placed = pin->placed;
	mutex_unlock(&file->lock);
	/* Whoever ends the pin meanwhile does the same, but we must not return before it is done. */
	if (placed)
		pin_zap(pin);
	if (pin->table)
		file->gpu.free_table(pin->table);
	complete(&pin->over);
}

/* Not in the list any more. */
static void pin_end(struct pin *pin, bool revoked)
{
	struct gpumap_file *file = pin->file;

	/* A put that comes too late fails: then the callback is running, and it frees the table. */
	if (revoked || file->gpu.put_pages(0, 0, pin->gpu_address, pin->table))
		wait_for_completion(&pin->over);
	kfree(pin);
}

/* What the GPU driver says about the memory must fit what was asked for. */
static bool table_ok(struct pin *pin)
{
	pin->page_bytes = nvidia_p2p_page_bytes(pin->table);
	return nvidia_p2p_compatible(pin->table) && pin->page_bytes &&
	       (u64)pin->table->entries * pin->page_bytes >= pin->length;
}

static int call_pin(struct gpumap_file *file, struct gpumap_pin *arg)
{
	struct pin *pin;
	bool revoked;
	int err;

	if (!arg->length || !arg->gpu_address || (arg->gpu_address | arg->length) % GPUMAP_PAGE ||
	    arg->length > FILE_BYTES || arg->gpu_address + arg->length < arg->length)
		return -EINVAL;
	pin = kzalloc(sizeof(*pin), GFP_KERNEL_ACCOUNT);
	if (!pin)
		return -ENOMEM;
	pin->file = file;
	pin->gpu_address = arg->gpu_address;
	pin->length = arg->length;
	init_completion(&pin->over);
	err = file->gpu.get_pages(0, 0, pin->gpu_address, pin->length, &pin->table, pin_revoked, pin);
	if (err) {
		kfree(pin);
		return err;
	}
	mutex_lock(&file->lock);
	revoked = pin->revoked;
	err = !table_ok(pin) ? -EIO : file->next > FILE_BYTES - pin->length ? -ENOSPC : 0;
	if (!err) {
		pin->placed = true;
		pin->offset = file->base + file->next;
		file->next += pin->length;
		list_add(&pin->node, &file->pins);
	}
	mutex_unlock(&file->lock);
	if (err)
		pin_end(pin, revoked);
	else
		arg->offset = pin->offset;
	return err;
}

static struct pin *pin_at(struct gpumap_file *file, u64 offset)
{
	struct pin *pin;

	lockdep_assert_held(&file->lock);
	list_for_each_entry(pin, &file->pins, node)
		if (offset >= pin->offset && offset - pin->offset < pin->length)
			return pin;
	return NULL;
}

static int call_unpin(struct gpumap_file *file, const struct gpumap_unpin *arg)
{
	struct pin *pin;
	bool revoked = false;

	mutex_lock(&file->lock);
	pin = pin_at(file, arg->offset);
	if (pin && pin->offset != arg->offset)
		pin = NULL;
	if (pin) {
		list_del(&pin->node);
		revoked = pin->revoked;
	}
	mutex_unlock(&file->lock);
	if (!pin)
		return -ENOENT;
	pin_zap(pin);
	pin_end(pin, revoked);
	return 0;
}

/* Bytes from `from` on, at most `most`, that lie in a row in the GPU's BAR, at `phys`. */
static u64 run_at(const struct pin *pin, u64 from, u64 most, u64 *phys)
{
	u64 page = from / pin->page_bytes, in_page = from % pin->page_bytes;
	u64 bytes = pin->page_bytes - in_page;

	*phys = pin->table->pages[page]->physical_address + in_page;
	while (bytes < most && pin->table->pages[++page]->physical_address == *phys + bytes)
		bytes += pin->page_bytes;
	return min(bytes, most);
}

/*
 * Maps the pin from byte `from` on at once: a fault handler would have nothing to decide. As few pieces as there are:
 * x86 makes a piece write-combining only if it is the whole mapping, or if the GPU's driver has asked for that.
 */
static int pin_map(const struct pin *pin, struct vm_area_struct *vma, u64 from)
{
	unsigned long address = vma->vm_start;
	u64 bytes, phys;
	int err;

	for (; address < vma->vm_end; address += bytes, from += bytes) {
		bytes = run_at(pin, from, vma->vm_end - address, &phys);
		err = io_remap_pfn_range(vma, address, phys >> PAGE_SHIFT, bytes,
					 pgprot_writecombine(vma->vm_page_prot));
		if (err)
			return err;
	}
	return 0;
}

static void mapper_free(struct mapper *mapper)
{
	list_del(&mapper->node);
	mmdrop(mapper->mm);
	kfree(mapper);
}

/* Notes that this process maps the file, unless that is known, and forgets those that have ended. */
static int mapper_note(struct gpumap_file *file)
{
	struct mapper *mapper, *next;

	lockdep_assert_held(&file->lock);
	list_for_each_entry_safe(mapper, next, &file->mappers, node) {
		if (mapper->mm == current->mm)
			return 0;
		if (!file->walks && !atomic_read(&mapper->mm->mm_users))
			mapper_free(mapper);
	}
	mapper = kmalloc(sizeof(*mapper), GFP_KERNEL_ACCOUNT);
	if (!mapper)
		return -ENOMEM;
	mmgrab(current->mm);
	mapper->mm = current->mm;
	list_add(&mapper->node, &file->mappers);
	return 0;
}

static int gpumap_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct gpumap_file *file = filp->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT, bytes = vma->vm_end - vma->vm_start;
	struct pin *pin;
	int err;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC || vma->vm_pgoff >> (63 - PAGE_SHIFT))
		return -EINVAL;
	mutex_lock(&file->lock);
	pin = pin_at(file, offset);
	if (!pin || pin->revoked)
		err = -ENXIO;
	else if (bytes > pin->length - (offset - pin->offset))
		err = -EINVAL;
	else
		err = mapper_note(file) ?: pin_map(pin, vma, offset - pin->offset);
	mutex_unlock(&file->lock);
	return err;
}

static long gpumap_ioctl(struct file *filp, unsigned int cmd, unsigned long address)
{
	struct gpumap_file *file = filp->private_data;
	void __user *user = (void __user *)address;
	union {
		struct gpumap_pin pin;
		struct gpumap_unpin unpin;
	} arg = {};
	size_t known = _IOC_NR(cmd) == _IOC_NR(GPUMAP_IOC_PIN) ? sizeof(arg.pin) : sizeof(arg.unpin);
	struct gpumap_unpin undo;
	int err;

	if (_IOC_TYPE(cmd) != GPUMAP_IOC_MAGIC || _IOC_DIR(cmd) != (_IOC_READ | _IOC_WRITE) ||
	    _IOC_NR(cmd) > _IOC_NR(GPUMAP_IOC_UNPIN))
		return -ENOTTY;
	if (_IOC_SIZE(cmd) < known)
		return -EINVAL;
	err = copy_struct_from_user(&arg, known, user, _IOC_SIZE(cmd));
	if (err)
		return err;
	if (_IOC_NR(cmd) == _IOC_NR(GPUMAP_IOC_UNPIN))
		return call_unpin(file, &arg.unpin);
	err = call_pin(file, &arg.pin);
	if (!err && copy_to_user(user, &arg.pin, sizeof(arg.pin))) {
		undo.offset = arg.pin.offset;
		call_unpin(file, &undo);
		err = -EFAULT;
	}
	return err;
}

static void file_free(struct gpumap_file *file)
{
	struct mapper *mapper, *next;

	list_for_each_entry_safe(mapper, next, &file->mappers, node)
		mapper_free(mapper);
	nvidia_p2p_let_go(&file->gpu);
	ida_free(&file_numbers, file->base >> FILE_BITS);
	kfree(file);
}

static int gpumap_open(struct inode *inode, struct file *filp)
{
	struct gpumap_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	int number;

	if (!file)
		return -ENOMEM;
	number = ida_alloc_max(&file_numbers, FILES_MOST, GFP_KERNEL);
	if (number < 0) {
		kfree(file);
		return number;
	}
	file->base = (u64)number << FILE_BITS;
	mutex_init(&file->lock);
	INIT_LIST_HEAD(&file->pins);
	INIT_LIST_HEAD(&file->mappers);
	if (!nvidia_p2p_find(&file->gpu)) {
		file_free(file);
		return -ENODEV;
	}
	file->filp = filp;
	filp->private_data = file;
	return nonseekable_open(inode, filp);
}

/* All mappings are gone: they hold the file. */
static int gpumap_release(struct inode *inode, struct file *filp)
{
	struct gpumap_file *file = filp->private_data;
	struct pin *pin;

	for (;;) {
		struct gpumap_unpin arg;

		mutex_lock(&file->lock);
		pin = list_first_entry_or_null(&file->pins, struct pin, node);
		arg.offset = pin ? pin->offset : 0;
		mutex_unlock(&file->lock);
		if (!pin)
			break;
		call_unpin(file, &arg);
	}
	file_free(file);
	return 0;
}

static const struct file_operations gpumap_fops = {
	.owner = THIS_MODULE,
	.open = gpumap_open,
	.release = gpumap_release,
	.unlocked_ioctl = gpumap_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = gpumap_mmap,
};

static struct miscdevice gpumap_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "gpumap",
	.fops = &gpumap_fops,
	.mode = 0660,
};
module_misc_device(gpumap_misc);

MODULE_DESCRIPTION("GPU memory as a mapping of the process");
MODULE_LICENSE("GPL");
