// SPDX-License-Identifier: MIT OR Apache-2.0
// Accesses that the host makes for kernels (impl/proxy.h), asked for as kernels of a GPU ask, also on the CPU executor.
#include "ggas/vocab.h"

#include "ggas/impl/proxy.h"

#include "selftest.h"

namespace proxy_checks
{

GGAS_FN uint8_t pattern(uint64_t at, uint64_t salt) { return static_cast<uint8_t>(at * 31 + (at >> 8) + salt); }

/* Stores and loads of 1 to 16 bytes, at any place. */
GGAS_FN uint64_t small(ggas_proxy *proxy, uint64_t there, uint64_t salt)
{
	uint64_t wrong = 0;
	for (uint32_t bytes = 1; bytes <= 16; bytes++) {
		uint64_t at = there + bytes * 17;
		ggas_u128 value = { salt * 0x0101010101010101 + bytes, ~salt };
		ggas_impl::proxy_store(proxy, at, value, bytes);
		ggas_u128 seen = ggas_impl::proxy_load(proxy, at, bytes);
		uint64_t low = bytes < 8 ? ~(~uint64_t(0) << bytes * 8) : ~uint64_t(0);
		uint64_t high = bytes <= 8 ? 0 : bytes < 16 ? ~(~uint64_t(0) << (bytes - 8) * 8) : ~uint64_t(0);
		wrong += seen.lo != (value.lo & low) || seen.hi != (value.hi & high);
	}
	return wrong;
}

/* Puts and gets of 1 to 1,024 bytes, both ends at any place. */
GGAS_FN uint64_t large(ggas_proxy *proxy, uint64_t there, uint8_t *buffer, uint64_t salt)
{
	uint64_t wrong = 0;
	for (uint32_t bytes = 1, k = 0; bytes <= GGAS_PROXY_BYTES; bytes = bytes * 3 / 2 + 1, k++) {
		uint8_t *out = buffer + k % 3 * 8 + k % 2, *in = buffer + 4096 + k % 2 * 16 + k % 5 % 2 * 3;
		for (uint32_t i = 0; i < bytes; i++) {
			out[i] = pattern(i, salt + k);
			in[i] = 0;
		}
		in[bytes] = 0xee;
		uint64_t at = there + 1024 + k * 5;
		ggas_impl::proxy_put(proxy, at, out, bytes);
		ggas_impl::proxy_get(proxy, in, at, bytes);
		for (uint32_t i = 0; i < bytes; i++)
			wrong += in[i] != pattern(i, salt + k);
		wrong += in[bytes] != 0xee;
	}
	return wrong;
}

/* In order, with stores before and loads behind. */
GGAS_FN uint64_t atomics(ggas_proxy *proxy, uint64_t there)
{
	uint64_t wrong = 0;
	ggas_impl::proxy_store(proxy, there, { 40, 0 }, 8);
	wrong += ggas_impl::proxy_atomic(proxy, there, GGAS_ATOMIC_ADD, 8, { 2, 0 }) != 40;
	wrong += ggas_impl::proxy_atomic(proxy, there, GGAS_ATOMIC_CAS, 8, { 7, 42 }) != 42;
	wrong += ggas_impl::proxy_atomic(proxy, there, GGAS_ATOMIC_CAS, 8, { 9, 42 }) != 7;
	ggas_impl::proxy_reduce(proxy, there, GGAS_ATOMIC_XOR, 4, 5);
	wrong += ggas_impl::proxy_load(proxy, there, 8).lo != (7 ^ 5);
	wrong += ggas_impl::proxy_atomic(proxy, there, GGAS_ATOMIC_EXCH, 4, { 0xffffffff, 0 }) != (7 ^ 5);
	ggas_impl::proxy_settle(proxy);
	return wrong;
}

} // namespace proxy_checks

GGAS_KERNEL(ggas_selftest_proxy, selftest_proxy)
{
	auto *proxy = reinterpret_cast<ggas_proxy *>(args.proxy);
	uint64_t self = ggas_block() * ggas_threads() + ggas_thread(), all = ggas_blocks() * ggas_threads();
	uint64_t there = args.there + self * SELFTEST_PROXY_ROOM, wrong = 0;
	auto *buffer = reinterpret_cast<uint8_t *>(args.buffers + self * SELFTEST_PROXY_ROOM);
	for (uint64_t round = 0; round < args.rounds; round++) {
		wrong += proxy_checks::small(proxy, there, self + round);
		wrong += proxy_checks::large(proxy, there, buffer, self + round);
		wrong += proxy_checks::atomics(proxy, there);
		ggas_impl::proxy_reduce(proxy, args.there + all * SELFTEST_PROXY_ROOM, GGAS_ATOMIC_ADD, 8, 1);
	}
	ggas_red_add(reinterpret_cast<uint64_t *>(args.wrong), wrong, ggas_order::relaxed);
}
