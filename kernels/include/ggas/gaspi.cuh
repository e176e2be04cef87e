/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * GASPI for kernels (thesis 4.4, 5.7): the segments and notifications that the host's calls use, on the queues of
 * queue.cuh. A kernel gets a ggas_gaspi from the host (Gaspi::gpu_context, gaspi_gpu_context).
 *
 *	__device__ int send(const ggas_gaspi *gaspi, uint32_t to)
 *	{
 *		ggas_queue queue = ggas_gaspi_queue(gaspi, ggas_block() % 8);	// in registers from here on
 *		ggas_gaspi_segment from(gaspi, queue, ggas_gaspi_rank(gaspi), 0), there(gaspi, queue, to, 0);
 *		if (int error = ggas_gaspi_write_notify(queue, from, 0, there, 4096, 512, ID, 1))
 *			return error;
 *		return ggas_queue_wait(queue);	// the source may be written again
 *	}
 *	__device__ int receive(const ggas_gaspi *gaspi)
 *	{
 *		ggas_queue queue = ggas_gaspi_queue(gaspi, 0);
 *		ggas_gaspi_segment own(gaspi, queue, ggas_gaspi_rank(gaspi), 0);
 *		uint32_t id;
 *		if (int error = ggas_gaspi_notify_waitsome(queue, own, ID, 1, &id))
 *			return error;
 *		if (ggas_thread() == 0)
 *			ggas_gaspi_notify_reset(own, id);
 *		return GGAS_OK;
 *	}
 *
 * Segments. Kernels reach those whose memory the processes of a host pass to each other: all that were made after the
 * host initialised its GPUs (on a GPU or not), but not memory that a program bound. Others are refused.
 *
 * Notifications. Who notifies need not know who waits: a kernel, or a host by gaspi_notify_waitsome. They lie where the
 * segment was told to have them. In GPU memory kernels see them soonest; in host memory hosts do.
 *
 * Who calls, order, errors: as in queue.cuh. A notification comes behind the writes of its callers on the same queue.
 * Waits are bounded by the time-out of the queues.
 */
#ifndef GGAS_GASPI_CUH
#define GGAS_GASPI_CUH

#include "queue.cuh"

/* A segment of a process, as one queue reaches it: with another it is refused, as one that kernels do not reach. Make it once and
 * keep it: looking it up costs as much as a short write. It is good until the segment is deleted. */
struct ggas_gaspi_segment {
	ggas_remote at;
	uint32_t notifications;

	GGAS_FN ggas_gaspi_segment(const ggas_gaspi *gaspi, const ggas_queue &queue, uint32_t rank, uint32_t id)
		: notifications(gaspi->notifications)
	{
		at.member = rank;
		at.queue = queue.name();
		if (!queue.good() || rank >= queue.all->members || id >= gaspi->segments)
			return;
		auto *parts = reinterpret_cast<const ggas_gaspi_part *>(gaspi->parts);
		const ggas_gaspi_part &part = parts[rank * GGAS_GASPI_SEGMENTS + id];
		at.lies(queue, part.address, part.bytes, part.address ? GGAS_WAY_STORES : GGAS_WAY_NONE);
		at.flags = part.notifications;
		at.peer = queue.peers + rank;
		at.node = at.peer->node;
		at.vpid = at.peer->vpid;
	}
};

namespace ggas_impl
{

/* The slow part of a wait: `found` and which of the notifications, or an error. By one thread. */
GGAS_COLD int gaspi_wait_long(const ggas_queues *all, const uint64_t *words, uint32_t first, uint32_t count,
			      uint32_t line)
{
	ggas_wait wait(all->report, all->timeout_ns, GGAS_WAIT_FLAG, all->member, ~0u, line);
	for (;;) {
		GGAS_NO_UNROLL
		for (uint32_t i = 0; i < count; i++)
			if (ggas_load_watched(words + first + i) != 0)
				return found + static_cast<int>(first + i);
		if (int error = wait.again(words + first, 1, 0))
			return error;
	}
}

GGAS_FN int gaspi_wait(const ggas_queues *all, const uint64_t *words, uint32_t first, uint32_t count, uint32_t line)
{
	/* Most wait for one. */
	int status = GGAS_OK;
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < quick_polls && !status; i++)
		if (ggas_load_watched(words + first) != 0)
			status = found + static_cast<int>(first);
	if (!status)
		status = gaspi_wait_long(all, words, first, count, line);
	ggas_fence_acquire();
	return status;
}

