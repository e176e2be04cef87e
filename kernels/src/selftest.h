/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernels that check the vocabulary on whatever runs them. */
#ifndef GGAS_SELFTEST_H
#define GGAS_SELFTEST_H

#include <stdint.h>

struct ggas_selftest_args {
	uint64_t out;		/* u64 per thread of the grid */
	uint64_t counter;	/* one u64, 0 at the start */
	uint64_t report;	/* struct ggas_report, or 0 */
	uint64_t timeout_ns;
};

#endif /* GGAS_SELFTEST_H */
