/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Requester: takes descriptors from slot rings, checks and translates what they read here, and sends packets
 * (spec 2). Errors as on the model: a command that cannot be carried out moves no byte; it is counted, reported by a
 * requester notification where one was asked for, and travels on as an empty packet with its error bit, so that the
 * notification at the other side arrives too, with that bit. */
#ifndef GGAS_ENGINE_SEND_CUH
#define GGAS_ENGINE_SEND_CUH

#include "engine_fast.cuh"

namespace engine
{

constexpr uint32_t FINE = ENGINE_ERRORS;

/* How far a command came: payload bytes that left; or, once there is nothing left to send, HAS_LEFT, WITH_ERROR if it met
 * one, and how many notifications of it were written. Never 0 once it has left: it has no second try. */
constexpr uint32_t HAS_LEFT = 1u << 31, WITH_ERROR = 1u << 30;

struct command {
	uint64_t word[3];
	uint32_t vpid;		/* that posts it */
	uint32_t sent;		/* how far it came */
	bool legal;		/* the words are a command */

	GGAS_FN uint32_t code() const { return static_cast<uint32_t>(EXTOLL_GET(word[0], EXTOLL_DESC_COMMAND)); }
	GGAS_FN uint32_t node() const { return static_cast<uint32_t>(EXTOLL_GET(word[0], EXTOLL_DESC_NODE)); }
	GGAS_FN uint32_t modifier() const
	{
		return static_cast<uint32_t>(EXTOLL_GET(word[0], EXTOLL_DESC_MODIFIER));
	}
	GGAS_FN bool is_put() const { return code() == EXTOLL_CMD_BT_PUT || code() == EXTOLL_CMD_QW_PUT; }
	GGAS_FN bool is_get() const { return code() == EXTOLL_CMD_BT_GET || code() == EXTOLL_CMD_QW_GET; }
};

/* Whether the words are a command at all (spec 2.2). */
GGAS_FN bool is_command(const command &c)
{
	bool quadwords = c.code() == EXTOLL_CMD_QW_PUT || c.code() == EXTOLL_CMD_QW_GET;
	bool known = c.is_put() || c.is_get() || c.code() == EXTOLL_CMD_NOTIFICATION_PUT ||
		     c.code() == EXTOLL_CMD_IMMEDIATE_PUT || c.code() == EXTOLL_CMD_LOCK_REQ;
	bool aligned = !quadwords || ((c.word[1] | c.word[2] | total_of(c.word[0])) & 7) == 0;
	return known && aligned && EXTOLL_GET(c.word[0], EXTOLL_DESC_QUADWORDS) == EXTOLL_DESC_QUADWORDS;
}

/* Sends `total` bytes at NLA `from` of `vpid` to NLA `to`, in as many packets as it takes; *done counts those that
 * left. Where a page cannot be read the last packet says so by `unit`, an error bit, and *refused is set. False if the
 * engine ends before, or the command is to begin again from *done on. */
GGAS_FN bool send_memory(warp &w, uint32_t which, uint32_t node, kind what, uint64_t word0, uint32_t vpid,
			 uint64_t from, uint64_t to, uint32_t total, uint32_t *done, uint32_t unit, bool *refused)
{
	/* A command that cannot be carried out moves no byte. */
	if (*done == 0 && total > ENGINE_SEGMENT)
		*refused = !may_access(w.node, vpid, from, total, EXTOLL_GATE_READ);
	while (*done < total && !*refused) {
		uint32_t left = total - *done, bytes = left < ENGINE_SEGMENT ? left : ENGINE_SEGMENT;
		memory_words words;
		if (!words.from.translate(w, vpid, from + *done, bytes, EXTOLL_GATE_READ)) {
			*refused = true;
			break;
		}
		uint64_t about = meta(w.args.node, vpid, what, bytes, bytes == left, 0) | rest_of(*done);
		header h = { word0, to + *done, 0, about };
		if (!send(w, which, node, h, span{ to + *done, bytes }, words))
			return false;
		*done += bytes;
	}
	if (!*refused)
		return true;
	header h = { word0, to, 0, meta(w.args.node, vpid, what, 0, true, unit) | rest_of(*done) };
	return send(w, which, node, h, span{ to, 0 }, no_words());
}

/* Bytes of a value. */
struct value_words {
	uint64_t value;

