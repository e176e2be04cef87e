/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels that check the headers on whatever runs them. */
#ifndef GGAS_SELFTEST_H
#define GGAS_SELFTEST_H

#include <stdint.h>

struct selftest_threads {
	uint64_t out;		/* u64 per thread of the grid */
	uint64_t counter;	/* one u64, 0 at the start */
	uint64_t report;	/* struct ggas_report, or 0 */
	uint64_t timeout_ns;
};

/* Words of whatever device that each thread adds one to, by a map (hpe.cuh). */
struct selftest_map {
	uint64_t map;		/* struct ggas_hpe_map */
	uint64_t words;		/* u64[count], by the host's pointer */
	uint64_t count;
};

/* Blocks that meet by a counter (blocks.cuh), once a launch. */
struct selftest_blocks {
	uint64_t words;		/* u64 per thread of the grid */
	uint64_t counter;	/* of ggas_last_block */
	uint64_t seen;		/* u64: sum of the words that the last block saw */
	uint64_t last;		/* u64: how often a block was the last one */
	uint64_t loop;		/* the two words of a loop, or 0 */
	uint64_t value;		/* of a word */
	uint64_t end;		/* the round that a kernel makes the last one; 0: none */
};

/* A grid that sends one edge (blocks.cuh). */
struct selftest_edge {
	uint64_t window;	/* struct ggas_window of two nodes, of which the kernel is 0 */
	uint64_t from;		/* address of what is sent */
	uint64_t bytes;
	uint64_t to;		/* offsets in the part of node 1: of the data, and of the word that is signalled */
	uint64_t signal;
	uint64_t counter;	/* of ggas_last_block */
	uint64_t round;
	uint64_t status;	/* u64: the first error */
};

/* Blocks that have the same part in every round (blocks.cuh): each stores its part's values of the next round at all nodes, and
 * reads those of the parts beside it, of all nodes, of this one. */
struct selftest_parts {
	uint64_t window;	/* struct ggas_window; parts of nodes: u64 flags[nodes][blocks], values[2][nodes][blocks][threads] */
	uint64_t wrong;		/* u64: values that were not of the round before */
	uint64_t status;	/* u64: the first error */
	uint32_t rounds;
	uint32_t what;		/* SELFTEST_PARTS_* */
};

#define SELFTEST_PARTS_WAIT	0	/* for the parts beside a block's own */
#define SELFTEST_PARTS_MEET	1	/* all blocks of all nodes meet */
/* Planted, for ThreadSanitizer: */
#define SELFTEST_PARTS_RELAXED	2	/* flags without a release */
#define SELFTEST_PARTS_FEW	3	/* waits for the parts of its own number only */

struct selftest_vocab {
	uint64_t scratch;	/* 4 KiB, zero at the start, 16-byte aligned */
	uint64_t failed;	/* u64, 0 at the start: bit i set when check i failed */
};

/* One node of a ping-pong: `rounds` times `bytes` to the peer and back. */
struct selftest_rma {
	uint64_t port;		/* struct ggas_port */
	uint64_t send;		/* buffer of `bytes`, and its NLA */
	uint64_t send_nla;
	uint64_t receive;	/* kernel address of the buffer that the peer's puts go to */
	uint64_t target_nla;	/* the peer's receive buffer */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: bytes that were not as expected */
	uint32_t peer_node;
	uint32_t peer_vpid;
	uint32_t rounds;
	uint32_t bytes;
	uint32_t first;		/* 1: begins */
	uint32_t quiet;		/* 1: its puts ask for no notification at the peer */
};

/* Every thread of the grid posts `posts` notification puts to the peer, alone
 * or in batches; one warp of the peer takes them all. */
struct selftest_posts {
	uint64_t port;
	uint64_t seen;		/* receiver: u64 per sending thread: sum of payloads */
	uint64_t status;
	uint32_t peer_node;
	uint32_t peer_vpid;
	uint32_t posts;		/* per thread */
	uint32_t batch;		/* sender: 1: a warp posts together */
	uint32_t expect;	/* receiver: notifications in all; 0: this node sends */
	uint32_t reserved;
};

#define SELFTEST_RMA_SLOT	256	/* bytes between what the calls of a form read and write */
#define SELFTEST_RMA_FORM	1024	/* bytes of all calls of a form */
#define SELFTEST_RMA_HALF	4096	/* of a node's memory: read below, written from here on */
#define SELFTEST_RMA_VALUE	0x0102030405060708ull	/* of immediate and notification puts */
#define SELFTEST_RMA_BATCH	1000	/* payload of lane 0 */

