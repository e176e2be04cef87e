// SPDX-License-Identifier: MIT OR Apache-2.0
// host-sync and host-wait: what the host waits for. device-copy: a kernel that has the copy engine copy.
#include "bench.cuh"
#include "ggas/ggas.cuh"

#include "bench.h"

namespace bench_of_hosts
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* One thread has the copies made, one after the other. */
GGAS_FN int copies(const bench_device_copy &args, bench_stopwatch &watch)
{
	ggas_window window = *pointer<const ggas_window>(args.window);
	auto *trigger = pointer<uint64_t>(args.trigger), *done = pointer<uint64_t>(args.done);
	for (uint64_t i = 0; i < watch.rounds(); i++) {
		uint64_t seen;
		watch.begin(i);
		ggas_store_release(trigger, i + 1);
		ggas_wait wait(window.report, window.timeout_ns, GGAS_WAIT_COMPLETION, window.node);
		while ((seen = ggas_load_acquire(done)) < i + 1)
			if (int error = wait.again(done, i + 1, seen))
				return error;
		watch.end(i);
	}
	return GGAS_OK;
}

} // namespace bench_of_hosts

GGAS_KERNEL(bench_host_sync_round, bench_host_sync)
{
	using bench_of_hosts::pointer;
	if (args.ns) {
		uint64_t begin = ggas_time_ns();
		while (ggas_time_ns() - begin < args.ns)
			ggas_pause();
		ggas_syncthreads();
	}
	if (ggas_thread() != 0)
		return;
	uint64_t round = ++pointer<uint64_t>(args.rounds)[ggas_block()];
	if (!args.word)
		return;
	uint64_t before = ggas_atomic_add(pointer<uint64_t>(args.finished), uint64_t(1), ggas_order::release_acquire);
	if (before + 1 == round * ggas_blocks())
		ggas_store_release(pointer<uint64_t>(args.word), round);
}

GGAS_KERNEL_BOUND(bench_device_copy_rounds, bench_device_copy, 32)
{
	if (ggas_thread() != 0)
		return;
	bench_stopwatch watch(args.timing);
	int status = bench_of_hosts::copies(args, watch);
	watch.stop(status);
}
