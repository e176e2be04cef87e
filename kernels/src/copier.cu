// SPDX-License-Identifier: MIT OR Apache-2.0
// The copier (copier.h). Block 0 serves short commands with a few warps that
// poll independently: while one copies, others poll, and several polls in
// flight find a command sooner. Each other block serves one bulk ring, all of
// its threads on one command. A copy's last aligned 64-bit word is visible last.
#include "ggas/vocab.h"
#include "ggas/impl/atomic_ops.h"

#include "args.h"

#if defined(__CUDACC__)
#define GGAS_UNROLL _Pragma("unroll")
#else
#define GGAS_UNROLL
#endif

namespace
{

const uint32_t UNITS = 8;	// loads of a thread in flight
const uint64_t CLOSED = 1ull << 63;

struct command {
	uint64_t dst, src;
	uint32_t len, op;
};

// Loads or stores `Size` bytes, 1, 4, 8 or 16, as one access.
template <uint32_t Size> GGAS_FN ggas_u128 load_unit(uint64_t at)
{
	if constexpr (Size == 16)
		return ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(at));
	else if constexpr (Size == 8)
		return { ggas_load_relaxed(reinterpret_cast<const uint64_t *>(at)), 0 };
	else if constexpr (Size == 4)
		return { ggas_load_relaxed(reinterpret_cast<const uint32_t *>(at)), 0 };
	else
		return { *reinterpret_cast<const volatile uint8_t *>(at), 0 };
}

template <uint32_t Size> GGAS_FN void store_unit(uint64_t at, ggas_u128 v)
{
	if constexpr (Size == 16)
		ggas_store_relaxed(reinterpret_cast<ggas_u128 *>(at), v);
	else if constexpr (Size == 8)
		ggas_store_relaxed(reinterpret_cast<uint64_t *>(at), v.lo);
	else if constexpr (Size == 4)
		ggas_store_relaxed(reinterpret_cast<uint32_t *>(at), static_cast<uint32_t>(v.lo));
	else
		*reinterpret_cast<volatile uint8_t *>(at) = static_cast<uint8_t>(v.lo);
}

GGAS_FN ggas_u128 load_piece(uint64_t at, uint32_t size)
{
	return size == 16 ? load_unit<16>(at) : size == 8 ? load_unit<8>(at) : size == 4 ? load_unit<4>(at) : load_unit<1>(at);
}

GGAS_FN void store_piece(uint64_t at, uint32_t size, ggas_u128 v)
{
	size == 16 ? store_unit<16>(at, v) :
	size == 8  ? store_unit<8>(at, v) :
	size == 4  ? store_unit<4>(at, v) :
		     store_unit<1>(at, v);
}

// Largest access that `bits` (addresses and lengths, or-ed) allow.
GGAS_FN uint32_t widest(uint64_t bits)
{
	return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 1;
}

// How a range is cut: `body` units of `unit` bytes, then the tail that holds
// the last aligned word, in `pieces` of `size` bytes.
struct split {
	uint32_t unit, body, size, pieces;

	GGAS_FN split(uint64_t dst, uint64_t src, uint32_t len)
	{
		uint64_t last = (dst + len - 1) & ~7ull;
		unit = widest(dst | src);
		body = last > dst ? static_cast<uint32_t>(last - dst) / unit : 0;
		uint32_t tail = len - body * unit;
		size = widest(unit | tail);
		pieces = tail / size;
	}
};

