/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Structures that host code sets up and kernels use. C, C++ and CUDA compile
 * this file alike; Rust sees it through bindgen (extoll_abi::layout).
 *
 * Addresses are plain 64-bit numbers, valid where the kernel runs.
 */
#ifndef GGAS_LAYOUT_H
#define GGAS_LAYOUT_H

#include <stdint.h>

/* One entry of a requester slot ring (model only, design section 3): the
 * descriptor's words, then `seq`, stored last with release. Entry i of the
 * running count uses slot i & slot_mask and carries seq = i + 1. */
struct ggas_slot {
	uint64_t word[3];
	uint64_t seq;
};

/* The same where whoever takes the slots is on this GPU (ggas_port.slots_near): each word with `seq` behind it, as one
 * access, so that one look finds the descriptor and that it is there. The last line is not used. */
struct ggas_near_slot {
	uint64_t line[4][2];
};

/* What a bounded wait writes when its time is over (see GGAS_WAIT_*). The
 * first waiter to fail claims the report by a compare-and-swap of `claimed`;
 * `status` is stored last with release. */
struct ggas_report {
	uint32_t claimed;
	uint32_t status;	/* GGAS_OK or GGAS_ERR_* */
	uint32_t wait;		/* GGAS_WAIT_*: what was waited for */
	uint32_t node;
	uint32_t block;
	uint32_t thread;
	uint32_t peer;		/* node waited for, or ~0 */
	uint32_t line;		/* __LINE__ of the wait */
	uint64_t expected;
	uint64_t seen;
	uint64_t address;
	uint64_t waited_ns;
	uint32_t unstarted;	/* blocks of the grid that had not started then; only the CPU executor knows */
	uint32_t reserved;
};

#define GGAS_OK			0
#define GGAS_ERR_TIMEOUT	1
#define GGAS_ERR_POISONED	2
#define GGAS_ERR_NOTIFICATION	3	/* a notification carried an error bit */
#define GGAS_ERR_ARGUMENT	4
#define GGAS_ERR_WOULD_BLOCK	5
#define GGAS_ERR_NO_MATCH	6	/* the head of the queue is another notification */
#define GGAS_ERR_TRIGGER	7	/* a trigger was not counted: the table is full, or it brought what its operation does not take */
#define GGAS_ERR_LOST		8	/* the process that served the other end is gone */

#define GGAS_WAIT_NOTIFICATION	1
#define GGAS_WAIT_SLOT		2
#define GGAS_WAIT_WCB		3
#define GGAS_WAIT_FLAG		4
#define GGAS_WAIT_BARRIER	5
#define GGAS_WAIT_COLLECTIVE	6
#define GGAS_WAIT_GRID		7
#define GGAS_WAIT_LOCK		8
#define GGAS_WAIT_MESSAGE	9
#define GGAS_WAIT_COMPLETION	10
#define GGAS_WAIT_QUEUE		11	/* `address` of the report: the queue, or ~0: several */
#define GGAS_WAIT_QUEUE_FLAG	12	/* `address`: number of the flag, from bit 32 on a comparison */
#define GGAS_WAIT_QUEUE_NOTIFIED	13	/* `address`: the queue */
#define GGAS_WAIT_ANSWER	14	/* of the daemon of GMPI; `address`: function of the call */

#define GGAS_REPLAY_ENTRIES	256	/* spec 2.4 */

/* One descriptor kept for replay on the card path (spec 2.4). */
struct ggas_replay {
	uint64_t word[3];
	uint64_t page;		/* address of the option page it was written to */
};

/* A port as kernels see it (thesis Listing 5.4), in kernel memory. The first
 * part is constant after set-up, the second is the port's own state, which
 * belongs to kernels while they run. */
