/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arguments of the benchmark kernels (bench_*.cu), shared with benches/.
 * Addresses are plain 64-bit numbers, valid where the kernel runs.
 */
#ifndef GGAS_BENCH_H
#define GGAS_BENCH_H

#include <stdint.h>

/* When the timed part began and ended: in ticks of the measuring block, and by
 * the global timer, so that the host can tell how long a tick is; how it ended. */
struct bench_clock {
	uint64_t ticks_begin;
	uint64_t ticks_end;
	uint64_t ns_begin;
	uint64_t ns_end;
	uint64_t taken;		/* samples taken, at most what was asked for */
	uint64_t status;	/* BENCH_DONE, or the GGAS_ERR_* that ended the kernel; 0: it never got there */
};

#define BENCH_DONE 0x600d

/* Where one thread puts its samples: up to `count` times in ticks, after
 * `warm_up` rounds that are not timed. */
struct bench_timing {
	uint64_t clock;		/* struct bench_clock */
	uint64_t samples;	/* uint64_t[count] */
	uint64_t count;
	uint64_t warm_up;
};

/* Another node's port and memory. */
struct bench_peer {
	uint64_t target;	/* NLA there */
	uint32_t node;
	uint32_t vpid;
};

/* rma-pingpong. The first node sends its two source buffers in turn, so that
 * every arrival changes the data; the other node sends back what it got. */
struct bench_pingpong {
	struct bench_timing timing;
	struct bench_peer peer;
	uint64_t port;		/* struct ggas_port */
	uint64_t source[2];	/* NLA of what this node sends in even and odd rounds */
	uint64_t last_seen;	/* poll: the last word of the receive buffer */
	uint64_t last_word[2];	/* poll: its values in even and odd rounds */
	uint32_t bytes;
	uint32_t first;		/* 1: begins each round */
};

/* Host-assisted rounds: the kernel raises `trigger` to have the host send, and
 * waits for the host to raise `answer`. Both count rounds. */
struct bench_assisted {
	struct bench_timing timing;
	uint64_t trigger;	/* uint64_t in host memory */
	uint64_t answer;	/* uint64_t in host memory */
	uint64_t report;	/* struct ggas_report, or 0 */
	uint64_t timeout_ns;
	uint32_t node;
	uint32_t first;		/* 1: triggers, then waits; 0: waits first */
};

/* rma-bandwidth. One node sends windows of puts; the other answers each window. */
struct bench_bandwidth {
	struct bench_timing timing;
	struct bench_peer peer;
	uint64_t port;
	uint64_t source[2];
	uint32_t bytes;
	uint32_t window;	/* puts per sample */
	uint32_t sender;
	uint32_t reserved;
};

/* rma-rate. All threads of the sending node post; one warp of the other node
 * consumes notifications and grants credit by immediate puts. Each put has its
 * own notification, or each block sends one notification put per group. */
struct bench_rate {
	struct bench_timing timing;	/* receiver: a sample is the ticks of `sample` puts */
	struct bench_peer peer;		/* sender: where puts go; receiver: where credit goes */
	uint64_t port;
	uint64_t source[2];	/* NLA of 8 bytes per thread for even and odd rounds */
	uint64_t credit;	/* sender: kernel address of the puts that the receiver saw arrive */
	uint64_t limit;		/* puts that may be on their way */
	uint64_t total;		/* puts of all blocks */
	uint32_t groups;	/* per block */
	uint32_t per_group;	/* puts per thread and group */
	uint32_t per_notification;	/* puts that a notification stands for: 1, or those of a group */
	uint32_t per_credit;	/* puts between two grants of credit */
	uint32_t sample;	/* puts per sample */
	uint32_t sender;
};

/* ggas-pingpong. Each thread of the grid has a word; block 0 measures. */
struct bench_ggas_pingpong {
	struct bench_timing timing;
	uint64_t window;	/* struct ggas_window */
	uint64_t input;		/* uint64_t per thread: what it counts from */
	uint64_t output;	/* read: uint64_t per thread */
	uint32_t peer;
	uint32_t first;
};

/* ggas-bandwidth: copies between this node's memory and the other's window. */
struct bench_ggas_bandwidth {
	struct bench_timing timing;
	uint64_t window;
	uint64_t group;		/* struct ggas_group: its blocks meet */
	uint64_t local[2];	/* store: sources of even and odd rounds; load: local[0] is the destination */
	uint64_t offset;	/* of the copied bytes in the window */
	uint64_t bytes;		/* a multiple of 16 */
	uint32_t peer;
	uint32_t strided;	/* 1: each thread has a stretch of its own */
};

