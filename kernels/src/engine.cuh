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

/* Instead of a credit of a node that is gone: no room in its ring, however much was sent. */
constexpr uint64_t NO_ROOM = 1ull << 63;

/* A notification queue in block-shared memory. All but `place` and `dropped_at` are written by the port's owner alone,
 * the lane that looks after it, as it takes notice. */
struct queue {
	uint64_t entries_at, rp_register;
	uint64_t place;		/* write pointer, and in the high half the read pointer seen last */
	uint32_t entries, open, far_queue;	/* open: ENGINE_PORT_* */
	uint32_t opened;	/* of the port */
	uint32_t dropped_at;	/* read pointer + 1 at which a notification was dropped: no wait until it moves */
};

/* A translation that a warp keeps until the host says that something changed. */
struct kept {
	uint64_t key;		/* page, VPID and access, or 0 */
	uint64_t address;
};
constexpr uint32_t KEPT = 64;

/* Words in at most two pages: word i at address(i). */
struct place {
	uint64_t first, second;
	uint32_t turn;		/* first word of the second page */

	GGAS_FN uint64_t *address(uint32_t i) const
	{
		return reinterpret_cast<uint64_t *>(i < turn ? first : second) + i;
	}
};

/* Lines `begin` to `lines` of the packet whose first line has number `first`, and where its words lie. */
struct work {
	const engine_line *ring;
	uint64_t first;
	struct place place;
	uint32_t begin, lines;
};

/* Warps that serve no port or ring of their own; engine_team.cuh. */
struct team {
	struct work work;	/* no lines: the engine ends */
	uint64_t taken;		/* by a leader */
	ggas_meeting meeting;
	uint32_t ended;		/* leaders that have */
	uint32_t missing;	/* somebody did not find a line */
};
enum team_kind : uint32_t { SENDERS, TAKERS, TEAMS };

/* A packet that may have to wait for room for its next notification. */
struct patience {
	uint64_t packet;	/* number of its first line */
	uint64_t waited;	/* of the one that waited last */
	uint64_t since;		/* when that wait began; 0: it is over */
};

struct shared {
	team teams[TEAMS];
	queue queues[ENGINE_PORTS];
	kept pages[ENGINE_WARPS][KEPT];
	uint64_t tail[ENGINE_CLASSES][ENGINE_NODES];
	uint64_t credit[ENGINE_CLASSES][ENGINE_NODES];
	/* By warp, of the packet at the head of its ring, for when it is taken again; lane 0 writes. DATA_TAKEN and how many
	 * notifications were written; of a request, how much of the answer was sent. */
	uint32_t told[ENGINE_WARPS];
	/* With DATA_TAKEN: for which port, queue::opened. */
	uint32_t taken_for[ENGINE_WARPS];
	patience waits[ENGINE_WARPS];
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

	/* Begins to look at what the host says; others may load meanwhile. Then come epoch_changed, and enter_epoch. */
	GGAS_FN void load_epoch()
	{
		/* By all lanes: whatever only some of them load is waited for at once, and not beside the next load. */
		said_ = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(&node->epoch));
	}

	/* Whether the host has said something since. */
	GGAS_FN bool epoch_changed()
	{
		bool news = ggas_lane() == 0 && (said_.lo != epoch_ || said_.hi != stop);
		return ggas_ballot(GGAS_FULL_WARP, news) != 0;
	}

	/* Returns whether there is a new epoch, which is to be acknowledged. */
	GGAS_FN bool enter_epoch()
	{
		ggas_fence_system();
		uint64_t epoch = ggas_shfl(GGAS_FULL_WARP, said_.lo, 0);
		stop = ggas_shfl(GGAS_FULL_WARP, said_.hi, 0);
		bool changed = epoch != epoch_;
		epoch_ = epoch;
		for (uint32_t i = ggas_lane(); changed && i < KEPT; i += GGAS_WARP_SIZE)
			all->pages[ggas_warp()][i].key = 0;
		/* Each warp says so, after its last look at the credits of one that was still there. */
		for (uint32_t i = ggas_lane(); changed && i < ENGINE_CLASSES * ENGINE_NODES; i += GGAS_WARP_SIZE)
			if (is_gone(i % ENGINE_NODES))
				ggas_store_relaxed(&all->credit[i / ENGINE_NODES][i % ENGINE_NODES], NO_ROOM);
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

	/* In a wait of lane 0: whether the engine is to end, and has waited for long enough. */
	GGAS_FN bool gives_up(uint64_t since)
	{
		uint64_t how = ggas_load_relaxed(&node->stop);
		return how == ENGINE_STOP_NOW || (how != 0 && ggas_time_ns() - since > args.grace_ns);
	}

	/* The same in a wait for a peer, whose engine may not run: or the host waits for this warp to take notice. Then
	 * the command begins again where it stands. */
	GGAS_FN bool gives_way(uint64_t since)
	{
		return ggas_load_relaxed(&node->epoch) != ggas_load_relaxed(&node->ack[ggas_warp()]) || gives_up(since);
	}

	/* After a command that stopped short: whether the engine is to end. What gave way begins again first. */
	GGAS_FN bool is_to_end() const
	{
		bool news = ggas_load_relaxed(&node->epoch) != ggas_load_relaxed(&node->ack[ggas_warp()]);
		bool over = !news && ggas_load_relaxed(&node->stop) != 0;
		return ggas_shfl(GGAS_FULL_WARP, static_cast<uint32_t>(over), 0) != 0;
	}

	/* Whether the process of a node has ended. What was sent there may be lost. */
	GGAS_FN bool is_gone(uint32_t peer) const { return ggas_load_relaxed(&node->gone[peer]) != 0; }
	GGAS_FN bool all_see_gone(uint32_t peer) const
	{
		return ggas_shfl(GGAS_FULL_WARP, static_cast<uint32_t>(is_gone(peer)), 0) != 0;
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

/* Where a warp keeps a translation: never two neighbours in one place, nor pages that lie a power of two apart. */
GGAS_FN kept &kept_place(shared *all, uint64_t nla)
{
	auto page = static_cast<uint32_t>(nla / PAGE);
	return all->pages[ggas_warp()][(page + (page >> 8) * 5) % KEPT];
}

/* What a warp knows a translated page by. */
GGAS_FN uint64_t kept_key(uint32_t vpid, uint64_t nla, uint32_t access)
{
	return (nla & ~(PAGE - 1)) | access << 10 | vpid;
}

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
		kept &place = kept_place(w.all, page);
		uint64_t key = kept_key(vpid, page, access);
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

} /* namespace engine */

#endif /* GGAS_ENGINE_CUH */
