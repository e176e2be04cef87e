// SPDX-License-Identifier: MIT OR Apache-2.0
// tn: triggered puts, the same puts without triggers, and by kernels that begin when others have ended.
#include "bench.cuh"
#include "ggas/tn.cuh"

#include "bench.h"

namespace bench_tns
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

template <ggas_scope Scope> GGAS_FN int put(const bench_tn &args, const ggas_window &window, uint64_t round)
{
	return ggas_impl::put_signal<Scope>(&window, args.peer, args.arrival[round & 1],
					    pointer<const void>(args.source[round & 1]), args.bytes, args.signal, 1,
					    ggas_signal::add, __LINE__);
}

template <ggas_scope Scope> GGAS_FN int wait(const bench_tn &args, const ggas_window &window, uint64_t value)
{
	return ggas_impl::wait_word<Scope>(&window, args.signal, ggas_cmp::ge, value, args.peer, __LINE__);
}

template <ggas_scope Scope>
GGAS_FN int send(const bench_tn &args, const ggas_window &window, const ggas_triggers &triggers,
		 ggas_tn_prepared &prepared, uint64_t round)
{
	using team = ggas_impl::put_team<Scope>;
	if (args.form == BENCH_TN_SIGNAL)
		return put<Scope>(args, window, round);
	bool ahead = args.form == BENCH_TN_PREPARED;
	int error = ahead ? ggas_impl::tn_trigger_prepared<Scope>(triggers, prepared, __LINE__) :
			    ggas_impl::tn_trigger<Scope>(triggers, round & 1, 0, 0, __LINE__);
	/* For the round after the next; the data are on their way. */
	if (!error && team::thread() == 0)
		ggas_tn_rearm_thread(triggers, round & 1);
	if (!error && ahead)
		prepared = ggas_impl::tn_prepare<Scope>(triggers, (round + 1) & 1);
	return error;
}

template <ggas_scope Scope> GGAS_FN int rounds(const bench_tn &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	ggas_triggers triggers(pointer<ggas_tn>(args.tn));
	ggas_tn_prepared prepared = ggas_impl::tn_prepare<Scope>(triggers, 0);
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		int error = GGAS_OK;
		if (ggas_thread() == 0)
			watch.begin(i);
		if (args.first)
			error = send<Scope>(args, window, triggers, prepared, i);
		int late = wait<Scope>(args, window, i + 1);
		error = error ? error : late;
		if (!args.first && !error)
			error = send<Scope>(args, window, triggers, prepared, i);
		if (error)
			return error;
		if (ggas_thread() == 0)
			watch.end(i);
	}
	return GGAS_OK;
}

/* A kernel's only round; kernels of a node run one after the other. */
GGAS_FN int step(const bench_tn &args)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	uint64_t *count = pointer<uint64_t>(args.counts) + (args.form == BENCH_TN_WAIT), round = *count;
	ggas_syncthreads();
	int error = args.form == BENCH_TN_WAIT ? wait<ggas_scope::block>(args, window, round + 1) :
						 put<ggas_scope::block>(args, window, round);
	if (ggas_thread() == 0)
		*count = round + 1;
	return error;
}

} /* namespace bench_tns */

GGAS_KERNEL_BOUND(bench_tn_rounds, bench_tn, 512)
{
	bench_stopwatch watch(args.timing);
	int status;
	if (args.scope == BENCH_PUT_THREAD)
		status = bench_tns::rounds<ggas_scope::thread>(args, watch);
	else if (args.scope == BENCH_PUT_WARP)
		status = bench_tns::rounds<ggas_scope::warp>(args, watch);
	else
		status = bench_tns::rounds<ggas_scope::block>(args, watch);
	if (ggas_thread() == 0)
		watch.stop(status);
}

GGAS_KERNEL_BOUND(bench_tn_step, bench_tn, 512)
{
	int error = bench_tns::step(args);
	if (error && ggas_thread() == 0)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}

