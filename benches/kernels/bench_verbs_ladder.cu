// SPDX-License-Identifier: MIT OR Apache-2.0
// verbs-ladder: the time inside post and inside poll, for each step of thesis Table 5.4, and of the RMA unit's beside it.
#include "bench.cuh"
#include "ggas/rma.cuh"
#include "ggas/verbs.cuh"

#include "bench.h"

namespace bench_of_verbs_ladder
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* What accesses are told apart by, of the block that counts. */
struct counted_places {
	uint64_t counts;	/* struct bench_verbs_counts; 0: not now */
	uint64_t begins[4], ends[4]; /* send queue, its record, completion queue, its record */
};
GGAS_FN counted_places &places()
{
	GGAS_SHARED(counted_places, room);
	return room;
}

/* Accesses of verbs, counted. */
struct counted {
	GGAS_FN static bench_verbs_counts *counts() { return pointer<bench_verbs_counts>(places().counts); }
	GGAS_FN static bool is_queue(const void *p)
	{
		uint64_t address = reinterpret_cast<uint64_t>(p);
		for (int i = 0; i < 4; i++)
			if (address - places().begins[i] < places().ends[i] - places().begins[i])
				return true;
		return false;
	}
	GGAS_FN static void read(const void *p)
	{
		if (counts())
			ggas_red_add(is_queue(p) ? &counts()->queue_reads : &counts()->table_reads, uint64_t(1),
				     ggas_order::relaxed);
	}
	GGAS_FN static void written(const void *p)
	{
		if (counts())
			ggas_red_add(is_queue(p) ? &counts()->queue_writes : &counts()->table_writes, uint64_t(1),
				     ggas_order::relaxed);
	}
	/* Whether an access is the first to a sector of 32 bytes. */
	GGAS_FN static bool opens(const void *p, bool first) { return first || reinterpret_cast<uint64_t>(p) % 32 == 0; }

	template <class T> GGAS_FN static T load(const T *p)
	{
		read(p);
		return ggas_load_relaxed(p);
	}
	template <class T> GGAS_FN static T load_acquire(const T *p)
	{
		read(p);
		return ggas_load_acquire(p);
	}
	template <class T> GGAS_FN static void store(T *p, T v)
	{
		written(p);
		ggas_store_relaxed(p, v);
	}
	template <class T> GGAS_FN static void store_release(T *p, T v)
	{
		written(p);
		ggas_store_release(p, v);
	}
	template <class T> GGAS_FN static void ring(T *p, T v)
	{
		if (counts())
			ggas_red_add(&counts()->doorbells, uint64_t(1), ggas_order::relaxed);
		ggas_store_mmio(p, v);
	}
	template <class T> GGAS_FN static T load_beside(const T *p, bool first)
	{
		if (opens(p, first))
			read(p);
		return ggas_load_relaxed(p);
	}
	template <class T> GGAS_FN static void store_beside(T *p, T v, bool first)
	{
		if (opens(p, first))
			written(p);
		ggas_store_relaxed(p, v);
	}
};

/* Waits until the next completion is there, and leaves it. All threads of the block call. */
template <class Format> GGAS_FN int see(const bench_verbs_ladder &args, const ggas_ibv_cq *cq)
{
	int error = GGAS_OK;
	if (ggas_thread() == 0) {
		constexpr uint64_t words = Format::cqe_words;
		auto *entry = pointer<const uint64_t>(cq->buffer) + (cq->consumed & (cq->entries - 1)) * words;
		ggas_wait wait(args.report, args.timeout_ns, GGAS_WAIT_COMPLETION, args.node);
		while (!Format::is_new(cq->consumed, cq->entries, ggas_load_acquire(entry + words - 1)) && !error)
			error = wait.again(entry, cq->consumed, cq->consumed);
	}
	return ggas_block_status(error);
}

/* A call, timed or counted if it is the one that is. */
template <class Call> GGAS_FN int timed(const bench_verbs_ladder &args, bench_stopwatch &watch, uint64_t i, bool is_it, Call call)
{
	bool first = is_it && ggas_thread() == 0;
	if (first) {
		places().counts = i + args.timing.count < watch.rounds() ? 0 : args.counts;
		watch.begin(i);
	}
	int result = call();
	if (first) {
		watch.end(i);
		places().counts = 0;
	}
	return result;
}

template <class Steps, ggas_scope Scope> GGAS_FN int rounds(const bench_verbs_ladder &args, bench_stopwatch &watch)
{
	auto *qp = pointer<ggas_ibv_qp>(args.qp);
	auto *cq = pointer<ggas_ibv_cq>(args.cq);
	ggas_ibv_send_wr wr = {};
	wr.operation = GGAS_IBV_WRITE;
	wr.flags = GGAS_IBV_SIGNALED;
	wr.remote = args.remote;
	wr.rkey = args.rkey;
	wr.sges = 1;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		wr.id = i;
		wr.sge[0] = { args.local + (i & 1) * args.length, args.bytes, args.lkey };
		int error = timed(args, watch, i, args.call == BENCH_VERBS_POST, [&] { return ggas_ibv_post_send<Steps, Scope>(qp, wr); });
		if (error || (error = see<typename Steps::format>(args, cq)))
			return error;
		ggas_ibv_wc wc;
		int taken = timed(args, watch, i, args.call == BENCH_VERBS_POLL, [&] { return ggas_ibv_poll_cq<Steps, Scope>(cq, &wc); });
		if (!taken || wc.status != GGAS_IBV_WC_SUCCESS || (Steps::handles && wc.id != i))
			return GGAS_ERR_NOTIFICATION;
	}
	return GGAS_OK;
}