	GGAS_FN uint64_t operator()(uint32_t i, uint32_t skew) const
	{
		return i == 0 ? value << 8 * skew : value >> (64 - 8 * skew);
	}
};

/* Sends whatever packets a command takes; *fault: what is wrong with it, FINE if nothing. False: not all of them. */
GGAS_FN bool send_command(warp &w, command &c, uint32_t *fault)
{
	uint32_t total = total_of(c.word[0]), code = c.code();
	uint32_t error = *fault == FINE ? 0u : EXTOLL_NOTI_ERROR_REQUESTER;
	if (!error && c.is_put()) {
		bool refused = false;
		bool sent = send_memory(w, ENGINE_REQUESTS, c.node(), PUT, c.word[0], c.vpid, c.word[1], c.word[2],
					total, &c.sent, EXTOLL_NOTI_ERROR_REQUESTER, &refused);
		*fault = refused ? ENGINE_ERR_SOURCE : FINE;
		return sent;
	}
	if (!error && code == EXTOLL_CMD_IMMEDIATE_PUT) {
		header h = { c.word[0], c.word[1], 0, meta(w.args.node, c.vpid, PUT, total, true, 0) };
		return send(w, ENGINE_REQUESTS, c.node(), h, span{ c.word[1], total }, value_words{ c.word[2] });
	}
	kind what = !c.legal				? PUT :
		    c.is_get()				? GET :
		    code == EXTOLL_CMD_LOCK_REQ		? LOCK :
		    code == EXTOLL_CMD_NOTIFICATION_PUT ? NOTIFICATION :
							  PUT;
	header h = { c.word[0], c.word[1], c.word[2], meta(w.args.node, c.vpid, what, 0, true, error) };
	if (!c.legal)
		h.address = 0;
	else if (c.is_put())
		h.address = c.word[2];
	return send(w, ENGINE_REQUESTS, c.node(), h, span{ 0, 0 }, no_words());
}

/* What the requester says (spec 3.1): local address of what it reads, of a get of what it writes. */
GGAS_FN report requester_report(const command &c, uint32_t error)
{
	bool lock = c.code() == EXTOLL_CMD_LOCK_REQ;
	uint64_t local = c.word[1];
	if (!c.legal || c.is_get() || c.code() == EXTOLL_CMD_IMMEDIATE_PUT)
		local = c.word[2];
	if (!c.legal && (lock || c.code() == EXTOLL_CMD_LOCK_RSP || c.code() == EXTOLL_CMD_NOTIFICATION_PUT))
		local = 0;
	if (c.legal && lock) {
		auto compare = static_cast<int32_t>(EXTOLL_GET(c.word[1], EXTOLL_DESC_LOCK_COMPARE));
		local = extoll_noti_lock_word0(EXTOLL_GET(c.word[1], EXTOLL_DESC_LOCK_NUMBER), 0, compare);
	}
	return { EXTOLL_NOTI_KIND_REQUESTER,
		 c.code(),
		 c.node(),
		 static_cast<uint32_t>(EXTOLL_GET(c.word[0], EXTOLL_DESC_VPID)),
		 mode_of(c.word[0]),
		 error,
		 total_of(c.word[0]),
		 local };
}

/* Sends what there is to send of a command. False: not all of it, and c.sent says how far it came. */
GGAS_FN bool leave(warp &w, command &c)
{
	bool exists = c.node() < w.args.nodes, gone = exists && w.all_see_gone(c.node()), route = exists && !gone;
	/* No Excellerate port, and no multicast groups. */
	bool allowed = (c.modifier() & ~EXTOLL_MOD_NTR) == 0;
	uint32_t fault = !c.legal || !allowed ? ENGINE_ERR_COMMAND : gone ? ENGINE_ERR_GONE : !route ? ENGINE_ERR_ROUTE : FINE;
	if (route && !send_command(w, c, &fault))
		return false;
	if (fault != FINE)
		w.count(fault);
	c.sent = HAS_LEFT | (fault != FINE ? WITH_ERROR : 0u);
	return true;
}

/* Carries out one command. False if the engine ends before, or the host waits for this warp; then posted->sent says how
 * far it came. */
GGAS_COLD bool execute(const engine_args &args, shared *all, command *posted)
{
	warp w(args, all);
	command &c = *posted;
	c.legal = is_command(c);
	/* What is not a command has no parameters either. */
	if (!c.legal)
		c.word[0] &= ~EXTOLL_PUT(~0u, EXTOLL_DESC_SIZE);
	if (!(c.sent & HAS_LEFT) && !leave(w, c))
		return false;
	if (!(EXTOLL_GET(c.word[0], EXTOLL_DESC_SPEC) & EXTOLL_SPEC_REQUESTER))
		return true;
	uint32_t error = c.sent & WITH_ERROR ? EXTOLL_NOTI_ERROR_REQUESTER : 0u, told = c.sent & (WITH_ERROR - 1);
	bool done = notify(w, c.vpid, requester_report(c, error), false, &told);
	c.sent = (c.sent & (HAS_LEFT | WITH_ERROR)) | ggas_shfl(GGAS_FULL_WARP, told, 0);
	return done;
}

/* What a port posted, by the fast path if possible. False as with execute; *sent: how far it came, and had come before. */
GGAS_FN bool carry_out(warp &w, like_last &last, uint32_t vpid, uint64_t word0, uint64_t word1, uint64_t word2, uint32_t *sent)
{
	if (*sent == 0 && send_fast(w, last, vpid, word0, word1, word2)) {
		if (!(EXTOLL_GET(word0, EXTOLL_DESC_SPEC) & EXTOLL_SPEC_REQUESTER))
			return true;
		auto node = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_NODE));
		auto peer = static_cast<uint32_t>(EXTOLL_GET(word0, EXTOLL_DESC_VPID));
		uint32_t bytes = total_of(word0);
		uint64_t says = fast_word1(EXTOLL_NOTI_KIND_REQUESTER, word0, node, peer, bytes);
		if (fast_report(w, vpid, word1, bytes, says, false))
			return true;
		/* It waits for room for its notification only. */
		*sent = HAS_LEFT;
	}
	/* All lanes have looked at what the general way may change. */
	ggas_syncwarp();
	/* A copy, so that nothing else has to be in memory. */
	command c = { { word0, word1, word2 }, vpid, *sent, true };
	bool done = execute(w.args, w.all, &c);
	ggas_syncwarp();
	*sent = c.sent;
	return done;
}

