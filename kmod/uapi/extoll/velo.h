/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* VELO: requester pages, message headers, mailbox slots (spec 7). */
#ifndef EXTOLL_VELO_H
#define EXTOLL_VELO_H

#include "base.h"
#include "bq.h"

#define EXTOLL_VELO_MAX_BYTES		120	/* payload of a message */
#define EXTOLL_VELO_LINE_WORDS		16	/* header and payload at most */
#define EXTOLL_VELO_WCB_BYTES		128	/* an entry of the replay ring */
#define EXTOLL_VELO_BROADCAST_GROUP	63	/* the network driver's */

/*
 * Offset in the VELO requester range: traffic class << 20 | source VPID << 12. The header goes to
 * offset 0 of the page, the payload, in whole quadwords, to offset 8 and on.
 */
#define EXTOLL_VELO_PAGE_VPID_SHIFT	12
#define EXTOLL_VELO_PAGE_VPID_BITS	8
#define EXTOLL_VELO_PAGE_TC_SHIFT	20
#define EXTOLL_VELO_PAGE_TC_BITS	2

/* Header of a message to send. */
#define EXTOLL_VELO_NODE_SHIFT		0	/* or multicast group */
#define EXTOLL_VELO_NODE_BITS		16
#define EXTOLL_VELO_VPID_SHIFT		16
#define EXTOLL_VELO_VPID_BITS		10
#define EXTOLL_VELO_MULTICAST_USER_SHIFT 28	/* as the users' macro has it; taken like the next [inferred] */
#define EXTOLL_VELO_MULTICAST_USER_BITS	1
#define EXTOLL_VELO_MULTICAST_SHIFT	31
#define EXTOLL_VELO_MULTICAST_BITS	1
#define EXTOLL_VELO_MTT_SHIFT		32	/* message type: the user's two bits */
#define EXTOLL_VELO_MTT_BITS		2
#define EXTOLL_VELO_INTERRUPT_SHIFT	34
#define EXTOLL_VELO_INTERRUPT_BITS	1
#define EXTOLL_VELO_TAG_SHIFT		40	/* the user's eight bits */
#define EXTOLL_VELO_TAG_BITS		8
#define EXTOLL_VELO_LENGTH_SHIFT	48	/* bytes; more than 120 are illegal */
#define EXTOLL_VELO_LENGTH_BITS		11

/*
 * Status: the last quadword of a mailbox slot; 0 in a free one. The payload lies right before it,
 * in whole quadwords. A message that one slot does not hold fills slot after slot, each but the
 * last from its start; all carry the status word of the message, the last one with the end bit
 * [inferred].
 */
#define EXTOLL_VELO_STATUS_NODE_SHIFT	0	/* of the sender */
#define EXTOLL_VELO_STATUS_NODE_BITS	16
#define EXTOLL_VELO_STATUS_VPID_SHIFT	16
#define EXTOLL_VELO_STATUS_VPID_BITS	10
#define EXTOLL_VELO_STATUS_MTT_SHIFT	32
#define EXTOLL_VELO_STATUS_MTT_BITS	2
#define EXTOLL_VELO_STATUS_END_SHIFT	36	/* end of message */
#define EXTOLL_VELO_STATUS_END_BITS	1
#define EXTOLL_VELO_STATUS_ERROR_SHIFT	37
#define EXTOLL_VELO_STATUS_ERROR_BITS	1
#define EXTOLL_VELO_STATUS_TAG_SHIFT	40
#define EXTOLL_VELO_STATUS_TAG_BITS	8
#define EXTOLL_VELO_STATUS_LENGTH_SHIFT	48	/* bytes of the message */
#define EXTOLL_VELO_STATUS_LENGTH_BITS	12

/* Register node_vpid_prot_desc: what a VPID sends as. */
#define EXTOLL_VELO_TX_PROTECTION_SHIFT	0
#define EXTOLL_VELO_TX_PROTECTION_BITS	16
#define EXTOLL_VELO_TX_NODE_SHIFT	16
#define EXTOLL_VELO_TX_NODE_BITS	16
#define EXTOLL_VELO_TX_VPID_SHIFT	32
#define EXTOLL_VELO_TX_VPID_BITS	8

/* Register comp_prot_desc: what a VPID receives. */
#define EXTOLL_VELO_RX_PROTECTION_SHIFT	0
#define EXTOLL_VELO_RX_PROTECTION_BITS	16
#define EXTOLL_VELO_RX_REROUTE_SHIFT	16
#define EXTOLL_VELO_RX_REROUTE_BITS	1
#define EXTOLL_VELO_RX_MAILBOX_SHIFT	17	/* mailbox is ready */
#define EXTOLL_VELO_RX_MAILBOX_BITS	1

/* Register timeout: how long a full mailbox holds back the network. */
#define EXTOLL_VELO_TIMEOUT_VALUE_SHIFT	0
#define EXTOLL_VELO_TIMEOUT_VALUE_BITS	32
#define EXTOLL_VELO_TIMEOUT_ENABLE_SHIFT 32
#define EXTOLL_VELO_TIMEOUT_ENABLE_BITS	1
#define EXTOLL_VELO_TIMEOUT_DEFAULT	0x20	/* written by the driver */

