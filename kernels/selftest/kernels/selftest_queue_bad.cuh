// SPDX-License-Identifier: MIT OR Apache-2.0
// What queues refuse, and posts and waits where a member is gone or there is no room; included by selftest_queue.cu.
#ifndef SELFTEST_QUEUE_BAD_CUH
#define SELFTEST_QUEUE_BAD_CUH

namespace queue_checks
{

template <class T> GGAS_FN T *pointer(uint64_t address)
{
	return reinterpret_cast<T *>(address);
}

/* What there is not. */
GGAS_FN int refuse(const selftest_queue &args)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	auto *memory = pointer<const ggas_memory>(args.memory);
	uint32_t self = queues->member, next = (self + 1) % queues->members, which = 0;
	ggas_queue queue(queues, 0), none(queues, queues->queues);
	ggas_remote to(queue, memory, next), own(queue, memory, self), nobody(queue, memory, queues->members);
	/* No port knows of it. */
	ggas_remote stored = args.other ? ggas_remote(queue, pointer<const ggas_memory>(args.other), self) : own;
	ggas_queue another(queues, 1);
	ggas_remote other_to(another, memory, next), other_own(another, memory, self);
	switch (args.first) {
	case 0:
		return ggas_queue_write(none, ggas_remote(none, memory, next), 0, ggas_remote(none, memory, self), 0, 8);
	case 1:
		return ggas_queue_write(queue, nobody, 0, own, 0, 8);
	case 2:
		return ggas_queue_write_notify(queue, to, 0, own, 0, 8, queues->flag_count, 1);
	case 3:
		return ggas_queue_write(queue, to, to.bytes() - 7, own, 0, 8);
	case 4:
		return ggas_queue_read(queue, to, 0, own, ~uint64_t(0) - 3, 8);
	case 5:
		return ggas_queue_write(queue, own, 0, to, 0, 8);
	case 6:
		return ggas_queues_wait_any(queues, queues->queues < 32 ? 1u << queues->queues : 0, &which);
	case 7:
		return ggas_queue_wait(none);
	case 8:
		return wait_for_notification(queues, queues->members, 0);
	case 9:
		return ggas_queues_wait_any_flag(queues, 0, 0, &which);
	case 10:
		return ggas_queues_wait_any(queues, 0, &which);
	case 11:
		return ggas_queues_wait_any_flag(queues, 2, ~0u, &which);
	case 12:
		return ggas_queues_wait_flag(queues, 0, ggas_cmp::eq, 0, queues->members);
	case 13:
		return ggas_queue_write(queue, other_to, 0, own, 0, 8);
	case 14:
		return ggas_queue_write_notify(queue, to, 0, other_own, 0, 8, 0, 1);
	case 15:
		return ggas_queue_read(queue, other_to, 0, other_own, 0, 8);
	case 16:
		return ggas_queue_flag(queue, other_to, 0, 1);
	case 17:
		return ggas_queue_notify(queue, other_to);
	case 19:
		return ggas_queue_write(queue, to, 0, stored, 0, 8);
	case 20:
		return ggas_queue_read(queue, to, 0, stored, 0, 8);
	case 21:
		return ggas_queue_write(queue, to, 0, stored, 0, 0);
	case 22:
		return ggas_queue_write(queue, to, 0, own, 0, 8);
	case 23:
		return ggas_queue_read(queue, to, 0, own, 0, 8);
	case 24:
		return ggas_queue_write_notify(queue, to, 0, own, 0, 0, 0, 1);
	case 25:
		return ggas_queue_flag(queue, to, 0, 1);
	case 26:
		return ggas_queue_notify(queue, to);
	default:
		break;
	}
	/* As if this member had queues twice. */
	ggas_queues copy = *queues;
	return ggas_queue_write(queue, ggas_remote(ggas_queue(&copy, 0), memory, next), 0, own, 0, 8);
}

/* As after posts to the next member, whose process then is gone: one more than leaves room for a post that ends. */
GGAS_FN int no_room(const selftest_queue &args)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	ggas_queue queue(queues, 0);
	ggas_queue_peer *peer = queue.peers + (queue.member + 1) % queues->members;
	uint64_t posts = queue.limit + 1;
	if (ggas_thread() == 0) {
		ggas_red_add(&queue.state->posted, posts, ggas_order::relaxed);
		ggas_red_add(&peer->posted[GGAS_QUEUE_PUTS], posts, ggas_order::relaxed);
		ggas_store_relaxed(&peer->lost, 1u);
		ggas_store_relaxed(&queue.state->lost, 1u);
	}
	ggas_remote own(queue, pointer<const ggas_memory>(args.memory), queue.member);
	return ggas_queue_write(queue, own, 0, own, 8, 8);
}

