// SPDX-License-Identifier: MIT OR Apache-2.0
// verbs-bandwidth, -rate, -atomics, -latency: requests that kernels post themselves, or have the host post; thesis 5.5.4.
#include "bench.cuh"
#include "ggas/verbs.cuh"

#include "bench.h"

namespace bench_of_verbs
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* The library's default: both optimisations, and nothing left out. */
using steps = ggas_ibv_step<2>;

/* Where a request takes from and goes to. */
struct places {
	uint64_t local, remote;
};

/* A block's requests: its own, on its queue pair, or those that the host makes for it. */
class requests {
public:
	GGAS_FN requests(const bench_verbs &args, const bench_verbs_end &end) : args_(args), end_(end), asked_(0), done_(0) {}

	/* All threads call. Number `number` of the block; room is waited for. */
	GGAS_FN int post(uint64_t number, places at)
	{
		if (args_.assisted) {
			if (asked_ - done_ >= args_.depth)
				if (int error = told(asked_ - args_.depth + 1))
					return error;
			asked_++;
			if (ggas_thread() == 0)
				ggas_store_release(pointer<uint64_t>(end_.asked), asked_);
			return GGAS_OK;
		}
		ggas_ibv_send_wr wr = {};
		wr.id = number;
		wr.operation = args_.operation;
		wr.flags = GGAS_IBV_SIGNALED;
		wr.remote = at.remote;
		wr.rkey = args_.rkey;
		/* Compare and swap counts up, fetch and add adds 1. */
		wr.compare_add = args_.operation == GGAS_IBV_FETCH_ADD ? 1 : number;
		wr.swap = number + 1;
		wr.sges = 1;
		wr.sge[0] = { at.local, args_.bytes, args_.lkey };
		for (;;) {
			int error = ggas_ibv_post_send<steps>(pointer<ggas_ibv_qp>(end_.qp), wr);
			if (error != GGAS_ERR_WOULD_BLOCK || done_ == asked_) {
				asked_ += error == GGAS_OK;
				return error;
			}
			if ((error = take()))
				return error;
		}
	}

	/* Waits for all. */
	GGAS_FN int settle()
	{
		if (args_.assisted)
			return told(asked_);
		while (done_ < asked_)
			if (int error = take())
				return error;
		return GGAS_OK;
	}

private:
	GGAS_FN int take()
	{
		ggas_ibv_wc wc;
		if (int error = ggas_ibv_wait_cq<steps>(pointer<ggas_ibv_cq>(end_.cq), &wc))
			return error;
		done_++;
		return wc.status == GGAS_IBV_WC_SUCCESS ? GGAS_OK : GGAS_ERR_NOTIFICATION;
	}

	/* Waits until the host says so many. */
	GGAS_FN int told(uint64_t least)
	{
		int error = GGAS_OK;
		if (ggas_thread() == 0) {
			ggas_wait wait(args_.report, args_.timeout_ns, GGAS_WAIT_FLAG, args_.node);
			uint64_t seen;
			while ((seen = ggas_load_acquire(pointer<const uint64_t>(end_.done))) < least && !error)
				error = wait.again(pointer<const void>(end_.done), least, seen);
		}
		done_ = least;
		return ggas_block_status(error);
	}

	const bench_verbs &args_;
	const bench_verbs_end &end_;
	uint64_t asked_, done_;
};

GGAS_FN int meet(const bench_verbs &args, uint64_t round)
{
	int error = GGAS_OK;
	if (ggas_thread() == 0 && ggas_blocks() > 1) {
		auto *met = pointer<uint64_t>(args.met);
		uint64_t all = (round + 1) * ggas_blocks(), seen;
		ggas_red_add(met, uint64_t(1), ggas_order::release);
		ggas_wait wait(args.report, args.timeout_ns, GGAS_WAIT_GRID, args.node);
		while ((seen = ggas_load_acquire(met)) < all && !error)
			error = wait.again(met, all, seen);
	}
	return ggas_block_status(error);
}

GGAS_FN int rounds(const bench_verbs &args, bench_stopwatch &watch)
{
	const bench_verbs_end &end = pointer<const bench_verbs_end>(args.ends)[ggas_block()];
	requests own(args, end);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	bool writes = args.operation == GGAS_IBV_WRITE;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (int error = meet(args, 2 * i))
			return error;
		if (measures)
			watch.begin(i);
		int error = GGAS_OK;
		for (uint32_t k = 0; k < args.batch && !error; k++) {
			uint64_t at = writes ? static_cast<uint64_t>(k) * args.bytes : 0;
			error = own.post(i * args.batch + k, { end.local + (writes ? (i & 1) * args.length : 0) + at, end.remote + at });
		}
		if (error || (error = own.settle()) || (error = meet(args, 2 * i + 1)))
			return error;
		if (measures)
			watch.end(i);
	}
	return GGAS_OK;
}

/* Rounds of a write each way, whose last word says which round it is of (thesis 5.5.4). */
GGAS_FN int pingpong(const bench_verbs &args, bench_stopwatch &watch)
{
	const bench_verbs_end &end = *pointer<const bench_verbs_end>(args.ends);
	requests own(args, end);
	auto write = [&](uint64_t i) {
		uint64_t local = end.local + (i & 1) * args.length;
		if (ggas_thread() == 0)
			ggas_store_relaxed(pointer<uint64_t>(local + args.bytes) - 1, i + 1);
		return own.post(i, { local, end.remote });
	};
	auto look = [&](uint64_t i) {
		int error = GGAS_OK;
		if (ggas_thread() == 0) {
			auto *word = pointer<const uint64_t>(args.looked_at);
			ggas_wait wait(args.report, args.timeout_ns, GGAS_WAIT_FLAG, args.node);
			uint64_t seen;
			while ((seen = ggas_load_acquire(word)) < i + 1 && !error)
				error = wait.again(word, i + 1, seen);
			if (!error && seen != i + 1)
				error = GGAS_ERR_NO_MATCH;
		}
		return ggas_block_status(error);
	};
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		int error = GGAS_OK;
		if (ggas_thread() == 0)
			watch.begin(i);
		if (args.first)
			error = write(i);
		if (error || (error = look(i)))
			return error;
		if (!args.first)
			error = write(i);
		if (error || (error = own.settle()))
			return error;
		if (ggas_thread() == 0)
			watch.end(i);
	}
	return GGAS_OK;
}

} // namespace bench_of_verbs

GGAS_KERNEL_BOUND(bench_verbs_requests, bench_verbs, 512)
{
	bench_stopwatch watch(args.timing);
	int status = args.form == BENCH_VERBS_PINGPONG ? bench_of_verbs::pingpong(args, watch) :
							 bench_of_verbs::rounds(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}
