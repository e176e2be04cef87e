// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks queue.cuh between members in a ring: each sends to the next one and receives from the one before.
#include "ggas/queue.cuh"

#include "selftest.h"
#include "selftest_queue_bad.cuh"

namespace queue_checks
{

GGAS_FN uint8_t value(uint32_t member, uint32_t round, uint32_t lane, uint64_t i)
{
	return static_cast<uint8_t>((i + 1) * 167 ^ round * 29 ^ lane * 53 ^ member * 101 ^ i >> 8);
}

/* What a thread, warp or block does on its own, or as one of the blocks that the last one ends for. */
template <ggas_scope Scope> class lane {
	using team = ggas_impl::put_team<Scope>;

public:
	/* `number`: in all grids. */
	GGAS_FN lane(const selftest_queue &args, uint32_t number)
		: args_(args), queues_(pointer<const ggas_queues>(args.queues)), number_(number),
		  self_(queues_->member), next_((self_ + 1) % queues_->members),
		  before_((self_ + queues_->members - 1) % queues_->members), queue_(queues_, number % queues_->queues),
		  to_(queue_, memory(), next_), own_(queue_, memory(), self_), from_(queue_, memory(), before_)
	{
	}

	GGAS_FN int exchange()
	{
		uint32_t done = args_.lanes + number_;	/* flag: the receiver has read */
		/* All have as much, also where what goes to others is counted. */
		if (team::thread() == 0 && (to_.bytes() != own_.bytes() || from_.bytes() != own_.bytes()))
			ggas_red_add(pointer<uint64_t>(args_.wrong), uint64_t(1), ggas_order::relaxed);
		for (uint32_t round = args_.first; round < args_.first + args_.rounds; round++) {
			fill(round);
			int error = ggas_queue_write_notify<Scope>(queue_, to_, arrival(number_), own_, source(number_),
								   args_.bytes, number_, round + 1);
			if (error || (error = wait_flag(number_, round + 1, before_)))
				return error;
			check(arrival(number_), before_, round, number_, team::thread(), team::threads());
			/* All have read before the sender may go on. */
			if ((error = team::agree(GGAS_OK)) ||
			    (error = ggas_queue_flag<Scope>(queue_, from_, done, round + 1)) ||
			    (error = wait_flag(done, round + 1, next_)) || (error = ggas_queue_wait<Scope>(queue_)))
				return error;
		}
		return GGAS_OK;
	}

	/* Nobody waits for a block: the last one does what is left. One round. */
	GGAS_FN int last_of_all()
	{
		uint32_t round = args_.first;
		if (number_ >= args_.lanes)
			return stand_by();
		/* What others read was there before the kernels began. */
		if (args_.form != SELFTEST_QUEUE_READ)
			fill(round);
		if (int error = post(round))
			return error;
		if (!is_last())
			return GGAS_OK;
		if (int error = wait_for_all())
			return error;
		return end(round);
	}

private:
	/* Consumes what others posted, and has nothing to do with them. */
	GGAS_FN int stand_by()
	{
		int error = GGAS_OK;
		for (uint32_t i = 0; i < 20 && !error; i++)
			error = ggas_queue_wait<Scope>(queue_);
		return error;
	}

	GGAS_FN const ggas_memory *memory() const { return pointer<const ggas_memory>(args_.memory); }
	GGAS_FN uint64_t source(uint32_t lane) const { return lane * args_.each; }
	GGAS_FN uint64_t arrival(uint32_t lane) const { return (args_.lanes + lane) * args_.each; }
	GGAS_FN uint8_t *own(uint64_t offset) const { return pointer<uint8_t>(own_.address + offset); }

	GGAS_FN void fill(uint32_t round)
	{
		for (uint64_t i = team::thread(); i < args_.bytes; i += team::threads())
			own(source(number_))[i] = value(self_, round, number_, i);
	}

	GGAS_FN int wait_flag(uint32_t number, uint64_t at_least, uint32_t peer) const
	{
		return ggas_queues_wait_flag<Scope>(queues_, number, ggas_cmp::ge, at_least, peer);
	}

	GGAS_FN void check(uint64_t offset, uint32_t member, uint32_t round, uint32_t of, uint32_t thread,
			   uint32_t threads)
	{
		const uint8_t *seen = own(offset);
		uint64_t wrong = 0;
		for (uint64_t i = thread; i < args_.bytes; i += threads)
			wrong += seen[i] != value(member, round, of, i);
		if (wrong)
			ggas_red_add(pointer<uint64_t>(args_.wrong), wrong, ggas_order::relaxed);
	}

	GGAS_FN int post(uint32_t round)
	{
		if (args_.form == SELFTEST_QUEUE_READ)
			return ggas_queue_read<Scope>(queue_, from_, source(number_), own_, arrival(number_),
						      args_.bytes);
		int error = ggas_queue_write<Scope>(queue_, to_, arrival(number_), own_, source(number_), args_.bytes);
		if (!error && args_.form == SELFTEST_QUEUE_NOTIFY)
			error = ggas_queue_notify<Scope>(queue_, to_);
		if (!error && args_.form == SELFTEST_QUEUE_QUIET) {
			/* By stores: nothing but the quiet puts this flag behind the data. */
			ggas_remote other(queue_, pointer<const ggas_memory>(args_.other), next_);
			if (!(error = ggas_queue_quiet<Scope>(queue_)))
				error = ggas_queue_flag<Scope>(queue_, other, number_, round + 1);
		}
		return error;
	}

	/* All blocks of this launch and of those beside it count; what they did is seen by the last one. */
	GGAS_FN bool is_last()
	{
		team::meet();
		int last = 0;
		if (team::thread() == 0)
			last = ggas_atomic_add(pointer<uint64_t>(args_.counters), 1u, ggas_order::release_acquire) + 1 ==
			       args_.lanes;
		return team::agree(last) != 0;
	}

	/* By whatever call: the counts are those of the blocks that posted. */
	GGAS_FN int wait_for_all()
	{
		uint32_t left = queues_->queues < 32 ? (1u << queues_->queues) - 1 : ~0u;
		if (args_.first % 2 == 0) {
			for (uint32_t i = 0; i < queues_->queues; i++)
				if (int error = ggas_queue_wait<Scope>(ggas_queue(queues_, i)))
					return error;
			return GGAS_OK;
		}
		while (left) {
			uint32_t which = 0;
			if (int error = ggas_queues_wait_any<Scope>(queues_, left, &which))
				return error;
			left &= ~(1u << which);
		}
		return GGAS_OK;
	}

	GGAS_FN int end(uint32_t round)
	{
		if (team::thread() == 0)
			ggas_store_relaxed(pointer<uint64_t>(args_.counters), uint64_t(0));
		if (args_.form == SELFTEST_QUEUE_READ) {
			check_all(round);
			return team::agree(GGAS_OK);
		}
		/* What was waited for may be overwritten. */
		for (uint64_t i = team::thread(); i < args_.lanes * args_.each; i += team::threads())
			own(0)[i] = 0xee;
		int error = GGAS_OK;
		if (args_.form == SELFTEST_QUEUE_NOTIFY)
			error = notified(round);
		else if (args_.form == SELFTEST_QUEUE_QUIET)
			for (uint32_t i = 0; i < args_.lanes && !error; i++)
				error = wait_flag(i, round + 1, before_);
		else
			error = by_notification_flags(round);
		if (error)
			return error;
		check_all(round);
		return team::agree(GGAS_OK);
	}

	GGAS_FN int notified(uint32_t round)
	{
		for (uint32_t i = 0; i < queues_->queues; i++) {
			uint64_t posts = args_.lanes / queues_->queues + (i < args_.lanes % queues_->queues);
			if (int error = ggas_queues_wait_notified<Scope>(queues_, i, posts * (round + 1)))
				return error;
		}
		return GGAS_OK;
	}

	/* As in thesis Listing 5.6, behind the writes of each queue. */
	GGAS_FN int by_notification_flags(uint32_t round)
	{
		/* Of each queue a flag behind its data, then one for all. */
		for (uint32_t i = 0; i < queues_->queues; i++) {
			ggas_queue queue(queues_, i);
			ggas_remote to(queue, memory(), next_);
			if (int error = ggas_queue_flag<Scope>(queue, to, i, round + 1))
				return error;
		}
		for (uint32_t i = 0; i < queues_->queues; i++)
			if (int error = wait_flag(i, round + 1, before_))
				return error;
		if (int error = notify_gpu<Scope>(queue_, to_, round))
			return error;
		if (int error = wait_for_notification<Scope>(queues_, before_, round))
			return error;
		return notify_reset<Scope>(queues_, before_, round);
	}

	GGAS_FN void check_all(uint32_t round)
	{
		for (uint32_t i = 0; i < args_.lanes; i++)
			check(arrival(i), before_, round, i, team::thread(), team::threads());
	}

	const selftest_queue &args_;
	const ggas_queues *queues_;
	uint32_t number_, self_, next_, before_;
	ggas_queue queue_;
	ggas_remote to_, own_, from_;
};

/* A barrier of the grid: its blocks must live at once. */
GGAS_FN int meet(const selftest_queue &args)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	auto *came = pointer<uint64_t>(args.counters);
	int error = GGAS_OK;
	if (ggas_thread() == 0) {
		ggas_red_add(came, uint64_t(1), ggas_order::release);
		ggas_wait wait(queues->report, queues->timeout_ns, GGAS_WAIT_GRID, queues->member);
		uint64_t seen;
		while ((seen = ggas_load_acquire(came)) < args.lanes && !error)
			error = wait.again(came, args.lanes, seen);
	}
	return ggas_block_status(error);
}

