// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes between segments in GPU memory that the host posts: by stores, over NVLink to another GPU's.
#include "ggas/put.cuh"

#include "args.h"

GGAS_KERNEL(ggas_gaspi_store, gaspi_store)
{
	uint32_t self = ggas_block() * ggas_threads() + ggas_thread(), all = ggas_blocks() * ggas_threads();
	ggas_impl::copy_share(reinterpret_cast<void *>(args.to), reinterpret_cast<const void *>(args.from), args.bytes,
			      self, all);
	if (!args.word)
		return;
	ggas_syncthreads();
	if (ggas_thread() == 0) {
		ggas_fence_system();
		ggas_store_release(reinterpret_cast<uint64_t *>(args.word), args.value);
	}
}

namespace
{

/* A lane's part of an order, and whether all are there: one access of a warp, over the bus. */
struct found {
	uint64_t part;
	bool there;

	GGAS_FN found(const gaspi_order *orders, uint64_t number)
	{
		ggas_u128 word = { 0, number };
		if (ggas_lane() < 4)
			word = ggas_load_relaxed(reinterpret_cast<const ggas_u128 *>(
				orders[number % GASPI_ORDERS].part[ggas_lane()]));
		part = word.lo;
		there = ggas_ballot(GGAS_FULL_WARP, word.hi != number) == 0;
	}
	GGAS_FN uint64_t of(uint32_t lane) const { return ggas_shfl(GGAS_FULL_WARP, part, lane); }
};

GGAS_FN void carry_out(gaspi_ordered *ordered, uint64_t number, const found &now)
{
	uint64_t to = now.of(0), from = now.of(1), word = now.of(2), rest = now.of(3);
	/* What was written before it was ordered is what is read. */
	ggas_fence_acquire();
	ggas_impl::fetch_share(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), rest >> 32, ggas_lane(),
			       GGAS_WARP_SIZE);
	ggas_syncwarp();
	if (ggas_lane() == 0) {
		if (word)
			ggas_store_release(reinterpret_cast<uint64_t *>(word), rest & 0xffffffff);
		/* Behind the word too: then segments may go. */
		ggas_store_release(&ordered->done, number);
	}
	ggas_syncwarp();
}

} // namespace

/*
 * Short writes, by one warp, as long as some come: a launch for each takes longer than the write. It ends by itself soon after
 * the last one, since whoever waits for the GPU waits for it. Before, it says so and looks once more; who orders looks
 * afterwards whether it has said so. One of the two sees the other.
 */
GGAS_KERNEL_BOUND(ggas_gaspi_standby, gaspi_standby, GGAS_WARP_SIZE)
{
	auto *orders = reinterpret_cast<const gaspi_order *>(args.orders);
	auto *ordered = reinterpret_cast<gaspi_ordered *>(args.ordered);
	uint64_t number = ggas_load_acquire(&ordered->done) + 1, since = ggas_time_ns();
	bool leaves = false;
	if (ggas_lane() == 0)
		ggas_store_relaxed(&ordered->here, args.life);
	for (;;) {
		found now(orders, number);
		if (now.there) {
			if (leaves && ggas_lane() == 0)
				ggas_store_relaxed(&ordered->leaves, ~uint64_t(0));
			leaves = false;
			carry_out(ordered, number++, now);
			since = ggas_time_ns();
			continue;
		}
		if (leaves)
			break;
		ggas_pause();
		leaves = ggas_shfl(GGAS_FULL_WARP, ggas_time_ns() - since, 0) > args.patience_ns;
		if (leaves && ggas_lane() == 0) {
			ggas_store_relaxed(&ordered->leaves, args.life);
			ggas_fence_sequential();
		}
		ggas_syncwarp();
	}
	if (ggas_lane() == 0)
		ggas_store_release(&ordered->gone, args.life);
}
