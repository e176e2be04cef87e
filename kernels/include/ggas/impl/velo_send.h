/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sending; included by velo.cuh. */
#ifndef GGAS_IMPL_VELO_SEND_H
#define GGAS_IMPL_VELO_SEND_H

#include "card_wcb.h"

namespace ggas_impl
{

GGAS_FN bool velo_can_send(const ggas_velo *port)
{
	return port->page || port->send_slots;
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
 * only when the value seen last says that it has not. In its turn. */
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
 * there. The last store publishes it. In its turn. */
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

/* Writes one message once the ring has room. In its turn. */
GGAS_FN int velo_write(ggas_velo *port, uint64_t header, const uint8_t *bytes, uint32_t length, uint32_t peer,
		       uint32_t line)
{
	if (int error = wcb_await_room(port, peer, line))
		return error;
	ggas_velo_line &entry = port->replay[port->wp & wcb_ring];
	uint32_t quads = extoll_velo_quadwords(length);
	entry.word[0] = header;
	entry.words = 1 + quads;
	for (uint32_t i = 0; i < quads; i++)
		entry.word[1 + i] = velo_word(bytes, length, i);
	wcb_write(port);
	return GGAS_OK;
}

/* For receivers. */
GGAS_FN void velo_service(ggas_velo *port)
{
	/* One round only: whoever polls must go on receiving, or two full mailboxes would wait for each other. */
	if (port->page)
		wcb_service(port, 0);
}

template <ggas_scope Scope>
GGAS_FN int velo_send(ggas_velo *port, uint64_t header, const void *data, uint32_t length, uint32_t peer,
		      uint32_t line)
{
	if constexpr (Scope == ggas_scope::thread) {
		if (int error = wcb_lock(port, line))
			return error;
		const uint8_t *bytes = static_cast<const uint8_t *>(data);
		int status = port->page ? velo_write(port, header, bytes, length, peer, line) :
					  velo_write_slot(port, header, bytes, length, peer, line);
		wcb_unlock(port);
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
	if (int error = ggas_impl::wcb_lock(port, line))
		return error;
	int status = port->page ? ggas_impl::wcb_drain(port, line) : ggas_impl::velo_await_slots(port, 0, ~0u, line);
	ggas_impl::wcb_unlock(port);
	return status;
}

#endif /* GGAS_IMPL_VELO_SEND_H */