GGAS_FN int await(const selftest_queue &args)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	return ggas_queues_wait_flag(queues, queues->member == 0 ? 0 : args.lane, ggas_cmp::ge, args.first,
				     (queues->member + 1) % queues->members);
}

GGAS_FN int run(const selftest_queue &args)
{
	if (args.form == SELFTEST_QUEUE_REFUSE)
		return refuse(args);
	if (args.form == SELFTEST_QUEUE_MEET)
		return meet(args);
	if (args.form == SELFTEST_QUEUE_NO_ROOM)
		return no_room(args);
	if (args.form == SELFTEST_QUEUE_TO_LOST)
		return to_lost(args);
	if (args.form == SELFTEST_QUEUE_REFUSING)
		return refusing(args);
	if (args.form == SELFTEST_QUEUE_AT_ONCE)
		return at_once(args);
	if (args.form == SELFTEST_QUEUE_AWAIT)
		return await(args);
	if (args.form != SELFTEST_QUEUE_EXCHANGE)
		return lane<ggas_scope::block>(args, args.lane + ggas_block()).last_of_all();
	switch (args.scope) {
	case SELFTEST_PUT_THREAD:
		return lane<ggas_scope::thread>(args, args.lane + ggas_block() * ggas_threads() + ggas_thread())
			.exchange();
	case SELFTEST_PUT_WARP:
		return lane<ggas_scope::warp>(args, args.lane + ggas_block() * ggas_warps() + ggas_warp()).exchange();
	default:
		return lane<ggas_scope::block>(args, args.lane + ggas_block()).exchange();
	}
}

} // namespace queue_checks

GGAS_KERNEL_BOUND(ggas_selftest_queue, selftest_queue, 256)
{
	if (int error = queue_checks::run(args))
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
