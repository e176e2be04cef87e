/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernels share that check coll.cuh on whatever runs them. */
#ifndef GGAS_SELFTEST_COLL_CUH
#define GGAS_SELFTEST_COLL_CUH

#include "ggas/coll.cuh"

#include "selftest.h"

namespace coll_checks
{

/* An operation chosen when the kernel runs. */
struct any_op {
	uint32_t which;
	GGAS_FN float operator()(float a, float b) const { return number(a, b); }
	GGAS_FN double operator()(double a, double b) const { return number(a, b); }
	template <class T> GGAS_COLD T operator()(T a, T b) const
	{
		switch (which) {
		case SELFTEST_AND:
			return ggas_and()(a, b);
		case SELFTEST_OR:
			return ggas_or()(a, b);
		case SELFTEST_XOR:
			return ggas_xor()(a, b);
		default:
			return number(a, b);
		}
	}

private:
	template <class T> GGAS_COLD T number(T a, T b) const
	{
		switch (which) {
		case SELFTEST_PROD:
			return ggas_prod()(a, b);
		case SELFTEST_MIN:
			return ggas_min()(a, b);
		case SELFTEST_MAX:
			return ggas_max()(a, b);
		default:
			return ggas_sum()(a, b);
		}
	}
};

/* Collectives with a result of each type that packets carry. */
template <class T> GGAS_FN int packed(const selftest_coll &args, ggas_group *g)
{
	const T *in = reinterpret_cast<const T *>(args.input);
	T *out = reinterpret_cast<T *>(args.out);
	auto form = static_cast<ggas_form>(args.form);
	constexpr auto order = ggas_order::relaxed;
	any_op op = { args.op };
	switch (args.method) {
	case SELFTEST_ALLREDUCE:
		return ggas_allreduce(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_ONE_SHOT:
		return ggas_allreduce_by<ggas_way::one_shot>(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_TWO_SHOT:
		return ggas_allreduce_by<ggas_way::two_shot>(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_WINDOW:
		return ggas_allreduce_window(g, reinterpret_cast<const ggas_window *>(args.window), args.input, args.out,
					     in, args.count, op);
	case SELFTEST_REDUCE:
		return ggas_reduce(g, form, order, args.root, in, out, args.count, op);
	case SELFTEST_REDUCE_SCATTER:
		return ggas_reduce_scatter(g, form, order, in, out, args.count, op);
	case SELFTEST_BROADCAST:
		return ggas_broadcast(g, form, order, args.root, out, args.count);
	case SELFTEST_ALL_GATHER:
		return ggas_all_gather(g, form, order, in, out, args.count);
	case SELFTEST_ALL_TO_ALL:
		return ggas_all_to_all(g, form, order, in, out, args.count);
	default:
		return GGAS_ERR_ARGUMENT;
	}
}

/* The five ways of thesis 6.8. */
template <class T> GGAS_FN int staged(const selftest_coll &args, ggas_group *g)
{
	const T *in = reinterpret_cast<const T *>(args.input);
	T *out = reinterpret_cast<T *>(args.out);
	auto form = static_cast<ggas_form>(args.form);
	constexpr auto order = ggas_order::relaxed;
	any_op op = { args.op };
	switch (args.method) {
	case SELFTEST_ALLREDUCE_READ:
		return ggas_allreduce_by<ggas_way::remote_read>(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_GATHER:
		return ggas_allreduce_by<ggas_way::gather>(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_ALL_GATHER:
		return ggas_allreduce_by<ggas_way::all_gather>(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_TREE:
		return ggas_allreduce_by<ggas_way::tree>(g, form, order, in, out, args.count, op);
	case SELFTEST_ALLREDUCE_ALL_TO_ALL:
		return ggas_allreduce_by<ggas_way::all_to_all>(g, form, order, in, out, args.count, op);
	case SELFTEST_REDUCE_READ:
		return ggas_reduce_by<ggas_way::remote_read>(g, form, order, args.root, in, out, args.count, op);
	case SELFTEST_REDUCE_GATHER:
		return ggas_reduce_by<ggas_way::gather>(g, form, order, args.root, in, out, args.count, op);
	case SELFTEST_REDUCE_TREE:
		return ggas_reduce_by<ggas_way::tree>(g, form, order, args.root, in, out, args.count, op);
	case SELFTEST_REDUCE_ALL_TO_ALL:
		return ggas_reduce_by<ggas_way::all_to_all>(g, form, order, args.root, in, out, args.count, op);
	default:
		return GGAS_ERR_ARGUMENT;
	}
}

template <class T> GGAS_FN int rounds(const selftest_coll &args)
{
	ggas_group *group = reinterpret_cast<ggas_group *>(args.group);
	bool by_staging = (args.method >= SELFTEST_ALLREDUCE_READ && args.method <= SELFTEST_ALLREDUCE_ALL_TO_ALL) ||
			  (args.method >= SELFTEST_REDUCE_READ && args.method <= SELFTEST_REDUCE_ALL_TO_ALL);
	for (uint32_t round = 0; round < args.rounds; round++)
		if (int error = by_staging ? staged<T>(args, group) : packed<T>(args, group))
			return error;
	return GGAS_OK;
}

/* GPUs check the allreduce by packets of each type; the rest takes minutes to compile and runs on
 * the executor, and in the benchmarks on GPUs. */
template <class T> GGAS_FN int typed(const selftest_coll &args)
{
#ifdef GGAS_EXECUTOR
	return rounds<T>(args);
#else
	if (args.method != SELFTEST_ALLREDUCE)
		return GGAS_ERR_ARGUMENT;
	for (uint32_t round = 0; round < args.rounds; round++)
		if (int error = ggas_allreduce(reinterpret_cast<ggas_group *>(args.group), ggas_form::grid,
					       ggas_order::relaxed, reinterpret_cast<const T *>(args.input),
					       reinterpret_cast<T *>(args.out), args.count, any_op{ args.op }))
			return error;
	return GGAS_OK;
#endif
}

GGAS_FN void tell(const selftest_coll &args, int error)
{
	if (error)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}

} // namespace coll_checks

#endif /* GGAS_SELFTEST_COLL_CUH */
