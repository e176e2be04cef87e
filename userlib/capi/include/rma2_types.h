/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Results, options, commands and structures of librma2 (spec 10). Programs include rma2.h.
 */
#ifndef RMA2_TYPES_H
#define RMA2_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "extoll2_list.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t RMA2_Nodeid;
typedef uint16_t RMA2_VPID;
/* Network logical address: what registered memory is called by the card (spec 4.1). */
typedef uint64_t RMA2_NLA;
typedef uint8_t RMA2_Class;

/* Results (spec 10.1). What each means here: */
typedef enum {
	RMA2_SUCCESS = 0,
	/* Registering failed: the memory is not mapped, or a limit is reached. */
	RMA2_ERR_ERROR = -1,
	/* Not a connection, not one of this port, or disconnected. */
	RMA2_ERR_INV_HANDLE = -2,
	/* Not a port, or closed. */
	RMA2_ERR_INV_PORT = -3,
	/* A null pointer, a region or notification that the port does not have, a number out of range. */
	RMA2_ERR_INV_VALUE = -4,
	/* The peer's process has died or left. */
	RMA2_ERR_NO_ROUTE = -5,
	/* Every VPID of the node is open. */
	RMA2_ERR_PORTS_USED = -6,
	RMA2_ERR_NO_MEM = -7,
	/* The queue is empty. */
	RMA2_NO_NOTI = -9,
	/* A bounded wait is over: no room for a post, or no notification. */
	RMA2_ERR_POLL_EXCEEDED = -10,
	/* Size, count, alignment, notifications or modifier make no valid command. */
	RMA2_ERR_WRONG_ARG = -11,
	/* What was posted has not left the card within the bound (rma2_close). */
	RMA2_ERR_NOT_YET = -12,
	RMA2_ERR_NO_DESC_MEM = -13,
	/* The queue holds notifications, but none that matches. */
	RMA2_ERR_NO_MATCH = -15,
	/* Not a command, or one that this call does not set. */
	RMA2_ERR_WRONG_CMD = -16,
	/* The device that is chosen (GGAS_DEVICE, EXTOLL_DEVICE) is none of this interface. */
	RMA2_ERR_NO_DEVICE = -17,
	/* The job could not be joined (ggas run, GGAS_*). */
	RMA2_ERR_NO_CONNECT = -18,
	RMA2_ERR_INVALID_VERSION = -22,
	/* A notification queue of this shape cannot be set up. */
	RMA2_ERR_IOCTL = -23,
	RMA2_ERR_MMAP = -24,
	/* The device cannot be opened. */
	RMA2_ERR_FD = -25,
	/* The region's memory was unmapped or freed while it was registered. */
	RMA2_ERR_MAP = -26,
	RMA2_ERR_DOUBLE_MAP = 27,
	/* No translation table has room for the region. */
	RMA2_ERR_NO_TABLE = 28,
	RMA2_ERR_NOT_FREE = 29,
	RMA2_ERR_PART = 30,
	/* The card did not confirm that it let go of memory. */
	RMA2_ERR_ATU = 31,
	/* RLIMIT_MEMLOCK is reached. */
	RMA2_ERR_MLOCKLIMIT = 32
} RMA2_ERROR;

/* Who is notified of a command (spec 3.1). */
typedef enum {
	RMA2_NO_NOTIFICATION = 0,
	RMA2_REQUESTER_NOTIFICATION = 1,
	RMA2_RESPONDER_NOTIFICATION = 2,
	RMA2_COMPLETER_NOTIFICATION = 4,
	RMA2_REQCOMPL_NOTIFICATION = 5,
	RMA2_RESPCOMPL_NOTIFICATION = 6,
	RMA2_ALL_NOTIFICATIONS = 7
} RMA2_Notification_Spec;

/* How a connection's commands run (spec 2.1). */
typedef enum {
	RMA2_CONN_PHYSICAL = 0,
	RMA2_CONN_TC0 = 0,
	RMA2_CONN_TC1 = 1,
	RMA2_CONN_TC2 = 2,
	RMA2_CONN_TC3 = 3,
	RMA2_CONN_RRA = 4,
	RMA2_CONN_IRQ = 8,
	RMA2_CONN_TE = 16,
	RMA2_CONN_DEFAULT = 16
} RMA2_Connection_Options;

