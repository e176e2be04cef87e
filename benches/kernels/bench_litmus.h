/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the litmus tests' kernels; included by bench.h. */
#ifndef GGAS_BENCH_LITMUS_H
#define GGAS_BENCH_LITMUS_H

#define BENCH_LITMUS_MESSAGE	0	/* message passing: data, then flag */
#define BENCH_LITMUS_BUFFER	1	/* store buffering: each side stores, then loads what the other stores */
#define BENCH_LITMUS_LINE	2	/* 16 bytes in one access */
#define BENCH_LITMUS_PUT	3	/* put, then signal, by `form` */
#define BENCH_LITMUS_CAUSALITY	4	/* three nodes: what the second saw before it wrote, the third sees */
#define BENCH_LITMUS_GRID	5	/* what any block stored, another block's barrier hands to blocks of the other node */

#define BENCH_LITMUS_RIGHT	0	/* as the library does it */
#define BENCH_LITMUS_WEAK	1	/* without what orders it */
#define BENCH_LITMUS_FENCE	2	/* store buffering by ggas_fence_system, which does not forbid it */

/* litmus: threads of node 0 and node 1 in pairs; puts: lanes of them. */
struct bench_litmus {
	uint64_t window;	/* struct ggas_window: bounds, and where puts go */
	uint64_t first;		/* of each pair: what node 0 stores, or the data; puts: the parts to use instead, or 0 */
	uint64_t second;	/* of each pair: what node 1 stores, or the flag */
	uint64_t stride;	/* bytes from pair to pair, or from part to part */
	uint64_t late;		/* store buffering: uint32_t per 32 rounds of each pair: what this node saw too late */
	uint64_t counts;	/* struct bench_litmus_counts */
	uint64_t group;		/* struct ggas_group */
	uint64_t rounds;	/* of each pair, a multiple of 32 */
	uint64_t bytes;		/* of a put of each lane, a multiple of 16 */
	uint32_t test;		/* BENCH_LITMUS_MESSAGE ... */
	uint32_t build;		/* BENCH_LITMUS_RIGHT ... */
	uint32_t form;		/* BENCH_PUT_THREAD ... */
	uint32_t reserved;
};
struct bench_litmus_counts {
	uint64_t observed;	/* messages seen */
	uint64_t forbidden;	/* outcomes that must not be */
	uint64_t ended;		/* threads that came to their end */
	uint64_t status;	/* GGAS_OK or the first error of a wait */
};

/* litmus-post: node 0 stores the round to each word of node 1's part of the window, then posts a notification to it. */
struct bench_litmus_post {
	struct bench_timing timing;
	struct bench_peer peer;
	uint64_t port;		/* struct ggas_port */
	uint64_t words;		/* of node 1's part: uint64_t each 128 bytes */
	uint64_t count;		/* of each thread */
	uint64_t forbidden;	/* uint64_t: words that were older than the round of their notification */
	uint32_t build;		/* BENCH_LITMUS_RIGHT or BENCH_LITMUS_WEAK */
	uint32_t first;		/* 1: stores and posts */
};

#define BENCH_LITMUS_TRIGGER_LAST	0	/* the put is carried out by whichever block is the last to trigger */
#define BENCH_LITMUS_TRIGGER_READER	1	/* by block 0, which read the words before others write them */
#define BENCH_LITMUS_TRIGGER_STORES	2	/* words are stored to the other node, and the put brings others */

/* litmus-trigger: threads of a grid write words, all blocks trigger one put of all words; one block at the other node looks
 * at them. */
struct bench_litmus_trigger {
	struct bench_timing timing;
	uint64_t window;	/* struct ggas_window */
	uint64_t tn;		/* the sender: struct ggas_tn, whose tag 0 puts the words once all blocks have triggered */
	uint64_t data;		/* the sender: uint64_t[words] */
	uint64_t words;
	uint64_t forbidden;	/* the receiver: uint64_t, words that were older than the signal behind them */
	uint32_t build;		/* BENCH_LITMUS_RIGHT, or BENCH_LITMUS_WEAK: triggers order nothing */
	uint32_t first;		/* 1: sends */
	uint32_t form;		/* BENCH_LITMUS_TRIGGER_LAST ... */
	uint32_t reserved;
};

#endif /* GGAS_BENCH_LITMUS_H */
