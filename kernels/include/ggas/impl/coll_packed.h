/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Collectives over packets (coll_channel.h); included by coll.cuh. A block works
 * on its part of the vectors with the blocks of the same number on the other
 * nodes. Vectors longer than the slots hold take several exchanges.
 */
#ifndef GGAS_IMPL_COLL_PACKED_H
#define GGAS_IMPL_COLL_PACKED_H

#include "coll_channel.h"
#include "coll_types.h"

namespace ggas_impl
{

/* Elements of type T as packets' data: 8 bytes each, the last one with what is left. */
template <class T> class vector {
public:
	static_assert(sizeof(T) <= 8 && 8 % sizeof(T) == 0, "elements have 1, 2, 4 or 8 bytes");
	static constexpr uint32_t per_packet = 8 / sizeof(T);

	GGAS_FN vector(T *values, uint64_t count)
		: values_(values), count_(count), aligned_(reinterpret_cast<uint64_t>(values) % 8 == 0)
	{
	}
	GGAS_FN uint64_t packets() const { return (count_ + per_packet - 1) / per_packet; }
	GGAS_FN uint64_t load(uint64_t packet) const
	{
		if (aligned_ && (packet + 1) * per_packet <= count_)
			return reinterpret_cast<const uint64_t *>(values_)[packet];
		uint64_t data = 0;
		for (uint32_t i = 0; i < per_packet && packet * per_packet + i < count_; i++) {
			uint64_t bits = 0;
			memcpy(&bits, &values_[packet * per_packet + i], sizeof(T));
			data |= bits << (i * 8 * sizeof(T) % 64);
		}
		return data;
	}
	GGAS_FN void store(uint64_t packet, uint64_t data) const
	{
		if (aligned_ && (packet + 1) * per_packet <= count_) {
			reinterpret_cast<uint64_t *>(values_)[packet] = data;
			return;
		}
		for (uint32_t i = 0; i < per_packet && packet * per_packet + i < count_; i++) {
			uint64_t bits = data >> (i * 8 * sizeof(T) % 64);
			memcpy(&values_[packet * per_packet + i], &bits, sizeof(T));
		}
	}

private:
	T *values_;
	uint64_t count_;
	bool aligned_;
};

/* The elements of a packet while they are reduced. */
template <class T, class Op> class partial {
public:
	GGAS_FN void first(uint64_t data) { unpack(data, values_); }
	GGAS_FN void add(uint64_t data, const Op &op)
	{
		wide values[per_packet];
		unpack(data, values);
		for (uint32_t i = 0; i < per_packet; i++)
			values_[i] = op(values_[i], values[i]);
	}
	GGAS_FN uint64_t data() const
	{
		uint64_t data = 0;
		for (uint32_t i = 0; i < per_packet; i++) {
			T narrow = ggas_narrow<T>(values_[i]);
			uint64_t bits = 0;
			memcpy(&bits, &narrow, sizeof(T));
			data |= bits << (i * 8 * sizeof(T) % 64);
		}
		return data;
	}

private:
	using wide = typename ggas_wide<T>::type;
	static constexpr uint32_t per_packet = 8 / sizeof(T);

	GGAS_FN static void unpack(uint64_t data, wide (&values)[per_packet])
	{
		for (uint32_t i = 0; i < per_packet; i++) {
			T narrow;
			uint64_t bits = data >> (i * 8 * sizeof(T) % 64);
			memcpy(&narrow, &bits, sizeof(T));
			values[i] = ggas_widen(narrow);
		}
	}

	wide values_[per_packet];
};

/* Calls take(node, data) for all nodes in the order of ranks; `own` is this
 * node's. The packets of several nodes are looked for at once, again and again:
 * one after the other, each would take another trip to the memory. */
template <class Take> GGAS_FN void receive(channel &c, uint64_t index, uint64_t own, const Take &take)
{
	if (c.nodes() == 2) {
		ggas_u128 packet = c.peek(1 - c.node(), index);
		if (!c.is_here(packet))
			c.await(1 - c.node(), index, packet);
		take(0, c.node() == 0 ? own : packet.lo);
		take(1, c.node() == 0 ? packet.lo : own);
		return;
	}
	constexpr uint32_t at_once = 3;
	uint32_t others = c.nodes() - 1;
	/* The others in the order of ranks; behind the last one, that one again. */
	auto other = [&](uint32_t i) {
		uint32_t rank = i < others ? i : others - 1;
		return rank < c.node() ? rank : rank + 1;
	};
	for (uint32_t first = 0; first < others; first += at_once) {
		ggas_u128 packets[at_once];
		bool here = false;
		GGAS_NO_UNROLL
		for (uint32_t look = 0; look < quick_polls && !here; look++) {
			here = true;
			GGAS_UNROLL
			for (uint32_t i = 0; i < at_once; i++)
				packets[i] = c.peek(other(first + i), index);
			GGAS_UNROLL
			for (uint32_t i = 0; i < at_once; i++)
				here &= c.is_here(packets[i]);
		}
		GGAS_UNROLL
		for (uint32_t i = 0; i < at_once; i++) {
			if (first + i >= others)
				break;
			if (!here && !c.is_here(packets[i]))
				c.await(other(first + i), index, packets[i]);
			if (first + i == c.node())
				take(c.node(), own);
			take(other(first + i), packets[i].lo);
		}
	}
	if (c.node() == others)
		take(c.node(), own);
}

/* op over all nodes' packet `index`. */
template <class T, class Op> GGAS_FN uint64_t reduce_packet(channel &c, uint64_t index, uint64_t own, const Op &op)
{
	partial<T, Op> sum;
	receive(c, index, own, [&](uint32_t node, uint64_t data) {
		if (node == 0)
			sum.first(data);
		else
			sum.add(data, op);
	});
	return sum.data();
}

/* One step: every node sends everything to all and reduces it for itself (thesis 6.8.2). */
template <class T, class Op>
GGAS_FN int allreduce_one_shot(channel &c, const T *in, T *out, uint64_t count, range mine, const Op &op)
{
	vector<const T> from(in, count);
	vector<T> to(out, count);
	c.begin(channel_call::exchange, mine.size());
	auto send = [&](uint64_t index, uint64_t data) {
		for (uint32_t step = 1; step < c.nodes(); step++)
			c.send(c.after(step), index, data);
	};
	if (mine.size() <= smaller(ggas_threads(), c.capacity())) {
		/* One packet of each thread at most: it is loaded before anything is waited for, and once. */
		uint64_t packet = mine.begin + ggas_thread();
		bool has = packet < mine.end;
		uint64_t data = has ? from.load(packet) : 0;
		c.may_send();
		if (has && !c.failed()) {
			send(ggas_thread(), data);
			to.store(packet, reduce_packet<T>(c, ggas_thread(), data, op));
		}
		return c.done(true);
	}
	for (uint64_t first = mine.begin; first < mine.end; first += c.capacity()) {
		uint64_t size = smaller(mine.end - first, c.capacity());
		c.may_send();
		for (uint64_t i = ggas_thread(); i < size && !c.failed(); i += ggas_threads())
			send(i, from.load(first + i));
		for (uint64_t i = ggas_thread(); i < size && !c.failed(); i += ggas_threads())
			to.store(first + i, reduce_packet<T>(c, i, from.load(first + i), op));
		if (int error = c.done(true))
			return error;
	}
	return GGAS_OK;
}

/* Two steps: each node reduces a part and sends the result to all (thesis 6.8.3). Parts of all nodes have packets. */
template <class T, class Op>
GGAS_FN int allreduce_two_shot(channel &c, const T *in, T *out, uint64_t count, range mine, const Op &op)
{
	vector<const T> from(in, count);
	vector<T> to(out, count);
	uint64_t most = c.capacity() * c.nodes();
	c.begin(channel_call::two_shot, mine.size());
	for (uint64_t first = mine.begin, size; first < mine.end; first += size) {
		size = two_shot_round(mine.end - first, most, c.nodes());
		auto part = [&](uint32_t node) { return part_of(size, c.nodes(), node, 1); };
		c.may_send();
		for (uint32_t step = 1; step < c.nodes(); step++) {
			range theirs = part(c.after(step));
			for (uint64_t i = ggas_thread(); i < theirs.size() && !c.failed(); i += ggas_threads())
				c.send(c.after(step), i, from.load(first + theirs.begin + i));
		}
		range own = part(c.node());
		/* Results go on in the next exchange; a slot of it was read before what comes in this one was sent. */
		channel results = c;
		results.next();
		for (uint64_t i = ggas_thread(); i < own.size() && !c.failed(); i += ggas_threads()) {
			uint64_t at = first + own.begin + i;
			uint64_t sum = reduce_packet<T>(c, i, from.load(at), op);
			for (uint32_t step = 1; step < c.nodes() && !c.failed(); step++)
				results.send(c.after(step), i, sum);
			to.store(at, sum);
		}
		results.fail(c.status());
		for (uint32_t step = 1; step < c.nodes(); step++) {
			uint32_t node = c.after(step);
			range theirs = part(node);
			for (uint64_t i = ggas_thread(); i < theirs.size() && !results.failed(); i += ggas_threads()) {
				ggas_u128 packet = results.peek(node, i);
				if (!results.is_here(packet))
					results.await(node, i, packet);
				to.store(first + theirs.begin + i, packet.lo);
			}
		}
		if (int error = results.done(true))
			return error;
		c = results;
	}
	return GGAS_OK;
}

/* Every node sends `source(to, packet)` to all others and calls `sink(from, packet, data)` for what came from each
 * and for its own. */
template <class Source, class Sink>
GGAS_FN int exchange_packets(channel &c, range mine, const Source &source, const Sink &sink)
{
	c.begin(channel_call::exchange, mine.size());
	for (uint64_t first = mine.begin; first < mine.end; first += c.capacity()) {
		uint64_t size = smaller(mine.end - first, c.capacity());
		c.may_send();
		for (uint64_t i = ggas_thread(); i < size && !c.failed(); i += ggas_threads())
			for (uint32_t step = 1; step < c.nodes(); step++)
				c.send(c.after(step), i, source(c.after(step), first + i));
		for (uint64_t i = ggas_thread(); i < size && !c.failed(); i += ggas_threads())
			receive(c, i, source(c.node(), first + i),
				[&](uint32_t node, uint64_t data) { sink(node, first + i, data); });
		if (int error = c.done(true))
			return error;
	}
	return GGAS_OK;
}

/* The root sends to all. */
template <class Source, class Sink>
GGAS_FN int send_from(channel &c, uint32_t root, range mine, const Source &source, const Sink &sink)
{
	c.begin(channel_call::from_root, mine.size(), root);
	for (uint64_t first = mine.begin; first < mine.end; first += c.capacity()) {
		uint64_t size = smaller(mine.end - first, c.capacity());
		c.say_begun();
		if (c.node() == root)
			c.may_send();
		for (uint64_t i = ggas_thread(); i < size && !c.failed(); i += ggas_threads()) {
			if (c.node() != root) {
				ggas_u128 packet = c.peek(root, i);
				if (!c.is_here(packet))
					c.await(root, i, packet);
				sink(first + i, packet.lo);
				continue;
			}
			uint64_t data = source(first + i);
			for (uint32_t step = 1; step < c.nodes(); step++)
				c.send(c.after(step), i, data);
			sink(first + i, data);
		}
		if (int error = c.done(false))
			return error;
	}
	return GGAS_OK;
}

/* All send to the root, which calls take(i, index of the exchange) to receive packet i. */
template <class Source, class Take>
GGAS_FN int send_to(channel &c, uint32_t root, range mine, const Source &source, const Take &take)
{
	c.begin(channel_call::to_root, mine.size(), root);
	for (uint64_t first = mine.begin; first < mine.end; first += c.capacity()) {
		uint64_t size = smaller(mine.end - first, c.capacity());
		c.say_begun();
		if (c.node() != root)
			c.may_send(root);
		for (uint64_t i = ggas_thread(); i < size && !c.failed(); i += ggas_threads()) {
			if (c.node() == root)
				take(first + i, i);
			else
				c.send(root, i, source(first + i));
		}
		if (int error = c.done(false))
			return error;
	}
	return GGAS_OK;
}

/* What a block does of a collective of `packets`: blocks with packet buffers share it. */
GGAS_FN range own_packets(uint32_t channels, uint64_t packets)
{
	uint32_t blocks = ggas_blocks() < channels ? ggas_blocks() : channels;
	return ggas_block() < blocks ? part_of(packets, blocks, ggas_block(), 32) : range{ 0, 0 };
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_PACKED_H */
