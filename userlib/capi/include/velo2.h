/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libvelo2: messages of up to 120 bytes from port to port over EXTOLL, on the card or on its software model.
 *
 * The functions are those that programs for libvelo2 use (spec 7). A program links with -lvelo2; it may use
 * librma2 as well: both are of the same node and job.
 *
 * Messages of one port to another arrive once and in order. A full mailbox holds its senders back (spec 7): they get
 * VELO2_RET_TRY_AGAIN. It also holds back what else is on its way to the node, and when nobody reads it for longer
 * than the card's timeout, 3.2 s on the model, it loses what waits for room in it.
 *
 * Any thread may send and receive on any port. Handles are looked up: a null, foreign or closed one is a result, not a
 * crash. No wait is endless: see EXTOLL_POST_TIMEOUT and EXTOLL_WAIT_TIMEOUT.
 */
#ifndef VELO2_H
#define VELO2_H

#include <stdint.h>

#include "velo2_mod.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the largest message. */
#define VELO2_MAX_BYTES 120

/* A node, or a multicast group: VELO2_MCADDR_PACK(group). */
typedef uint32_t velo2_nodeid_t;
/* 0 to 255. Programs print it as an unsigned int (spec 10.4b). */
typedef uint32_t velo2_vpid_t;

enum velo2_ret {
	VELO2_RET_SUCCESS = 0,
	/* More than 120 bytes, a null pointer for some, or a received message that the buffer is too small for. */
	VELO2_RET_INV_MSG = 1,
	/* A null pointer, a device that refuses, or a received message that was damaged on its way. */
	VELO2_RET_ERROR = 2,
	/* No message. */
	VELO2_RET_NO_MSG = 3,
	/* Never returned. */
	VELO2_RET_NO_MATCH = 4,
	/* There is no such device, or the network cannot be joined. */
	VELO2_RET_ERR_FDOPEN = 5,
	/* No memory. */
	VELO2_RET_ERR_MMAP = 6,
	/* Not a port or connection, or closed; a VPID above 255. */
	VELO2_RET_INVALID_MBOX = 7,
	/* No such node or group, or its process is gone. */
	VELO2_RET_INVALID_NODE = 8,
	/* The receiver's mailbox is full. */
	VELO2_RET_TRY_AGAIN = 9,
	/* A type above 3. */
	VELO2_RET_INV_MTT = 10
};
typedef enum velo2_ret velo2_ret_t;

/* A port. Copies are the same port. */
typedef struct velo2_port {
	void *map; /* null: closed */
} velo2_port_t;

/* A connection of a port. Copies are the same connection. */
typedef struct velo2_connection {
	struct velo2_dest {
		uint32_t raw; /* VELO2_ADDR_PACK or VELO2_MCADDR_PACK of what it leads to; for looking at */
	} dest;
	void *state_map; /* null: disconnected */
} velo2_connection_t;

/*
 * Opens a port on the lowest free VPID. The first one of the process, of librma2's too, joins the job.
 * INVALID_MBOX: every VPID is open; ERR_FDOPEN, ERR_MMAP, ERROR; why is one line on standard error, unless GGAS_QUIET=1.
 */
velo2_ret_t velo2_open(velo2_port_t *port);

/*
 * Closes a port and its connections; `map` becomes null. Receivers that wait return INVALID_MBOX. TRY_AGAIN: closed,
 * but messages that had found no room are lost. INVALID_MBOX, ERROR.
 */
velo2_ret_t velo2_close(velo2_port_t *port);

/* Where a port is; 0 if it is none. */
velo2_nodeid_t velo2_get_nodeid(velo2_port_t *port);
velo2_vpid_t velo2_get_vpid(velo2_port_t *port);

/*
 * Connects to a port, which need not be open yet; nothing is sent. With VELO2_MCADDR_PACK(group) as the node it leads
 * to this VPID of every node of a multicast group; group 63 is every other node. INVALID_NODE, INVALID_MBOX, ERROR.
 */
velo2_ret_t velo2_connect(velo2_port_t *port, velo2_connection_t *connection, velo2_nodeid_t nodeid, velo2_vpid_t vpid);

/* Ends a connection and clears it. INVALID_MBOX. */
velo2_ret_t velo2_disconnect(velo2_port_t *port, velo2_connection_t *connection);

/*
 * Sends up to 120 bytes with a tag and a type (0 to 3). Waits for room up to EXTOLL_POST_TIMEOUT, and not longer than
 * 1 s: less than the time after which the card gives a mailbox up. TRY_AGAIN: the message is not sent, the ones before
 * are on their way. INV_MSG, INV_MTT, INVALID_MBOX, INVALID_NODE.
 */
velo2_ret_t velo2_send(velo2_connection_t *connection, const void *message, unsigned int length, uint8_t tag, uint8_t mtt);

/*
 * Takes the oldest message, waiting up to EXTOLL_WAIT_TIMEOUT, asleep after a moment. `length` is how long it is,
 * `source` VELO2_ADDR_PACK(nodeid, vpid) of its sender; results that are not wanted may be null. INV_MSG: it is longer
 * than the buffer, which holds its first `size` bytes; it is taken all the same. NO_MSG, INVALID_MBOX, ERROR.
 */
velo2_ret_t velo2_recv(velo2_port_t *port, void *buffer, unsigned int size, uint32_t *length, uint32_t *source,
		       uint8_t *tag, uint8_t *mtt);

/* The same without waiting. NO_MSG: there is none. */
velo2_ret_t velo2_probe_recv(velo2_port_t *port, void *buffer, unsigned int size, uint32_t *length, uint32_t *source,
			     uint8_t *tag, uint8_t *mtt);

/* What a result means, with the reason of the thread's last failure; always ends with a 0 byte. Ours. */
void velo2_serror(velo2_ret_t result, char *buf, int buflen);

#ifdef __cplusplus
}
#endif

#endif /* VELO2_H */
