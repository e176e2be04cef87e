/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A registered region (spec 10.1). Programs embed it by value: its layout is part of the ABI. */
#ifndef RMA2_REGION_H
#define RMA2_REGION_H

#ifdef RMA2DRV
#include <linux/list.h>
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>

#include "extoll2_list.h"
#endif

typedef struct _region {
	/* The library's. */
#ifdef RMA2DRV
	struct list_head list;
#else
	extoll_list_head_t list;
#endif
	/* First page, and its network logical address. */
	void *start;
	unsigned long nla;
	/* Pages. */
	uint32_t count;
	/* Of the registered address in its page. */
	uint32_t offset;
	/* Behind the last page. */
	void *end;
	/* Bytes: count pages. */
	size_t size;
	uint64_t refcount;
	/* The port. */
	void *endpoint;
	/* A region of the registration cache that this one is a part of, else null. */
	struct _region *parent;
} RMA2_Region;

#endif /* RMA2_REGION_H */