/* Many posts to the next member, whose process is gone; then one to this member, which ends, and a wait. */
GGAS_FN int to_lost(const selftest_queue &args)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	auto *memory = pointer<const ggas_memory>(args.memory);
	ggas_queue queue(queues, 0);
	uint32_t next = (queue.member + 1) % queues->members;
	ggas_remote own(queue, memory, queue.member), to(queue, memory, next);
	if (ggas_thread() == 0) {
		ggas_store_relaxed(&queue.peers[next].lost, 1u);
		ggas_store_relaxed(&queue.state->lost, 1u);
	}
	ggas_syncthreads();
	for (uint32_t i = 0; i < 3 * queue.limit; i++) {
		int error = i % 2 ? ggas_queue_write(queue, to, 0, own, 8, 8) : ggas_queue_read(queue, to, 0, own, 8, 8);
		if (error != GGAS_ERR_LOST)
			return error ? error : GGAS_ERR_ARGUMENT;
	}
	if (int error = ggas_queue_write(queue, own, 0, own, 8, 8))
		return error;
	return ggas_queue_wait(queue);
}

/* Two other blocks are finding out that their posts to the next member, whose process may be gone, are refused: these are
 * counted until then. An operation of another one is under way all the time: not even then is all done that was counted. */
GGAS_FN void begin_refusals(const ggas_queue &queue, ggas_queue_peer *peer, bool lost)
{
	ggas_red_add(&queue.state->posted, 3u, ggas_order::relaxed);
	ggas_red_add(&peer->posted[GGAS_QUEUE_PUTS], 2u, ggas_order::relaxed);
	ggas_store_relaxed(&peer->lost, uint32_t(lost));
	ggas_store_relaxed(&queue.state->lost, uint32_t(lost));
}
GGAS_FN void end_refusals(const ggas_queue &queue, ggas_queue_peer *peer)
{
	ggas_red_add(&queue.state->posted, ~uint64_t(1), ggas_order::relaxed);
	ggas_red_add(&peer->posted[GGAS_QUEUE_PUTS], ~uint64_t(1), ggas_order::relaxed);
}

/* Block 0 has nothing to do with that member; it waits, and of three blocks first posts with less room than the refused ones
 * seem to take. Block 1 ends the refusals once that has begun. */
GGAS_FN int refusing(const selftest_queue &args)
{
	bool posts = args.lanes > 2;
	auto *queues = pointer<const ggas_queues>(args.queues);
	ggas_queue queue(queues, 0);
	ggas_queue_peer *peer = queue.peers + (queue.member + 1) % queues->members;
	auto *begun = pointer<uint64_t>(args.counters);
	if (ggas_block() != 0) {
		if (ggas_block() == 1 && ggas_thread() == 0) {
			ggas_wait wait(queues->report, queues->timeout_ns, GGAS_WAIT_FLAG, queue.member);
			while (ggas_load_acquire(begun) == 0 || ggas_load_relaxed(&queue.state->posted) < 3u + posts)
				if (int error = wait.again(begun, 1, 0))
					return error;
			/* In virtual time: block 0 has looked by then. */
			for (uint32_t i = 0; i < 8; i++)
				if (int error = wait.again(begun, 1, 0))
					return error;
			end_refusals(queue, peer);
		}
		return GGAS_OK;
	}
	ggas_remote own(queue, pointer<const ggas_memory>(args.memory), queue.member);
	if (ggas_thread() == 0) {
		begin_refusals(queue, peer, args.first != 0);
		ggas_store_release(begun, uint64_t(1));
	}
	ggas_syncthreads();
	int error = posts ? ggas_queue_write(queue, own, 0, own, 8, 8) : GGAS_OK;
	return error ? error : ggas_queue_wait(queue);
}

/* Posts that have all looked before any of them was counted: what is under way when the last one returns is no more than
 * may be. By one thread. */
GGAS_FN int at_once(const selftest_queue &args)
{
	auto *queues = pointer<const ggas_queues>(args.queues);
	ggas_queue queue(queues, 0);
	ggas_remote own(queue, pointer<const ggas_memory>(args.memory), queue.member);
	constexpr uint32_t posts = 5;
	const ggas_impl::post_look look(queue);
	int error = GGAS_OK;
	extoll_desc desc = ggas_impl::transfer_desc(own, GGAS_QUEUE_PUTS, own.nla + 8, own.nla, 8);
	for (uint32_t i = 0; i < posts && !error; i++)
		error = ggas_impl::queue_post_after(queue, look, own, GGAS_QUEUE_PUTS, desc, 0);
	uint64_t under_way = ggas_load_relaxed(&queue.state->posted) - ggas_load_relaxed(&queue.state->done);
	if (!error && under_way > queue.limit)
		error = GGAS_ERR_ARGUMENT;
	return error ? error : ggas_queue_wait<ggas_scope::thread>(queue);
}

} // namespace queue_checks

#endif // SELFTEST_QUEUE_BAD_CUH
