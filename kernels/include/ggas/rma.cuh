/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RMA from kernels: put, get and friends by writing descriptors, completion by
 * reading notifications (thesis 5.6).
 *
 *	__device__ int ping(ggas_port *port, gpu_rma2_peer peer, uint64_t from, uint64_t to)
 *	{
 *		if (int error = gpu_rma2_put(port, peer, from, to, 1024, EXTOLL_SPEC_COMPLETER))
 *			return error;
 *		extoll_noti pong;
 *		return gpu_rma2_noti_take(port, &pong);
 *	}
 *
 * Forms. Every post takes a scope: gpu_rma2_put<ggas_scope::warp>(...). In the
 * warp and block forms all threads of it call with the same arguments, one
 * posts, all get its result; the post comes after everything that any of them
 * did before. gpu_rma2_post_batch posts a descriptor per lane.
 *
 * Ordering. A post is a release at system scope: what the caller wrote before is
 * what the NIC reads. Reading a notification is an acquire: the data it tells of
 * is visible; so is what the poster had stored before to a window of that node. Cost: one system fence per post.
 *
 * Paths (design section 3). A port has a slot ring (ggas_port.slots, the model
 * only) or uses the card path: one WCB per VPID, posts take turns, first come, first served. A
 * congested card rejects descriptors; posts, drains and reads of an empty queue
 * post them again. A kernel that waits for anything but notifications, or ends,
 * calls gpu_rma2_drain first.
 *
 * Errors. GGAS_OK, GGAS_ERR_ARGUMENT (a size, node or VPID that the hardware does not know),
 * GGAS_ERR_TIMEOUT (reported in ggas_port.report), GGAS_ERR_POISONED (a slot was
 * claimed and the wait for it timed out; the host sets up the port again).
 */
#ifndef GGAS_RMA_CUH
#define GGAS_RMA_CUH

#include "extoll/desc.h"
#include "extoll/noti.h"
#include "vocab.h"

#include "impl/scope.h"
#include "impl/rma_card.h"
#include "impl/rma_slots.h"

/* The other end: a node and a VPID there. */
struct gpu_rma2_peer {
	uint32_t node, vpid;
};

namespace ggas_impl
{
/* By the card, or to a ring that is not ready. `ring` is this post's place: it has to be taken, or the ring stops. Takes
 * values: pointers would keep the caller's in memory. */
GGAS_COLD int post_late(ggas_port *port, slot_ring ring, extoll_desc desc, uint32_t line)
{
	return ring.slots ? slot_post_late(port, ring, desc, line) : card_post(port, desc, line);
}
GGAS_FN int post_at(ggas_port *port, const slot_ring &ring, const extoll_desc &desc, uint32_t line)
{
	if (GGAS_RARE(!ring.ready()))
		return post_late(port, ring, desc, line);
	slot_write(ring.slots, ring.mask, ring.index, desc, ring.near);
	return GGAS_OK;
}
} /* namespace ggas_impl */

/* Posts any descriptor. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_post(ggas_port *port, const extoll_desc &desc, uint32_t line = __builtin_LINE())
{
	if constexpr (Scope == ggas_scope::thread) {
		return ggas_impl::post_at(port, ggas_impl::slot_ring(port), desc, line);
	} else if constexpr (Scope == ggas_scope::warp) {
		int status = GGAS_OK;
		ggas_syncwarp();
		if (ggas_lane() == 0)
			status = gpu_rma2_post(port, desc, line);
		return ggas_warp_status(status);
	} else {
		int status = GGAS_OK;
		ggas_syncthreads();
		if (ggas_thread() == 0)
			status = gpu_rma2_post(port, desc, line);
		return ggas_block_status(status);
	}
}

/* All lanes of a warp call; those with `valid` post their own descriptor, in
 * lane order, with one claim on the slot ring (or one turn on the card path).
 * All lanes get the same result. */
GGAS_FN int gpu_rma2_post_batch(ggas_port *port, const extoll_desc &desc, bool valid = true,
				uint32_t line = __builtin_LINE())
{
	uint32_t lanes = ggas_ballot(GGAS_FULL_WARP, valid);
	if (lanes == 0)
		return GGAS_OK;
	return port->slots ? ggas_impl::slot_post_batch(port, desc, lanes, line) :
			     ggas_impl::card_post_batch(port, desc, lanes, line);
}

namespace ggas_impl
{
/* A descriptor has room for it: the rest would be cut off, and name another. */
GGAS_FN bool is_peer(gpu_rma2_peer to)
{
	return (to.node >> EXTOLL_DESC_NODE_BITS | to.vpid >> EXTOLL_DESC_VPID_BITS) == 0;
}

template <ggas_scope Scope>
GGAS_FN int post_sized(ggas_port *port, uint32_t command, gpu_rma2_peer to, uint64_t read, uint64_t write,
		       uint32_t bytes, uint32_t spec, uint32_t modifier, uint32_t line)
{
	if (bytes - 1 >= EXTOLL_MAX_TRANSFER || !is_peer(to))
		return GGAS_ERR_ARGUMENT;
	return gpu_rma2_post<Scope>(port, extoll_desc_sized(command, to.node, to.vpid, spec, modifier, read, write, bytes),
				    line);
}
} /* namespace ggas_impl */

