/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sending; included by velo.cuh. The protocol is that of rma_card.h with longer lines. */
#ifndef GGAS_IMPL_VELO_SEND_H
#define GGAS_IMPL_VELO_SEND_H

static_assert(EXTOLL_VELO_LINE_WORDS == GGAS_VELO_WORDS, "a line is as the card assembles it");

namespace ggas_impl
{

GGAS_FN uint64_t velo_state(const ggas_velo *port)
{
	return ggas_load_mmio(reinterpret_cast<const uint64_t *>(port->wcb_state));
}

GGAS_FN void velo_issue(const ggas_velo *port, const ggas_velo_line &line)
{
	uint64_t *page = reinterpret_cast<uint64_t *>(port->page);
	ggas_fence_system();
	for (uint32_t i = 0; i < line.words; i++)
		ggas_store_mmio(page + i, line.word[i]);
}

/* Has the card rejected messages? Then wait until it has dealt with all that were
 * written, acknowledge, and write the rejected ones again. Holds send_lock. */
GGAS_FN int velo_replay(ggas_velo *port, ggas_wait &wait)
{
	constexpr uint32_t ring = GGAS_REPLAY_ENTRIES - 1;
	for (;;) {
		uint64_t state = velo_state(port);
		if (!extoll_wcb_retry(state))
			return GGAS_OK;
		uint32_t committed = extoll_wcb_committed(state), rejected = extoll_wcb_rejected(state);
		uint32_t pending = (port->wp - committed) & ring;
		if (rejected == 0 || !extoll_wcb_idle(state) || pending != rejected) {
			if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), pending, rejected))
				return error;
			continue;
		}
		for (;;) {
			ggas_store_mmio(reinterpret_cast<uint64_t *>(port->wcb_state), extoll_wcb_acknowledged(state));
			ggas_fence_system();
			state = velo_state(port);
			if (extoll_wcb_rejected(state) == 0)
				break;
			if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), 0,
						   extoll_wcb_rejected(state)))
				return error;
		}
		for (uint32_t i = committed; i != port->wp; i = (i + 1) & ring)
			velo_issue(port, port->replay[i]);
		/* Rejected again: its receiver has still no room. */
		if (extoll_wcb_retry(velo_state(port)))
			if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), 0, rejected))
				return error;
	}
}

GGAS_FN bool velo_can_send(const ggas_velo *port)
{
	return port->page || port->send_slots;
}

GGAS_FN int velo_send_lock(ggas_velo *port, uint32_t line)
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_LOCK, port->node, ~0u, line);
	while (ggas_atomic_cas(&port->send_lock, 0u, 1u, ggas_order::acquire) != 0)
		if (int error = wait.again(&port->send_lock, 0, 1))
			return error;
	return GGAS_OK;
}
GGAS_FN void velo_send_unlock(ggas_velo *port)
{
	ggas_store_release(&port->send_lock, 0u);
}

/* Word `i` of a message's payload. */
GGAS_FN uint64_t velo_word(const uint8_t *bytes, uint32_t length, uint32_t i)
{
	uint64_t word = 0;
	for (uint32_t byte = 0; byte < 8 && 8 * i + byte < length; byte++)
		word |= static_cast<uint64_t>(bytes[8 * i + byte]) << 8 * byte;
	return word;
}

/* Waits until the model has taken all messages of the ring but `left`. Reads host memory
 * only when the value seen last says that it has not. Holds send_lock. */
GGAS_FN int velo_await_slots(ggas_velo *port, uint32_t left, uint32_t peer, uint32_t line)
{
	if (static_cast<uint32_t>(port->send_tail) - port->send_seen <= left)
		return GGAS_OK;
	const uint64_t *consumed = reinterpret_cast<const uint64_t *>(port->send_consumed);
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_SLOT, port->node, peer, line);
	for (;;) {
		uint64_t seen = ggas_load_acquire(consumed);
		port->send_seen = static_cast<uint32_t>(seen);
		if (port->send_tail - seen <= left)
			return GGAS_OK;
		if (int error = wait.again(consumed, port->send_tail - left, seen))
			return error;
	}
}

/* Writes one message to the ring of the model; what the network does not take yet stays
 * there. The last store publishes it. Holds send_lock. */
GGAS_FN int velo_write_slot(ggas_velo *port, uint64_t header, const uint8_t *bytes, uint32_t length, uint32_t peer,
			    uint32_t line)
{
	if (int error = velo_await_slots(port, port->send_mask, peer, line))
		return error;
	ggas_velo_slot *slot = reinterpret_cast<ggas_velo_slot *>(port->send_slots) +
			       (port->send_tail & port->send_mask);
	uint32_t quads = extoll_velo_quadwords(length);
	ggas_store_relaxed(&slot->word[0], header);
	for (uint32_t i = 0; i < quads; i++)
		ggas_store_relaxed(&slot->word[1 + i], velo_word(bytes, length, i));
	port->send_tail++;
	ggas_store_release(reinterpret_cast<ggas_u128 *>(&slot->reserved), ggas_u128{ 0, port->send_tail });
	return GGAS_OK;
}

