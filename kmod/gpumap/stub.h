/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the stand-in for a GPU driver share. */
#ifndef GPUSTUB_H
#define GPUSTUB_H

#include <linux/mutex.h>
#include <linux/types.h>

#include "../uapi/gpumap/stub.h"

extern struct mutex stub_lock;		/* what is pinned and exported; the BAR */
extern phys_addr_t stub_bar;
extern u64 stub_bytes;			/* 0: there is no GPU */

/* A descriptor of a new dma-buf, or an error. */
int stub_export(const struct gpustub_export *arg, int flags);
/* Takes the memory of all dma-bufs that cover an address away. */
void stub_exports_free(u64 address);

#endif /* GPUSTUB_H */
