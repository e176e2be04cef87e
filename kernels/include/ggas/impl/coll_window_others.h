/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The other collectives of vectors in a window; included by coll.cuh. Nodes
 * push data to where they belong, and reduce by reads, as the allreduce does.
 * They meet before, since then nobody needs any more what is overwritten, and
 * after. Blocks of the same number have the same part of every transfer.
 */
#ifndef GGAS_IMPL_COLL_WINDOW_OTHERS_H
#define GGAS_IMPL_COLL_WINDOW_OTHERS_H

#include "coll_window.h"

namespace ggas_impl
{

/* Bytes of parts that blocks share out; lines of a warp's access. */
constexpr uint64_t window_grain = 512;

/* What a node moves in a call on a window that is traced: to some nodes, and from all. */
GGAS_COLD void trace_window(uint64_t report, uint32_t self, receivers to, uint64_t put, uint64_t got)
{
	for (uint32_t step = 0; step < to.count; step++)
		if (to[step] != self)
			trace_moved(report, to[step], put);
	for (uint32_t node = 0; node < to.nodes; node++)
		if (node != self)
			trace_moved(report, node, got, trace_got);
}
/* The root sends each other node a part, which sends it to the rest. */
GGAS_COLD void trace_broadcast(uint64_t report, uint32_t self, uint32_t nodes, uint32_t root, uint64_t bytes)
{
	auto place = [&](uint32_t node) { return node >= root ? node - root : node + nodes - root; };
	for (uint32_t node = 0; node < nodes; node++)
		if (node != self && node != root)
			trace_moved(report, node,
				    part_of(bytes, nodes - 1, place(self == root ? node : self) - 1, window_grain).size());
}

/* A window and a group of the same nodes, in which blocks of a number meet. */
class window_call {
public:
	GGAS_FN window_call(ggas_group *g, const ggas_window *window, uint32_t line)
		: nodes(g->nodes), self(g->node), g_(g), window_(window, 0), size_(window->size),
		  report_(window->report), line_(line),
		  fits_(ggas_blocks() <= GGAS_CHANNELS && window->nodes == g->nodes)
	{
	}
	GGAS_FN int meet() const
	{
		return fits_ ? meet_nodes(g_, ggas_order::release_acquire, line_) : GGAS_ERR_ARGUMENT;
	}
	/* Each part has `count` times `each` bytes at an offset where lines begin. */
	GGAS_FN bool has(uint64_t offset, uint64_t count, uint64_t each) const
	{
		return offset % sizeof(ggas_u128) == 0 && inside(size_, report_, offset, count, each);
	}
	/* Whether this thread counts what the node moves in a call, which has all that it names. */
	GGAS_FN bool counts() const { return GGAS_RARE(size_ == 0) && ggas_block() == 0 && ggas_thread() == 0; }
	/* `put` to so many nodes, `got` from all. */
	GGAS_FN void trace(receivers to, uint64_t put, uint64_t got) const { trace_window(report_, self, to, put, got); }
	GGAS_FN void trace_parts(uint32_t root, uint64_t bytes) const { trace_broadcast(report_, self, nodes, root, bytes); }
	GGAS_FN everywhere at(uint64_t offset) const { return window_.behind(offset); }
	GGAS_FN uint32_t after(uint32_t step) const { return self + step < nodes ? self + step : self + step - nodes; }
	/* The calling block copies its share of `bytes`. */
	GGAS_FN void copy(uint32_t to, uint64_t to_offset, uint32_t from, uint64_t from_offset, uint64_t bytes) const
	{
		range mine = part_of(bytes, ggas_blocks(), ggas_block(), window_grain);
		uint64_t out = window_.address(to) + to_offset, in = window_.address(from) + from_offset;
		if (out != in)
			ggas_copy_block(reinterpret_cast<void *>(out + mine.begin),
					reinterpret_cast<const void *>(in + mine.begin), mine.size());
	}

