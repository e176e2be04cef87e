/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Completer and responder: what arrives in the ring of one peer (spec 3.1, 5). Whatever is wrong with a request that
 * wants an answer, its origin hears of it by the error bits of the response. */
#ifndef GGAS_ENGINE_RECEIVE_CUH
#define GGAS_ENGINE_RECEIVE_CUH

#include "engine_send.cuh"

namespace engine
{

/* Whether a port is open, in which all lanes agree. */
GGAS_FN bool is_open(const warp &w, uint32_t vpid)
{
	uint32_t open = ENGINE_PORT_CLOSED;
	/* It opened before whoever sends could know of it, and closes by a change that waits for this warp. The rest of what
	 * is known of it was written before that. On a GPU block-shared memory answers a warp in the order in which it asks,
	 * and has no cache that could hold something older; the executor's memory is a CPU's. */
#ifdef GGAS_EXECUTOR
	if (vpid < ENGINE_PORTS)
		open = ggas_load_acquire(&w.all->queues[vpid].open);
	open = ggas_shfl(GGAS_FULL_WARP, open, 0);
	/* For lanes that looked earlier than lane 0. */
	ggas_syncwarp();
	return open == ENGINE_PORT_OPEN;
#else
	if (vpid < ENGINE_PORTS)
		open = ggas_load_relaxed(&w.all->queues[vpid].open);
	return ggas_shfl(GGAS_FULL_WARP, open, 0) == ENGINE_PORT_OPEN;
#endif
}

/* Waits for all lines of a packet and gives word i to take(i, word), by lane i modulo 32. False: the packet is to be
 * taken again from the start, the engine ends before, or whoever sent it ended in the middle. */
template <class Take> GGAS_FN bool take_words(warp &w, const packet &p, const Take &take)
{
	const uint32_t LOADS = 8;
	uint32_t words = p.place().words();
	ggas_u128 v[LOADS] = {};
	/* Some of them were there when the header was. */
	if (words) {
		uint32_t from = (ggas_lane() + HEADER) % GGAS_WARP_SIZE;
		v[0] = { ggas_shfl(GGAS_FULL_WARP, p.polled.lo, from), ggas_shfl(GGAS_FULL_WARP, p.polled.hi, from) };
	}
	for (uint32_t begin = 0; begin < words; begin += LOADS * GGAS_WARP_SIZE) {
		uint64_t since = 0;
		for (uint32_t attempt = 1;; attempt++) {
			bool missing = false;
			GGAS_UNROLL
			for (uint32_t k = 0; k < LOADS; k++) {
				uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
				uint64_t number = p.first + HEADER + i;
				if (i < words && v[k].hi != number + 1)
					v[k] = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(
						&p.ring[number % ENGINE_LINES]));
			}
			GGAS_UNROLL
			for (uint32_t k = 0; k < LOADS; k++) {
				uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
				missing |= i < words && v[k].hi != p.first + HEADER + i + 1;
			}
			if (!ggas_ballot(GGAS_FULL_WARP, missing))
				break;
			ggas_pause(attempt);
			if (attempt % 256)
				continue;
			since = since ? since : ggas_time_ns();
			bool over = ggas_lane() == 0 && (w.gives_way(since) || w.is_gone(p.from_node()));
			if (ggas_ballot(GGAS_FULL_WARP, over))
				return false;
		}
		GGAS_UNROLL
		for (uint32_t k = 0; k < LOADS; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
			if (i < words)
				take(i, v[k].lo);
		}
	}
	return true;
}

/* Whether all lines of a packet are there. */
GGAS_FN bool is_whole(const packet &p)
{
	bool missing = false;
	for (uint32_t i = ggas_lane(); i < p.lines(); i += GGAS_WARP_SIZE) {
		uint64_t number = p.first + i;
		missing |= ggas_load_relaxed(&p.ring[number % ENGINE_LINES].number) != number + 1;
	}
	return ggas_ballot(GGAS_FULL_WARP, missing) == 0;
}

