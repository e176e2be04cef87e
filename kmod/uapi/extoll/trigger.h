/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Triggered operations (GPU-TN). MODEL ONLY: no card has this unit, and the
 * specification has nothing in its place; the numbers are ours. Software asks
 * before it uses them (EXTOLL_TRIGGER_CONTROL reads as it was written).
 *
 * A VPID has one page of registers. Software registers an operation, a
 * descriptor with a tag and a threshold. A store of the tag to
 * EXTOLL_TRIGGER_FIRE counts; the store that brings the count to the threshold
 * starts the operation, once. A tag that nobody has registered counts all the
 * same, and registering it later joins what was counted.
 */
#ifndef EXTOLL_TRIGGER_H
#define EXTOLL_TRIGGER_H

#include "base.h"
#include "regs.h"

/* Page of VPID v: EXTOLL_RF_TRIGGER + v * EXTOLL_RF_TRIGGER_STRIDE, in a part of BAR 0 that the card does not use. */
#define EXTOLL_RF_TRIGGER			0x1800000
#define EXTOLL_RF_TRIGGER_STRIDE		0x1000

/* What kernels store to: offsets in the page. */
#define EXTOLL_TRIGGER_FIRE			0x0	/* a tag: counts one */
#define EXTOLL_TRIGGER_REARM			0x8	/* a tag: takes the threshold off its count, and waits for it again */
#define EXTOLL_TRIGGER_WHERE			0x10	/* fields of the next FIRE_FIELDS; one writer at a time */
#define EXTOLL_TRIGGER_WHAT			0x18
#define EXTOLL_TRIGGER_FIRE_FIELDS		0x20	/* a tag: as FIRE, with these fields */

/* WHERE: bytes added to the addresses that were registered. */
#define EXTOLL_TRIGGER_LOCAL_SHIFT		0
#define EXTOLL_TRIGGER_LOCAL_BITS		32
#define EXTOLL_TRIGGER_REMOTE_SHIFT		32
#define EXTOLL_TRIGGER_REMOTE_BITS		32
/* WHAT: 0 leaves all as registered. In a slot it also says that the slot is no plain trigger. */
#define EXTOLL_TRIGGER_SIZE_SHIFT		0	/* bytes; 0: as registered */
#define EXTOLL_TRIGGER_SIZE_BITS		24
#define EXTOLL_TRIGGER_NODE_SHIFT		24	/* target, where HAS_TARGET says so */
#define EXTOLL_TRIGGER_NODE_BITS		16
#define EXTOLL_TRIGGER_VPID_SHIFT		40
#define EXTOLL_TRIGGER_VPID_BITS		8
#define EXTOLL_TRIGGER_HAS_TARGET_SHIFT		61
#define EXTOLL_TRIGGER_HAS_TARGET_BITS		1
#define EXTOLL_TRIGGER_IS_REARM_SHIFT		62	/* slots: re-arms */
#define EXTOLL_TRIGGER_IS_REARM_BITS		1
#define EXTOLL_TRIGGER_HAS_FIELDS_SHIFT		63	/* slots: WHERE and WHAT count */
#define EXTOLL_TRIGGER_HAS_FIELDS_BITS		1

/* What the host writes before a COMMAND: one writer at a time. */
#define EXTOLL_TRIGGER_DESC			0x100	/* three words, as a requester page takes them (spec 2.2) */
#define EXTOLL_TRIGGER_TAG			0x118
#define EXTOLL_TRIGGER_HOW			0x120
#define EXTOLL_TRIGGER_DONE			0x128	/* NLA of the completion word, and VALID: an NLA may be 0 */
#define EXTOLL_TRIGGER_COMMAND			0x130
#define EXTOLL_TRIGGER_RESULT			0x138	/* R: what became of the last command */
#define EXTOLL_TRIGGER_VALUE			0x140	/* R: what the tag of the last command has counted */

#define EXTOLL_TRIGGER_THRESHOLD_SHIFT		0	/* HOW */
#define EXTOLL_TRIGGER_THRESHOLD_BITS		32
#define EXTOLL_TRIGGER_OPTION_SHIFT		32	/* page option (spec 2.1) */
#define EXTOLL_TRIGGER_OPTION_BITS		5
#define EXTOLL_TRIGGER_FIELDS_SHIFT		40	/* triggers may bring fields */
#define EXTOLL_TRIGGER_FIELDS_BITS		1

#define EXTOLL_TRIGGER_VALID_SHIFT		0	/* DONE and STATUS: there is such a word; its NLA is a multiple of 8 */
#define EXTOLL_TRIGGER_VALID_BITS		1

#define EXTOLL_TRIGGER_CMD_REGISTER		1
#define EXTOLL_TRIGGER_CMD_CANCEL		2	/* forgets the tag */
#define EXTOLL_TRIGGER_CMD_REARM		3
#define EXTOLL_TRIGGER_CMD_LOOK			4	/* only reads the count */

