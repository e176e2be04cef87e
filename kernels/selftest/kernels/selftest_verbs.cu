// SPDX-License-Identifier: MIT OR Apache-2.0
// Verbs: requests and receives in each format and step of the ladder, by a thread, a warp and a block.
#include "ggas/verbs.cuh"

#include "selftest_verbs.h"

namespace selftest_verbs_parts
{

template <class Steps, ggas_scope Scope> GGAS_FN int receive(const selftest_verbs &args, uint32_t number)
{
	ggas_ibv_recv_wr wr = {};
	wr.id = 1000 + number;
	wr.sges = 1;
	wr.sge[0] = { args.into + static_cast<uint64_t>(number) * args.bytes, args.bytes, args.lkey };
	return ggas_ibv_post_recv<Steps, Scope>(reinterpret_cast<ggas_ibv_qp *>(args.qp), wr);
}

template <class Steps, ggas_scope Scope> GGAS_FN int send(const selftest_verbs &args, uint32_t number)
{
	uint64_t offset = static_cast<uint64_t>(number) * args.bytes;
	ggas_ibv_send_wr wr = {};
	wr.id = 2000 + number;
	wr.remote = args.remote + offset;
	wr.rkey = args.rkey;
	wr.operation = args.operation;
	wr.flags = GGAS_IBV_SIGNALED;
	wr.immediate = 0x01020304 + number;
	/* Atomic operations on one word: compare and swap counts up, fetch and add adds 1. */
	if (args.operation == GGAS_IBV_CMP_SWAP || args.operation == GGAS_IBV_FETCH_ADD) {
		wr.remote = args.remote;
		wr.compare_add = args.operation == GGAS_IBV_FETCH_ADD ? 1 : number;
		wr.swap = number + 1;
	}
	/* In two pieces where there is enough. */
	uint32_t first = args.bytes > 8 ? args.bytes / 3 : args.bytes;
	wr.sges = first < args.bytes ? 2 : 1;
	wr.sge[0] = { args.local + offset, first, args.lkey };
	wr.sge[1] = { args.local + offset + first, args.bytes - first, args.lkey };
	return ggas_ibv_post_send<Steps, Scope>(reinterpret_cast<ggas_ibv_qp *>(args.qp), wr);
}

template <class Steps, ggas_scope Scope> GGAS_FN void run(const selftest_verbs &args)
{
	bool sends = args.operation != ~0u;
	ggas_ibv_cq *send_cq = reinterpret_cast<ggas_ibv_cq *>(args.send_cq);
	ggas_ibv_cq *receive_cq = reinterpret_cast<ggas_ibv_cq *>(args.receive_cq);
	uint64_t failed = 0;
	for (uint32_t i = 0; i < args.count && !failed; i++) {
		ggas_ibv_wc sent = {}, received = {};
		int error = GGAS_OK;
		uint32_t at = 1;
		if (args.receives)
			error = receive<Steps, Scope>(args, i);
		if (!error && sends && ++at && args.calls & SELFTEST_VERBS_POSTS)
			error = send<Steps, Scope>(args, i);
		if (!error && sends && ++at && args.calls & SELFTEST_VERBS_POLLS)
			error = ggas_ibv_wait_cq<Steps, Scope>(send_cq, &sent);
		if (!error && args.receives && ++at)
			error = ggas_ibv_wait_cq<Steps, Scope>(receive_cq, &received);
		if (error)
			failed = at | static_cast<uint64_t>(error) << 32;
		if (ggas_thread() == 0)
			reinterpret_cast<ggas_ibv_wc *>(args.ended)[i] = sends ? sent : received;
	}
	if (ggas_thread() == 0)
		ggas_store_release(reinterpret_cast<uint64_t *>(args.status), failed);
}

template <class Steps> GGAS_FN void scopes(const selftest_verbs &args)
{
	switch (args.scope) {
	case SELFTEST_VERBS_THREAD:
		if (ggas_thread() == 0)
			run<Steps, ggas_scope::thread>(args);
		return;
	case SELFTEST_VERBS_WARP:
		if (ggas_warp() == 0)
			run<Steps, ggas_scope::warp>(args);
		return;
	default:
		run<Steps, ggas_scope::block>(args);
	}
}

template <class Format> GGAS_FN void steps(const selftest_verbs &args)
{
	switch (args.step) {
	case 0:
		return scopes<ggas_ibv_step<0, Format>>(args);
	case 1:
		return scopes<ggas_ibv_step<1, Format>>(args);
	case 2:
		return scopes<ggas_ibv_step<2, Format>>(args);
	case 3:
		return scopes<ggas_ibv_step<3, Format>>(args);
	case 4:
		return scopes<ggas_ibv_step<4, Format>>(args);
	default:
		return scopes<ggas_ibv_step<5, Format>>(args);
	}
}

} /* namespace selftest_verbs_parts */

GGAS_KERNEL(ggas_selftest_verbs, selftest_verbs)
{
	if (args.format == GGAS_IBV_MLX5)
		selftest_verbs_parts::steps<ggas_ibv_mlx5>(args);
	else
		selftest_verbs_parts::steps<ggas_ibv_mlx4>(args);
}
