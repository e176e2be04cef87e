/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* Address translation: NLAs, translation tables, commands (spec 4.1). */
#ifndef EXTOLL_ATU_H
#define EXTOLL_ATU_H

#include "base.h"

/* Network logical address: 40 bits. */
#define EXTOLL_NLA_OFFSET_SHIFT		0
#define EXTOLL_NLA_OFFSET_BITS		12
#define EXTOLL_NLA_ENTRY_SHIFT		12
#define EXTOLL_NLA_ENTRY_BITS		18
#define EXTOLL_NLA_TABLE_SHIFT		30
#define EXTOLL_NLA_TABLE_BITS		10
#define EXTOLL_NLA_BITS			40

/* Tables (GAT): each 2 MiB, aligned to 2 MiB, covers 1 GiB. */
#define EXTOLL_GAT_TABLES		1024
#define EXTOLL_GAT_ENTRIES		262144
#define EXTOLL_GAT_BYTES		0x200000
#define EXTOLL_GAT_DEFAULT_TABLES	192	/* allocated by the driver (spec 4.2) */

/*
 * Of drivers: NLAs that were given back rest, since what is on its way to them must not reach other memory. A range is
 * given out again, the lowest first, once as many pages together or as many ranges have been given back after it; sooner
 * where no other has room, and then the one that has rested longest.
 */
#define EXTOLL_NLA_REST_PAGES		262144
#define EXTOLL_NLA_REST_RANGES		1024

/* GAT register. */
#define EXTOLL_GAT_PAGE_SHIFT		0	/* table address >> 21 */
#define EXTOLL_GAT_PAGE_BITS		31
#define EXTOLL_GAT_VALID_SHIFT		31
#define EXTOLL_GAT_VALID_BITS		1

/* Table entry (GATe). */
#define EXTOLL_GATE_ACCESS_SHIFT	0	/* 0: invalid */
#define EXTOLL_GATE_ACCESS_BITS		2
#define EXTOLL_GATE_VPID_SHIFT		2
#define EXTOLL_GATE_VPID_BITS		10
#define EXTOLL_GATE_PAGE_SHIFT		12	/* physical address >> 12 */
#define EXTOLL_GATE_PAGE_BITS		40
#define EXTOLL_GATE_SIZE_SHIFT		59	/* page size code */
#define EXTOLL_GATE_SIZE_BITS		5

#define EXTOLL_GATE_READ		1
#define EXTOLL_GATE_WRITE		2
#define EXTOLL_GATE_READ_WRITE		3

/* Page size codes: 4096 << code bytes. */
#define EXTOLL_PAGE_4K			0
#define EXTOLL_PAGE_64K			4
#define EXTOLL_PAGE_2M			9
#define EXTOLL_PAGE_1G			18

/* Command register, write only. */
#define EXTOLL_ATU_OP_SHIFT		60
#define EXTOLL_ATU_OP_BITS		4
#define EXTOLL_ATU_FLUSH_COUNT_SHIFT	28	/* pages - 1 */
#define EXTOLL_ATU_FLUSH_COUNT_BITS	10
#define EXTOLL_ATU_FLUSH_PAGE_SHIFT	0	/* NLA >> 12 */
#define EXTOLL_ATU_FLUSH_PAGE_BITS	28
#define EXTOLL_ATU_FLUSH_VPID_SHIFT	0
#define EXTOLL_ATU_FLUSH_VPID_BITS	10
#define EXTOLL_ATU_NOTIFY_SHIFT		0	/* physical address */
#define EXTOLL_ATU_NOTIFY_BITS		48

#define EXTOLL_ATU_OP_FLUSH_PAGES	1
#define EXTOLL_ATU_OP_FLUSH_VPID	2
#define EXTOLL_ATU_OP_FENCE		3
#define EXTOLL_ATU_OP_NOTIFY		4

/* Byte `offset` of page `entry` of table `table`. */
EXTOLL_FN uint64_t extoll_nla(uint32_t table, uint32_t entry, uint32_t offset)
{
	return EXTOLL_PUT(table, EXTOLL_NLA_TABLE) |
	       EXTOLL_PUT(entry, EXTOLL_NLA_ENTRY) |
	       EXTOLL_PUT(offset, EXTOLL_NLA_OFFSET);
}

/* Register of the table at `address`, a multiple of 2 MiB. */
EXTOLL_FN uint64_t extoll_gat_register(uint64_t address)
{
	return EXTOLL_PUT(address >> 21, EXTOLL_GAT_PAGE) | EXTOLL_PUT(1, EXTOLL_GAT_VALID);
}

/* Translation of one page of `vpid`; `address` is aligned to the page size. */
EXTOLL_FN uint64_t extoll_gate(uint32_t vpid, uint32_t access, uint64_t address, uint32_t size)
{
	return EXTOLL_PUT(access, EXTOLL_GATE_ACCESS) |
	       EXTOLL_PUT(vpid, EXTOLL_GATE_VPID) |
	       EXTOLL_PUT(address >> 12, EXTOLL_GATE_PAGE) |
	       EXTOLL_PUT(size, EXTOLL_GATE_SIZE);
}

/* Forget `count` (1 to 1024) pages from `page` (NLA >> 12) on. */
EXTOLL_FN uint64_t extoll_atu_flush_pages(uint32_t page, uint32_t count)
{
	return EXTOLL_PUT(EXTOLL_ATU_OP_FLUSH_PAGES, EXTOLL_ATU_OP) |
	       EXTOLL_PUT(count - 1, EXTOLL_ATU_FLUSH_COUNT) |
	       EXTOLL_PUT(page, EXTOLL_ATU_FLUSH_PAGE);
}

/* Forget all pages of a VPID. */
EXTOLL_FN uint64_t extoll_atu_flush_vpid(uint32_t vpid)
{
	return EXTOLL_PUT(EXTOLL_ATU_OP_FLUSH_VPID, EXTOLL_ATU_OP) |
	       EXTOLL_PUT(vpid, EXTOLL_ATU_FLUSH_VPID);
}

/* Later commands wait for earlier ones. */
EXTOLL_FN uint64_t extoll_atu_fence(void)
{
	return EXTOLL_PUT(EXTOLL_ATU_OP_FENCE, EXTOLL_ATU_OP);
}

/* Write a value that is not 0 to `address` once earlier flushes are complete. */
EXTOLL_FN uint64_t extoll_atu_notify(uint64_t address)
{
	return EXTOLL_PUT(EXTOLL_ATU_OP_NOTIFY, EXTOLL_ATU_OP) |
	       EXTOLL_PUT(address, EXTOLL_ATU_NOTIFY);
}

#endif /* EXTOLL_ATU_H */