/* ggas-coalescing: values of 4 bytes between this node's memory and the other's window, one or every second one there. */
struct bench_ggas_values {
	struct bench_timing timing;
	uint64_t window;
	uint64_t group;		/* struct ggas_group: its blocks meet */
	uint64_t local[2];	/* uint32_t[count]: store: sources of even and odd rounds; load: local[0] is the destination */
	uint64_t offset;	/* of the first value in the window */
	uint64_t count;
	uint32_t peer;
	uint32_t step;		/* values from one that is accessed to the next */
};

/* host-sync, host-wait: each block counts its rounds, and the last one to finish tells the host. */
struct bench_host_sync {
	uint64_t rounds;	/* uint64_t per block; 0 at first */
	uint64_t finished;	/* uint64_t: blocks that finished, all rounds together; 0 at first */
	uint64_t word;		/* uint64_t in host memory: rounds that all blocks finished; 0: the host is not told */
	uint64_t ns;		/* that a round lasts; 0: as short as can be */
};

/* gmpi-calls: a block makes calls that the daemon answers at once. */
struct bench_gmpi_calls {
	struct bench_timing timing;
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t answered;	/* uint64_t: calls that were answered without an error */
	uint64_t arguments;	/* of each call, 1 to 31 */
};

/* gmpi-pingpong: a block of each of two processes sends and receives. */
struct bench_gmpi_pingpong {
	struct bench_timing timing;
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t comm;		/* MPI_Comm of both */
	uint64_t from;		/* uint64_t[count], attached */
	uint64_t to;		/* uint64_t[count], attached */
	uint64_t requests;	/* uint64_t[2] */
	uint64_t wrong;		/* uint64_t: words that were wrong */
	uint64_t count;		/* words of a message */
	uint64_t seed;		/* of what they hold */
};

/* device-copy: a kernel has the copy engine copy, by a word that a stream waits for. */
struct bench_device_copy {
	struct bench_timing timing;
	uint64_t window;	/* struct ggas_window: bounds of waits */
	uint64_t trigger;	/* uint64_t: rounds begun, by the kernel; 0 at first */
	uint64_t done;		/* uint64_t: rounds done, by the stream; 0 at first */
};

#define BENCH_PUT_THREAD	0	/* who puts together */
#define BENCH_PUT_WARP		1
#define BENCH_PUT_BLOCK		2
#define BENCH_PUT_GRID		3
#define BENCH_PUT_BULK		4	/* by the copy unit, started by a block: litmus only */
#define BENCH_PUT_HANDOVER	5	/* the same, and the signal by a thread of another warp: litmus only */

/* put-signal and put-packed: ping-pong. Both nodes send sources of their own in even and odd rounds. get: one node
 * fetches them. */
struct bench_put {
	struct bench_timing timing;
	uint64_t window;	/* struct ggas_window */
	uint64_t source[2];	/* get: offsets in the window */
	uint64_t arrival[2];	/* put-signal: offsets in the window; put-packed, get: kernel addresses */
	uint64_t bytes;
	uint64_t signal;	/* put-signal: offset of a uint64_t in the window */
	uint64_t rings;		/* put-packed: offset of the rings */
	uint32_t lanes;		/* of the rings */
	uint32_t lines_log2;
	uint32_t form;		/* BENCH_PUT_THREAD ... */
	uint32_t peer;
	uint32_t first;		/* 1: begins each round, and measures */
	uint32_t batch;		/* get: those of a round */
};

/* put-bandwidth: one put by the whole grid per round. */
struct bench_put_bandwidth {
	struct bench_timing timing;
	uint64_t window;
	uint64_t source[2];	/* of even and odd rounds */
	uint64_t met;		/* uint64_t: blocks that met, all rounds together; 0 at first */
	uint64_t offset;	/* in the window */
	uint64_t bytes;
	uint32_t peer;
	uint32_t bulk;		/* 1: by the copy units */
};

#define BENCH_RATE_NEIGHBOURS	0	/* messages of neighbouring threads lie side by side */
#define BENCH_RATE_APART	1	/* each thread has a stretch of its own */
#define BENCH_RATE_SIGNAL	2	/* side by side, each with a signal */

