// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands in for a GPU driver in tests: offers nvidia_p2p_get_pages over the memory of the model's GPU stand-in, and
 * the same memory as dma-bufs (/dev/gpustub). Byte i of its BAR has the "GPU address" GPUSTUB_BASE + i. Writing an
 * address to the device's file `free` frees what is pinned or exported there, as a GPU program's end does.
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "../uapi/gpumap/stub.h"
#include "nv_p2p.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define stub_revoke dma_buf_invalidate_mappings
#else
#define stub_revoke dma_buf_move_notify
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

struct stub_pin {
	struct list_head node;
	struct nvidia_p2p_page_table table;
	u64 address, length;
	void (*free_callback)(void *data);
	void *data;
};

/* A dma-buf. */
struct stub_export {
	struct list_head node;
	struct dma_buf *dmabuf;
	u64 address, length;
	phys_addr_t phys;
	bool freed;		/* under the dma-buf's reservation */
	u32 mappings;		/* likewise */
};

static DEFINE_MUTEX(stub_lock);
static LIST_HEAD(stub_pins);
static LIST_HEAD(stub_exports);
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
	stub_pin_free(container_of(page_table, struct stub_pin, table));
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

/* Only those who can follow when the memory goes. */
static int export_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	return attach->importer_ops && attach->peer2peer ? 0 : -EOPNOTSUPP;
}

/* Kernels without moving dma-bufs pin them for every importer. The memory goes all the same when it is freed. */
static int export_pin(struct dma_buf_attachment *attach)
{
	return 0;
}

static void export_unpin(struct dma_buf_attachment *attach)
{
}

static struct sg_table *export_map(struct dma_buf_attachment *attach, enum dma_data_direction direction)
{
	struct stub_export *export = attach->dmabuf->priv;
	struct sg_table *table;
	dma_addr_t dma;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (export->freed)
		return ERR_PTR(-ENODEV);
	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table || sg_alloc_table(table, 1, GFP_KERNEL)) {
		kfree(table);
		return ERR_PTR(-ENOMEM);
	}
	dma = dma_map_resource(attach->dev, export->phys, export->length, direction, DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(attach->dev, dma)) {
		sg_free_table(table);
		kfree(table);
		return ERR_PTR(-EIO);
	}
	sg_set_page(table->sgl, NULL, export->length, 0);
	sg_dma_address(table->sgl) = dma;
	sg_dma_len(table->sgl) = export->length;
	export->mappings++;
	return table;
}

static void export_unmap(struct dma_buf_attachment *attach, struct sg_table *table,
			 enum dma_data_direction direction)
{
	struct stub_export *export = attach->dmabuf->priv;

	export->mappings--;
	dma_unmap_resource(attach->dev, sg_dma_address(table->sgl), sg_dma_len(table->sgl), direction,
			   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(table);
	kfree(table);
}

static void export_release(struct dma_buf *dmabuf)
{
	struct stub_export *export = dmabuf->priv;

	mutex_lock(&stub_lock);
	list_del(&export->node);
	mutex_unlock(&stub_lock);
	kfree(export);
}

static const struct dma_buf_ops export_ops = {
	.attach = export_attach,
	.pin = export_pin,
	.unpin = export_unpin,
	.map_dma_buf = export_map,
	.unmap_dma_buf = export_unmap,
	.release = export_release,
};

static int export_new(const struct gpustub_export *arg)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	u64 from = arg->gpu_address - GPUSTUB_BASE;
	struct stub_export *export = kzalloc(sizeof(*export), GFP_KERNEL);
	int fd;

	if (!export)
		return -ENOMEM;
	mutex_lock(&stub_lock);
	if (!arg->length || from % GPUSTUB_PAGE || arg->length % GPUSTUB_PAGE || from >= stub_bytes ||
	    arg->length > stub_bytes - from)
		goto err;
	export->address = arg->gpu_address;
	export->length = arg->length;
	export->phys = stub_bar + from;
	info.ops = &export_ops;
	info.size = arg->length;
	info.flags = O_RDWR;
	info.priv = export;
	export->dmabuf = dma_buf_export(&info);
	if (IS_ERR(export->dmabuf))
		goto err;
	list_add(&export->node, &stub_exports);
	mutex_unlock(&stub_lock);
	fd = dma_buf_fd(export->dmabuf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(export->dmabuf);
	return fd;
err:
	mutex_unlock(&stub_lock);
	kfree(export);
	return -EINVAL;
}

/* A reference, unless the last one went: then its release waits for our lock. */
static bool stub_get(struct dma_buf *dmabuf)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	return file_ref_get(&dmabuf->file->f_ref);
#else
	return atomic_long_inc_not_zero(&dmabuf->file->f_count);
#endif
}

/* One dma-buf that covers the address and was not freed; with a reference, so that it stays. */
static struct stub_export *export_take(u64 address)
{
	struct stub_export *export;

	mutex_lock(&stub_lock);
	list_for_each_entry(export, &stub_exports, node)
		if (address >= export->address && address - export->address < export->length &&
		    !READ_ONCE(export->freed) && stub_get(export->dmabuf)) {
			mutex_unlock(&stub_lock);
			return export;
		}
	mutex_unlock(&stub_lock);
	return NULL;
}

static void exports_free(u64 address)
{
	struct stub_export *export;

	while ((export = export_take(address))) {
		dma_resv_lock(export->dmabuf->resv, NULL);
		WRITE_ONCE(export->freed, true);
		stub_revoke(export->dmabuf);
		/* Exporters may wait for that; an importer that holds on to its mapping would hang them. */
		WARN_ON(export->mappings);
		dma_resv_unlock(export->dmabuf->resv);
		dma_buf_put(export->dmabuf);
	}
}

static long stub_ioctl(struct file *filp, unsigned int cmd, unsigned long address)
{
	struct gpustub_export arg;

	if (cmd != GPUSTUB_IOC_EXPORT)
		return -ENOTTY;
	if (copy_from_user(&arg, (void __user *)address, sizeof(arg)))
		return -EFAULT;
	return export_new(&arg);
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
	while ((pin = stub_take(address)))
		pin->free_callback(pin->data);
	exports_free(address);
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
