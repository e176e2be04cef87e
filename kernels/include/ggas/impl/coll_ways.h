/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The five ways of thesis 6.8 to reduce and allreduce; included by coll.cuh. */
#ifndef GGAS_IMPL_COLL_WAYS_H
#define GGAS_IMPL_COLL_WAYS_H

namespace ggas_impl
{

/* A step's error is the same in all threads of the team. */
#define GGAS_TRY(step)                                                                                                 \
	do {                                                                                                           \
		if (int ggas_error = (step))                                                                           \
			return ggas_error;                                                                             \
	} while (0)

/* A vector on its way: the part that one exchange handles. */
template <class T, class Op> struct reduction {
	uint32_t self, nodes, root;
	bool everywhere;	/* allreduce */
	const T *in;
	T *out;
	uint64_t size;
	Op op;
};

/* Everyone shows its data; who wants results reads them (6.8.1). */
template <class T, class Op, class Round> GGAS_FN int by_remote_read(Round &round, const reduction<T, Op> &r)
{
	/* Who read the data of two exchanges ago has begun the one after it. */
	GGAS_TRY(round.may_write());
	round.copy(round.template staged<T>(r.self, r.self), r.in, r.size);
	GGAS_TRY(round.arrived());
	if (!r.everywhere && r.self != r.root)
		return GGAS_OK;
	GGAS_TRY(round.wait_arrivals());
	round.reduce(r.out, r.size, r.op, [&](uint32_t node, uint64_t i) {
		return ggas_read(round.template staged<const T>(node, node) + i);
	});
	return GGAS_OK;
}

/* The root gathers, reduces, and casts the result (6.8.2). */
template <class T, class Op, class Round> GGAS_FN int by_gather(Round &round, const reduction<T, Op> &r)
{
	if (r.self != r.root) {
		GGAS_TRY(round.may_write(r.root));
		round.copy(round.template staged<T>(r.root, r.self), r.in, r.size);
	}
	GGAS_TRY(round.arrived());
	if (r.self == r.root) {
		GGAS_TRY(round.wait_arrivals());
		round.reduce(r.out, r.size, r.op, [&](uint32_t node, uint64_t i) {
			return (node == r.self ? r.in : round.template staged<const T>(r.self, node))[i];
		});
	}
	if (!r.everywhere)
		return GGAS_OK;
	if (r.self != r.root) {
		GGAS_TRY(round.wait_results(r.root));
		round.copy(r.out, round.template results<T>(r.self, r.root), r.size);
		return GGAS_OK;
	}
	GGAS_TRY(round.meet());
	for (uint32_t node = 0; node < r.nodes; node++)
		if (node != r.self)
			round.copy(round.template results<T>(node, r.self), r.out, r.size);
	return round.results_sent();
}

/* Everyone sends everything to all and reduces for itself: one synchronisation (6.8.2). */
template <class T, class Op, class Round> GGAS_FN int by_all_gather(Round &round, const reduction<T, Op> &r)
{
	GGAS_TRY(round.may_write());
	for (uint32_t step = 1; step < r.nodes; step++)
		round.copy(round.template staged<T>((r.self + step) % r.nodes, r.self), r.in, r.size);
	GGAS_TRY(round.arrived());
	GGAS_TRY(round.wait_arrivals());
	round.reduce(r.out, r.size, r.op, [&](uint32_t node, uint64_t i) {
		return (node == r.self ? r.in : round.template staged<const T>(r.self, node))[i];
	});
	return GGAS_OK;
}

/* Partial results go up a binomial tree, the result comes down it (6.8.3, figure 6.15). */
template <class T, class Op, class Round> GGAS_FN int by_tree(Round &round, const reduction<T, Op> &r)
{
	uint32_t place = (r.self + r.nodes - r.root) % r.nodes;	/* the root has place 0 */
	auto at = [&](uint32_t other) { return (other + r.root) % r.nodes; };
	T *sums = round.template results<T>(r.self, r.self);
	round.copy(sums, r.in, r.size);
	GGAS_TRY(round.meet());
	uint32_t bit = 1;
	for (; bit < r.nodes && !(place & bit); bit <<= 1) {
		if (place + bit >= r.nodes)
			continue;
		GGAS_TRY(round.wait_arrivals(at(place + bit)));
		round.add(sums, round.template staged<const T>(r.self, at(place + bit)), r.size, r.op);
		GGAS_TRY(round.meet());
	}
	uint32_t parent = at(place - (place ? bit : 0));
	if (place) {
		GGAS_TRY(round.may_write(parent));
		round.copy(round.template staged<T>(parent, r.self), sums, r.size);
	}
	GGAS_TRY(round.arrived());
	if (!place)
		round.copy(r.out, sums, r.size);
	if (!r.everywhere)
		return GGAS_OK;
	if (place) {
		sums = round.template results<T>(r.self, parent);
		GGAS_TRY(round.wait_results(parent));
		round.copy(r.out, sums, r.size);
	}
	for (bit >>= 1; bit; bit >>= 1)
		if (place + bit < r.nodes)
			round.copy(round.template results<T>(at(place + bit), r.self), sums, r.size);
	return round.results_sent();
}

/* Each node reduces a part that all send it, and sends the result on (6.8.3). */
template <class T, class Op, class Round> GGAS_FN int by_all_to_all(Round &round, const reduction<T, Op> &r)
{
	auto part = [&](uint32_t node) { return part_of(r.size, r.nodes, node, 1); };
	range own = part(r.self);
	GGAS_TRY(round.may_write());
	for (uint32_t step = 1; step < r.nodes; step++) {
		uint32_t to = (r.self + step) % r.nodes;
		round.copy(round.template staged<T>(to, r.self), r.in + part(to).begin, part(to).size());
	}
	GGAS_TRY(round.arrived());
	GGAS_TRY(round.wait_arrivals());
	/* All nodes have arrived here, so their results of the exchange before were read. */
	T *reduced = round.template results<T>(r.self, r.self);
	round.reduce(reduced, own.size(), r.op, [&](uint32_t node, uint64_t i) {
		return (node == r.self ? r.in + own.begin : round.template staged<const T>(r.self, node))[i];
	});
	GGAS_TRY(round.meet());
	for (uint32_t step = 1; step < r.nodes; step++) {
		uint32_t to = (r.self + step) % r.nodes;
		if (r.everywhere || to == r.root)
			round.copy(round.template results<T>(to, r.self), reduced, own.size());
	}
	GGAS_TRY(round.results_sent());
	if (!r.everywhere && r.self != r.root)
		return GGAS_OK;
	GGAS_TRY(round.wait_results());
	for (uint32_t node = 0; node < r.nodes; node++)
		round.copy(r.out + part(node).begin, round.template results<const T>(r.self, node), part(node).size());
	return GGAS_OK;
}

template <ggas_way Way, class Team, class T, class Op>
GGAS_FN int by_way(Team team, ggas_group *g, ggas_order order, uint32_t root, bool everywhere, const T *in, T *out,
		   uint64_t count, const Op &op, uint32_t line)
{
	/* Loaded with the group's other words, so that nothing waits for it alone. */
	bool traced = is_traced(g);
	if (root >= g->nodes)
		return GGAS_ERR_ARGUMENT;
	uint32_t parts = Way == ggas_way::all_to_all ? g->nodes : 1;
	if (GGAS_RARE(traced) && team.thread() == 0)
		trace_way(g, Way, root, everywhere, count, sizeof(T));
	return staged<T>(team, g, order, count, parts, line, [&](auto &round, uint64_t first, uint64_t size) -> int {
		reduction<T, Op> r = { g->node, g->nodes, root, everywhere, in + first, out + first, size, op };
		if constexpr (Way == ggas_way::remote_read)
			return by_remote_read(round, r);
		else if constexpr (Way == ggas_way::gather)
			return by_gather(round, r);
		else if constexpr (Way == ggas_way::all_gather)
			return by_all_gather(round, r);
		else if constexpr (Way == ggas_way::tree)
			return by_tree(round, r);
		else
			return by_all_to_all(round, r);
	});
}

#undef GGAS_TRY

/* Forms `block` and `grid` of the staged ways. */
template <ggas_way Way, class T, class Op>
GGAS_FN int by_staged_way(ggas_group *g, ggas_form form, ggas_order order, uint32_t root, bool everywhere, const T *in,
			  T *out, uint64_t count, const Op &op, uint32_t line)
{
	switch (form) {
	case ggas_form::block:
		return by_way<Way>(block_team(), g, order, root, everywhere, in, out, count, op, line);
	case ggas_form::grid:
		return by_way<Way>(grid_team(g), g, order, root, everywhere, in, out, count, op, line);
	default:
		return GGAS_ERR_ARGUMENT;
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_WAYS_H */
