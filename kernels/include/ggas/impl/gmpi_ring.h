/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rings of one port, from the kernel's side (GMPI paper, III B).
 *
 * Attribute r has slot r & mask, and its answer the slot of the same number in the other ring. Answers come in order, and
 * a kernel writes attribute r + entries only once it has read answer r. So neither ring can overrun, and nobody reads the
 * other's head: the paper's four counters are two. In the tagged form there is none: each 16 bytes carry their number.
 *
 * Order. Counted: elements (one coalesced store of the warp), then the counter with release at system scope, which also
 * covers what the caller's threads wrote before. Tagged: lanes store their 16 bytes, lane 0 with release where the call hands
 * memory over; the reader takes an attribute only once it has seen all lines that it needs, lane 0's among them. Answers the same
 * way round. Without release nothing of the answer is read late: an answer's elements are used before the next attribute is written.
 */
#ifndef GGAS_IMPL_GMPI_RING_H
#define GGAS_IMPL_GMPI_RING_H

#include "gmpi_team.h"

namespace ggas_impl
{

GGAS_FN uint64_t gmpi_slot(const gmpi_port *port, uint64_t number)
{
	uint64_t bytes = port->form == GMPI_FORM_TAGGED ? GMPI_ELEMENTS * sizeof(ggas_u128)
							: GMPI_ELEMENTS * sizeof(uint64_t);
	return (number & port->mask) * bytes;
}

/* Element `index` of an answer that was waited for. The daemon writes element 0 last, so by whoever has met with the one
 * that waited. */
GGAS_FN uint64_t gmpi_element(const gmpi_port *port, uint64_t number, uint32_t index)
{
	uint64_t slot = port->answers + gmpi_slot(port, number);
	if (port->form != GMPI_FORM_TAGGED)
		return ggas_load_relaxed(reinterpret_cast<const uint64_t *>(slot) + index);
	return ggas_load_relaxed(&(reinterpret_cast<const ggas_u128 *>(slot) + index)->lo);
}

/* Whether answer `number` is there; in the tagged form its element 0, too, by the same look across the bus. With acquire only behind
 * gmpi_answered. */
GGAS_FN bool gmpi_is_answered(const gmpi_port *port, uint64_t number, uint64_t *answer)
{
	if (port->form == GMPI_FORM_TAGGED) {
		auto *first = reinterpret_cast<const ggas_u128 *>(port->answers + gmpi_slot(port, number));
		ggas_u128 line = ggas_watch_line(first);
		*answer = line.lo;
		return line.hi == number + 1;
	}
	return ggas_load_watched(reinterpret_cast<const uint64_t *>(port->answer_tail)) > number;
}

/* The part of a wait that takes long. By one thread. */
GGAS_COLD int gmpi_wait_long(const gmpi_buf *buf, gmpi_port *port, uint64_t number, uint32_t call, uint32_t line)
{
	ggas_wait wait(buf->report, buf->timeout_ns, GGAS_WAIT_ANSWER, buf->rank, ~0u, line);
	uint64_t answer = 0;
	while (!gmpi_is_answered(port, number, &answer))
		if (wait.again(reinterpret_cast<const void *>(static_cast<uint64_t>(call)), number + 1, port->taken)) {
			ggas_store_relaxed(&port->broken, 1u);
			return GMPI_ERR_DAEMON;
		}
	return GMPI_SUCCESS;
}

/* Waits for answer `number`, with acquire; element 0 of it. By one thread. */
GGAS_FN int gmpi_answered(const gmpi_buf *buf, gmpi_port *port, uint64_t number, uint32_t call, uint32_t line, uint64_t *answer)
{
	bool there = false;
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < quick_polls && !there; i++)
		there = gmpi_is_answered(port, number, answer);
	if (!there) {
		if (int error = gmpi_wait_long(buf, port, number, call, line))
			return error;
		gmpi_is_answered(port, number, answer);
	}
	ggas_fence_acquire();
	if (port->form != GMPI_FORM_TAGGED)
		*answer = gmpi_element(port, number, 0);
	return GMPI_SUCCESS;
}