// Thread `rank` of `ranks` copies its share of the body. Loads of a round come
// before its stores, so up to UNITS * ranks units are in flight. Overlapping
// ranges (`move`, by a whole block): rounds in the direction that reads each
// byte before it is overwritten, and all loads of a round before its stores.
template <uint32_t Size> GGAS_FN void copy_units(const command &c, uint32_t units, uint32_t rank, uint32_t ranks, bool move)
{
	uint32_t round = UNITS * ranks, rounds = (units + round - 1) / round;
	for (uint32_t r = 0; r < rounds; r++) {
		uint32_t base = (move && c.dst > c.src ? rounds - 1 - r : r) * round + rank;
		ggas_u128 v[UNITS];
		GGAS_UNROLL
		for (uint32_t i = 0; i < UNITS; i++)
			if (base + i * ranks < units)
				v[i] = load_unit<Size>(c.src + static_cast<uint64_t>(base + i * ranks) * Size);
		if (move)
			ggas_syncthreads();
		GGAS_UNROLL
		for (uint32_t i = 0; i < UNITS; i++)
			if (base + i * ranks < units)
				store_unit<Size>(c.dst + static_cast<uint64_t>(base + i * ranks) * Size, v[i]);
	}
}

GGAS_FN void copy_body(const command &c, const split &cut, uint32_t rank, uint32_t ranks, bool move)
{
	if (cut.unit == 16)
		copy_units<16>(c, cut.body, rank, ranks, move);
	else if (cut.unit == 8)
		copy_units<8>(c, cut.body, rank, ranks, move);
	else if (cut.unit == 4)
		copy_units<4>(c, cut.body, rank, ranks, move);
	else
		copy_units<1>(c, cut.body, rank, ranks, move);
}

// ---- block 0: short commands, a warp each ----

// What a lane holds of the entries that its warp read: lane 4 i + j has unit j of entry i.
struct polled {
	uint64_t word;
	uint32_t low;

	GGAS_FN uint64_t word_of(uint32_t entry, uint32_t unit) const
	{
		return ggas_shfl(GGAS_FULL_WARP, word, 4 * entry + unit);
	}
	GGAS_FN uint32_t low_of(uint32_t entry, uint32_t unit) const
	{
		return ggas_shfl(GGAS_FULL_WARP, low, 4 * entry + unit);
	}
};

// Entries that a poll reads: one while nothing is there, since every 32 bytes read from host memory delay what other
// kernels read there; a whole warp's worth once commands come.
const uint32_t NARROW = 1, WIDE = 8;

// Reads the `width` entries from command `first` on; returns how many are there.
GGAS_FN uint32_t poll_ring(const ggas_copier_ring *ring, uint64_t first, uint32_t width, polled &out)
{
	uint64_t number = first + ggas_lane() / 4;
	const ggas_copier_entry *entry = &ring->entry[number % GGAS_COPIER_ENTRIES];
	ggas_u128 unit = { 0, 0 };
	if (ggas_lane() < 4 * width)
		unit = ggas_load_acquire(reinterpret_cast<const ggas_u128 *>(&entry->unit[ggas_lane() % 4]));
	else
		unit.hi = ~((number + 1) << 32);
	out.word = unit.lo;
	out.low = static_cast<uint32_t>(unit.hi);
	uint32_t missing = ~ggas_ballot(GGAS_FULL_WARP, unit.hi >> 32 == static_cast<uint32_t>(number + 1));
	uint32_t ready = 0;
	while (ready < 8 && !(missing >> (4 * ready) & 0xf))
		ready++;
	return ready;
}

// A copy with a body, or with many pieces, by the whole warp.
GGAS_FN void warp_copy(const command &c)
{
	split cut(c.dst, c.src, c.len);
	uint64_t tail = static_cast<uint64_t>(cut.body) * cut.unit + static_cast<uint64_t>(ggas_lane()) * cut.size;
	ggas_u128 last = {};
	if (ggas_lane() < cut.pieces)
		last = load_piece(c.src + tail, cut.size);
	copy_body(c, cut, ggas_lane(), GGAS_WARP_SIZE, false);
	if (cut.body) {
		ggas_syncwarp();
		ggas_fence_system();
	}
	if (ggas_lane() < cut.pieces)
		store_piece(c.dst + tail, cut.size, last);
}

template <class To, class From> GGAS_FN To same_bits(From from)
{
	static_assert(sizeof(To) == sizeof(From), "bits");
	To to;
	memcpy(&to, &from, sizeof(to));
	return to;
}

