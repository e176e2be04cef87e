/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The usual case: a put of whole words, of at most one packet, within a page at each end whose translation is at hand,
 * and room wherever it goes. A warp runs alone, so a message takes as long as the way through the code is: this one is
 * short, and its variables fit into registers. Whatever is not usual begins again in engine_send.cuh or
 * engine_receive.cuh, out of line and with copies: a variable that a call may change lies in memory. */
#ifndef GGAS_ENGINE_USUAL_CUH
#define GGAS_ENGINE_USUAL_CUH

#include "engine_report.cuh"
#include "engine_ring.cuh"

namespace engine
{

/* Words that a lane loads, and lines that it looks at, at a time where a packet has more lines than a warp. */
constexpr uint32_t LOADS = 4;
constexpr uint32_t LINES = 2;
/* Looks at lines that are not there yet, before others take over who bound the wait. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t LOOKS = 1;
#else
constexpr uint32_t LOOKS = 64;
#endif

/* Fields of word 0 that are the same in every usual put: not those of who, how much, and which notifications. */
GGAS_FN bool is_usual_word0(uint64_t word0)
{
	const uint64_t fields = EXTOLL_PUT(~0u, EXTOLL_DESC_QUADWORDS) | EXTOLL_PUT(~1u, EXTOLL_DESC_COMMAND) |
				EXTOLL_PUT(~0u, EXTOLL_DESC_MODIFIER) | EXTOLL_PUT(~(ENGINE_SEGMENT - 1u), EXTOLL_DESC_SIZE);
	const uint64_t usual = EXTOLL_PUT(EXTOLL_DESC_QUADWORDS, EXTOLL_DESC_QUADWORDS) |
			       EXTOLL_PUT(EXTOLL_CMD_BT_PUT, EXTOLL_DESC_COMMAND);
	return (word0 & fields) == usual;
}

/* Where the whole words at `nla` lie, if they are within a page that this warp has translated; else 0. */
GGAS_FN uint64_t usual_place(const warp &w, uint32_t vpid, uint64_t nla, uint32_t bytes, uint32_t access)
{
	const kept &place = kept_place(w.all, nla);
	uint64_t offset = nla & (PAGE - 1);
	bool fits = ((nla | bytes) & 7) == 0 && offset + bytes <= PAGE;
	return fits && place.key == kept_key(vpid, nla, access) ? place.address + offset : 0;
}

/* Second word of the last notification of a put, which is its only one (spec 3.1). */
GGAS_FN uint64_t usual_word1(uint32_t kind, uint64_t word0, uint32_t node, uint32_t vpid, uint32_t bytes)
{
	uint32_t last = (bytes - 1) / EXTOLL_FRAGMENT * EXTOLL_FRAGMENT;
	return extoll_noti_word1(kind, static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_COMMAND)), node, vpid,
				 EXTOLL_NOTI_MODE_TE, 0, bytes - last - 1);
}

/* Writes the notification of `bytes` at NLA `local`; false: no room is at hand. */
GGAS_FN bool usual_report(warp &w, uint32_t to, uint64_t local, uint32_t bytes, uint64_t word1, bool release)
{
	bool written = true;
	ggas_syncwarp();
	if (ggas_lane() == 0) {
		uint32_t entry = 0;
		written = take_entry(&w.all->queues[to], &entry);
		if (written)
			write_entry(w, to, entry, local + (bytes - extoll_noti_size(word1)), word1, release);
	}
	return ggas_ballot(GGAS_FULL_WARP, !written) == 0;
}

/* Sends a usual put of port `vpid`; false: it is not one, and nothing was done. */
GGAS_FN bool send_usual(warp &w, uint32_t vpid, uint64_t word0, uint64_t word1, uint64_t word2)
{
	uint32_t to = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_NODE));
	uint32_t bytes = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_SIZE)) + 1;
	if (!is_usual_word0(word0) || (word2 & 7) || to >= w.args.nodes)
		return false;
	auto *from = reinterpret_cast<const uint64_t *>(usual_place(w, vpid, word1, bytes, EXTOLL_GATE_READ));
	if (!from)
		return false;
	uint32_t lane = ggas_lane(), lines = HEADER + bytes / 8;
	uint64_t value = 0, first = ~0ull;
	if (lane >= HEADER && lane < lines)
		value = ggas_load_relaxed(from + lane - HEADER);
	/* While the load is under way: the header, and what the completer is going to say. */
	uint64_t says = usual_word1(EXTOLL_NOTI_KIND_COMPLETER, word0, w.args.node, vpid, bytes);
	uint64_t about = meta(w.args.node, vpid, PUT, bytes, true, 0);
	if (lane == 0)
		first = try_claim(&w.all->tail[ENGINE_REQUESTS][to], &w.all->credit[ENGINE_REQUESTS][to], lines);
	first = ggas_shfl(GGAS_FULL_WARP, first, 0);
	if (first == ~0ull)
		return false;
	engine_line *ring = ring_of(w.args, to, ENGINE_REQUESTS, w.args.node);
	value = lane == 0 ? word0 : lane == 1 ? word2 : lane == 2 ? says : lane == 3 ? about : value;
	if (lane < lines)
		store_line(ring, first + lane, value);
	GGAS_NO_UNROLL
	for (uint32_t begin = GGAS_WARP_SIZE; begin < lines; begin += LOADS * GGAS_WARP_SIZE) {
		uint64_t v[LOADS];
		GGAS_UNROLL
		for (uint32_t k = 0; k < LOADS; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + lane;
			if (i < lines)
				v[k] = ggas_load_relaxed(from + i - HEADER);
		}
		GGAS_UNROLL
		for (uint32_t k = 0; k < LOADS; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + lane;
			if (i < lines)
				store_line(ring, first + i, v[k]);
		}
	}
	return true;
}

