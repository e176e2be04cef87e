/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the tests of verbs.cuh. */
#ifndef GGAS_SELFTEST_VERBS_H
#define GGAS_SELFTEST_VERBS_H

#include <stdint.h>

#define SELFTEST_VERBS_THREAD	0	/* scopes */
#define SELFTEST_VERBS_WARP	1
#define SELFTEST_VERBS_BLOCK	2

#define SELFTEST_VERBS_POSTS	1	/* calls, of requests */
#define SELFTEST_VERBS_POLLS	2

/* `count` requests one after the other, number i at local + i * bytes and remote + i * bytes. Before each the
 * kernel posts a receive where `receives` says so, and waits for it after. */
struct selftest_verbs {
	uint64_t qp;		/* struct ggas_ibv_qp */
	uint64_t send_cq;	/* struct ggas_ibv_cq */
	uint64_t receive_cq;
	uint64_t local;
	uint64_t remote;
	uint64_t into;		/* where receives go, number i at into + i * bytes */
	uint64_t status;	/* uint64_t: 0, or 1 + number of the step that failed, its error from bit 32 on */
	uint64_t ended;		/* struct ggas_ibv_wc[count], of requests, or of receives where nothing is posted */
	uint32_t lkey;		/* as the step wants them */
	uint32_t rkey;
	uint32_t operation;	/* GGAS_IBV_*; ~0: receives only */
	uint32_t bytes;
	uint32_t count;
	uint32_t receives;
	uint32_t step;		/* 0 to 4 */
	uint32_t scope;		/* SELFTEST_VERBS_* */
	uint32_t format;	/* GGAS_IBV_MLX*, which the kernel posts by */
	uint32_t calls;		/* SELFTEST_VERBS_POSTS, _POLLS; both: each request is waited for before the next */
};

#endif /* GGAS_SELFTEST_VERBS_H */
