/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Exchanges of data through staging buffers, with flags behind them; included by
 * coll.cuh.
 *
 * Every exchange has an epoch. In it each node
 *   1. waits, before it writes to a node's staging, for that node's arrival flag
 *      of the epoch before: staging has two halves by turns, and a node
 *      that arrived at e - 1 has read all data of e - 2, which this overwrites;
 *   2. writes data, then sets its own arrival flag on all nodes, with release;
 *   3. waits for the arrival flags it needs, with acquire, and reads its staging.
 * Longer vectors than the staging holds take several exchanges.
 */
#ifndef GGAS_IMPL_COLL_STAGED_H
#define GGAS_IMPL_COLL_STAGED_H

namespace ggas_impl
{

constexpr uint32_t every_node = ~0u;

/* The waits and flags of an exchange are spread over the team's threads. */
template <class Team> class exchange {
public:
	GGAS_FN exchange(Team &team, ggas_group *g, uint32_t line)
		: team_(team), g_(g), epoch_(g->data_epoch + 1), line_(line)
	{
	}

	/* Step 1, for all nodes, or for `only`. */
	GGAS_FN int may_write(uint32_t only = every_node) { return wait(arrival, epoch_ - 1, only); }
	/* Step 2: everything the team wrote before is on its nodes once the flag is. */
	GGAS_FN int arrived() { return set(arrival, every_node); }
	/* Step 3. */
	GGAS_FN int wait_arrivals(uint32_t only = every_node) { return wait(arrival, epoch_, only); }
	/* A second half, by the result flags: each is set once, on all nodes or on one. */
	GGAS_FN int results_sent(uint32_t only = every_node) { return set(result, only); }
	GGAS_FN int wait_results(uint32_t only = every_node) { return wait(result, epoch_, only); }

	/* Where node `of` puts its data on node `at`, and its results. */
	template <class T> GGAS_FN T *staged(uint32_t at, uint32_t of) const
	{
		return reinterpret_cast<T *>(staging_slot(g_, at, epoch_, of));
	}
	template <class T> GGAS_FN T *results(uint32_t at, uint32_t of) const
	{
		return reinterpret_cast<T *>(result_slot(g_, at, of));
	}
	GGAS_FN int meet() { return team_.meet(GGAS_OK, line_); }

	/* The team copies `count` elements. */
	template <class T> GGAS_FN void copy(T *to, const T *from, uint64_t count) const
	{
		copy_share(to, from, count * sizeof(T), team_.thread(), team_.threads());
	}
	/* out[i] = op over ranks of source(node, i). */
	template <class T, class Op, class Source>
	GGAS_FN void reduce(T *out, uint64_t count, const Op &op, const Source &source) const
	{
		for (uint64_t i = team_.thread(); i < count; i += team_.threads()) {
			auto value = ggas_widen(source(0, i));
			for (uint32_t node = 1; node < g_->nodes; node++)
				value = op(value, ggas_widen(source(node, i)));
			out[i] = ggas_narrow<T>(value);
		}
	}
	/* sums[i] = op(sums[i], more[i]). */
	template <class T, class Op> GGAS_FN void add(T *sums, const T *more, uint64_t count, const Op &op) const
	{
		for (uint64_t i = team_.thread(); i < count; i += team_.threads())
			sums[i] = ggas_narrow<T>(op(ggas_widen(sums[i]), ggas_widen(more[i])));
	}

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
	GGAS_FN int wait(which w, uint64_t epoch, uint32_t only)
	{
		int status = GGAS_OK;
		for (uint32_t node = team_.thread(); node < g_->nodes; node += team_.threads())
			if (node != g_->node && (only == every_node || node == only) && status == GGAS_OK)
				status = wait_flag(g_, flag_of(w, g_->node, node), epoch, ggas_order::acquire,
						   GGAS_WAIT_COLLECTIVE, node, line_);
		return team_.meet(status, line_);
	}
	GGAS_FN int set(which w, uint32_t only)
	{
		if (int error = team_.meet(GGAS_OK, line_))
			return error;
		for (uint32_t node = team_.thread(); node < g_->nodes; node += team_.threads())
			if (node != g_->node && (only == every_node || node == only))
				ggas_store_release(flag_of(w, node, g_->node), epoch_);
		return GGAS_OK;
	}

	Team &team_;
	ggas_group *g_;
	uint64_t epoch_;
	uint32_t line_;
};

/* body(exchange, first, size) for every part of a vector of `count` that fits into `slots` of them; then what `order`
 * asks for, since an exchange says nothing of other memory for sure. */
template <class T, class Team, class Body>
GGAS_FN int staged(Team &team, ggas_group *g, ggas_order order, uint64_t count, uint32_t slots, uint32_t line,
		   const Body &body)
{
	if (int error = enter(team, g, line))
		return error;
	exchange<Team> round(team, g, line);
	uint64_t most = g->slot_bytes / sizeof(T) * slots;
	for (uint64_t first = 0; first < count; first += most) {
		if (int error = body(round, first, smaller(count - first, most)))
			return error;
		if (int error = round.done())
			return error;
	}
	return order == ggas_order::relaxed ? GGAS_OK : barrier_master(team, g, order, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_STAGED_H */