struct ggas_port {
	uint64_t queue;		/* notification queue, 16-byte entries */
	uint64_t rp_register;	/* read-pointer register (spec 3.2) */
	uint64_t slots;		/* slot ring, or 0: the port uses the card path. Loaded with the next two as 16 bytes */
	uint32_t slot_mask;	/* slots - 1; slots are a power of two */
	uint32_t slots_near;	/* `slots` are struct ggas_near_slot: an engine on this GPU takes them */
	uint64_t slot_consumed;	/* u64 that the NIC advances: slots consumed so far */
	uint64_t req_pages;	/* option page 0 of this VPID; option o lies at + (o << 20); 0: no card path */
	uint64_t wcb_state;	/* WCB state register (spec 2.4) */
	uint64_t report;	/* struct ggas_report in host memory, or 0 */
	uint64_t timeout_ns;	/* bound of every wait on this port */
	uint32_t queue_entries;
	uint32_t node;
	uint32_t vpid;
	uint32_t option;	/* option page used on the card path (spec 2.1); a slot ring has its own */
	uint32_t rp_lazy;	/* freed entries before rp_register is written; 0 and 1: every time */
	uint32_t lines;		/* card path: most descriptors that are written and not counted as accepted; at most 255 */

	uint64_t slot_seen;	/* last value read from slot_consumed. Loaded with the next two as 16 bytes */
	uint32_t poisoned;	/* a claimed slot was never written: set up the port again */
	uint32_t reserved;
	uint64_t slot_tail;	/* next slot to claim */
	uint64_t post_turn;	/* card path: one WCB per VPID, so posts take turns: the one that has it, above it the next one */
	uint32_t rp;		/* next unread notification */
	uint32_t rp_written;	/* last value written to rp_register */
	uint32_t wp;		/* card path: descriptors written, modulo 256 */
	uint32_t post_stalled;	/* card path: the card's count where a post waited in vain for room, plus 256 */
	uint32_t noti_lock;	/* gpu_rma2_noti_lock: one consumer at a time */
	uint32_t reserved2[3];
	struct ggas_replay replay[GGAS_REPLAY_ENTRIES];
} __attribute__((aligned(16)));

#define GGAS_VELO_WORDS		16	/* header and payload at most (spec 7) */

/* One message kept for replay (spec 2.4, 7). */
struct ggas_velo_line {
	uint64_t word[GGAS_VELO_WORDS];
	uint64_t words;		/* how many of them were written */
};

/* A message on its way to the model from a processor whose plain stores it cannot see:
 * an entry of a ring like that of ggas_slot. The last two words are stored together,
 * behind the others, with release. */
struct ggas_velo_slot {
	uint64_t word[GGAS_VELO_WORDS];
	uint64_t reserved;
	uint64_t seq;		/* running number of the message plus one */
};

/* A VELO port as kernels see it, in kernel memory; as in ggas_port the second
 * part is the port's own state, which belongs to kernels while they run. */
struct ggas_velo {
	uint64_t mailbox;	/* first slot */
	uint64_t rp_register;	/* read-pointer register (spec 3.2) */
	uint64_t page;		/* requester page of this VPID and class; 0: messages go by send_slots */
	uint64_t wcb_state;	/* WCB state register (spec 2.4) */
	uint64_t send_slots;	/* ring of struct ggas_velo_slot (model only), or 0 */
	uint64_t send_consumed;	/* how many of them the model has taken */
	uint64_t report;	/* struct ggas_report in host memory, or 0 */
	uint64_t timeout_ns;	/* bound of every wait on this port */
	uint32_t slots;
	uint32_t slot_bytes;	/* 64 or 128 */
	uint32_t node;
	uint32_t vpid;
	uint32_t rp_lazy;	/* freed slots before rp_register is written; 0 and 1: every time */
	uint32_t send_mask;	/* slots of the ring - 1 */

