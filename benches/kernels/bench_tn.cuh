/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs of GPU-TN share: their messages. */
#ifndef GGAS_BENCH_TN_CUH
#define GGAS_BENCH_TN_CUH

#include "ggas/tn.cuh"

#include "bench.h"

namespace bench_tn_programs
{

template <class T> GGAS_FN T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

/* A block has done its part of a message. */
GGAS_FN int trigger(const bench_tn_program &program, uint64_t tag)
{
	ggas_tn *tn = pointer<ggas_tn>(program.tn);
	int error = ggas_tn_trigger_block(tn, tag);
	if (!error && program.words)
		error = ggas_tn_trigger_block(tn, tag + program.words);
	return error;
}

/* One thread arms a message again that was sent. */
GGAS_FN int rearm(const bench_tn_program &program, uint64_t tag)
{
	ggas_tn *tn = pointer<ggas_tn>(program.tn);
	int error = ggas_tn_rearm_thread(tn, tag);
	if (!error && program.words)
		error = ggas_tn_rearm_thread(tn, tag + program.words);
	return error;
}

/* The first error of any kernel of a run stays. */
GGAS_FN void leave(const bench_tn_program &program, int error)
{
	if (error)
		ggas_atomic_cas(pointer<uint64_t>(program.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}

} /* namespace bench_tn_programs */

#endif /* GGAS_BENCH_TN_CUH */
