/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Who takes part in a collective over packets, and with which part; included by coll.cuh. */
#ifndef GGAS_IMPL_COLL_FORMS_H
#define GGAS_IMPL_COLL_FORMS_H

namespace ggas_impl
{

/* Blocks of each node meet, then nodes, then blocks. */
GGAS_FN int meet_grids(ggas_group *g, ggas_order order, uint32_t line)
{
	grid_team team(g);
	if (int error = team.meet(poisoned_before(g), line))
		return error;
	int status = ggas_block() == 0 ? meet_nodes(g, order, line) : GGAS_OK;
	return team.meet_synced(status, line);
}

/* This block's part of the work, body(channel, packets), which begins on the channel, and what `order` asks for besides. */
template <class Body>
GGAS_FN int in_blocks(ggas_group *g, channel &c, ggas_order order, range mine, uint32_t line, const Body &body)
{
	int status = mine.size() ? body(c, mine) : GGAS_OK;
	if (status || order == ggas_order::relaxed || ggas_block() >= GGAS_CHANNELS)
		return status;
	return meet_nodes(g, order, line);
}

template <class Body>
GGAS_FN int in_form(ggas_group *g, ggas_form form, ggas_order order, uint64_t packets, uint32_t line, const Body &body)
{
	bool grids = form == ggas_form::shared || form == ggas_form::grid;
	grid_team team(g, grids);
	channel c(g, line);
	if (form == ggas_form::block)
		return ggas_block() < c.packed_channels() ? in_blocks(g, c, order, range{ 0, packets }, line, body) :
							    static_cast<int>(GGAS_ERR_ARGUMENT);
	range mine = own_packets(c.packed_channels(), packets);
	if (form == ggas_form::owned)
		return in_blocks(g, c, order, mine, line, body);
	if (form == ggas_form::grid)
		if (int error = team.meet(poisoned_before(g), line))
			return error;
	int status = in_blocks(g, c, ggas_order::relaxed, mine, line, body);
	/* Threads of a block that has a part have met since they looked where the count stands. */
	status = mine.size() ? team.meet_synced(status, line) : team.meet(status, line);
	return status || order == ggas_order::relaxed ? status : meet_grids(g, order, line);
}

template <class T> GGAS_FN range owned_elements(const ggas_group *g, uint64_t count)
{
	constexpr uint64_t per_packet = vector<T>::per_packet;
	range packets = own_packets(g->packed_channels, (count + per_packet - 1) / per_packet);
	return { smaller(packets.begin * per_packet, count), smaller(packets.end * per_packet, count) };
}

template <class T, class Op>
GGAS_FN int allreduce(ggas_group *g, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
		      const Op &op, uint64_t one_shot_bytes, uint32_t line)
{
	return in_form(g, form, order, vector<T>(out, count).packets(), line, [&](channel &c, range mine) {
		uint64_t least = c.nodes() * c.nodes();
		bool two = count * sizeof(T) > one_shot_bytes && c.nodes() > 2 && mine.size() >= least &&
			   c.capacity() >= 2 * c.nodes();
		return two ? allreduce_two_shot(c, in, out, count, mine, op) :
			     allreduce_one_shot(c, in, out, count, mine, op);
	});
}

template <class T, class Op>
GGAS_FN int reduce(ggas_group *g, ggas_form form, ggas_order order, uint32_t root, const T *in, T *out, uint64_t count,
		   const Op &op, uint32_t line)
{
	if (root >= g->nodes)
		return GGAS_ERR_ARGUMENT;
	vector<const T> from(in, count);
	vector<T> to(out, count);
	return in_form(g, form, order, from.packets(), line, [&](channel &c, range mine) {
		return send_to(
			c, root, mine, [&](uint64_t packet) { return from.load(packet); },
			[&](uint64_t packet, uint64_t index) {
				to.store(packet, reduce_packet<T>(c, index, from.load(packet), op));
			});
	});
}

template <class T, class Op>
GGAS_FN int reduce_scatter(ggas_group *g, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
			   const Op &op, uint32_t line)
{
	vector<T> to(out, count);
	return in_form(g, form, order, to.packets(), line, [&](channel &c, range mine) {
		partial<T, Op> sum;
		return exchange_packets(
			c, mine,
			[&](uint32_t node, uint64_t packet) {
				return vector<const T>(in + node * count, count).load(packet);
			},
			[&](uint32_t node, uint64_t packet, uint64_t data) {
				if (node == 0)
					sum.first(data);
				else
					sum.add(data, op);
				if (node == c.nodes() - 1)
					to.store(packet, sum.data());
			});
	});
}

template <class T>
GGAS_FN int broadcast(ggas_group *g, ggas_form form, ggas_order order, uint32_t root, T *data, uint64_t count,
		      uint32_t line)
{
	if (root >= g->nodes)
		return GGAS_ERR_ARGUMENT;
	vector<T> all(data, count);
	return in_form(g, form, order, all.packets(), line, [&](channel &c, range mine) {
		return send_from(
			c, root, mine, [&](uint64_t packet) { return all.load(packet); },
			[&](uint64_t packet, uint64_t value) {
				if (c.node() != root)
					all.store(packet, value);
			});
	});
}

template <class T>
GGAS_FN int all_gather(ggas_group *g, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
		       uint32_t line)
{
	vector<const T> from(in, count);
	return in_form(g, form, order, from.packets(), line, [&](channel &c, range mine) {
		return exchange_packets(
			c, mine, [&](uint32_t, uint64_t packet) { return from.load(packet); },
			[&](uint32_t node, uint64_t packet, uint64_t data) {
				vector<T>(out + node * count, count).store(packet, data);
			});
	});
}

template <class T>
GGAS_FN int all_to_all(ggas_group *g, ggas_form form, ggas_order order, const T *in, T *out, uint64_t count,
		       uint32_t line)
{
	return in_form(g, form, order, vector<const T>(in, count).packets(), line, [&](channel &c, range mine) {
		return exchange_packets(
			c, mine,
			[&](uint32_t node, uint64_t packet) {
				return vector<const T>(in + node * count, count).load(packet);
			},
			[&](uint32_t node, uint64_t packet, uint64_t data) {
				vector<T>(out + node * count, count).store(packet, data);
			});
	});
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_FORMS_H */