	uint64_t send_tail;	/* messages written to the ring */
	uint64_t send_turn;	/* one WCB per VPID, so sends take turns, as posts do (ggas_port) */
	uint32_t rp;		/* next unread slot */
	uint32_t rp_written;	/* last value written to rp_register */
	uint32_t wp;		/* messages written, modulo 256 */
	uint32_t send_stalled;
	uint32_t receive_lock;	/* gpu_velo_lock: one receiver at a time */
	uint32_t send_seen;	/* last value of send_consumed that was read, modulo 2^32 */
	struct ggas_velo_line replay[GGAS_REPLAY_ENTRIES];
};

/* A GGAS window as kernels see it (thesis 6.5.2). Node i's part lies at
 * base + i * stride in every participant. */
struct ggas_window {
	uint64_t base;		/* global base; 0: this window is not mapped for kernels */
	uint64_t local;		/* local pointer of this node's part */
	uint64_t stride;	/* bytes per node */
	uint64_t size;		/* bytes of each part that the user may use; 0: the window is traced (ggas_traced) */
	uint32_t node;		/* rank of this node in the window */
	uint32_t nodes;
	uint64_t report;	/* struct ggas_report in host memory */
	uint64_t timeout_ns;
};

#define GGAS_TRACED_RINGS	16	/* rings of packed puts in a window that are counted */

/* Behind the report of a window of which somebody asks who puts how much to whom. Its `size` is 0 then, so that no access seems to
 * fit, and each is looked at again where others are refused: what is not traced pays nothing. */
struct ggas_traced {
	uint64_t size;		/* the window's; 0: it is not traced */
	uint64_t counts;	/* struct ggas_traced_node by node, in kernel memory */
	uint64_t nodes;
	/* Offset of rings, and the logarithm of their lines in the lowest byte; 0: free. What was put into them is told by themselves. */
	uint64_t rings[GGAS_TRACED_RINGS];
	uint64_t ring_bytes[GGAS_TRACED_RINGS];
};

/* What the kernels of a node moved to and from another one. */
struct ggas_traced_node {
	uint64_t put_bytes;
	uint64_t puts;
	uint64_t got_bytes;
	uint64_t gets;
};

#define GGAS_TN_PUT		1
#define GGAS_TN_GET		2
#define GGAS_TN_ADD		4	/* a put's signal is added to its word, else stored there */
#define GGAS_TN_SIGNAL		8	/* a put signals */
#define GGAS_TN_FIELDS		16	/* triggers may bring fields */
#define GGAS_TN_TRACED		32	/* what it moves is counted (ggas_traced); a put says GGAS_TN_GET, too, so that others need not ask */

/* The count of an entry: triggers since it was last re-armed; the threshold, 0: nothing is registered; a number that
 * every registration and cancellation of the tag changes. */
#define GGAS_TN_COUNTED_SHIFT		0
#define GGAS_TN_COUNTED_BITS		28
#define GGAS_TN_THRESHOLD_SHIFT		28
#define GGAS_TN_THRESHOLD_BITS		28
#define GGAS_TN_REGISTRATION_SHIFT	56
#define GGAS_TN_REGISTRATION_BITS	8
#define GGAS_TN_COUNTED_MAX		(1 << 27)	/* triggers beyond it are refused: they might reach the threshold's bits */

/* Parts of an entry's words beside GGAS_TN_REGISTRATION. */
#define GGAS_TN_PLACE_SHIFT	0
#define GGAS_TN_PLACE_BITS	56
#define GGAS_TN_WORD_SHIFT	0	/* number of its completion word */
#define GGAS_TN_WORD_BITS	32
#define GGAS_TN_WHAT_SHIFT	32	/* GGAS_TN_PUT ... */
#define GGAS_TN_WHAT_BITS	24

#define GGAS_TN_UNALIKE		0xffffffffffffffff	/* in place of a count that is likely */

