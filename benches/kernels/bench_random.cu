// SPDX-License-Identifier: MIT OR Apache-2.0
// randomaccess (thesis 6.9.3, HPCC rules): random numbers go to mailboxes of the nodes that own the entries.
//
// Rounds: every block makes its look-ahead of updates, puts each in the mailbox for it at its owner (block b
// works with the blocks b of the other nodes), and applies what the others put in its own. Mailboxes are double:
// a node sends round r + 1 only after it applied round r, so who has all of round r + 1 may overwrite round r.
#include "bench.cuh"
#include "ggas/put.cuh"
#include "ggas/rma.cuh"

#include "bench.h"

static constexpr uint64_t random_poly = 7;

/* A thread's part of its node's stream. */
struct random_stream {
	uint64_t random; /* last number */
	uint64_t left;	 /* numbers still to make */
};

/* Splits the updates of the node over its threads as the host did for `starts`. */
static GGAS_FN random_stream stream_of_thread(const bench_random &args)
{
	uint64_t threads = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();
	uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	uint64_t each = args.updates / threads, rest = args.updates % threads;

	return { reinterpret_cast<const uint64_t *>(args.starts)[self], each + (self < rest) };
}

static GGAS_FN uint64_t next_number(random_stream &stream)
{
	stream.random = (stream.random << 1) ^ (stream.random >> 63 ? random_poly : 0);
	stream.left--;
	return stream.random;
}

static GGAS_FN uint32_t owner_of(const bench_random &args, uint64_t random)
{
	/* A division of 64 bits takes as long as an update. */
	uint64_t entry = random & (args.entries - 1);
	if (args.entries >> 32 == 0)
		return static_cast<uint32_t>(entry) / static_cast<uint32_t>(args.per_node);
	return static_cast<uint32_t>(entry / args.per_node);
}

/* Xors an update into this node's table. Other blocks do so too, so it is atomic; nobody reads before the end. */
static GGAS_FN void apply(const bench_random &args, uint64_t random)
{
	uint64_t entry = (random & (args.entries - 1)) - args.node * args.per_node;

	ggas_red_xor(reinterpret_cast<uint64_t *>(args.table) + entry, random, ggas_order::relaxed);
}

/* Words of one mailbox: a count, then up to look_ahead numbers; whole 16 bytes. */
static GGAS_FN uint64_t box_words(const bench_random &args)
{
	return (1ull + args.look_ahead + 1) & ~1ull;
}

/* Place of the mailbox for (block, parity, node) among mailboxes, in bytes. */
static GGAS_FN uint64_t box_at(const bench_random &args, uint32_t parity, uint32_t node)
{
	uint64_t index = (static_cast<uint64_t>(ggas_block()) * 2 + parity) * args.nodes + node;
	return index * box_words(args) * sizeof(uint64_t);
}

/* Makes this round's numbers and hands each to `send(owner, position, number)`; own ones are applied. */
template <class Send>
static GGAS_FN void make_round(const bench_random &args, random_stream &stream, uint32_t *counts, const Send &send)
{
	for (uint32_t node = ggas_thread(); node < args.nodes; node += ggas_threads())
		counts[node] = 0;
	ggas_syncthreads();
	uint32_t each = args.look_ahead / ggas_threads();
	for (uint32_t k = 0; k < each && stream.left > 0; k++) {
		uint64_t random = next_number(stream);
		uint32_t owner = owner_of(args, random);
		if (owner == args.node)
			apply(args, random);
		else
			send(owner, ggas_atomic_add_block(&counts[owner], 1u, ggas_order::relaxed), random);
	}
	ggas_syncthreads();
}

/* Applies all that the others sent for this round to `boxes`. */
static GGAS_FN void apply_round(const bench_random &args, uint64_t boxes, uint32_t parity)
{
	for (uint32_t sender = 0; sender < args.nodes; sender++) {
		if (sender == args.node)
			continue;
		auto *box = reinterpret_cast<const uint64_t *>(boxes + box_at(args, parity, sender));
		uint64_t count = ggas_load_relaxed(box);
		for (uint64_t k = ggas_thread(); k < count; k += ggas_threads())
			apply(args, ggas_load_relaxed(box + 1 + k));
	}
	ggas_syncthreads();
}

/* Runs all rounds: `exchange(round, parity)` tells the others and waits for them; gives the status of the block. */
template <class Send, class Exchange>
static GGAS_FN int random_rounds(const bench_random &args, bench_stopwatch &watch, uint32_t *counts, uint64_t boxes,
				 const Send &send, const Exchange &exchange)
{
	random_stream stream = stream_of_thread(args);
	bool measures = ggas_block() == 0 && ggas_thread() == 0;

	for (uint64_t round = 0; round < watch.rounds(); round++) {
		uint32_t parity = round & 1;
		if (measures)
			watch.begin(round);
		make_round(args, stream, counts, [&](uint32_t owner, uint32_t at, uint64_t random) {
			send(box_at(args, parity, args.node), parity, owner, at, random);
		});
		if (int error = ggas_block_status(exchange(round, parity)))
			return error;
		apply_round(args, boxes, parity);
		if (measures)
			watch.end(round);
	}
	return GGAS_OK;
}

/* GGAS: numbers are stored straight to the owner's mailbox; a flag per block and sender says how many rounds it
 * sent. The window holds the flags, then the mailboxes. */
