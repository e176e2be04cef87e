/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Words of VELO messages (spec 7). */
#ifndef VELO2_MOD_H
#define VELO2_MOD_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

/* A port's address: VPID in bits 23:16, node in 15:0. */
#define VELO2_ADDR_PACK(node, vpid) ((((uint32_t)(vpid) & 0xff) << 16) | ((uint32_t)(node) & 0xffff))
#define VELO2_ADDR_UNPACK(addr, node, vpid)                  \
	do {                                                 \
		(node) = (uint16_t)((addr) & 0xffff);        \
		(vpid) = (uint16_t)(((addr) >> 16) & 0xff);  \
	} while (0)
/* A multicast group's address. */
#define VELO2_MCADDR_PACK(group) ((UINT32_C(1) << 28) | (uint32_t)(group))

/* The two halves of the word that starts a message: what it is, and where it goes. */
#define VELO2_REQUEST_UPPERHEADER(mtt, tag, length) \
	((((uint32_t)(length) & 0x7f) << 16) | (((uint32_t)(tag) & 0xff) << 8) | ((uint32_t)(mtt) & 3))
#define VELO2_REQUEST_HEADER(node, vpid, mtt, tag, length) \
	(((uint64_t)VELO2_REQUEST_UPPERHEADER(mtt, tag, length) << 32) | VELO2_ADDR_PACK(node, vpid))

/* Fields of the status word that ends a received message; each takes a pointer to it. */
#define VELO2_STATUS_NODEID(status) ((uint16_t)(*(status) & 0xffff))
#define VELO2_STATUS_VPID(status) ((uint16_t)((*(status) >> 16) & 0xff))
#define VELO2_STATUS_SOURCEID(status) ((uint32_t)(*(status) & 0xffffff))
#define VELO2_STATUS_MTT(status) ((uint8_t)((*(status) >> 32) & 3))
#define VELO2_STATUS_EOM(status) ((uint8_t)((*(status) >> 36) & 1))
#define VELO2_STATUS_ERR(status) ((uint8_t)((*(status) >> 37) & 1))
#define VELO2_STATUS_TAG(status) ((uint8_t)((*(status) >> 40) & 0xff))
#define VELO2_STATUS_LENGTH(status) ((uint8_t)((*(status) >> 48) & 0x7f))

#endif /* VELO2_MOD_H */
