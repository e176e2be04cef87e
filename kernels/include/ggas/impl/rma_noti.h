/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Notifications; included by rma.cuh. Fields are read with extoll_noti_* of
 * extoll/noti.h. One thread or warp consumes a port's queue at a time: either
 * by the kernel's design, or under gpu_rma2_noti_lock.
 */
#ifndef GGAS_IMPL_RMA_NOTI_H
#define GGAS_IMPL_RMA_NOTI_H

/* Which notification a match wants; GPU_RMA2_ANY matches all. */
#define GPU_RMA2_ANY 0xffffffffu
struct gpu_rma2_match {
	uint32_t kind = GPU_RMA2_ANY;	  /* EXTOLL_NOTI_KIND_* */
	uint32_t command = GPU_RMA2_ANY;  /* EXTOLL_CMD_* */
	uint32_t node = GPU_RMA2_ANY;	  /* of the other side */
	uint32_t vpid = GPU_RMA2_ANY;
	uint32_t noti_class = GPU_RMA2_ANY; /* notification puts only */
};

namespace ggas_impl
{
GGAS_FN bool wanted(uint32_t want, uint32_t have)
{
	return want == GPU_RMA2_ANY || want == have;
}

GGAS_FN extoll_noti *noti_entry(const ggas_port *port, uint32_t index)
{
	return reinterpret_cast<extoll_noti *>(port->queue) + index;
}

/* A port's queue as its consumer sees it, read before the wait for an entry: the
 * loads are under way together and hidden behind the first poll. */
struct noti_queue {
	extoll_noti *head;
	uint64_t rp_register;
	uint32_t rp, entries, written, lazy;
	bool card;

	GGAS_FN explicit noti_queue(const ggas_port *port)
		: head(noti_entry(port, port->rp)), rp_register(port->rp_register), rp(port->rp),
		  entries(port->queue_entries), written(port->rp_written), lazy(port->rp_lazy), card(port->slots == 0)
	{
	}

	/* The entry at the head, if there is one: one 16-byte access on a GPU. */
	GGAS_FN bool read(ggas_port *port, extoll_noti *noti) const
	{
		if (look(noti))
			return true;
		if (card)
			card_service(port);
		return false;
	}

	GGAS_FN bool look(extoll_noti *noti) const
	{
		ggas_u128 entry = ggas_load_entry(reinterpret_cast<const ggas_u128 *>(head));
		noti->word0 = entry.lo;
		noti->word1 = entry.hi;
		return entry.hi != 0;
	}

	/* Gives `count` zeroed entries back. The read pointer goes to the NIC with
	 * release, so that no zero can overwrite a new entry; rp_lazy saves the fence. */
	GGAS_FN void advance(ggas_port *port, uint32_t count)
	{
		uint32_t next = rp + count;
		next -= next >= entries ? entries : 0;
		port->rp = next;
		uint32_t unwritten = next - written + (next < written ? entries : 0);
		if (unwritten < lazy)
			return;
		ggas_fence_system();
		ggas_store_mmio(reinterpret_cast<uint64_t *>(rp_register), next);
		port->rp_written = next;
	}

	/* Frees the entry at the head. */
	GGAS_FN void free(ggas_port *port)
	{
		ggas_store_relaxed(&head->word1, 0u);
		advance(port, 1);
	}

	/* Waits until there is an entry at the head. */
	GGAS_FN int wait(ggas_port *port, extoll_noti *noti, uint32_t line) const
	{
		ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_NOTIFICATION, port->node, ~0u, line);
		for (uint32_t looks = 1; !look(noti); looks++) {
			/* The card's register is a load over the bus, like the queue where that is the host's. */
			if (card && looks % 8 == 0)
				card_service(port);
			if (int error = wait.again(head, 1, 0))
				return error;
		}
		return GGAS_OK;
	}
};
} /* namespace ggas_impl */

GGAS_FN bool gpu_rma2_noti_matches(const extoll_noti &noti, const gpu_rma2_match &match)
{
	uint32_t command = extoll_noti_command(noti.word1);
	return ggas_impl::wanted(match.kind, extoll_noti_kind(noti.word1)) && ggas_impl::wanted(match.command, command) &&
	       ggas_impl::wanted(match.node, extoll_noti_node(noti.word1)) &&
	       ggas_impl::wanted(match.vpid, extoll_noti_vpid(noti.word1)) &&
	       (match.noti_class == GPU_RMA2_ANY ||
		(command == EXTOLL_CMD_NOTIFICATION_PUT && match.noti_class == extoll_noti_class(noti.word1)));
}

/* The oldest unread notification, if there is one; it stays until freed. One
 * 16-byte acquire load. On the card path an empty queue also is when rejected
 * descriptors are posted again (spec 2.4). */
GGAS_FN bool gpu_rma2_noti_probe(ggas_port *port, extoll_noti *noti)
{
	return ggas_impl::noti_queue(port).read(port, noti);
}

/* Frees the oldest notification, which was read before. */
GGAS_FN void gpu_rma2_noti_free(ggas_port *port)
{
	ggas_impl::noti_queue(port).free(port);
}

