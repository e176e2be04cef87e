/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernels with a planted bug (kernels/selftest/host/planted.cu). */
#ifndef GGAS_PLANTED_H
#define GGAS_PLANTED_H

#include <stdint.h>

struct planted_args {
	uint64_t flag;		/* u64 */
};

#endif /* GGAS_PLANTED_H */
