/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef GGAS_PLANTED_H
#define GGAS_PLANTED_H

#include <stdint.h>

struct planted_args {
	uint64_t flag;		/* u64 */
};

#endif /* GGAS_PLANTED_H */