/* The first node makes every call of rma.cuh, the second takes what arrives. */
struct selftest_rma_calls {
	uint64_t port;		/* struct ggas_port */
	uint64_t here_nla;	/* of this node's memory, and of the peer's: twice SELFTEST_RMA_HALF */
	uint64_t there_nla;
	uint64_t bad_nla;	/* where nothing is registered; 0: is not tried */
	uint64_t statuses;	/* u64: calls made; then u64 of each: what it gave */
	uint64_t log;		/* struct extoll_noti of each notification taken */
	uint32_t peer_node;
	uint32_t peer_vpid;
	uint32_t expect;	/* notifications that come; 0: the first node */
	uint32_t reserved;
};

/* Posts that nobody should make, by one thread. */
struct selftest_rubbish {
	uint64_t port;		/* struct ggas_port */
	uint64_t status;	/* u64: what its last call gave */
	uint64_t seed;		/* of all words; not 0 */
	uint32_t count;		/* descriptors of any words */
	uint32_t part;		/* else: the words of one line that are stored, a bit each; card path */
};

#define SELFTEST_ECHO		0	/* every message comes back with the next tag */
#define SELFTEST_STREAM		1	/* one way only */

/* One end of `rounds` messages of growing and shrinking lengths. */
struct selftest_velo {
	uint64_t port;		/* struct ggas_velo */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: messages that were not as expected */
	uint32_t peer_node;
	uint32_t peer_vpid;
	uint32_t rounds;
	uint32_t mode;		/* SELFTEST_ECHO or SELFTEST_STREAM */
	uint32_t first;		/* 1: begins, or sends */
	uint32_t reserved;
};

#define SELFTEST_FLOAT		0
#define SELFTEST_DOUBLE		1
#define SELFTEST_INT32		2
#define SELFTEST_INT64		3
#define SELFTEST_HALF		4
#define SELFTEST_BFLOAT16	5

#define SELFTEST_SUM		0
#define SELFTEST_PROD		1
#define SELFTEST_MIN		2
#define SELFTEST_MAX		3
#define SELFTEST_AND		4	/* whole numbers only, as the next two */
#define SELFTEST_OR		5
#define SELFTEST_XOR		6

#define SELFTEST_BLOCK		0	/* as ggas_form */
#define SELFTEST_OWNED		1
#define SELFTEST_SHARED		2
#define SELFTEST_GRID		3

#define SELFTEST_SYNC		0	/* these three check a counter of each node */
#define SELFTEST_BARRIER	1
#define SELFTEST_BARRIER_MASTER	2
#define SELFTEST_ALLREDUCE		3	/* as the library chooses */
#define SELFTEST_ALLREDUCE_ONE_SHOT	4
#define SELFTEST_ALLREDUCE_TWO_SHOT	5
#define SELFTEST_ALLREDUCE_READ		6
#define SELFTEST_ALLREDUCE_GATHER	7
#define SELFTEST_ALLREDUCE_ALL_GATHER	8
#define SELFTEST_ALLREDUCE_TREE		9
#define SELFTEST_ALLREDUCE_ALL_TO_ALL	10
#define SELFTEST_ALLREDUCE_WINDOW	11	/* input and out: offsets in `window` */
#define SELFTEST_REDUCE			12
#define SELFTEST_REDUCE_READ		13
#define SELFTEST_REDUCE_GATHER		14
#define SELFTEST_REDUCE_TREE		15
#define SELFTEST_REDUCE_ALL_TO_ALL	16
#define SELFTEST_REDUCE_SCATTER		17
#define SELFTEST_BROADCAST		18	/* of `out` */
#define SELFTEST_ALL_GATHER		19
#define SELFTEST_ALL_TO_ALL		20

/* `rounds` times one collective. */
struct selftest_coll {
	uint64_t group;		/* struct ggas_group */
	uint64_t window;	/* struct ggas_window, or 0 */
	uint64_t input;		/* `count` elements, or those of all nodes; barriers: u64 of each node at input + i * input_stride */
	uint64_t input_stride;
	uint64_t out;
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: barriers that somebody passed too early */
	uint64_t count;
	uint32_t element;	/* SELFTEST_FLOAT ... */
	uint32_t op;		/* SELFTEST_SUM ... */
	uint32_t form;		/* SELFTEST_BLOCK ... */
	uint32_t method;	/* SELFTEST_SYNC ... */
	uint32_t rounds;
	uint32_t root;
	uint32_t skip;		/* 1: this node does not take part, so that the others time out */
	uint32_t reserved;
};

