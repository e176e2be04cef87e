/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* Requester: page addresses (spec 2.1) and descriptors (spec 2.2). */
#ifndef EXTOLL_DESC_H
#define EXTOLL_DESC_H

#include "base.h"

/*
 * Offset in the RMA requester range: option << 20 | source VPID << 12 (spec 2.1).
 * Words 0, 1, 2 of a descriptor go to offsets 0, 8, 16 of the page (spec 2.4).
 */
#define EXTOLL_PAGE_VPID_SHIFT		12
#define EXTOLL_PAGE_VPID_BITS		8
#define EXTOLL_PAGE_OPTION_SHIFT	20
#define EXTOLL_PAGE_OPTION_BITS		5
#define EXTOLL_PAGE_OPTIONS		32

#define EXTOLL_OPTION_TC_SHIFT		0	/* traffic class, 0 to 3 */
#define EXTOLL_OPTION_TC_BITS		2
#define EXTOLL_OPTION_PHYSICAL		0
#define EXTOLL_OPTION_RRA		4	/* remote addresses are register offsets */
#define EXTOLL_OPTION_IRQ		8	/* interrupt for every notification */
#define EXTOLL_OPTION_TE		16	/* addresses are NLAs; else physical */
#define EXTOLL_OPTION_DEFAULT		16

/* Commands (spec 2.2). Code 4 and those not listed are illegal. */
#define EXTOLL_CMD_BT_GET		0
#define EXTOLL_CMD_QW_GET		1
#define EXTOLL_CMD_BT_PUT		2
#define EXTOLL_CMD_QW_PUT		3
#define EXTOLL_CMD_NOTIFICATION_PUT	5
#define EXTOLL_CMD_IMMEDIATE_PUT	6
#define EXTOLL_CMD_GET_BT_RSP		10	/* made by hardware only */
#define EXTOLL_CMD_GET_QW_RSP		11	/* made by hardware only */
#define EXTOLL_CMD_LOCK_REQ		12
#define EXTOLL_CMD_LOCK_RSP		13	/* made by hardware only */

/* Notifications asked for (spec 2.2). */
#define EXTOLL_SPEC_NONE		0
#define EXTOLL_SPEC_REQUESTER		1
#define EXTOLL_SPEC_RESPONDER		2
#define EXTOLL_SPEC_COMPLETER		4
#define EXTOLL_SPEC_ALL			7

/* Modifiers (spec 2.2). */
#define EXTOLL_MOD_NONE			0
#define EXTOLL_MOD_MC			1	/* destination node is a multicast group */
#define EXTOLL_MOD_NTR			2	/* notifications for each fragment */
#define EXTOLL_MOD_ERA			4	/* read from the Excellerate port */
#define EXTOLL_MOD_EWA			8	/* write to the Excellerate port */

/* Word 0, all commands (spec 2.2). */
#define EXTOLL_DESC_QUADWORDS_SHIFT	0
#define EXTOLL_DESC_QUADWORDS_BITS	2
#define EXTOLL_DESC_QUADWORDS		3	/* constant [inferred: quadword count] */
#define EXTOLL_DESC_COMMAND_SHIFT	2
#define EXTOLL_DESC_COMMAND_BITS	4
#define EXTOLL_DESC_VPID_SHIFT		8
#define EXTOLL_DESC_VPID_BITS		8
#define EXTOLL_DESC_NODE_SHIFT		16
#define EXTOLL_DESC_NODE_BITS		16
#define EXTOLL_DESC_SPEC_SHIFT		32
#define EXTOLL_DESC_SPEC_BITS		3
#define EXTOLL_DESC_MODIFIER_SHIFT	35
#define EXTOLL_DESC_MODIFIER_BITS	4

/* Word 0, by command (spec 2.2). */
#define EXTOLL_DESC_SIZE_SHIFT		40	/* put, get: bytes - 1 */
#define EXTOLL_DESC_SIZE_BITS		23
#define EXTOLL_DESC_CLASS_SHIFT		40	/* notification put */
#define EXTOLL_DESC_CLASS_BITS		8
#define EXTOLL_DESC_COUNT_SHIFT		40	/* immediate put: bytes - 1 */
#define EXTOLL_DESC_COUNT_BITS		3
#define EXTOLL_DESC_LOCK_TARGET_SHIFT	40	/* lock: 0 completer, 1 responder */
#define EXTOLL_DESC_LOCK_TARGET_BITS	1

/* Words 1 and 2 of a lock (spec 2.2). */
#define EXTOLL_DESC_LOCK_NUMBER_SHIFT	0	/* word 1 */
#define EXTOLL_DESC_LOCK_NUMBER_BITS	24
#define EXTOLL_DESC_LOCK_COMPARE_SHIFT	32	/* word 1, signed [inferred] */
#define EXTOLL_DESC_LOCK_COMPARE_BITS	32
#define EXTOLL_DESC_LOCK_ADD_SHIFT	32	/* word 2, signed [inferred] */
#define EXTOLL_DESC_LOCK_ADD_BITS	32

#define EXTOLL_MAX_TRANSFER		0x800000	/* bytes of one put or get (spec 2.2) */
#define EXTOLL_MAX_IMMEDIATE		8		/* bytes of an immediate put (spec 2.2) */

/* Fragments of the network (spec 2.3). */
#define EXTOLL_MTU			512	/* register value on Tourmalet */
#define EXTOLL_MTU_OVERHEAD		16	/* register value less payload [inferred] */
#define EXTOLL_FRAGMENT			496	/* payload bytes, counted from the start address */

