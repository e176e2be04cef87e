// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels of the GPU self-test (gputest.h).
#include "ggas/vocab.h"

#include "gputest.h"

GGAS_KERNEL(ggas_gputest_ping, gputest_ping)
{
	if (ggas_thread() != 0 || ggas_block() != 0)
		return;
	uint64_t *request = reinterpret_cast<uint64_t *>(args.request);
	uint64_t *answer = reinterpret_cast<uint64_t *>(args.answer);
	uint64_t *status = reinterpret_cast<uint64_t *>(args.status);
	for (uint64_t i = 1; i <= args.rounds; i++) {
		if (!args.second)
			ggas_store_release(request, i);
		uint64_t seen;
		ggas_wait wait(0, args.timeout_ns, GGAS_WAIT_FLAG, 0);
		while ((seen = ggas_load_acquire(answer)) < i)
			if (int error = wait.again(answer, i, seen)) {
				ggas_store_release(status, static_cast<uint64_t>(error) + 1);
				return;
			}
		if (args.second)
			ggas_store_release(request, i);
	}
	ggas_store_release(status, static_cast<uint64_t>(GGAS_OK) + 1);
}

GGAS_KERNEL(ggas_gputest_hold, gputest_hold)
{
	if (ggas_thread() == 0) {
		uint64_t *flag = reinterpret_cast<uint64_t *>(args.flag), seen;
		ggas_atomic_add(reinterpret_cast<uint64_t *>(args.counter), 1u, ggas_order::release);
		ggas_wait wait(0, args.timeout_ns, GGAS_WAIT_FLAG, 0);
		while ((seen = ggas_load_acquire(flag)) == 0)
			if (wait.again(flag, 1, seen))
				break;
	}
	ggas_syncthreads();
}

GGAS_KERNEL(ggas_gputest_poke, gputest_poke)
{
	for (uint64_t i = ggas_thread(); i < args.parts; i += ggas_threads())
		ggas_store_release(reinterpret_cast<uint64_t *>(args.base + i * args.stride), args.value + i);
}

GGAS_KERNEL(ggas_gputest_fault, gputest_fault)
{
	ggas_store_relaxed(reinterpret_cast<uint64_t *>(args.address), static_cast<uint64_t>(ggas_thread()));
}
