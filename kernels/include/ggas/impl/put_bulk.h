/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Copies by the engine of a multiprocessor; included by put.cuh. */
#ifndef GGAS_IMPL_PUT_BULK_H
#define GGAS_IMPL_PUT_BULK_H

namespace ggas_impl
{

#ifdef GGAS_HAS_BULK
constexpr uint32_t bulk_stages = 4, bulk_bytes = 8192;

/* By one thread: loads run three stages ahead of stores. Everything is a multiple of 16 bytes. */
GGAS_FN void copy_staged(uint8_t *to, const uint8_t *from, uint64_t bytes, ggas_u128 *stages, uint64_t *arrivals)
{
	uint64_t chunks = (bytes + bulk_bytes - 1) / bulk_bytes;
	auto size = [&](uint64_t chunk) {
		uint64_t left = bytes - chunk * bulk_bytes;
		return static_cast<uint32_t>(left < bulk_bytes ? left : bulk_bytes);
	};
	auto stage = [&](uint64_t chunk) { return stages + chunk % bulk_stages * (bulk_bytes / sizeof(ggas_u128)); };
	auto load = [&](uint64_t chunk) {
		if (chunk < chunks)
			bulk_load(stage(chunk), from + chunk * bulk_bytes, size(chunk), arrivals + chunk % bulk_stages);
	};
	for (uint32_t i = 0; i < bulk_stages; i++)
		bulk_begin(arrivals + i);
	ggas_fence_bulk();
	for (uint64_t chunk = 0; chunk + 1 < bulk_stages; chunk++)
		load(chunk);
	for (uint64_t chunk = 0; chunk < chunks; chunk++) {
		bulk_loaded(arrivals + chunk % bulk_stages, chunk / bulk_stages % 2);
		bulk_store(to + chunk * bulk_bytes, stage(chunk), size(chunk));
		bulk_one_left();
		load(chunk + bulk_stages - 1);
	}
	bulk_stored();
	ggas_fence_bulk();
	for (uint32_t i = 0; i < bulk_stages; i++)
		bulk_end(arrivals + i);
}
#endif

/* The block's bytes. They are performed for its thread 0 on return where the engine copied, and stored as by
 * ggas_copy_block() where there is none or the ends are not aligned to it. */
GGAS_FN void copy_bulk(void *to, const void *from, uint64_t bytes)
{
#ifdef GGAS_HAS_BULK
	uint64_t ends = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from);
	if (ends % 16 == 0 && !may_trap(to)) {
		__shared__ alignas(128) ggas_u128 stages[bulk_stages * bulk_bytes / sizeof(ggas_u128)];
		__shared__ uint64_t arrivals[bulk_stages];
		uint64_t whole = bytes / 16 * 16;
		if (ggas_thread() == 0 && whole)
			copy_staged(static_cast<uint8_t *>(to), static_cast<const uint8_t *>(from), whole, stages,
				    arrivals);
		copy_share(static_cast<uint8_t *>(to) + whole, static_cast<const uint8_t *>(from) + whole,
			   bytes - whole, ggas_thread(), ggas_threads());
		return;
	}
#endif
	copy_share(to, from, bytes, ggas_thread(), ggas_threads());
}

/* The share of one block of the grid: whole 128 bytes where they can be. */
struct put_share {
	uint64_t offset, bytes;
};
GGAS_FN put_share share_of_block(uint64_t bytes, uint32_t unit)
{
	if (ggas_blocks() == 1)
		return { 0, bytes };
	uint64_t units = (bytes + unit - 1) / unit, each;
	/* A division of 64 bits takes as long as a short put. */
	if (units >> 32 == 0)
		each = (static_cast<uint32_t>(units) + ggas_blocks() - 1) / ggas_blocks();
	else
		each = (units + ggas_blocks() - 1) / ggas_blocks();
	uint64_t begin = each * ggas_block() * unit, end = begin + each * unit;
	begin = begin < bytes ? begin : bytes;
	end = end < bytes ? end : bytes;
	return { begin, end - begin };
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_PUT_BULK_H */
