// SPDX-License-Identifier: MIT OR Apache-2.0
// tn-line: a kernel copies one cache line, which is sent; the target's kernel waits for it.
#include "bench_tn.cuh"

namespace bench_line
{

using namespace bench_tn_programs;

GGAS_FN void copy(const bench_tn_line &args)
{
	const uint32_t *from = pointer<const uint32_t>(args.source);
	uint32_t *to = pointer<uint32_t>(args.buffer);
	for (uint64_t i = ggas_thread(); i < args.bytes / sizeof(uint32_t); i += ggas_threads())
		to[i] = from[i];
	if (!args.program.tn)
		return;
	if (args.program.words && ggas_thread() == 0)
		ggas_store_relaxed(pointer<uint64_t>(args.value), args.round + 1);
	int error = trigger(args.program, 0);
	/* For the next kernel; the line is on its way. */
	if (!error && ggas_thread() == 0)
		error = rearm(args.program, 0);
	leave(args.program, error);
}

GGAS_FN void look(const bench_tn_line &args)
{
	ggas_window window = *pointer<const ggas_window>(args.program.window);
	for (uint64_t round = 1; round <= args.rounds; round++) {
		if (int error = ggas_wait_block(&window, args.counter, ggas_cmp::ge, round))
			return leave(args.program, error);
		if (ggas_thread() == 0)
			ggas_store_release(pointer<uint64_t>(args.seen), round);
	}
}

} /* namespace bench_line */

GGAS_KERNEL_BOUND(bench_tn_line_copy, bench_tn_line, 512)
{
	bench_line::copy(args);
}

GGAS_KERNEL_BOUND(bench_tn_line_target, bench_tn_line, 512)
{
	bench_line::look(args);
}
