/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who waits consumes: notifications of a port are taken by whoever finds its queue free, and counted for the
 * member that each tells of. A waiter that finds another at it looks at the counts again, and then at the queue
 * again: nobody is woken, so no wake-up can be lost, and nobody waits for who consumes. Included by queue.cuh.
 */
#ifndef GGAS_IMPL_QUEUE_COUNT_H
#define GGAS_IMPL_QUEUE_COUNT_H

namespace ggas_impl
{

/* The first failure of a port; all waits of its queues return it. */
GGAS_FN int note_failure(const ggas_queue &queue, int error)
{
	ggas_atomic_cas(&queue.state->failed, 0u, static_cast<uint32_t>(error), ggas_order::relaxed);
	return error;
}

GGAS_FN ggas_queue_peer *peer_of(const ggas_queue &queue, uint32_t node, uint32_t vpid)
{
	ggas_queue_peer *peers = queue.peers;
	uint32_t members = queue.all->members;
	/* Most often members are numbered as their nodes. */
	if (node < members && peers[node].node == node && peers[node].vpid == vpid)
		return peers + node;
	for (uint32_t i = 0; i < members; i++)
		if (peers[i].node == node && peers[i].vpid == vpid)
			return peers + i;
	return nullptr;
}

/* What matters of a notification: all but the size, for notification puts with their class. */
GGAS_FN uint64_t told_by(uint64_t word1)
{
	uint64_t size = EXTOLL_PUT(~0u, EXTOLL_NOTI_SIZE);
	uint64_t field = extoll_noti_command(word1) == EXTOLL_CMD_NOTIFICATION_PUT ? extoll_noti_class(word1) : 0;
	return (word1 & ~size) | field;
}

/* Counts `count` notifications that say the same. With release: what they tell of is seen by who sees the count. */
GGAS_COLD void credit(ggas_queue queue, uint64_t told, uint32_t count, uint32_t line)
{
	uint32_t kind = extoll_noti_kind(told), command = extoll_noti_command(told), node = extoll_noti_node(told);
	if (extoll_noti_error(told)) {
		note_failure(queue, GGAS_ERR_NOTIFICATION);
		write_report(reinterpret_cast<ggas_report *>(queue.all->report), GGAS_ERR_NOTIFICATION, GGAS_WAIT_QUEUE,
			     queue.all->member, node, line, queue.number, 0, told, 0);
	}
	bool completer = kind == EXTOLL_NOTI_KIND_COMPLETER;
	if (completer && command == EXTOLL_CMD_NOTIFICATION_PUT) {
		uint32_t number = extoll_noti_class(told);
		if (number < GGAS_QUEUES)
			ggas_red_add(own_flag(queue.all, notified_word(queue.all, number)), uint64_t(count),
				     ggas_order::release);
		return;
	}
	bool read = command == EXTOLL_CMD_BT_GET || command == EXTOLL_CMD_QW_GET ||
		    command == EXTOLL_CMD_GET_BT_RSP || command == EXTOLL_CMD_GET_QW_RSP;
	/* Others asked for what else a port may be told. */
	if (kind != EXTOLL_NOTI_KIND_REQUESTER && !(completer && read))
		return;
	if (ggas_queue_peer *peer = peer_of(queue, node, extoll_noti_vpid(told)))
		ggas_red_add_release_gpu(&peer->done[completer ? GGAS_QUEUE_GETS : GGAS_QUEUE_PUTS], count);
	ggas_red_add_release_gpu(&queue.state->done, count);
}

/* Takes what is there of the next few notifications; how many. The caller is the consumer. */
GGAS_FN uint32_t consume_few(const ggas_queue &queue, uint32_t line)
{
	constexpr uint32_t few = 8;
	ggas_port *port = queue.port;
	noti_queue at(port);
	uint64_t word1[few];
	uint32_t count = 0;
	bool there = true;
	auto entry = [&](uint32_t i) {
		uint32_t index = at.rp + i;
		return noti_entry(port, index - (index >= at.entries ? at.entries : 0));
	};
	GGAS_UNROLL
	for (uint32_t i = 0; i < few; i++) {
		word1[i] = ggas_watch_entry(reinterpret_cast<const ggas_u128 *>(entry(i)));
		there &= word1[i] != 0;
		count += there;
	}
	if (count == 0) {
		if (at.card)
			card_service(port);
		return 0;
	}
	/* What they tell of is seen by whoever acquires the counts. */
	ggas_fence_acquire();
	uint64_t told = 0;
	uint32_t alike = 0;
	GGAS_UNROLL
	for (uint32_t i = 0; i < few; i++) {
		if (i >= count)
			continue;
		ggas_store_relaxed(&entry(i)->word1, uint64_t(0));
		uint64_t next = told_by(word1[i]);
		if (alike && next != told) {
			credit(queue, told, alike, line);
			alike = 0;
		}
		told = next;
		alike++;
	}
	credit(queue, told, alike, line);
	at.advance(port, count);
	return count;
}

/* Takes notifications if nobody else does. A bounded number: the caller may have what it waits for.
 * `line`: of the call, for reports of errors that they tell of. */
GGAS_COLD void consume(ggas_queue queue, uint32_t line)
{
	uint32_t *consumer = &queue.port->noti_lock;
	if (ggas_load_relaxed(consumer) != 0 || ggas_atomic_cas(consumer, 0u, 1u, ggas_order::acquire) != 0)
		return;
	for (uint32_t i = 0; i < 4; i++)
		if (consume_few(queue, line) == 0)
			break;
	ggas_store_release(consumer, 0u);
}

/* Of every port. */
GGAS_FN void consume_all(const ggas_queues *all, uint32_t line)
{
	for (uint32_t i = 0; i < all->ports; i++)
		consume(ggas_queue(all, i), line);
}

/* On the card path, while something else than notifications is waited for: what a congested card rejected is
 * posted again. */
GGAS_FN void serve_cards(const ggas_queues *all)
{
	for (uint32_t i = 0; all->on_card && i < all->ports; i++)
		card_service(ggas_queue(all, i).port);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_QUEUE_COUNT_H */