namespace bench_tns
{

/* Offsets in the sender's part: the round that the receiver has looked at, and the last one whose words may be written. */
constexpr uint64_t litmus_seen = 128, litmus_go = 192;

/* A trigger as it would be without its release and without the acquire of who sends. */
GGAS_FN int weak_trigger(ggas_tn *tn)
{
	ggas_triggers triggers(tn);
	ggas_tn_entry *entry = triggers.entry(0);
	uint64_t old = 0;
	ggas_syncthreads();
	if (ggas_thread() == 0)
		old = ggas_atomic_add(&entry->count, 1u, ggas_order::relaxed);
	old = ggas_impl::tn_share<ggas_scope::block>(old);
	if (ggas_impl::tn_counted(old) + 1 != ggas_impl::tn_threshold(old))
		return GGAS_OK;
	return ggas_impl::tn_start<ggas_scope::block>(
		triggers, ggas_impl::tn_operation(ggas_impl::tn_words(entry)), GGAS_OK);
}

/* Block 0 reads the old words, so that the cache of its multiprocessor has them, lets the others write, and waits until it
 * is the last to trigger. No wait of it is an acquire: that would empty the cache. */
GGAS_FN int read_before(const bench_litmus_trigger &args, const ggas_window &window, uint64_t round)
{
	const uint64_t *data = pointer<const uint64_t>(args.data);
	bool differs = false;
	for (uint64_t i = ggas_thread(); i < args.words; i += ggas_threads())
		differs |= ggas_load_near(data + i) != round - 1;
	/* They are loaded where somebody needs their values. */
	ggas_syncthreads_or(differs);
	int error = GGAS_OK;
	if (ggas_thread() == 0) {
		ggas_red_add(pointer<uint64_t>(window.local + litmus_go), 1u,
			     args.build == BENCH_LITMUS_WEAK ? ggas_order::relaxed : ggas_order::release);
		const uint64_t *count = &ggas_triggers(pointer<ggas_tn>(args.tn)).entry(0)->count;
		ggas_wait others(window.report, window.timeout_ns, GGAS_WAIT_FLAG, window.node);
		uint64_t seen;
		while (ggas_impl::tn_counted(seen = ggas_load_watched_gpu(count)) + 1 < ggas_blocks() && !error)
			error = others.again(count, ggas_blocks() - 1, seen);
	}
	return ggas_block_status(error);
}

/* Blocks that have words write them. */
GGAS_FN int write(const bench_litmus_trigger &args, const ggas_window &window, uint64_t round)
{
	uint64_t writers = ggas_blocks(), writer = ggas_block();
	if (args.form == BENCH_LITMUS_TRIGGER_READER) {
		if (writer == 0)
			return read_before(args, window, round);
		if (int error = ggas_wait_block(&window, litmus_go, ggas_cmp::ge, round))
			return error;
		writers--;
		writer--;
	}
	uint64_t *data = pointer<uint64_t>(args.data);
	if (args.form == BENCH_LITMUS_TRIGGER_STORES)
		data = ggas_pointer_of_node<uint64_t>(&window, 1 - window.node, BENCH_LITMUS_TRIGGER_DATA);
	for (uint64_t i = writer * ggas_threads() + ggas_thread(); i < args.words; i += writers * ggas_threads())
		data[i] = round;
	return GGAS_OK;
}

/* All blocks of the sender. */
GGAS_FN int written(const bench_litmus_trigger &args, const ggas_window &window, uint64_t round)
{
	ggas_tn *tn = pointer<ggas_tn>(args.tn);
	int error = write(args, window, round);
	if (!error)
		error = args.build == BENCH_LITMUS_WEAK ? weak_trigger(tn) : ggas_tn_trigger_block(tn, 0);
	if (!error)
		error = ggas_wait_block(&window, litmus_seen, ggas_cmp::ge, round);
	/* Others may trigger the next one before: then that is sent here. */
	if (!error && ggas_block() == 0 && ggas_thread() == 0)
		error = ggas_tn_rearm_thread(tn, 0);
	return ggas_block_status(error);
}

/* One block of the receiver. */
GGAS_FN int looked(const bench_litmus_trigger &args, const ggas_window &window, uint64_t round, uint64_t *forbidden)
{
	int error = ggas_wait_block(&window, BENCH_LITMUS_TRIGGER_SIGNAL, ggas_cmp::ge, round);
	const uint64_t *data = pointer<const uint64_t>(window.local + BENCH_LITMUS_TRIGGER_DATA);
	for (uint64_t i = ggas_thread(); i < args.words; i += ggas_threads())
		*forbidden += ggas_load_relaxed(data + i) != round;
	ggas_syncthreads();
	if (!error && ggas_thread() == 0)
		error = ggas_store<uint64_t>(&window, 1 - window.node, litmus_seen, round,
					     ggas_order::release);
	return ggas_block_status(error);
}

} /* namespace bench_tns */

GGAS_KERNEL_BOUND(bench_litmus_trigger_rounds, bench_litmus_trigger, 512)
{
	bench_stopwatch watch(args.timing);
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;
	uint64_t forbidden = 0;
	int status = GGAS_OK;
	for (uint64_t i = 0; i < watch.rounds() && !status; i++) {
		if (measures)
			watch.begin(i);
		status = args.first ? bench_tns::written(args, window, i + 1) :
				      bench_tns::looked(args, window, i + 1, &forbidden);
		if (measures && !status)
			watch.end(i);
	}
	if (forbidden)
		ggas_red_add(reinterpret_cast<uint64_t *>(args.forbidden), forbidden, ggas_order::relaxed);
	if (measures)
		watch.stop(status);
}
