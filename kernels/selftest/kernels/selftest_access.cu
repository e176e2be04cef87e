// SPDX-License-Identifier: MIT OR Apache-2.0
// Single accesses to another node's part of a window: a test counts them, and sees how one ends that cannot end well.
#include "ggas/put.cuh"

#include "selftest.h"

namespace access_checks
{

/* Every kind of access by the vocabulary, each of a value of its own; gives the accesses that brought another. */
struct sizes {
	uint8_t *part;
	uint64_t at = 0, wrong = 0;

	template <class T> GGAS_FN T *next()
	{
		at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T) + sizeof(T);
		return reinterpret_cast<T *>(part + at - sizeof(T));
	}
	template <class T> GGAS_FN void plain(T value)
	{
		T *p = next<T>();
		ggas_write(p, value);
		wrong += ggas_read(p) != value;
	}
	template <class T> GGAS_FN void ordered(T value)
	{
		T *p = next<T>();
		ggas_store_relaxed(p, value);
		wrong += ggas_load_relaxed(p) != value;
		p = next<T>();
		ggas_store_release(p, value);
		wrong += ggas_load_acquire(p) != value;
		p = next<T>();
		ggas_store_fenced(p, value);
		wrong += ggas_load_watched(p) != value;
	}
	GGAS_FN void wide(ggas_u128 value)
	{
		ggas_u128 *p = next<ggas_u128>();
		ggas_write(p, value);
		differ(ggas_read(p), value);
		p = next<ggas_u128>();
		ggas_store_relaxed(p, value);
		differ(ggas_load_relaxed(p), value);
		p = next<ggas_u128>();
		ggas_store_release(p, value);
		differ(ggas_load_acquire(p), value);
	}
	GGAS_FN void differ(ggas_u128 seen, ggas_u128 value) { wrong += seen.lo != value.lo || seen.hi != value.hi; }
};

GGAS_FN uint64_t all_sizes(uint8_t *part)
{
	sizes s = { part };
	s.plain<uint8_t>(0x11);
	s.plain<uint16_t>(0x2222);
	s.plain<uint32_t>(0x33333333);
	s.plain<uint64_t>(0x4444444444444444);
	s.ordered<uint32_t>(0x55555555);
	s.ordered<uint64_t>(0x6666666666666666);
	s.wide({ 0x7777777777777777, 0x8888888888888888 });
	return s.wrong;
}

/* Each operation on a word of zeroes, which are there again afterwards. */
struct atomics {
	uint64_t wrong = 0;

	template <class T> GGAS_FN void expect(T seen, T value) { wrong += seen != value; }

	template <class T> GGAS_FN void bits(T *p)
	{
		constexpr auto order = ggas_order::release_acquire;
		constexpr T ones = static_cast<T>(~T(0));
		expect<T>(ggas_atomic_exch(p, ones - 1, order), 0);
		expect<T>(ggas_atomic_and(p, ones - 2, order), ones - 1);
		expect<T>(ggas_atomic_or(p, 1, order), ones - 3);
		expect<T>(ggas_atomic_xor(p, 5, order), ones - 2);
		expect<T>(ggas_atomic_cas(p, 1, 2, order), ones - 7);
		expect<T>(ggas_atomic_cas(p, ones - 7, 12, order), ones - 7);
		ggas_red_or(p, 3, ggas_order::relaxed);
		ggas_red_and(p, 9, ggas_order::relaxed);
		ggas_red_xor(p, 1, ggas_order::release);
		expect<T>(ggas_atomic_cas(p, 8, 0, ggas_order::acquire), 8);
		expect<T>(ggas_load_acquire(p), 0);
	}
	/* Numbers below and above 0, which order otherwise with a sign than without. */
	template <class T> GGAS_FN void numbers(T *p)
	{
		constexpr auto order = ggas_order::relaxed;
		constexpr T minus = static_cast<T>(T(0) - T(5)), least = minus < T(4) ? minus : T(4);
		expect<T>(ggas_atomic_add(p, minus, order), 0);
		expect<T>(ggas_atomic_min(p, 4, order), minus);
		expect<T>(ggas_atomic_max(p, minus, order), least);
		ggas_red_min(p, 4, order);
		expect<T>(ggas_load_relaxed(p), least);
		ggas_red_max(p, 4, order);
		expect<T>(ggas_load_relaxed(p), 4);
		ggas_red_add(p, minus, ggas_order::release);
		expect<T>(ggas_atomic_add(p, 1, order), static_cast<T>(T(0) - T(1)));
	}
	template <class T> GGAS_FN void fractions(T *p)
	{
		expect<T>(ggas_atomic_add(p, T(1.5), ggas_order::relaxed), 0);
		ggas_red_add(p, T(-4.25), ggas_order::relaxed);
		expect<T>(ggas_atomic_add(p, T(2.75), ggas_order::relaxed), T(-2.75));
	}
};

