/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What all warps of the engine share: the host's word, translation, rings, notifications. */
#ifndef GGAS_ENGINE_CUH
#define GGAS_ENGINE_CUH

#include "extoll/atu.h"
#include "extoll/desc.h"
#include "extoll/noti.h"
#include "ggas/vocab.h"

#include "args.h"

namespace engine
{

constexpr uint64_t PAGE = 4096;

/* A notification queue in block-shared memory. */
struct queue {
	uint64_t entries_at, rp_register;
	uint64_t place;		/* write pointer, and in the high half the read pointer seen last */
	uint32_t entries, open, far_queue;
	uint32_t gave_up;	/* read pointer + 1 at which a notification was dropped: no wait until it moves */
};

/* A translation that a warp keeps until the host says that something changed. */
struct kept {
	uint64_t key;		/* page, VPID and access, or 0 */
	uint64_t address;
};
constexpr uint32_t KEPT = 16;

struct shared {
	queue queues[ENGINE_PORTS];
	kept pages[ENGINE_WARPS][KEPT];
	uint64_t tail[ENGINE_CLASSES][ENGINE_NODES];
	uint64_t credit[ENGINE_CLASSES][ENGINE_NODES];
};

/* Says that what was read here may be written again. On a GPU the loads are over, because what was stored since
 * depends on them, and a fence would wait for those stores; the executor's tools want the order said. */
GGAS_FN void publish_read(uint64_t *p, uint64_t value)
{
#ifdef GGAS_EXECUTOR
	ggas_store_release(p, value);
#else
	ggas_store_relaxed(p, value);
#endif
}

/* One warp of the engine. Lanes agree on everything by ballots and shuffles: what one of them reads may be newer
 * than what another one read. */
class warp {
public:
	GGAS_FN warp(const engine_args &args, shared *all)
		: args(args), all(all), node(reinterpret_cast<engine_node *>(args.state[args.node])), stop(0),
		  said_{ 0, 0 }, epoch_(~0ull - 1)
	{
	}

	/* Begins to look at what the host says; others may load meanwhile. Then come hears, and takes_notice. */
	GGAS_FN void listens()
	{
		if (ggas_lane() == 0)
			said_ = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&node->epoch));
	}

	/* Whether the host has said something since. */
	GGAS_FN bool hears()
	{
		bool news = ggas_lane() == 0 && (said_.lo != epoch_ || said_.hi != stop);
		return ggas_ballot(GGAS_FULL_WARP, news) != 0;
	}

	/* Returns whether there is a new epoch, which is to be acknowledged. */
	GGAS_FN bool takes_notice()
	{
		ggas_fence_system();
		uint64_t epoch = ggas_shfl(GGAS_FULL_WARP, said_.lo, 0);
		stop = ggas_shfl(GGAS_FULL_WARP, said_.hi, 0);
		bool changed = epoch != epoch_;
		epoch_ = epoch;
		if (changed && ggas_lane() < KEPT)
			all->pages[ggas_warp()][ggas_lane()].key = 0;
		ggas_syncwarp();
		return changed;
	}

	/* This warp uses nothing that it read of tables and ports before, and all its stores are performed. */
	GGAS_FN void acknowledge()
	{
		ggas_syncwarp();
		if (ggas_lane() == 0)
			ggas_store_release(&node->ack[ggas_warp()], epoch_);
	}

	/* Whether a warp that ends at this step ends now. */
	GGAS_FN bool ends(uint32_t step, bool busy) const
	{
		return stop == ENGINE_STOP_NOW || (stop >= step && !busy);
	}

	/* The last thing that a warp says: what it sent is there. */
	GGAS_FN void has_ended()
	{
		epoch_ = ~0ull;
		acknowledge();
	}

	/* In a wait of lane 0 for a peer or a consumer, while this warp holds no translation: whether the engine is to
	 * end, and has waited for long enough. */
	GGAS_FN bool gives_up(uint64_t since)
	{
		uint64_t how = ggas_load_relaxed(&node->stop);
		return how == ENGINE_STOP_NOW || (how != 0 && ggas_time_ns() - since > args.grace_ns);
	}

	/* Orders all that the warp stored before what lane 0, which calls, stores next, for the consumer of a port. */
	GGAS_FN void fence_for(uint32_t vpid)
	{
		if (all->queues[vpid].far_queue)
			ggas_fence_system();
		else
			ggas_fence_gpu();
	}

	GGAS_FN void count(uint32_t error)
	{
		if (ggas_lane() == 0)
			ggas_atomic_add(&node->errors[error], 1u, ggas_order::relaxed);
	}

	const engine_args &args;
	shared *all;
	engine_node *node;
	uint64_t stop;

