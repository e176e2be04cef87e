// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/gpumap: GPU memory as a mapping of the process, pinned through the GPU driver's peer-to-peer interface and
 * mapped where it lies in the GPU's BAR (thesis 3.3.3). Other drivers find it there by walking the mapping, and an MMU
 * notifier tells them when it goes.
 *
 * Page faults map it, and look under the file's lock whether it is there: so what is taken away stays away.
 */

#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../common/quota.h"
#include "../common/vma.h"
#include "gpumap.h"

#define FILES_MOST	8191

static unsigned int user_files = 1024;
module_param(user_files, uint, 0644);
MODULE_PARM_DESC(user_files, "Files of /dev/gpumap that a user without CAP_SYS_RESOURCE may have open (1024)");

static DEFINE_IDA(file_numbers);
static DEFINE_MUTEX(files_lock);	/* files */
static LIST_HEAD(files);

static vm_fault_t gpumap_fault(struct vm_fault *vmf)
{
	struct gpumap_file *file = vmf->vma->vm_file->private_data;
	vm_fault_t fault = VM_FAULT_SIGBUS;
	struct pin *pin;

	mutex_lock(&file->lock);
	pin = gpumap_pin_at(file, (u64)vmf->pgoff << PAGE_SHIFT);
	if (pin && !pin->revoked)
		fault = gpumap_pin_fault(pin, vmf);
	mutex_unlock(&file->lock);
	return fault;
}

static const struct vm_operations_struct gpumap_vm_ops = { .fault = gpumap_fault };

static int gpumap_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct gpumap_file *file = filp->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT, bytes = vma->vm_end - vma->vm_start;
	struct pin *pin;
	int err = 0;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC || vma->vm_pgoff >> (63 - PAGE_SHIFT))
		return -EINVAL;
	mutex_lock(&file->lock);
	pin = gpumap_pin_at(file, offset);
	if (!pin || pin->revoked)
		err = -ENXIO;
	else if (bytes > pin->length - (offset - pin->offset))
		err = -EINVAL;
	mutex_unlock(&file->lock);
	if (err)
		return err;
	extoll_vm_flags_clear(vma, VM_MAYEXEC);
	extoll_vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_ops = &gpumap_vm_ops;
	return 0;
}

static int call_pin(struct gpumap_file *file, struct gpumap_pin *arg)
{
	if (!arg->length || !arg->gpu_address || (arg->gpu_address | arg->length) % GPUMAP_PAGE ||
	    arg->length > GPUMAP_FILE_BYTES || arg->gpu_address + arg->length < arg->length)
		return -EINVAL;
	return gpumap_pin_new(file, arg->gpu_address, arg->length, &arg->offset);
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
		return gpumap_pin_end(file, arg.unpin.offset);
	err = call_pin(file, &arg.pin);
	if (!err && copy_to_user(user, &arg.pin, sizeof(arg.pin))) {
		gpumap_pin_end(file, arg.pin.offset);
		err = -EFAULT;
	}
	return err;
}

/* Puts the file among all, unless its user has as many as allowed. */
static int file_add(struct gpumap_file *file)
{
	struct gpumap_file *other;
	u32 count = 0;
	int err = 0;

	mutex_lock(&files_lock);
	list_for_each_entry(other, &files, node)
		count += uid_valid(file->user) && uid_eq(other->user, file->user);
	if (uid_valid(file->user) && count >= READ_ONCE(user_files))
		err = -EDQUOT;
	else
		list_add(&file->node, &files);
	mutex_unlock(&files_lock);
	return err;
}

static void file_free(struct gpumap_file *file)
{
	mutex_lock(&files_lock);
	list_del(&file->node);
	mutex_unlock(&files_lock);
	nvidia_p2p_let_go(&file->gpu);
	ida_free(&file_numbers, file->base >> GPUMAP_FILE_BITS);
	kfree(file);
}

static int gpumap_open(struct inode *inode, struct file *filp)
{
	struct gpumap_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	int number, err;

	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	INIT_LIST_HEAD(&file->pins);
	file->user = extoll_quota_user();
	file->filp = filp;
	err = file_add(file);
	if (err)
		goto err_free;
	number = ida_alloc_max(&file_numbers, FILES_MOST, GFP_KERNEL);
	if (number < 0) {
		err = number;
		goto err_del;
	}
	file->base = (u64)number << GPUMAP_FILE_BITS;
	if (!nvidia_p2p_find(&file->gpu)) {
		file_free(file);
		return -ENODEV;
	}
	filp->private_data = file;
	return nonseekable_open(inode, filp);

err_del:
	mutex_lock(&files_lock);
	list_del(&file->node);
	mutex_unlock(&files_lock);
err_free:
	kfree(file);
	return err;
}

/* All mappings are gone: they hold the file. */
static int gpumap_release(struct inode *inode, struct file *filp)
{
	struct gpumap_file *file = filp->private_data;
	struct pin *pin;
	u64 offset;

	for (;;) {
		mutex_lock(&file->lock);
		pin = list_first_entry_or_null(&file->pins, struct pin, node);
		offset = pin ? pin->offset : 0;
		mutex_unlock(&file->lock);
		if (!pin)
			break;
		gpumap_pin_end(file, offset);
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