template <ggas_scope Scope, class Memory> GGAS_FN int steps(const bench_verbs_ladder &args, bench_stopwatch &watch)
{
	using mlx4 = ggas_ibv_mlx4;
	using mlx5 = ggas_ibv_mlx5;
	/* Of mlx5 what the library offers by default, and what is left when all is left out. */
	if (args.format == GGAS_IBV_MLX5)
		return args.step == 5 ? rounds<ggas_ibv_step<5, mlx5, Memory>, Scope>(args, watch) :
		       args.step == 4 ? rounds<ggas_ibv_step<4, mlx5, Memory>, Scope>(args, watch) :
					rounds<ggas_ibv_step<2, mlx5, Memory>, Scope>(args, watch);
	switch (args.step) {
	case 0:
		return rounds<ggas_ibv_step<0, mlx4, Memory>, Scope>(args, watch);
	case 1:
		return rounds<ggas_ibv_step<1, mlx4, Memory>, Scope>(args, watch);
	case 2:
		return rounds<ggas_ibv_step<2, mlx4, Memory>, Scope>(args, watch);
	case 3:
		return rounds<ggas_ibv_step<3, mlx4, Memory>, Scope>(args, watch);
	case 4:
		return rounds<ggas_ibv_step<4, mlx4, Memory>, Scope>(args, watch);
	case 5:
		return rounds<ggas_ibv_step<5, mlx4, Memory>, Scope>(args, watch);
	default:
		return GGAS_ERR_ARGUMENT;
	}
}

/* Sets up what the block counts by. */
GGAS_FN void count_by(const bench_verbs_ladder &args)
{
	if (ggas_thread() == 0) {
		auto *qp = pointer<const ggas_ibv_qp>(args.qp);
		auto *cq = pointer<const ggas_ibv_cq>(args.cq);
		counted_places &all = places();
		all.counts = 0;
		auto range = [&](int i, uint64_t begin, uint64_t bytes) {
			all.begins[i] = begin;
			all.ends[i] = begin + bytes;
		};
		range(0, qp->send.buffer, static_cast<uint64_t>(qp->send.entries) * qp->send.stride);
		range(1, qp->send.record, 4);
		range(2, cq->buffer, static_cast<uint64_t>(cq->entries) * (args.format == GGAS_IBV_MLX5 ? 64 : 32));
		range(3, cq->record, 4);
	}
	ggas_syncthreads();
}

/* One thread: puts whose requester notification is seen, left, and then taken. */
GGAS_FN int rma_rounds(const bench_rma_calls &args, bench_stopwatch &watch)
{
	auto *port = pointer<ggas_port>(args.port);
	gpu_rma2_peer to = { args.peer.node, args.peer.vpid };
	bool posts = args.call == BENCH_VERBS_POST;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		uint64_t local = args.source[i & 1];
		if (posts)
			watch.begin(i);
		int error = gpu_rma2_put(port, to, local, args.peer.target, args.bytes, EXTOLL_SPEC_REQUESTER);
		if (posts)
			watch.end(i);
		extoll_noti noti;
		ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_NOTIFICATION, port->node);
		while (!error && !gpu_rma2_noti_probe(port, &noti))
			error = wait.again(pointer<const void>(port->queue), 1, 0);
		if (error)
			return error;
		if (!posts)
			watch.begin(i);
		error = gpu_rma2_noti_take(port, &noti);
		if (!posts)
			watch.end(i);
		if (error)
			return error;
	}
	return GGAS_OK;
}

} // namespace bench_of_verbs_ladder

GGAS_KERNEL_BOUND(bench_verbs_calls, bench_verbs_ladder, 512)
{
	using namespace bench_of_verbs_ladder;
	using plain = ggas_impl::ibv_memory;
	bench_stopwatch watch(args.timing);
	/* A block is as large as the team that calls. */
	int status = ggas_threads() == 1	      ? steps<ggas_scope::thread, plain>(args, watch) :
		     ggas_threads() <= GGAS_WARP_SIZE ? steps<ggas_scope::warp, plain>(args, watch) :
							steps<ggas_scope::block, plain>(args, watch);
	if (ggas_thread() == 0)
		watch.stop(status);
}

/* The same with counts; a warp's are those of a block. */
GGAS_KERNEL_BOUND(bench_verbs_counted, bench_verbs_ladder, 512)
{
	using namespace bench_of_verbs_ladder;
	bench_stopwatch watch(args.timing);
	count_by(args);
	int status = ggas_threads() == 1 ? steps<ggas_scope::thread, counted>(args, watch) :
					   steps<ggas_scope::block, counted>(args, watch);
	if (ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL_BOUND(bench_rma_post_poll, bench_rma_calls, 32)
{
	bench_stopwatch watch(args.timing);
	if (ggas_thread() == 0)
		watch.stop(bench_of_verbs_ladder::rma_rounds(args, watch));
}