#define SELFTEST_WINDOW_NODES	64
#define SELFTEST_WINDOW_ARRIVED	0	/* u64 of each node: its data of that round is here */
#define SELFTEST_WINDOW_DONE	512	/* u64 of each node: it has read the data of that round */
#define SELFTEST_WINDOW_COUNTER	1024	/* u64 that all other nodes add to */
#define SELFTEST_WINDOW_OUT	4096	/* `bytes` that others read, then `bytes` written by each node */

/* Every node of a window writes to all others, reads from all others and adds
 * to their counters, `rounds` times; one block per node. */
struct selftest_window {
	uint64_t window;	/* struct ggas_window; its parts are zero at first */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: words that were not as expected */
	uint64_t bytes;		/* of one transfer, a multiple of 8 */
	uint32_t rounds;
	uint32_t atomics;	/* 1: add to counters */
};

#define SELFTEST_PUT_THREAD	0	/* forms: who puts together */
#define SELFTEST_PUT_WARP	1
#define SELFTEST_PUT_BLOCK	2
#define SELFTEST_PUT_GRID	3
#define SELFTEST_PUT_BULK_BLOCK	4	/* bulk: by blocks for themselves */
#define SELFTEST_PUT_BULK_GRID	5	/* bulk: each block its share of one put, with a signal of its own */
#define SELFTEST_PUT_LANES	128	/* at most */
#define SELFTEST_PUT_READ	1024	/* after the signals of all lanes: the signals that say "read" */
#define SELFTEST_PUT_DATA	4096	/* for each lane `each` bytes to send, to receive, and for gets */

/* Two nodes of a window put to each other and check what came, `rounds` times. Each thread, warp or block is a lane
 * with bytes of its own; the grid together is one. Signals of bulk puts are only set, so a window needs no atomics for them. */
struct selftest_put {
	uint64_t window;	/* struct ggas_window; its parts are zero at first */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: bytes that were not as expected */
	uint64_t rings;		/* packed: offset of the rings in the window; 0: puts with signals, and gets */
	uint64_t bytes;		/* of one put */
	uint64_t each;		/* bytes of a lane's buffers, a multiple of 16 */
	uint32_t skew;		/* bytes by which buffers are off 16-byte alignment */
	uint32_t form;		/* SELFTEST_PUT_THREAD ... */
	uint32_t rounds;
	uint32_t lanes;		/* packed: of the rings */
	uint32_t lines_log2;	/* packed: of a ring */
	uint32_t puts;		/* packed: before the first is taken; the other node may have 0 then */
};

/* Single calls on a window of two nodes with parts of 8 KiB, by one block of node 0. */
struct selftest_calls {
	uint64_t window;	/* struct ggas_window */
	uint64_t failed;	/* u64, 0 at the start: bit i set when check i failed */
};

#define SELFTEST_ACCESS_LOAD	0	/* of a word */
#define SELFTEST_ACCESS_STORE	1	/* of the round's number */
#define SELFTEST_ACCESS_ADD	2	/* an atomic without a result, of 1 to a word */
#define SELFTEST_ACCESS_PLAIN	3	/* a store by plain C++ */
#define SELFTEST_ACCESS_SIZES	4	/* 13 stores and 13 loads of all sizes */
#define SELFTEST_ACCESS_FETCH	5	/* the same with a result; on the own node by the local pointer, as the next one */
#define SELFTEST_ACCESS_CAS	6	/* a loop of compare-and-swap that adds 1 */
#define SELFTEST_ACCESS_ATOMICS	7	/* all atomics, on 96 bytes that are 0 and are so again afterwards */
#define SELFTEST_ACCESS_ORDER	8	/* two stores around atomics on two words of 4 bytes, and a load that sees all */

/* Accesses of one thread to the part of a node, by its global pointer, `rounds` times. */
struct selftest_access {
	uint64_t window;	/* struct ggas_window */
	uint64_t done;		/* u64: the last round that ended */
	uint64_t sum;		/* u64: gets the sum of what was loaded; SIZES and behind: of what was not as expected */
	uint64_t rounds;
	uint64_t offset;	/* in the part, a multiple of 16 */
	uint32_t peer;
	uint32_t what;		/* SELFTEST_ACCESS_LOAD ... */
};

