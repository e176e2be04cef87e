// SPDX-License-Identifier: GPL-2.0-only
/* The memory of the stand-in for a GPU driver as dma-bufs, which go when it is freed. */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "stub.h"

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

/* A dma-buf. */
struct stub_export {
	struct list_head node;
	struct dma_buf *dmabuf;
	u64 address, length;
	phys_addr_t phys;
	bool freed;		/* under the dma-buf's reservation */
	u32 mappings;		/* likewise */
};

static LIST_HEAD(stub_exports);

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

int stub_export(const struct gpustub_export *arg, int flags)
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
	info.flags = flags;
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

void stub_exports_free(u64 address)
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