private:
	ggas_u128 said_;
	uint64_t epoch_;
};

/* ---- translation (spec 4.1) ---- */

/* Where the page of `nla` lies for `vpid`; 0: it may not be accessed so. */
GGAS_FN uint64_t page_of(const engine_node *node, uint32_t vpid, uint64_t nla, uint32_t access)
{
	if (nla >> EXTOLL_NLA_BITS)
		return 0;
	/* Tables stay once they are there, so a cached address is right and only a missing one is looked up again. */
	uint64_t number = EXTOLL_GET(nla, EXTOLL_NLA_TABLE);
	const uint64_t *register_ = &node->tables[number / ENGINE_TABLE_ROWS][number % ENGINE_TABLE_ROWS];
	uint64_t table = ggas_load_near(register_);
	if (table == 0)
		table = ggas_load_relaxed(register_);
	if (table == 0)
		return 0;
	uint64_t gate = ggas_load_relaxed(reinterpret_cast<const uint64_t *>(table) +
					  EXTOLL_GET(nla, EXTOLL_NLA_ENTRY));
	bool fits = (EXTOLL_GET(gate, EXTOLL_GATE_ACCESS) & access) == access &&
		    EXTOLL_GET(gate, EXTOLL_GATE_VPID) == vpid && EXTOLL_GET(gate, EXTOLL_GATE_SIZE) == 0;
	return fits ? EXTOLL_GET(gate, EXTOLL_GATE_PAGE) << 12 : 0;
}

/* Whether `vpid` may access all pages of a range. */
GGAS_FN bool may_access(const engine_node *node, uint32_t vpid, uint64_t nla, uint64_t bytes, uint32_t access)
{
	uint64_t first = nla & ~(PAGE - 1), pages = (nla + bytes - 1 - first) / PAGE + 1;
	bool missing = false;
	for (uint64_t page = ggas_lane(); page < pages; page += GGAS_WARP_SIZE)
		missing |= page_of(node, vpid, first + page * PAGE, access) == 0;
	return ggas_ballot(GGAS_FULL_WARP, missing) == 0;
}

/* ---- rings ---- */

/* Header of a packet: its first lines. */
struct header {
	uint64_t word0;		/* of the descriptor; where it goes */
	uint64_t address;	/* NLA of the first byte here, number of a lock, payload of a notification */
	uint64_t aux;		/* get: where the response goes; lock: compare and addend, then result and value */
	uint64_t meta;
};
constexpr uint32_t HEADER = 4;

#define ENGINE_META_NODE_SHIFT	0	/* of the sender */
#define ENGINE_META_NODE_BITS	16
#define ENGINE_META_VPID_SHIFT	16
#define ENGINE_META_VPID_BITS	8
#define ENGINE_META_BYTES_SHIFT	24
#define ENGINE_META_BYTES_BITS	13
#define ENGINE_META_KIND_SHIFT	37
#define ENGINE_META_KIND_BITS	3
#define ENGINE_META_LAST_SHIFT	40
#define ENGINE_META_LAST_BITS	1
#define ENGINE_META_ERROR_SHIFT	41	/* units that met one (spec 3.1) */
#define ENGINE_META_ERROR_BITS	3

enum kind : uint32_t { PUT, NOTIFICATION, GET, LOCK, GET_RESPONSE, LOCK_RESPONSE };