// Changes a word in memory, atomically with what kernels and programs do there; returns what it was. An
// acquire and a release, as locks and counters need that are passed on through the host.
template <class Word, class Signed, class Float>
GGAS_FN uint64_t change_word(uint64_t at, uint32_t operation, Word v, Word expected)
{
	const ggas_order order = ggas_order::release_acquire;
	Word *word = reinterpret_cast<Word *>(at);
	Signed *number = reinterpret_cast<Signed *>(at);
	switch (operation) {
	case GGAS_ATOMIC_ADD:
		return ggas_atomic_add(word, v, order);
	case GGAS_ATOMIC_EXCH:
		return ggas_atomic_exch(word, v, order);
	case GGAS_ATOMIC_AND:
		return ggas_atomic_and(word, v, order);
	case GGAS_ATOMIC_OR:
		return ggas_atomic_or(word, v, order);
	case GGAS_ATOMIC_XOR:
		return ggas_atomic_xor(word, v, order);
	case GGAS_ATOMIC_MIN:
		return ggas_atomic_min(word, v, order);
	case GGAS_ATOMIC_MAX:
		return ggas_atomic_max(word, v, order);
	case GGAS_ATOMIC_MIN_SIGNED:
		return static_cast<Word>(ggas_atomic_min(number, static_cast<Signed>(v), order));
	case GGAS_ATOMIC_MAX_SIGNED:
		return static_cast<Word>(ggas_atomic_max(number, static_cast<Signed>(v), order));
	case GGAS_ATOMIC_ADD_FLOAT:
		return same_bits<Word>(ggas_atomic_add(reinterpret_cast<Float *>(at), same_bits<Float>(v), order));
	default:
		return ggas_atomic_cas(word, expected, v, order);
	}
}

GGAS_FN void finish(ggas_copier_ring *ring, uint64_t number)
{
	ggas_store_release(&ring->done[number % GGAS_COPIER_ENTRIES], static_cast<uint32_t>(number + 1));
}

// The atomic operations among the commands that a warp read: `own` on the first lane of each. All of the warp comes here.
GGAS_FN void serve_atomics(ggas_copier_ring *ring, uint64_t first, const polled &in, bool own)
{
	uint32_t mine = ggas_lane() / 4;
	uint64_t at = in.word_of(mine, 0), v = in.word_of(mine, 1), behind = in.word_of(mine, 2);
	uint32_t len = in.low_of(mine, 0), operation = in.low_of(mine, 2);
	if (!own)
		return;
	uint64_t before;
	if (len == 8)
		before = change_word<uint64_t, int64_t, double>(at, operation, v, behind);
	else
		before = change_word<uint32_t, int32_t, float>(at, operation, static_cast<uint32_t>(v),
							       static_cast<uint32_t>(v >> 32));
	ggas_store_relaxed(&ring->before[(first + mine) % GGAS_COPIER_ENTRIES], before);
	finish(ring, first + mine);
}