/* Why a trigger was not counted, or an operation not re-armed: `expected` of a report with GGAS_ERR_TRIGGER. */
#define GGAS_TN_FULL		1	/* the table had no room for the tag */
#define GGAS_TN_NO_TAG		2	/* no entry has this tag */
#define GGAS_TN_NO_FIELDS	3	/* the trigger brought fields that the operation does not take; of a window: or none waits */
#define GGAS_TN_TOO_MANY	4	/* the tag has counted GGAS_TN_COUNTED_MAX */
#define GGAS_TN_TOO_SOON	5	/* re-armed before it was started */
#define GGAS_TN_FAILED		6	/* one of the last ones, as of a unit: it says no more */
#define GGAS_TN_TOO_LARGE	7	/* fields cannot say so many bytes */

/* A triggered operation that whoever reaches its threshold carries out itself, through a window. In memory of the
 * processor whose kernels trigger it, at a multiple of 16. Behind the count it is read and written 16 bytes at a time, and
 * each 16 bytes say which registration they are of: so it may be read before it is counted. */
struct ggas_tn_entry {
	uint64_t count;		/* GGAS_TN_COUNTED, GGAS_TN_THRESHOLD, GGAS_TN_REGISTRATION */
	uint64_t armed;		/* how often the tag's operations were armed: complete when its word counts as many */
	uint64_t local;		/* GGAS_TN_PLACE: address of this node's side; GGAS_TN_REGISTRATION */
	uint32_t bytes;
	uint32_t node;
	uint64_t offset;	/* GGAS_TN_PLACE: of the other side in its node's part; GGAS_TN_REGISTRATION */
	uint64_t signal;	/* offset of the signalled word there */
	uint64_t word;		/* GGAS_TN_WORD, GGAS_TN_WHAT, GGAS_TN_REGISTRATION */
	uint64_t value;		/* what the signalled word is set to, or what is added */
};

/* Triggered operations as kernels see them (tn.cuh), in kernel memory. What stores tags there: kernels of one processor.
 * The first part is constant after set-up. */
struct ggas_tn {
	uint64_t page;		/* trigger page (extoll/trigger.h), or 0 */
	uint64_t slot_consumed;	/* u64 that the reader advances: slots consumed so far */
	uint64_t slots;		/* ring of struct ggas_slot with a tag, WHERE and WHAT, or 0. As in ggas_port */
	uint32_t slot_mask;	/* slots - 1; slots are a power of two */
	uint32_t slots_near;	/* 0 */
	uint64_t entries;	/* struct ggas_tn_entry[tags], or 0: a unit, or a thread of the host, has the table */
	uint64_t words;		/* uint64_t[operations]: completion words */
	uint64_t status;	/* uint64_t[EXTOLL_TRIGGER_STATUS_WORDS]: triggers that nothing counted, and the like */
	uint64_t report;	/* struct ggas_report in host memory, or 0 */
	uint64_t timeout_ns;	/* bound of every wait */
	uint32_t node;
	uint32_t operations;	/* completion words there are */
	uint64_t slot_seen;	/* last value read from slot_consumed. As in ggas_port */
	uint32_t poisoned;	/* a claimed slot was never written: set up again */
	uint32_t reserved;
	struct ggas_window window;	/* that entries name */
	uint32_t tags;		/* entries: tags are below this */
	uint32_t reserved2;

	uint64_t slot_tail;	/* next slot to claim */
	uint64_t turn;		/* fields are stored to the page by one at a time: whose turn, above it the next one */
	uint64_t likely;	/* count of an entry that waits for one trigger, if all registered so far are alike; else 0, or
				 * GGAS_TN_UNALIKE */
	uint64_t refused_before;	/* of `status`: counts that the host has cleared, which waits do not fail for */
	uint64_t failed_before;
	uint64_t reserved3;
} __attribute__((aligned(16)));

/* `poisoned` of a group. */
#define GGAS_GROUP_POISONED	1	/* a collective failed: all return GGAS_ERR_POISONED until the group is reset */
#define GGAS_GROUP_TRACED	2	/* a struct ggas_traced is behind its report: each call is looked at where others fail */

/* What a flag of a group holds once the group is poisoned. */
#define GGAS_FLAG_POISON	0xffffffffffffffff