GGAS_FN engine_line *ring_of(const engine_args &args, uint32_t at_node, uint32_t which, uint32_t from)
{
	return reinterpret_cast<engine_line *>(args.rings[at_node]) +
	       (static_cast<uint64_t>(which) * args.nodes + from) * ENGINE_LINES;
}

/* Claims `lines` of the ring at `to`; the number of the first, or ~0 if the engine ends before there is room. */
GGAS_FN uint64_t claim(warp &w, uint32_t which, uint32_t to, uint32_t lines)
{
	uint64_t first = 0;
	if (ggas_lane() == 0) {
		uint64_t *tail = &w.all->tail[which][to], *credit = &w.all->credit[which][to];
		uint64_t since = 0;
		for (uint32_t attempt = 1;; attempt++) {
			first = ggas_load_relaxed(tail);
			/* A credit that is older than the tail only hides room. */
			if (first + lines - ggas_load_relaxed(credit) > ENGINE_LINES) {
				uint64_t now = ggas_load_acquire(&w.node->credit[which][to]);
				ggas_store_relaxed(credit, now);
				if (first + lines - now > ENGINE_LINES) {
					since = since ? since : ggas_time_ns();
					if (w.gives_up(since)) {
						first = ~0ull;
						break;
					}
					ggas_pause(attempt);
					continue;
				}
			}
			if (ggas_atomic_cas(tail, first, first + lines, ggas_order::relaxed) == first)
				break;
		}
	}
	return ggas_shfl(GGAS_FULL_WARP, first, 0);
}

/* How a range of bytes lies in the aligned words of where it goes. */
struct span {
	uint64_t address;
	uint32_t bytes;

	GGAS_FN uint32_t skew() const { return static_cast<uint32_t>(address & 7); }
	GGAS_FN uint32_t words() const { return bytes ? (skew() + bytes + 7) / 8 : 0; }
};

/* One line of a packet. */
GGAS_FN void store_line(engine_line *ring, uint64_t number, uint64_t word)
{
	ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(&ring[number % ENGINE_LINES]), ggas_u128{ word, number + 1 });
}

GGAS_FN void send_header(engine_line *ring, uint64_t first, const header &h)
{
	uint32_t i = ggas_lane();
	if (i < HEADER)
		store_line(ring, first + i, i == 0 ? h.word0 : i == 1 ? h.address : i == 2 ? h.aux : h.meta);
}

/* Sends one packet, its payload as the aligned words of where it goes: word(i, skew) gives word i. Each line carries
 * its number, so no fence is needed. False if the engine ends before there is room. */
template <class Word>
GGAS_FN bool send(warp &w, uint32_t which, uint32_t to, const header &h, const span &place, const Word &word)
{
	const uint32_t LOADS = 8;
	uint32_t words = place.words();
	uint64_t first = 0;
	engine_line *ring = ring_of(w.args, to, which, w.args.node);
	for (uint32_t begin = 0; begin == 0 || begin < words; begin += LOADS * GGAS_WARP_SIZE) {
		uint64_t v[LOADS];
		GGAS_UNROLL
		for (uint32_t k = 0; k < LOADS; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
			if (i < words)
				v[k] = word(i, place.skew());
		}
		/* While the loads are under way. */
		if (begin == 0) {
			first = claim(w, which, to, HEADER + words);
			if (first == ~0ull)
				return false;
			send_header(ring, first, h);
		}
		GGAS_UNROLL
		for (uint32_t k = 0; k < LOADS; k++) {
			uint32_t i = begin + k * GGAS_WARP_SIZE + ggas_lane();
			if (i < words)
				store_line(ring, first + HEADER + i, v[k]);
		}
	}
	ggas_syncwarp();
	return true;
}

/* Payload of packets without one. */
struct no_words {
	GGAS_FN uint64_t operator()(uint32_t, uint32_t) const { return 0; }
};