/* The queue is one, and programs may set that notification to that value. */
GGAS_FN int check_notification(const ggas_queue &queue, const ggas_gaspi_segment &to, uint32_t id, uint32_t value,
			       uint32_t line)
{
	if (!queue.good())
		return refuse_number(queue, line);
	return check_flag(queue.all, value ? to.notifications : 0, id, line);
}

} /* namespace ggas_impl */

/* A queue, to be made once and kept. */
GGAS_FN ggas_queue ggas_gaspi_queue(const ggas_gaspi *gaspi, uint32_t number)
{
	return ggas_queue(reinterpret_cast<const ggas_queues *>(gaspi->queues), number);
}

/* Rank of this process, and how many there are. */
GGAS_FN uint32_t ggas_gaspi_rank(const ggas_gaspi *gaspi)
{
	return reinterpret_cast<const ggas_queues *>(gaspi->queues)->member;
}
GGAS_FN uint32_t ggas_gaspi_ranks(const ggas_gaspi *gaspi)
{
	return reinterpret_cast<const ggas_queues *>(gaspi->queues)->members;
}

/* Copies bytes of a segment of this process to one of another. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_gaspi_write(const ggas_queue &queue, const ggas_gaspi_segment &from, uint64_t from_offset,
			     const ggas_gaspi_segment &to, uint64_t to_offset, uint64_t bytes,
			     uint32_t line = __builtin_LINE())
{
	if (!queue.good())
		return ggas_impl::refuse_number(queue, line);
	return ggas_impl::queue_write<Scope>(queue, to.at, to_offset, from.at, from_offset, bytes, line);
}

/* Sets notification `id` of a segment of another process; `value` is not 0. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_gaspi_notify(const ggas_queue &queue, const ggas_gaspi_segment &to, uint32_t id, uint32_t value,
			      uint32_t line = __builtin_LINE())
{
	if (int error = ggas_impl::check_notification(queue, to, id, value, line))
		return error;
	return ggas_impl::queue_flag<Scope>(queue, to.at, id, value, line);
}

/* A write, and a notification of the segment that it goes to behind it. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_gaspi_write_notify(const ggas_queue &queue, const ggas_gaspi_segment &from, uint64_t from_offset,
				    const ggas_gaspi_segment &to, uint64_t to_offset, uint64_t bytes, uint32_t id,
				    uint32_t value, uint32_t line = __builtin_LINE())
{
	if (int error = ggas_impl::check_notification(queue, to, id, value, line))
		return error;
	return ggas_impl::queue_write_flag<Scope>(queue, to.at, to_offset, from.at, from_offset, bytes, id, value, line);
}

/* Waits until one of `count` notifications of a segment of this process, from `first` on, is set; *which: the lowest that was
 * seen. With acquire. It stays set. */
template <ggas_scope Scope = ggas_scope::block>
GGAS_FN int ggas_gaspi_notify_waitsome(const ggas_queue &queue, const ggas_gaspi_segment &own, uint32_t first,
				       uint32_t count, uint32_t *which, uint32_t line = __builtin_LINE())
{
	using team = ggas_impl::put_team<Scope>;
	bool any = own.at.flags && own.at.member == queue.member && count && count <= own.notifications;
	if (int error = ggas_impl::check_flag(queue.all, any ? own.notifications - count + 1 : 0, first, line))
		return error;
	int found = 0;
	if (team::thread() == 0)
		found = ggas_impl::gaspi_wait(queue.all, reinterpret_cast<const uint64_t *>(own.at.flags), first, count,
					      line);
	return ggas_impl::found_by_one(team::agree(found), which);
}

/* Makes a notification of this process 0 and gives what it was, with acquire; 0 where there is none. Each thread for
 * itself: of threads that reset one at the same time one gets its value. */
GGAS_FN uint32_t ggas_gaspi_notify_reset(const ggas_gaspi_segment &own, uint32_t id)
{
	if (!own.at.flags || id >= own.notifications)
		return 0;
	auto *words = reinterpret_cast<uint64_t *>(own.at.flags);
	return static_cast<uint32_t>(ggas_atomic_exch(words + id, uint64_t(0), ggas_order::acquire));
}

#endif /* GGAS_GASPI_CUH */