/* Stores the bytes of an aligned word that belong to the range. */
GGAS_FN void store_word(const pages &to, uint32_t i, uint64_t value)
{
	uint64_t at = (to.begin & ~7ull) + 8ull * i;
	if (at >= to.begin && at + 8 <= to.end) {
		ggas_store_relaxed(reinterpret_cast<uint64_t *>(to.address(at)), value);
		return;
	}
	for (uint32_t byte = 0; byte < 8; byte++)
		if (at + byte >= to.begin && at + byte < to.end)
			*reinterpret_cast<volatile uint8_t *>(to.address(at + byte)) =
				static_cast<uint8_t>(value >> 8 * byte);
}

/* Writes the payload. Where no notification says that it is there, the last word of a command becomes visible last
 * (spec 2.3), and an immediate put, which is what flags are, behind the commands before it. False if the engine ends
 * before. */
GGAS_FN bool write_payload(warp &w, const packet &p, const pages &to)
{
	uint32_t words = p.place().words();
	bool hold = p.is_last() && !(p.spec() & EXTOLL_SPEC_COMPLETER) &&
		    (words > 1 || p.command() == EXTOLL_CMD_IMMEDIATE_PUT || p.bytes() < total_of(p.h.word0));
	uint32_t last = hold ? words - 1 : ~0u;
	uint64_t held = 0;
	if (!take_words(w, p, [&](uint32_t i, uint64_t value) {
		    if (i == last)
			    held = value;
		    else
			    store_word(to, i, value);
	    }))
		return false;
	if (!hold)
		return true;
	ggas_syncwarp();
	if (ggas_lane() == last % GGAS_WARP_SIZE) {
		w.fence_for(p.vpid());
		store_word(to, last, held);
	}
	return true;
}

/* Of one command only are there packets at a time: of the sender's port, or of a get by ours. */
GGAS_FN uint64_t flow_of(const packet &p)
{
	bool response = p.what() == GET_RESPONSE || p.what() == LOCK_RESPONSE;
	return 1ull << (response ? p.vpid() : p.from_vpid()) % 64;
}

/* The functions from here on that are not inlined are apart because what a function saves of registers at its begin,
 * memory behind a cache that is empty then, each packet of a long put would pay for. */

/* A bit beside the notifications that were written for a packet: all of it was there, and what had to be counted was. It is
 * its consumer's from then on, and its memory may be gone. */
constexpr uint32_t DATA_TAKEN = 1u << 31;

/* What a put or the response to a get brings. `failed`: ports of which an earlier packet of the same command met an error.
 * False: the packet stays, and the data is written again. */
GGAS_COLD bool take_data(const engine_args &args, shared *all, const packet *taken, uint64_t *failed)
{
	warp w(args, all);
	const packet &p = *taken;
	uint32_t *told = &w.all->told[ggas_warp()];
	if (p.is_last() && (*told & DATA_TAKEN))
		return true;
	uint32_t error = p.error(), vpid = p.vpid();
	bool open = is_open(w, vpid), data = p.bytes() != 0;
	if (p.is_last() && open && ggas_lane() == 0)
		w.all->taken_for[ggas_warp()] = ggas_load_relaxed(&w.all->queues[vpid].opened);
	pages to;
	bool fits = open && !error && data && to.translate(w, vpid, p.h.address, p.bytes(), EXTOLL_GATE_WRITE);
	if (fits ? !write_payload(w, p, to) : !take_words(w, p, [](uint32_t, uint64_t) {}))
		return false;
	if (!open || error || (data && !fits))
		w.count(!open ? ENGINE_ERR_VPID : error ? ENGINE_ERR_RECEIVED : ENGINE_ERR_TARGET);
	/* An earlier command may have been cut short: its last packet never came. */
	uint64_t flow = flow_of(p), before = EXTOLL_GET(p.h.meta, ENGINE_META_REST) ? *failed : *failed & ~flow;
	*failed = data && !fits ? before | flow : before;
	if (!p.is_last())
		return true;
	ggas_syncwarp();
	if (ggas_lane() == 0)
		*told = DATA_TAKEN;
	return true;
}