/* Commands (spec 2.2). The last three stand for groups in rma2_noti_match. */
typedef enum {
	RMA2_BT_GET = 0,
	RMA2_QW_GET = 1,
	RMA2_BT_PUT = 2,
	RMA2_QW_PUT = 3,
	RMA2_NOTIFICATION_PUT = 5,
	RMA2_IMMEDIATE_PUT = 6,
	RMA2_GET_BT_RSP = 10,
	RMA2_GET_QW_RSP = 11,
	RMA2_LOCK_REQ = 12,
	RMA2_LOCK_RSP = 13,
	RMA2_PUTS = 7,
	RMA2_GETS = 14,
	RMA2_ANY = 15
} RMA2_Command;

typedef enum {
	RMA2_CMD_DEFAULT = 0,
	RMA2_CMD_MC = 1,
	RMA2_CMD_NTR = 2,
	RMA2_CMD_ERA = 4,
	RMA2_CMD_EWA = 8
} RMA2_Command_Modifier;

typedef enum {
	RMA2_NOTI_RRA = 1,
	RMA2_NOTI_IRQ = 2,
	RMA2_NOTI_TE = 4,
	RMA2_NOTI_EWA = 8,
	RMA2_NOTI_NTR = 16,
	RMA2_NOTI_ERA = 32
} RMA2_Notification_Modifier;

typedef enum {
	RMA2_ERROR_REQ = 1,
	RMA2_ERROR_RESP = 2,
	RMA2_ERROR_CMPL = 4
} RMA2_Notification_Error;

/* Kept and returned; rejected descriptors are always replayed when a call on the port finds them (spec 2.4). */
typedef enum {
	RMA2_REPLAY_MANUAL = 0,
	RMA2_REPLAY_POST = 1,
	RMA2_REPLAY_NOTI = 2,
	RMA2_REPLAY_CLOSE = 4,
	RMA2_REPLAY_ALL = 7
} RMA2_Replay_Buffer_Mode;

extern const RMA2_Class RMA2_CLASS_ANY;
extern const RMA2_Nodeid RMA2_NODEID_ANY;
extern const RMA2_VPID RMA2_VPID_ANY;
extern const uint32_t RMA2_LOCK_ANY;
extern const RMA2_NLA RMA2_ANY_NLA;
/* Flags of rma2_noti_match and rma2_noti_match_block, which may be or'ed. */
extern const int RMA2_DEFAULT_FLAG; /* 0: look once; nla is the address in the notification */
extern const int RMA2_BLOCK_FLAG; /* 1: wait as rma2_noti_match_block does, which takes it as set */
extern const int RMA2_MATCH_LAST_NLA_FLAG; /* 2: nla is the address of the transfer's last byte */

/* An entry of a notification queue (spec 3.1). */
typedef struct {
	union {
		uint64_t value;
	} word0;
	union {
		uint64_t value;
	} word1;
} __attribute__((packed)) RMA2_Notification;

/* A connection: the remote port, as this port reaches it. */
typedef struct {
	uint32_t nodeid;
	uint32_t vpid;
	volatile uint64_t *req_page;
} RMA2_Connection;
typedef RMA2_Connection *RMA2_Handle;

/* A command that is prepared once and posted with rma2_post_descriptor. */
typedef struct {
	extoll_list_head_t list;
	RMA2_Handle handle;
	uint64_t reserved0;
	uint64_t value[3];
	uint64_t reserved1;
} RMA2_Descriptor;

/*
 * An open port. For looking at only: ids, the queue and its size, the read-pointer and state registers are filled
 * in when the port is opened; counters and indices in it are not kept up.
 */
typedef struct {
	struct {
		RMA2_Notification *queue;
		uint32_t size;
		uint32_t rp;
		uint32_t rp_bak;
		volatile uint64_t *rp_wb;
	} queue;
	void *descriptor_queue;
	void *region_queue;
	int fd;
	uint32_t pad0;
	void *desc_pool;
	uint32_t nodeid;
	uint32_t vpid;
	uint32_t max_nodeid;
	uint32_t max_vpid;
	void *regions;
	void *freed_regions;
	uint64_t registered_mem;
	uint64_t limit;
	volatile uint64_t *req_pages[32];
	volatile uint64_t *state_map;
	void *packet_buffer;
	uint32_t committed_count;
	uint32_t packet_wp;
	uint64_t retried_packet_count;
	RMA2_Replay_Buffer_Mode replay_mode;
} RMA2_Endpoint;
typedef RMA2_Endpoint *RMA2_Port;

#ifdef __cplusplus
}
#endif

#endif /* RMA2_TYPES_H */
