/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernels of calls.c. */
#ifndef CALLS_H
#define CALLS_H

#include <gmpi.h>

/* What a kernel does, by all threads of its blocks. */
enum { CALLS_OPEN = 1, CALLS_BARRIER, CALLS_PUT, CALLS_SEND_NEXT, CALLS_IN_PLACE, CALLS_NOTHING };

struct calls_args {
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t memory;	/* attached: a request, then 8-byte values */
	uint64_t handle;	/* a communicator or a window */
	uint64_t what;		/* CALLS_* */
};

#ifdef __cplusplus
extern "C" {
#endif

/* What its calls came to lies behind the request. */
int calls_run(gmpi_t *gmpi, const struct calls_args *args, unsigned grid, unsigned block);

#ifdef __cplusplus
}
#endif

#endif /* CALLS_H */