/* The completer's word behind the last packet of a command. False: it stays, and waits for room. */
GGAS_COLD bool complete(const engine_args &args, shared *all, const packet *taken, uint64_t *failed)
{
	warp w(args, all);
	const packet &p = *taken;
	uint32_t error = p.error(), vpid = p.vpid();
	uint64_t flow = flow_of(p);
	if (*failed & flow)
		error |= EXTOLL_NOTI_ERROR_COMPLETER;
	bool open = is_open(w, vpid);
	/* The data went to an earlier port of this VPID: there is nobody to be told. */
	if (open && w.all->taken_for[ggas_warp()] != ggas_load_relaxed(&w.all->queues[vpid].opened))
		open = false;
	if (ggas_shfl(GGAS_FULL_WARP, open, 0) && (p.spec() & EXTOLL_SPEC_COMPLETER)) {
		uint32_t total = total_of(p.h.word0);
		bool sized = p.command() != EXTOLL_CMD_NOTIFICATION_PUT && p.bytes() != 0;
		report r = { EXTOLL_NOTI_KIND_COMPLETER, p.command(),
			     p.from_node(),		 p.from_vpid(),
			     mode_of(p.h.word0),	 error,
			     total,			 sized ? p.h.address + p.bytes() - total : p.h.address };
		uint32_t *told = &w.all->told[ggas_warp()], before = *told & ~DATA_TAKEN;
		if (ggas_lane() == 0)
			w.all->waits[ggas_warp()].packet = p.first;
		bool written = notify(w, vpid, r, true, &before);
		if (ggas_lane() == 0)
			*told = DATA_TAKEN | before;
		if (!written)
			return false;
	}
	*failed &= ~flow;
	return true;
}

/* Head of the response to a request: it goes back, with another command. */
GGAS_FN uint64_t response_word0(const packet &p)
{
	uint64_t fields = EXTOLL_PUT(~0u, EXTOLL_DESC_COMMAND) | EXTOLL_PUT(~0u, EXTOLL_DESC_VPID) |
			  EXTOLL_PUT(~0u, EXTOLL_DESC_NODE);
	uint32_t command = p.what() == LOCK			  ? EXTOLL_CMD_LOCK_RSP :
			   p.command() == EXTOLL_CMD_QW_GET ? EXTOLL_CMD_GET_QW_RSP :
							      EXTOLL_CMD_GET_BT_RSP;
	return (p.h.word0 & ~fields) | EXTOLL_PUT(command, EXTOLL_DESC_COMMAND) |
	       EXTOLL_PUT(p.from_vpid(), EXTOLL_DESC_VPID) | EXTOLL_PUT(p.from_node(), EXTOLL_DESC_NODE);
}

/* if (lock <= compare) lock += add (spec 5); the notification's word 0. */
GGAS_FN uint64_t work_lock(engine_node *node, uint32_t vpid, uint32_t number, int32_t compare, uint32_t add)
{
	uint32_t *lock = &node->lock[number][vpid];
	uint32_t seen = ggas_load_relaxed(lock);
	for (;;) {
		if (static_cast<int32_t>(seen) > compare)
			return extoll_noti_lock_word0(number, 0, static_cast<int32_t>(seen));
		uint32_t sum = seen + add;
		uint32_t old = ggas_atomic_cas(lock, seen, sum, ggas_order::release_acquire);
		if (old == seen)
			return extoll_noti_lock_word0(number, 1, static_cast<int32_t>(sum));
		seen = old;
	}
}

