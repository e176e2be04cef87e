/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Numbered checks of a kernel; bits of a word say which failed. */
#ifndef GGAS_SELFTEST_CHECKS_CUH
#define GGAS_SELFTEST_CHECKS_CUH

#include "ggas/vocab.h"

namespace selftest
{

class checks {
public:
	GGAS_FN explicit checks(uint64_t failed) : failed_(reinterpret_cast<uint64_t *>(failed)) {}
	GGAS_FN void operator()(int number, bool good)
	{
		if (!good)
			ggas_atomic_or(failed_, uint64_t(1) << number, ggas_order::relaxed);
	}

private:
	uint64_t *failed_;
};

} // namespace selftest

#endif /* GGAS_SELFTEST_CHECKS_CUH */