GGAS_FN int gmpi_error_of(uint64_t answer)
{
	return static_cast<int>(answer & ((1u << GMPI_ANSWER_ERROR_BITS) - 1));
}

/* Reads answers that nobody waited for, up to but not with `number`, and keeps the first error. By one thread. */
GGAS_FN int gmpi_take_before(const gmpi_buf *buf, gmpi_port *port, uint64_t number, uint32_t call, uint32_t line)
{
	GGAS_NO_UNROLL
	while (port->taken < number) {
		uint64_t answer = 0;
		if (int error = gmpi_answered(buf, port, port->taken, call, line, &answer))
			return error;
		int error = gmpi_error_of(answer);
		if (error && !port->error)
			port->error = static_cast<uint32_t>(error);
		port->taken++;
	}
	return GMPI_SUCCESS;
}

/* Room for one more attribute; bounded. By one thread. */
GGAS_FN int gmpi_room(const gmpi_buf *buf, gmpi_port *port, uint32_t call, uint32_t line)
{
	if (port->broken)
		return GMPI_ERR_DAEMON;
	if (port->sent - port->taken <= port->mask)
		return GMPI_SUCCESS;
	return gmpi_take_before(buf, port, port->taken + 1, call, line);
}

/* Which function element 0 names. */
GGAS_FN uint32_t gmpi_function(uint64_t call) { return static_cast<uint32_t>(call) & ((1u << GMPI_CALL_BITS) - 1); }

/* Whether memory that the callers wrote, or read, is another's with the call that element 0 names. Of requests that were begun before it is
 * since then, a message that the attribute carries is read, and a release takes one to two microseconds. */
GGAS_FN bool gmpi_hands_over(uint64_t first)
{
	uint32_t call = gmpi_function(first);
	if (first >> GMPI_CALL_BYTES_SHIFT)
		return call != GMPI_CALL_SEND && call != GMPI_CALL_ISEND;
	auto bit = [](uint32_t of) { return uint64_t(1) << of; };
	uint64_t not_so = bit(GMPI_CALL_WAIT) | bit(GMPI_CALL_WAITALL) | bit(GMPI_CALL_WAITANY) | bit(GMPI_CALL_WAITSOME) |
			  bit(GMPI_CALL_TEST) | bit(GMPI_CALL_TESTALL) | bit(GMPI_CALL_TESTANY) | bit(GMPI_CALL_TESTSOME) |
			  bit(GMPI_CALL_GET_STATUS) | bit(GMPI_CALL_PROBE) | bit(GMPI_CALL_IPROBE) | bit(GMPI_CALL_COMM_PLACE) |
			  bit(GMPI_CALL_ECHO);
	return !(not_so >> call & 1);
}

/* Writes attribute `number`, whose elements `element` says: by all lanes together. */
template <class Team, class Element>
GGAS_FN void gmpi_write(gmpi_port *port, uint64_t number, uint32_t elements, Element element)
{
	uint64_t slot = port->requests + gmpi_slot(port, number);
	if (port->form != GMPI_FORM_TAGGED) {
		for (uint32_t i = Team::lane(); i < elements; i += Team::lanes())
			ggas_store_relaxed(reinterpret_cast<uint64_t *>(slot) + i, element(i));
		Team::meet();
		if (Team::lane() == 0)
			ggas_store_release(reinterpret_cast<uint64_t *>(port->request_tail), number + 1);
		return;
	}
	auto *lines = reinterpret_cast<ggas_u128 *>(slot);
	for (uint32_t i = Team::lane(); i < elements; i += Team::lanes()) {
		ggas_u128 whole = { element(i), number + 1 };
		if (i == 0 && gmpi_hands_over(whole.lo))
			ggas_store_release(lines, whole);
		else
			ggas_store_relaxed(lines + i, whole);
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_RING_H */
