// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernel that checks velo.cuh on whatever runs it.
#include "ggas/velo.cuh"

#include "selftest.h"

namespace velo_checks
{

// All lengths come up, next to each other and far apart.
GGAS_FN uint32_t length_of(uint32_t round)
{
	return round * 37 % (EXTOLL_VELO_MAX_BYTES + 1);
}

GGAS_FN uint8_t pattern(uint32_t round, uint32_t byte)
{
	return static_cast<uint8_t>(round * 7 + byte * 3 + 1);
}

// All threads of the block call; the scopes take turns.
GGAS_FN int send_round(const selftest_velo &args, ggas_velo *port, uint32_t round, uint32_t tag)
{
	uint8_t data[EXTOLL_VELO_MAX_BYTES];
	for (uint32_t i = 0; i < length_of(round); i++)
		data[i] = pattern(round, i);
	gpu_velo_peer peer = { args.peer_node, args.peer_vpid };
	uint32_t length = length_of(round);
	if (round % 2 == 0)
		return gpu_velo_send<ggas_scope::block>(port, peer, data, length, tag, round & 3);
	int status = GGAS_OK;
	if (ggas_warp() == 0)
		status = gpu_velo_send<ggas_scope::warp>(port, peer, data, length, tag, round & 3);
	return ggas_block_status(status);
}

// Thread 0 takes the next message and compares it.
GGAS_FN int check_round(const selftest_velo &args, ggas_velo *port, uint32_t round, uint32_t tag)
{
	int status = GGAS_OK;
	if (ggas_thread() == 0) {
		gpu_velo_message message;
		status = gpu_velo_receive(port, &message);
		bool same = status == GGAS_OK && message.length == length_of(round) && message.tag == tag &&
			    message.mtt == (round & 3) && message.source.node == args.peer_node &&
			    message.source.vpid == args.peer_vpid;
		for (uint32_t i = 0; same && i < message.length; i++)
			same = static_cast<uint8_t>(message.word[i / 8] >> 8 * (i % 8)) == pattern(round, i);
		if (!same)
			ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), 1u, ggas_order::relaxed);
	}
	return ggas_block_status(status);
}

GGAS_FN int run(const selftest_velo &args, ggas_velo *port)
{
	for (uint32_t round = 0; round < args.rounds; round++) {
		uint32_t tag = round & 0xff, answer = (round + 1) & 0xff;
		int error = args.first ? send_round(args, port, round, tag) : check_round(args, port, round, tag);
		if (!error && args.mode == SELFTEST_ECHO)
			error = args.first ? check_round(args, port, round, answer) :
					     send_round(args, port, round, answer);
		if (error)
			return error;
	}
	return ggas_block_status(ggas_thread() == 0 ? gpu_velo_drain(port) : GGAS_OK);
}

} // namespace velo_checks

GGAS_KERNEL(ggas_selftest_velo, selftest_velo)
{
	int error = velo_checks::run(args, reinterpret_cast<ggas_velo *>(args.port));
	if (ggas_thread() == 0)
		ggas_store_release(reinterpret_cast<uint64_t *>(args.status), static_cast<uint64_t>(error));
}