/* A command, as three words are written to a requester page (spec 2.2). */
struct extoll_desc {
	uint64_t word[3];
};
EXTOLL_ASSERT(sizeof(struct extoll_desc) == 24, "a descriptor has three words");

/* Offset of a VPID's page for an option, in the RMA requester range. */
EXTOLL_FN uint64_t extoll_page_offset(uint32_t option, uint32_t vpid)
{
	return EXTOLL_PUT(option, EXTOLL_PAGE_OPTION) | EXTOLL_PUT(vpid, EXTOLL_PAGE_VPID);
}

/* Word 0 without the bits [62:40] that depend on the command. */
EXTOLL_FN uint64_t extoll_desc_header(uint32_t command, uint32_t node, uint32_t vpid,
				      uint32_t spec, uint32_t modifier)
{
	return EXTOLL_PUT(EXTOLL_DESC_QUADWORDS, EXTOLL_DESC_QUADWORDS) |
	       EXTOLL_PUT(command, EXTOLL_DESC_COMMAND) |
	       EXTOLL_PUT(vpid, EXTOLL_DESC_VPID) |
	       EXTOLL_PUT(node, EXTOLL_DESC_NODE) |
	       EXTOLL_PUT(spec, EXTOLL_DESC_SPEC) |
	       EXTOLL_PUT(modifier, EXTOLL_DESC_MODIFIER);
}

/*
 * Any put or get. `size` is 1 to EXTOLL_MAX_TRANSFER bytes; quadword commands
 * need sizes and addresses that are multiples of 8.
 */
EXTOLL_FN struct extoll_desc extoll_desc_sized(uint32_t command, uint32_t node, uint32_t vpid,
					       uint32_t spec, uint32_t modifier,
					       uint64_t read, uint64_t write, uint32_t size)
{
	struct extoll_desc desc;

	desc.word[0] = extoll_desc_header(command, node, vpid, spec, modifier) |
		       EXTOLL_PUT(size - 1, EXTOLL_DESC_SIZE);
	desc.word[1] = read;
	desc.word[2] = write;
	return desc;
}

/* Copy `size` bytes from local `read` to remote `write`; `qw`: by quadwords. */
EXTOLL_FN struct extoll_desc extoll_desc_put(uint32_t qw, uint32_t node, uint32_t vpid,
					     uint32_t spec, uint32_t modifier,
					     uint64_t read, uint64_t write, uint32_t size)
{
	return extoll_desc_sized(qw ? EXTOLL_CMD_QW_PUT : EXTOLL_CMD_BT_PUT, node, vpid, spec,
				 modifier, read, write, size);
}

/* Copy `size` bytes from remote `read` to local `write`; `qw`: by quadwords. */
EXTOLL_FN struct extoll_desc extoll_desc_get(uint32_t qw, uint32_t node, uint32_t vpid,
					     uint32_t spec, uint32_t modifier,
					     uint64_t read, uint64_t write, uint32_t size)
{
	return extoll_desc_sized(qw ? EXTOLL_CMD_QW_GET : EXTOLL_CMD_BT_GET, node, vpid, spec,
				 modifier, read, write, size);
}

/*
 * Send `class_` (8 bits) and `payload` as a notification; without
 * EXTOLL_SPEC_COMPLETER it has no effect on a host (spec 3.1).
 */
EXTOLL_FN struct extoll_desc extoll_desc_notification_put(uint32_t node, uint32_t vpid,
							  uint32_t spec, uint32_t modifier,
							  uint32_t class_, uint64_t payload)
{
	struct extoll_desc desc;

	desc.word[0] = extoll_desc_header(EXTOLL_CMD_NOTIFICATION_PUT, node, vpid, spec, modifier) |
		       EXTOLL_PUT(class_, EXTOLL_DESC_CLASS);
	desc.word[1] = payload;
	desc.word[2] = 0;
	return desc;
}

/* Write the low `count` (1 to 8) bytes of `value` to remote `write`. */
EXTOLL_FN struct extoll_desc extoll_desc_immediate_put(uint32_t node, uint32_t vpid,
						       uint32_t spec, uint32_t modifier,
						       uint32_t count, uint64_t write,
						       uint64_t value)
{
	struct extoll_desc desc;

	desc.word[0] = extoll_desc_header(EXTOLL_CMD_IMMEDIATE_PUT, node, vpid, spec, modifier) |
		       EXTOLL_PUT(count - 1, EXTOLL_DESC_COUNT);
	desc.word[1] = write;
	desc.word[2] = value;
	return desc;
}

/* Atomically at the target: if lock <= compare, lock += add (spec 5). */
EXTOLL_FN struct extoll_desc extoll_desc_lock(uint32_t node, uint32_t vpid,
					      uint32_t spec, uint32_t modifier,
					      uint32_t to_responder, uint32_t number,
					      int32_t compare, int32_t add)
{
	struct extoll_desc desc;

	desc.word[0] = extoll_desc_header(EXTOLL_CMD_LOCK_REQ, node, vpid, spec, modifier) |
		       EXTOLL_PUT(to_responder, EXTOLL_DESC_LOCK_TARGET);
	desc.word[1] = EXTOLL_PUT((uint32_t)compare, EXTOLL_DESC_LOCK_COMPARE) |
		       EXTOLL_PUT(number, EXTOLL_DESC_LOCK_NUMBER);
	desc.word[2] = EXTOLL_PUT((uint32_t)add, EXTOLL_DESC_LOCK_ADD);
	return desc;
}

#endif /* EXTOLL_DESC_H */