/* Writes one message once the ring has room. Holds send_lock. */
GGAS_FN int velo_write(ggas_velo *port, uint64_t header, const uint8_t *bytes, uint32_t length, uint32_t peer,
		       uint32_t line)
{
	constexpr uint32_t ring = GGAS_REPLAY_ENTRIES - 1;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_WCB, port->node, peer, line);
	for (;;) {
		if (int error = velo_replay(port, wait))
			return error;
		uint64_t state = velo_state(port);
		if (((port->wp + 1) & ring) != extoll_wcb_committed(state) && !extoll_wcb_retry(state))
			break;
		if (int error = wait.again(reinterpret_cast<void *>(port->wcb_state), (port->wp + 2) & ring,
					   extoll_wcb_committed(state)))
			return error;
	}
	ggas_velo_line &entry = port->replay[port->wp & ring];
	uint32_t quads = extoll_velo_quadwords(length);
	entry.word[0] = header;
	entry.words = 1 + quads;
	for (uint32_t i = 0; i < quads; i++)
		entry.word[1 + i] = velo_word(bytes, length, i);
	velo_issue(port, entry);
	port->wp = (port->wp + 1) & ring;
	return GGAS_OK;
}

/* Between polls of an empty mailbox: repeat what was rejected, if no other thread is
 * at it. Errors show at the next send. */
GGAS_FN void velo_service(ggas_velo *port)
{
	if (!port->page || !extoll_wcb_retry(velo_state(port)))
		return;
	if (ggas_atomic_cas(&port->send_lock, 0u, 1u, ggas_order::acquire) != 0)
		return;
	/* One round only: whoever polls must go on receiving, or two full mailboxes would wait for each other. */
	ggas_wait wait(0, 0, GGAS_WAIT_WCB, port->node);
	velo_replay(port, wait);
	velo_send_unlock(port);
}

template <ggas_scope Scope>
GGAS_FN int velo_send(ggas_velo *port, uint64_t header, const void *data, uint32_t length, uint32_t peer,
		      uint32_t line)
{
	if constexpr (Scope == ggas_scope::thread) {
		if (int error = velo_send_lock(port, line))
			return error;
		const uint8_t *bytes = static_cast<const uint8_t *>(data);
		int status = port->page ? velo_write(port, header, bytes, length, peer, line) :
					  velo_write_slot(port, header, bytes, length, peer, line);
		velo_send_unlock(port);
		return status;
	} else if constexpr (Scope == ggas_scope::warp) {
		int status = GGAS_OK;
		ggas_syncwarp();
		if (ggas_lane() == 0)
			status = velo_send<ggas_scope::thread>(port, header, data, length, peer, line);
		return ggas_warp_status(status);
	} else {
		int status = GGAS_OK;
		ggas_syncthreads();
		if (ggas_thread() == 0)
			status = velo_send<ggas_scope::thread>(port, header, data, length, peer, line);
		return ggas_block_status(status);
	}
}

} /* namespace ggas_impl */

/* Sends `length` (at most 120) bytes at `data` with a tag (8 bits) and a type (0 to 3). `data` is taken when the call
 * returns. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_velo_send(ggas_velo *port, gpu_velo_peer to, const void *data, uint32_t length, uint32_t tag,
			  uint32_t mtt = 0, uint32_t line = __builtin_LINE())
{
	if (length > EXTOLL_VELO_MAX_BYTES || tag > 0xff || mtt > 3 || !ggas_impl::velo_can_send(port))
		return GGAS_ERR_ARGUMENT;
	return ggas_impl::velo_send<Scope>(port, extoll_velo_header(to.node, to.vpid, mtt, tag, length), data, length,
					   to.node, line);
}

/* The same to VPID `to.vpid` on every node of multicast group `to.node`. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_velo_multicast(ggas_velo *port, gpu_velo_peer to, const void *data, uint32_t length, uint32_t tag,
			       uint32_t mtt = 0, uint32_t line = __builtin_LINE())
{
	if (length > EXTOLL_VELO_MAX_BYTES || tag > 0xff || mtt > 3 || !ggas_impl::velo_can_send(port))
		return GGAS_ERR_ARGUMENT;
	uint64_t header = extoll_velo_to_group(extoll_velo_header(to.node, to.vpid, mtt, tag, length));
	return ggas_impl::velo_send<Scope>(port, header, data, length, ~0u, line);
}

/* Waits until the card has taken every message sent so far. */
GGAS_FN int gpu_velo_drain(ggas_velo *port, uint32_t line = __builtin_LINE())
{
	if (!ggas_impl::velo_can_send(port))
		return GGAS_OK;
	if (int error = ggas_impl::velo_send_lock(port, line))
		return error;
	if (!port->page) {
		int error = ggas_impl::velo_await_slots(port, 0, ~0u, line);
		ggas_impl::velo_send_unlock(port);
		return error;
	}
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_WCB, port->node, ~0u, line);
	int status;
	uint32_t committed = 0;
	while ((status = ggas_impl::velo_replay(port, wait)) == GGAS_OK &&
	       (committed = extoll_wcb_committed(ggas_impl::velo_state(port))) != port->wp)
		if ((status = wait.again(reinterpret_cast<void *>(port->wcb_state), port->wp, committed)))
			break;
	ggas_impl::velo_send_unlock(port);
	return status;
}

#endif /* GGAS_IMPL_VELO_SEND_H */
