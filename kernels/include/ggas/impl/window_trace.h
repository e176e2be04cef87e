/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Who puts how much to whom, of windows for which somebody asks (struct ggas_traced); included by window_check.h. */
#ifndef GGAS_IMPL_WINDOW_TRACE_H
#define GGAS_IMPL_WINDOW_TRACE_H

#include "scope.h"

namespace ggas_impl
{

/* An access says above its line, in bits that are constants, who of its callers counts it, and what it is: so kernels carry nothing for
 * it. Without any of them it is refused. */
constexpr uint32_t line_bits = 24, line_mask = (1u << line_bits) - 1;
constexpr uint32_t trace_grid = 4, trace_nobody = 5, trace_who = 7;
constexpr uint32_t trace_got = 8;   /* bytes of the other node come here */
constexpr uint32_t trace_flag = 16;  /* a flag, of 8 bytes, goes behind what is said */
constexpr uint32_t trace_rings = 128; /* rings are opened, of 2^(the lowest 5 bits) lines */

GGAS_FN uint32_t traced(uint32_t how, uint32_t line) { return line | how << line_bits; }
constexpr GGAS_FN uint32_t trace_by(ggas_scope scope) { return 1 + static_cast<uint32_t>(scope); }

/* Whether this thread counts for its callers. */
GGAS_FN bool counts_it(uint32_t how)
{
	switch (how & trace_who) {
	case trace_by(ggas_scope::thread):
		return true;
	case trace_by(ggas_scope::warp):
		return ggas_lane() == 0;
	case trace_by(ggas_scope::block):
		return ggas_thread() == 0;
	case trace_grid:
		return ggas_block() == 0 && ggas_thread() == 0;
	default:
		return false;
	}
}

GGAS_FN ggas_traced *traced_of(uint64_t report) { return reinterpret_cast<ggas_traced *>(report + sizeof(ggas_report)); }

/* The size of a window that says 0. */
GGAS_COLD uint64_t traced_size(uint64_t report) { return report ? ggas_load_relaxed(&traced_of(report)->size) : 0; }

/* Rings are known once; beyond GGAS_TRACED_RINGS they are not counted. */
GGAS_FN void trace_rings_at(ggas_traced *trace, uint64_t offset, uint64_t bytes, uint32_t log2)
{
	uint64_t key = offset << 8 | log2;
	for (uint32_t i = 0; i < GGAS_TRACED_RINGS; i++) {
		uint64_t was = ggas_atomic_cas(&trace->rings[i], uint64_t(0), key, ggas_order::relaxed);
		if (was && was != key)
			continue;
		ggas_store_relaxed(&trace->ring_bytes[i], bytes);
		return;
	}
}

/* Counts bytes that this node moves to another one, or gets from there. */
GGAS_FN void trace_moved(uint64_t report, uint32_t node, uint64_t bytes, uint32_t how = 0)
{
	ggas_traced *trace = traced_of(report);
	if (!bytes || node >= ggas_load_relaxed(&trace->nodes))
		return;
	ggas_traced_node *sums = reinterpret_cast<ggas_traced_node *>(ggas_load_relaxed(&trace->counts)) + node;
	ggas_red_add(how & trace_got ? &sums->got_bytes : &sums->put_bytes, bytes, ggas_order::relaxed);
	ggas_red_add(how & trace_got ? &sums->gets : &sums->puts, uint64_t(1), ggas_order::relaxed);
}

/* Whether an access to a window that says size 0 may go on: it is traced, and fits. */
GGAS_FN bool trace_access(uint64_t report, uint32_t self, uint32_t node, uint64_t offset, uint64_t bytes, uint32_t how)
{
	uint64_t size = how ? traced_size(report) : 0;
	ggas_traced *trace = traced_of(report);
	if (offset > size || bytes > size - offset || !size || node >= ggas_load_relaxed(&trace->nodes))
		return false;
	if (how & trace_rings) {
		trace_rings_at(trace, offset, bytes, how % 32);
	} else if (node != self && counts_it(how)) {
		trace_moved(report, node, bytes, how);
	}
	return true;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_WINDOW_TRACE_H */