#define EXTOLL_TRIGGER_DONE_OK			0
#define EXTOLL_TRIGGER_FULL			1	/* no room for another tag */
#define EXTOLL_TRIGGER_TAKEN			2	/* the tag waits for its threshold already */
#define EXTOLL_TRIGGER_UNKNOWN			3	/* no such tag, or nothing is registered for it */
#define EXTOLL_TRIGGER_WAITS			4	/* re-armed before it was started */
#define EXTOLL_TRIGGER_BAD			5	/* threshold 0, no such command, no table */
#define EXTOLL_TRIGGER_BUSY			6	/* too many operations wait for the requester: again later */

#define EXTOLL_TRIGGER_CONTROL			0x200	/* writing it makes an empty table */
#define EXTOLL_TRIGGER_ENTRIES_SHIFT		0	/* tags at once; 0: no table */
#define EXTOLL_TRIGGER_ENTRIES_BITS		32
#define EXTOLL_TRIGGER_LOOKUP_SHIFT		32
#define EXTOLL_TRIGGER_LOOKUP_BITS		2
#define EXTOLL_TRIGGER_ASSOCIATIVE		1	/* at most 16 tags */
#define EXTOLL_TRIGGER_HASH			2
#define EXTOLL_TRIGGER_LIST			3
#define EXTOLL_TRIGGER_ASSOCIATIVE_MAX		16
#define EXTOLL_TRIGGER_HASH_MAX			0x400000
#define EXTOLL_TRIGGER_LIST_MAX			0x10000

#define EXTOLL_TRIGGER_STATUS			0x208	/* NLA of six words that the card keeps, and VALID */
#define EXTOLL_TRIGGER_COUNTERS			0x210	/* R: the eight below, a word each */

/* Words of the status that the card writes for kernels and the host: how often, and the tag of the last. */
#define EXTOLL_TRIGGER_STATUS_REFUSED		0	/* triggers that no entry could count, for the table is full */
#define EXTOLL_TRIGGER_STATUS_REFUSED_TAG	1
#define EXTOLL_TRIGGER_STATUS_LATE		2	/* triggers of operations that were started already */
#define EXTOLL_TRIGGER_STATUS_LATE_TAG		3
#define EXTOLL_TRIGGER_STATUS_FAILED		4	/* re-arming, fields or completion words that could not be */
#define EXTOLL_TRIGGER_STATUS_FAILED_TAG	5
#define EXTOLL_TRIGGER_STATUS_WORDS		6

/* Counters of the table. */
#define EXTOLL_TRIGGER_COUNT_USED		0	/* tags in the table */
#define EXTOLL_TRIGGER_COUNT_UNREGISTERED	1	/* of them without an operation */
#define EXTOLL_TRIGGER_COUNT_WAITING		2	/* of them with an operation that was not started */
#define EXTOLL_TRIGGER_COUNT_STARTED		3	/* operations started so far */
#define EXTOLL_TRIGGER_COUNT_REFUSED		4
#define EXTOLL_TRIGGER_COUNT_LATE		5
#define EXTOLL_TRIGGER_COUNT_FAILED		6
#define EXTOLL_TRIGGER_COUNT_COMPARED		7	/* tags that lookups compared, one after the other */
#define EXTOLL_TRIGGER_COUNTS			8

/* A completion word: how often its operation is complete, modulo 2^32, and above it units with errors. */
#define EXTOLL_TRIGGER_WORD_TIMES_SHIFT		0
#define EXTOLL_TRIGGER_WORD_TIMES_BITS		32
#define EXTOLL_TRIGGER_WORD_ERROR_SHIFT		32
#define EXTOLL_TRIGGER_WORD_ERROR_BITS		32

EXTOLL_ASSERT(EXTOLL_RF_TRIGGER + EXTOLL_VPIDS * EXTOLL_RF_TRIGGER_STRIDE <= EXTOLL_BAR0_VELO,
	      "trigger pages lie in the register file");
EXTOLL_ASSERT(EXTOLL_TRIGGER_COUNTERS + 8 * EXTOLL_TRIGGER_COUNTS <= EXTOLL_RF_TRIGGER_STRIDE,
	      "a page for each VPID");

/* The WHERE and WHAT of a trigger that brings fields. `target`: whether node and VPID count. */
EXTOLL_FN uint64_t extoll_trigger_where(uint32_t local, uint32_t remote)
{
	return EXTOLL_PUT(local, EXTOLL_TRIGGER_LOCAL) | EXTOLL_PUT(remote, EXTOLL_TRIGGER_REMOTE);
}

EXTOLL_FN uint64_t extoll_trigger_what(uint32_t size, uint32_t target, uint32_t node, uint32_t vpid)
{
	const uint64_t what = EXTOLL_PUT(size, EXTOLL_TRIGGER_SIZE) | EXTOLL_PUT(1, EXTOLL_TRIGGER_HAS_FIELDS);

	if (!target)
		return what;
	return what | EXTOLL_PUT(1, EXTOLL_TRIGGER_HAS_TARGET) | EXTOLL_PUT(node, EXTOLL_TRIGGER_NODE) |
	       EXTOLL_PUT(vpid, EXTOLL_TRIGGER_VPID);
}

#endif /* EXTOLL_TRIGGER_H */
