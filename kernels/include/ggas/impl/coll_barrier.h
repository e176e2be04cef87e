/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The barrier through a master (thesis 6.7); included by coll.cuh. */
#ifndef GGAS_IMPL_COLL_BARRIER_H
#define GGAS_IMPL_COLL_BARRIER_H

namespace ggas_impl
{

/* First meeting of every collective: from here on nobody of the team is in an
 * earlier one, so epochs may be read. */
template <class Team> GGAS_FN int enter(Team &team, ggas_group *g, uint32_t line)
{
	return team.meet(poisoned_before(g), line);
}

template <class Team> GGAS_FN int barrier_master(Team &team, ggas_group *g, ggas_order order, uint32_t line)
{
	uint64_t marks = ggas_load_near(&g->poisoned);
	if (int error = team.meet(marks & GGAS_GROUP_POISONED ? GGAS_ERR_POISONED : GGAS_OK, line))
		return error;
	if (releases(order) && g->posted) {
		perform_stores(g, team.thread(), team.threads());
		if (int error = team.meet(GGAS_OK, line))
			return error;
	}
	if (GGAS_RARE(marks & GGAS_GROUP_TRACED) && team.thread() == 0)
		trace_master(g);
	uint64_t epoch = g->barrier_epoch + 1;
	int status = GGAS_OK;
	if (g->node == g->master) {
		for (uint32_t node = team.thread(); node < g->nodes; node += team.threads())
			if (node != g->node && status == GGAS_OK)
				status = wait_flag(g, check_in_flag(g, g->node, node), epoch, order, GGAS_WAIT_BARRIER,
						   node, line);
	} else if (team.thread() == 0) {
		set_flag(check_in_flag(g, g->master, g->node), epoch, order);
		status = wait_flag(g, check_out_flag(g, g->node), epoch, order, GGAS_WAIT_BARRIER, g->master, line);
	}
	if (int error = team.meet(status, line))
		return error;
	if (g->node == g->master)
		for (uint32_t node = team.thread(); node < g->nodes; node += team.threads())
			if (node != g->node)
				set_flag(check_out_flag(g, node), epoch, order);
	if (team.thread() == 0)
		g->barrier_epoch = epoch;
	return GGAS_OK;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_BARRIER_H */
