// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks put.cuh between two nodes: puts with signals, gets, packed and bulk puts, by threads, warps, blocks and grids.
#include "ggas/put.cuh"

#include "selftest.h"

namespace put_checks
{

/* Threads that share a lane's work, and how they split it. The grid's blocks do not meet. */
struct lane_of {
	uint32_t lane, thread, threads;
};

GGAS_FN uint8_t value(uint32_t node, uint64_t round, uint32_t lane, uint64_t i)
{
	return static_cast<uint8_t>((i + 1) * 167 ^ round * 29 ^ lane * 53 ^ node * 101 ^ i >> 8);
}

template <ggas_scope Scope> class exchange {
	using team = ggas_impl::put_team<Scope>;

public:
	GGAS_FN exchange(const selftest_put &args, const ggas_window *window, lane_of who)
		: args_(args), window_(window), self_(window->node), peer_(1 - window->node), who_(who)
	{
	}

	/* Signals count rounds; what came is read before the other side is told so. */
	GGAS_FN int signalled(bool grid, uint64_t signallers)
	{
		uint64_t arrived = who_.lane * sizeof(uint64_t), read = SELFTEST_PUT_READ + arrived;
		for (uint64_t round = 1; round <= args_.rounds; round++) {
			fill(round, 0, grid);
			int error = put(grid, round, arrived, args_.bytes);
			if (error || (error = wait(arrived, round * signallers)))
				return error;
			check(at(1), peer_, round);
			if (!grid) {
				if ((error = get()))
					return error;
				check(at(2), peer_, round);
			}
			error = team::agree(GGAS_OK);
			if ((error = put(grid, round, read, 0)) || (error = wait(read, round * signallers)))
				return error;
		}
		return GGAS_OK;
	}

	/* Each block has a signal of its own, which is set: the grid's blocks, too, whose shares are put together. */
	GGAS_FN int bulk(bool grid, ggas_impl::put_share share)
	{
		uint64_t arrived = ggas_block() * sizeof(uint64_t), read = SELFTEST_PUT_READ + arrived;
		for (uint64_t round = 1; round <= args_.rounds; round++) {
			for (uint64_t i = ggas_thread(); i < share.bytes; i += ggas_threads())
				own(at(0))[share.offset + i] = value(self_, round, who_.lane, share.offset + i);
			ggas_syncthreads();
			const uint8_t *from = own(at(0));
			int error = grid ? ggas_put_bulk_grid(window_, peer_, at(1), from, args_.bytes) :
					   ggas_put_bulk_block(window_, peer_, at(1), from, args_.bytes);
			if (error || (error = set(arrived, round)) || (error = wait(arrived, round)))
				return error;
			check(at(1), peer_, round, share);
			ggas_syncthreads();
			if ((error = set(read, round)) || (error = wait(read, round)))
				return error;
		}
		return GGAS_OK;
	}

	GGAS_FN int packed()
	{
		ggas_rings rings = { args_.rings, args_.lanes, args_.lines_log2 };
		ggas_packed_end<Scope> end(window_, rings, peer_, who_.lane);
		int error = GGAS_OK;
		uint64_t sent = 0;
		auto put_until = [&](uint64_t round) {
			while (sent < args_.rounds && sent < round && !error) {
				fill(++sent, 0, false);
				error = end.put(own(at(0)), args_.bytes);
				team::agree(GGAS_OK);
			}
		};
		for (uint64_t round = 1; round <= args_.rounds && !error; round++) {
			put_until(round + args_.puts - 1);
			if (!error)
				error = end.take(own(at(1)), args_.bytes);
			if (!error)
				check(at(1), peer_, round);
			team::agree(GGAS_OK);
		}
		put_until(args_.rounds);
		int closed = end.close();
		return error ? error : closed;
	}

private:
	GGAS_FN uint64_t at(uint32_t buffer) const
	{
		return SELFTEST_PUT_DATA + (who_.lane * 3ull + buffer) * args_.each + args_.skew;
	}
	GGAS_FN uint8_t *own(uint64_t offset) const { return ggas_pointer_of_node<uint8_t>(window_, self_, offset); }

	/* Where a grid copies, each thread fills the 16 bytes that it sends. */
	GGAS_FN void fill(uint64_t round, uint32_t buffer, bool grid) const
	{
		uint64_t unit = grid ? 16 : 1, whole = args_.bytes / unit * unit;
		uint8_t *to = own(at(buffer));
		for (uint64_t i = who_.thread; i < args_.bytes / unit; i += who_.threads)
			for (uint64_t k = i * unit; k < (i + 1) * unit; k++)
				to[k] = value(self_, round, who_.lane, k);
		for (uint64_t i = whole + who_.thread; i < args_.bytes; i += who_.threads)
			to[i] = value(self_, round, who_.lane, i);
		if (!grid)
			team::agree(GGAS_OK);
	}
	GGAS_FN int put(bool grid, uint64_t round, uint64_t signal, uint64_t bytes) const
	{
		const uint8_t *from = own(at(0));
		if (grid)
			return ggas_put_signal_grid(window_, peer_, at(1), from, bytes, signal, 1);
		ggas_signal what = round % 2 ? ggas_signal::set : ggas_signal::add;
		uint64_t value = round % 2 ? round : 1;
		return ggas_impl::put_signal<Scope>(window_, peer_, at(1), from, bytes, signal, value, what, __LINE__);
	}
	GGAS_FN int set(uint64_t signal, uint64_t value) const
	{
		return ggas_put_signal_block(window_, peer_, at(1), nullptr, 0, signal, value);
	}
	GGAS_FN int wait(uint64_t signal, uint64_t value) const
	{
		return ggas_impl::wait_word<Scope>(window_, signal, ggas_cmp::ge, value, peer_, __LINE__);
	}
	GGAS_FN int get() const
	{
		return ggas_impl::get<Scope>(window_, peer_, at(0), own(at(2)), args_.bytes, __LINE__);
	}
	GGAS_FN void check(uint64_t offset, uint32_t node, uint64_t round) const
	{
		check(offset, node, round, { 0, args_.bytes });
	}
	GGAS_FN void check(uint64_t offset, uint32_t node, uint64_t round, ggas_impl::put_share share) const
	{
		const uint8_t *seen = own(offset);
		uint64_t wrong = 0, end = share.offset + share.bytes;
		for (uint64_t i = share.offset + who_.thread; i < end; i += who_.threads)
			wrong += seen[i] != value(node, round, who_.lane, i);
		if (wrong)
			ggas_red_add(reinterpret_cast<uint64_t *>(args_.wrong), wrong, ggas_order::relaxed);
	}

	const selftest_put &args_;
	const ggas_window *window_;
	uint32_t self_, peer_;
	lane_of who_;
};

template <ggas_scope Scope> GGAS_FN int run(const selftest_put &args, lane_of who, bool grid)
{
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	exchange<Scope> both(args, &window, who);
	return args.rings ? both.packed() : both.signalled(grid, grid ? ggas_blocks() : 1);
}

GGAS_FN int run_bulk(const selftest_put &args)
{
	ggas_window window = *reinterpret_cast<const ggas_window *>(args.window);
	bool grid = args.form == SELFTEST_PUT_BULK_GRID;
	exchange<ggas_scope::block> both(args, &window, { grid ? 0 : ggas_block(), ggas_thread(), ggas_threads() });
	ggas_impl::put_share all = { 0, args.bytes };
	return both.bulk(grid, grid ? ggas_impl::share_of_block(args.bytes, 128) : all);
}

GGAS_FN int run(const selftest_put &args)
{
	uint32_t thread = ggas_block() * ggas_threads() + ggas_thread(), all = ggas_blocks() * ggas_threads();
	using warp = ggas_impl::put_team<ggas_scope::warp>;
	switch (args.form) {
	case SELFTEST_PUT_THREAD:
		return run<ggas_scope::thread>(args, { thread, 0, 1 }, false);
	case SELFTEST_PUT_WARP:
		return run<ggas_scope::warp>(
			args, { ggas_block() * ggas_warps() + ggas_warp(), warp::thread(), warp::threads() }, false);
	case SELFTEST_PUT_BLOCK:
		return run<ggas_scope::block>(args, { ggas_block(), ggas_thread(), ggas_threads() }, false);
	case SELFTEST_PUT_BULK_BLOCK:
	case SELFTEST_PUT_BULK_GRID:
		return run_bulk(args);
	default:
		return run<ggas_scope::block>(args, { 0, thread, all }, true);
	}
}

} // namespace put_checks

GGAS_KERNEL_BOUND(ggas_selftest_put, selftest_put, 256)
{
	if (int error = put_checks::run(args))
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
