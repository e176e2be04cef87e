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
		ggas_store_release(reinterpret_cast<uint64_t *>(args.done), round);
	}
}
