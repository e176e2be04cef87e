/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * InfiniBand verbs in kernels (thesis 5.5.3): ibv_post_send, ibv_post_recv and ibv_poll_cq for reliable connections, without
 * inline data, on queues of mlx4 or mlx5 adapters in host memory or the GPU's.
 *
 * No HCA has seen this: it runs on GPUs and on the CPU executor against the software adapter (fpga-sim/hca).
 *
 *	ggas_ibv_send_wr wr = {};
 *	wr.operation = GGAS_IBV_WRITE;
 *	...
 *	if (int error = ggas_ibv_post_send<ggas_ibv_step<0>, ggas_scope::block>(qp, wr))
 *		return error;
 *	ggas_ibv_wc wc;
 *	if (int error = ggas_ibv_wait_cq<ggas_ibv_step<0>, ggas_scope::block>(cq, &wc))
 *		return error;
 *
 * The ladder of table 5.4. ggas_ibv_step<0> is the port of the host's library; each further step has all before it:
 *
 *	1  requests are made in shared memory, completions evaluated there; the scope's threads copy them in parallel;
 *	   a thread alone has nobody to copy with, and does as before
 *	2  keys are given as they lie in requests (ggas_ibv_mr::lkey_be, rkey_be)
 *	3  old requests are not stamped
 *	4  no parameter is checked and no queue is looked after: not whether the queue is full, not which request has
 *	   completed. ggas_ibv_wc says `status` only, and the caller bounds what is under way
 *	5  (not the thesis's) accesses are ordered on this GPU, which takes a third of the time that it takes for the whole system:
 *	   queues have to lie in its memory. What callers stored elsewhere and a request reads they fence themselves
 *	   (ggas_fence_system). The adapter is told of each quarter of a completion queue that was consumed, so that three
 *	   quarters may be under way
 *
 * 1 and 2 are optimisations, 3 to 5 leave something out. ggas_ibv_steps<...> chooses each by itself. The format of the context's
 * queues is a parameter beside them, ggas_ibv_step<2, ggas_ibv_mlx5>; without it mlx4's (ConnectX-2 and 3).
 *
 * Who calls. A thread, a warp or a block, all of whose threads give the same arguments and get the same result; `wr` may be each
 * thread's own copy, `wc` is. One of them uses a queue pair or a completion queue at a time.
 *
 * Order. A request comes behind what its callers did before; a completion before what they do after.
 *
 * Errors. GGAS_OK; GGAS_ERR_ARGUMENT (no such operation, too many pieces, queues of the other format: from posts and waits);
 * GGAS_ERR_WOULD_BLOCK (the queue is full: poll); GGAS_ERR_TIMEOUT of waits. How a request ended says ggas_ibv_wc::status.
 */
#ifndef GGAS_VERBS_CUH
#define GGAS_VERBS_CUH

#include "verbs_layout.h"
#include "vocab.h"

#include "impl/put_team.h"
#include "impl/verbs_steps.h"
#include "impl/verbs_mlx4.h"
#include "impl/verbs_mlx5.h"
#include "impl/verbs_post.h"
#include "impl/verbs_poll.h"

/* Posts a request. */
template <class Steps = ggas_ibv_step<2>, ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_ibv_post_send(ggas_ibv_qp *qp, const ggas_ibv_send_wr &wr)
{
	return ggas_impl::ibv_post_send<Steps, Scope>(qp, wr);
}

/* Posts a receive. */
template <class Steps = ggas_ibv_step<2>, ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_ibv_post_recv(ggas_ibv_qp *qp, const ggas_ibv_recv_wr &wr)
{
	return ggas_impl::ibv_post_recv<Steps, Scope>(qp, wr);
}

/* Takes a completion if there is one: 1, or 0. */
template <class Steps = ggas_ibv_step<2>, ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_ibv_poll_cq(ggas_ibv_cq *cq, ggas_ibv_wc *wc)
{
	return ggas_impl::ibv_poll_cq<Steps, Scope>(cq, wc);
}

/* Waits for a completion, bounded. */
template <class Steps = ggas_ibv_step<2>, ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_ibv_wait_cq(ggas_ibv_cq *cq, ggas_ibv_wc *wc, uint32_t line = __builtin_LINE())
{
	const ggas_ibv_ctx *ctx = reinterpret_cast<const ggas_ibv_ctx *>(cq->ctx);
	if (!ggas_impl::ibv_speaks<typename Steps::format>(cq->ctx))
		return GGAS_ERR_ARGUMENT;
	ggas_wait wait(ctx->report, ctx->timeout_ns, GGAS_WAIT_COMPLETION, ctx->node, ~0u, line);
	while (!ggas_impl::ibv_poll_cq<Steps, Scope>(cq, wc)) {
		int error = wait.again(reinterpret_cast<const void *>(cq->buffer), cq->consumed, cq->consumed);
		/* One thread's time is over before another's. */
		if ((error = ggas_impl::put_team<Scope>::agree(error)))
			return error;
	}
	return GGAS_OK;
}

#endif /* GGAS_VERBS_CUH */