/* A get or a lock. False: the packet stays, and the answer goes on where it is. */
GGAS_COLD bool respond(const engine_args &args, shared *all, const packet *taken)
{
	warp w(args, all);
	const packet &p = *taken;
	uint32_t error = p.error(), vpid = p.vpid(), node = p.from_node(), total = total_of(p.h.word0);
	uint64_t word0 = response_word0(p), local = p.h.address;
	if (w.all_see_gone(node)) {
		w.count(ENGINE_ERR_GONE);
		return true;
	}
	bool open = is_open(w, vpid), refused = false;
	bool lock = p.what() == LOCK;
	auto number = static_cast<uint32_t>(EXTOLL_GET(p.h.address, EXTOLL_DESC_LOCK_NUMBER));
	if (!error && (!open || (lock && number >= ENGINE_LOCKS)))
		error = EXTOLL_NOTI_ERROR_RESPONDER;
	/* From the start each time, a long one would never end where its engine hears of changes all the time. */
	uint32_t *told = &w.all->told[ggas_warp()];
	uint32_t done = ggas_shfl(GGAS_FULL_WARP, ggas_lane() == 0 ? *told : 0u, 0);
	if (!error && !lock) {
		bool sent = send_memory(w, ENGINE_RESPONSES, node, GET_RESPONSE, word0, vpid, p.h.address, p.h.aux,
					total, &done, EXTOLL_NOTI_ERROR_RESPONDER, &refused);
		if (!sent && ggas_lane() == 0)
			*told = done;
		if (!sent)
			return false;
		error = refused ? EXTOLL_NOTI_ERROR_RESPONDER : 0u;
	} else {
		/* Room first: a lock is worked once. */
		uint64_t room = claim(w, ENGINE_RESPONSES, node, HEADER);
		if (room == ~0ull)
			return false;
		uint64_t address = p.h.aux;
		if (lock) {
			auto compare = static_cast<int32_t>(EXTOLL_GET(p.h.address, EXTOLL_DESC_LOCK_COMPARE));
			auto add = static_cast<uint32_t>(EXTOLL_GET(p.h.aux, EXTOLL_DESC_LOCK_ADD));
			if (ggas_lane() == 0)
				local = error ? extoll_noti_lock_word0(number, 0, compare) :
						work_lock(w.node, vpid, number, compare, add);
			local = address = ggas_shfl(GGAS_FULL_WARP, local, 0);
		}
		kind what = lock ? LOCK_RESPONSE : GET_RESPONSE;
		/* Of a get whose port closed meanwhile some of the answer is there. */
		uint64_t about = meta(w.args.node, vpid, what, 0, true, error) | rest_of(done);
		send_header(ring_of(w.args, node, ENGINE_RESPONSES, w.args.node), room, header{ word0, address, 0, about });
	}
	if (error)
		w.count(ENGINE_ERR_RESPONDER);
	if (open && (p.spec() & EXTOLL_SPEC_RESPONDER)) {
		report r = { EXTOLL_NOTI_KIND_RESPONDER, p.command(), node, p.from_vpid(), mode_of(p.h.word0), error,
			     total, local };
		/* What was sent cannot be sent again: without room in time the notification is lost. */
		uint32_t written = 0;
		if (!notify(w, vpid, r, false, &written))
			w.count(ENGINE_ERR_DROPPED);
	}
	return true;
}

/* Whatever the fast path does not take. False: the packet stays. `copy`: of it, which may lie in memory. */
GGAS_FN bool take_packet(warp &w, const packet &p, const packet *copy, uint64_t *failed)
{
	bool request = p.what() == GET || p.what() == LOCK;
	if (!request && !take_data(w.args, w.all, copy, failed))
		return false;
	if (!request && !p.is_last())
		return true;
	bool taken = request ? respond(w.args, w.all, copy) : complete(w.args, w.all, copy, failed);
	if (taken && ggas_lane() == 0)
		w.all->told[ggas_warp()] = 0;
	return taken;
}

