/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The fast path: a put of whole words, of at most one packet, whose pages at each end have translations at hand, and
 * room wherever it goes. A warp runs alone, so a message takes as long as the way through the code is: this one is short,
 * and its variables fit into registers. Whatever the fast path does not take begins again in engine_send.cuh or
 * engine_receive.cuh, out of line and with copies: a variable that a call may change lies in memory. */
#ifndef GGAS_ENGINE_FAST_CUH
#define GGAS_ENGINE_FAST_CUH

#include "engine_report.cuh"
#include "engine_team.cuh"

namespace engine
{

/* Batches of lines behind the first 32 that are loaded, or looked at, before there is anything else to do for them; two
 * such, of which shorter packets have one. What is behind them is work for a team. */
constexpr uint32_t AHEAD = 2;
constexpr uint32_t NEXT = GGAS_WARP_SIZE, THEN = (1 + AHEAD) * GGAS_WARP_SIZE, OWN = (1 + 2 * AHEAD) * GGAS_WARP_SIZE;

/* Fields of word 0 that are the same in every fast-path put: not those of who, how much, and which notifications. */
GGAS_FN bool is_fast_word0(uint64_t word0)
{
	const uint64_t fields = EXTOLL_PUT(~0u, EXTOLL_DESC_QUADWORDS) | EXTOLL_PUT(~1u, EXTOLL_DESC_COMMAND) |
				EXTOLL_PUT(~0u, EXTOLL_DESC_MODIFIER) | EXTOLL_PUT(~(ENGINE_SEGMENT - 1u), EXTOLL_DESC_SIZE);
	const uint64_t expected = EXTOLL_PUT(EXTOLL_DESC_QUADWORDS, EXTOLL_DESC_QUADWORDS) |
			       EXTOLL_PUT(EXTOLL_CMD_BT_PUT, EXTOLL_DESC_COMMAND);
	return (word0 & fields) == expected;
}

/* Where the whole words at `nla` lie, at most a packet's, if this warp has translated their pages. */
GGAS_FN bool fast_place(const warp &w, uint32_t vpid, uint64_t nla, uint32_t bytes, uint32_t access, place *at)
{
	const kept &page = kept_place(w.all, nla);
	uint32_t offset = static_cast<uint32_t>(nla & (PAGE - 1));
	if (((nla | bytes) & 7) || page.key != kept_key(vpid, nla, access))
		return false;
	at->first = at->second = page.address + offset;
	at->turn = ~0u;
	if (offset + bytes <= PAGE)
		return true;
	const kept &next = kept_place(w.all, nla + PAGE);
	at->turn = (static_cast<uint32_t>(PAGE) - offset) / 8;
	at->second = next.address - 8ull * at->turn;
	return next.key == kept_key(vpid, nla + PAGE, access);
}

/* Second word of the last notification of a put, which is its only one (spec 3.1). */
GGAS_FN uint64_t fast_word1(uint32_t kind, uint64_t word0, uint32_t node, uint32_t vpid, uint32_t bytes)
{
	uint32_t last = (bytes - 1) / EXTOLL_FRAGMENT * EXTOLL_FRAGMENT;
	return extoll_noti_word1(kind, static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_COMMAND)), node, vpid,
				 EXTOLL_NOTI_MODE_TE, 0, bytes - last - 1);
}

/* Last line of the header of a fast-path put. */
GGAS_FN uint64_t fast_meta(uint32_t node, uint32_t vpid, uint32_t bytes, uint64_t word0)
{
	uint64_t notified = EXTOLL_GET(word0, EXTOLL_DESC_SPEC) & EXTOLL_SPEC_COMPLETER ? 1 : 0;
	return meta(node, vpid, PUT, bytes, true, 0) | EXTOLL_PUT(1, ENGINE_META_FAST) |
	       EXTOLL_PUT(notified, ENGINE_META_NOTIFIED) |
	       EXTOLL_PUT(EXTOLL_GET(word0, EXTOLL_DESC_VPID), ENGINE_META_TO);
}

/* Writes the notification of `bytes` at NLA `local`; false: no room is at hand. */
GGAS_FN bool fast_report(warp &w, uint32_t to, uint64_t local, uint32_t bytes, uint64_t word1, bool release)
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

constexpr uint64_t NO_PAGE = ~0ull;

/* What a warp found out about the last fast-path put that it sent, if within a page: most likely the next one is like it. */
struct like_last {
	uint64_t word0;
	uint64_t page, base;	/* it lies at; NO_PAGE: there was none since the host said something */
	uint64_t says, about;	/* of the header */
	uint32_t vpid;
};