/* Copies `bytes` (1 to 8 MiB) from NLA `local` to NLA `remote` of the peer. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_put(ggas_port *port, gpu_rma2_peer to, uint64_t local, uint64_t remote, uint32_t bytes,
			 uint32_t spec, uint32_t modifier = EXTOLL_MOD_NONE, uint32_t line = __builtin_LINE())
{
	return ggas_impl::post_sized<Scope>(port, EXTOLL_CMD_BT_PUT, to, local, remote, bytes, spec, modifier, line);
}

/* The same by quadwords: addresses and size are multiples of 8. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_put_qw(ggas_port *port, gpu_rma2_peer to, uint64_t local, uint64_t remote, uint32_t bytes,
			    uint32_t spec, uint32_t modifier = EXTOLL_MOD_NONE, uint32_t line = __builtin_LINE())
{
	return ggas_impl::post_sized<Scope>(port, EXTOLL_CMD_QW_PUT, to, local, remote, bytes, spec, modifier, line);
}

/* Copies `bytes` (1 to 8 MiB) from NLA `remote` of the peer to NLA `local`. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_get(ggas_port *port, gpu_rma2_peer from, uint64_t remote, uint64_t local, uint32_t bytes,
			 uint32_t spec, uint32_t modifier = EXTOLL_MOD_NONE, uint32_t line = __builtin_LINE())
{
	return ggas_impl::post_sized<Scope>(port, EXTOLL_CMD_BT_GET, from, remote, local, bytes, spec, modifier, line);
}

/* The same by quadwords: addresses and size are multiples of 8. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_get_qw(ggas_port *port, gpu_rma2_peer from, uint64_t remote, uint64_t local, uint32_t bytes,
			    uint32_t spec, uint32_t modifier = EXTOLL_MOD_NONE, uint32_t line = __builtin_LINE())
{
	return ggas_impl::post_sized<Scope>(port, EXTOLL_CMD_QW_GET, from, remote, local, bytes, spec, modifier, line);
}

/* Writes the low `count` (1 to 8) bytes of `value` to NLA `remote` of the peer. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_immediate_put(ggas_port *port, gpu_rma2_peer to, uint64_t value, uint32_t count, uint64_t remote,
				   uint32_t spec, uint32_t modifier = EXTOLL_MOD_NONE, uint32_t line = __builtin_LINE())
{
	if (count - 1 >= EXTOLL_MAX_IMMEDIATE || !ggas_impl::is_peer(to))
		return GGAS_ERR_ARGUMENT;
	return gpu_rma2_post<Scope>(port, extoll_desc_immediate_put(to.node, to.vpid, spec, modifier, count, remote, value),
				    line);
}

/* Sends `payload` and an 8-bit class as a notification; `spec` holds EXTOLL_SPEC_COMPLETER. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_notification_put(ggas_port *port, gpu_rma2_peer to, uint32_t noti_class, uint64_t payload,
				      uint32_t spec = EXTOLL_SPEC_COMPLETER, uint32_t modifier = EXTOLL_MOD_NONE,
				      uint32_t line = __builtin_LINE())
{
	if (noti_class > 0xff || !ggas_impl::is_peer(to))
		return GGAS_ERR_ARGUMENT;
	return gpu_rma2_post<Scope>(
		port, extoll_desc_notification_put(to.node, to.vpid, spec, modifier, noti_class, payload), line);
}

/* At the peer: if lock `number` <= `compare`, add `add` to it (spec 5). The
 * notification brings result and value. `to_responder`: which unit notifies there. */
template <ggas_scope Scope = ggas_scope::thread>
GGAS_FN int gpu_rma2_lock(ggas_port *port, gpu_rma2_peer to, uint32_t number, int32_t compare, int32_t add,
			  uint32_t spec = EXTOLL_SPEC_COMPLETER, bool to_responder = false,
			  uint32_t line = __builtin_LINE())
{
	if (number >> EXTOLL_DESC_LOCK_NUMBER_BITS || !ggas_impl::is_peer(to))
		return GGAS_ERR_ARGUMENT;
	return gpu_rma2_post<Scope>(
		port,
		extoll_desc_lock(to.node, to.vpid, spec, EXTOLL_MOD_NONE, to_responder, number, compare, add), line);
}

/* Waits until the card has taken every descriptor posted so far, and posts
 * again what it rejected. Nothing to do on a slot ring. */
GGAS_FN int gpu_rma2_drain(ggas_port *port, uint32_t line = __builtin_LINE())
{
	return port->slots ? GGAS_OK : ggas_impl::card_drain(port, line);
}

#include "impl/rma_noti.h"

#endif /* GGAS_RMA_CUH */
