/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Packets of the engine, in rings of lines that the target keeps for each sender. Why they are not the model's packets:
 * fpga-sim/src/packet.rs. */
#ifndef GGAS_ENGINE_RING_CUH
#define GGAS_ENGINE_RING_CUH

#include "engine.cuh"

namespace engine
{

/* Header of a packet: its first lines. */
struct header {
	uint64_t word0;		/* of the descriptor; where it goes */
	uint64_t address;	/* NLA of the first byte here, number of a lock, payload of a notification */
	uint64_t aux;		/* get: where the response goes; lock: compare and addend, then result and value; fast-path
				 * put: what the completer says of it */
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
/* A fast-path put (engine_fast.cuh), and what its completer has to know of word 0. */
#define ENGINE_META_FAST_SHIFT 44
#define ENGINE_META_FAST_BITS	1
#define ENGINE_META_NOTIFIED_SHIFT 45
#define ENGINE_META_NOTIFIED_BITS 1
#define ENGINE_META_TO_SHIFT	46	/* VPID */
#define ENGINE_META_TO_BITS	8
#define ENGINE_META_REST_SHIFT	54	/* packets of the same command came before */
#define ENGINE_META_REST_BITS	1

enum kind : uint32_t { PUT, NOTIFICATION, GET, LOCK, GET_RESPONSE, LOCK_RESPONSE };

GGAS_FN uint64_t meta(uint32_t node, uint32_t vpid, kind what, uint32_t bytes, bool last, uint32_t error)
{
	return EXTOLL_PUT(node, ENGINE_META_NODE) | EXTOLL_PUT(vpid, ENGINE_META_VPID) |
	       EXTOLL_PUT(bytes, ENGINE_META_BYTES) | EXTOLL_PUT(what, ENGINE_META_KIND) |
	       EXTOLL_PUT(last, ENGINE_META_LAST) | EXTOLL_PUT(error, ENGINE_META_ERROR);
}

/* The bit of a packet of whose command so many bytes were sent before. */
GGAS_FN uint64_t rest_of(uint32_t before)
{
	return EXTOLL_PUT(before != 0, ENGINE_META_REST);
}

GGAS_FN engine_line *ring_of(const engine_args &args, uint32_t at_node, uint32_t which, uint32_t from)
{
	return reinterpret_cast<engine_line *>(args.rings[at_node]) +
	       (static_cast<uint64_t>(which) * args.nodes + from) * ENGINE_LINES;
}

/* Takes lines of a ring if there is room as far as was seen, and nobody else takes some at the same time; the number of
 * the first, or ~0. */
GGAS_FN uint64_t try_claim(uint64_t *tail, const uint64_t *credit, uint32_t lines)
{
	uint64_t first = ggas_load_block(tail);
	/* A credit that is older than the tail only hides room. */
	if (first + lines - ggas_load_block(credit) > ENGINE_LINES)
		return ~0ull;
	return ggas_atomic_cas_block(tail, first, first + lines, ggas_order::relaxed) == first ? first : ~0ull;
}

/* Claims `lines` of the ring at `to`; the number of the first, or ~0: the command is to begin again, or the engine ends
 * before there is room. */
GGAS_FN uint64_t claim(warp &w, uint32_t which, uint32_t to, uint32_t lines)
{
	uint64_t *tail = &w.all->tail[which][to], *credit = &w.all->credit[which][to], first = ~0ull;
	if (ggas_lane() == 0) {
		uint64_t since = 0;
		for (uint32_t attempt = 1; (first = try_claim(tail, credit, lines)) == ~0ull; attempt++) {
			bool gone = w.is_gone(to);
			uint64_t seen = ggas_load_acquire(&w.node->credit[which][to]);
			ggas_store_relaxed(credit, gone ? NO_ROOM : seen);
			since = since ? since : ggas_time_ns();
			if (gone || w.gives_way(since))
				break;
			ggas_pause(attempt);
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
 * its number, so no fence is needed. False as with claim. */
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

/* A packet, of which `polled` is the line that this lane saw first. */
struct packet {
	header h;
	const engine_line *ring;
	uint64_t first;		/* number of its first line */
	uint32_t there;		/* which of its first 32 lines were there, by bits */
	ggas_u128 polled;

	GGAS_FN uint32_t command() const { return static_cast<uint32_t>(EXTOLL_GET(h.word0, EXTOLL_DESC_COMMAND)); }
	GGAS_FN uint32_t vpid() const { return static_cast<uint32_t>(EXTOLL_GET(h.word0, EXTOLL_DESC_VPID)); }
	GGAS_FN uint32_t spec() const { return static_cast<uint32_t>(EXTOLL_GET(h.word0, EXTOLL_DESC_SPEC)); }
	GGAS_FN uint32_t from_node() const { return static_cast<uint32_t>(EXTOLL_GET(h.meta, ENGINE_META_NODE)); }
	GGAS_FN uint32_t from_vpid() const { return static_cast<uint32_t>(EXTOLL_GET(h.meta, ENGINE_META_VPID)); }
	GGAS_FN uint32_t error() const { return static_cast<uint32_t>(EXTOLL_GET(h.meta, ENGINE_META_ERROR)); }
	GGAS_FN uint32_t bytes() const { return static_cast<uint32_t>(EXTOLL_GET(h.meta, ENGINE_META_BYTES)); }
	GGAS_FN bool is_last() const { return EXTOLL_GET(h.meta, ENGINE_META_LAST) != 0; }
	GGAS_FN kind what() const { return static_cast<kind>(EXTOLL_GET(h.meta, ENGINE_META_KIND)); }
	GGAS_FN span place() const { return { h.address, bytes() }; }
	GGAS_FN uint32_t lines() const { return HEADER + place().words(); }
};

/* Payload of packets without one. */
struct no_words {
	GGAS_FN uint64_t operator()(uint32_t, uint32_t) const { return 0; }
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

} /* namespace engine */

#endif /* GGAS_ENGINE_RING_CUH */
