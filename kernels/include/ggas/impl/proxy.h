/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Accesses that the host makes for kernels of a GPU (proxy_layout.h). All commands of a GPU's kernels take their lines
 * from one counter, so they are in the order in which their threads claimed them: of what happened before something
 * else, as C++ has it, the host does the first thing first.
 *
 * Here memory is the GPU's own, or the host's, never trapped: near_*() of the back ends.
 */
#ifndef GGAS_IMPL_PROXY_H
#define GGAS_IMPL_PROXY_H

#include "../proxy_layout.h"
#include "access.h"

namespace ggas_impl
{

#if defined(GGAS_EXECUTOR)
/* Of tests: the executor's own trapped addresses are none of these. */
template <class T> GGAS_FN T near_load_relaxed(const T *p) { return ggas_load_relaxed(p); }
template <class T> GGAS_FN T near_load_acquire(const T *p) { return ggas_load_acquire(p); }
template <class T> GGAS_FN void near_store_relaxed(T *p, T v) { ggas_store_relaxed(p, v); }
#endif

/* What a command says. */
struct proxy_command {
	uint64_t address;
	uint32_t access;	/* GGAS_ACCESS_* | GGAS_ATOMIC_* << 4 */
	uint32_t bytes;		/* 1 to GGAS_PROXY_BYTES */
	ggas_u128 value;
};

/* The first of `lines` lines in a row, once the host has taken what was in them. */
GGAS_FN uint64_t proxy_claim(ggas_proxy *proxy, uint32_t lines)
{
	uint64_t first = ggas_atomic_add_gpu(&proxy->next, lines), end = first + lines;
	if (end - near_load_relaxed(&proxy->seen) <= GGAS_PROXY_LINES)
		return first;
	const uint64_t *taken = reinterpret_cast<const uint64_t *>(proxy->taken);
	for (uint32_t attempt = 1;; attempt++) {
		/* What one reads later may be older: then it looks once more than it had to. */
		uint64_t now = near_load_acquire(taken);
		near_store_relaxed(&proxy->seen, now);
		if (end - now <= GGAS_PROXY_LINES)
			return first;
		ggas_pause(attempt);
	}
}

GGAS_FN ggas_proxy_line *proxy_line(const ggas_proxy *proxy, uint64_t number)
{
	return reinterpret_cast<ggas_proxy_line *>(proxy->lines) + number % GGAS_PROXY_LINES;
}

GGAS_FN void proxy_post(const ggas_proxy *proxy, uint64_t number, const proxy_command &command, uint32_t answer)
{
	ggas_u128 *line = reinterpret_cast<ggas_u128 *>(proxy_line(proxy, number));
	uint64_t tag = (number / GGAS_PROXY_LINES + 1) << 32;
	uint32_t what = command.access | ggas_thread() << 8 | (command.bytes - 1) << 20;
	near_store_relaxed(line + 2, { command.value.hi, tag | ggas_block() });
	near_store_relaxed(line + 1, { command.value.lo, tag | answer });
	near_store_relaxed(line, { command.address, tag | what });
}

/* Claims an answer: its number; *use: which use of it this is. */
GGAS_FN uint32_t proxy_answer(ggas_proxy *proxy, uint64_t *use)
{
	/* Lanes of a warp begin at different ones, and so do warps. */
	uint32_t at = (ggas_thread() + ggas_block() * 37) % GGAS_PROXY_ANSWERS;
	for (uint32_t attempt = 1;; attempt++) {
		uint64_t uses = near_load_relaxed(&proxy->uses[at]);
		if (uses % 2 == 0 && ggas_atomic_cas_gpu(&proxy->uses[at], uses, uses + 1) == uses) {
			*use = uses + 1;
			return at;
		}
		at = (at + 1) % GGAS_PROXY_ANSWERS;
		if (attempt % GGAS_PROXY_ANSWERS == 0)
			ggas_pause(attempt / GGAS_PROXY_ANSWERS);
	}
}

/* Asks, and waits for the answer, which the caller gives back by proxy_done(). The host answers within a bound of its own, whatever
 * happens; an access that failed gives ones, and the host says so when the launch ends. */
GGAS_FN uint64_t proxy_wait(ggas_proxy *proxy, const proxy_command &command, uint32_t *answer)
{
	uint64_t use;
	*answer = proxy_answer(proxy, &use);
	proxy_post(proxy, proxy_claim(proxy, 1), command, *answer);
	const ggas_u128 *at = reinterpret_cast<const ggas_u128 *>(proxy->answers) + *answer;
	for (uint32_t attempt = 1;; attempt++) {
		ggas_u128 seen = near_load_acquire(at);
		if (seen.hi == use)
			return seen.lo;
		ggas_pause(attempt);
	}
}
GGAS_FN const uint8_t *proxy_bytes(const ggas_proxy *proxy, uint32_t answer)
{
	return reinterpret_cast<const uint8_t *>(proxy->bytes) + answer * uint64_t(GGAS_PROXY_BYTES);
}
GGAS_FN void proxy_done(ggas_proxy *proxy, uint32_t answer) { ggas_atomic_add_gpu(&proxy->uses[answer], 1); }

/* 1 to 16 bytes. */
GGAS_COLD ggas_u128 proxy_load(ggas_proxy *proxy, uint64_t address, uint32_t bytes)
{
	uint32_t answer;
	ggas_u128 value = { proxy_wait(proxy, { address, GGAS_ACCESS_LOAD, bytes, {} }, &answer), 0 };
	if (bytes > 8)
		value.hi = near_load_relaxed(reinterpret_cast<const uint64_t *>(proxy_bytes(proxy, answer)) + 1);
	proxy_done(proxy, answer);
	return value;
}
GGAS_COLD void proxy_store(ggas_proxy *proxy, uint64_t address, ggas_u128 value, uint32_t bytes)
{
	proxy_post(proxy, proxy_claim(proxy, 1), { address, GGAS_ACCESS_STORE, bytes, value }, 0);
}
GGAS_COLD uint64_t proxy_atomic(ggas_proxy *proxy, uint64_t address, uint32_t operation, uint32_t bytes, ggas_u128 words)
{
	uint32_t answer;
	uint64_t old = proxy_wait(proxy, { address, GGAS_ACCESS_ATOMIC | operation << 4, bytes, words }, &answer);
	proxy_done(proxy, answer);
	return old;
}
GGAS_COLD void proxy_reduce(ggas_proxy *proxy, uint64_t address, uint32_t operation, uint32_t bytes, uint64_t word)
{
	proxy_post(proxy, proxy_claim(proxy, 1),
		   { address, GGAS_ACCESS_REDUCE | operation << 4, bytes, { word, 0 } }, 0);
}
/* What this thread stored and reduced, or saw done, is performed. */
GGAS_COLD void proxy_settle(ggas_proxy *proxy)
{
	uint32_t answer;
	proxy_wait(proxy, { 0, GGAS_ACCESS_SETTLE, 1, {} }, &answer);
	proxy_done(proxy, answer);
}

/* The first `bytes`, at most 16, of what lies at `from`. */
GGAS_FN ggas_u128 gather(const uint8_t *from, uint64_t bytes)
{
	uint64_t at = reinterpret_cast<uint64_t>(from);
	if (bytes >= 16 && at % 16 == 0)
		return *reinterpret_cast<const ggas_u128 *>(from);
	if (bytes >= 16 && at % 8 == 0)
		return { reinterpret_cast<const uint64_t *>(from)[0], reinterpret_cast<const uint64_t *>(from)[1] };
	uint64_t words[2] = { 0, 0 };
	for (uint64_t i = 0; i < bytes && i < 16; i++)
		words[i / 8] |= uint64_t(from[i]) << i % 8 * 8;
	return { words[0], words[1] };
}

/* A store of `bytes`, at most GGAS_PROXY_BYTES, which lie at `from`, by one thread. */
GGAS_COLD void proxy_put(ggas_proxy *proxy, uint64_t address, const uint8_t *from, uint32_t bytes)
{
	if (bytes <= 16)
		return proxy_store(proxy, address, gather(from, bytes), bytes);
	uint32_t lines = (bytes + 63) / 64;
	uint64_t first = proxy_claim(proxy, 1 + lines);
	for (uint32_t i = 0; i * 16 < bytes; i++) {
		ggas_u128 *line = reinterpret_cast<ggas_u128 *>(proxy_line(proxy, first + 1 + i / 4));
		near_store_relaxed(line + i % 4, gather(from + i * 16, bytes - i * 16));
	}
	ggas_fence_system();
	proxy_post(proxy, first, { address, GGAS_ACCESS_STORE, bytes, {} }, 0);
}

/* Loads `bytes`, at most GGAS_PROXY_BYTES, to `to`, by one thread. */
GGAS_COLD void proxy_get(ggas_proxy *proxy, uint8_t *to, uint64_t address, uint32_t bytes)
{
	uint32_t answer;
	proxy_wait(proxy, { address, GGAS_ACCESS_LOAD, bytes, {} }, &answer);
	const uint8_t *from = proxy_bytes(proxy, answer);
	uint32_t done = 0;
	if (reinterpret_cast<uint64_t>(to) % 16 == 0)
		for (; done + 16 <= bytes; done += 16)
			*reinterpret_cast<ggas_u128 *>(to + done) =
				near_load_relaxed(reinterpret_cast<const ggas_u128 *>(from + done));
	for (; done < bytes; done += 8) {
		uint64_t word = near_load_relaxed(reinterpret_cast<const uint64_t *>(from + done));
		for (uint32_t i = 0; i < 8 && done + i < bytes; i++)
			to[done + i] = static_cast<uint8_t>(word >> i * 8);
	}
	proxy_done(proxy, answer);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_PROXY_H */
