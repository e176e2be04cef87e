/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Notifications of the engine (spec 3.1). */
#ifndef GGAS_ENGINE_REPORT_CUH
#define GGAS_ENGINE_REPORT_CUH

#include "engine.cuh"

namespace engine
{

/* What a unit says about a command. */
struct report {
	uint32_t kind, command, node, vpid, mode, error;
	uint32_t total;		/* bytes; class of a notification put */
	uint64_t local;		/* local address of the first byte, or word 0 where there is none */
};

/* Takes an entry of an open queue if there is room as far as was seen, and nobody else takes it. */
GGAS_FN bool take_entry(queue *q, uint32_t *entry)
{
	uint64_t place = ggas_load_block(&q->place);
	uint32_t open = ggas_load_block(&q->open);
	uint32_t wp = static_cast<uint32_t>(place), next = wp + 1 == q->entries ? 0 : wp + 1;
	*entry = wp;
	return next != place >> 32 && open != 0 &&
	       ggas_atomic_cas_block(&q->place, place, (place & ~0xffffffffull) | next, ggas_order::relaxed) == place;
}

/* `release`: behind everything that the warp stored. */
GGAS_FN void write_entry(warp &w, uint32_t vpid, uint32_t entry, uint64_t word0, uint64_t word1, bool release)
{
	if (release)
		w.fence_for(vpid);
	auto *at = reinterpret_cast<ggas_u128 *>(w.all->queues[vpid].entries_at) + entry;
#ifdef GGAS_EXECUTOR
	ggas_store_release(at, ggas_u128{ word0, word1 });
#else
	ggas_store_relaxed(at, ggas_u128{ word0, word1 });
#endif
}

enum class room : uint32_t { FOUND, NEVER, NOT_YET };

/* Waits for an entry of a queue that was full, a bounded time from *since on; 0: from now on. */
GGAS_COLD room wait_for_room(warp &w, queue &q, bool completer, uint64_t *since, uint32_t *entry)
{
	for (uint32_t attempt = 1; !take_entry(&q, entry); attempt++) {
		if (ggas_load_relaxed(&q.open) == ENGINE_PORT_CLOSED)
			return room::NEVER;
		uint64_t place = ggas_load_block(&q.place);
		uint32_t wp = static_cast<uint32_t>(place), next = wp + 1 == q.entries ? 0 : wp + 1;
		uint32_t rp = static_cast<uint32_t>(
			ggas_load_acquire(reinterpret_cast<const uint64_t *>(q.rp_register)));
		if (rp != next) {
			/* Somebody reads it: when it is full again it is waited for again, at whatever index. */
			ggas_store_relaxed(&q.dropped_at, 0u);
			*since = 0;
			ggas_atomic_cas_block(&q.place, place, static_cast<uint64_t>(rp) << 32 | wp, ggas_order::relaxed);
			continue;
		}
		*since = *since ? *since : ggas_time_ns();
		bool dropped = ggas_load_relaxed(&q.dropped_at) == rp + 1 || ggas_time_ns() - *since > w.args.queue_ns;
		if (dropped) {
			ggas_store_relaxed(&q.dropped_at, rp + 1);
			w.count(ENGINE_ERR_DROPPED);
			return room::NEVER;
		}
		if (completer ? w.gives_way(*since) : w.gives_up(*since))
			return room::NOT_YET;
		ggas_pause(attempt);
	}
	return room::FOUND;
}

/* Puts an entry into a queue; lane 0 only. False if the engine ends before there is room. A completer gives way as well,
 * to whatever the host says: its packet is taken again, and goes on waiting. What
 * the others sent cannot be sent again. */
GGAS_FN bool push(warp &w, uint32_t vpid, uint64_t word0, uint64_t word1, bool release)
{
	queue &q = w.all->queues[vpid];
	bool completer = extoll_noti_kind(word1) == EXTOLL_NOTI_KIND_COMPLETER;
	patience &wait = w.all->waits[ggas_warp()];
	uint32_t entry;
	room found = room::FOUND;
	uint64_t since = 0;
	if (!take_entry(&q, &entry)) {
		/* It goes on, unless it was that of a packet which was then taken by the fast path. */
		since = completer && wait.waited == wait.packet ? wait.since : 0;
		found = wait_for_room(w, q, completer, &since, &entry);
		wait.waited = wait.packet;
	}
	if (completer)
		wait.since = found == room::NOT_YET ? since : 0;
	if (found == room::FOUND)
		write_entry(w, vpid, entry, word0, word1, release);
	return found != room::NOT_YET;
}

/* One entry of a transfer: the fragment at `offset`. */
GGAS_FN bool push_fragment(warp &w, uint32_t to, const report &r, uint32_t offset, uint32_t bytes, bool release)
{
	uint64_t word1 = extoll_noti_word1(r.kind, r.command, r.node, r.vpid, r.mode, r.error, bytes - 1);
	return push(w, to, r.local + offset, word1, release);
}

/* *told: how many entries of it were written before, and are now. */
GGAS_FN bool push_report(warp &w, uint32_t to, const report &r, bool release, uint32_t *told)
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
			for (uint32_t offset = *told * EXTOLL_FRAGMENT; offset < last; offset += EXTOLL_FRAGMENT, ++*told)
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

/* All lanes call; the notifications are written by lane 0, whose `told` counts. False as with push. */
GGAS_FN bool notify(warp &w, uint32_t to, const report &r, bool release, uint32_t *told)
{
	bool written = true;
	ggas_syncwarp();
	if (ggas_lane() == 0)
		written = push_report(w, to, r, release, told);
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

#endif /* GGAS_ENGINE_REPORT_CUH */