/* A range of at most ENGINE_SEGMENT bytes of this node's memory, and so of at most two pages. */
class pages {
public:
	/* Translates; false: `vpid` may not access it so. */
	GGAS_FN bool translate(const warp &w, uint32_t vpid, uint64_t nla, uint32_t bytes, uint32_t access)
	{
		begin = nla;
		end = nla + bytes;
		uint64_t page = (nla & ~(PAGE - 1)) + ggas_lane() * PAGE, at = 0;
		bool used = ggas_lane() < 2 && page < end;
		/* The two lanes never use the same place. */
		kept &place = w.all->pages[ggas_warp()][page / PAGE % KEPT];
		uint64_t key = (page & ~(PAGE - 1)) | access << 10 | vpid;
		if (used && place.key == key) {
			at = place.address;
		} else if (used && (at = page_of(w.node, vpid, page, access)) != 0) {
			place.key = key;
			place.address = at;
		}
		first_ = ggas_shfl(GGAS_FULL_WARP, at, 0);
		second_ = ggas_shfl(GGAS_FULL_WARP, at, 1);
		return ggas_ballot(GGAS_FULL_WARP, used && at == 0) == 0;
	}

	GGAS_FN uint64_t address(uint64_t nla) const
	{
		return ((nla ^ begin) >> 12 ? second_ : first_) + (nla & (PAGE - 1));
	}

	uint64_t begin, end;

private:
	uint64_t first_, second_;
};

/* Payload out of memory, wherever it lies within words. Loads touch only words that hold some of it. */
struct memory_words {
	pages from;

	GGAS_FN uint64_t operator()(uint32_t i, uint32_t skew) const
	{
		uint64_t at = from.begin + 8ull * i - skew, low = at & ~7ull, shift = 8 * (at & 7);
		uint64_t value = low + 8 > from.begin ? load(low) : 0;
		if (shift == 0)
			return value;
		uint64_t high = low + 8 < from.end ? load(low + 8) : 0;
		return value >> shift | high << (64 - shift);
	}

	GGAS_FN uint64_t load(uint64_t nla) const
	{
		return ggas_load_relaxed(reinterpret_cast<const uint64_t *>(from.address(nla)));
	}
};

/* ---- notifications (spec 3.1) ---- */

/* What a unit says about a command. */
struct report {
	uint32_t kind, command, node, vpid, mode, error;
	uint32_t total;		/* bytes; class of a notification put */
	uint64_t local;		/* local address of the first byte, or word 0 where there is none */
};

/* Puts an entry into a queue; lane 0 only. `release`: behind everything that the warp stored. False if the engine ends
 * before there is room. */
GGAS_FN bool push(warp &w, uint32_t vpid, uint64_t word0, uint64_t word1, bool release)
{
	queue &q = w.all->queues[vpid];
	uint64_t since = 0;
	for (uint32_t attempt = 1;; attempt++) {
		if (!ggas_load_relaxed(&q.open))
			return true;
		uint64_t place = ggas_load_relaxed(&q.place);
		uint32_t wp = static_cast<uint32_t>(place), next = wp + 1 == q.entries ? 0 : wp + 1;
		if (next != place >> 32) {
			uint64_t after = (place & ~0xffffffffull) | next;
			if (ggas_atomic_cas(&q.place, place, after, ggas_order::relaxed) != place)
				continue;
			if (release)
				w.fence_for(vpid);
			auto *entry = reinterpret_cast<ggas_u128 *>(q.entries_at) + wp;
#ifdef GGAS_EXECUTOR
			ggas_store_release(entry, ggas_u128{ word0, word1 });
#else
			ggas_store_relaxed(entry, ggas_u128{ word0, word1 });
#endif
			return true;
		}
		/* Full as far as was seen. */
		uint32_t rp = static_cast<uint32_t>(
			ggas_load_acquire(reinterpret_cast<const uint64_t *>(q.rp_register)));
		if (rp != next) {
			ggas_atomic_cas(&q.place, place, static_cast<uint64_t>(rp) << 32 | wp, ggas_order::relaxed);
			continue;
		}
		since = since ? since : ggas_time_ns();
		bool dropped = ggas_load_relaxed(&q.gave_up) == rp + 1 || ggas_time_ns() - since > w.args.queue_ns;
		if (dropped) {
			ggas_store_relaxed(&q.gave_up, rp + 1);
			w.count(ENGINE_ERR_DROPPED);
			return true;
		}
		if (w.gives_up(since))
			return false;
		ggas_pause(attempt);
	}
}

