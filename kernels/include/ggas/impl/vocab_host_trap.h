/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Trapped addresses of the CPU executor (kernels/src/trap.rs); included by vocab_host.h. */
#ifndef GGAS_IMPL_VOCAB_HOST_TRAP_H
#define GGAS_IMPL_VOCAB_HOST_TRAP_H

namespace ggas_impl
{

constexpr bool can_trap = true;

/* Whether `p` may be trapped (exec.h): two compares and no call while nothing is. */
inline bool may_trap(const void *p)
{
	uint64_t address = reinterpret_cast<uint64_t>(p);
	if (__builtin_expect(address < __atomic_load_n(&ggas_exec_traps[0], __ATOMIC_RELAXED), 1))
		return false;
	return address < __atomic_load_n(&ggas_exec_traps[1], __ATOMIC_RELAXED);
}
/* True if it was trapped, and done. */
template <class T> GGAS_COLD bool trapped_load(const T *p, T *v)
{
	return ggas_exec_access(ggas_exec_self, GGAS_ACCESS_LOAD, reinterpret_cast<uint64_t>(p), v, sizeof(T)) != 0;
}
template <class T> GGAS_COLD bool trapped_store(T *p, T v)
{
	return ggas_exec_access(ggas_exec_self, GGAS_ACCESS_STORE, reinterpret_cast<uint64_t>(p), &v, sizeof(T)) != 0;
}

template <class T> GGAS_COLD bool trapped_access(T *p, uint32_t access, uint32_t operation, T (&words)[2])
{
	static_assert(sizeof(T) == 4 || sizeof(T) == 8);
	return ggas_exec_access(ggas_exec_self, access | operation << 8, reinterpret_cast<uint64_t>(p), words,
				sizeof(T)) != 0;
}
/* True if it was trapped, and done; `old` is what was there. */
template <class T> inline bool trapped_atomic(T *p, uint32_t operation, T v, T expected, T *old)
{
	T words[2] = { v, expected };
	bool trapped = trapped_access(p, GGAS_ACCESS_ATOMIC, operation, words);
	*old = words[0];
	return trapped;
}
template <class T> inline bool trapped_reduce(T *p, uint32_t operation, T v)
{
	T words[2] = { v, T() };
	return trapped_access(p, GGAS_ACCESS_REDUCE, operation, words);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_VOCAB_HOST_TRAP_H */
