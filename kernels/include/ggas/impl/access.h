/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Accesses to trapped addresses, as kernels ask the host for them (kernels/src/trap.rs). */
#ifndef GGAS_IMPL_ACCESS_H
#define GGAS_IMPL_ACCESS_H

#include <stdint.h>

#include "atomic_ops.h"

#define GGAS_ACCESS_LOAD	0	/* to `value` */
#define GGAS_ACCESS_STORE	1	/* of `value` */
#define GGAS_ACCESS_ATOMIC	2	/* | GGAS_ATOMIC_* << 8; to `value`, of it and of what is expected, which is behind it */
#define GGAS_ACCESS_REDUCE	3	/* the same, and nothing comes back */
#define GGAS_ACCESS_SETTLE	4	/* what was stored and reduced before is performed; of no address */

#ifdef __cplusplus
#include <type_traits>

namespace ggas_impl
{
/* Operations for a type. */
template <class T> constexpr uint32_t op_add = std::is_integral_v<T> ? GGAS_ATOMIC_ADD : GGAS_ATOMIC_ADD_FLOAT;
template <class T> constexpr uint32_t op_exch = GGAS_ATOMIC_EXCH;
template <class T> constexpr uint32_t op_and = GGAS_ATOMIC_AND;
template <class T> constexpr uint32_t op_or = GGAS_ATOMIC_OR;
template <class T> constexpr uint32_t op_xor = GGAS_ATOMIC_XOR;
template <class T> constexpr uint32_t op_min = std::is_signed_v<T> ? GGAS_ATOMIC_MIN_SIGNED : GGAS_ATOMIC_MIN;
template <class T> constexpr uint32_t op_max = std::is_signed_v<T> ? GGAS_ATOMIC_MAX_SIGNED : GGAS_ATOMIC_MAX;
} /* namespace ggas_impl */
#endif

#endif /* GGAS_IMPL_ACCESS_H */