/* One entry of a transfer: the fragment at `offset`. */
GGAS_FN bool push_fragment(warp &w, uint32_t to, const report &r, uint32_t offset, uint32_t bytes, bool release)
{
	uint64_t word1 = extoll_noti_word1(r.kind, r.command, r.node, r.vpid, r.mode, r.error, bytes - 1);
	return push(w, to, r.local + offset, word1, release);
}

GGAS_FN bool push_report(warp &w, uint32_t to, const report &r, bool release)
{
	uint32_t total = r.total ? r.total : 1;
	uint32_t field = 0;
	bool requester = r.kind == EXTOLL_NOTI_KIND_REQUESTER;
	bool get = r.command == EXTOLL_CMD_BT_GET || r.command == EXTOLL_CMD_QW_GET;
	switch (r.command) {
	case EXTOLL_CMD_NOTIFICATION_PUT:
		field = r.total & 0xff;
		break;
	case EXTOLL_CMD_LOCK_REQ:
	case EXTOLL_CMD_LOCK_RSP:
		break;
	case EXTOLL_CMD_IMMEDIATE_PUT:
		if (!requester)
			return push_fragment(w, to, r, 0, total, release);
		field = total - 1;
		break;
	case EXTOLL_CMD_BT_PUT:
	case EXTOLL_CMD_QW_PUT:
	case EXTOLL_CMD_BT_GET:
	case EXTOLL_CMD_QW_GET:
	case EXTOLL_CMD_GET_BT_RSP:
	case EXTOLL_CMD_GET_QW_RSP: {
		uint32_t last = (total - 1) / EXTOLL_FRAGMENT * EXTOLL_FRAGMENT;
		/* A get's request is one packet, and so is a command in its error form. */
		if ((r.mode & EXTOLL_NOTI_MODE_NTR) && !r.error && !(requester && get))
			for (uint32_t offset = 0; offset < last; offset += EXTOLL_FRAGMENT)
				if (!push_fragment(w, to, r, offset, EXTOLL_FRAGMENT, release))
					return false;
		return push_fragment(w, to, r, last, total - last, release);
	}
	default:
		break;
	}
	uint64_t word1 = extoll_noti_word1(r.kind, r.command, r.node, r.vpid, r.mode, r.error, field);
	return push(w, to, r.local, word1, release);
}

/* All lanes call; the notifications are written by lane 0. False if the engine ends before there is room. */
GGAS_FN bool notify(warp &w, uint32_t to, const report &r, bool release)
{
	bool written = true;
	ggas_syncwarp();
	if (ggas_lane() == 0)
		written = push_report(w, to, r, release);
	return ggas_ballot(GGAS_FULL_WARP, !written) == 0;
}

/* Bytes that a descriptor speaks of; of a notification put, its class. */
GGAS_FN uint32_t total_of(uint64_t word0)
{
	switch (EXTOLL_GET(word0, EXTOLL_DESC_COMMAND)) {
	case EXTOLL_CMD_NOTIFICATION_PUT:
		return static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_CLASS));
	case EXTOLL_CMD_IMMEDIATE_PUT:
		return static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_COUNT)) + 1;
	default:
		return static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_SIZE)) + 1;
	}
}

/* Mode bits of a notification (spec 3.1): addresses are always translated. */
GGAS_FN uint32_t mode_of(uint64_t word0)
{
	uint32_t modifier = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_MODIFIER));
	return EXTOLL_NOTI_MODE_TE | (modifier & EXTOLL_MOD_NTR ? EXTOLL_NOTI_MODE_NTR : 0u) |
	       (modifier & EXTOLL_MOD_ERA ? EXTOLL_NOTI_MODE_ERA : 0u) |
	       (modifier & EXTOLL_MOD_EWA ? EXTOLL_NOTI_MODE_EWA : 0u);
}

} /* namespace engine */

#endif /* GGAS_ENGINE_CUH */