/* put-rate: every thread of the grid puts `batch` messages per round, each to a place of its own. */
struct bench_put_rate {
	struct bench_timing timing;
	uint64_t window;
	uint64_t source[2];	/* of even and odd rounds */
	uint64_t met;		/* uint64_t: blocks that met, all rounds together; 0 at first */
	uint64_t offset;	/* of all messages in the window */
	uint64_t signals;	/* offset of a uint64_t for each thread; 0 at first, then the messages it sent */
	uint64_t bytes;		/* of a message */
	uint32_t batch;
	uint32_t peer;
	uint32_t form;		/* BENCH_RATE_NEIGHBOURS ... */
	uint32_t reserved;
};

#define BENCH_OVERLAP_NONE	0	/* nobody sends */
#define BENCH_OVERLAP_BLOCK	1	/* all threads put, then compute */
#define BENCH_OVERLAP_WARP	2	/* the first warp puts, the others compute */
#define BENCH_OVERLAP_BULK	3	/* the same by the copy unit */
#define BENCH_OVERLAP_RMA	4	/* one thread posts, all compute */

/* put-overlap and rma-overlap: one block communicates and computes. */
struct bench_overlap {
	struct bench_timing timing;
	struct bench_peer peer;		/* rma; puts: the node, and the offset in the window */
	uint64_t window;	/* puts: struct ggas_window */
	uint64_t port;		/* rma: struct ggas_port */
	uint64_t source[2];	/* of even and odd rounds: kernel addresses, rma: NLAs */
	uint64_t state;		/* uint64_t per thread, what it computes with */
	uint64_t bytes;
	uint64_t steps;		/* that each computing thread goes on with its state in a round */
	uint32_t way;		/* BENCH_OVERLAP_NONE ... */
	uint32_t idle;		/* threads, the first ones, that do not compute */
	uint32_t sender;	/* 0: rma: only takes the notification of the last round */
	uint32_t reserved;
};

/* card-stores: every thread posts notification puts, numbered from 1. */
struct bench_card_stores {
	struct bench_peer peer;	/* without a target */
	uint64_t port;		/* struct ggas_port */
	uint64_t status;	/* uint64_t: what failed first; 0 at first */
	uint64_t posts;		/* of each thread */
};

/* atomics-random: every thread updates random words of all nodes. */
struct bench_atomics {
	uint64_t window;
	uint64_t result;	/* struct bench_atomics_result */
	uint64_t offset;	/* of the table in each part */
	uint64_t entries;	/* per node, a power of two */
	uint64_t updates;	/* of each thread */
	uint64_t seed;
	uint32_t fetch;		/* 1: with result */
	uint32_t reserved;
};
struct bench_atomics_result {
	uint64_t ns_begin;	/* of the first block; ~0 at first */
	uint64_t ns_end;	/* of the last block, its updates performed; 0 at first */
	uint64_t sum;		/* all operands, xored */
	uint64_t blocks;	/* that ended */
};
#define BENCH_MEET_SYNC		0	/* ggas_sync */
#define BENCH_MEET_BARRIER	1	/* ggas_barrier, release_acquire */
#define BENCH_MEET_MASTER	2	/* ggas_barrier_master, release_acquire */

/* barrier. */
struct bench_barrier {
	struct bench_timing timing;
	uint64_t group;		/* struct ggas_group */
	uint64_t window;	/* struct ggas_window; 0: neither checking nor writing */
	uint64_t marks;		/* checking: offset in the window of uint64_t per block and node */
	uint64_t wrong;		/* checking: uint64_t, marks seen too early; 0: no checks */
	uint64_t writes;	/* writing: offset in the window of uint64_t per thread; ~0: no writes */
	uint32_t kind;		/* BENCH_MEET_SYNC ... */
	uint32_t batch;		/* barriers of a round */
};

/* barrier by kernels that end: each launch is a round. */
struct bench_relaunch {
	uint64_t window;	/* struct ggas_window */
	uint64_t marks;		/* checking: offset in the window of uint64_t per block and node */
	uint64_t wrong;		/* checking: uint64_t, marks seen too early; 0: no checks */
	uint64_t round;
	uint64_t group;		/* struct ggas_group, for kernels that meet between rounds */
};

