// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks single calls of ggas.cuh and put.cuh: what they refuse, what waits compare, puts that no signal follows.
#include "ggas/put.cuh"

#include "selftest.h"
#include "selftest_checks.cuh"

namespace call_checks
{

using selftest::checks;

constexpr uint64_t word = 64;	/* of this node: what waits look at */
constexpr uint64_t sent = 1024, arrived = 4096, bytes = 1003;

/* Whatever the window does not have: a node, a place behind its end, a word that is not aligned. */
GGAS_FN void refusals(checks &check, const ggas_window &w)
{
	uint64_t last = w.size - 8, value = 7;
	uint64_t words[2] = { value, value };	/* as many as the widest access has */
	check(0, ggas_store(&w, 1, last, value) == GGAS_OK && ggas_load<uint64_t>(&w, 1, last) == value);
	check(1, ggas_store(&w, w.nodes, 0, value) == GGAS_ERR_ARGUMENT);
	check(2, ggas_store(&w, ~0u, 0, value) == GGAS_ERR_ARGUMENT);
	check(3, ggas_store(&w, 1, last + 1, value) == GGAS_ERR_ARGUMENT);
	check(4, ggas_load<uint64_t>(&w, w.nodes, last) == 0 && ggas_load<uint64_t>(&w, 1, ~0ull) == 0);
	check(5, ggas_put_thread(&w, w.nodes, 0, words, 8) == GGAS_ERR_ARGUMENT);
	check(6, ggas_put_thread(&w, 1, 0, words, w.size + 1) == GGAS_ERR_ARGUMENT);
	check(7, ggas_put_signal_thread(&w, w.nodes, 0, words, 8, word, 1) == GGAS_ERR_ARGUMENT);
	check(8, ggas_put_signal_thread(&w, 1, 0, words, 8, w.size, 1) == GGAS_ERR_ARGUMENT);
	check(9, ggas_put_signal_thread(&w, 1, 0, words, 8, word + 4, 1) == GGAS_ERR_ARGUMENT);
	check(10, ggas_get_thread(&w, w.nodes, 0, words, 8) == GGAS_ERR_ARGUMENT && words[0] == 7);
	check(11, ggas_wait_thread(&w, word + 4, ggas_cmp::ge, 0) == GGAS_ERR_ARGUMENT);
	check(12, ggas_wait_thread(&w, w.size, ggas_cmp::ge, 0) == GGAS_ERR_ARGUMENT);
}

/* The same of calls that all threads make. */
GGAS_FN void refusals_of_blocks(checks &check, const ggas_window &w)
{
	const void *from = ggas_pointer_of_node(&w, w.node, sent);
	check(13, ggas_put_grid(&w, w.nodes, 0, from, 8) == GGAS_ERR_ARGUMENT);
	check(14, ggas_put_signal_grid(&w, 1, 0, from, 8, word + 4, 1) == GGAS_ERR_ARGUMENT);
	check(15, ggas_put_bulk_block(&w, w.nodes, 0, from, 16) == GGAS_ERR_ARGUMENT);
	check(16, ggas_put_bulk_grid(&w, 1, w.size - 15, from, 16) == GGAS_ERR_ARGUMENT);
}

GGAS_FN void comparisons(checks &check, const ggas_window &w)
{
	ggas_store_relaxed(ggas_pointer_of_node<uint64_t>(&w, w.node, word), uint64_t(5));
	struct expected {
		ggas_cmp cmp;
		bool below, equal, above; /* of a word below, at and above what it is compared with */
	};
	const expected all[] = {
		{ ggas_cmp::eq, false, true, false }, { ggas_cmp::ne, true, false, true },
		{ ggas_cmp::gt, false, false, true }, { ggas_cmp::ge, false, true, true },
		{ ggas_cmp::lt, true, false, false }, { ggas_cmp::le, true, true, false },
	};
	for (int i = 0; i < 6; i++) {
		bool held[] = { all[i].below, all[i].equal, all[i].above };
		for (uint64_t k = 0; k < 3; k++) {
			check(20 + i, ggas_test(&w, word, all[i].cmp, 6 - k) == held[k]);
			int waited = ggas_wait_thread(&w, word, all[i].cmp, 6 - k);
			check(26 + i, waited == (held[k] ? GGAS_OK : GGAS_ERR_TIMEOUT));
		}
	}
}

/* By all threads, to node 1 and seen there from here, once each thread's stores are performed. */
template <class Put> GGAS_FN void put_lands(checks &check, int number, const ggas_window &w, const Put &put)
{
	auto *from = ggas_pointer_of_node<uint8_t>(&w, w.node, sent);
	const uint8_t *there = ggas_pointer_of_node<const uint8_t>(&w, 1, arrived);
	for (uint64_t i = ggas_thread(); i < bytes; i += ggas_threads())
		from[i] = static_cast<uint8_t>(i * 7 + number);
	ggas_syncthreads();
	check(number, put(from) == GGAS_OK);
	ggas_quiet();
	ggas_syncthreads();
	for (uint64_t i = ggas_thread(); i < bytes; i += ggas_threads())
		check(number, ggas_load_relaxed(there + i) == static_cast<uint8_t>(i * 7 + number));
	ggas_syncthreads();
}

} // namespace call_checks

// One block, of node 0 of two.
GGAS_KERNEL_BOUND(ggas_selftest_calls, selftest_calls, 256)
{
	using namespace call_checks;
	ggas_window w = *reinterpret_cast<const ggas_window *>(args.window);
	checks check(args.failed);
	if (ggas_thread() == 0) {
		refusals(check, w);
		comparisons(check, w);
	}
	ggas_syncthreads();
	refusals_of_blocks(check, w);
	put_lands(check, 40, w, [&](const void *from) { return ggas_put_block(&w, 1, arrived, from, bytes); });
	put_lands(check, 41, w, [&](const void *from) { return ggas_put_grid(&w, 1, arrived, from, bytes); });
	put_lands(check, 42, w, [&](const void *from) { return ggas_put_bulk_block(&w, 1, arrived, from, bytes); });
	put_lands(check, 43, w, [&](const void *from) { return ggas_put_bulk_grid(&w, 1, arrived, from, bytes); });
}
