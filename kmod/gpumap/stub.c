// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands in for a GPU driver in tests: offers nvidia_p2p_get_pages over the memory of the model's GPU stand-in, and
 * the same memory as dma-bufs (/dev/gpustub). Byte i of its BAR has the "GPU address" GPUSTUB_BASE + i. Writing an
 * address to the device's file `free` frees what is pinned or exported there, as a GPU program's end does.
 *
 * The contract is that of nv_p2p.h. Further files of the device make moments long, and ask for errors: `get_delay`,
 * milliseconds between a pin and the return of the call that makes it; `free_delay`, those between the end of memory
 * and the callback that tells it; `put_error`, what the next put gives, and nothing else then. `tables` is how many
 * page tables are yet to be freed. Freed ones are overwritten.
 */

#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "nv_p2p.h"
#include "stub.h"

struct stub_pin {
	struct list_head node;
	struct nvidia_p2p_page_table table;
	u64 address, length;
	void (*free_callback)(void *data);
	void *data;
};

DEFINE_MUTEX(stub_lock);	/* what is pinned and exported; the BAR */
static LIST_HEAD(stub_pins);
phys_addr_t stub_bar;
u64 stub_bytes;

/* As in NVIDIA's driver, memory is put back and taken back under one lock, which callbacks are called with. */
static DEFINE_MUTEX(stub_api);
static atomic_t stub_tables = ATOMIC_INIT(0);
static unsigned int get_delay, free_delay;
static int put_error;

/* Whoever uses it afterwards does not get far. */
static void stub_overwrite(void *at, size_t bytes)
{
	memset(at, 0x5a, bytes);
	barrier_data(at);
}

static void stub_pin_free(struct stub_pin *pin)
{
	if (pin->table.pages) {
		stub_overwrite(pin->table.pages[0], pin->table.entries * sizeof(*pin->table.pages[0]));
		kfree(pin->table.pages[0]);
		stub_overwrite(pin->table.pages, pin->table.entries * sizeof(*pin->table.pages));
		kfree(pin->table.pages);
		atomic_dec(&stub_tables);
	}
	stub_overwrite(pin, sizeof(*pin));
	kfree(pin);
}

int nvidia_p2p_get_pages(u64 p2p_token, u32 va_space, u64 virtual_address, u64 length,
			 struct nvidia_p2p_page_table **page_table, void (*free_callback)(void *data), void *data)
{
	u64 from = virtual_address - GPUSTUB_BASE;
	u32 entries = length / GPUSTUB_PAGE, i;
	struct nvidia_p2p_page *page;
	struct stub_pin *pin;
	int err = -EINVAL;

	if (p2p_token || va_space || from % GPUSTUB_PAGE || length % GPUSTUB_PAGE || !length)
		return -EINVAL;
	pin = kzalloc(sizeof(*pin), GFP_KERNEL);
	if (!pin)
		return -ENOMEM;
	mutex_lock(&stub_lock);
	if (from >= stub_bytes || length > stub_bytes - from)
		goto err;
	err = -ENOMEM;
	pin->table.pages = kcalloc(entries, sizeof(*pin->table.pages), GFP_KERNEL);
	page = kcalloc(entries, sizeof(*page), GFP_KERNEL);
	if (!pin->table.pages || !page) {
		kfree(page);
		kfree(pin->table.pages);
		pin->table.pages = NULL;
		goto err;
	}
	for (i = 0; i < entries; i++) {
		page[i].physical_address = stub_bar + from + (u64)i * GPUSTUB_PAGE;
		pin->table.pages[i] = &page[i];
	}
	pin->table.version = NVIDIA_P2P_PAGE_TABLE_VERSION;
	pin->table.page_size = NVIDIA_P2P_PAGE_SIZE_64KB;
	pin->table.entries = entries;
	pin->address = virtual_address;
	pin->length = length;
	pin->free_callback = free_callback;
	pin->data = data;
	*page_table = &pin->table;
	atomic_inc(&stub_tables);
	list_add(&pin->node, &stub_pins);
	mutex_unlock(&stub_lock);
	/* From here on the memory may be freed, and the callback called. */
	msleep(READ_ONCE(get_delay));
	return 0;
err:
	mutex_unlock(&stub_lock);
	stub_pin_free(pin);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

int nvidia_p2p_put_pages(u64 p2p_token, u32 va_space, u64 virtual_address,
			 struct nvidia_p2p_page_table *page_table)
{
	struct stub_pin *pin, *found = NULL;
	int err;

