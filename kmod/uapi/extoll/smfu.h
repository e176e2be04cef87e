/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* SMFU: the window through which loads and stores reach other nodes (spec 6). */
#ifndef EXTOLL_SMFU_H
#define EXTOLL_SMFU_H

#include "base.h"

/*
 * The window (BAR 2, spec 1.2). Its first part is interval 0, reserved for remote
 * register access: the bus address of a register is window + register offset
 * (spec 6.4). GGAS windows use the rest.
 */
#define EXTOLL_SMFU_WINDOW_BYTES	0x10000000	/* default size */
#define EXTOLL_SMFU_RRA_BYTES		0x2000000
#define EXTOLL_SMFU_RRA_INTERVAL	0

#define EXTOLL_SMFU_INTERVALS		64
#define EXTOLL_SMFU_PAGE_BYTES		4096	/* granularity of interval bounds */

/* status_control (spec 6.1). */
#define EXTOLL_SMFU_ENABLE_SHIFT	0
#define EXTOLL_SMFU_ENABLE_BITS		1
#define EXTOLL_SMFU_ACR_SHIFT		1
#define EXTOLL_SMFU_ACR_BITS		1
#define EXTOLL_SMFU_MSE_SHIFT		2
#define EXTOLL_SMFU_MSE_BITS		1
#define EXTOLL_SMFU_IDLE_SHIFT		3
#define EXTOLL_SMFU_IDLE_BITS		1
#define EXTOLL_SMFU_SEC_SHIFT		4
#define EXTOLL_SMFU_SEC_BITS		1
#define EXTOLL_SMFU_DED_SHIFT		5
#define EXTOLL_SMFU_DED_BITS		1
#define EXTOLL_SMFU_P2NP_SHIFT		8
#define EXTOLL_SMFU_P2NP_BITS		1
#define EXTOLL_SMFU_PASS_PW_SHIFT	9
#define EXTOLL_SMFU_PASS_PW_BITS	1

/* traffic_class (spec 6.1). */
#define EXTOLL_SMFU_TC_NP_SHIFT		0
#define EXTOLL_SMFU_TC_NP_BITS		2
#define EXTOLL_SMFU_TC_P_SHIFT		4
#define EXTOLL_SMFU_TC_P_BITS		2
#define EXTOLL_SMFU_TC_RSP_SHIFT	8
#define EXTOLL_SMFU_TC_RSP_BITS		2
#define EXTOLL_SMFU_TC_DEFAULT		0x223	/* written by the driver (spec 6.3) */

/* timeout_control (spec 6.1). */
#define EXTOLL_SMFU_TIMEOUT_SHIFT	0
#define EXTOLL_SMFU_TIMEOUT_BITS	24
#define EXTOLL_SMFU_TIMEOUT_ERROR_SHIFT	32	/* cleared by writing it back */
#define EXTOLL_SMFU_TIMEOUT_ERROR_BITS	1

#define EXTOLL_SMFU_COUNTER_BITS	48	/* sent and received counters */

/* Interval control (spec 6.1). */
#define EXTOLL_SMFU_VALID_SHIFT		0
#define EXTOLL_SMFU_VALID_BITS		1
#define EXTOLL_SMFU_FUNCTION_SHIFT	8
#define EXTOLL_SMFU_FUNCTION_BITS	3
#define EXTOLL_SMFU_NODE_SHIFT		16	/* target node */
#define EXTOLL_SMFU_NODE_BITS		16
#define EXTOLL_SMFU_FUNCTION_NETWORK	3	/* always 3 in the sources: network port n3 [inferred] */

/* Interval counter (spec 6.1). */
#define EXTOLL_SMFU_NP_SHIFT		0	/* non-posted: loads */
#define EXTOLL_SMFU_NP_BITS		32
#define EXTOLL_SMFU_POSTED_SHIFT	32	/* posted: stores */
#define EXTOLL_SMFU_POSTED_BITS		32

/* Bits that address registers keep (spec 6.1). */
#define EXTOLL_SMFU_ADDRESS_MASK	0xfffffffff000	/* interval bounds, vpid_tStartAddr: [47:12] */
#define EXTOLL_SMFU_ADDR_MASK_MASK	0xffffffffffc0	/* addr_mask: [47:6] */

/* Where an access goes: node, and offset from the target's base. */
struct extoll_smfu_target {
	uint64_t offset;
	uint16_t node;
	uint16_t pad[3];
};
EXTOLL_ASSERT(sizeof(struct extoll_smfu_target) == 16, "no hidden padding");

/* Interval control of a valid interval to `node`. */
EXTOLL_FN uint64_t extoll_smfu_control(uint32_t node)
{
	return EXTOLL_PUT(1, EXTOLL_SMFU_VALID) |
	       EXTOLL_PUT(EXTOLL_SMFU_FUNCTION_NETWORK, EXTOLL_SMFU_FUNCTION) |
	       EXTOLL_PUT(node, EXTOLL_SMFU_NODE);
}

/*
 * Whether bus address `address` lies in the interval; `end` is inclusive and both
 * bounds count by pages (spec 6.2 [inferred]).
 */
EXTOLL_FN uint32_t extoll_smfu_hit(uint64_t control, uint64_t start, uint64_t end,
				   uint64_t address)
{
	const uint64_t page = address & EXTOLL_SMFU_ADDRESS_MASK;

	return EXTOLL_GET(control, EXTOLL_SMFU_VALID) && address >> 48 == 0 &&
	       page >= (start & EXTOLL_SMFU_ADDRESS_MASK) &&
	       page <= (end & EXTOLL_SMFU_ADDRESS_MASK);
}

/* Target of an address that hits the interval (spec 6.2 [inferred]). */
EXTOLL_FN struct extoll_smfu_target extoll_smfu_interval(uint64_t control, uint64_t start,
							 uint64_t address)
{
	struct extoll_smfu_target target = { 0, 0, { 0, 0, 0 } };

	target.node = (uint16_t)EXTOLL_GET(control, EXTOLL_SMFU_NODE);
	target.offset = address - (start & EXTOLL_SMFU_ADDRESS_MASK);
	return target;
}

/*
 * Target of an address that hits no interval: the bits under `mask` name the node,
 * the others the offset; without a mask all goes to `node_offset` (spec 6.2 [inferred]).
 */
EXTOLL_FN struct extoll_smfu_target extoll_smfu_masked(uint64_t window, uint64_t mask,
						       uint32_t node_offset, uint64_t address)
{
	struct extoll_smfu_target target = { 0, 0, { 0, 0, 0 } };
	const uint64_t global = address - window;

	mask &= EXTOLL_SMFU_ADDR_MASK_MASK;
	target.node = (uint16_t)node_offset;
	if (mask != 0)
		target.node = (uint16_t)((global & mask) / (mask & (~mask + 1)) + node_offset);
	target.offset = global & ~mask;
	return target;
}

#endif /* EXTOLL_SMFU_H */