#define BENCH_WAY_AUTO		0	/* allreduce: as the library chooses */
#define BENCH_WAY_ONE_SHOT	1
#define BENCH_WAY_TWO_SHOT	2
#define BENCH_WAY_REMOTE_READ	3
#define BENCH_WAY_GATHER	4
#define BENCH_WAY_ALL_GATHER	5
#define BENCH_WAY_TREE		6
#define BENCH_WAY_ALL_TO_ALL	7

#define BENCH_FORM_BLOCK	0	/* as ggas_form */
#define BENCH_FORM_OWNED	1
#define BENCH_FORM_SHARED	2
#define BENCH_FORM_GRID		3

/* reduce, allreduce and the other collectives, of floats. */
struct bench_reduce {
	struct bench_timing timing;
	uint64_t group;
	uint64_t in[2];		/* float[count] of even and odd rounds */
	uint64_t out;		/* float[count] */
	uint64_t count;
	uint32_t apart;		/* 1: nodes meet before each round, so that it is timed alone */
	uint32_t way;		/* BENCH_WAY_AUTO ..., or BENCH_MOVE_BROADCAST ... */
	uint32_t form;		/* BENCH_FORM_BLOCK ... */
	uint32_t batch;		/* operations of a round */
};

/* global-reduction: the sum over all elements of all nodes. */
struct bench_global {
	struct bench_timing timing;
	uint64_t group;
	uint64_t in[2];		/* double[count] of even and odd rounds */
	uint64_t partial;	/* double[2][blocks] */
	uint64_t out;		/* double: the sum */
	uint64_t count;
};

#define BENCH_MOVE_BROADCAST		0
#define BENCH_MOVE_ALL_GATHER		1
#define BENCH_MOVE_ALL_TO_ALL		2
#define BENCH_MOVE_REDUCE_SCATTER	3

/* Most nodes of randomaccess. */
#define BENCH_RANDOM_NODES 64

/* randomaccess. Each block of a node works with the blocks of the same number
 * on the other nodes. */
struct bench_random {
	struct bench_timing timing;	/* one sample per round, of block 0 */
	uint64_t window;	/* struct ggas_window; ggas: flags, then mailboxes; atomics: the table */
	uint64_t port;		/* rma: struct ggas_port; the grid has one block */
	uint64_t table;		/* uint64_t[entries of this node] */
	uint64_t starts;	/* uint64_t per thread: where its part of the random stream begins */
	uint64_t mailboxes;	/* rma: kernel address of this node's mailboxes */
	uint64_t outboxes;	/* rma: kernel address of the buckets to send */
	uint64_t outboxes_nla;	/* rma: the same as NLA */
	uint64_t peers;		/* rma: struct bench_peer per node; target: mailboxes there */
	uint64_t entries;	/* of the whole table, a power of two */
	uint64_t per_node;	/* entries per node, rounded up */
	uint64_t updates;	/* of this node, all blocks */
	uint32_t look_ahead;	/* updates per block and round */
	uint32_t node;
	uint32_t nodes;
	uint32_t reserved;
};

#define BENCH_QUEUES_BARE_PUT		0	/* one post, with a requester notification */
#define BENCH_QUEUES_PUT		1	/* the same by a queue */
#define BENCH_QUEUES_BARE_SIGNAL	2	/* one put with signal over a window */
#define BENCH_QUEUES_SIGNAL		3	/* the same by a queue */
#define BENCH_QUEUES_RATE		4	/* writes of all blocks by all queues, and waits for them */

/* queues. Node 0 writes to node 1. */
struct bench_queues {
	struct bench_timing timing;	/* a sample: one post; rate: a round of all blocks */
	uint64_t queues;	/* struct ggas_queues */
	uint64_t memory;	/* struct ggas_memory by member: bytes to send in even and odd rounds, then to receive */
	uint64_t window;	/* bare signal: struct ggas_window of the same memory */
	uint64_t signal;	/* bare signal: where node 1's lies in it */
	uint64_t met;		/* rate: u64, blocks that met; 0 at the start */
	uint64_t bytes;		/* of a write */
	uint64_t length;	/* bytes to send in a round */
	uint32_t batch;		/* rate: writes of a block in a round */
	uint32_t form;		/* BENCH_QUEUES_* */
};

#include "bench_litmus.h"
#include "bench_tn.h"
#include "bench_verbs.h"
#include "bench_himeno.h"
#include "bench_gmpi.h"
#include "bench_hpe.h"

#endif /* GGAS_BENCH_H */
