// SPDX-License-Identifier: MIT OR Apache-2.0
// rma-pingpong and rma-bandwidth (thesis 5.6.3): one thread of a block controls the communication.
#include "bench.cuh"
#include "ggas/rma.cuh"

#include "bench.h"

static GGAS_FN gpu_rma2_peer peer_of(const bench_peer &peer)
{
	return { peer.node, peer.vpid };
}

/* Takes the requester notification of the own put and the completer notification of the other's. */
static GGAS_FN int take_both(ggas_port *port)
{
	extoll_noti first, second;

	if (int error = gpu_rma2_noti_take(port, &first))
		return error;
	if (int error = gpu_rma2_noti_take(port, &second))
		return error;
	uint32_t kinds = extoll_noti_kind(first.word1) | extoll_noti_kind(second.word1);
	return kinds == (EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER) ? GGAS_OK : GGAS_ERR_NO_MATCH;
}

static GGAS_FN int send(const bench_pingpong &args, uint64_t round, uint32_t spec)
{
	return gpu_rma2_put(reinterpret_cast<ggas_port *>(args.port), peer_of(args.peer), args.source[round & 1],
			    args.peer.target, args.bytes, spec);
}

/* "GPU-controlled, notifications": completer notifications for remote, requester notifications for local
 * synchronisation. */
static GGAS_FN int ping_with_notifications(const bench_pingpong &args, bench_stopwatch &watch)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		watch.begin(i);
		if (int error = send(args, i, EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER))
			return error;
		if (int error = take_both(port))
			return error;
		watch.end(i);
	}
	return GGAS_OK;
}

static GGAS_FN int pong_with_notifications(const bench_pingpong &args, bench_stopwatch &watch)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	extoll_noti noti;

	if (int error = gpu_rma2_noti_take(port, &noti))
		return error;
	for (uint64_t i = 0; i + 1 < watch.rounds(); i++) {
		if (int error = send(args, i, EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER))
			return error;
		if (int error = take_both(port))
			return error;
	}
	if (int error = send(args, watch.rounds() - 1, EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER))
		return error;
	return gpu_rma2_noti_take(port, &noti);
}

GGAS_KERNEL(bench_pingpong_notification, bench_pingpong)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	watch.stop(args.first ? ping_with_notifications(args, watch) : pong_with_notifications(args, watch));
}

/* Waits until the last word of the receive buffer is that of this round. */
static GGAS_FN int poll_data(const bench_pingpong &args, uint64_t round)
{
	auto *port = reinterpret_cast<const ggas_port *>(args.port);
	auto *last = reinterpret_cast<const uint64_t *>(args.last_seen);
	uint64_t wanted = args.last_word[round & 1], seen;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_FLAG, port->node, args.peer.node);

	while ((seen = ggas_load_acquire(last)) != wanted)
		if (int error = wait.again(last, wanted, seen))
			return error;
	return GGAS_OK;
}

/* "GPU-controlled, no notification": the last bytes of a put become visible last (spec 2.3). */
static GGAS_FN int poll_rounds(const bench_pingpong &args, bench_stopwatch &watch)
{
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		watch.begin(i);
		if (args.first)
			if (int error = send(args, i, EXTOLL_SPEC_NONE))
				return error;
		if (int error = poll_data(args, i))
			return error;
		if (!args.first)
			if (int error = send(args, i, EXTOLL_SPEC_NONE))
				return error;
		watch.end(i);
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_pingpong_poll, bench_pingpong)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	watch.stop(poll_rounds(args, watch));
}

/* Waits until the host has raised the flag to `value`. */
static GGAS_FN int wait_for_host(const bench_assisted &args, uint64_t value)
{
	auto *flag = reinterpret_cast<const uint64_t *>(args.answer);
	uint64_t seen;
	ggas_wait wait(args.report, args.timeout_ns, GGAS_WAIT_FLAG, args.node);

	while ((seen = ggas_load_acquire(flag)) < value)
		if (int error = wait.again(flag, value, seen))
			return error;
	return GGAS_OK;
}

/* "Host-assisted": the kernel asks the host to put, and the host says when data came (ping-pong) or arrived
 * (bandwidth). */
static GGAS_FN int assisted_rounds(const bench_assisted &args, bench_stopwatch &watch)
{
	auto *trigger = reinterpret_cast<uint64_t *>(args.trigger);

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		watch.begin(i);
		if (args.first)
			ggas_store_release(trigger, i + 1);
		if (int error = wait_for_host(args, i + 1))
			return error;
		if (!args.first)
			ggas_store_release(trigger, i + 1);
		watch.end(i);
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_host_assisted, bench_assisted)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	watch.stop(assisted_rounds(args, watch));
}

/* Posts a window of puts, each with its requester notification; the last one is answered by the receiver. */
static GGAS_FN int send_windows(const bench_bandwidth &args, bench_stopwatch &watch)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	extoll_noti noti;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		watch.begin(i);
		for (uint32_t k = 0; k < args.window; k++) {
			uint32_t last = k + 1 == args.window ? EXTOLL_SPEC_COMPLETER : 0u;
			if (int error = gpu_rma2_put(port, peer_of(args.peer), args.source[i & 1], args.peer.target,
						     args.bytes, EXTOLL_SPEC_REQUESTER | last))
				return error;
		}
		for (uint32_t k = 0; k < args.window + 1; k++)
			if (int error = gpu_rma2_noti_take(port, &noti))
				return error;
		watch.end(i);
	}
	return GGAS_OK;
}

static GGAS_FN int answer_windows(const bench_bandwidth &args, bench_stopwatch &watch)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	extoll_noti noti;

	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (int error = gpu_rma2_noti_take(port, &noti))
			return error;
		if (int error = gpu_rma2_notification_put(port, peer_of(args.peer), 0, i))
			return error;
	}
	return GGAS_OK;
}

GGAS_KERNEL(bench_bandwidth_notification, bench_bandwidth)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	watch.stop(args.sender ? send_windows(args, watch) : answer_windows(args, watch));
}

/* Who takes the notifications knows each thread's next number. */
GGAS_KERNEL(bench_card_stores_send, bench_card_stores)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	uint64_t thread = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	int error = GGAS_OK;

	for (uint64_t i = 1; i <= args.posts && error == GGAS_OK; i++)
		error = gpu_rma2_notification_put(port, peer_of(args.peer), static_cast<uint32_t>(i & 0xff),
						  thread << 40 | i);
	error = ggas_block_status(error);
	if (error == GGAS_OK && ggas_thread() == 0)
		error = gpu_rma2_drain(port);
	if (error && ggas_thread() == 0)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
