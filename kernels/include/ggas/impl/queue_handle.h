/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What kernels hold of queues and of memory, and what is refused; included by queue.cuh. */
#ifndef GGAS_IMPL_QUEUE_HANDLE_H
#define GGAS_IMPL_QUEUE_HANDLE_H

/* A queue. Make it once and keep it: a post then reads nothing but the port's state. Each thread that calls has one. */
struct ggas_queue {
	const ggas_queues *all;
	ggas_port *port;
	ggas_queue_state *state;	/* null: there is no port, and nothing to wait for */
	ggas_queue_peer *peers;
	uint32_t number, port_number, limit;
	uint32_t member, flag_count;
	ggas_impl::slot_shape shape;

	/* A number that is none makes a queue that refuses all. */
	GGAS_FN ggas_queue(const ggas_queues *queues, uint32_t queue)
		: all(queues), port(nullptr), state(nullptr), peers(nullptr), number(queue), port_number(0), limit(0),
		  member(queues->member), flag_count(queues->flag_count), shape()
	{
		if (queue >= queues->queues)
			return;
		const ggas_queue_entry &entry = queues->queue[queue];
		port = reinterpret_cast<ggas_port *>(entry.port);
		state = reinterpret_cast<ggas_queue_state *>(entry.state);
		peers = reinterpret_cast<ggas_queue_peer *>(entry.peers);
		port_number = entry.port_number;
		limit = entry.limit;
		if (port)
			shape = ggas_impl::slot_shape(port);
	}

	GGAS_FN bool good() const { return peers != nullptr; }

	/* Which no other queue has, of other `queues` either: numbers lie within the structure. */
	GGAS_FN uint64_t name() const { return reinterpret_cast<uint64_t>(all) + number; }
};

/* Memory of one member, this one too, as one queue reaches it: with another queue it is refused. Make it once, too. */
struct ggas_remote {
	uint64_t address;
	uint64_t limit;	/* bytes, and bit GGAS_MEMORY_TRACED_BIT where they are counted: so the check that refuses others sees it */
	uint64_t loads;	/* bytes that this member's threads load there: all of its own memory, of other's none */
	uint64_t nla, flags;	/* nla: or `no_nla`; flags: address or NLA of the member's flags, as `way` says */
	uint64_t queue;	/* the queue's name(): NLAs are those of its port */
	ggas_queue_peer *peer;
	uint32_t member, node, vpid;
	uint32_t way;	/* GGAS_WAY_* */

	static constexpr uint64_t no_nla = uint64_t(1) << 63;	/* a sign, which NLAs do not have */

	/* None, which is refused when it is used. */
	GGAS_FN ggas_remote()
		: address(0), limit(0), loads(0), nla(no_nla), flags(0), queue(0), peer(nullptr), member(~0u), node(0), vpid(0),
		  way(GGAS_WAY_NONE)
	{
	}

	/* How many bytes it has. */
	GGAS_FN uint64_t bytes() const { return limit & ~(uint64_t(1) << GGAS_MEMORY_TRACED_BIT); }

	/* Where it lies, of the member that it names. */
	GGAS_FN void lies(const ggas_queue &by, uint64_t at, uint64_t length, uint32_t how)
	{
		address = at;
		limit = length;
		way = how;
		loads = member == by.member && how != GGAS_WAY_NONE ? length : 0;
	}

	/* Of `of`, one of the members that share `memory`, an array by member (Shared::address). One that is none is
	 * refused when it is used. */
	GGAS_FN ggas_remote(const ggas_queue &by, const ggas_memory *memory, uint32_t of)
		: address(0), limit(0), loads(0), nla(no_nla), flags(0), queue(by.name()), peer(nullptr), member(of), node(0),
		  vpid(0), way(GGAS_WAY_NONE)
	{
		if (!by.good() || of >= by.all->members)
			return;
		const ggas_memory &part = memory[of];
		const ggas_memory &words = reinterpret_cast<const ggas_memory *>(by.all->flags)[of];
		/* Memory of queues that have ports, by a queue that has none. */
		bool none = part.way == GGAS_WAY_DEVICE && !by.port;
		lies(by, part.address, part.bytes, none ? GGAS_WAY_NONE : part.way);
		peer = by.peers + of;
		node = peer->node;
		vpid = peer->vpid;
		if (part.nlas && by.port)
			nla = reinterpret_cast<const uint64_t *>(part.nlas)[by.port_number];
		flags = words.address;
		if (way == GGAS_WAY_DEVICE && words.nlas)
			flags = reinterpret_cast<const uint64_t *>(words.nlas)[by.port_number];
	}
};