/* Register completer. */
#define EXTOLL_VELO_COMPLETER_PORT_SHIFT 0	/* where to reroute, one bit a port */
#define EXTOLL_VELO_COMPLETER_PORT_BITS	9
#define EXTOLL_VELO_COMPLETER_128_SHIFT	9	/* slots of 128 bytes [inferred] */
#define EXTOLL_VELO_COMPLETER_128_BITS	1
#define EXTOLL_VELO_COMPLETER_PORT_DEFAULT 8	/* written by the driver */

/* Offset of a requester page. */
EXTOLL_FN uint64_t extoll_velo_page(uint32_t tc, uint32_t vpid)
{
	return EXTOLL_PUT(tc, EXTOLL_VELO_PAGE_TC) | EXTOLL_PUT(vpid, EXTOLL_VELO_PAGE_VPID);
}

/* Header of a message of `length` (at most 120) bytes to a VPID. */
EXTOLL_FN uint64_t extoll_velo_header(uint32_t node, uint32_t vpid, uint32_t mtt, uint32_t tag,
				      uint32_t length)
{
	return EXTOLL_PUT(node, EXTOLL_VELO_NODE) | EXTOLL_PUT(vpid, EXTOLL_VELO_VPID) |
	       EXTOLL_PUT(mtt, EXTOLL_VELO_MTT) | EXTOLL_PUT(tag, EXTOLL_VELO_TAG) |
	       EXTOLL_PUT(length, EXTOLL_VELO_LENGTH);
}

/* The same with an interrupt at the receiver. */
EXTOLL_FN uint64_t extoll_velo_with_interrupt(uint64_t header)
{
	return header | EXTOLL_PUT(1, EXTOLL_VELO_INTERRUPT);
}

/* The same to that VPID on every node of multicast group `node`. */
EXTOLL_FN uint64_t extoll_velo_to_group(uint64_t header)
{
	return header | EXTOLL_PUT(1, EXTOLL_VELO_MULTICAST);
}

/* Quadwords of a payload. */
EXTOLL_FN uint32_t extoll_velo_quadwords(uint32_t length)
{
	return (length + 7) / 8;
}

/* Slots of `slot_bytes` (64 or 128) that a message takes. */
EXTOLL_FN uint32_t extoll_velo_slots(uint32_t slot_bytes, uint32_t length)
{
	const uint32_t each = slot_bytes - 8;

	return length <= each ? 1 : (length + each - 1) / each;
}

EXTOLL_FN uint64_t extoll_velo_status(uint32_t node, uint32_t vpid, uint32_t mtt, uint32_t end,
				      uint32_t error, uint32_t tag, uint32_t length)
{
	return EXTOLL_PUT(node, EXTOLL_VELO_STATUS_NODE) |
	       EXTOLL_PUT(vpid, EXTOLL_VELO_STATUS_VPID) |
	       EXTOLL_PUT(mtt, EXTOLL_VELO_STATUS_MTT) | EXTOLL_PUT(end, EXTOLL_VELO_STATUS_END) |
	       EXTOLL_PUT(error, EXTOLL_VELO_STATUS_ERROR) |
	       EXTOLL_PUT(tag, EXTOLL_VELO_STATUS_TAG) |
	       EXTOLL_PUT(length, EXTOLL_VELO_STATUS_LENGTH);
}

EXTOLL_FN uint32_t extoll_velo_status_node(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_NODE);
}

EXTOLL_FN uint32_t extoll_velo_status_vpid(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_VPID);
}

EXTOLL_FN uint32_t extoll_velo_status_mtt(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_MTT);
}

EXTOLL_FN uint32_t extoll_velo_status_end(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_END);
}

EXTOLL_FN uint32_t extoll_velo_status_error(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_ERROR);
}

EXTOLL_FN uint32_t extoll_velo_status_tag(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_TAG);
}

EXTOLL_FN uint32_t extoll_velo_status_length(uint64_t status)
{
	return (uint32_t)EXTOLL_GET(status, EXTOLL_VELO_STATUS_LENGTH);
}

/* Register node_vpid_prot_desc. */
EXTOLL_FN uint64_t extoll_velo_tx(uint32_t node, uint32_t vpid, uint32_t protection)
{
	return EXTOLL_PUT(protection, EXTOLL_VELO_TX_PROTECTION) |
	       EXTOLL_PUT(node, EXTOLL_VELO_TX_NODE) | EXTOLL_PUT(vpid, EXTOLL_VELO_TX_VPID);
}

/* Register comp_prot_desc of a VPID with a mailbox. */
EXTOLL_FN uint64_t extoll_velo_rx(uint32_t protection)
{
	return EXTOLL_PUT(protection, EXTOLL_VELO_RX_PROTECTION) |
	       EXTOLL_PUT(1, EXTOLL_VELO_RX_MAILBOX);
}

#endif /* EXTOLL_VELO_H */
