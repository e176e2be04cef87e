/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arguments of the benchmark kernels (bench_*.cu), shared with benches/.
 * Addresses are plain 64-bit numbers, valid where the kernel runs.
 */
#ifndef GGAS_BENCH_H
#define GGAS_BENCH_H

#include <stdint.h>

/* When the timed part began and ended: in ticks of the measuring block, and by
 * the global timer, so that the host can tell how long a tick is. */
struct bench_clock {
	uint64_t ticks_begin;
	uint64_t ticks_end;
	uint64_t ns_begin;
	uint64_t ns_end;
};

/* Where one thread puts its samples: `count` times in ticks, after `warm_up`
 * rounds that are not timed. */
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
	uint64_t trigger;	/* host-assisted: raised for the host */
	uint64_t answer;	/* host-assisted: raised by the host */
	uint32_t bytes;
	uint32_t first;		/* 1: begins each round */
};

/* rma-bandwidth. One node sends windows of puts; the other answers each window. */
struct bench_bandwidth {
	struct bench_timing timing;
	struct bench_peer peer;
	uint64_t port;
	uint64_t source[2];
	uint64_t trigger;
	uint64_t answer;
	uint32_t bytes;
	uint32_t window;	/* puts per sample */
	uint32_t sender;
	uint32_t reserved;
};

/* rma-rate. All threads of the sending node post; one warp of the other node
 * consumes the notifications and grants credit by immediate puts. */
struct bench_rate {
	struct bench_timing timing;	/* receiver: one sample per `group` puts */
	struct bench_peer peer;		/* sender: where puts go; receiver: where credit goes */
	uint64_t port;
	uint64_t source[2];	/* NLA of 8 bytes per thread for even and odd rounds */
	uint64_t credit;	/* sender: groups that the receiver saw complete */
	uint64_t rounds;	/* puts per thread */
	uint32_t notify;	/* 1: each put notifies; 0: the last one of a group */
	uint32_t sender;
	uint32_t group;		/* puts per sample: threads of a block times puts per thread and group */
	uint32_t ahead;		/* groups that a block may be ahead of the credit */
};

/* ggas-pingpong. */
struct bench_ggas_pingpong {
	struct bench_timing timing;
	uint64_t window;	/* struct ggas_window */
	uint64_t input;		/* uint64_t per thread: what it counts from */
	uint64_t output;	/* read: uint64_t per thread */
	uint32_t peer;
	uint32_t first;
};

/* ggas-bandwidth. */
struct bench_ggas_bandwidth {
	struct bench_timing timing;
	uint64_t window;
	uint64_t local[2];	/* store: sources of even and odd rounds; load: local[0] is the destination */
	uint64_t arrived;	/* uint64_t in kernel memory, 0 at first: blocks that finished */
	uint64_t bytes;		/* a multiple of 16 */
	uint32_t peer;
	uint32_t strided;	/* 0: neighbouring threads access neighbouring words; 1: each thread has a stretch */
};

/* randomaccess. Each block of a node works with the blocks of the same number
 * on the other nodes. */
struct bench_random {
	struct bench_timing timing;	/* one sample per round, of block 0 */
	uint64_t window;	/* ggas: struct ggas_window; flags, then mailboxes */
	uint64_t port;		/* rma: struct ggas_port of the block's node */
	uint64_t table;		/* uint64_t[entries of this node] */
	uint64_t starts;	/* uint64_t per thread: where its part of the random stream begins */
	uint64_t mailboxes;	/* rma: kernel address of this node's mailboxes */
	uint64_t outboxes;	/* rma: kernel address of the buckets to send */
	uint64_t outboxes_nla;	/* rma: the same as NLA */
	uint64_t peers;		/* rma: struct bench_peer[nodes]; target: mailboxes there */
	uint64_t entries;	/* of the whole table, a power of two */
	uint64_t per_node;	/* entries per node, rounded up */
	uint64_t rounds;
	uint64_t updates;	/* of this node, all blocks */
	uint32_t look_ahead;	/* updates per block and round */
	uint32_t node;
	uint32_t nodes;
	uint32_t reserved;
};

#endif /* GGAS_BENCH_H */
