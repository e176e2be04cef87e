// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels that check rma.cuh on whatever runs them.
#include "ggas/rma.cuh"

#include "selftest.h"

namespace rma_checks
{

GGAS_FN uint8_t pattern(uint32_t round, uint32_t byte)
{
	return static_cast<uint8_t>(round * 7 + byte * 3 + 1);
}

// All threads write the round's data, one block-wide post sends it.
GGAS_FN int send_round(const selftest_rma &args, ggas_port *port, uint32_t round)
{
	uint8_t *send = reinterpret_cast<uint8_t *>(args.send);
	for (uint32_t i = ggas_thread(); i < args.bytes; i += ggas_threads())
		send[i] = pattern(round, i);
	gpu_rma2_peer peer = { args.peer_node, args.peer_vpid };
	uint32_t spec = EXTOLL_SPEC_REQUESTER | (args.quiet ? 0 : EXTOLL_SPEC_COMPLETER);
	return gpu_rma2_put<ggas_scope::block>(port, peer, args.send_nla, args.target_nla, args.bytes, spec);
}

// Notifications that came while the other kind was waited for: the answer to a
// put may overtake the notification that the put has left.
struct early_ones {
	uint32_t requester = 0, completer = 0;
	GGAS_FN uint32_t &of(uint32_t kind) { return kind == EXTOLL_NOTI_KIND_REQUESTER ? requester : completer; }
};

GGAS_FN int take_one(ggas_port *port, uint32_t kind, early_ones &early)
{
	while (early.of(kind) == 0) {
		extoll_noti noti;
		if (int error = gpu_rma2_noti_take(port, &noti))
			return error;
		early.of(extoll_noti_kind(noti.word1))++;
	}
	early.of(kind)--;
	return GGAS_OK;
}

// Thread 0 takes the next notification of a kind.
GGAS_FN int take(ggas_port *port, uint32_t kind, early_ones &early)
{
	return ggas_block_status(ggas_thread() == 0 ? take_one(port, kind, early) : GGAS_OK);
}

GGAS_FN void check_round(const selftest_rma &args, uint32_t round)
{
	const uint8_t *receive = reinterpret_cast<const uint8_t *>(args.receive);
	uint64_t wrong = 0;
	for (uint32_t i = ggas_thread(); i < args.bytes; i += ggas_threads())
		wrong += receive[i] != pattern(round, i);
	if (wrong)
		ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), wrong, ggas_order::relaxed);
	ggas_syncthreads();
}

GGAS_FN int ping_pong(const selftest_rma &args)
{
	ggas_port *port = reinterpret_cast<ggas_port *>(args.port);
	early_ones early;
	for (uint32_t round = 0; round < args.rounds; round++) {
		int error;
		if (!args.first) {
			if ((error = take(port, EXTOLL_NOTI_KIND_COMPLETER, early)))
				return error;
			check_round(args, round);
		}
		if ((error = send_round(args, port, round)) ||
		    (error = take(port, EXTOLL_NOTI_KIND_REQUESTER, early)))
			return error;
		if (args.first) {
			if ((error = take(port, EXTOLL_NOTI_KIND_COMPLETER, early)))
				return error;
			check_round(args, round);
		}
	}
	return GGAS_OK;
}

GGAS_FN int send_posts(const selftest_posts &args)
{
	ggas_port *port = reinterpret_cast<ggas_port *>(args.port);
	gpu_rma2_peer peer = { args.peer_node, args.peer_vpid };
	uint64_t thread = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	int status = GGAS_OK;
	for (uint64_t i = 1; i <= args.posts && status == GGAS_OK; i++) {
		uint64_t payload = thread << 32 | i;
		status = args.batch ?
				 gpu_rma2_post_batch(port, extoll_desc_notification_put(peer.node, peer.vpid,
											EXTOLL_SPEC_COMPLETER, 0, 9,
											payload)) :
				 gpu_rma2_notification_put(port, peer, 9, payload);
	}
	/* Nobody reads notifications here, so nothing else posts rejected descriptors again. */
	ggas_syncthreads();
	return status == GGAS_OK && ggas_thread() == 0 ? gpu_rma2_drain(port) : status;
}

GGAS_FN int take_posts(const selftest_posts &args)
{
	ggas_port *port = reinterpret_cast<ggas_port *>(args.port);
	uint64_t *seen = reinterpret_cast<uint64_t *>(args.seen);
	const gpu_rma2_match match = { EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_NOTIFICATION_PUT, args.peer_node,
				       args.peer_vpid, 9 };
	for (uint32_t taken = 0, count; taken < args.expect; taken += count) {
		extoll_noti noti = {};
		if (int error = gpu_rma2_noti_wait_warp(port, &noti, &count))
			return error;
		bool mine = ggas_lane() < count;
		if (mine && gpu_rma2_noti_matches(noti, match))
			ggas_atomic_add(&seen[noti.word0 >> 32], noti.word0 & 0xffffffff, ggas_order::relaxed);
	}
	if (ggas_lane() == 0)
		gpu_rma2_noti_flush(port);
	return GGAS_OK;
}

GGAS_FN void keep(uint64_t status, int error)
{
	if (error)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}

} // namespace rma_checks

// One block per node.
GGAS_KERNEL(ggas_selftest_rma, selftest_rma)
{
	rma_checks::keep(args.status, rma_checks::ping_pong(args));
}

// Sender: any grid of whole warps; receiver: one warp.
GGAS_KERNEL(ggas_selftest_posts, selftest_posts)
{
	rma_checks::keep(args.status, args.expect ? rma_checks::take_posts(args) : rma_checks::send_posts(args));
}