namespace ggas_impl
{

constexpr uint64_t memory_traced = uint64_t(1) << GGAS_MEMORY_TRACED_BIT;

/* Takes values: pointers would keep the caller's in memory. */
GGAS_COLD int refuse_queue(uint64_t report, uint32_t self, uint32_t peer, uint32_t what, uint64_t expected,
			   uint64_t seen, uint32_t line, uint64_t offset = 0)
{
	write_report(reinterpret_cast<ggas_report *>(report), GGAS_ERR_ARGUMENT, GGAS_WAIT_QUEUE, self, peer, line,
		     what, expected, seen, offset);
	return GGAS_ERR_ARGUMENT;
}
GGAS_FN int refuse_number(const ggas_queue &queue, uint32_t line)
{
	return refuse_queue(queue.all->report, queue.all->member, ~0u, GGAS_QUEUE_REFUSED_QUEUE, queue.all->queues,
			    queue.number, line);
}
/* Counts, for its callers, what a queue moves to or from a member. `how`: trace_by(), trace_got, trace_flag. */
GGAS_FN void trace_queue(const ggas_queues *all, uint32_t member, uint32_t how, uint64_t bytes)
{
	if (counts_it(how))
		trace_moved(all->report, member, bytes + (how & trace_flag ? sizeof(uint64_t) : 0), how);
}

/* Unless all that is wrong is that the memory is traced. `of`: the name of the queue that memory of `member`, `has` bytes, was made for. */
GGAS_COLD int refuse_range(const ggas_queues *all, uint32_t queue, uint64_t of, uint32_t member, uint32_t way,
			   uint64_t has, uint64_t offset, uint64_t bytes, uint32_t line)
{
	bool is_traced = has & memory_traced;
	has &= ~memory_traced;
	uint32_t what = GGAS_QUEUE_REFUSED_RANGE;
	uint64_t expected = has, seen = bytes, made_for = of - reinterpret_cast<uint64_t>(all);
	if (queue >= all->queues) {
		what = GGAS_QUEUE_REFUSED_QUEUE;
		expected = all->queues;
		seen = queue;
	} else if (made_for != queue) {
		what = GGAS_QUEUE_REFUSED_REMOTE;
		expected = queue;
		seen = made_for;
	} else if (member >= all->members) {
		what = GGAS_QUEUE_REFUSED_MEMBER;
		expected = all->members;
		seen = member;
	} else if (way == GGAS_WAY_NONE) {
		what = GGAS_QUEUE_REFUSED_WAY;
	} else if (is_traced && holds(has, offset, bytes, 1)) {
		trace_queue(all, member, line >> line_bits, bytes);
		return GGAS_OK;
	}
	return refuse_queue(all->report, all->member, member, what, expected, seen, line & line_mask, offset);
}

/* 0: the queue reaches that range, and was asked how: NLAs of another port lead to other memory, or to none. A post asks for
 * little else, and by one thread, so it is said in as few instructions as there can be. `differs`: bits that should be 0;
 * `outside`: a sign that should be. Memory has less than 2^63 bytes, and an offset or a size of more is one sign of four. */
struct refusals {
	uint64_t differs = 0, outside = 0;