/* Waits a while for Count times 32 lines of a packet from line `begin` on, of which `v` is what was seen before, and
 * gives line i to take(i, word). False: one of them is not there. */
template <uint32_t Count, class Take>
GGAS_FN bool look_for(const packet &p, uint32_t begin, uint32_t lines, ggas_u128 *v, const Take &take)
{
	GGAS_NO_UNROLL
	for (uint32_t look = 0;; look++) {
		bool missing = false;
		GGAS_UNROLL
		for (uint32_t k = 0; k < Count; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
			uint32_t at = (static_cast<uint32_t>(p.first) + i) % ENGINE_LINES;
			if (i < lines && v[k].hi != p.first + i + 1)
				v[k] = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&p.ring[at]));
		}
		GGAS_UNROLL
		for (uint32_t k = 0; k < Count; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
			missing |= i < lines && v[k].hi != p.first + i + 1;
		}
		if (!ggas_ballot(GGAS_FULL_WARP, missing))
			break;
		if (look == LOOKS)
			return false;
	}
	GGAS_UNROLL
	for (uint32_t k = 0; k < Count; k++) {
		uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
		if (i < lines)
			take(i, v[k].lo);
	}
	return true;
}

/* Takes in a usual put of which no segment went before; false: it is not one, and is to be taken from the start. */
GGAS_FN bool complete_usual(warp &w, const packet &p, uint64_t failed)
{
	const uint64_t fields = EXTOLL_PUT(~0u, ENGINE_META_KIND) | EXTOLL_PUT(~0u, ENGINE_META_LAST) |
				EXTOLL_PUT(~0u, ENGINE_META_ERROR);
	const uint64_t usual = EXTOLL_PUT(PUT, ENGINE_META_KIND) | EXTOLL_PUT(1, ENGINE_META_LAST);
	uint32_t bytes = static_cast<uint32_t>(EXTOLL_GET(p.h.word0, EXTOLL_DESC_SIZE)) + 1, vpid = p.vpid();
	if (!is_usual_word0(p.h.word0) || (p.h.meta & fields) != usual || p.bytes() != bytes || failed)
		return false;
	auto *to = reinterpret_cast<uint64_t *>(usual_place(w, vpid, p.h.address, bytes, EXTOLL_GATE_WRITE));
	if (!to)
		return false;
	bool notified = p.spec() & EXTOLL_SPEC_COMPLETER;
	if (notified && p.h.aux == 0)
		return false;
	uint32_t lane = ggas_lane(), lines = HEADER + bytes / 8;
	/* Where no notification says that all is there, the last word becomes visible last (spec 2.3). */
	uint32_t hold = notified || bytes == 8 ? ~0u : lines - 1;
	uint64_t held = 0;
	auto take = [&](uint32_t i, uint64_t value) {
		if (i == hold)
			held = value;
		else if (i >= HEADER)
			ggas_store_relaxed(to + i - HEADER, value);
	};
	ggas_u128 v = p.polled;
	if (!look_for<1>(p, 0, lines, &v, take))
		return false;
	GGAS_NO_UNROLL
	for (uint32_t begin = GGAS_WARP_SIZE; begin < lines; begin += LINES * GGAS_WARP_SIZE) {
		ggas_u128 more[LINES] = {};
		if (!look_for<LINES>(p, begin, lines, more, take))
			return false;
	}
	if (notified)
		return usual_report(w, vpid, p.h.address, bytes, p.h.aux, true);
	ggas_syncwarp();
	if (hold != ~0u && lane == hold % GGAS_WARP_SIZE) {
		w.fence_for(vpid);
		ggas_store_relaxed(to + hold - HEADER, held);
	}
	return true;
}

} /* namespace engine */

#endif /* GGAS_ENGINE_USUAL_CUH */
