/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Writing to the card's requester pages (spec 2.4, 7): descriptors of an RMA port,
 * messages of a VELO port; included by rma_card.h and velo_send.h. A VPID has one WCB in
 * each unit, so writers take turns. The card counts what it
 * accepted; when it is congested it rejects, and software writes the rejected
 * lines again from a ring of 256. `Port` is ggas_port or ggas_velo.
 */
#ifndef GGAS_IMPL_CARD_WCB_H
#define GGAS_IMPL_CARD_WCB_H

#include "extoll/desc.h"
#include "extoll/velo.h"
#include "extoll/wcb.h"
#include "../vocab.h"

namespace ggas_impl
{

constexpr uint32_t wcb_ring = EXTOLL_WCB_ENTRIES - 1; /* mask of indices */
static_assert(EXTOLL_WCB_ENTRIES == GGAS_REPLAY_ENTRIES, "the replay ring is as the WCB counts");
static_assert(EXTOLL_VELO_LINE_WORDS == GGAS_VELO_WORDS, "a line is as the card assembles it");

/* The WCB assembles the words of a page in any order. The fence puts the
 * caller's data, and the words of the line before, ahead of these. */
GGAS_FN void wcb_issue(const ggas_port *, const ggas_replay &line)
{
	uint64_t *page = reinterpret_cast<uint64_t *>(line.page);
	ggas_fence_system();
	ggas_store_mmio(page + 0, line.word[0]);
	ggas_store_mmio(page + 1, line.word[1]);
	ggas_store_mmio(page + 2, line.word[2]);
}
GGAS_FN void wcb_issue(const ggas_velo *port, const ggas_velo_line &line)
{
	uint64_t *page = reinterpret_cast<uint64_t *>(port->page);
	ggas_fence_system();
	for (uint32_t i = 0; i < line.words; i++)
		ggas_store_mmio(page + i, line.word[i]);
}

GGAS_FN uint64_t *wcb_turn(ggas_port *port)
{
	return &port->post_turn;
}
GGAS_FN uint64_t *wcb_turn(ggas_velo *port)
{
	return &port->send_turn;
}
GGAS_FN uint32_t &wcb_stalled(ggas_port *port)
{
	return port->post_stalled;
}
GGAS_FN uint32_t &wcb_stalled(ggas_velo *port)
{
	return port->send_stalled;
}

/* Most lines between what was written and what the card has counted. */
GGAS_FN uint32_t wcb_lines(const ggas_port *port)
{
	return port->lines;
}
GGAS_FN uint32_t wcb_lines(const ggas_velo *)
{
	return wcb_ring;
}

/* Writers take turns in the order in which they came: whoever has just written cannot take the next turn from
 * those that wait. Low half of the word: whose turn it is; high half: the number of who comes next. */
constexpr uint64_t wcb_next = uint64_t(1) << 32;

/* Another's turn lasts as long as its own wait for room; a turn that lasts twice as long will not end. */
template <typename Port>
GGAS_FN int wcb_await_turn(Port *port, uint32_t mine, uint32_t now, uint32_t line)
{
	uint64_t bound = port->timeout_ns > ~uint64_t(0) / 2 ? ~uint64_t(0) : 2 * port->timeout_ns;
	while (now != mine) {
		ggas_wait wait(port->report, bound, GGAS_WAIT_LOCK, port->node, ~0u, line);
		uint32_t before = now;
		while ((now = static_cast<uint32_t>(ggas_load_acquire(wcb_turn(port)))) == before)
			if (int error = wait.again(wcb_turn(port), mine, now))
				return error;
	}
	return GGAS_OK;
}

template <typename Port>
GGAS_FN int wcb_lock(Port *port, uint32_t line)
{
	uint64_t turn = ggas_atomic_add(wcb_turn(port), wcb_next, ggas_order::acquire);
	return wcb_await_turn(port, static_cast<uint32_t>(turn >> 32), static_cast<uint32_t>(turn), line);
}

/* If it is nobody's turn. */
template <typename Port>
GGAS_FN bool wcb_try_lock(Port *port)
{
	uint64_t turn = ggas_load_relaxed(wcb_turn(port));
	return static_cast<uint32_t>(turn) == turn >> 32 &&
	       ggas_atomic_cas(wcb_turn(port), turn, turn + wcb_next, ggas_order::acquire) == turn;
}

template <typename Port>
GGAS_FN void wcb_unlock(Port *port)
{
	uint64_t turn = ggas_load_relaxed(wcb_turn(port));
	uint32_t mine = static_cast<uint32_t>(turn);
	if (static_cast<uint32_t>(turn >> 32) == mine + 1)
		wcb_stalled(port) = 0;
	/* The low half alone, also where it begins again at 0. */
	ggas_atomic_add(wcb_turn(port), mine == ~0u ? 1 - wcb_next : uint64_t(1), ggas_order::release);
}

template <typename Port>
GGAS_FN uint64_t *wcb_register(const Port *port)
{
	return reinterpret_cast<uint64_t *>(port->wcb_state);
}
template <typename Port>
GGAS_FN uint64_t wcb_state(const Port *port)
{
	return ggas_load_mmio(static_cast<const uint64_t *>(wcb_register(port)));
}

/* Has the card rejected lines? Then wait until it has dealt with all that
 * were written, acknowledge, and write the rejected ones again. In its turn. */
template <typename Port>
GGAS_FN int wcb_replay(Port *port, ggas_wait &wait)
{
	bool replayed = false;
	for (;;) {
		uint64_t state = wcb_state(port);
		if (!extoll_wcb_retry(state))
			return GGAS_OK;
		uint32_t committed = extoll_wcb_committed(state), rejected = extoll_wcb_rejected(state);
		uint32_t pending = (port->wp - committed) & wcb_ring;
		/* Rejected again: the network, or the receiver, has still no room. */
		if (replayed || rejected == 0 || !extoll_wcb_idle(state) || pending != rejected) {
			replayed = false;
			if (int error = wait.again(wcb_register(port), pending, rejected))
				return error;
			continue;
		}
		for (;;) {
			ggas_store_mmio(wcb_register(port), extoll_wcb_acknowledged(state));
			ggas_fence_system();
			state = wcb_state(port);
			if (extoll_wcb_rejected(state) == 0)
				break;
			if (int error = wait.again(wcb_register(port), 0, extoll_wcb_rejected(state)))
				return error;
		}
		for (uint32_t i = committed; i != port->wp; i = (i + 1) & wcb_ring)
			wcb_issue(port, port->replay[i]);
		replayed = true;
	}
}

/* Lines between two looks at the register, each a load over the bus. What is rejected meanwhile is written again
 * later: the ring keeps it. */
constexpr uint32_t wcb_batch = 64;

/* Waits until the ring has room for a line: replay[wp]. In its turn. Those whose turns come behind one that
 * waited in vain find out at once if nothing has moved since. */
template <typename Port>
GGAS_FN int wcb_await_room(Port *port, uint32_t peer, uint32_t line)
{
	uint32_t lines = wcb_lines(port), ahead = lines > 2 * wcb_batch ? wcb_batch : 1;
	if (port->wp & (ahead - 1))
		return GGAS_OK;
	lines -= ahead - 1;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_WCB, port->node, peer, line);
	for (;;) {
		uint64_t state = wcb_state(port);
		uint32_t committed = extoll_wcb_committed(state);
		int error = GGAS_OK;
		if (!extoll_wcb_retry(state)) {
			if (((port->wp - committed) & wcb_ring) < lines)
				return GGAS_OK;
			if (wcb_stalled(port) == (committed | EXTOLL_WCB_ENTRIES))
				return GGAS_ERR_TIMEOUT;
			error = wait.again(wcb_register(port), (port->wp + 1 - lines) & wcb_ring, committed);
		} else {
			error = wcb_replay(port, wait);
		}
		if (error) {
			wcb_stalled(port) = extoll_wcb_committed(wcb_state(port)) | EXTOLL_WCB_ENTRIES;
			return error;
		}
	}
}

