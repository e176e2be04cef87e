/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Posting descriptors to the card's requester pages. */
#ifndef GGAS_IMPL_RMA_CARD_H
#define GGAS_IMPL_RMA_CARD_H

#include "card_wcb.h"

namespace ggas_impl
{

/* Writes one descriptor once the ring has room. In its turn. */
GGAS_FN int card_write(ggas_port *port, const extoll_desc &desc, uint32_t line)
{
	if (int error = wcb_await_room(port, ~0u, line))
		return error;
	ggas_replay &entry = port->replay[port->wp & wcb_ring];
	entry.word[0] = desc.word[0];
	entry.word[1] = desc.word[1];
	entry.word[2] = desc.word[2];
	entry.page = port->req_pages + (static_cast<uint64_t>(port->option) << EXTOLL_PAGE_OPTION_SHIFT);
	wcb_write(port);
	return GGAS_OK;
}

GGAS_FN int card_post(ggas_port *port, const extoll_desc &desc, uint32_t line)
{
	if (int error = wcb_lock(port, line))
		return error;
	int status = card_write(port, desc, line);
	wcb_unlock(port);
	return status;
}

/* Lane 0 writes for all `lanes`: a WCB takes one descriptor at a time. */
GGAS_FN int card_post_batch(ggas_port *port, const extoll_desc &desc, uint32_t lanes, uint32_t line)
{
	int status = GGAS_OK;
	ggas_syncwarp();
	if (ggas_lane() == 0)
		status = wcb_lock(port, line);
	bool locked = status == GGAS_OK;
	for (uint32_t lane = 0; lane < GGAS_WARP_SIZE; lane++) {
		extoll_desc one;
		for (int word = 0; word < 3; word++)
			one.word[word] = ggas_shfl(GGAS_FULL_WARP, desc.word[word], lane);
		if (ggas_lane() == 0 && status == GGAS_OK && (lanes >> lane & 1))
			status = card_write(port, one, line);
	}
	if (ggas_lane() == 0 && locked)
		wcb_unlock(port);
	return ggas_warp_status(status);
}

GGAS_FN void card_service(ggas_port *port)
{
	wcb_service(port, port->timeout_ns);
}

GGAS_FN int card_drain(ggas_port *port, uint32_t line)
{
	if (int error = wcb_lock(port, line))
		return error;
	int status = wcb_drain(port, line);
	wcb_unlock(port);
	return status;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_RMA_CARD_H */
