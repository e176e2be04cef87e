/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The RMA engine: a resident kernel that does for the ports of one GPU what the card does (spec 2 to 5), over the
 * memory of peers. userlib/device/src/engine is its other side; engine.cu says how it works.
 *
 * Everything here lies in memory of the node's processor, which the processes of all nodes map. What other nodes write
 * there: rings, credits, and, as they leave, `gone`.
 */
#ifndef GGAS_ENGINE_H
#define GGAS_ENGINE_H

#include <stdint.h>

#define ENGINE_NODES		8	/* at most */
#define ENGINE_PORTS		32	/* VPIDs of a node, one per lane of a requester warp */
#define ENGINE_REQUESTERS	4	/* requester warps at most; port p belongs to warp p modulo their number */
#define ENGINE_WARPS		(ENGINE_REQUESTERS + 2 * ENGINE_NODES)
#define ENGINE_FEW_WARPS	12	/* of ggas_engine; ggas_engine_wide has all */
#define ENGINE_HELPERS		2	/* of each direction at most: more gain nothing (H200) */
#define ENGINE_LOCKS		16	/* per VPID (spec 5) */
#define ENGINE_TABLE_ROWS	32	/* rows of as many translation tables: 1,024 (spec 4.1) */
#define ENGINE_LINES		8192	/* of a ring, a power of two */
#define ENGINE_SEGMENT		4096	/* payload bytes of a packet at most */

/* Two classes of packets, each with rings and warps of its own: whoever waits for room for a response never keeps
 * the responses to others from being taken in. */
#define ENGINE_REQUESTS		0	/* puts, notifications, gets, locks */
#define ENGINE_RESPONSES	1	/* what gets and locks bring back */
#define ENGINE_CLASSES		2

/* A ring's line: a word, and the running number of the line plus one. Both arrive together. */
struct engine_line {
	uint64_t word;
	uint64_t number;
};

/* Whether a port is open. */
#define ENGINE_PORT_CLOSED	0
#define ENGINE_PORT_OPEN	1

/* How often all warps of an engine take notice behind a change of `open`, one time after the other, until a port that
 * is not open any more is nobody's. Of what the block knows of a port one lane is the only writer, its owner, and the
 * others look at that: those that take notice after it has begin nothing for the port. Whatever else is announced
 * meanwhile only makes for more looks. */
#define ENGINE_LOOKS_CLOSED	2

/* A port. The host writes it while it is not open, and afterwards what says where its slots are, once, `slots` last;
 * `wp`, `head` and `sent` are the engine's. */
struct engine_port {
	uint64_t queue;		/* notification queue, 16-byte entries */
	uint64_t rp_register;	/* read pointer, written by the consumer (spec 3.2) */
	uint64_t slots;		/* struct ggas_slot[slot_mask + 1], or of ggas_near_slot; 0: it posts nothing */
	uint64_t slot_consumed;	/* u64: how many slots the engine has taken */
	uint64_t head;		/* the same, as the engine keeps it */
	uint32_t queue_entries;
	uint32_t slot_mask;
	uint32_t wp;		/* next entry of the queue */
	uint32_t open;		/* ENGINE_PORT_* */
	uint32_t far_queue;	/* the queue's consumer is not on this GPU */
	uint32_t sent;		/* how far descriptor `head` came; engine_send.cuh */
	uint32_t near_slots;	/* the slots are struct ggas_near_slot */
	uint32_t opened;	/* which port of its node this is, of all that there ever were */
};

/* How the engines of all nodes end, one step after the other: a warp of that class ends when it finds nothing to do,
 * and says so by its ack. What others sent before they ended is there by then. */
#define ENGINE_STOP_REQUESTERS	1
#define ENGINE_STOP_REQUESTS	2	/* what receives them too */
#define ENGINE_STOP_RESPONSES	3	/* and what receives those */
#define ENGINE_STOP_NOW		4	/* all, before their next command */

/* Counted by the engine of the node where it happened. */
#define ENGINE_ERR_COMMAND	0	/* requester: illegal descriptor */
#define ENGINE_ERR_ROUTE	1	/* requester: no such node */
#define ENGINE_ERR_SOURCE	2	/* requester: no translation */
#define ENGINE_ERR_VPID		3	/* completer: the port is not open */
#define ENGINE_ERR_TARGET	4	/* completer: no translation */
#define ENGINE_ERR_RECEIVED	5	/* completer: the packet came with an error */
#define ENGINE_ERR_RESPONDER	6	/* responder: a request that cannot be answered */
#define ENGINE_ERR_DROPPED	7	/* notifications that found no room in time */
#define ENGINE_ERR_GONE		8	/* requester, responder: the process of that node has ended */
#define ENGINE_ERRORS		9

/* The state of a node. Between two runs of the engine it holds everything that is under way. */
struct engine_node {
	/* Read together by every warp between two commands. */
	uint64_t epoch;		/* counts changes by the host that the engine must take notice of */
	uint64_t stop;		/* ENGINE_STOP_* or 0 */
	uint64_t ack[ENGINE_WARPS];	/* by warp: last epoch that it has seen, ~0: it has ended */
	uint64_t ended;		/* running number of the last run that ended */
	uint64_t errors[ENGINE_ERRORS];
	uint64_t credit[ENGINE_CLASSES][ENGINE_NODES];	/* written by node j: lines of its ring for us that are free again */
	uint64_t tail[ENGINE_CLASSES][ENGINE_NODES];	/* lines sent to node j */
	uint64_t head[ENGINE_CLASSES][ENGINE_NODES];	/* lines of node j taken in */
	uint64_t failed[ENGINE_CLASSES][ENGINE_NODES];	/* by node: VPIDs one of whose earlier segments failed */
	uint64_t told[ENGINE_CLASSES][ENGINE_NODES];	/* of the packet at the head; engine::shared */
	uint64_t gone[ENGINE_NODES];	/* not 0: the process of node j has ended; by our host, or that of node j */
	uint64_t drained[ENGINE_CLASSES][ENGINE_NODES];	/* not 0: node j is gone, and what it had sent is taken in */
	uint64_t tables[ENGINE_TABLE_ROWS][ENGINE_TABLE_ROWS];	/* addresses of translation tables, or 0; they stay */
	struct engine_port port[ENGINE_PORTS];
	uint32_t lock[ENGINE_LOCKS][ENGINE_PORTS];	/* by number, then VPID (spec 5) */
};

/* Arguments of the kernel: one block of (requesters + 2 * nodes + 2 * helpers) warps. */
struct engine_args {
	uint64_t state[ENGINE_NODES];	/* struct engine_node of each node */
	uint64_t rings[ENGINE_NODES];	/* struct engine_line[ENGINE_CLASSES][nodes][ENGINE_LINES] of each node */
	uint64_t run;		/* running number of this run */
	uint64_t queue_ns;	/* how long a notification waits for room (spec 3.2) */
	uint64_t grace_ns;	/* how long waits go on once engines are to end */
	uint32_t node;
	uint32_t nodes;
	uint32_t requesters;
	uint32_t helpers;	/* warps that share the work of large packets, for those sent and those taken each */
};

#ifdef __cplusplus
static_assert(sizeof(engine_line) == 16, "one access");
static_assert(offsetof(engine_node, stop) == 8, "epoch and stop are one access");
static_assert(sizeof(engine_port) % 8 == 0 && sizeof(engine_node) % 8 == 0, "arrays of it stay aligned");
#endif

#endif /* GGAS_ENGINE_H */