GGAS_KERNEL(bench_random_ggas, bench_random)
{
	auto *window = reinterpret_cast<const ggas_window *>(args.window);
	uint64_t boxes = (ggas_blocks() * args.nodes * sizeof(uint64_t) + 255) & ~255ull;
	uint64_t flags = ggas_block() * args.nodes * sizeof(uint64_t);
	GGAS_SHARED_ARRAY(uint32_t, counts, BENCH_RANDOM_NODES);

	auto send = [&](uint64_t box, uint32_t, uint32_t owner, uint32_t at, uint64_t random) {
		ggas_store(window, owner, boxes + box + (1 + at) * sizeof(uint64_t), random);
	};
	auto exchange = [&](uint64_t round, uint32_t parity) {
		for (uint32_t n = ggas_thread(); n < args.nodes; n += ggas_threads()) {
			if (n == args.node)
				continue;
			ggas_store(window, n, boxes + box_at(args, parity, args.node), uint64_t(counts[n]));
			ggas_flag_set(ggas_pointer_of_node<uint64_t>(window, n, flags) + args.node, round + 1);
		}
		int status = GGAS_OK;
		auto *mine = ggas_pointer_of_node<const uint64_t>(window, args.node, flags);
		for (uint32_t n = ggas_thread(); n < args.nodes && !status; n += ggas_threads())
			if (n != args.node)
				status = ggas_flag_wait(window, mine + n, round + 1, n);
		return status;
	};
	bench_stopwatch watch(args.timing);
	int status = random_rounds(args, watch, counts, window->local + boxes, send, exchange);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}

/* Makes the updates of a thread's stream, each at place(number) once the one before is performed, so that no more are
 * on their way than there are threads. Relaxed, since an acquire also empties the cache: the answer goes into the next
 * number, which cannot be made before, and changes nothing of it, since `nothing` is 0. */
template <class Place> static GGAS_FN void update_all(random_stream stream, uint64_t nothing, const Place &place)
{
	GGAS_NO_UNROLL
	while (stream.left > 0) {
		uint64_t random = next_number(stream);
		uint64_t answer = ggas_atomic_xor(place(random), random, ggas_order::relaxed);
		stream.random ^= answer & nothing;
	}
}

/* Atomics: every update goes to its entry at once. No clock, and no division where a node's entries are a power of
 * two. The window holds the table. */
GGAS_KERNEL(bench_random_atomics, bench_random)
{
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	random_stream stream = stream_of_thread(args);
	uint64_t nothing = args.entries >> 63, mask = args.entries - 1, part = args.per_node - 1;
	uint32_t shift = 0;
	while (args.per_node >> shift > 1)
		shift++;

	if (args.per_node == 1ull << shift)
		update_all(stream, nothing, [&](uint64_t random) {
			auto owner = static_cast<uint32_t>((random & mask) >> shift);
			return ggas_global_pointer<uint64_t>(&window, owner) + (random & part);
		});
	else
		update_all(stream, nothing, [&](uint64_t random) {
			uint32_t owner = owner_of(args, random);
			return ggas_global_pointer<uint64_t>(&window, owner) +
			       ((random & mask) - owner * args.per_node);
		});
	if (ggas_block() == 0 && ggas_thread() == 0)
		bench_stopwatch(args.timing).stop(GGAS_OK);
}

/* Consumes notifications until every other node has sent this round; nodes may be a round ahead. Thread 0. */
static GGAS_FN int take_round(const bench_random &args, ggas_port *port, uint64_t round, uint64_t *sent)
{
	for (uint32_t n = 0; n < args.nodes; n++) {
		while (n != args.node && sent[n] <= round) {
			extoll_noti noti;
			if (int error = gpu_rma2_noti_take(port, &noti))
				return error;
			sent[extoll_noti_node(noti.word1)]++;
		}
	}
	return GGAS_OK;
}

/* RMA: numbers are collected per owner in memory, and each owner gets one put per round with its completer
 * notification: a count and the numbers. One block: it consumes the port's notifications. */
GGAS_KERNEL(bench_random_rma, bench_random)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	auto *peers = reinterpret_cast<const bench_peer *>(args.peers);
	GGAS_SHARED_ARRAY(uint32_t, counts, BENCH_RANDOM_NODES);
	GGAS_SHARED_ARRAY(uint64_t, sent, BENCH_RANDOM_NODES);

	for (uint32_t n = ggas_thread(); n < args.nodes; n += ggas_threads())
		sent[n] = 0;
	auto send = [&](uint64_t, uint32_t parity, uint32_t owner, uint32_t at, uint64_t random) {
		auto *box = reinterpret_cast<uint64_t *>(args.outboxes + box_at(args, parity, owner));
		ggas_store_relaxed(box + 1 + at, random);
	};
	auto exchange = [&](uint64_t round, uint32_t parity) {
		int status = GGAS_OK;
		for (uint32_t n = ggas_thread(); n < args.nodes && !status; n += ggas_threads()) {
			if (n == args.node)
				continue;
			uint64_t box = box_at(args, parity, n);
			ggas_store_relaxed(reinterpret_cast<uint64_t *>(args.outboxes + box), uint64_t(counts[n]));
			status = gpu_rma2_put(port, { peers[n].node, peers[n].vpid }, args.outboxes_nla + box,
					      peers[n].target + box_at(args, parity, args.node),
					      (1 + counts[n]) * sizeof(uint64_t), EXTOLL_SPEC_COMPLETER);
		}
		if (ggas_thread() == 0 && !status)
			status = take_round(args, port, round, sent);
		return status;
	};
	bench_stopwatch watch(args.timing);
	int status = random_rounds(args, watch, counts, args.mailboxes, send, exchange);
	if (ggas_block() == 0 && ggas_thread() == 0)
		watch.stop(status);
}
