// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks coll.cuh with all other types.
#include "selftest_coll.cuh"

namespace coll_checks
{

GGAS_FN int of_type(const selftest_coll &args)
{
	switch (args.element) {
	case SELFTEST_DOUBLE:
		return typed<double>(args);
	case SELFTEST_INT32:
		return typed<int32_t>(args);
	case SELFTEST_INT64:
		return typed<int64_t>(args);
	case SELFTEST_HALF:
		return typed<ggas_half>(args);
	case SELFTEST_BFLOAT16:
		return typed<ggas_bfloat16>(args);
	default:
		return GGAS_ERR_ARGUMENT;
	}
}

} // namespace coll_checks

GGAS_KERNEL_BOUND(ggas_selftest_coll_types, selftest_coll, 256)
{
	if (!args.skip)
		coll_checks::tell(args, coll_checks::of_type(args));
}
