/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Posting to the card's requester pages (spec 2.4). A VPID has one WCB, so
 * posts take turns on post_lock. The card counts what it accepted; when it is
 * congested it rejects, and software posts the rejected descriptors again from
 * a ring of 256.
 */
#ifndef GGAS_IMPL_RMA_CARD_H
#define GGAS_IMPL_RMA_CARD_H

#include "extoll/desc.h"
#include "extoll/wcb.h"
#include "../vocab.h"

namespace ggas_impl
{

constexpr uint32_t card_ring = EXTOLL_WCB_ENTRIES - 1; /* mask of indices */
static_assert(EXTOLL_WCB_ENTRIES == GGAS_REPLAY_ENTRIES, "the replay ring is as the WCB counts");

GGAS_FN uint64_t card_state(const ggas_port *port)
{
	return ggas_load_mmio(reinterpret_cast<const uint64_t *>(port->wcb_state));
}

/* The WCB assembles the words of a page in any order. The fence puts the
 * caller's data, and the words of the descriptor before, ahead of these. */
GGAS_FN void card_issue(const ggas_replay &entry)
{
	uint64_t *page = reinterpret_cast<uint64_t *>(entry.page);
	ggas_fence_system();
	ggas_store_mmio(page + 0, entry.word[0]);
	ggas_store_mmio(page + 1, entry.word[1]);
	ggas_store_mmio(page + 2, entry.word[2]);
}

/* Has the card rejected descriptors? Then wait until it has dealt with all that
 * were written, acknowledge, and write the rejected ones again. Holds post_lock. */
GGAS_FN int card_replay(ggas_port *port, ggas_wait &wait)
{
	for (;;) {
		uint64_t state = card_state(port);
		if (!extoll_wcb_retry(state))
			return GGAS_OK;
		uint32_t committed = extoll_wcb_committed(state), rejected = extoll_wcb_rejected(state);
		uint32_t pending = (port->wp - committed) & card_ring;
		if (rejected == 0 || !extoll_wcb_idle(state) || pending != rejected) {
			if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), pending, rejected))
				return error;
			continue;
		}
		do {
			ggas_store_mmio(reinterpret_cast<uint64_t *>(port->wcb_state), extoll_wcb_acknowledged(state));
			ggas_fence_system();
			state = card_state(port);
			if (extoll_wcb_rejected(state) == 0)
				break;
			if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), 0,
						   extoll_wcb_rejected(state)))
				return error;
		} while (true);
		for (uint32_t i = committed; i != port->wp; i = (i + 1) & card_ring)
			card_issue(port->replay[i]);
	}
}

/* Writes one descriptor once the ring has room. Holds post_lock. */
GGAS_FN int card_write(ggas_port *port, const extoll_desc &desc, uint32_t line)
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_WCB, port->node, ~0u, line);
	for (;;) {
		if (int error = card_replay(port, wait))
			return error;
		uint64_t state = card_state(port);
		if (((port->wp + 1) & card_ring) != extoll_wcb_committed(state) && !extoll_wcb_retry(state))
			break;
		if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), (port->wp + 2) & card_ring,
					   extoll_wcb_committed(state)))
			return error;
	}
	ggas_replay &entry = port->replay[port->wp & card_ring];
	entry.word[0] = desc.word[0];
	entry.word[1] = desc.word[1];
	entry.word[2] = desc.word[2];
	entry.page = port->req_pages + (static_cast<uint64_t>(port->option) << EXTOLL_PAGE_OPTION_SHIFT);
	card_issue(entry);
	port->wp = (port->wp + 1) & card_ring;
	return GGAS_OK;
}

GGAS_FN int card_lock(ggas_port *port, uint32_t line)
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_LOCK, port->node, ~0u, line);
	while (ggas_atomic_cas(&port->post_lock, 0u, 1u, ggas_order::acquire) != 0)
		if (int error = wait.again(&port->post_lock, 0, 1))
			return error;
	return GGAS_OK;
}
GGAS_FN void card_unlock(ggas_port *port)
{
	ggas_store_release(&port->post_lock, 0u);
}

GGAS_FN int card_post(ggas_port *port, const extoll_desc &desc, uint32_t line)
{
	if (int error = card_lock(port, line))
		return error;
	int status = card_write(port, desc, line);
	card_unlock(port);
	return status;
}

/* Lane 0 writes for all `lanes`: a WCB takes one descriptor at a time. */
GGAS_FN int card_post_batch(ggas_port *port, const extoll_desc &desc, uint32_t lanes, uint32_t line)
{
	int status = GGAS_OK;
	ggas_syncwarp();
	if (ggas_lane() == 0)
		status = card_lock(port, line);
	bool locked = status == GGAS_OK;
	for (uint32_t lane = 0; lane < GGAS_WARP_SIZE; lane++) {
		extoll_desc one;
		for (int word = 0; word < 3; word++)
			one.word[word] = ggas_shfl(GGAS_FULL_WARP, desc.word[word], lane);
		if (ggas_lane() == 0 && status == GGAS_OK && (lanes >> lane & 1))
			status = card_write(port, one, line);
	}
	if (ggas_lane() == 0 && locked)
		card_unlock(port);
	return ggas_warp_status(status);
}

/* Between polls of an empty queue: post again what was rejected, if no other
 * thread is at it. Errors show at the next post. */
GGAS_FN void card_service(ggas_port *port)
{
	if (!extoll_wcb_retry(card_state(port)))
		return;
	if (ggas_atomic_cas(&port->post_lock, 0u, 1u, ggas_order::acquire) != 0)
		return;
	ggas_wait wait(0, port->timeout_ns, GGAS_WAIT_WCB, port->node);
	card_replay(port, wait);
	card_unlock(port);
}

GGAS_FN int card_drain(ggas_port *port, uint32_t line)
{
	if (int error = card_lock(port, line))
		return error;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_WCB, port->node, ~0u, line);
	int status;
	uint32_t committed = 0;
	while ((status = card_replay(port, wait)) == GGAS_OK &&
	       (committed = extoll_wcb_committed(card_state(port))) != port->wp)
		if ((status = wait.again(reinterpret_cast<void *>(port->wcb_state), port->wp, committed)))
			break;
	card_unlock(port);
	return status;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_RMA_CARD_H */