/* The slot ring of the port that a lane looks after. */
struct slot_view {
	const ggas_u128 *at, *none;	/* slot at the head; what is read instead where there is no ring */
	uint64_t slots, consumed, head;
	uint32_t mask, sent, near, stride;
	uint64_t word[3];	/* of the slot at the head, once it is there */
	ggas_u128 seen[3];

	GGAS_FN void load(const engine_port *port, uint32_t open, const engine_node *node)
	{
		/* Written last where the port was open before. */
		slots = open == ENGINE_PORT_OPEN ? ggas_load_acquire(&port->slots) : 0;
		consumed = ggas_load_relaxed(&port->slot_consumed);
		head = ggas_load_relaxed(&port->head);
		mask = ggas_load_relaxed(&port->slot_mask);
		sent = ggas_load_relaxed(&port->sent);
		near = ggas_load_relaxed(&port->near_slots);
		stride = near ? sizeof(ggas_near_slot) : sizeof(ggas_slot);
		none = reinterpret_cast<const ggas_u128 *>(node);
		turn();
	}

	GGAS_FN void turn()
	{
		at = slots ? reinterpret_cast<const ggas_u128 *>(slots + (head & mask) * stride) : none;
	}

	/* Looks at the head, without a branch: what only some lanes load is waited for at once. */
	GGAS_FN bool poll()
	{
		seen[0] = ggas_load_watched(at);
		seen[1] = ggas_load_watched(at + 1);
		seen[2] = ggas_load_watched(at + (near ? 2 : 1));
		bool first = seen[0].hi == head + 1 || !near;
		return slots != 0 && first && seen[1].hi == head + 1 && seen[2].hi == head + 1;
	}

