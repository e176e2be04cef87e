// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives that the host starts, in a stream.
#include "ggas/coll.cuh"

#include "args.h"

namespace coll_started
{

/* A failure is in the group: its report, and its poison. */
template <class T> GGAS_FN void allreduce(const coll_allreduce &args)
{
	ggas_impl::allreduce_window<T>(reinterpret_cast<ggas_group *>(args.group),
				       reinterpret_cast<const ggas_window *>(args.window), args.in, args.out, args.count,
				       ggas_sum(), args.in == args.out ? 0 : args.chunks, __LINE__);
}

} // namespace coll_started

GGAS_KERNEL_BOUND(ggas_allreduce_sum, coll_allreduce, 512)
{
	switch (args.element) {
	case COLL_FLOAT:
		return coll_started::allreduce<float>(args);
	case COLL_DOUBLE:
		return coll_started::allreduce<double>(args);
	case COLL_INT32:
		return coll_started::allreduce<int32_t>(args);
	case COLL_INT64:
		return coll_started::allreduce<int64_t>(args);
	case COLL_HALF:
		return coll_started::allreduce<ggas_half>(args);
	case COLL_BFLOAT16:
		return coll_started::allreduce<ggas_bfloat16>(args);
	}
}
