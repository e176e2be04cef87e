// SPDX-License-Identifier: MIT OR Apache-2.0
// litmus-post: what a kernel stored to a window is there when a notification that it posted afterwards is.
#include "bench.cuh"
#include "ggas/rma.cuh"

#include "bench.h"

namespace litmus_post
{

GGAS_FN uint64_t *word(const bench_litmus_post &args, uint64_t index)
{
	return reinterpret_cast<uint64_t *>(args.words + (index * ggas_threads() + ggas_thread()) * 128);
}

/* A post without its fence; by one thread, into a ring that is never full. */
GGAS_FN int post_weakly(ggas_port *port, const extoll_desc &desc)
{
	ggas_impl::slot_ring ring(port);
	if (!ring.near) {
		auto *slot = reinterpret_cast<ggas_slot *>(ring.slots) + (ring.index & ring.mask);
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&slot->word[0]),
				   ggas_u128{ desc.word[0], desc.word[1] });
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&slot->word[2]),
				   ggas_u128{ desc.word[2], ring.index + 1 });
		return GGAS_OK;
	}
	auto *slot = reinterpret_cast<ggas_near_slot *>(ring.slots) + (ring.index & ring.mask);
	for (int i = 0; i < 3; i++)
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(slot->line[i]),
				   ggas_u128{ desc.word[i], ring.index + 1 });
	return GGAS_OK;
}

GGAS_FN int store_and_post(const bench_litmus_post &args, uint64_t round)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	for (uint64_t i = 0; i < args.count; i++)
		ggas_store_relaxed(word(args, i), round);
	gpu_rma2_peer peer = { args.peer.node, args.peer.vpid };
	if (args.build == BENCH_LITMUS_RIGHT)
		return gpu_rma2_notification_put<ggas_scope::block>(port, peer, 0, round);
	extoll_desc desc = extoll_desc_notification_put(peer.node, peer.vpid, EXTOLL_SPEC_COMPLETER, EXTOLL_MOD_NONE, 0,
							round);
	int status = GGAS_OK;
	ggas_syncthreads();
	if (ggas_thread() == 0)
		status = post_weakly(port, desc);
	return ggas_block_status(status);
}

/* All threads take the same notification, by way of the first. */
GGAS_FN int take(const bench_litmus_post &args)
{
	extoll_noti noti;
	int status = GGAS_OK;
	if (ggas_thread() == 0)
		status = gpu_rma2_noti_take(reinterpret_cast<ggas_port *>(args.port), &noti);
	return ggas_block_status(status);
}

GGAS_FN int rounds(const bench_litmus_post &args, bench_stopwatch &watch)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	uint64_t forbidden = 0;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		watch.begin(i);
		if (args.first)
			if (int error = store_and_post(args, i + 1))
				return error;
		if (int error = take(args))
			return error;
		if (!args.first) {
			for (uint64_t k = 0; k < args.count; k++)
				forbidden += ggas_load_relaxed(word(args, k)) < i + 1;
			gpu_rma2_peer peer = { args.peer.node, args.peer.vpid };
			if (int error = gpu_rma2_notification_put<ggas_scope::block>(port, peer, 0, i))
				return error;
		}
		watch.end(i);
	}
	ggas_red_add(reinterpret_cast<uint64_t *>(args.forbidden), forbidden, ggas_order::relaxed);
	return GGAS_OK;
}

} // namespace litmus_post

GGAS_KERNEL_BOUND(bench_litmus_post_rounds, bench_litmus_post, 256)
{
	bench_stopwatch watch(args.timing);
	int error = litmus_post::rounds(args, watch);
	if (ggas_thread() == 0)
		watch.stop(error);
}
