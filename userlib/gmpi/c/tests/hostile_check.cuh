/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What calls have to return, and the first line that returned something else. */
#ifndef HOSTILE_CHECK_CUH
#define HOSTILE_CHECK_CUH

#include "ggas/gmpi.cuh"

#include "hostile.h"

struct hostile_check {
	gmpi_buf_t *buf;
	uint64_t *words;
	GGAS_FN void want(int wanted, int got, uint32_t line) const
	{
		if (ggas_thread() != 0 || ggas_block() != 0 || wanted == got || words[HOSTILE_LINE])
			return;
		words[HOSTILE_LINE] = line;
		words[HOSTILE_GOT] = static_cast<uint64_t>(got);
	}
	/* The error of a request that was begun. */
	GGAS_FN void later(int wanted, int begun, uint32_t line) const
	{
		want(GMPI_SUCCESS, begun, line);
		want(wanted, GMPI_Wait(buf, words + HOSTILE_PLACES, MPI_STATUS_IGNORE), line);
	}
};

/* What does not wait is told by GMPI_Synchronize. */
#define TOLD(wanted, call) (WANT(GMPI_SUCCESS, call), WANT(wanted, GMPI_Synchronize(buf)))
#define WANT(wanted, call) check.want((wanted), (call), __LINE__)
#define LATER(wanted, call) check.later((wanted), (call), __LINE__)

constexpr int hostile_many = 0x7fffffff;

#endif