#define GGAS_CHANNELS		256	/* blocks of a grid that may take part in collectives across nodes on their own */
#define GGAS_GRID_BLOCKS	1024	/* blocks of a grid that may meet */

/* How far one block of a node has come with the blocks of the same number on
 * the other nodes. */
struct ggas_channel {
	uint64_t epoch;		/* exchanges completed */
	uint64_t met;		/* last of them in which all nodes heard from all nodes */
};

/* A group of nodes for collectives as kernels see it, in kernel memory, one
 * per node. Its area, a part of every node's window, holds flags that only
 * grow (one writer each) and buffers; see impl/coll_area.h. */
struct ggas_group {
	uint64_t base;		/* node i's area lies at base + i * stride in every participant */
	uint64_t local;		/* local pointer of this node's area */
	uint64_t stride;
	uint64_t slot_bytes;	/* of one staging slot, a multiple of 256 */
	uint64_t packed_bytes;	/* of packets of one sender and channel, a multiple of 256 */
	uint64_t report;	/* struct ggas_report in host memory, or 0 */
	uint64_t timeout_ns;	/* bound of every wait in a collective */
	uint64_t one_shot_bytes;	/* allreduce by packets: longer vectors in two steps */
	uint32_t node;		/* rank in the group */
	uint32_t nodes;
	uint32_t master;	/* node that collects check-ins (thesis 6.7) */
	uint32_t packed_channels;	/* channels that have packet buffers, at most GGAS_CHANNELS */
	uint32_t poisoned;	/* GGAS_GROUP_*; 0: calls go on */
	uint32_t posted;	/* stores pass network cards, which keep their order at one node and not at several */

	uint64_t barrier_epoch;	/* barriers through the master completed */
	uint64_t data_epoch;	/* data exchanges through staging completed */
	uint64_t meetings;	/* of this node's blocks: those completed, times 2^32; less than that while one lasts */
	struct ggas_channel channel[GGAS_CHANNELS];	/* by block */
	uint64_t left;		/* words of kernel memory with a bit for each node whose process has left, or 0 */
};

#define GGAS_QUEUES		32	/* most queues of a GPU (thesis 5.7.4) */

/* How a member's memory is reached. */
#define GGAS_WAY_NONE		0	/* not at all */
#define GGAS_WAY_STORES		1	/* loads and stores */
#define GGAS_WAY_DEVICE		2	/* the network device, by the queue's port */

/* What a queue refused (ggas_report.address), where the report's `wait` is GGAS_WAIT_QUEUE. */
#define GGAS_QUEUE_REFUSED_RANGE	0	/* `seen` bytes of `expected`, at offset `waited_ns` */
#define GGAS_QUEUE_REFUSED_QUEUE	1
#define GGAS_QUEUE_REFUSED_MEMBER	2
#define GGAS_QUEUE_REFUSED_FLAG		3
#define GGAS_QUEUE_REFUSED_WAY		4
#define GGAS_QUEUE_REFUSED_OWN		5
#define GGAS_QUEUE_REFUSED_REMOTE	6	/* memory made for queue `seen`, or one of other queues */
#define GGAS_QUEUE_REFUSED_NO_FLAG	7	/* none was named */
#define GGAS_QUEUE_REFUSED_NO_QUEUE	8

/* Comparisons of GGAS_WAIT_QUEUE_FLAG: those of ggas_cmp, in its order, and these. */
#define GGAS_QUEUE_FLAG_ANY	6	/* one of `expected` flags from this number on is not 0 */
#define GGAS_QUEUE_FLAG_ROUND	7	/* of wait_for_notification: 0 or 1 for even or odd rounds */

/* Operations of queues whose end a notification tells. */
#define GGAS_QUEUE_PUTS		0
#define GGAS_QUEUE_GETS		1
#define GGAS_QUEUE_KINDS	2

/* What the queues of one port have under way with one member. Commands of a kind end in the order in which they were
 * posted, so counts suffice. The first two words are constant after set-up. */