#define SELFTEST_PROXY_ROOM	8192	/* bytes of trapped memory that each thread has for itself */

/* Every thread has the host make accesses to its own part of `there`, `rounds` times; all of them add to the word behind the parts. */
struct selftest_proxy {
	uint64_t proxy;		/* struct ggas_proxy */
	uint64_t there;		/* trapped */
	uint64_t buffers;	/* SELFTEST_PROXY_ROOM bytes for each thread, of memory */
	uint64_t wrong;		/* u64: gets how many values were not as expected */
	uint64_t rounds;
};

#define SELFTEST_TN_ITEMS	0	/* forms: a tag for each thread */
#define SELFTEST_TN_WARPS	1	/* for each warp */
#define SELFTEST_TN_GROUPS	2	/* for each block */
#define SELFTEST_TN_PAIRS	3	/* for two threads */
#define SELFTEST_TN_BY_GROUPS	4	/* one tag, triggered by each block */
#define SELFTEST_TN_BY_ITEMS	5	/* one tag, triggered by each thread */
#define SELFTEST_TN_FIELDS	6	/* a tag for each thread, which says what is moved */
#define SELFTEST_TN_GETS	7	/* as BY_GROUPS, of a get: `data` is what came */
#define SELFTEST_TN_SEEN	8	/* one thread prepares a trigger; the count that it sees goes to `data` */
#define SELFTEST_TN_STALE	9	/* it triggers with that count, and with places 8 bytes lower than those registered */
#define SELFTEST_TN_RENEWED	10	/* one thread reads an operation again that it has of no registration, and of the present one */
#define SELFTEST_TN_BEGUN	11	/* one thread counts up to the threshold, and has still to carry the operation out */
#define SELFTEST_TN_ENDED	12	/* it carries it out */
#define SELFTEST_TN_AROUND	13	/* the tag's operation is as if it had been armed, and completed, 2^32 - 2 times */

/* Each thread writes one word, triggers what sends it, waits until that is complete, and overwrites the word. */
struct selftest_tn {
	uint64_t tn;		/* struct ggas_tn */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: words of gets that were not as expected */
	uint64_t data;		/* u64 of each thread */
	uint64_t tag;		/* first one */
	uint32_t word;		/* first completion word */
	uint32_t times;		/* completions that are waited for; 0: none */
	uint32_t form;		/* SELFTEST_TN_ITEMS ... */
	uint32_t round;		/* part of what is written */
	uint32_t rearm;		/* 1: before the triggers, 2: behind them */
	uint32_t ahead;		/* 1: triggers without fields are prepared */
};

#define SELFTEST_QUEUE_EXCHANGE	0	/* forms: writes with flags, each lane with the same lane of the neighbours */
#define SELFTEST_QUEUE_LAST	1	/* blocks write, the last one waits for all of them and sends the notification */
#define SELFTEST_QUEUE_READ	2	/* blocks read, the last one waits for all of them */
#define SELFTEST_QUEUE_NOTIFY	3	/* blocks write and notify, the last one waits for notifications */
#define SELFTEST_QUEUE_QUIET	4	/* flags that go another way than the data, behind a quiet */
#define SELFTEST_QUEUE_MEET	5	/* blocks of the grid wait for each other, as they must not */

#define SELFTEST_QUEUE_REFUSE	6	/* a call that must be refused; `first` says which */
#define SELFTEST_QUEUE_NO_ROOM	7	/* a post while as much as may be is under way to a member that is gone */
#define SELFTEST_QUEUE_AWAIT	8	/* waits until flag 0 is at least `first`; members but 0 for flag `lane` */
#define SELFTEST_QUEUE_TO_LOST	9	/* posts to a member that is gone leave nothing under way to the others */
#define SELFTEST_QUEUE_REFUSING	10	/* posts and waits while posts to a member that is gone are being refused */
#define SELFTEST_QUEUE_AT_ONCE	11	/* more posts find room at the same time than there is */

#define SELFTEST_QUEUE_COUNTERS	4	/* u64 of blocks that came, 0 at the start */

/* Every member of queues sends to the next one and receives from the one before, `rounds` times, and checks what came. A
 * lane is a thread, warp or block of the grid; but for exchanges it is a block. */
