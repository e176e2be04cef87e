/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* Notifications: what the card writes into a port's queue (spec 3.1). */
#ifndef EXTOLL_NOTI_H
#define EXTOLL_NOTI_H

#include "base.h"

/* Word 1 (offset 8). It is written last and never 0: the valid flag too. */
#define EXTOLL_NOTI_SIZE_SHIFT		0	/* put, get: bytes of the last fragment - 1 */
#define EXTOLL_NOTI_SIZE_BITS		23
#define EXTOLL_NOTI_CLASS_SHIFT		0	/* notification put */
#define EXTOLL_NOTI_CLASS_BITS		8
#define EXTOLL_NOTI_COUNT_SHIFT		0	/* immediate put: bytes - 1 [inferred] */
#define EXTOLL_NOTI_COUNT_BITS		3
#define EXTOLL_NOTI_VPID_SHIFT		23	/* of the other side */
#define EXTOLL_NOTI_VPID_BITS		8
#define EXTOLL_NOTI_NODE_SHIFT		32	/* of the other side */
#define EXTOLL_NOTI_NODE_BITS		16
#define EXTOLL_NOTI_KIND_SHIFT		48
#define EXTOLL_NOTI_KIND_BITS		3
#define EXTOLL_NOTI_COMMAND_SHIFT	51
#define EXTOLL_NOTI_COMMAND_BITS	4
#define EXTOLL_NOTI_MODE_SHIFT		55
#define EXTOLL_NOTI_MODE_BITS		6
#define EXTOLL_NOTI_ERROR_SHIFT		61
#define EXTOLL_NOTI_ERROR_BITS		3

/* Word 0 of a lock; of other commands it is one number. */
#define EXTOLL_NOTI_LOCK_NUMBER_SHIFT	0
#define EXTOLL_NOTI_LOCK_NUMBER_BITS	24
#define EXTOLL_NOTI_LOCK_RESULT_SHIFT	24
#define EXTOLL_NOTI_LOCK_RESULT_BITS	8
#define EXTOLL_NOTI_LOCK_VALUE_SHIFT	32
#define EXTOLL_NOTI_LOCK_VALUE_BITS	32

/* Kind: exactly one. */
#define EXTOLL_NOTI_KIND_REQUESTER	1
#define EXTOLL_NOTI_KIND_RESPONDER	2
#define EXTOLL_NOTI_KIND_COMPLETER	4

/* Mode bits. */
#define EXTOLL_NOTI_MODE_RRA		1
#define EXTOLL_NOTI_MODE_IRQ		2
#define EXTOLL_NOTI_MODE_TE		4
#define EXTOLL_NOTI_MODE_EWA		8
#define EXTOLL_NOTI_MODE_NTR		16
#define EXTOLL_NOTI_MODE_ERA		32

/* Error bits: units that met one. */
#define EXTOLL_NOTI_ERROR_REQUESTER	1
#define EXTOLL_NOTI_ERROR_RESPONDER	2
#define EXTOLL_NOTI_ERROR_COMPLETER	4

/* An entry of a notification queue; free when word 1 is 0. */
struct extoll_noti {
	uint64_t word0;
	uint64_t word1;
};
EXTOLL_ASSERT(sizeof(struct extoll_noti) == 16, "a notification has two words");

/* Word 1; `field` is size - 1, class or count - 1, as the command says. */
EXTOLL_FN uint64_t extoll_noti_word1(uint32_t kind, uint32_t command, uint32_t node,
				     uint32_t vpid, uint32_t mode, uint32_t error, uint32_t field)
{
	return EXTOLL_PUT(field, EXTOLL_NOTI_SIZE) |
	       EXTOLL_PUT(vpid, EXTOLL_NOTI_VPID) |
	       EXTOLL_PUT(node, EXTOLL_NOTI_NODE) |
	       EXTOLL_PUT(kind, EXTOLL_NOTI_KIND) |
	       EXTOLL_PUT(command, EXTOLL_NOTI_COMMAND) |
	       EXTOLL_PUT(mode, EXTOLL_NOTI_MODE) |
	       EXTOLL_PUT(error, EXTOLL_NOTI_ERROR);
}

/* Word 0 of a lock's notification. */
EXTOLL_FN uint64_t extoll_noti_lock_word0(uint32_t number, uint32_t result, int32_t value)
{
	return EXTOLL_PUT(number, EXTOLL_NOTI_LOCK_NUMBER) |
	       EXTOLL_PUT(result, EXTOLL_NOTI_LOCK_RESULT) |
	       EXTOLL_PUT((uint32_t)value, EXTOLL_NOTI_LOCK_VALUE);
}

EXTOLL_FN uint32_t extoll_noti_size(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_SIZE) + 1;
}

EXTOLL_FN uint32_t extoll_noti_class(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_CLASS);
}

EXTOLL_FN uint32_t extoll_noti_vpid(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_VPID);
}

EXTOLL_FN uint32_t extoll_noti_node(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_NODE);
}

EXTOLL_FN uint32_t extoll_noti_kind(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_KIND);
}

EXTOLL_FN uint32_t extoll_noti_command(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_COMMAND);
}

EXTOLL_FN uint32_t extoll_noti_mode(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_MODE);
}

EXTOLL_FN uint32_t extoll_noti_error(uint64_t word1)
{
	return (uint32_t)EXTOLL_GET(word1, EXTOLL_NOTI_ERROR);
}

EXTOLL_FN uint32_t extoll_noti_lock_number(uint64_t word0)
{
	return (uint32_t)EXTOLL_GET(word0, EXTOLL_NOTI_LOCK_NUMBER);
}

EXTOLL_FN uint32_t extoll_noti_lock_result(uint64_t word0)
{
	return (uint32_t)EXTOLL_GET(word0, EXTOLL_NOTI_LOCK_RESULT);
}

EXTOLL_FN int32_t extoll_noti_lock_value(uint64_t word0)
{
	return (int32_t)(uint32_t)EXTOLL_GET(word0, EXTOLL_NOTI_LOCK_VALUE);
}

#endif /* EXTOLL_NOTI_H */