	GGAS_FN void ask(const ggas_queue &queue, const ggas_remote &at, uint64_t offset, uint64_t bytes)
	{
		static_assert(GGAS_WAY_NONE == 0, "what it is less than");
		uint64_t left = at.limit - offset;
		differs |= at.queue ^ queue.name();
		outside |= offset | bytes | left | (left - bytes) | static_cast<uint64_t>(at.way - 1) << 32;
	}
	GGAS_FN bool any() const { return (differs != 0) | (static_cast<int64_t>(outside) < 0); }
};

GGAS_FN bool reaches(const ggas_queue &queue, const ggas_remote &at, uint64_t offset, uint64_t bytes)
{
	refusals not_there;
	not_there.ask(queue, at, offset, bytes);
	return !not_there.any();
}
/* `line`: of traced(), or what is traced is not counted. */
GGAS_FN int check_range(const ggas_queue &queue, const ggas_remote &at, uint64_t offset, uint64_t bytes, uint32_t line)
{
	if (reaches(queue, at, offset, bytes))
		return GGAS_OK;
	return refuse_range(queue.all, queue.number, at.queue, at.member, at.way, at.limit, offset, bytes, line);
}

/* May be loaded before the rest is checked: less to ask than all that a post is refused for. */
GGAS_FN bool loads_own(const ggas_remote &own, uint64_t offset, uint64_t bytes)
{
	return (offset <= own.loads) & (bytes <= own.loads - offset);
}

GGAS_FN int check_own(const ggas_queue &queue, const ggas_remote &own, uint64_t offset, uint64_t bytes, uint32_t line)
{
	if (own.member != queue.member)
		return refuse_queue(queue.all->report, queue.member, own.member, GGAS_QUEUE_REFUSED_OWN, queue.member,
				    own.member, line);
	return check_range(queue, own, offset, bytes, line);
}

/* What may be wrong with both ends of a transfer: another member's, and this one's. */
GGAS_FN refusals refused_ends(const ggas_queue &queue, const ggas_remote &there, uint64_t there_offset, const ggas_remote &own,
			      uint64_t own_offset, uint64_t bytes)
{
	refusals some;
	some.ask(queue, there, there_offset, bytes);
	some.ask(queue, own, own_offset, bytes);
	some.differs |= own.member ^ queue.member;
	return some;
}
GGAS_COLD int refuse_ends(ggas_queue queue, ggas_remote there, uint64_t there_offset, ggas_remote own, uint64_t own_offset,
			  uint64_t bytes, uint32_t line)
{
	uint32_t how = line >> line_bits;
	line &= line_mask;
	if (int error = check_range(queue, there, there_offset, bytes, line))
		return error;
	if (int error = check_own(queue, own, own_offset, bytes, line))
		return error;
	/* What is left: it has no NLA, or is traced. */
	bool needs_nla = there.way == GGAS_WAY_DEVICE && own.nla & ggas_remote::no_nla;
	if (needs_nla || !(there.limit & memory_traced))
		return refuse_queue(queue.all->report, queue.member, own.member, GGAS_QUEUE_REFUSED_WAY, 0, 0, line);
	trace_queue(queue.all, there.member, how, bytes);
	return GGAS_OK;
}

GGAS_FN int check_ends(const ggas_queue &queue, const ggas_remote &there, uint64_t there_offset, const ggas_remote &own,
		       uint64_t own_offset, uint64_t bytes, uint32_t line)
{
	bool wrong = refused_ends(queue, there, there_offset, own, own_offset, bytes).any();
	return GGAS_RARE(wrong) ? refuse_ends(queue, there, there_offset, own, own_offset, bytes, line) : GGAS_OK;
}

GGAS_FN int check_member(const ggas_queues *all, uint32_t member, uint32_t line)
{
	if (member < all->members)
		return GGAS_OK;
	return refuse_queue(all->report, all->member, member, GGAS_QUEUE_REFUSED_MEMBER, all->members, member, line);
}

GGAS_COLD int refuse_flag(const ggas_queues *all, uint32_t flags, uint32_t number, uint32_t line)
{
	return refuse_queue(all->report, all->member, ~0u, GGAS_QUEUE_REFUSED_FLAG, flags, number, line);
}
/* Programs name a flag of this number. */
GGAS_FN int check_flag(const ggas_queues *all, uint32_t flags, uint32_t number, uint32_t line)
{
	if (number < flags)
		return GGAS_OK;
	return refuse_flag(all, flags, number, line);
}

/* Numbers of the other words beside the flags. */
GGAS_FN uint32_t round_flag(const ggas_queues *all, uint32_t from, uint32_t round)
{
	return all->flag_count + 2 * from + (round & 1);
}
GGAS_FN uint32_t notified_word(const ggas_queues *all, uint32_t queue)
{
	return all->flag_count + 2 * all->members + queue;
}
GGAS_FN uint32_t quiet_word(const ggas_queues *all, uint32_t queue)
{
	return notified_word(all, GGAS_QUEUES) + queue;
}

GGAS_FN uint64_t *own_flag(const ggas_queues *all, uint32_t number)
{
	return reinterpret_cast<uint64_t *>(reinterpret_cast<const ggas_memory *>(all->flags)[all->member].address) +
	       number;
}

/* What one thread of a team found, as the status that the team agrees on: an error, or this and a number. */
constexpr int found = 1 << 8;
GGAS_FN int found_by_one(int status, uint32_t *which)
{
	if (status < found)
		return status;
	*which = static_cast<uint32_t>(status - found);
	return GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_QUEUE_HANDLE_H */
