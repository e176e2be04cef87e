// SPDX-License-Identifier: MIT OR Apache-2.0
// rma-rate: all threads of a grid post 8-byte puts, a warp per step; a warp of the other node consumes.
#include "bench.cuh"
#include "ggas/rma.cuh"

#include "bench.h"

/* A block may go on while its share of the puts is at most `limit` ahead of the credit: if every block keeps to
 * that, no more than `limit` are on their way altogether. */
static GGAS_FN int wait_for_credit(const bench_rate &args, uint64_t posted)
{
	auto *port = reinterpret_cast<const ggas_port *>(args.port);
	auto *credit = reinterpret_cast<const uint64_t *>(args.credit);
	uint64_t share = posted * ggas_blocks(), seen;

	if (share <= args.limit)
		return GGAS_OK;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_FLAG, port->node, args.peer.node);
	while ((seen = ggas_load_relaxed(credit)) + args.limit < share)
		if (int error = wait.again(credit, share - args.limit, seen))
			return error;
	return GGAS_OK;
}

static GGAS_FN int post_group(const bench_rate &args, uint32_t group)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	uint64_t offset = (static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread()) * sizeof(uint64_t);
	bool notify = args.per_notification == 1;

	for (uint32_t k = 0; k < args.per_group; k++) {
		uint64_t round = static_cast<uint64_t>(group) * args.per_group + k;
		extoll_desc desc = extoll_desc_sized(EXTOLL_CMD_BT_PUT, args.peer.node, args.peer.vpid,
						     notify ? EXTOLL_SPEC_COMPLETER : EXTOLL_SPEC_NONE, EXTOLL_MOD_NONE,
						     args.source[round & 1] + offset, args.peer.target + offset,
						     sizeof(uint64_t));
		if (int error = gpu_rma2_post_batch(port, desc))
			return error;
	}
	if (notify)
		return GGAS_OK;
	/* Behind the puts of the whole block, on the same connection. */
	return gpu_rma2_notification_put<ggas_scope::block>(port, { args.peer.node, args.peer.vpid }, 0, group);
}

static GGAS_FN int send_groups(const bench_rate &args)
{
	uint64_t per_group = static_cast<uint64_t>(args.per_group) * ggas_threads();

	for (uint32_t group = 0; group < args.groups; group++) {
		int error = GGAS_OK;
		if (ggas_thread() == 0)
			error = wait_for_credit(args, (group + 1) * per_group);
		if ((error = ggas_block_status(error)))
			return error;
		error = post_group(args, group);
		if ((error = ggas_block_status(error)))
			return error;
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_rate_send, bench_rate)
{
	bench_stopwatch watch(args.timing);
	int status = send_groups(args);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

/* What lane 0 of the consuming warp keeps. */
struct progress {
	uint64_t arrived, credited, sampled;
	uint64_t sample;
};

static GGAS_FN int grant_credit(const bench_rate &args, progress &now)
{
	if (now.arrived - now.credited < args.per_credit)
		return GGAS_OK;
	now.credited = now.arrived;
	return gpu_rma2_immediate_put(reinterpret_cast<ggas_port *>(args.port), { args.peer.node, args.peer.vpid },
				      now.arrived, sizeof(now.arrived), args.peer.target, EXTOLL_SPEC_NONE);
}

/* A sample ends with the notifications that complete it; a few more puts may belong to them. */
static GGAS_FN void take_sample(const bench_rate &args, bench_stopwatch &watch, progress &now)
{
	if (now.arrived - now.sampled < args.sample || now.sample >= watch.rounds())
		return;
	watch.end(now.sample, args.sample, now.arrived - now.sampled);
	now.sampled = now.arrived;
	if (++now.sample < watch.rounds())
		watch.begin(now.sample);
}

static GGAS_FN int consume_all(const bench_rate &args, bench_stopwatch &watch)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	progress now = {};

	watch.begin(0);
	while (now.arrived < args.total) {
		extoll_noti noti = {};
		uint32_t count;
		if (int error = gpu_rma2_noti_wait_warp(port, &noti, &count))
			return error;
		if (ggas_ballot(GGAS_FULL_WARP, ggas_lane() < count && extoll_noti_error(noti.word1)))
			return GGAS_ERR_NOTIFICATION;
		now.arrived += static_cast<uint64_t>(count) * args.per_notification;
		int error = GGAS_OK;
		if (ggas_lane() == 0) {
			take_sample(args, watch, now);
			error = grant_credit(args, now);
		}
		if ((error = ggas_warp_status(error)))
			return error;
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_rate_receive, bench_rate)
{
	bench_stopwatch watch(args.timing);
	int status = consume_all(args, watch);
	if (ggas_thread() == 0)
		watch.stop(status);
}