struct selftest_queue {
	uint64_t queues;	/* struct ggas_queues */
	uint64_t memory;	/* struct ggas_memory by member: `each` bytes of each lane to send, then as many to receive */
	uint64_t other;		/* quiet: struct ggas_memory by member, which is reached by stores */
	uint64_t counters;	/* u64[SELFTEST_QUEUE_COUNTERS] */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: bytes that were not as expected */
	uint64_t bytes;		/* of one write */
	uint64_t each;
	uint32_t form;		/* SELFTEST_QUEUE_* */
	uint32_t scope;		/* SELFTEST_PUT_THREAD ... SELFTEST_PUT_BLOCK */
	uint32_t rounds;
	uint32_t first;		/* round; rounds go on from launch to launch */
	uint32_t lane;		/* number of this grid's first lane */
	uint32_t lanes;		/* of all grids that run at the same time; blocks beyond them only wait */
};

#define SELFTEST_GASPI_RING	0	/* forms: each block writes to the next rank with a notification, and checks what came */
#define SELFTEST_GASPI_PING	1	/* ranks 0 and 1 send the bytes to and fro; `time` is of `rounds` round trips */
#define SELFTEST_GASPI_WRITE	2	/* rank 0: all blocks write, `rounds` times; `time` is of the last block */
#define SELFTEST_GASPI_REFUSE	3	/* a call that must be refused; `first` says which */

/* Segment `segment` of every rank: `each` bytes of each block to send, then as many to receive. */
struct selftest_gaspi {
	uint64_t gaspi;		/* struct ggas_gaspi */
	uint64_t status;	/* u64: GGAS_OK or the first error */
	uint64_t wrong;		/* u64: bytes that were not as expected */
	uint64_t time;		/* u64: nanoseconds */
	uint64_t bytes;		/* of one write */
	uint64_t each;
	uint32_t form;		/* SELFTEST_GASPI_* */
	uint32_t segment;
	uint32_t rounds;
	uint32_t first;		/* notification: two of each block */
};

/*
 * One GMPI call of ggas_selftest_gmpi: function (GMPI_CALL_*, or one of these), its arguments in MPI's order, what it returned. Of SENDRECV
 * the two addresses, then counts, types, ranks and tags of both messages, the received one's from bit 32 on; the communicator. Of WAITSOME
 * the count of requests, and where indices go. Of TESTANY `value` is the flag, and from bit 1 on the index.
 */
#define SELFTEST_GMPI_SYNCHRONIZE	100
#define SELFTEST_GMPI_COUNT	101	/* of status `arguments[0]` for type `arguments[1]` */
#define SELFTEST_GMPI_UNKNOWN	102	/* writes an attribute whose function there is not */
#define SELFTEST_GMPI_TEST_UNTIL	103	/* tests until the request is over */
#define SELFTEST_GMPI_FILL	104	/* writes `arguments[1]` times `arguments[2]` at address `arguments[0]` */
#define SELFTEST_GMPI_TYPE_VECTOR	106	/* makes a type where `arguments[0]` says: count, length, stride, of which type */
#define SELFTEST_GMPI_TYPE_CONTIGUOUS	107	/* count, of which type */
#define SELFTEST_GMPI_TYPE_SUBARRAY	108	/* dimensions, and from bit 32 on the order; addresses of int[dimensions]: sizes, parts, starts; of which type */
#define SELFTEST_GMPI_TYPE_COMMIT	109	/* the type at address `arguments[0]` */
#define SELFTEST_GMPI_TYPE_FREE	110
#define SELFTEST_GMPI_TYPE_EXTENT	111	/* size of type `arguments[0]`; at address `arguments[1]` where it begins, and its extent */
#define SELFTEST_GMPI_SEE	105	/* RECV of longs, and all callers look at once whether they count from `arguments[6]` on */

/* Requests and statuses are named by their numbers: `request` and `status` from there on. */
struct selftest_gmpi_call {
	uint64_t arguments[8];
	uint32_t function;
	uint32_t request;
	uint32_t status;	/* ~0: none */
	uint32_t scope;	/* SELFTEST_PUT_THREAD ... */
	uint32_t error;
	uint32_t value;	/* flag, rank or count */
};

/* Calls that each block makes, one after the other. */
struct selftest_gmpi {
	uint64_t buf;	/* gmpi_buf_t */
	uint64_t calls;	/* struct selftest_gmpi_call[blocks][count] */
	uint64_t requests;	/* uint64_t[blocks][count] */
	uint64_t statuses;	/* struct gmpi_status[blocks][count] */
	uint32_t count;
	uint32_t reserved;
};

#endif /* GGAS_SELFTEST_H */
