// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands in for a GPU driver in tests: offers nvidia_p2p_get_pages over the memory of the model's GPU stand-in. Byte
 * i of its BAR has the "GPU address" GPUSTUB_BASE + i. Writing an address to the device's file `free` frees what is
 * pinned there, as a GPU program's end does.
 */

#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "nv_p2p.h"

#define GPUSTUB_BASE	0x700000000000ull
#define GPUSTUB_PAGE	0x10000u

struct stub_pin {
	struct list_head node;
	struct nvidia_p2p_page_table table;
	u64 address, length;
	void (*free_callback)(void *data);
	void *data;
};

static DEFINE_MUTEX(stub_lock);
static LIST_HEAD(stub_pins);
static phys_addr_t stub_bar;
static u64 stub_bytes;

static void stub_pin_free(struct stub_pin *pin)
{
	kfree(pin->table.pages ? pin->table.pages[0] : NULL);
	kfree(pin->table.pages);
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
	list_add(&pin->node, &stub_pins);
	*page_table = &pin->table;
	mutex_unlock(&stub_lock);
	return 0;
err:
	mutex_unlock(&stub_lock);
	stub_pin_free(pin);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

static struct stub_pin *pin_of(struct nvidia_p2p_page_table *table)
{
	return container_of(table, struct stub_pin, table);
}

int nvidia_p2p_put_pages(u64 p2p_token, u32 va_space, u64 virtual_address,
			 struct nvidia_p2p_page_table *page_table)
{
	struct stub_pin *pin;

	mutex_lock(&stub_lock);
	list_for_each_entry(pin, &stub_pins, node)
		if (&pin->table == page_table && pin->address == virtual_address) {
			list_del(&pin->node);
			mutex_unlock(&stub_lock);
			stub_pin_free(pin);
			return 0;
		}
	mutex_unlock(&stub_lock);
	return -EINVAL;	/* freed before, or not ours */
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table)
{
	stub_pin_free(pin_of(page_table));
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

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
	while ((pin = stub_take(address)))
		pin->free_callback(pin->data);
	return count;
}
static DEVICE_ATTR_WO(free);

static struct attribute *stub_attrs[] = { &dev_attr_free.attr, NULL };
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
module_pci_driver(stub_driver);

MODULE_DESCRIPTION("Stand-in for a GPU driver, for tests of gpumap");
MODULE_LICENSE("GPL");
