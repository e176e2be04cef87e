// SPDX-License-Identifier: MIT OR Apache-2.0
// The vocabulary checks itself on whatever runs it.
#include "ggas/vocab.h"

#include "selftest.h"
#include "selftest_checks.cuh"

// out[global thread] = threads in the grid, counted by atomics and met grid-wide.
GGAS_KERNEL(ggas_selftest_threads, selftest_threads)
{
	uint64_t *out = reinterpret_cast<uint64_t *>(args.out);
	uint64_t *counter = reinterpret_cast<uint64_t *>(args.counter);
	uint64_t everyone = static_cast<uint64_t>(ggas_blocks()) * ggas_threads(), seen;

	ggas_atomic_add(counter, 1u, ggas_order::release_acquire);
	ggas_wait wait(args.report, args.timeout_ns, GGAS_WAIT_GRID, 0);
	while ((seen = ggas_load_acquire(counter)) < everyone)
		if (wait.again(counter, everyone, seen))
			return;
	out[static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread()] = seen;
}

namespace vocab_checks
{

using selftest::checks;

GGAS_FN void check_warp(checks &check)
{
	uint32_t lane = ggas_lane(), first = ggas_warp() * GGAS_WARP_SIZE;
	uint32_t lanes = ggas_threads() - first < GGAS_WARP_SIZE ? ggas_threads() - first : GGAS_WARP_SIZE;
	uint32_t mask = lanes == GGAS_WARP_SIZE ? GGAS_FULL_WARP : (1u << lanes) - 1;

	check(0, ggas_shfl(mask, lane * 3, 2) == (lanes > 2 ? 6 : lane * 3));
	check(1, ggas_shfl(mask, uint64_t(lane) << 40, 0) == 0);
	check(2, lane + 1 >= lanes || ggas_shfl_down(mask & ~(1u << (lanes - 1)), 1.5 * lane, 0) == 1.5 * lane);
	check(3, ggas_shfl_xor(mask, lane, 1) == ((lane ^ 1) < lanes ? lane ^ 1 : lane));
	check(4, ggas_ballot(mask, lane % 2 == 0) == (0x55555555 & mask));
	/* Halves of a warp on their own ways. */
	uint32_t low = mask & 0xffff, high = mask & 0xffff0000;
	if (lane < 16) {
		check(5, ggas_ballot(low, true) == low);
		check(5, ggas_ballot(low, lane == 0) == 1);
	} else {
		check(5, ggas_ballot(high, lane == 16) == 0x10000);
	}
	ggas_syncwarp(mask);
	float down = ggas_shfl_down(mask, static_cast<float>(lane), 4);
	check(6, lane + 4 >= lanes || down == static_cast<float>(lane + 4));
}

GGAS_FN void check_block(checks &check)
{
	GGAS_SHARED_ARRAY(uint32_t, values, 1024);
	GGAS_SHARED(uint64_t, sum);
	uint32_t me = ggas_thread(), all = ggas_threads();
	if (me == 0)
		sum = 0;
	for (uint32_t round = 0; round < 3; round++) {
		values[me] = me + round;
		ggas_syncthreads();
		uint32_t neighbour = values[(me + 1) % all];
		ggas_atomic_add_block(&sum, uint64_t(neighbour), ggas_order::relaxed);
		ggas_syncthreads();
		check(7, neighbour == (me + 1) % all + round);
	}
	uint64_t expected = 3ull * (uint64_t(all) * (all - 1) / 2) + 3ull * all;
	check(8, ggas_load_relaxed(&sum) == expected);
	check(9, ggas_block_status(me == all - 1 ? 7 : 0) == 7);
	check(10, ggas_block_status(0) == 0);
	check(11, ggas_syncthreads_or(me == 0));
}

template <class T> GGAS_FN void check_adds(checks &check, int number, T *word)
{
	ggas_atomic_add(word, static_cast<T>(1), ggas_order::release_acquire);
	ggas_syncthreads();
	check(number, ggas_load_acquire(word) == static_cast<T>(ggas_threads()));
}

/* Each kind of update without result, and the smallest and largest of all threads; words are 0 at first. */
template <class T> GGAS_FN void check_limits(checks &check, int number, uint64_t scratch)
{
	T *word = reinterpret_cast<T *>(scratch), me = static_cast<T>(ggas_thread()), all = static_cast<T>(ggas_threads());
	ggas_red_add(word, me + 1, ggas_order::release);
	ggas_red_max(word + 1, me + 7, ggas_order::relaxed);
	ggas_atomic_max(word + 2, me * 2, ggas_order::release_acquire);
	ggas_red_xor(word + 3, me, ggas_order::relaxed);
	ggas_red_or(word + 4, static_cast<T>(1) << me % 32, ggas_order::relaxed);
	ggas_red_and(word + 5, static_cast<T>(0), ggas_order::relaxed);
	ggas_syncthreads();
	check(number, word[0] == all * (all + 1) / 2 && word[1] == all + 6 && word[2] == (all - 1) * 2);
	check(number, all < 32 || static_cast<uint32_t>(word[4]) == ~0u);
	check(number, word[5] == 0);
	ggas_syncthreads();
	ggas_atomic_min(word + 1, me + 3, ggas_order::relaxed);
	ggas_red_min(word + 2, me, ggas_order::relaxed);
	ggas_red_xor(word + 3, me, ggas_order::relaxed);
	ggas_syncthreads();
	check(number, word[1] == 3 && word[2] == 0 && word[3] == 0);
}

/* What atomics answer, by one thread; the word is 0 at first. */
template <class T> GGAS_FN void check_answers(checks &check, int number, uint64_t scratch)
{
	constexpr auto order = ggas_order::release_acquire;
	T *word = reinterpret_cast<T *>(scratch);
	if (ggas_thread() != 0)
		return;
	check(number, ggas_atomic_exch(word, 12, order) == 0 && ggas_atomic_and(word, 10, order) == 12);
	check(number, ggas_atomic_or(word, 3, order) == 8 && ggas_atomic_xor(word, 1, order) == 11);
	check(number, ggas_atomic_cas(word, 11, 5, order) == 10 && ggas_atomic_cas(word, 10, 5, order) == 10);
	check(number, ggas_atomic_max(word, 7, order) == 5 && ggas_atomic_min(word, 2, order) == 7);
	check(number, ggas_atomic_add(word, 4, order) == 2 && ggas_load_acquire(word) == 6);
}

/* Numbers with a sign, without result; words are 0 at first. */
template <class T> GGAS_FN void check_signed(checks &check, int number, uint64_t scratch)
{
	T *word = reinterpret_cast<T *>(scratch), me = static_cast<T>(ggas_thread()), all = static_cast<T>(ggas_threads());
	ggas_red_add(word, T(-2), ggas_order::release);
	ggas_red_min(word + 1, -3 - me, ggas_order::relaxed);
	ggas_red_add(word + 2, T(-1) * all, ggas_order::relaxed);
	ggas_syncthreads();
	ggas_red_max(word + 2, me, ggas_order::relaxed);
	ggas_syncthreads();
	check(number, word[0] == -2 * all && word[1] == -2 - all && word[2] == all - 1);
}

GGAS_FN void check_memory(checks &check, uint64_t scratch)
{
	check_adds(check, 12, reinterpret_cast<uint32_t *>(scratch));
	check_adds(check, 13, reinterpret_cast<uint64_t *>(scratch + 8));
	check_adds(check, 14, reinterpret_cast<float *>(scratch + 16));
	check_adds(check, 15, reinterpret_cast<double *>(scratch + 24));
	check_adds(check, 16, reinterpret_cast<int32_t *>(scratch + 32));
	check_adds(check, 17, reinterpret_cast<int64_t *>(scratch + 40));

	/* A lock by compare-and-swap around a plain counter. */
	uint32_t *lock = reinterpret_cast<uint32_t *>(scratch + 48), *count = lock + 1;
	ggas_wait wait(0, ~0ull, GGAS_WAIT_LOCK, 0);
	for (bool done = false; !done;) {
		if (ggas_atomic_cas(lock, 0u, 1u, ggas_order::acquire) == 0) {
			*count = *count + 1;
			ggas_store_release(lock, 0u);
			done = true;
		} else {
			wait.again(lock, 0, 1);
		}
	}
	ggas_syncthreads();
	check(18, *count == ggas_threads());

	uint64_t *bits = reinterpret_cast<uint64_t *>(scratch + 56);
	ggas_atomic_or(bits, uint64_t(1) << ggas_thread() % 64, ggas_order::relaxed);
	ggas_syncthreads();
	check(19, ggas_threads() < 64 || ggas_load_relaxed(bits) == ~0ull);

	/* Two words as one: halves always agree. */
	ggas_u128 *pair = reinterpret_cast<ggas_u128 *>(scratch + 64);
	for (uint64_t i = 1; i <= 100; i++) {
		uint64_t value = i * 1024 + ggas_thread();
		ggas_store_release(pair, ggas_u128{ value, ~value });
		ggas_u128 seen = ggas_load_acquire(pair);
		check(20, seen.hi == ~seen.lo);
		ggas_store_relaxed(pair, ggas_u128{ value, ~value });
		seen = ggas_load_relaxed(pair);
		check(20, seen.hi == ~seen.lo);
	}
	check(21, ggas_time_ns() <= ggas_time_ns() && ggas_ticks() != 0);
	check_limits<uint32_t>(check, 22, scratch + 128);
	check_limits<uint64_t>(check, 23, scratch + 256);

	int64_t *signed_word = reinterpret_cast<int64_t *>(scratch + 384);
	ggas_atomic_min(signed_word, -5 - static_cast<int64_t>(ggas_thread()), ggas_order::relaxed);
	ggas_fence_sequential();
	ggas_syncthreads();
	check(24, *signed_word == -4 - static_cast<int64_t>(ggas_threads()));
	check_answers<uint32_t>(check, 25, scratch + 512);
	check_answers<uint64_t>(check, 26, scratch + 520);
	check_signed<int32_t>(check, 27, scratch + 576);
	check_signed<int64_t>(check, 28, scratch + 640);
}

} // namespace vocab_checks

// One block of any size; on a GPU of whole warps, as shuffles from lanes that are not there are undefined.
GGAS_KERNEL(ggas_selftest_vocab, selftest_vocab)
{
	vocab_checks::checks check(args.failed);
	vocab_checks::check_warp(check);
	vocab_checks::check_block(check);
	vocab_checks::check_memory(check, args.scratch);
}