/* Sends a fast-path put of port `vpid`; false: it is not one, and nothing was done. */
GGAS_FN bool send_fast(warp &w, like_last &last, uint32_t vpid, uint64_t word0, uint64_t word1, uint64_t word2)
{
	uint32_t to = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_NODE));
	uint32_t bytes = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_SIZE)) + 1;
	uint32_t lane = ggas_lane(), offset = static_cast<uint32_t>(word1 & (PAGE - 1));
	work of;
	of.lines = HEADER + bytes / 8;
	bool known = word0 == last.word0 && (word1 & ~(PAGE - 1)) == last.page && vpid == last.vpid &&
		     ((word1 | word2) & 7) == 0 && offset + bytes <= PAGE;
	if (known) {
		of.place = { last.base + offset, last.base + offset, ~0u };
	} else {
		if (!is_fast_word0(word0) || (word2 & 7) || to >= w.args.nodes ||
		    !fast_place(w, vpid, word1, bytes, EXTOLL_GATE_READ, &of.place))
			return false;
	}
	/* By all lanes: whatever only some of them load is waited for at once. */
	uint32_t mine = lane >= HEADER && lane < of.lines ? lane - HEADER : 0;
	uint64_t value = ggas_load_relaxed(of.place.address(mine)), more[AHEAD], rest[AHEAD];
	if (of.lines > NEXT)
		load_words<AHEAD>(of, NEXT, GGAS_WARP_SIZE, more);
	if (of.lines > THEN)
		load_words<AHEAD>(of, THEN, GGAS_WARP_SIZE, rest);
	/* While the loads are under way: the header, and what the completer is going to say. */
	if (!known) {
		last.word0 = word0;
		last.page = of.place.turn == ~0u ? word1 & ~(PAGE - 1) : NO_PAGE;
		last.base = of.place.first - offset;
		last.vpid = vpid;
		last.says = fast_word1(EXTOLL_NOTI_KIND_COMPLETER, word0, w.args.node, vpid, bytes);
		last.about = fast_meta(w.args.node, vpid, bytes, word0);
	}
	of.first = ~0ull;
	if (lane == 0)
		of.first = try_claim(&w.all->tail[ENGINE_REQUESTS][to], &w.all->credit[ENGINE_REQUESTS][to], of.lines);
	of.first = ggas_shfl(GGAS_FULL_WARP, of.first, 0);
	if (of.first == ~0ull)
		return false;
	engine_line *ring = ring_of(w.args, to, ENGINE_REQUESTS, w.args.node);
	value = lane == 0 ? word0 : lane == 1 ? word2 : lane == 2 ? last.says : lane == 3 ? last.about : value;
	if (lane < of.lines)
		store_line(ring, of.first + lane, value);
	of.ring = ring;
	of.begin = OWN;
	bool helped = of.lines > OWN && enlist(w, SENDERS, of);
	if (of.lines > NEXT)
		store_lines<AHEAD>(of, NEXT, GGAS_WARP_SIZE, more);
	if (of.lines > THEN)
		store_lines<AHEAD>(of, THEN, GGAS_WARP_SIZE, rest);
	if (helped)
		dismiss(w, SENDERS);
	else if (of.lines > OWN)
		send_part<LEADERS_BATCH>(of, 0, 1);
	return true;
}

/* Takes in a fast-path put that has lines which are not there yet, or more than a warp has lanes, or no notification that
 * says that all is there. False: it takes too long. */
GGAS_FN bool take_long(warp &w, const packet &p, const work &all_of, uint32_t vpid, bool notified)
{
	work of = all_of;
	ggas_u128 more[AHEAD] = {}, rest[AHEAD] = {};
	if (of.lines > NEXT)
		look_at<AHEAD>(of, NEXT, GGAS_WARP_SIZE, more);
	if (of.lines > THEN)
		look_at<AHEAD>(of, THEN, GGAS_WARP_SIZE, rest);
	/* The last word becomes visible last (spec 2.3). */
	uint32_t hold = notified || of.lines == HEADER + 1 ? ~0u : of.lines - 1;
	if (hold != ~0u)
		of.lines = hold;
	auto take = [&](uint32_t i, uint64_t value) {
		if (i >= HEADER)
			ggas_store_relaxed(of.place.address(i - HEADER), value);
	};
	bool helped = of.lines > OWN && enlist(w, TAKERS, of);
	ggas_u128 v = p.polled;
	bool there = take_lines<1>(of, 0, GGAS_WARP_SIZE, &v, take);
	if (there && of.lines > NEXT)
		there = take_lines<AHEAD>(of, NEXT, GGAS_WARP_SIZE, more, take);
	if (there && of.lines > THEN)
		there = take_lines<AHEAD>(of, THEN, GGAS_WARP_SIZE, rest, take);
	if (helped)
		there &= dismiss(w, TAKERS);
	else if (there && of.lines > OWN)
		there = take_part<LEADERS_BATCH>(of, 0, 1);
	if (!there || hold == ~0u)
		return there;
	of.lines = hold + 1;
	v = { 0, 0 };
	uint64_t held = 0;
	if (!take_lines<1>(of, hold, GGAS_WARP_SIZE, &v, [&](uint32_t, uint64_t value) { held = value; }))
		return false;
	ggas_syncwarp();
	if (ggas_lane() == 0) {
		w.fence_for(vpid);
		ggas_store_relaxed(of.place.address(hold - HEADER), held);
	}
	return true;
}

/* Takes in a fast-path put of which no segment went before; false: it is not one, and is to be taken from the start. */
GGAS_FN bool complete_fast(warp &w, const packet &p, uint64_t failed)
{
	if (!EXTOLL_GET(p.h.meta, ENGINE_META_FAST) || failed)
		return false;
	auto vpid = static_cast<uint32_t>(EXTOLL_GET(p.h.meta, ENGINE_META_TO));
	uint32_t bytes = p.bytes(), lane = ggas_lane();
	work of;
	of.ring = p.ring;
	of.first = p.first;
	of.begin = OWN;
	of.lines = HEADER + bytes / 8;
	if (!fast_place(w, vpid, p.h.address, bytes, EXTOLL_GATE_WRITE, &of.place))
		return false;
	bool notified = EXTOLL_GET(p.h.meta, ENGINE_META_NOTIFIED) != 0;
	uint32_t all = (2u << (of.lines - 1) % GGAS_WARP_SIZE) - 1;
	if (notified && of.lines <= GGAS_WARP_SIZE && (p.there & all) == all) {
		if (lane >= HEADER && lane < of.lines)
			ggas_store_relaxed(of.place.address(lane - HEADER), p.polled.lo);
	} else if (!take_long(w, p, of, vpid, notified)) {
		return false;
	}
	return !notified || fast_report(w, vpid, p.h.address, bytes, p.h.aux, true);
}

} /* namespace engine */

#endif /* GGAS_ENGINE_FAST_CUH */
