/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Posting to a slot ring of the model (design section 3). */
#ifndef GGAS_IMPL_RMA_SLOTS_H
#define GGAS_IMPL_RMA_SLOTS_H

#include <stddef.h>

#include "extoll/desc.h"
#include "../vocab.h"

namespace ggas_impl
{

/* `Port` is ggas_port, or ggas_tn, whose entries are triggers. */

/* True once slot `index` may be written: its entry of the last round was
 * consumed. Reads host memory only when the value seen last says "full". */
template <typename Port>
GGAS_FN bool slot_free(Port *port, uint64_t index, uint64_t *seen)
{
	uint64_t slots = static_cast<uint64_t>(port->slot_mask) + 1;
	*seen = ggas_load_relaxed(&port->slot_seen);
	if (index - *seen < slots)
		return true;
	*seen = ggas_load_acquire(reinterpret_cast<const uint64_t *>(port->slot_consumed));
	ggas_store_relaxed(&port->slot_seen, *seen);
	return index - *seen < slots;
}

/* The NIC has taken all slots before `index`. With acquire: what was done before each of them was published is seen. */
template <typename Port> GGAS_FN bool slots_taken(Port *port, uint64_t index)
{
	uint64_t taken = ggas_load_acquire(reinterpret_cast<const uint64_t *>(port->slot_consumed));
	return static_cast<int64_t>(taken - index) >= 0;
}

/* Two 16-byte stores; the second publishes, and carries the post's one fence. Where an engine on this GPU takes the slot
 * (`near`), each store says for itself that it is there. The fence is one for the whole system there, too: what this
 * kernel stored to another GPU's window has come there before the engine, which sends packets without a fence of its
 * own, can see the slot (`ggas bench litmus-post`). */
GGAS_FN void slot_write(uint64_t slots, uint64_t mask, uint64_t index, const extoll_desc &desc, bool near)
{
	if (near) {
		ggas_near_slot *slot = reinterpret_cast<ggas_near_slot *>(slots) + (index & mask);
		ggas_fence_release();
		for (int i = 0; i < 3; i++)
			ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(slot->line[i]),
					   ggas_u128{ desc.word[i], index + 1 });
		return;
	}
	ggas_slot *slot = reinterpret_cast<ggas_slot *>(slots) + (index & mask);
	ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&slot->word[0]), ggas_u128{ desc.word[0], desc.word[1] });
	ggas_store_release(reinterpret_cast<ggas_u128 *>(&slot->word[2]), ggas_u128{ desc.word[2], index + 1 });
}

/* A slot that was claimed and will not be written stops the ring for good. */
template <typename Port>
GGAS_FN int slot_poison(Port *port)
{
	ggas_store_relaxed(&port->poisoned, 1u);
	return GGAS_ERR_TIMEOUT;
}

/* Where slots are, which does not change. */
struct slot_shape {
	uint64_t slots;
	uint32_t mask, near;

	slot_shape() = default;
	template <typename Port> GGAS_FN explicit slot_shape(const Port *port)
	{
		static_assert(offsetof(Port, slots) % sizeof(ggas_u128) == 0 &&
				      offsetof(Port, slot_mask) == offsetof(Port, slots) + 8 &&
				      offsetof(Port, slots_near) == offsetof(Port, slots) + 12,
			      "one access loads them");
		ggas_u128 words = *reinterpret_cast<const ggas_u128 *>(&port->slots);
		slots = words.lo;
		mask = static_cast<uint32_t>(words.hi);
		near = static_cast<uint32_t>(words.hi >> 32);
	}
};

/* What a post reads of its port first, and its place in the ring: all under way together, since each is a trip to the
 * GPU's L2. A post that finds `slots` 0 takes the card path, where the place means nothing. */
struct slot_ring : slot_shape {
	enum claimed { later };
	uint64_t seen, poisoned;
	uint64_t index;		/* taken last: the hardware waits for it before what follows */