// Carries out `count` commands from number `first` on. Those of at most four
// pieces and no body go side by side, one lane a piece; the others one by one.
GGAS_FN bool serve(ggas_copier_ring *ring, uint64_t first, uint32_t count, const polled &in)
{
	uint32_t mine = ggas_lane() / 4, part = ggas_lane() % 4;
	command c = { in.word_of(mine, 0), in.word_of(mine, 1), in.low_of(mine, 0), in.low_of(mine, 1) };
	bool write = c.op == GGAS_COPIER_WRITE;
	bool notify = c.op == GGAS_COPIER_NOTIFY;
	bool moves = mine < count && c.len != 0 && (write || notify || c.op == GGAS_COPIER_COPY);
	split cut(c.dst, write ? 0 : c.src, c.len);
	bool tiny = moves && cut.body == 0 && cut.pieces <= 4;
	// Inline bytes: word 1 + offset / 8 of this entry; a piece of 16 bytes takes the next one too.
	uint32_t offset = part * cut.size;
	uint32_t from = 1 + (offset / 8) % 3;
	uint64_t lo = in.word_of(mine, from), hi = in.word_of(mine, from % 3 + 1);
	ggas_u128 v = { lo >> (offset % 8 * 8), hi };
	if (tiny && !write && part < cut.pieces)
		v = load_piece(c.src + offset, cut.size);

	uint32_t rest = ggas_ballot(GGAS_FULL_WARP, moves && !tiny && part == 0);
	for (uint32_t i = 0; i < count; i++) {
		if (!(rest >> (4 * i) & 1))
			continue;
		command other = { in.word_of(i, 0), in.word_of(i, 1), in.low_of(i, 0), in.low_of(i, 1) };
		if (other.op != GGAS_COPIER_WRITE) {
			warp_copy(other);
			continue;
		}
		// An inline write across a word boundary: by bytes, all but the last aligned word first.
		uint64_t byte = ggas_lane(), last = (other.dst + other.len - 1) & ~7ull;
		uint64_t word = in.word_of(i, 1 + (ggas_lane() / 8) % 3);
		bool early = byte < other.len && other.dst + byte < last;
		if (early)
			store_piece(other.dst + byte, 1, { word >> (byte % 8 * 8), 0 });
		ggas_syncwarp();
		ggas_fence_system();
		if (byte < other.len && !early)
			store_piece(other.dst + byte, 1, { word >> (byte % 8 * 8), 0 });
	}
	if (tiny && part < cut.pieces)
		store_piece(c.dst + offset, cut.size, v);
	ggas_u128 entry = { in.word_of(mine, 2), in.word_of(mine, 3) };
	uint64_t entry_at = in.low_of(mine, 2) | static_cast<uint64_t>(in.low_of(mine, 3)) << 32;
	ggas_syncwarp();
	bool first_lane = mine < count && part == 0;
	bool atomic = first_lane && c.op == GGAS_COPIER_ATOMIC;
	if (first_lane && !atomic) {
		if (notify)
			ggas_store_release(reinterpret_cast<ggas_u128 *>(entry_at), entry);
		finish(ring, first + mine);
	}
	// Rare, so behind the others.
	if (ggas_ballot(GGAS_FULL_WARP, atomic))
		serve_atomics(ring, first, in, atomic);
	return ggas_ballot(GGAS_FULL_WARP, mine < count && c.op == GGAS_COPIER_STOP) != 0;
}

// Takes the commands that `ready` says from `first` on; false: another warp did.
GGAS_FN bool claim(uint64_t *head, uint64_t first, uint64_t after)
{
	uint64_t seen = 0;
	if (ggas_lane() == 0)
		seen = ggas_atomic_cas_block(head, first, after, ggas_order::relaxed);
	return ggas_shfl(GGAS_FULL_WARP, seen, 0) == first;
}

GGAS_FN void serve_short(ggas_copier_ring *ring, uint64_t *head, uint64_t idle_ns)
{
	uint64_t quiet_at = 0, quiet_since = ggas_time_ns();
	uint32_t width = NARROW;
	for (uint32_t attempt = 1;; attempt++) {
		uint64_t first = 0;
		if (ggas_lane() == 0)
			first = ggas_load_relaxed(head);
		first = ggas_shfl(GGAS_FULL_WARP, first, 0);
		if (first & CLOSED)
			return;
		polled in;
		uint32_t ready = poll_ring(ring, first, width, in);
		width = ready ? WIDE : NARROW;
		if (ready) {
			if (claim(head, first, first + ready) && serve(ring, first, ready, in)) {
				// Nothing comes behind a stop, so nobody else moves the head.
				if (ggas_lane() == 0) {
					ggas_store_relaxed(head, (first + ready) | CLOSED);
					ggas_store_release(&ring->closed, first + ready + 1);
				}
				return;
			}
			attempt = 0;
			continue;
		}
		ggas_pause(1);
		if (attempt % 1024)
			continue;
		uint64_t now = ggas_time_ns();
		if (first != quiet_at) {
			quiet_at = first;
			quiet_since = now;
		}
		uint64_t quiet = ggas_shfl(GGAS_FULL_WARP, now - quiet_since, 0);
		if (quiet > idle_ns && claim(head, first, first | CLOSED)) {
			if (ggas_lane() == 0)
				ggas_store_release(&ring->closed, first + 1);
			return;
		}
	}
}