/* Tells the NIC of everything freed so far, whatever rp_lazy says. */
GGAS_FN void gpu_rma2_noti_flush(ggas_port *port)
{
	ggas_impl::noti_queue queue(port);
	queue.lazy = 0;
	queue.advance(port, 0);
}

/* Waits for the next notification; it stays until freed. */
GGAS_FN int gpu_rma2_noti_wait(ggas_port *port, extoll_noti *noti, uint32_t line = __builtin_LINE())
{
	return ggas_impl::noti_queue(port).wait(port, noti, line);
}

/* Waits for the next notification. GGAS_ERR_NO_MATCH: it is another one than
 * `match` wants (only the head of the queue is looked at). GGAS_ERR_NOTIFICATION:
 * it matches and has error bits. Either way `noti` holds it and it stays until freed. */
GGAS_FN int gpu_rma2_noti_wait_match(ggas_port *port, const gpu_rma2_match &match, extoll_noti *noti,
				     uint32_t line = __builtin_LINE())
{
	if (int error = gpu_rma2_noti_wait(port, noti, line))
		return error;
	if (!gpu_rma2_noti_matches(*noti, match))
		return GGAS_ERR_NO_MATCH;
	return extoll_noti_error(noti->word1) ? GGAS_ERR_NOTIFICATION : GGAS_OK;
}

/* Waits for the next notification and frees it. GGAS_ERR_NOTIFICATION: it has
 * error bits (reported, and freed too). */
GGAS_FN int gpu_rma2_noti_take(ggas_port *port, extoll_noti *noti, uint32_t line = __builtin_LINE())
{
	ggas_impl::noti_queue queue(port);
	if (int error = queue.wait(port, noti, line))
		return error;
	queue.free(port);
	if (extoll_noti_error(noti->word1) == 0)
		return GGAS_OK;
	ggas_wait wait(port->report, 0, GGAS_WAIT_NOTIFICATION, port->node, extoll_noti_node(noti->word1), line);
	wait.fail(GGAS_ERR_NOTIFICATION, noti->word0, 0, noti->word1, 0);
	return GGAS_ERR_NOTIFICATION;
}

/* Warp form: takes up to 32 notifications at once, with coalesced reads and one
 * write of the read pointer. All lanes call; lane i < result holds the i-th in
 * `noti`. Result 0: the queue is empty. */
GGAS_FN uint32_t gpu_rma2_noti_take_warp(ggas_port *port, extoll_noti *noti)
{
	uint32_t rp = ggas_shfl(GGAS_FULL_WARP, port->rp, 0), entries = port->queue_entries;
	/* A queue of less than 33 entries must not be read twice around. */
	bool there = ggas_lane() < entries;
	uint32_t index = rp + ggas_lane();
	index -= index >= entries ? entries : 0;
	ggas_u128 entry = { 0, 0 };
	if (there)
		entry = ggas_load_entry(reinterpret_cast<const ggas_u128 *>(ggas_impl::noti_entry(port, index)));
	uint32_t valid = ggas_ballot(GGAS_FULL_WARP, entry.hi != 0);
	uint32_t count = valid == GGAS_FULL_WARP ? GGAS_WARP_SIZE : ggas_popc(valid & ~(valid + 1));
	if (ggas_lane() < count) {
		noti->word0 = entry.lo;
		noti->word1 = entry.hi;
		ggas_store_relaxed(&ggas_impl::noti_entry(port, index)->word1, 0u);
	}
	ggas_syncwarp();
	if (ggas_lane() == 0) {
		if (count)
			ggas_impl::noti_queue(port).advance(port, count);
		else if (!port->slots)
			ggas_impl::card_service(port);
	}
	ggas_syncwarp();
	return count;
}

/* Warp form of a wait: at least one notification, see gpu_rma2_noti_take_warp.
 * `count` is the same in all lanes. */
GGAS_FN int gpu_rma2_noti_wait_warp(ggas_port *port, extoll_noti *noti, uint32_t *count,
				    uint32_t line = __builtin_LINE())
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_NOTIFICATION, port->node, ~0u, line);
	while ((*count = gpu_rma2_noti_take_warp(port, noti)) == 0) {
		int error = GGAS_OK;
		if (ggas_lane() == 0)
			error = wait.again(ggas_impl::noti_entry(port, port->rp), 1, 0);
		if ((error = ggas_warp_status(error)))
			return error;
	}
	return GGAS_OK;
}

/* For kernels whose blocks share a port's queue: from lock to unlock the
 * calling thread (or its warp) is the consumer. */
GGAS_FN int gpu_rma2_noti_lock(ggas_port *port, uint32_t line = __builtin_LINE())
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_LOCK, port->node, ~0u, line);
	while (ggas_atomic_cas(&port->noti_lock, 0u, 1u, ggas_order::acquire) != 0)
		if (int error = wait.again(&port->noti_lock, 0, 1))
			return error;
	return GGAS_OK;
}
GGAS_FN void gpu_rma2_noti_unlock(ggas_port *port)
{
	ggas_store_release(&port->noti_lock, 0u);
}

#endif /* GGAS_IMPL_RMA_NOTI_H */
