/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * HPE: loads and stores of kernels by pointers to memory of whatever device (userlib/hpe), counted by whether they stay on this device.
 *
 *	ggas_hpe<> memory(map);		each thread's; what is kept of other devices' memory is up to the GPU's caches
 *	ggas_hpe<4> memory(map);	keeps 4 lines of GGAS_HPE_LINE bytes of it besides, as the paper's last-level cache does
 *
 *	T    memory.load(const T *p)	T: a trivial type of 4 or 8 bytes, aligned. Plain: other threads' stores are seen for sure
 *					behind a release of theirs and a fence() here
 *	void memory.store(T *p, T v)	plain
 *	void memory.fence()		an acquire: no copy that was kept before, here or by the GPU's caches, answers later loads
 *	void memory.end()		adds this thread's counts to the map's; last
 *
 * Pointers are the host's or the kernels': the bit that the executor's views need is set here, as a processor of the paper without
 * address translation has its compiler mask the upper bits.
 */
#ifndef GGAS_HPE_CUH
#define GGAS_HPE_CUH

#include "hpe_layout.h"
#include "vocab.h"

/* Lines: a power of two, or 0. */
template <unsigned Lines = 0> class ggas_hpe {
	static_assert((Lines & (Lines - 1)) == 0, "lines are found by the low bits of their numbers");

public:
	GGAS_FN explicit ggas_hpe(const ggas_hpe_map &map)
		: map_(map), counts_{}
	{
		forget();
	}

	template <class T> GGAS_FN T load(const T *p)
	{
		static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words of 4 or 8 bytes");
		uint64_t at = find(p);
		if (at - map_.own < map_.own_bytes)
			counts_.local++;
		else if (at - map_.begin >= map_.bytes)
			counts_.outside++;
		else if constexpr (Lines > 0)
			return load_kept<T>(at);
		else
			counts_.remote++;
		return ggas_read(reinterpret_cast<const T *>(at));
	}

	template <class T> GGAS_FN void store(T *p, T v)
	{
		static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words of 4 or 8 bytes");
		uint64_t at = find(p);
		if (at - map_.own < map_.own_bytes) {
			counts_.local++;
		} else if (at - map_.begin >= map_.bytes) {
			counts_.outside++;
		} else {
			counts_.remote++;
			if (Lines > 0 && tags_[slot(at)] == at / GGAS_HPE_LINE)
				tags_[slot(at)] = 0;
		}
		ggas_write(reinterpret_cast<T *>(at), v);
	}

	GGAS_FN void fence()
	{
		ggas_fence_acquire();
		forget();
	}

	GGAS_FN void end()
	{
		auto *counts = reinterpret_cast<ggas_hpe_counts *>(map_.counts);
		if (!counts)
			return;
		ggas_red_add(&counts->local, counts_.local, ggas_order::relaxed);
		ggas_red_add(&counts->remote, counts_.remote, ggas_order::relaxed);
		ggas_red_add(&counts->kept, counts_.kept, ggas_order::relaxed);
		ggas_red_add(&counts->outside, counts_.outside, ggas_order::relaxed);
		counts_ = {};
	}

private:
	static constexpr unsigned places = Lines > 0 ? Lines : 1;
	static constexpr unsigned words = GGAS_HPE_LINE / 8;

	ggas_hpe_map map_;
	ggas_hpe_counts counts_;
	/* Numbers of the lines that are kept; no memory has line 0. */
	uint64_t tags_[places];
	uint64_t kept_[places][words];

	/* Where this processor finds what a pointer names. */
	GGAS_FN uint64_t find(const void *p) const
	{
		uint64_t at = reinterpret_cast<uint64_t>(p);
		return (at >> GGAS_HPE_SEGMENT_BITS) - 1 < GGAS_HPE_DEVICES ? at | map_.bit : at;
	}

	GGAS_FN static unsigned slot(uint64_t at) { return static_cast<unsigned>(at / GGAS_HPE_LINE) % places; }

	GGAS_FN void forget()
	{
		for (unsigned i = 0; i < places; i++)
			tags_[i] = 0;
	}

	template <class T> GGAS_FN T load_kept(uint64_t at)
	{
		uint64_t line = at / GGAS_HPE_LINE, *kept = kept_[slot(at)];
		if (tags_[slot(at)] == line) {
			counts_.kept++;
		} else {
			/* Past the GPU's own caches, so that only these lines are kept. */
			const uint64_t *from = reinterpret_cast<const uint64_t *>(line * GGAS_HPE_LINE);
			for (unsigned i = 0; i < words; i++)
				kept[i] = ggas_load_relaxed(from + i);
			tags_[slot(at)] = line;
			counts_.remote++;
		}
		T v;
		memcpy(&v, reinterpret_cast<const char *>(kept) + at % GGAS_HPE_LINE, sizeof(T));
		return v;
	}
};

#endif /* GGAS_HPE_CUH */
