/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernels of HPE's programs share: numbers rounded one by one, so that all processors give the same bits. */
#ifndef GGAS_BENCH_HPE_CUH
#define GGAS_BENCH_HPE_CUH

#include "ggas/vocab.h"

namespace hpe
{

#if defined(__CUDACC__)
GGAS_FN float add(float a, float b) { return __fadd_rn(a, b); }
GGAS_FN float subtract(float a, float b) { return __fsub_rn(a, b); }
GGAS_FN float multiply(float a, float b) { return __fmul_rn(a, b); }
#else
/* The executor's compiler contracts nothing (-ffp-contract=off). */
GGAS_FN float add(float a, float b) { return a + b; }
GGAS_FN float subtract(float a, float b) { return a - b; }
GGAS_FN float multiply(float a, float b) { return a * b; }
#endif

/* The calling thread's number in the grid, and how many there are: loops go on by that. */
GGAS_FN uint64_t thread() { return uint64_t(ggas_block()) * ggas_threads() + ggas_thread(); }
GGAS_FN uint64_t threads() { return uint64_t(ggas_blocks()) * ggas_threads(); }

} /* namespace hpe */

#endif /* GGAS_BENCH_HPE_CUH */