/* One receiving warp: packets of one class from one peer. */
GGAS_FN void serve_ring(warp &w, uint32_t which, uint32_t peer)
{
	const uint32_t step = which == ENGINE_REQUESTS ? ENGINE_STOP_REQUESTS : ENGINE_STOP_RESPONSES;
	packet p;
	p.ring = ring_of(w.args, w.args.node, which, peer);
	p.first = ggas_load_relaxed(&w.node->head[which][peer]);
	uint64_t failed = ggas_load_relaxed(&w.node->failed[which][peer]), credited = p.first;
	uint64_t *credit = &reinterpret_cast<engine_node *>(w.args.state[peer])->credit[which][w.args.node];
	if (ggas_lane() == 0) {
		uint64_t told = ggas_load_relaxed(&w.node->told[which][peer]);
		w.all->told[ggas_warp()] = static_cast<uint32_t>(told);
		w.all->taken_for[ggas_warp()] = static_cast<uint32_t>(told >> 32);
	}
	bool gone = false, cut = false, drained = false;
	for (uint32_t attempt = 1;; attempt++) {
		uint64_t number = p.first + ggas_lane();
		w.load_epoch();
		p.polled = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&p.ring[number % ENGINE_LINES]));
		p.there = ggas_ballot(GGAS_FULL_WARP, p.polled.hi == number + 1);
		bool ready = (p.there & ((1u << HEADER) - 1)) == (1u << HEADER) - 1 && !cut;
		if (w.epoch_changed()) {
			if (w.enter_epoch()) {
				gone = w.all_see_gone(peer);
				w.acknowledge();
			}
			if (w.stop == ENGINE_STOP_NOW)
				break;
			/* The line may have been looked at before. */
			continue;
		}
		if (w.stop && w.ends(step, ready))
			break;
		if (!ready) {
			if (gone && !drained) {
				drained = true;
				if (ggas_lane() == 0)
					ggas_store_release(&w.node->drained[which][peer], static_cast<uint64_t>(1));
			}
			ggas_pause(attempt);
			continue;
		}
		attempt = 0;
		p.h = { ggas_shfl(GGAS_FULL_WARP, p.polled.lo, 0), ggas_shfl(GGAS_FULL_WARP, p.polled.lo, 1),
			ggas_shfl(GGAS_FULL_WARP, p.polled.lo, 2), ggas_shfl(GGAS_FULL_WARP, p.polled.lo, 3) };
		if (!complete_fast(w, p, failed)) {
			/* All lanes have looked at what the general way may change. */
			ggas_syncwarp();
			/* Copies, so that nothing else has to be in memory. */
			packet copy = p;
			uint64_t flows = failed;
			bool taken = take_packet(w, p, &copy, &flows);
			ggas_syncwarp();
			failed = flows;
			/* The fast path knows nothing of what was done for it: it never goes that way again. */
			if (!taken && ggas_lane() == HEADER - 1)
				ggas_store_relaxed(&ring_of(w.args, w.args.node, which, peer)[number % ENGINE_LINES].word,
						   p.h.meta & ~EXTOLL_PUT(1, ENGINE_META_FAST));
			if (!taken && w.is_to_end())
				break;
			if (!taken) {
				/* The host has something to say; or the sender ended in the middle, and
				 * nothing comes behind. */
				cut = w.all_see_gone(peer) && !is_whole(p);
				ggas_pause();
				continue;
			}
		}
		p.first += p.lines();
		if (p.first - credited < ENGINE_LINES / 8)
			continue;
		credited = p.first;
		ggas_syncwarp();
		if (ggas_lane() == 0)
			publish_read(credit, credited);
	}
	ggas_syncwarp();
	if (ggas_lane() == 0) {
		ggas_store_relaxed(&w.node->head[which][peer], p.first);
		ggas_store_relaxed(&w.node->failed[which][peer], failed);
		ggas_store_relaxed(&w.node->told[which][peer], static_cast<uint64_t>(w.all->taken_for[ggas_warp()]) << 32 |
								       w.all->told[ggas_warp()]);
		publish_read(credit, p.first);
	}
}

} /* namespace engine */

#endif /* GGAS_ENGINE_RECEIVE_CUH */
