/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reduce and allreduce (thesis 6.8); included by coll.cuh.
 *
 * Every exchange of data has an epoch. In it each node
 *   1. waits, before it writes to a node's staging, for that node's arrival flag
 *      of the epoch before: staging has two halves by turns, and a node
 *      that arrived at e - 1 has read all data of e - 2, which this overwrites;
 *   2. writes data, then sets its own arrival flag on all nodes, with release;
 *   3. waits for the arrival flags it needs, with acquire, and reads its staging.
 * Longer vectors than the staging holds take several exchanges.
 */
#ifndef GGAS_IMPL_COLL_REDUCE_H
#define GGAS_IMPL_COLL_REDUCE_H

namespace ggas_impl
{

GGAS_FN uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The waits and flags of an exchange are spread over the team's threads. */
template <class Team> class exchange {
public:
	GGAS_FN exchange(const Team &team, ggas_group *g, uint32_t line)
		: team_(team), g_(g), epoch_(g->data_epoch + 1), line_(line)
	{
	}
	GGAS_FN uint64_t epoch() const { return epoch_; }

	/* Step 1, for all nodes, or for `only`. */
	GGAS_FN int may_write(uint32_t only = ~0u) { return wait_all(arrival, epoch_ - 1, only); }
	/* Step 2: everything the team wrote before is on its nodes once the flag is. */
	GGAS_FN int arrived() { return set_all(arrival); }
	/* Step 3, for all nodes. */
	GGAS_FN int wait_arrivals() { return wait_all(arrival, epoch_, ~0u); }
	/* The second half of an all-to-all. */
	GGAS_FN int results_sent() { return set_all(result); }
	GGAS_FN int wait_results() { return wait_all(result, epoch_, ~0u); }

	/* Every thread of the team is through with the exchange's data. */
	GGAS_FN int done()
	{
		if (int error = team_.meet(GGAS_OK, line_))
			return error;
		if (team_.thread() == 0)
			g_->data_epoch = epoch_;
		epoch_++;
		return GGAS_OK;
	}

private:
	enum which { arrival, result };

	GGAS_FN uint64_t *flag_of(which w, uint32_t at, uint32_t of) const
	{
		return w == arrival ? arrival_flag(g_, at, of) : result_flag(g_, at, of);
	}
	GGAS_FN int wait_all(which w, uint64_t epoch, uint32_t only)
	{
		int status = GGAS_OK;
		for (uint32_t node = team_.thread(); node < g_->nodes; node += team_.threads())
			if (node != g_->node && (only == ~0u || node == only) && status == GGAS_OK)
				status = wait_flag(g_, flag_of(w, g_->node, node), epoch, ggas_order::acquire,
						   GGAS_WAIT_COLLECTIVE, node, line_);
		return team_.meet(status, line_);
	}
	GGAS_FN int set_all(which w)
	{
		if (int error = team_.meet(GGAS_OK, line_))
			return error;
		for (uint32_t node = team_.thread(); node < g_->nodes; node += team_.threads())
			if (node != g_->node)
				ggas_store_release(flag_of(w, node, g_->node), epoch_);
		return GGAS_OK;
	}

	const Team &team_;
	ggas_group *g_;
	uint64_t epoch_;
	uint32_t line_;
};

/* The team copies `count` elements. */
template <class T, class Team> GGAS_FN void copy(const Team &team, uint64_t to, const T *from, uint64_t count)
{
	copy_share(reinterpret_cast<void *>(to), from, count * sizeof(T), team.thread(), team.threads());
}

/* out[i] = op over ranks of their staged element i; this node's own comes from `in`. */
template <class T, class Op, class Team>
GGAS_FN void reduce_staged(const Team &team, const ggas_group *g, uint64_t epoch, const T *in, T *out, uint64_t count,
			   Op op)
{
	for (uint64_t i = team.thread(); i < count; i += team.threads()) {
		T value{};
		for (uint32_t node = 0; node < g->nodes; node++) {
			const T *from = node == g->node ?
						in :
						reinterpret_cast<const T *>(staging_slot(g, g->node, epoch, node));
			value = node == 0 ? from[i] : op(value, from[i]);
		}
		out[i] = value;
	}
}

/* The exchange of data orders everything already, except where nodes did not
 * wait for all others: on a reduce, and with nothing to exchange. */
template <class Team>
GGAS_FN int finish(const Team &team, ggas_group *g, ggas_order order, bool met, uint32_t line)
{
	return !met && order != ggas_order::relaxed ? barrier(team, g, order, line) : GGAS_OK;
}

template <class T, class Op, class Team>
GGAS_FN int reduce_gather(const Team &team, ggas_group *g, ggas_order order, uint32_t root, const T *in, T *out,
			  uint64_t count, Op op, uint32_t line)
{
	if (root >= g->nodes)
		return GGAS_ERR_ARGUMENT;
	if (int error = enter(team, g, line))
		return error;
	exchange<Team> round(team, g, line);
	uint64_t most = g->slot_bytes / sizeof(T);
	for (uint64_t first = 0; first < count; first += most) {
		uint64_t part = smaller(count - first, most);
		int error;
		if (g->node != root) {
			if ((error = round.may_write(root)))
				return error;
			copy(team, staging_slot(g, root, round.epoch(), g->node), in + first, part);
		}
		if ((error = round.arrived()))
			return error;
		if (g->node == root) {
			if ((error = round.wait_arrivals()))
				return error;
			reduce_staged(team, g, round.epoch(), in + first, out + first, part, op);
		}
		if ((error = round.done()))
			return error;
	}
	return finish(team, g, order, false, line);
}

template <class T, class Op, class Team>
GGAS_FN int allreduce_all_gather(const Team &team, ggas_group *g, ggas_order order, const T *in, T *out, uint64_t count,
				 Op op, uint32_t line)
{
	if (int error = enter(team, g, line))
		return error;
	exchange<Team> round(team, g, line);
	uint64_t most = g->slot_bytes / sizeof(T);
	for (uint64_t first = 0; first < count; first += most) {
		uint64_t part = smaller(count - first, most);
		int error;
		if ((error = round.may_write()))
			return error;
		for (uint32_t step = 1; step < g->nodes; step++)
			copy(team, staging_slot(g, (g->node + step) % g->nodes, round.epoch(), g->node), in + first,
			     part);
		if ((error = round.arrived()) || (error = round.wait_arrivals()))
			return error;
		reduce_staged(team, g, round.epoch(), in + first, out + first, part, op);
		if ((error = round.done()))
			return error;
	}
	return finish(team, g, order, count != 0, line);
}

/* Elements [begin, begin + size) of a vector of `count` that node `node` reduces. */
GGAS_FN uint64_t share_begin(uint64_t count, uint32_t nodes, uint32_t node)
{
	return smaller((count + nodes - 1) / nodes * node, count);
}
GGAS_FN uint64_t share_size(uint64_t count, uint32_t nodes, uint32_t node)
{
	return share_begin(count, nodes, node + 1) - share_begin(count, nodes, node);
}

template <class T, class Op, class Team>
GGAS_FN int allreduce_all_to_all(const Team &team, ggas_group *g, ggas_order order, const T *in, T *out, uint64_t count,
				 Op op, uint32_t line)
{
	if (int error = enter(team, g, line))
		return error;
	exchange<Team> round(team, g, line);
	uint32_t nodes = g->nodes, self = g->node;
	uint64_t most = g->slot_bytes / sizeof(T) * nodes;
	for (uint64_t first = 0; first < count; first += most) {
		uint64_t part = smaller(count - first, most);
		uint64_t own = share_begin(part, nodes, self), own_size = share_size(part, nodes, self);
		int error;
		if ((error = round.may_write()))
			return error;
		for (uint32_t step = 1; step < nodes; step++) {
			uint32_t to = (self + step) % nodes;
			copy(team, staging_slot(g, to, round.epoch(), self), in + first + share_begin(part, nodes, to),
			     share_size(part, nodes, to));
		}
		if ((error = round.arrived()) || (error = round.wait_arrivals()))
			return error;
		/* All nodes have arrived here, so their results of the exchange before were read. */
		T *reduced = reinterpret_cast<T *>(result_slot(g, self, self));
		reduce_staged(team, g, round.epoch(), in + first + own, reduced, own_size, op);
		if ((error = team.meet(GGAS_OK, line)))
			return error;
		for (uint32_t step = 1; step < nodes; step++)
			copy(team, result_slot(g, (self + step) % nodes, self), reduced, own_size);
		if ((error = round.results_sent()) || (error = round.wait_results()))
			return error;
		for (uint32_t node = 0; node < nodes; node++)
			copy(team, reinterpret_cast<uint64_t>(out + first + share_begin(part, nodes, node)),
			     reinterpret_cast<const T *>(result_slot(g, self, node)), share_size(part, nodes, node));
		if ((error = round.done()))
			return error;
	}
	return finish(team, g, order, count != 0, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_REDUCE_H */
