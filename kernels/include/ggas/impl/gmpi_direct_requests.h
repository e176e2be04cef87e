/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of direct communicators: how they are begun and waited for, by the leader of a call.
 *
 * Quick ways stand at each call. A kernel pays for code, too: with all that may happen at each place the instructions of a ping-pong did
 * not fit into the multiprocessor's cache, and 8 B took 4 us. What is not quick is a call, and progress with everybody.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_REQUESTS_H
#define GGAS_IMPL_GMPI_DIRECT_REQUESTS_H

#include "gmpi_channel.h"
#include "gmpi_earlier.h"
#include "gmpi_types.h"

namespace ggas_impl
{

/* Looks at a line before a step with everybody, which is code that is seldom run: what it drives out of the cache costs a microsecond.
 * Fewer behind a step that moved something, more behind one that did not, and where nothing is under way that a step could go on with. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t first_looks = 1, fewest_looks = 1, most_looks = 1, looks_if_quiet = 1;
#else
constexpr uint32_t first_looks = 64, fewest_looks = 2, most_looks = 256, looks_if_quiet = 1024;
#endif

/* Whether nothing is under way between the calling block and any member. */
GGAS_COLD bool direct_is_quiet(const gmpi_buf *buf)
{
	bool quiet = true;
	GGAS_NO_UNROLL
	for (uint32_t peer = 0; peer < buf->direct.size && quiet; peer++) {
		const gmpi_channel *state = direct_state(buf, &buf->direct, peer);
		quiet = state->sends.posted == state->sends.done && state->receives.posted == state->receives.done;
	}
	return quiet;
}

/* A request that was begun. */
struct direct_begun {
	int error;
	uint32_t jobs;	/* of the crew so far */
	uint64_t after;	/* one whose place it took */
};

/* A receive that is over. */
struct direct_outcome {
	bool over;
	int error, tag;
	uint64_t got;
};

/* How far a wait has come: since when nothing moved, steps since then, looks before the next one, whether the other one is dead. */
struct direct_waited {
	uint64_t begun;
	uint32_t attempt, jobs, looks;
	int gone, error;
};

/* Lanes of the leader: the same for all callers, whose last warp may have fewer. */
template <ggas_scope Scope> GGAS_FN uint32_t direct_lanes()
{
	uint32_t threads = put_team<Scope>::threads();
	return threads < GGAS_WARP_SIZE ? threads : GGAS_WARP_SIZE;
}

/* Whether a message has more lines than the leader has lanes. */
template <ggas_scope Scope> GGAS_FN bool direct_is_much(uint64_t bytes) { return bytes > uint64_t(8) * (direct_lanes<Scope>() - 1); }

/* A step with each member. By the leader. */
template <ggas_scope Scope>
GGAS_LONG direct_moved direct_progress(const gmpi_buf *buf, const gmpi_direct *direct, uint32_t line, uint32_t jobs)
{
	direct_crew<Scope> others(jobs);
	bool any = false;
	for (uint32_t peer = 0; peer < direct->size; peer++) {
		direct_channel<Scope> channel(buf, direct, peer, line);
		any |= channel.push(others);
		any |= channel.pull(others);
	}
	others.drain();
	return { any, others.jobs() };
}

/* Keeps what a receive came to that is over and not told. False: there is no place for it. By one lane. */
GGAS_COLD bool direct_keeps(gmpi_channel *state, const gmpi_direct_op &op)
{
	uint32_t place = 0;
	while (place < GMPI_DIRECT_OPS && state->kept[place].number && !(state->kept[place].told & 1))
		place++;
	if (place == GMPI_DIRECT_OPS)
		return false;
	state->kept[place] = op;
	return true;
}

/* Makes room for receive `number`, whose place may have an outcome that nobody asked for yet, and says for how many more there is room.
 * False: too many are not over, or not told. By the leader. */
template <ggas_scope Scope> GGAS_LONG bool direct_makes_room(gmpi_channel *state, uint64_t number)
{
	using team = gmpi_team<Scope>;
	auto is_over = [=](const gmpi_direct_op &op) { return !op.number || direct_is_over(state->receives, op.number); };
	team::meet();
	/* Each lane looks at another place. */
	uint64_t room = 0;
	for (uint64_t here = team::lanes(); here == team::lanes() && room < GMPI_DIRECT_OPS; room += here) {
		uint64_t at = room + team::lane();
		const gmpi_direct_op &op = state->receive[(number + at) % GMPI_DIRECT_OPS];
		here = team::leading(at < GMPI_DIRECT_OPS && (!op.number || ((op.told & 1) && is_over(op))));
	}
	if (!room) {
		const gmpi_direct_op &op = state->receive[number % GMPI_DIRECT_OPS];
		int keeps = 0;
		if (team::lane() == 0)
			keeps = is_over(op) && direct_keeps(state, op);
		room = team::from_first(keeps);
	}
	team::meet();
	if (team::lane() == 0 && room)
		state->room = number + room;
	team::meet();
	return room != 0;
}

/* What was asked for. An error: it cannot be. */
GGAS_FN int direct_asked(const gmpi_direct *direct, bool receives, const gmpi_data &data, int rank, int tag)
{
	if (data.count < 0 || data.bytes() > 0xffffffff)
		return GMPI_ERR_COUNT;
	if (!(static_cast<uint32_t>(data.type) & GMPI_TYPE_SIZE_MASK))
		return GMPI_ERR_TYPE;
	if (rank < 0 || static_cast<uint32_t>(rank) >= direct->size)
		return GMPI_ERR_RANK;
	if (tag < 0 && !(receives && tag == GMPI_ANY_TAG))
		return GMPI_ERR_TAG;
	return !data.at && data.bytes() ? GMPI_ERR_BUFFER : GMPI_SUCCESS;
}

/* A send that goes at once: short, with room for it and nothing in front of it. Whether it went. By the leader. */
template <ggas_scope Scope>
GGAS_FN bool direct_send_now(const gmpi_direct *direct, gmpi_channel *state, direct_crew<Scope> &others, const gmpi_direct_op &op)
{
	using team = gmpi_team<Scope>;
	uint64_t sent = state->sent, posted = state->sends.posted, done = state->sends.done, theirs = state->theirs;
	uint64_t emptied = state->emptied, slots = direct->slots, slot_bytes = direct->slot_bytes;
	if (!theirs || posted != done || op.before || op.shaped || !direct_is_short(op.bytes, slot_bytes))
		return false;
	if (GGAS_RARE(sent - emptied >= slots)) {
		emptied = direct_emptied<Scope>(state, emptied);
		if (sent - emptied >= slots)
			return false;
	}
	uint64_t info = static_cast<uint32_t>(op.tag) | uint64_t(op.bytes) << 32;
	direct_lines lines = { direct_line(theirs, sent, slots, slot_bytes), sent + 1, info, 0, 0, 0, 0, 0 };
	uint64_t at = (team::lane() - uint64_t(1)) * 8;
	if (direct_is_much<Scope>(op.bytes)) {
		others.give({ crew_work::lines_out, GMPI_SUCCESS, 0, op.address, op.bytes, lines, crew_shape::none, 0 });
	} else if (team::lane() == 0) {
		ggas_store_relaxed(lines.first, ggas_u128{ info, sent + 1 });
	} else if (at < op.bytes) {
		uint64_t word = load_word(reinterpret_cast<const uint8_t *>(op.address) + at, op.bytes - at);
		ggas_store_relaxed(lines.first + team::lane(), ggas_u128{ word, sent + 1 });
	}
	/* All lanes have loaded the counts. */
	team::meet();
	if (team::lane() == 0) {
		state->sent = sent + 1;
		state->emptied = emptied;
		state->sends.posted = posted + 1;
		state->sends.done = done + 1;
		ggas_red_add(&state->bytes, op.bytes, ggas_order::relaxed);
	}
	return true;
}

/* Looks a few times for the receive that is next; over: it came, and was short. By the leader. */
template <ggas_scope Scope>
GGAS_FN direct_outcome direct_take_now(const gmpi_buf *buf, const gmpi_direct *direct, gmpi_channel *state, direct_crew<Scope> &others,
			     uint64_t handle, uint32_t looks, uint32_t source_line)
{
	using team = gmpi_team<Scope>;
	uint64_t taken = state->taken, done = state->receives.done, mine = state->mine, theirs = state->theirs, told = state->told;
	uint64_t slots = direct->slots, slot_bytes = direct->slot_bytes;
	gmpi_direct_op *op = state->receive + done % GMPI_DIRECT_OPS;
	uint64_t address = op->address, most = op->bytes;
	bool shaped = op->shaped;
	int wanted = op->tag;
	if (!mine || static_cast<uint32_t>(done + 1) != static_cast<uint32_t>(handle))
		return { false, 0, 0, 0 };
	ggas_u128 *first = direct_line(mine, taken, slots, slot_bytes), seen = { 0, 0 };
	/* Each lane looks at its own line. */
	bool own = team::lane() == 0 || (team::lane() - 1) * uint64_t(8) < most, here = false;
	GGAS_NO_UNROLL
	for (uint32_t i = 0; i < looks && !here; i++) {
		if (own)
			seen = ggas_watch_line(first + team::lane());
		here = team::from_first(seen.hi) == taken + 1;
	}
	uint64_t info = team::from_first(seen.lo), total = info >> 32;
	int tag = static_cast<int>(info & 0xffffffff);
	if (!here || shaped || !direct_is_short(total, slot_bytes))
		return { false, 0, 0, 0 };
	bool wrong = wanted != GMPI_ANY_TAG && wanted != tag;
	uint64_t fits = wrong ? 0 : total < most ? total : most;
	direct_lines lines = { first, taken + 1, total, buf->report, direct->timeout_ns, direct->rank, direct_peer(handle), source_line };
	int late = GMPI_SUCCESS;
	uint64_t at = (team::lane() - uint64_t(1)) * 8;
	/* Mostly all lines came together. */
	bool missing = direct_is_much<Scope>(total) || (team::lane() > 0 && at < total && seen.hi != taken + 1);
	if (team::agree(missing)) {
		late = others.give({ crew_work::lines_in, GMPI_SUCCESS, address, 0, fits, lines, crew_shape::none, 0 });
		late |= others.drain();
	} else if (team::lane() > 0 && at < fits) {
		store_word(reinterpret_cast<uint8_t *>(address) + at, fits - at, seen.lo);
	}
	bool tells = taken + 1 - told >= slots / 2;
	int error = late ? GMPI_ERR_TIMEOUT : wrong ? GMPI_ERR_TAG : total > most ? GMPI_ERR_TRUNCATE : GMPI_SUCCESS;
	uint64_t got = total < most ? total : most;
	if (team::lane() == 0) {
		op->error = static_cast<uint32_t>(error);
		op->tag = tag;
		op->got = got;
		op->told = 1; /* by whoever waits here */
		state->taken = taken + 1;
		state->receives.done = done + 1;
		if (tells) {
			/* Whoever sees it may write the slots again. */
			ggas_store_release(reinterpret_cast<uint64_t *>(theirs), taken + 1);
			state->told = taken + 1;
		}
	}
	team::meet();
	return { true, error, tag, got };
}

/* Isend and Irecv that were not over at once, by the leader. */
template <ggas_scope Scope>
GGAS_LONG direct_begun direct_begin_long(const gmpi_buf *buf, bool receives, uint64_t address, uint64_t bytes, const gmpi_shape *shape, int tag,
					 uint32_t peer, uint64_t before, uint32_t line, uint32_t jobs)
{
	using team = gmpi_team<Scope>;
	const gmpi_direct *direct = &buf->direct;
	gmpi_channel *state = direct_state(buf, direct, peer);
	gmpi_direct_end *end = receives ? &state->receives : &state->sends;
	uint64_t number = end->posted;
	auto has_room = [=] {
		return receives ? number < state->room || direct_makes_room<Scope>(state, number) : number - end->done < GMPI_DIRECT_OPS;
	};
	if (!has_room()) {
		jobs = direct_progress<Scope>(buf, direct, line, jobs).jobs;
		if (!has_room())
			return { direct_lead_sees_gone<Scope>(direct, peer) ? GMPI_ERR_PROC_FAILED : GMPI_ERR_NO_MEM, jobs, 0 };
	}
	before = before ? direct_earlier<Scope>(buf, before) : 0;
	/* All lanes have loaded the counts. */
	team::meet();
	if (team::lane() == 0) {
		(receives ? state->receive : state->send)[number % GMPI_DIRECT_OPS] = {
			address, static_cast<uint32_t>(bytes), shape != nullptr, 0, before, tag, GMPI_SUCCESS, static_cast<uint32_t>(number + 1), 0
		};
		if (shape)
			(receives ? state->receive_shape : state->send_shape)[number % GMPI_DIRECT_OPS] = *shape;
		end->posted = number + 1;
		if (!receives)
			ggas_red_add(&state->bytes, bytes, ggas_order::relaxed);
	}
	team::meet();
	if (receives && bytes >= GMPI_DIRECT_PLACED)
		direct_tell_place<Scope>(buf, direct, peer, number, state->receive[number % GMPI_DIRECT_OPS]);
	/* Mostly there is room, and it is on its way at once. */
	if (!receives)
		jobs = direct_progress<Scope>(buf, direct, line, jobs).jobs;
	return { GMPI_SUCCESS, jobs, before };
}

/* Begins a send or a receive, by the leader; `handle`: what all its lanes have then. */
template <ggas_scope Scope>
GGAS_FN int direct_begin(const gmpi_buf *buf, const gmpi_direct *direct, direct_crew<Scope> &others, bool receives, const gmpi_data &data,
			 int rank, int tag, uint64_t before, uint64_t *handle, uint32_t line)
{
	using team = gmpi_team<Scope>;
	if (int error = direct_asked(direct, receives, data, rank, tag))
		return error;
	uint32_t peer = static_cast<uint32_t>(rank);
	gmpi_channel *state = direct_state(buf, direct, peer);
	uint64_t number = receives ? state->receives.posted : state->sends.posted;
	*handle = direct_handle(buf, peer, number, receives);
	gmpi_direct_op op = { gmpi_address(data.at), static_cast<uint32_t>(data.bytes()), data.shape != nullptr, 0, before, tag,
			      GMPI_SUCCESS, static_cast<uint32_t>(number + 1), 0 };
	if (!receives && direct_send_now<Scope>(direct, state, others, op))
		return GMPI_SUCCESS;
	if (receives && !before && !op.shaped && number < state->room) {
		team::meet();
		if (team::lane() == 0) {
			state->receive[number % GMPI_DIRECT_OPS] = op;
			state->receives.posted = number + 1;
		}
		team::meet();
		if (GGAS_RARE(op.bytes >= GMPI_DIRECT_PLACED))
			direct_tell_place<Scope>(buf, direct, peer, number, op);
		return GMPI_SUCCESS;
	}
	direct_begun begun = direct_begin_long<Scope>(buf, receives, op.address, op.bytes, data.shape, tag, peer, before, line, others.jobs());
	others = direct_crew<Scope>(begun.jobs);
	*handle |= uint64_t(begun.after != 0) << GMPI_REQUEST_AFTER_SHIFT;
	return begun.error;
}

/* What a receive that is over came to, as its place says; `last`: its place may have another one then. By the leader. */
template <ggas_scope Scope> GGAS_LONG direct_outcome direct_kept(gmpi_channel *state, uint64_t handle, bool last)
{
	gmpi_direct_op *op = direct_op(state, handle);
	direct_outcome outcome = { true, GMPI_SUCCESS, GMPI_ANY_TAG, 0 };
	if (op)
		outcome = { true, static_cast<int>(op->error), op->tag, op->got };
	gmpi_team<Scope>::meet();
	if (op && last && gmpi_team<Scope>::lane() == 0)
		op->told |= 1;
	return outcome;
}

/* What a request that is over came to; `known`: one that this wait has taken. By the leader. */
template <ggas_scope Scope>
GGAS_FN int direct_told(gmpi_channel *state, uint64_t handle, const direct_outcome &known, gmpi_status *status, bool last = true)
{
	bool receives = direct_receives(handle);
	direct_outcome outcome = { true, GMPI_SUCCESS, GMPI_ANY_TAG, 0 };
	if (receives)
		outcome = known.over ? known : direct_kept<Scope>(state, handle, last);
	int source = receives ? static_cast<int>(direct_peer(handle)) : GMPI_ANY_SOURCE;
	if (status && gmpi_team<Scope>::lane() == 0)
		*status = { source, outcome.tag, outcome.error, 0, outcome.got };
	return outcome.error;
}

/* The same of one whose other end is dead. By the leader. */
template <ggas_scope Scope> GGAS_FN int direct_failed(uint64_t handle, gmpi_status *status)
{
	if (status && gmpi_team<Scope>::lane() == 0)
		*status = { static_cast<int>(direct_peer(handle)), GMPI_ANY_TAG, GMPI_ERR_PROC_FAILED, 0, 0 };
	return GMPI_ERR_PROC_FAILED;
}

/* The part of a wait for a handle that takes long: a step with everybody. By the leader. */
template <ggas_scope Scope>
GGAS_LONG direct_waited direct_wait_step(const gmpi_buf *buf, uint64_t handle, direct_waited waited, uint32_t line)
{
	using team = gmpi_team<Scope>;
	const gmpi_direct *direct = &buf->direct;
	direct_moved moved = direct_progress<Scope>(buf, direct, line, waited.jobs);
	uint64_t begun = waited.begun;
	int late = 0, gone = 0;
	if (!moved.any && team::lane() == 0) {
		/* What it sent before it died may have come meanwhile. */
		gone = direct_is_gone(direct, direct_peer(handle));
		late = waited.gone ? GMPI_ERR_PROC_FAILED : GMPI_SUCCESS;
		uint64_t now = ggas_time_ns();
		begun = begun ? begun : now;
		ggas_wait wait(buf->report, direct->timeout_ns, GGAS_WAIT_FLAG, direct->rank, direct_peer(handle), line);
		uint64_t state = reinterpret_cast<uint64_t>(direct_state(buf, direct, direct_peer(handle)));
		wait.shows(state, handle & 0xffffffff, 0);
		ggas_pause(waited.attempt * waited.looks);
		if (!late && now - begun >= direct->timeout_ns) {
			wait.fail(GGAS_ERR_TIMEOUT, state, handle & 0xffffffff, 0, now - begun);
			late = GMPI_ERR_TIMEOUT;
		}
	}
	uint32_t looks = waited.looks < most_looks ? 2 * waited.looks : waited.looks;
	return { moved.any ? 0 : team::from_first(begun), moved.any ? 1 : waited.attempt + 1, moved.jobs,
		 moved.any ? fewest_looks : looks, team::from_first(gone), team::from_first(late) };
}

/* Waits for one. By the leader. */
template <ggas_scope Scope>
GGAS_FN int direct_wait_in(const gmpi_buf *buf, gmpi_channel *state, direct_crew<Scope> &others, uint64_t handle,
			   gmpi_status *status, uint32_t line)
{
	const gmpi_direct *direct = &buf->direct;
	bool receives = direct_receives(handle);
	direct_waited waited = { 0, 1, 0, first_looks, 0, 0 };
	direct_outcome outcome = { false, 0, 0, 0 };
	GGAS_NO_UNROLL
	while (!direct_is_over(receives ? state->receives : state->sends, handle)) {
		if (receives)
			outcome = direct_take_now<Scope>(buf, direct, state, others, handle, waited.looks, line);
		if (outcome.over)
			break;
		waited.jobs = others.jobs();
		waited = direct_wait_step<Scope>(buf, handle, waited, line);
		others = direct_crew<Scope>(waited.jobs);
		if (waited.error == GMPI_ERR_PROC_FAILED)
			return direct_failed<Scope>(handle, status);
		if (waited.error)
			return waited.error;
	}
	return direct_told<Scope>(state, handle, outcome, status);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_REQUESTS_H */
