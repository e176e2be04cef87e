// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks the parts of a window from kernels: plain stores, plain loads and
// atomics between all of its nodes.
#include "ggas/ggas.cuh"

#include "selftest.h"

namespace window_checks
{

class exchange {
public:
	GGAS_FN explicit exchange(const selftest_window &args)
		: args_(args), window_(reinterpret_cast<const ggas_window *>(args.window)), self_(ggas_node(window_)),
		  nodes_(ggas_nodes(window_))
	{
	}

	GGAS_FN int rounds() const
	{
		for (uint64_t round = 1; round <= args_.rounds; round++) {
			send(round);
			int error = wait_all(SELFTEST_WINDOW_ARRIVED, round);
			if (error)
				return error;
			check(round);
			tell_all(SELFTEST_WINDOW_DONE, round);
			/* Before anybody writes the next round over this one. */
			if ((error = wait_all(SELFTEST_WINDOW_DONE, round)))
				return error;
		}
		if (args_.atomics)
			expect(*words(self_, SELFTEST_WINDOW_COUNTER),
			       uint64_t(args_.rounds) * (nodes_ - 1) * ggas_threads());
		return GGAS_OK;
	}

private:
	GGAS_FN uint64_t *words(uint32_t node, uint64_t offset) const
	{
		return ggas_pointer_of_node<uint64_t>(window_, node, offset);
	}
	/* Where `from` writes to in the part of `to`. */
	GGAS_FN uint64_t *inbox(uint32_t to, uint32_t from) const
	{
		return words(to, SELFTEST_WINDOW_OUT + (from + 1) * args_.bytes);
	}
	GGAS_FN static uint64_t value(uint32_t node, uint64_t round, uint64_t word)
	{
		return uint64_t(node) << 48 ^ round << 32 ^ word;
	}
	GGAS_FN void expect(uint64_t seen, uint64_t expected) const
	{
		if (seen != expected)
			ggas_atomic_add(reinterpret_cast<uint64_t *>(args_.wrong), 1u, ggas_order::relaxed);
	}

	GGAS_FN void send(uint64_t round) const
	{
		uint64_t *own = words(self_, SELFTEST_WINDOW_OUT);
		for (uint64_t i = ggas_thread(); i < args_.bytes / 8; i += ggas_threads())
			own[i] = value(self_, round, i);
		ggas_syncthreads();
		for (uint32_t step = 1; step < nodes_; step++) {
			uint32_t to = (self_ + step) % nodes_;
			ggas_copy_block(inbox(to, self_), own, args_.bytes);
			if (args_.atomics)
				ggas_atomic_add(words(to, SELFTEST_WINDOW_COUNTER), 1u, ggas_order::relaxed);
		}
		tell_all(SELFTEST_WINDOW_ARRIVED, round);
	}

	/* Everything that the block did before comes first. */
	GGAS_FN void tell_all(uint64_t flags, uint64_t round) const
	{
		ggas_syncthreads();
		for (uint32_t to = ggas_thread(); to < nodes_; to += ggas_threads())
			if (to != self_)
				ggas_flag_set(words(to, flags) + self_, round);
	}

	GGAS_FN int wait_all(uint64_t flags, uint64_t round) const
	{
		int status = GGAS_OK;
		for (uint32_t from = ggas_thread(); from < nodes_; from += ggas_threads())
			if (from != self_ && status == GGAS_OK)
				status = ggas_flag_wait(window_, words(self_, flags) + from, round, from);
		return ggas_block_status(status);
	}

	/* What others wrote here, and what they have there. */
	GGAS_FN void check(uint64_t round) const
	{
		for (uint32_t step = 1; step < nodes_; step++) {
			uint32_t from = (self_ + step) % nodes_;
			const uint64_t *here = inbox(self_, from), *there = words(from, SELFTEST_WINDOW_OUT);
			for (uint64_t i = ggas_thread(); i < args_.bytes / 8; i += ggas_threads()) {
				expect(here[i], value(from, round, i));
				expect(ggas_read(there + i), value(from, round, i));
			}
		}
	}

	const selftest_window &args_;
	const ggas_window *window_;
	uint32_t self_, nodes_;
};

} // namespace window_checks

GGAS_KERNEL(ggas_selftest_window, selftest_window)
{
	if (int error = window_checks::exchange(args).rounds())
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