	mutex_lock(&stub_api);
	mutex_lock(&stub_lock);
	err = xchg(&put_error, 0);
	if (!err)
		list_for_each_entry(pin, &stub_pins, node)
			if (&pin->table == page_table && pin->address == virtual_address)
				found = pin;
	if (found)
		list_del(&found->node);
	mutex_unlock(&stub_lock);
	if (found)
		stub_pin_free(found);
	mutex_unlock(&stub_api);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table)
{
	stub_pin_free(container_of(page_table, struct stub_pin, table));
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

static long stub_ioctl(struct file *filp, unsigned int cmd, unsigned long address)
{
	struct gpustub_export arg;

	if (cmd != GPUSTUB_IOC_EXPORT && cmd != GPUSTUB_IOC_EXPORT_READ)
		return -ENOTTY;
	if (copy_from_user(&arg, (void __user *)address, sizeof(arg)))
		return -EFAULT;
	return stub_export(&arg, cmd == GPUSTUB_IOC_EXPORT ? O_RDWR : O_RDONLY);
}

static const struct file_operations stub_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = stub_ioctl,
};

static struct miscdevice stub_misc = { .minor = MISC_DYNAMIC_MINOR, .name = "gpustub", .fops = &stub_fops };

/* One pin that covers the address, taken out of the list. */
static struct stub_pin *stub_take(u64 address)
{
	struct stub_pin *pin;

	mutex_lock(&stub_lock);
	list_for_each_entry(pin, &stub_pins, node)
		if (address >= pin->address && address - pin->address < pin->length) {
			list_del(&pin->node);
			mutex_unlock(&stub_lock);
			return pin;
		}
	mutex_unlock(&stub_lock);
	return NULL;
}

static ssize_t free_store(struct device *dev, struct device_attribute *attr, const char *text, size_t count)
{
	struct stub_pin *pin;
	u64 address;
	int err = kstrtou64(text, 0, &address);

	if (err)
		return err;
	mutex_lock(&stub_api);
	while ((pin = stub_take(address))) {
		msleep(READ_ONCE(free_delay));
		pin->free_callback(pin->data);
	}
	mutex_unlock(&stub_api);
	stub_exports_free(address);
	return count;
}
static DEVICE_ATTR_WO(free);

static ssize_t tables_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "%d\n", atomic_read(&stub_tables));
}
static DEVICE_ATTR_RO(tables);

#define STUB_NUMBER(name) __ATTR(name, 0600, device_show_int, device_store_int)
static struct dev_ext_attribute attr_get_delay = { STUB_NUMBER(get_delay), &get_delay };
static struct dev_ext_attribute attr_free_delay = { STUB_NUMBER(free_delay), &free_delay };
static struct dev_ext_attribute attr_put_error = { STUB_NUMBER(put_error), &put_error };

static struct attribute *stub_attrs[] = {
	&dev_attr_free.attr, &dev_attr_tables.attr, &attr_get_delay.attr.attr, &attr_free_delay.attr.attr,
	&attr_put_error.attr.attr, NULL
};
ATTRIBUTE_GROUPS(stub);

static int stub_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int err = pcim_enable_device(pdev);

	if (err)
		return err;
	mutex_lock(&stub_lock);
	if (stub_bytes) {
		err = -EBUSY;
	} else {
		stub_bar = pci_resource_start(pdev, 0);
		stub_bytes = pci_resource_len(pdev, 0);
	}
	mutex_unlock(&stub_lock);
	return err;
}

static void stub_remove(struct pci_dev *pdev)
{
	mutex_lock(&stub_lock);
	stub_bytes = 0;
	mutex_unlock(&stub_lock);
}

static const struct pci_device_id stub_ids[] = { { PCI_DEVICE(0x1af4, 0x10f0) }, { } };
MODULE_DEVICE_TABLE(pci, stub_ids);

static struct pci_driver stub_driver = {
	.name = "gpustub",
	.id_table = stub_ids,
	.probe = stub_probe,
	.remove = stub_remove,
	.dev_groups = stub_groups,
};

static int __init stub_init(void)
{
	int err = misc_register(&stub_misc);

	if (err)
		return err;
	err = pci_register_driver(&stub_driver);
	if (err)
		misc_deregister(&stub_misc);
	return err;
}

static void __exit stub_exit(void)
{
	pci_unregister_driver(&stub_driver);
	misc_deregister(&stub_misc);
}

module_init(stub_init);
module_exit(stub_exit);

MODULE_DESCRIPTION("Stand-in for a GPU driver, for tests of gpumap");
MODULE_LICENSE("GPL");
