/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Receiving; included by velo.cuh. */
#ifndef GGAS_IMPL_VELO_RECEIVE_H
#define GGAS_IMPL_VELO_RECEIVE_H

namespace ggas_impl
{

GGAS_FN void velo_service(ggas_velo *port);

/* Words of slot `index`. */
GGAS_FN uint64_t *velo_slot(const ggas_velo *port, uint32_t index)
{
	return reinterpret_cast<uint64_t *>(port->mailbox + static_cast<uint64_t>(index) * port->slot_bytes);
}

GGAS_FN uint64_t *velo_status(const ggas_velo *port, uint32_t index)
{
	return velo_slot(port, index) + port->slot_bytes / 8 - 1;
}

GGAS_FN uint32_t velo_next(const ggas_velo *port, uint32_t index)
{
	return index + 1 == port->slots ? 0 : index + 1;
}

/* The last word of payload of slot `index`, and its status: one access on a GPU, so that a
 * message of one word costs one trip to the mailbox. */
GGAS_FN ggas_u128 velo_end(const ggas_velo *port, uint32_t index)
{
	return ggas_load_entry(reinterpret_cast<const ggas_u128 *>(velo_status(port, index) - 1));
}

/* The last `here` words of a slot of `words` before its status. `end` is what was read of
 * its end. All loads are under way before the first is used: each is a trip over PCIe
 * where the mailbox lies in host memory. */
GGAS_FN void velo_read(const uint64_t *slot, uint32_t words, uint32_t here, ggas_u128 end, uint64_t *to)
{
	constexpr uint32_t pairs = GGAS_VELO_WORDS / 2;
	ggas_u128 pair[pairs];
	uint32_t first = words - here;
GGAS_UNROLL
	for (uint32_t i = 0; i < pairs; i++)
		if (2 * i + 1 < words && 2 * i + 1 >= first)
			pair[i] = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(slot) + i);
GGAS_UNROLL
	for (uint32_t i = 0; i < pairs; i++) {
		if (2 * i + 1 < words && 2 * i >= first)
			to[2 * i - first] = pair[i].lo;
		if (2 * i + 1 < words && 2 * i + 1 >= first)
			to[2 * i + 1 - first] = pair[i].hi;
	}
	if (here != 0)
		to[here - 1] = end.lo;
}

/* The end of the oldest message's first slot, and the message's slots, if all of it is
 * there; a status of 0: there is none. */
GGAS_FN ggas_u128 velo_look(const ggas_velo *port, uint32_t *slots)
{
	ggas_u128 end = velo_end(port, port->rp);
	uint64_t status = end.hi;
	if (status == 0)
		return end;
	uint32_t length = extoll_velo_status_length(status);
	if (length > EXTOLL_VELO_MAX_BYTES)
		length = EXTOLL_VELO_MAX_BYTES;
	*slots = extoll_velo_status_end(status) ? 1 : extoll_velo_slots(port->slot_bytes, length);
	uint32_t last = port->rp;
	for (uint32_t i = 1; i < *slots; i++) {
		last = velo_next(port, last);
		if (ggas_load_acquire(velo_status(port, last)) == 0)
			return { 0, 0 };
	}
	return end;
}

/* Gives `slots` slots from the head back. The read pointer goes to the card with
 * release, so that no zero can overwrite a new status; rp_lazy saves the fence. */
GGAS_FN void velo_free(ggas_velo *port, uint32_t slots)
{
	uint32_t next = port->rp;
	for (uint32_t i = 0; i < slots; i++) {
		ggas_store_relaxed(velo_status(port, next), 0u);
		next = velo_next(port, next);
	}
	port->rp = next;
	uint32_t unwritten = next - port->rp_written + (next < port->rp_written ? port->slots : 0);
	if (unwritten < port->rp_lazy)
		return;
	ggas_fence_system();
	ggas_store_mmio(reinterpret_cast<uint64_t *>(port->rp_register), next);
	port->rp_written = next;
}

} /* namespace ggas_impl */

/* Takes the oldest message, if there is one. */
GGAS_FN bool gpu_velo_poll(ggas_velo *port, gpu_velo_message *message)
{
	uint32_t slots;
	ggas_u128 end = ggas_impl::velo_look(port, &slots);
	uint64_t status = end.hi;
	if (status == 0) {
		ggas_impl::velo_service(port);
		return false;
	}
	uint32_t length = extoll_velo_status_length(status);
	message->length = length > EXTOLL_VELO_MAX_BYTES ? EXTOLL_VELO_MAX_BYTES : length;
	message->source = { extoll_velo_status_node(status), extoll_velo_status_vpid(status) };
	message->tag = extoll_velo_status_tag(status);
	message->mtt = extoll_velo_status_mtt(status);
	message->error = extoll_velo_status_error(status);
	uint32_t left = extoll_velo_quadwords(message->length), each = port->slot_bytes / 8 - 1, at = 0;
	uint32_t slot = port->rp;
	for (uint32_t i = 0; i < slots; i++) {
		uint32_t here = left < each ? left : each;
		if (i != 0)
			end = ggas_impl::velo_end(port, slot);
		ggas_impl::velo_read(ggas_impl::velo_slot(port, slot), each, here, end, message->word + at);
		at += here;
		left -= here;
		slot = ggas_impl::velo_next(port, slot);
	}
	ggas_impl::velo_free(port, slots);
	return true;
}

/* Waits for the oldest message and takes it. GGAS_ERR_NOTIFICATION: it was damaged on
 * its way, do not trust its bytes. */
GGAS_FN int gpu_velo_receive(ggas_velo *port, gpu_velo_message *message, uint32_t line = __builtin_LINE())
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_MESSAGE, port->node, ~0u, line);
	while (!gpu_velo_poll(port, message))
		if (int error = wait.again(ggas_impl::velo_status(port, port->rp), 1, 0))
			return error;
	return message->error ? GGAS_ERR_NOTIFICATION : GGAS_OK;
}

/* For kernels whose blocks share a port's mailbox: from lock to unlock the calling
 * thread is the receiver. */
GGAS_FN int gpu_velo_lock(ggas_velo *port, uint32_t line = __builtin_LINE())
{
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_LOCK, port->node, ~0u, line);
	while (ggas_atomic_cas(&port->receive_lock, 0u, 1u, ggas_order::acquire) != 0)
		if (int error = wait.again(&port->receive_lock, 0, 1))
			return error;
	return GGAS_OK;
}
GGAS_FN void gpu_velo_unlock(ggas_velo *port)
{
	ggas_store_release(&port->receive_lock, 0u);
}

#endif /* GGAS_IMPL_VELO_RECEIVE_H */