struct ggas_queue_peer {
	uint32_t node;		/* where commands of this port go to: node and VPID */
	uint32_t vpid;
	uint32_t reserved;
	uint32_t lost;		/* the host says that its process is gone */
	uint64_t posted[GGAS_QUEUE_KINDS];	/* counted before each post, with relaxed order */
	uint64_t done[GGAS_QUEUE_KINDS];	/* those that notifications told of */
	uint64_t flags;		/* flags posted: they have no notification */
	uint64_t padding;
};

/* A port as the queues that share it see it. */
struct ggas_queue_state {
	uint64_t posted;	/* operations that a notification ends */
	uint64_t reserved[15];	/* a cache line for posts, another for who consumes */
	uint64_t done;		/* loaded with the next two as 16 bytes */
	uint32_t failed;	/* GGAS_ERR_*: the first failure, which all waits return from then on */
	uint32_t lost;		/* the host says that some member's process is gone: its ggas_queue_peer says which */
	uint64_t reserved2[14];
} __attribute__((aligned(16)));

/* One queue; constant after set-up. */
struct ggas_queue_entry {
	uint64_t port;		/* struct ggas_port; 0: none, all memory is reached by loads and stores */
	uint64_t state;		/* struct ggas_queue_state of that port */
	uint64_t peers;		/* struct ggas_queue_peer by member, of that port */
	uint32_t port_number;	/* which of this member's ports */
	uint32_t limit;		/* operations of the port that may be under way when a post returns */
};

/* A bit of another member's `bytes` where somebody asks who moves how much to whom: no range seems to fit, and each is looked at
 * again where others are refused. Behind the report of such queues there is a struct ggas_traced. */
#define GGAS_MEMORY_TRACED_BIT	63

/* Memory that all members of queues have, as the kernels of one of them see the part of one member. */
struct ggas_memory {
	uint64_t address;	/* where these kernels load and store it; 0: nowhere */
	uint64_t bytes;		/* bit GGAS_MEMORY_TRACED_BIT: they are counted; ggas_remote::bytes() is without it */
	uint64_t nlas;		/* uint64_t by port number: NLA of the first byte for commands of that port; 0: none */
	uint32_t member;	/* whose it is */
	uint32_t way;		/* GGAS_WAY_*: how writes and reads get there */
};

/* The queues of one member (a GPU), in its kernel memory. The flags of a member are words of a memory that all share:
 * first those that programs name, then two for each member (notify_gpu, by odd and even rounds), then a count of
 * notifications for each queue, and a word for each queue that quiet writes. */
struct ggas_queues {
	uint64_t flags;		/* struct ggas_memory by member */
	uint64_t report;	/* struct ggas_report in host memory, or 0 */
	uint64_t timeout_ns;	/* bound of every wait */
	uint32_t queues;
	uint32_t ports;		/* of these queues; they share them where there are fewer */
	uint32_t member;
	uint32_t members;
	uint32_t flag_count;	/* flags that programs name */
	uint32_t on_card;	/* some port uses the card path: waits for flags serve it */
	struct ggas_queue_entry queue[GGAS_QUEUES];
};

/* A segment of a process of a GASPI job, as kernels of another one see it (gaspi.cuh). */
struct ggas_gaspi_part {
	uint64_t address;	/* where these kernels load and store it; 0: they do not reach it */
	uint64_t bytes;
	uint64_t notifications;	/* address of the first of its notifications, of 8 bytes each */
	uint64_t reserved;
};

#define GGAS_GASPI_SEGMENTS	256	/* ids of segments */

/* A process of a GASPI job, for its kernels. */
struct ggas_gaspi {
	uint64_t queues;	/* struct ggas_queues: member i is rank i */
	uint64_t parts;		/* struct ggas_gaspi_part by rank and segment */
	uint32_t notifications;	/* of a segment */
	uint32_t segments;	/* ids below this */
};

#endif /* GGAS_LAYOUT_H */
