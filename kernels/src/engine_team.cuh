/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Large packets: lines behind the first ones are carried by helpers, warps that wait in a barrier of the hardware until
 * a leader, the warp that a packet belongs to, gives them some. A warp that runs alone takes as long as its
 * instructions do, so that twice the lines take twice the time. */
#ifndef GGAS_ENGINE_TEAM_CUH
#define GGAS_ENGINE_TEAM_CUH

#include "engine_ring.cuh"

namespace engine
{

/* Lines that a lane has under way at a time: of a leader, which has more to keep in registers, and of a helper. */
constexpr uint32_t LEADERS_BATCH = 4;
constexpr uint32_t HELPERS_BATCH = 6;
/* Looks at lines that are not there yet, before others take over who bound the wait. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t LOOKS = 16;
#else
constexpr uint32_t LOOKS = 64;
#endif

/* Words of lines begin + lane, begin + step + lane and so on. */
template <uint32_t Count> GGAS_FN void load_words(const work &of, uint32_t begin, uint32_t step, uint64_t *v)
{
	GGAS_UNROLL
	for (uint32_t k = 0; k < Count; k++) {
		uint32_t i = begin + k * step + ggas_lane();
		if (i < of.lines)
			v[k] = ggas_load_relaxed(of.place.address(i - HEADER));
	}
}

template <uint32_t Count>
GGAS_FN void store_lines(const work &of, uint32_t begin, uint32_t step, const uint64_t *v)
{
	GGAS_UNROLL
	for (uint32_t k = 0; k < Count; k++) {
		uint32_t i = begin + k * step + ggas_lane();
		if (i < of.lines)
			store_line(const_cast<engine_line *>(of.ring), of.first + i, v[k]);
	}
}

/* Part `part` of `parts` of sending. */
template <uint32_t Batch> GGAS_FN void send_part(const work &of, uint32_t part, uint32_t parts)
{
	uint32_t step = parts * GGAS_WARP_SIZE;
	GGAS_NO_UNROLL
	for (uint32_t begin = of.begin + part * GGAS_WARP_SIZE; begin < of.lines; begin += Batch * step) {
		uint64_t v[Batch];
		load_words<Batch>(of, begin, step, v);
		store_lines<Batch>(of, begin, step, v);
	}
}

/* Looks at those of a batch of lines that were not there at the last look. */
template <uint32_t Count> GGAS_FN void look_at(const work &of, uint32_t begin, uint32_t step, ggas_u128 *v)
{
	GGAS_UNROLL
	for (uint32_t k = 0; k < Count; k++) {
		uint32_t i = begin + k * step + ggas_lane();
		uint32_t at = (static_cast<uint32_t>(of.first) + i) % ENGINE_LINES;
		if (i < of.lines && v[k].hi != of.first + i + 1)
			v[k] = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&of.ring[at]));
	}
}

/* Waits a while for a batch of lines, of which `v` is what was seen before, and gives line i to take(i, word). False:
 * one of them is not there. */
template <uint32_t Count, class Take>
GGAS_FN bool take_lines(const work &of, uint32_t begin, uint32_t step, ggas_u128 *v, const Take &take)
{
	GGAS_NO_UNROLL
	for (uint32_t look = 0;; look++) {
		bool missing = false;
		GGAS_UNROLL
		for (uint32_t k = 0; k < Count; k++) {
			uint32_t i = begin + k * step + ggas_lane();
			missing |= i < of.lines && v[k].hi != of.first + i + 1;
		}
		if (!ggas_ballot(GGAS_FULL_WARP, missing))
			break;
		if (look == LOOKS)
			return false;
		ggas_pause(look);
		look_at<Count>(of, begin, step, v);
	}
	GGAS_UNROLL
	for (uint32_t k = 0; k < Count; k++) {
		uint32_t i = begin + k * step + ggas_lane();
		if (i < of.lines)
			take(i, v[k].lo);
	}
	return true;
}

/* Part `part` of `parts` of taking. */
template <uint32_t Batch> GGAS_FN bool take_part(const work &of, uint32_t part, uint32_t parts)
{
	uint32_t step = parts * GGAS_WARP_SIZE;
	auto take = [&](uint32_t i, uint64_t value) { ggas_store_relaxed(of.place.address(i - HEADER), value); };
	GGAS_NO_UNROLL
	for (uint32_t begin = of.begin + part * GGAS_WARP_SIZE; begin < of.lines; begin += Batch * step) {
		ggas_u128 v[Batch] = {};
		look_at<Batch>(of, begin, step, v);
		if (!take_lines<Batch>(of, begin, step, v, take))
			return false;
	}
	return true;
}

GGAS_FN void meet(shared *all, uint32_t which, uint32_t helpers)
{
	ggas_meet(&all->teams[which].meeting, 1 + which, helpers + 1);
}

/* A leader takes the team and gives it work; false: another one has it, or there is none. */
GGAS_FN bool enlist(const warp &w, uint32_t which, const work &of)
{
	team &t = w.all->teams[which];
	bool taken = false;
	if (ggas_lane() == 0 && w.args.helpers) {
#ifdef GGAS_EXECUTOR
		taken = ggas_atomic_cas_block(&t.taken, 0u, 1u, ggas_order::acquire) == 0;
#else
		taken = ggas_atomic_cas_block(&t.taken, 0u, 1u, ggas_order::relaxed) == 0;
#endif
		if (taken) {
			t.missing = 0;
			t.work = of;
		}
	}
	if (!ggas_ballot(GGAS_FULL_WARP, taken))
		return false;
	meet(w.all, which, w.args.helpers);
	return true;
}

/* Waits for the team to be done; whether it is. */
GGAS_FN bool dismiss(const warp &w, uint32_t which)
{
	team &t = w.all->teams[which];
	meet(w.all, which, w.args.helpers);
	bool done = t.missing == 0;
	ggas_syncwarp();
	if (ggas_lane() == 0)
		publish_read(&t.taken, 0);
	return done;
}

/* A leader ends; with the last one its team does. */
GGAS_FN void retire(const warp &w, uint32_t which, uint32_t leaders)
{
	team &t = w.all->teams[which];
	bool last = false;
	if (ggas_lane() == 0 && w.args.helpers) {
		last = ggas_atomic_add_block(&t.ended, 1u, ggas_order::release_acquire) + 1 == leaders;
		if (last)
			t.work.lines = 0;
	}
	if (ggas_ballot(GGAS_FULL_WARP, last))
		meet(w.all, which, w.args.helpers);
}

/* A helper. */
GGAS_FN void help(const warp &w, uint32_t which, uint32_t part)
{
	team &t = w.all->teams[which];
	for (;;) {
		meet(w.all, which, w.args.helpers);
		work of = t.work;
		if (of.lines == 0)
			return;
		if (which == SENDERS)
			send_part<HELPERS_BATCH>(of, part, w.args.helpers);
		else if (!take_part<HELPERS_BATCH>(of, part, w.args.helpers) && ggas_lane() == 0)
			ggas_store_relaxed(&t.missing, 1u);
		meet(w.all, which, w.args.helpers);
	}
}

} /* namespace engine */

#endif /* GGAS_ENGINE_TEAM_CUH */
