// SPDX-License-Identifier: MIT OR Apache-2.0
// velo-pingpong: messages, and notification puts beside them, by one thread of a block.
#include "bench.cuh"
#include "ggas/rma.cuh"
#include "ggas/velo.cuh"

#include "bench.h"

namespace velo_bench
{

// What round `round` carries; both ends know it.
GGAS_FN uint64_t word_of(uint64_t round, uint32_t i)
{
	return (round + 1) * 0x9e3779b97f4a7c15u + i;
}

GGAS_FN int send(const bench_pingpong &args, uint64_t round)
{
	uint64_t word[GGAS_VELO_WORDS - 1];
	for (uint32_t i = 0; i < extoll_velo_quadwords(args.bytes); i++)
		word[i] = word_of(round, i);
	return gpu_velo_send(reinterpret_cast<ggas_velo *>(args.port), { args.peer.node, args.peer.vpid }, word,
			     args.bytes, round & 0xff);
}

GGAS_FN int take(const bench_pingpong &args, uint64_t round)
{
	gpu_velo_message message;
	if (int error = gpu_velo_receive(reinterpret_cast<ggas_velo *>(args.port), &message))
		return error;
	bool same = message.length == args.bytes && message.tag == (round & 0xff);
	for (uint32_t i = 0; same && i < extoll_velo_quadwords(args.bytes); i++) {
		uint32_t behind = args.bytes - 8 * i < 8 ? 8 - (args.bytes - 8 * i) : 0;
		same = ((message.word[i] ^ word_of(round, i)) << 8 * behind) == 0;
	}
	return same ? GGAS_OK : GGAS_ERR_NO_MATCH;
}

GGAS_FN int put(const bench_pingpong &args, uint64_t round)
{
	return gpu_rma2_notification_put(reinterpret_cast<ggas_port *>(args.port), { args.peer.node, args.peer.vpid },
					 0, word_of(round, 0));
}

GGAS_FN int consume(const bench_pingpong &args, uint64_t round)
{
	extoll_noti noti;
	if (int error = gpu_rma2_noti_take(reinterpret_cast<ggas_port *>(args.port), &noti))
		return error;
	return noti.word0 == word_of(round, 0) ? GGAS_OK : GGAS_ERR_NO_MATCH;
}

template <int (*Send)(const bench_pingpong &, uint64_t), int (*Take)(const bench_pingpong &, uint64_t)>
GGAS_FN int rounds(const bench_pingpong &args, bench_stopwatch &watch)
{
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		watch.begin(i);
		if (args.first)
			if (int error = Send(args, i))
				return error;
		if (int error = Take(args, i))
			return error;
		if (!args.first)
			if (int error = Send(args, i))
				return error;
		watch.end(i);
	}
	return GGAS_OK;
}

} // namespace velo_bench

GGAS_KERNEL(bench_velo_message, bench_pingpong)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	int status = velo_bench::rounds<velo_bench::send, velo_bench::take>(args, watch);
	int drained = gpu_velo_drain(reinterpret_cast<ggas_velo *>(args.port));
	watch.stop(status ? status : drained);
}

GGAS_KERNEL(bench_velo_notification, bench_pingpong)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	watch.stop(velo_bench::rounds<velo_bench::put, velo_bench::consume>(args, watch));
}