GGAS_FN uint64_t all_atomics(uint8_t *part)
{
	atomics a;
	a.bits(reinterpret_cast<uint32_t *>(part + 4));
	a.bits(reinterpret_cast<uint64_t *>(part + 8));
	a.numbers(reinterpret_cast<uint32_t *>(part + 20));
	a.numbers(reinterpret_cast<uint64_t *>(part + 24));
	a.numbers(reinterpret_cast<int32_t *>(part + 32));
	a.numbers(reinterpret_cast<int64_t *>(part + 40));
	a.fractions(reinterpret_cast<float *>(part + 52));
	a.fractions(reinterpret_cast<double *>(part + 56));
	/* Nothing beside the words. */
	for (uint32_t at = 0; at < 96; at += 8)
		a.expect<uint64_t>(ggas_load_relaxed(reinterpret_cast<uint64_t *>(part + at)), 0);
	return a.wrong;
}

/* Accesses of a thread to one node come in their order. Gives the ones that did not. */
GGAS_FN uint64_t in_order(uint64_t *word, uint64_t round)
{
	auto *halves = reinterpret_cast<uint32_t *>(word);
	ggas_store_relaxed(word, round << 32);
	ggas_red_add(halves, uint32_t(5), ggas_order::relaxed);
	uint64_t wrong = ggas_atomic_add(halves + 1, uint32_t(1), ggas_order::relaxed) != static_cast<uint32_t>(round);
	ggas_red_add(word, uint64_t(1), ggas_order::release);
	wrong += ggas_load_acquire(word) != (((round + 1) << 32) + 6);
	return wrong;
}

GGAS_FN void add_by_cas(uint64_t *p)
{
	uint64_t seen = ggas_load_relaxed(p), before;
	for (uint32_t attempt = 1; (before = ggas_atomic_cas(p, seen, seen + 1, ggas_order::release_acquire)) != seen; attempt++) {
		seen = before;
		ggas_pause(attempt);
	}
}

/* Of the own node the local one. */
GGAS_FN uint64_t *nearest(const selftest_access &args, const ggas_window *window)
{
	return ggas_pointer_of_node<uint64_t>(window, args.peer, args.offset);
}

GGAS_FN void one(const selftest_access &args, const ggas_window *window, uint64_t round)
{
	uint64_t *there = ggas_global_pointer<uint64_t>(window, args.peer, args.offset);
	switch (args.what) {
	case SELFTEST_ACCESS_LOAD:
		ggas_red_add(reinterpret_cast<uint64_t *>(args.sum), ggas_load_relaxed(there), ggas_order::relaxed);
		break;
	case SELFTEST_ACCESS_STORE:
		ggas_store_relaxed(there, round);
		break;
	case SELFTEST_ACCESS_ADD:
		ggas_red_add(there, uint64_t(1), ggas_order::relaxed);
		break;
	case SELFTEST_ACCESS_PLAIN:
		*const_cast<volatile uint64_t *>(there) = round;
		break;
	case SELFTEST_ACCESS_FETCH:
		ggas_atomic_add(nearest(args, window), uint64_t(1), ggas_order::relaxed);
		break;
	case SELFTEST_ACCESS_CAS:
		add_by_cas(nearest(args, window));
		break;
	case SELFTEST_ACCESS_ATOMICS:
		ggas_red_add(reinterpret_cast<uint64_t *>(args.sum), all_atomics(reinterpret_cast<uint8_t *>(there)),
			     ggas_order::relaxed);
		break;
	case SELFTEST_ACCESS_ORDER:
		ggas_red_add(reinterpret_cast<uint64_t *>(args.sum), in_order(there, round), ggas_order::relaxed);
		break;
	default:
		ggas_red_add(reinterpret_cast<uint64_t *>(args.sum), all_sizes(reinterpret_cast<uint8_t *>(there)),
			     ggas_order::relaxed);
	}
}

} // namespace access_checks

// One thread.
GGAS_KERNEL(ggas_selftest_access, selftest_access)
{
	const auto *window = reinterpret_cast<const ggas_window *>(args.window);
	for (uint64_t round = 1; round <= args.rounds; round++) {
		access_checks::one(args, window, round);
		if (ggas_access_failed())
			break;
		ggas_store_release(reinterpret_cast<uint64_t *>(args.done), round);
	}
}
