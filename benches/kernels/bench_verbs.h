/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels of verbs, and of rma-calls beside them; included by bench.h. */
#ifndef GGAS_BENCH_VERBS_H
#define GGAS_BENCH_VERBS_H

/* One block's part of a verbs benchmark. */
struct bench_verbs_end {
	uint64_t qp;		/* struct ggas_ibv_qp */
	uint64_t cq;		/* struct ggas_ibv_cq of its requests */
	uint64_t asked;		/* assisted: uint64_t in host memory, requests that the host shall make */
	uint64_t done;		/* assisted: the same, requests that are complete */
	uint64_t local;		/* what is sent in even rounds; in odd ones `length` behind it. Of atomics: what comes back */
	uint64_t remote;	/* where it goes, or the word */
};

#define BENCH_VERBS_ROUNDS	0	/* rounds of `batch` requests by all blocks, waited for at their ends */
#define BENCH_VERBS_PINGPONG	1	/* one block at each end: writes, and looks at the last word that the peer writes */

/* verbs-bandwidth, -rate, -atomics and -latency. */
struct bench_verbs {
	struct bench_timing timing;	/* a sample: a round of all blocks */
	uint64_t ends;		/* struct bench_verbs_end[blocks] */
	uint64_t met;		/* uint64_t, blocks that met; 0 at the start */
	uint64_t report;	/* struct ggas_report, or 0 */
	uint64_t timeout_ns;
	uint64_t length;	/* bytes from what even rounds send to what odd ones send */
	uint32_t lkey;		/* as they lie in requests */
	uint32_t rkey;
	uint32_t operation;	/* GGAS_IBV_WRITE, _CMP_SWAP or _FETCH_ADD */
	uint32_t bytes;
	uint32_t batch;
	uint32_t depth;		/* most requests under way of a block that has the host make them */
	uint32_t form;		/* BENCH_VERBS_* */
	uint32_t assisted;	/* 1: the host makes the requests */
	uint32_t first;		/* ping-pong: 1: begins each round */
	uint32_t node;
	uint64_t looked_at;	/* ping-pong: the word that the peer counts up */
};

#define BENCH_VERBS_POST	0	/* which calls are timed */
#define BENCH_VERBS_POLL	1

/* What calls of verbs accessed: sectors of 32 bytes where neighbouring threads access together, else each access. */
struct bench_verbs_counts {
	uint64_t queue_reads;	/* queues and their records */
	uint64_t queue_writes;
	uint64_t doorbells;
	uint64_t table_reads;	/* the library's tables in kernel memory; fields of its objects are not counted */
	uint64_t table_writes;
};

/* verbs-ladder: one team posts a write, sees its completion, polls it. Waiting is not timed. */
struct bench_verbs_ladder {
	struct bench_timing timing;
	uint64_t qp;		/* struct ggas_ibv_qp */
	uint64_t cq;		/* struct ggas_ibv_cq of its requests */
	uint64_t counts;	/* struct bench_verbs_counts of the timed calls; 0: not counted */
	uint64_t local;		/* what is sent in even rounds; in odd ones `length` behind it */
	uint64_t remote;
	uint64_t length;
	uint64_t report;	/* struct ggas_report, or 0 */
	uint64_t timeout_ns;
	uint32_t lkey;		/* as the step wants them */
	uint32_t rkey;
	uint32_t bytes;
	uint32_t step;		/* of table 5.4: 0 to 4; of mlx5 2 and 4 */
	uint32_t call;		/* BENCH_VERBS_POST or _POLL */
	uint32_t node;
	uint32_t format;	/* GGAS_IBV_MLX* */
	uint32_t reserved;
};

/* The same of puts with a notification, by one thread. */
struct bench_rma_calls {
	struct bench_timing timing;
	struct bench_peer peer;
	uint64_t port;		/* struct ggas_port */
	uint64_t source[2];	/* NLA of what is sent in even and odd rounds */
	uint32_t bytes;
	uint32_t call;		/* BENCH_VERBS_POST or _POLL */
};

#endif /* GGAS_BENCH_VERBS_H */