	/* The place is claimed later. */
	template <typename Port>
	GGAS_FN slot_ring(Port *port, const slot_shape &shape, claimed) : slot_shape(shape), index(0)
	{
		static_assert(offsetof(Port, slot_seen) % sizeof(ggas_u128) == 0 &&
				      offsetof(Port, poisoned) == offsetof(Port, slot_seen) + 8,
			      "one access loads them");
		ggas_u128 words = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&port->slot_seen));
		seen = words.lo;
		poisoned = words.hi;
	}
	template <typename Port> GGAS_FN void claim(Port *port)
	{
		index = ggas_atomic_add(&port->slot_tail, 1u, ggas_order::relaxed);
	}
	template <typename Port> GGAS_FN slot_ring(Port *port, const slot_shape &shape) : slot_ring(port, shape, later)
	{
		claim(port);
	}
	template <typename Port> GGAS_FN explicit slot_ring(Port *port) : slot_ring(port, slot_shape(port)) {}

	/* Whether the slot may be written without another look. All that can be in the way is one branch of a post. */
	GGAS_FN bool ready() const { return (slots != 0) & (poisoned == 0) & (index - seen <= mask); }
};

/* The ring was full when it was looked at. */
template <typename Port> GGAS_FN int slot_await(Port *port, uint64_t index, uint32_t line)
{
	uint64_t seen = 0;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_SLOT, port->node, ~0u, line);
	while (!slot_free(port, index, &seen))
		if (wait.again(reinterpret_cast<void *>(port->slot_consumed), index - port->slot_mask, seen))
			return slot_poison(port);
	return GGAS_OK;
}

/* A post to a ring that is not ready(). */
template <typename Port> GGAS_COLD int slot_post_late(Port *port, slot_ring ring, extoll_desc desc, uint32_t line)
{
	if (ring.poisoned)
		return GGAS_ERR_POISONED;
	if (ring.index - ring.seen > ring.mask)
		if (int error = slot_await(port, ring.index, line))
			return error;
	slot_write(ring.slots, ring.mask, ring.index, desc, ring.near);
	return GGAS_OK;
}

template <typename Port>
GGAS_FN int slot_post(Port *port, const slot_ring &ring, const extoll_desc &desc, uint32_t line)
{
	if (GGAS_RARE(!ring.ready()))
		return slot_post_late(port, ring, desc, line);
	slot_write(ring.slots, ring.mask, ring.index, desc, ring.near);
	return GGAS_OK;
}

/* One claim for the descriptors of all `lanes`. A lane writes as soon as its
 * slot is free, inside the loop: the ring may be smaller than the batch, and
 * then later lanes wait for slots that earlier lanes fill. */
GGAS_FN int slot_post_batch(ggas_port *port, const extoll_desc &desc, uint32_t lanes, uint32_t line)
{
	uint64_t first = 0;
	int status = GGAS_OK;
	if (ggas_lane() == 0) {
		if (ggas_load_relaxed(&port->poisoned))
			status = GGAS_ERR_POISONED;
		else
			first = ggas_atomic_add(&port->slot_tail, ggas_popc(lanes), ggas_order::relaxed);
	}
	status = ggas_warp_status(status);
	first = ggas_shfl(GGAS_FULL_WARP, first, 0);
	if (status)
		return status;

	uint64_t index = first + ggas_popc(lanes & ((1u << ggas_lane()) - 1)), seen = 0;
	bool waiting = lanes >> ggas_lane() & 1;
	ggas_wait wait(port->report, port->timeout_ns, GGAS_WAIT_SLOT, port->node, ~0u, line);
	while (ggas_ballot(GGAS_FULL_WARP, waiting) != 0) {
		if (waiting && slot_free(port, index, &seen)) {
			slot_write(port->slots, port->slot_mask, index, desc, port->slots_near);
			waiting = false;
		} else if (waiting && wait.again(reinterpret_cast<void *>(port->slot_consumed),
						 index - port->slot_mask, seen)) {
			status = slot_poison(port);
			waiting = false;
		}
	}
	return ggas_ballot(GGAS_FULL_WARP, status != 0) ? GGAS_ERR_TIMEOUT : GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_RMA_SLOTS_H */