// ---- other blocks: bulk commands, all threads on each ----

GGAS_FN void block_copy(const command &c)
{
	split cut(c.dst, c.src, c.len);
	uint64_t tail = static_cast<uint64_t>(cut.body) * cut.unit + static_cast<uint64_t>(ggas_thread()) * cut.size;
	ggas_u128 last = {};
	if (ggas_thread() < cut.pieces)
		last = load_piece(c.src + tail, cut.size);
	bool move = c.op == GGAS_COPIER_MOVE;
	if (move)
		ggas_syncthreads();
	copy_body(c, cut, ggas_thread(), ggas_threads(), move);
	ggas_syncthreads();
	if (ggas_warp() == 0) {
		ggas_fence_system();
		if (ggas_lane() < cut.pieces)
			store_piece(c.dst + tail, cut.size, last);
		ggas_syncwarp();
	}
}

// A pause of a long wait: bulk copies take longer than it, and their polls must not delay short ones.
const uint32_t BULK_PAUSE = 1u << 16, BULK_PAUSES = 4;

// Waits for commands of a bulk ring. Warp 0 polls; returns how many are there, 0 when idle for too long.
GGAS_FN uint32_t await_bulk(ggas_copier_ring *ring, uint64_t next, uint64_t idle_ns, polled &in)
{
	uint64_t since = ggas_time_ns();
	for (uint32_t attempt = 1;; attempt++) {
		uint32_t ready = poll_ring(ring, next, attempt == 1 ? WIDE : NARROW, in);
		if (ready)
			return ready;
		for (uint32_t i = 0; i < BULK_PAUSES; i++)
			ggas_pause(BULK_PAUSE);
		if (attempt % 1024 == 0 && ggas_shfl(GGAS_FULL_WARP, ggas_time_ns() - since, 0) > idle_ns)
			return 0;
	}
}

} // namespace

GGAS_KERNEL(ggas_copier, ggas_copier_args)
{
	GGAS_SHARED(uint64_t, head);
	GGAS_SHARED(uint32_t, ready);
	GGAS_SHARED_ARRAY(command, commands, 8);
	ggas_copier_ring *ring = reinterpret_cast<ggas_copier_ring *>(args.rings) + ggas_block();

	if (ggas_block() == 0) {
		if (ggas_thread() == 0)
			head = args.next[0];
		ggas_syncthreads();
		if (ggas_warp() < GGAS_COPIER_POLLERS)
			serve_short(ring, &head, args.idle_ns);
		return;
	}
	for (uint64_t next = args.next[ggas_block()];;) {
		if (ggas_warp() == 0) {
			polled in = {};
			uint32_t count = await_bulk(ring, next, args.idle_ns, in);
			uint32_t i = ggas_lane() / 4;
			command c = { in.word_of(i, 0), in.word_of(i, 1), in.low_of(i, 0), in.low_of(i, 1) };
			if (ggas_lane() % 4 == 0 && i < count)
				commands[i] = c;
			if (ggas_lane() == 0)
				ready = count;
		}
		ggas_syncthreads();
		uint32_t count = ready;
		bool stop = count == 0;
		for (uint32_t i = 0; i < count; i++, next++) {
			command c = commands[i];
			stop |= c.op == GGAS_COPIER_STOP;
			if (c.len != 0 && (c.op == GGAS_COPIER_COPY || c.op == GGAS_COPIER_MOVE))
				block_copy(c);
			if (ggas_thread() == 0)
				finish(ring, next);
		}
		// All have read `ready` and `commands` before warp 0 writes them again.
		ggas_syncthreads();
		if (stop) {
			if (ggas_thread() == 0)
				ggas_store_release(&ring->closed, next + 1);
			return;
		}
	}
}
