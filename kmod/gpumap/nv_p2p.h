/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the NVIDIA driver's peer-to-peer interface that gpumap uses, as its documentation (GPUDirect RDMA)
 * describes it. Symbols are looked up when a file is opened, so no NVIDIA header or symbol file is needed to build.
 */
#ifndef GPUMAP_NV_P2P_H
#define GPUMAP_NV_P2P_H

#include <linux/module.h>
#include <linux/types.h>

#define NVIDIA_P2P_PAGE_TABLE_VERSION	0x00010002

enum nvidia_p2p_page_size_type {
	NVIDIA_P2P_PAGE_SIZE_4KB,
	NVIDIA_P2P_PAGE_SIZE_64KB,
	NVIDIA_P2P_PAGE_SIZE_128KB,
};

struct nvidia_p2p_page {
	u64 physical_address;
	u32 registers[6];	/* for a GPU generation of old */
};

struct nvidia_p2p_page_table {
	u32 version;
	u32 page_size;		/* enum nvidia_p2p_page_size_type */
	struct nvidia_p2p_page **pages;
	u32 entries;
	u8 *gpu_uuid;
};

/* Major version 1, minor 2 or later. */
static inline bool nvidia_p2p_compatible(const struct nvidia_p2p_page_table *table)
{
	return table->version >> 16 == NVIDIA_P2P_PAGE_TABLE_VERSION >> 16 &&
	       (table->version & 0xffff) >= (NVIDIA_P2P_PAGE_TABLE_VERSION & 0xffff);
}

/* Bytes of the table's pages; 0: a size that nobody knows. */
static inline u32 nvidia_p2p_page_bytes(const struct nvidia_p2p_page_table *table)
{
	switch (table->page_size) {
	case NVIDIA_P2P_PAGE_SIZE_4KB:
		return 0x1000;
	case NVIDIA_P2P_PAGE_SIZE_64KB:
		return 0x10000;
	case NVIDIA_P2P_PAGE_SIZE_128KB:
		return 0x20000;
	default:
		return 0;
	}
}

/*
 * Pins GPU memory; address and length are multiples of 64 KiB, tokens may be 0. `free_callback` runs once if the memory
 * is freed under the pin, in any context that may sleep, from when the pin is there: before the call that made it has
 * returned, or beside the one that puts it back. Then the table is to be freed in it with nvidia_p2p_free_page_table.
 *
 * A put that comes when the callback has been or is being called has nothing to do, and gives 0; it returns after the
 * callback, since both take the driver's lock (open kernel modules, nv-p2p.c). Nobody may call it from the callback, or
 * with a lock that the callback takes.
 */
int nvidia_p2p_get_pages(u64 p2p_token, u32 va_space, u64 virtual_address, u64 length,
			 struct nvidia_p2p_page_table **page_table, void (*free_callback)(void *data), void *data);
int nvidia_p2p_put_pages(u64 p2p_token, u32 va_space, u64 virtual_address,
			 struct nvidia_p2p_page_table *page_table);
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table);

/* The functions of the driver that offers them, which stays as long as somebody has them. */
struct nvidia_p2p {
	/* nvidia_p2p_get_pages, nvidia_p2p_put_pages, nvidia_p2p_free_page_table */
	int (*get_pages)(u64 p2p_token, u32 va_space, u64 virtual_address, u64 length,
			 struct nvidia_p2p_page_table **page_table, void (*free_callback)(void *data), void *data);
	int (*put_pages)(u64 p2p_token, u32 va_space, u64 virtual_address,
			 struct nvidia_p2p_page_table *page_table);
	int (*free_table)(struct nvidia_p2p_page_table *page_table);
};

/* Whether all are there; those that are have to be let go of in any case. */
static inline bool nvidia_p2p_find(struct nvidia_p2p *gpu)
{
	gpu->get_pages = symbol_get(nvidia_p2p_get_pages);
	gpu->put_pages = symbol_get(nvidia_p2p_put_pages);
	gpu->free_table = symbol_get(nvidia_p2p_free_page_table);
	return gpu->get_pages && gpu->put_pages && gpu->free_table;
}

static inline void nvidia_p2p_let_go(const struct nvidia_p2p *gpu)
{
	if (gpu->get_pages)
		symbol_put(nvidia_p2p_get_pages);
	if (gpu->put_pages)
		symbol_put(nvidia_p2p_put_pages);
	if (gpu->free_table)
		symbol_put(nvidia_p2p_free_page_table);
}

#endif /* GPUMAP_NV_P2P_H */