	const uint32_t nodes, self;

private:
	ggas_group *g_;
	everywhere window_;
	uint64_t size_, report_;
	uint32_t line_;
	bool fits_;
};

/*
 * The root sends a part of its own to each other node, which hands it to the
 * rest: no node sends more than the vector once, however many there are.
 */
GGAS_FN int broadcast_window(const window_call &call, uint32_t root, uint64_t offset, uint64_t bytes)
{
	if (root >= call.nodes || !call.has(offset, bytes, 1))
		return GGAS_ERR_ARGUMENT;
	if (call.counts())
		call.trace_parts(root, bytes);
	if (int error = call.meet())
		return error;
	/* Others are numbered from the root on. */
	uint32_t others = call.nodes - 1, rank = call.self + call.nodes - root;
	rank = rank < call.nodes ? rank : rank - call.nodes;
	auto node_of = [&](uint32_t i) { return root + i < call.nodes ? root + i : root + i - call.nodes; };
	auto part = [&](uint32_t i) { return part_of(bytes, others, i - 1, window_grain); };
	if (rank == 0) {
		for (uint32_t i = 1; i <= others; i++)
			call.copy(node_of(i), offset + part(i).begin, root, offset + part(i).begin, part(i).size());
	}
	if (others > 1) {
		if (int error = call.meet())
			return error;
		for (uint32_t step = 1; step < others && rank != 0; step++) {
			uint32_t to = rank + step <= others ? rank + step : rank + step - others;
			call.copy(node_of(to), offset + part(rank).begin, call.self, offset + part(rank).begin,
				  part(rank).size());
		}
	}
	return call.meet();
}

GGAS_FN int all_gather_window(const window_call &call, uint64_t in, uint64_t out, uint64_t bytes)
{
	/* `in` may be this node's part of `out`, of any size. */
	if (!call.has(in / sizeof(ggas_u128) * sizeof(ggas_u128), bytes + in % sizeof(ggas_u128), 1) ||
	    !call.has(out, bytes, call.nodes))
		return GGAS_ERR_ARGUMENT;
	if (call.counts())
		call.trace({ 0, call.nodes, call.nodes }, bytes, 0);
	if (int error = call.meet())
		return error;
	for (uint32_t step = 0; step < call.nodes; step++)
		call.copy(call.after(step), out + call.self * bytes, call.self, in, bytes);
	return call.meet();
}

GGAS_FN int all_to_all_window(const window_call &call, uint64_t in, uint64_t out, uint64_t bytes)
{
	if (!call.has(in, bytes, call.nodes) || !call.has(out, bytes, call.nodes))
		return GGAS_ERR_ARGUMENT;
	if (call.counts())
		call.trace({ 0, call.nodes, call.nodes }, bytes, 0);
	if (int error = call.meet())
		return error;
	for (uint32_t step = 0; step < call.nodes; step++) {
		uint32_t to = call.after(step);
		call.copy(to, out + call.self * bytes, call.self, in + to * bytes, bytes);
	}
	return call.meet();
}

/* Reduces `count` elements from multiples of 16 bytes, or of their size, on. By the calling block, its share. */
template <class T, class Op>
GGAS_FN void reduce_share(everywhere in, everywhere out, uint64_t count, receivers to, const Op &op)
{
	uint64_t lines = (in.base | out.base) % sizeof(ggas_u128) ? 0 : count * sizeof(T) / sizeof(ggas_u128);
	reduce_lines<T, 0, 4>(in, out, part_of(lines, ggas_blocks(), ggas_block(), 8), to, op);
	uint64_t done = lines * sizeof(ggas_u128) / sizeof(T);
	range rest = part_of(count - done, ggas_blocks(), ggas_block(), 1);
	reduce_elements<T>(in, out, { done + rest.begin, done + rest.end }, to, op);
}

/* Elements of a vector that each node reduces for others; whole lines but for the last ones. */
template <class T> GGAS_FN range reduced_by(uint64_t count, uint32_t nodes, uint32_t node)
{
	return part_of(count, nodes, node, 128 / sizeof(T));
}

template <class T, class Op>
GGAS_FN int reduce_window(const window_call &call, receivers to, uint64_t in, uint64_t out, uint64_t count,
			  const Op &op)
{
	if (to.first >= call.nodes || !call.has(in, count, sizeof(T)) || !call.has(out, count, sizeof(T)))
		return GGAS_ERR_ARGUMENT;
	range mine = reduced_by<T>(count, call.nodes, call.self);
	if (call.counts())
		call.trace(to, mine.size() * sizeof(T), mine.size() * sizeof(T));
	if (int error = call.meet())
		return error;
	uint64_t skip = mine.begin * sizeof(T);
	reduce_share<T>(call.at(in + skip), call.at(out + skip), mine.size(), to, op);
	return call.meet();
}

template <class T, class Op>
GGAS_FN int reduce_scatter_window(const window_call &call, uint64_t in, uint64_t out, uint64_t count, const Op &op)
{
	if (!call.has(in, count, sizeof(T) * call.nodes) || !call.has(out, count, sizeof(T)))
		return GGAS_ERR_ARGUMENT;
	if (call.counts())
		call.trace({ 0, 0, call.nodes }, 0, count * sizeof(T));
	if (int error = call.meet())
		return error;
	reduce_share<T>(call.at(in + call.self * count * sizeof(T)), call.at(out), count, { call.self, 1, call.nodes },
			op);
	return call.meet();
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_WINDOW_OTHERS_H */
