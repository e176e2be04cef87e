// SPDX-License-Identifier: MIT OR Apache-2.0
// queues: what a post to a queue costs over the bare put below it, and what many blocks post by few and many queues.
#include "bench.cuh"
#include "ggas/queue.cuh"

#include "bench.h"

namespace bench_of_queues
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* What writes need, in registers. */
struct ends {
	ggas_queue queue;
	ggas_remote to, from;

	GGAS_FN ends(const bench_queues &args, uint32_t number)
		: queue(pointer<const ggas_queues>(args.queues), number),
		  to(queue, pointer<const ggas_memory>(args.memory), 1),
		  from(queue, pointer<const ggas_memory>(args.memory), 0)
	{
	}
};

/* Nothing is under way, and all was performed; also what was not posted by the queue, but before on its connection. */
GGAS_FN int settle(const ends &by)
{
	if (int error = ggas_queue_flag(by.queue, by.to, 0, 1))
		return error;
	return ggas_queue_quiet(by.queue);
}

/* The thread that measures posts one write a round; what tells that it was done is waited for between rounds. */
GGAS_FN int one_post(const bench_queues &args, bench_stopwatch &watch)
{
	ends by(args, 0);
	ggas_window window = {};
	if (args.form == BENCH_QUEUES_BARE_SIGNAL)
		window = *pointer<const ggas_window>(args.window);
	uint64_t arrival = 2 * args.length;
	auto posts = [&](const auto &post, const auto &done) {
		int error = GGAS_OK;
		for (uint64_t i = 0; i < watch.rounds() && !error; i++) {
			uint64_t source = (i & 1) * args.length;
			watch.begin(i);
			error = post(source, i);
			watch.end(i);
			if (!error)
				error = done();
		}
		return error;
	};
	auto nothing = [] { return GGAS_OK; };
	int error = GGAS_OK;
	if (ggas_thread() == 0) {
		switch (args.form) {
		case BENCH_QUEUES_BARE_PUT:
			error = posts(
				[&](uint64_t source, uint64_t) {
					gpu_rma2_peer peer = { by.to.node, by.to.vpid };
					return gpu_rma2_put(by.queue.port, peer, by.from.nla + source, by.to.nla + arrival,
							    static_cast<uint32_t>(args.bytes), EXTOLL_SPEC_REQUESTER);
				},
				[&] {
					extoll_noti noti;
					return gpu_rma2_noti_take(by.queue.port, &noti);
				});
			break;
		case BENCH_QUEUES_PUT:
			error = posts(
				[&](uint64_t source, uint64_t) {
					return ggas_queue_write<ggas_scope::thread>(by.queue, by.to, arrival, by.from, source,
										    args.bytes);
				},
				[&] { return ggas_queue_wait<ggas_scope::thread>(by.queue); });
			break;
		case BENCH_QUEUES_BARE_SIGNAL:
			error = posts(
				[&](uint64_t source, uint64_t i) {
					auto *from = pointer<const void>(window.local + source);
					return ggas_put_signal_thread(&window, 1, arrival, from, args.bytes,
								      args.signal, i + 1);
				},
				nothing);
			break;
		default:
			error = posts(
				[&](uint64_t source, uint64_t i) {
					return ggas_queue_write_notify<ggas_scope::thread>(
						by.queue, by.to, arrival, by.from, source, args.bytes, 0, i + 1);
				},
				nothing);
		}
	}
	if ((error = ggas_block_status(error)))
		return error;
	return settle(by);
}

GGAS_FN int meet(const bench_queues &args, uint64_t round)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	auto *met = pointer<uint64_t>(args.met);
	int error = GGAS_OK;
	if (ggas_thread() == 0) {
		uint64_t all = (round + 1) * ggas_blocks(), seen;
		ggas_red_add(met, uint64_t(1), ggas_order::release);
		ggas_wait wait(queues->report, queues->timeout_ns, GGAS_WAIT_GRID, queues->member);
		while ((seen = ggas_load_acquire(met)) < all && !error)
			error = wait.again(met, all, seen);
	}
	return ggas_block_status(error);
}

/* Blocks take the queues in turn, and each waits for its own. */
GGAS_FN int all_blocks(const bench_queues &args, bench_stopwatch &watch)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	ends by(args, ggas_block() % queues->queues);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	uint64_t own = static_cast<uint64_t>(ggas_block()) * args.batch * args.bytes;
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		if (int error = meet(args, 2 * i))
			return error;
		if (measures)
			watch.begin(i);
		for (uint32_t k = 0; k < args.batch; k++) {
			uint64_t at = own + k * args.bytes;
			if (int error = ggas_queue_write(by.queue, by.to, 2 * args.length + at, by.from,
							 (i & 1) * args.length + at, args.bytes))
				return error;
		}
		/* Stores are performed, too, as writes by the network device have left. */
		int error = by.to.way == GGAS_WAY_STORES ? ggas_queue_quiet(by.queue) : ggas_queue_wait(by.queue);
		if (error || (error = meet(args, 2 * i + 1)))
			return error;
		if (measures)
			watch.end(i);
	}
	return settle(by);
}

} // namespace bench_of_queues

GGAS_KERNEL_BOUND(bench_queues_post, bench_queues, 32)
{
	bench_stopwatch watch(args.timing);
	int status = bench_of_queues::one_post(args, watch);
	if (ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL_BOUND(bench_queues_rate, bench_queues, 512)
{
	bench_stopwatch watch(args.timing);
	int status = bench_of_queues::all_blocks(args, watch);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}
