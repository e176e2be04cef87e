// SPDX-License-Identifier: MIT OR Apache-2.0
// Merge sort: of a device's numbers, and of sorted sequences that lie on several devices. Where a part of the result begins in
// two sequences (the pivot) is found by a binary search, whose loads go to whichever device has the number.
#include "bench_hpe.cuh"

#include "bench.h"

namespace hpe_sort
{

/* Numbers of one device. */
struct piece {
	const uint32_t *data;
	uint64_t length;

	GGAS_FN uint32_t at(uint64_t i) const { return data[i]; }
};

/* Numbers of several. */
struct spread {
	const bench_hpe_sequence &s;
	uint64_t length;

	GGAS_FN explicit spread(const bench_hpe_sequence &s) : s(s), length(s.length) {}

	GGAS_FN uint32_t at(uint64_t i) const
	{
		/* 32 bits: a division of 64 takes a GPU long. The host has no more numbers. */
		uint32_t k = static_cast<uint32_t>(s.begin + i), chunk = static_cast<uint32_t>(s.chunk);
		const uint64_t *table = reinterpret_cast<const uint64_t *>(s.table) + s.first;
		return reinterpret_cast<const uint32_t *>(table[k / chunk])[k % chunk];
	}
};

/* How many of the first `at` numbers of both merged are of `a`, whose numbers come before equal ones of `b`. */
template <class Numbers> GGAS_FN uint64_t split(const Numbers &a, const Numbers &b, uint64_t at)
{
	uint64_t least = at > b.length ? at - b.length : 0, most = at < a.length ? at : a.length;
	while (least < most) {
		uint64_t middle = least + (most - least) / 2;
		if (a.at(middle) <= b.at(at - middle - 1))
			least = middle + 1;
		else
			most = middle;
	}
	return least;
}

/* Numbers `begin` to `end` of both merged. */
template <class Numbers>
GGAS_FN void merge(const Numbers &a, const Numbers &b, uint64_t begin, uint64_t end, uint32_t *out)
{
	uint64_t i = split(a, b, begin), j = begin - i;
	uint32_t x = i < a.length ? a.at(i) : 0, y = j < b.length ? b.at(j) : 0;
	for (uint64_t k = begin; k < end; k++) {
		if (j >= b.length || (i < a.length && x <= y)) {
			out[k] = x;
			x = ++i < a.length ? a.at(i) : 0;
		} else {
			out[k] = y;
			y = ++j < b.length ? b.at(j) : 0;
		}
	}
}

GGAS_FN uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

} /* namespace hpe_sort */

GGAS_KERNEL(bench_hpe_sort_short, bench_hpe_sort_runs)
{
	uint32_t *data = reinterpret_cast<uint32_t *>(args.data);
	for (uint64_t run = hpe::thread(); run * BENCH_HPE_SORT_RUN < args.count; run += hpe::threads()) {
		uint32_t *p = data + run * BENCH_HPE_SORT_RUN;
		uint64_t count = hpe_sort::smaller(BENCH_HPE_SORT_RUN, args.count - run * BENCH_HPE_SORT_RUN);
		for (uint64_t i = 1; i < count; i++) {
			uint32_t x = p[i];
			uint64_t j = i;
			for (; j > 0 && p[j - 1] > x; j--)
				p[j] = p[j - 1];
			p[j] = x;
		}
	}
}

GGAS_KERNEL(bench_hpe_sort_double, bench_hpe_sort_merge)
{
	using hpe_sort::smaller;
	const uint32_t *in = reinterpret_cast<const uint32_t *>(args.in);
	if (args.width == 0)
		return;
	for (uint64_t run = hpe::thread(); run * BENCH_HPE_SORT_RUN < args.count; run += hpe::threads()) {
		uint64_t at = run * BENCH_HPE_SORT_RUN, base = at - at % (2 * args.width), left = args.count - base;
		hpe_sort::piece a = { in + base, smaller(args.width, left) };
		hpe_sort::piece b = { a.data + a.length, smaller(args.width, left - a.length) };
		uint64_t end = smaller(at + BENCH_HPE_SORT_RUN, args.count);
		uint32_t *out = reinterpret_cast<uint32_t *>(args.out) + base;
		hpe_sort::merge(a, b, at - base, end - base, out);
	}
}

/* Carried out by two threads. */
GGAS_KERNEL(bench_hpe_sort_search, bench_hpe_sort_pivot)
{
	uint64_t i = hpe::thread();
	if (i >= 2)
		return;
	hpe_sort::spread a(args.a), b(args.b);
	uint64_t at = hpe_sort::smaller(args.at[i], a.length + b.length);
	reinterpret_cast<uint64_t *>(args.found)[i] = hpe_sort::split(a, b, at);
}

GGAS_KERNEL(bench_hpe_sort_across, bench_hpe_sort_join)
{
	hpe_sort::spread a(args.a), b(args.b);
	uint64_t count = a.length + b.length;
	for (uint64_t run = hpe::thread(); run * BENCH_HPE_SORT_RUN < count; run += hpe::threads()) {
		uint64_t at = run * BENCH_HPE_SORT_RUN;
		hpe_sort::merge(a, b, at, hpe_sort::smaller(at + BENCH_HPE_SORT_RUN, count),
				reinterpret_cast<uint32_t *>(args.out));
	}
}
