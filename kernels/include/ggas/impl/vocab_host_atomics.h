/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomics of the CPU executor; included by vocab_host.h. Those on trapped addresses are the SMFU's (vocab_host_trap.h). */
#ifndef GGAS_IMPL_VOCAB_HOST_ATOMICS_H
#define GGAS_IMPL_VOCAB_HOST_ATOMICS_H

namespace ggas_impl
{

/* Changes what is at `p` into `change` of it; returns what it was. */
template <class T, class Change> inline T host_change(T *p, ggas_order order, Change change)
{
	T old = ggas_load_relaxed(p), now;
	do
		now = change(old);
	while (!__atomic_compare_exchange(p, &old, &now, false, host_order(order), __ATOMIC_RELAXED));
	return old;
}
template <class T> inline T host_add(T *p, T v, ggas_order order)
{
	if constexpr (std::is_integral_v<T>)
		return __atomic_fetch_add(p, v, host_order(order));
	else
		return host_change(p, order, [v](T old) { return old + v; });
}
template <class T> inline T host_exch(T *p, T v, ggas_order order)
{
	return __atomic_exchange_n(p, v, host_order(order));
}
template <class T> inline T host_and(T *p, T v, ggas_order order)
{
	return __atomic_fetch_and(p, v, host_order(order));
}
template <class T> inline T host_or(T *p, T v, ggas_order order)
{
	return __atomic_fetch_or(p, v, host_order(order));
}
template <class T> inline T host_xor(T *p, T v, ggas_order order)
{
	return __atomic_fetch_xor(p, v, host_order(order));
}
template <class T> inline T host_min(T *p, T v, ggas_order order)
{
	return host_change(p, order, [v](T old) { return v < old ? v : old; });
}
template <class T> inline T host_max(T *p, T v, ggas_order order)
{
	return host_change(p, order, [v](T old) { return old < v ? v : old; });
}

} /* namespace ggas_impl */

#define GGAS_DEFINE_ATOM(name)                                                                                         \
	template <class T> inline T ggas_atomic_##name(T *p, std::type_identity_t<T> v, ggas_order order)              \
	{                                                                                                              \
		if (T old; ggas_impl::may_trap(p) && ggas_impl::trapped_atomic(p, ggas_impl::op_##name<T>, v, T(), &old)) \
			return old;                                                                                    \
		return ggas_impl::host_##name<T>(p, v, order);                                                         \
	}
#define GGAS_DEFINE_RED(name)                                                                                          \
	template <class T> inline void ggas_red_##name(T *p, std::type_identity_t<T> v, ggas_order order)              \
	{                                                                                                              \
		if (ggas_impl::may_trap(p) && ggas_impl::trapped_reduce(p, ggas_impl::op_##name<T>, v))                \
			return;                                                                                        \
		ggas_impl::host_##name<T>(p, v, order);                                                                \
	}
GGAS_DEFINE_ATOM(exch)
GGAS_DEFINE_ATOM(add)
GGAS_DEFINE_ATOM(and)
GGAS_DEFINE_ATOM(or)
GGAS_DEFINE_ATOM(xor)
GGAS_DEFINE_ATOM(min)
GGAS_DEFINE_ATOM(max)
GGAS_DEFINE_RED(add)
GGAS_DEFINE_RED(and)
GGAS_DEFINE_RED(or)
GGAS_DEFINE_RED(xor)
GGAS_DEFINE_RED(min)
GGAS_DEFINE_RED(max)
#undef GGAS_DEFINE_RED
#undef GGAS_DEFINE_ATOM

template <class T>
inline T ggas_atomic_cas(T *p, std::type_identity_t<T> expected, std::type_identity_t<T> desired, ggas_order order)
{
	if (T old; ggas_impl::may_trap(p) && ggas_impl::trapped_atomic(p, GGAS_ATOMIC_CAS, desired, expected, &old))
		return old;
	bool acquires = order == ggas_order::acquire || order == ggas_order::release_acquire;
	__atomic_compare_exchange_n(p, &expected, desired, false, ggas_impl::host_order(order),
				    acquires ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);
	return expected;
}

#endif /* GGAS_IMPL_VOCAB_HOST_ATOMICS_H */
