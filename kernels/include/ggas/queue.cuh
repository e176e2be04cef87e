/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Put and get by queues that the blocks of a GPU share (thesis 5.7). The GPU is the endpoint: any block of any kernel
 * posts to any queue, and any block may wait for what others posted.
 *
 *	__device__ int send(const ggas_queues *queues, const ggas_memory *boundary, uint32_t peer, uint64_t round)
 *	{
 *		ggas_queue queue(queues, ggas_block() % queues->queues);	// in registers from here on
 *		ggas_remote to(queue, boundary, peer), from(queue, boundary, queues->member);
 *		if (int error = ggas_queue_write_notify(queue, to, 0, from, 0, 4096, FLAG, round))
 *			return error;
 *		return ggas_queue_wait(queue);	// `from` may be written again
 *	}
 *	__device__ int receive(const ggas_queues *queues, uint32_t peer, uint64_t round)
 *	{
 *		return ggas_queues_wait_flag(queues, FLAG, ggas_cmp::ge, round, peer);
 *	}	// what came lies at ggas_remote(queue, boundary, queues->member).address
 *
 * Handles. `queues` is Queues::address(own), `boundary` Shared::address(own): an array of struct ggas_memory by
 * member. Each thread makes a ggas_queue and a ggas_remote once, at the start of a kernel. A ggas_remote belongs to the
 * queue that it is made with: NLAs are those of the queue's port, so other queues refuse it, on stores too. The
 * caller's own memory needs one as well, and lies at its `address` (on the host Member::pointer_of(own) of a window).
 * `bytes()` is how long it is.
 *
 * Ways. A ggas_remote says how its memory is reached (`way`): by loads and stores where these kernels have it mapped,
 * else by commands of the queue's port. The host chose (QueuesConfig::way); the calls are the same. A write by stores
 * is done when it returns. One by the network device is asynchronous: after a wait its source is the caller's again,
 * and a read's data is there.
 *
 * Who calls. Each function takes a scope, thread, warp or block; a block unless said:
 * ggas_queue_write<ggas_scope::thread>(...). All threads of a warp or block call with the same arguments, and get the
 * same result.
 *
 * Sizes. Offsets and numbers of bytes need no alignment; 0 bytes and more than one command carries (8 MiB) are fine.
 *
 * Order. A write, a flag or a notification comes behind what its callers did, or saw done, before. A flag or a
 * notification comes behind their writes to memory that is reached the same way on the same queue, and behind those of
 * other blocks that they met (a counter, a barrier). A flag by the network device comes behind stores, too; one by
 * stores does not come behind the network device. Queues, even those of one port, are not in order with each other, and
 * reads with nothing but a wait.
 *
 * Scheduling. Nothing waits for a block: posts to a queue take a place in its port's ring by one atomic, no lock (on
 * the card path turns, as all posts there do); who waits consumes the notifications that are there and credits each to
 * the member that it tells of, so it does not matter who posted. Grids of more blocks than live at once end. A kernel
 * that ends while something is under way leaves it to the next one's waits; on the card path it waits first.
 *
 * Room. A post that leaves more under way than the port's notification queue should hold consumes notifications until
 * there is room; it fails as a wait does (a time-out, GGAS_ERR_LOST), though the post was made. Queues that share a
 * port (VPIDs are short) wait for each other's operations and fail together.
 *
 * Errors. GGAS_OK; GGAS_ERR_ARGUMENT (no such queue, member, flag or range, or memory made for another queue; nothing
 * was moved); GGAS_ERR_TIMEOUT; GGAS_ERR_LOST (the other end's process is gone; of posts by the network device, and of
 * waits that need that process. Stores to it still succeed, and nobody sees them); GGAS_ERR_NOTIFICATION (an operation
 * met an error, which all later waits of the port's queues return); those of rma.cuh. The first failure fills the
 * report.
 */
#ifndef GGAS_QUEUE_CUH
#define GGAS_QUEUE_CUH

#include "put.cuh"
#include "rma.cuh"

#include "impl/queue_handle.h"
#include "impl/queue_count.h"
#include "impl/queue_wait.h"
#include "impl/queue_post.h"
#include "impl/queue_flag.h"

/* Copies `bytes` at `from_offset` of this member's memory to `to_offset` of another's. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_write(const ggas_queue &queue, const ggas_remote &to, uint64_t to_offset,
			     const ggas_remote &from, uint64_t from_offset, uint64_t bytes,
			     uint32_t line = __builtin_LINE())
{
	return ggas_impl::queue_write<Scope>(queue, to, to_offset, from, from_offset, bytes, line);
}

/* Copies `bytes` at `from_offset` of another member's memory to `to_offset` of this member's. The data is there for all
 * callers after a wait, and for other blocks that wait behind it. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_read(const ggas_queue &queue, const ggas_remote &from, uint64_t from_offset,
			    const ggas_remote &to, uint64_t to_offset, uint64_t bytes,
			    uint32_t line = __builtin_LINE())
{
	return ggas_impl::queue_read<Scope>(queue, from, from_offset, to, to_offset, bytes, line);
}

/* Sets flag `number` of the member whose memory `to` is, on the way by which that memory is reached. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_flag(const ggas_queue &queue, const ggas_remote &to, uint32_t number, uint64_t value,
			    uint32_t line = __builtin_LINE())
{
	if (int error = ggas_impl::check_flag(queue.all, queue.flag_count, number, line))
		return error;
	return ggas_impl::queue_flag<Scope>(queue, to, number, value, line);
}

/* A write, and a flag behind it. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_write_notify(const ggas_queue &queue, const ggas_remote &to, uint64_t to_offset,
				    const ggas_remote &from, uint64_t from_offset, uint64_t bytes, uint32_t number,
				    uint64_t value, uint32_t line = __builtin_LINE())
{
	if (GGAS_RARE(number >= queue.flag_count))
		return ggas_impl::refuse_flag(queue.all, queue.flag_count, number, line);
	return ggas_impl::queue_write_flag<Scope>(queue, to, to_offset, from, from_offset, bytes, number, value, line);
}

/* Waits until all that was posted to the queue before is done here, whoever posted it: sources may be written again
 * (put: requester notification), data of reads is there (get: completer notification). */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_wait(const ggas_queue &queue, uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	if (!queue.good())
		return ggas_impl::refuse_number(queue, line);
	int error = GGAS_OK;
	if (queue.state && team::thread() == 0)
		error = ggas_impl::queue_wait_one(queue, line);
	return team::agree(error);
}

/* Waits until that holds of one of the queues in `mask` (bit i: queue i); *which: of which. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queues_wait_any(const ggas_queues *queues, uint32_t mask, uint32_t *which,
				 uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	if (mask == 0)
		return ggas_impl::refuse_queue(queues->report, queues->member, ~0u, GGAS_QUEUE_REFUSED_NO_QUEUE, 0, 0,
					       line);
	if (queues->queues < GGAS_QUEUES && mask >> queues->queues)
		return ggas_impl::refuse_queue(queues->report, queues->member, ~0u, GGAS_QUEUE_REFUSED_QUEUE,
					       queues->queues, queues->queues + ggas_first(mask >> queues->queues),
					       line);
	int found = 0;
	if (team::thread() == 0)
		found = ggas_impl::queue_wait_any(queues, mask, line);
	return ggas_impl::found_by_one(team::agree(found), which);
}

/* A wait, after which the writes and flags of the queue are also performed where they belong: by stores a fence, by the
 * network device a read behind the writes, which the other node answers in order. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_quiet(const ggas_queue &queue, uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	if (!queue.good())
		return ggas_impl::refuse_number(queue, line);
	ggas_quiet();
	int error = GGAS_OK;
	if (queue.state && team::thread() == 0)
		error = ggas_impl::queue_quiet_one(queue, line);
	return team::agree(error);
}

/*
 * Flags are 0 when the queues are opened and keep their values between launches. A second launch that counts its
 * rounds from 1 again passes every wait on flags of the first: go on counting, or reset them (ggas_queues_reset_flag,
 * on the host Queues::reset_flags).
 */

/* Waits until flag `number` of this member compares; with acquire. Any block may wait, on any queue's data. `peer`: the
 * member that sets it; if its process is gone, the wait ends with GGAS_ERR_LOST. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queues_wait_flag(const ggas_queues *queues, uint32_t number, ggas_cmp cmp, uint64_t value,
				  uint32_t peer = ~0u, uint32_t line = __builtin_LINE())
{
	if (int error = ggas_impl::check_flag(queues, queues->flag_count, number, line))
		return error;
	if (peer != ~0u)
		if (int error = ggas_impl::check_member(queues, peer, line))
			return error;
	return ggas_impl::wait_flag<Scope>(queues, number, cmp, value, peer, line);
}

/* Waits until one of `count` flags from `first` on is not 0; *which: the first of them. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queues_wait_any_flag(const ggas_queues *queues, uint32_t first, uint32_t count, uint32_t *which,
				      uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	if (count == 0)
		return ggas_impl::refuse_queue(queues->report, queues->member, ~0u, GGAS_QUEUE_REFUSED_NO_FLAG, 0, 0,
					       line);
	if (first >= queues->flag_count || count > queues->flag_count - first)
		return ggas_impl::refuse_queue(queues->report, queues->member, ~0u, GGAS_QUEUE_REFUSED_FLAG,
					       queues->flag_count, first + uint64_t(count) - 1, line);
	int found = 0;
	if (team::thread() == 0)
		found = ggas_impl::wait_any_flag(queues, first, count, line);
	return ggas_impl::found_by_one(team::agree(found), which);
}

/* Looks once, with acquire, at flag `number` of this member; 0 where there is none. Each thread for itself. */
GGAS_FN uint64_t ggas_queues_flag(const ggas_queues *queues, uint32_t number)
{
	return number < queues->flag_count ? ggas_load_acquire(ggas_impl::own_flag(queues, number)) : 0;
}

/* Makes a flag of this member 0 and gives what it was, with acquire; each thread for itself. Of threads that reset a
 * flag at the same time one gets its value. */
GGAS_FN uint64_t ggas_queues_reset_flag(const ggas_queues *queues, uint32_t number)
{
	if (number >= queues->flag_count)
		return 0;
	return ggas_atomic_exch(ggas_impl::own_flag(queues, number), uint64_t(0), ggas_order::acquire);
}

/* The slower alternative to flags (thesis 5.7.5): a notification put to the member, which counts it for the queue of
 * this number there. By stores an atomic on the count, where the window has atomics. They have to be consumed, by any
 * wait there. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queue_notify(const ggas_queue &queue, const ggas_remote &to, uint32_t line = __builtin_LINE())
{
	return ggas_impl::queue_notify<Scope>(queue, to, line);
}

/* Waits until `count` notifications have come for queue `number`, since the queues were opened. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_queues_wait_notified(const ggas_queues *queues, uint32_t number, uint64_t count,
				      uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	if (number >= queues->queues)
		return ggas_impl::refuse_queue(queues->report, queues->member, ~0u, GGAS_QUEUE_REFUSED_QUEUE,
					       queues->queues, number, line);
	int error = GGAS_OK;
	if (team::thread() == 0)
		error = ggas_impl::wait_notified(queues, number, count, line);
	return team::agree(error);
}

/*
 * The names of thesis Listing 5.6. A member has two notification flags for each other member, one for odd and one for
 * even rounds: who has seen one resets it before it lets the sender go on.
 */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int gpu_write(const ggas_queue &queue, const ggas_remote &to, uint64_t to_offset, const ggas_remote &from,
		      uint64_t from_offset, uint64_t bytes, uint32_t line = __builtin_LINE())
{
	return ggas_queue_write<Scope>(queue, to, to_offset, from, from_offset, bytes, line);
}
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int notify_gpu(const ggas_queue &queue, const ggas_remote &to, uint32_t round, uint32_t line = __builtin_LINE())
{
	uint32_t number = ggas_impl::round_flag(queue.all, queue.all->member, round);
	return ggas_impl::queue_flag<Scope>(queue, to, number, 1, line);
}
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int wait_for_notification(const ggas_queues *queues, uint32_t from, uint32_t round,
				  uint32_t line = __builtin_LINE())
{
	if (int error = ggas_impl::check_member(queues, from, line))
		return error;
	uint32_t number = ggas_impl::round_flag(queues, from, round);
	return ggas_impl::wait_flag<Scope>(queues, number, ggas_cmp::ne, 0, from, line);
}
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int notify_reset(const ggas_queues *queues, uint32_t from, uint32_t round, uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	if (int error = ggas_impl::check_member(queues, from, line))
		return error;
	if (team::thread() == 0)
		ggas_store_relaxed(ggas_impl::own_flag(queues, ggas_impl::round_flag(queues, from, round)),
				   uint64_t(0));
	return GGAS_OK;
}

#endif /* GGAS_QUEUE_CUH */