/* Writes the line that was put into replay[wp]. In its turn. */
template <typename Port>
GGAS_FN void wcb_write(Port *port)
{
	wcb_issue(port, port->replay[port->wp & wcb_ring]);
	port->wp = (port->wp + 1) & wcb_ring;
}

/* Between polls of an empty queue or mailbox: write again what was rejected, for at most
 * `timeout_ns`, if no other thread is at it. Errors show at the next post. */
template <typename Port>
GGAS_FN void wcb_service(Port *port, uint64_t timeout_ns)
{
	if (!extoll_wcb_retry(wcb_state(port)))
		return;
	if (!wcb_try_lock(port))
		return;
	ggas_wait wait(0, timeout_ns, GGAS_WAIT_WCB, port->node);
	wcb_replay(port, wait);
	wcb_unlock(port);
}

/* Waits until the card has taken every line. In its turn. */
template <typename Port>
GGAS_FN int wcb_drain(Port *port, uint32_t line)
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_WCB, port->node, ~0u, line);
	for (;;) {
		if (int error = wcb_replay(port, wait))
			return error;
		uint32_t committed = extoll_wcb_committed(wcb_state(port));
		if (committed == port->wp)
			return GGAS_OK;
		if (int error = wait.again(wcb_register(port), port->wp, committed))
			return error;
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_CARD_WCB_H */