	/* Takes what is there. What was written before it was posted is visible then. */
	GGAS_FN void take()
	{
		ggas_fence_acquire();
		/* Of a slot with one number the rest may have been looked at too early. */
		ggas_u128 first = near ? seen[0] : ggas_load_relaxed(at);
		word[0] = first.lo;
		word[1] = near ? seen[1].lo : first.hi;
		word[2] = seen[2].lo;
	}
};

/* What the host says of a port becomes what the block knows of it; by its owner only, as it takes notice. So nothing
 * older can come behind: a look is over before the next one begins. `open` was loaded by an acquire. */
GGAS_FN void look_at_port(queue *q, const engine_port *port, uint32_t open)
{
	uint32_t known = ggas_load_relaxed(&q->open);
	if (open == known)
		return;
	if (open == ENGINE_PORT_CLOSED) {
		ggas_store_relaxed(&q->open, open);
		return;
	}
	q->entries_at = ggas_load_relaxed(&port->queue);
	q->rp_register = ggas_load_relaxed(&port->rp_register);
	q->entries = ggas_load_relaxed(&port->queue_entries);
	q->far_queue = ggas_load_relaxed(&port->far_queue);
	ggas_store_relaxed(&q->opened, ggas_load_relaxed(&port->opened));
	ggas_store_relaxed(&q->dropped_at, 0u);
	uint64_t rp = ggas_load_relaxed(reinterpret_cast<const uint64_t *>(q->rp_register));
	ggas_store_relaxed(&q->place, rp << 32 | ggas_load_relaxed(&port->wp));
	ggas_store_release(&q->open, static_cast<uint32_t>(ENGINE_PORT_OPEN));
}

/* One requester warp: each lane looks after a port, the warp carries out what one of them found. */
GGAS_FN void serve_ports(warp &w)
{
	uint32_t vpid = ggas_lane() * w.args.requesters + ggas_warp();
	bool mine = vpid < ENGINE_PORTS;
	engine_port *port = &w.node->port[mine ? vpid : 0];
	slot_view view = {};
	view.at = view.none = reinterpret_cast<const ggas_u128 *>(w.node);
	like_last last = { 0, NO_PAGE, 0, 0, 0, 0 };
	uint32_t turn = 0;
	for (uint32_t attempt = 1;; attempt++) {
		w.load_epoch();
		uint32_t ready = ggas_ballot(GGAS_FULL_WARP, view.poll());
		if (w.epoch_changed()) {
			last.page = NO_PAGE;
			if (w.enter_epoch()) {
				/* What was taken before is the engine's to know. */
				if (mine && view.slots) {
					ggas_store_relaxed(&port->head, view.head);
					ggas_store_relaxed(&port->sent, view.sent);
				}
				if (mine) {
					/* Once, so that both go by the same, and first: the rest is as new. */
					uint32_t open = ggas_load_acquire(&port->open);
					view.load(port, open, w.node);
					look_at_port(&w.all->queues[vpid], port, open);
				}
				w.acknowledge();
			}
			if (w.stop == ENGINE_STOP_NOW)
				break;
			continue;
		}
		if (w.stop && w.ends(ENGINE_STOP_REQUESTERS, ready != 0))
			break;
		if (!ready) {
			ggas_pause(attempt);
			continue;
		}
		attempt = 0;
		view.take();
		uint32_t later = ready & ~((2u << turn) - 1);
		turn = ggas_first(later ? later : ready);
		auto word = [&](int i) { return ggas_shfl(GGAS_FULL_WARP, view.word[i], turn); };
		uint32_t sent = ggas_shfl(GGAS_FULL_WARP, view.sent, turn);
		bool done = carry_out(w, last, turn * w.args.requesters + ggas_warp(), word(0), word(1), word(2), &sent);
		if (ggas_lane() == turn) {
			view.sent = done ? 0 : sent;
			view.head += done;
			view.turn();
			if (done)
				publish_read(reinterpret_cast<uint64_t *>(view.consumed), view.head);
		}
		/* Otherwise it goes on once this warp has taken notice of what the host says. */
		if (!done && w.is_to_end())
			break;
	}
	if (mine && view.slots) {
		ggas_store_relaxed(&port->head, view.head);
		ggas_store_relaxed(&port->sent, view.sent);
	}
}

} /* namespace engine */

#endif /* GGAS_ENGINE_SEND_CUH */
