/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Allreduce of vectors in a window, for long ones; included by coll.cuh. Each
 * node reduces its part, in one of two ways. By reads: it reads all nodes'
 * elements of it and writes the results to all; nothing is staged. By writes:
 * all nodes write to it, see sum_by_writes.
 */
#ifndef GGAS_IMPL_COLL_WINDOW_H
#define GGAS_IMPL_COLL_WINDOW_H

#include "coll_channel.h"
#include "coll_packed.h"

namespace ggas_impl
{

/* Addresses of the vectors on all nodes. On the executor the own one is local: what passed the SMFU to this node itself
 * would come in no order with what others hear. On GPUs that map each other both are one. */
struct everywhere {
	uint64_t base, stride;
#ifdef GGAS_EXECUTOR
	uint64_t own;
	uint32_t self;
	GGAS_FN everywhere(const ggas_window *window, uint64_t offset)
		: base(window->base + offset), stride(window->stride), own(window->local + offset), self(window->node)
	{
	}
	GGAS_FN uint64_t address(uint32_t node) const { return node == self ? own : base + node * stride; }
#else
	GGAS_FN everywhere(const ggas_window *window, uint64_t offset)
		: base(window->base + offset), stride(window->stride)
	{
	}
	GGAS_FN uint64_t address(uint32_t node) const { return base + node * stride; }
#endif
	GGAS_FN const void *global() const { return reinterpret_cast<const void *>(base); }
	GGAS_FN ggas_u128 *at(uint32_t node, uint64_t line) const
	{
		return reinterpret_cast<ggas_u128 *>(address(node)) + line;
	}
	/* So many bytes further. */
	GGAS_FN everywhere behind(uint64_t bytes) const
	{
		everywhere there = *this;
		there.base += bytes;
#ifdef GGAS_EXECUTOR
		there.own += bytes;
#endif
		return there;
	}
};

template <uint32_t Value> struct constant {
	static constexpr uint32_t value = Value;
};

/* Two words of elements while they are reduced. */
template <class T, class Op> struct partial_line {
	partial<T, Op> lo, hi;
	GGAS_FN void first(ggas_u128 v)
	{
		lo.first(v.lo);
		hi.first(v.hi);
	}
	GGAS_FN void add(ggas_u128 v, const Op &op)
	{
		lo.add(v.lo, op);
		hi.add(v.hi, op);
	}
	GGAS_FN ggas_u128 data() const { return { lo.data(), hi.data() }; }
};

/* Nodes that get results: `count` of them from `first` on. */
struct receivers {
	uint32_t first, count, nodes;
	GGAS_FN uint32_t operator[](uint32_t step) const
	{
		return first + step < nodes ? first + step : first + step - nodes;
	}
};

/* Lines [begin, end), `Unroll` of each thread in flight, of `Nodes` nodes; 0: any number. */
template <class Access, class T, uint32_t Nodes, uint32_t Unroll, class Op>
GGAS_FN void reduce_lines_by(everywhere in, everywhere out, range lines, receivers to, const Op &op)
{
	uint32_t nodes = to.nodes;
	if (Nodes)
		nodes = Nodes;
	uint64_t threads = ggas_threads();
	uint64_t i = lines.begin + ggas_thread();
	auto reduce = [&](uint64_t at, auto count) {
		constexpr uint32_t n = decltype(count)::value;
		partial_line<T, Op> sums[n];
		if constexpr (Nodes != 0) {
			ggas_u128 v[Nodes ? Nodes : 1][n];
GGAS_UNROLL
			for (uint32_t node = 0; node < Nodes; node++)
GGAS_UNROLL
				for (uint32_t k = 0; k < n; k++)
					v[node][k] = Access::read(in.at(node, at + k * threads));
GGAS_UNROLL
			for (uint32_t k = 0; k < n; k++) {
				sums[k].first(v[0][k]);
GGAS_UNROLL
				for (uint32_t node = 1; node < Nodes; node++)
					sums[k].add(v[node][k], op);
			}
		} else {
			for (uint32_t k = 0; k < n; k++)
				sums[k].first(Access::read(in.at(0, at + k * threads)));
			for (uint32_t node = 1; node < nodes; node++)
				for (uint32_t k = 0; k < n; k++)
					sums[k].add(Access::read(in.at(node, at + k * threads)), op);
		}
		for (uint32_t step = 0; step < to.count; step++) {
			uint32_t node = to[step];
GGAS_UNROLL
			for (uint32_t k = 0; k < n; k++)
				Access::write(out.at(node, at + k * threads), sums[k].data());
		}
	};
	for (; i + (Unroll - 1) * threads < lines.end; i += Unroll * threads)
		reduce(i, constant<Unroll>());
	for (; i < lines.end; i += threads)
		reduce(i, constant<1>());
}
template <class T, uint32_t Nodes, uint32_t Unroll, class Op>
GGAS_FN void reduce_lines(everywhere in, everywhere out, range lines, receivers to, const Op &op)
{
	if constexpr (can_trap)
		if (may_trap(in.global()) || may_trap(out.global()))
			return reduce_lines_by<window_access, T, 0, 1>(in, out, lines, to, op);
	reduce_lines_by<plain_access, T, Nodes, Unroll>(in, out, lines, to, op);
}

/* Elements that make no full line, by the threads of a block. */
template <class T, class Op>
GGAS_FN void reduce_elements(everywhere in, everywhere out, range elements, receivers to, const Op &op)
{
	for (uint64_t i = elements.begin + ggas_thread(); i < elements.end; i += ggas_threads()) {
		auto value = ggas_widen(ggas_read(reinterpret_cast<const T *>(in.at(0, 0)) + i));
		for (uint32_t node = 1; node < to.nodes; node++)
			value = op(value, ggas_widen(ggas_read(reinterpret_cast<const T *>(in.at(node, 0)) + i)));
		for (uint32_t step = 0; step < to.count; step++)
			ggas_write(reinterpret_cast<T *>(out.at(to[step], 0)) + i, ggas_narrow<T>(value));
	}
}

/* Lines that the threads of a block copy, several of each in flight. */
GGAS_FN void copy_lines(ggas_u128 *to, const ggas_u128 *from, uint64_t lines)
{
	constexpr uint32_t at_once = 4;
	uint64_t threads = ggas_threads(), i = ggas_thread();
	if constexpr (can_trap)
		if (may_trap(to))
			return copy_trapped(to, from, lines * sizeof(*to), ggas_thread(), ggas_threads());
	for (; i + (at_once - 1) * threads < lines; i += at_once * threads) {
		ggas_u128 v[at_once];
		GGAS_UNROLL
		for (uint32_t k = 0; k < at_once; k++)
			v[k] = from[i + k * threads];
		GGAS_UNROLL
		for (uint32_t k = 0; k < at_once; k++)
			to[i + k * threads] = v[k];
	}
	for (; i < lines; i += threads)
		to[i] = from[i];
}

/*
 * A sum by writes. Every block has the same share of each node's part as the blocks of its number on the other nodes,
 * cut in chunks, all of one size but the last ones. The owner of a part reduces a chunk of it from its own elements
 * and from contributions that lie in its result, at a chunk of the part of the node that sent them.
 */
template <class T, class Op> class sum_by_writes {
public:
	GGAS_FN sum_by_writes(ggas_group *g, everywhere in, everywhere out, uint64_t part, uint32_t chunks, const Op &op)
		: out_(out), own_in_(in.at(g->node, 0)), own_out_(out.at(g->node, 0)), part_(part),
		  share_(part_of(part, ggas_blocks(), ggas_block(), 8)), op_(op), nodes_(g->nodes), self_(g->node),
		  chunks_(chunks)
	{
	}
	/* Lines of a part. */
	GGAS_FN range chunk(uint32_t k) const
	{
		range c = part_of(share_.size(), chunks_, k, 8);
		return { share_.begin + c.begin, share_.begin + c.end };
	}
	/* Sends what this node has of chunk `k` of the other parts to their owners, where chunk `place` of this node's is. */
	GGAS_FN void contribute(uint32_t k, uint32_t place) const
	{
		range lines = chunk(k);
		uint64_t at = part_ * self_ + chunk(place).begin;
		for (uint32_t step = 1; step < nodes_; step++)
			copy_lines(out_.at(after(step), at), own_in_ + part_ * after(step) + lines.begin, lines.size());
	}
	/* Reduces chunk `k` of this node's part, whose contributions lie at chunk `place` of the others'. */
	GGAS_FN void reduce(uint32_t k, uint32_t place) const
	{
		range lines = chunk(k);
		uint64_t begin = chunk(place).begin;
		const ggas_u128 *own = own_in_ + part_ * self_ + lines.begin;
		const ggas_u128 *others = own_out_ + begin;
		ggas_u128 *result = own_out_ + part_ * self_ + lines.begin;
		for (uint64_t i = ggas_thread(); i < lines.size(); i += ggas_threads()) {
			partial_line<T, Op> sum;
			sum.first((self_ == 0 ? own : others)[i]);
			for (uint32_t node = 1; node < nodes_; node++)
				sum.add(node == self_ ? own[i] : others[part_ * node + i], op_);
			result[i] = sum.data();
		}
	}
	/* Sends chunk `k` of this node's part of the result to all others. */
	GGAS_FN void send_result(uint32_t k) const
	{
		range lines = chunk(k);
		uint64_t at = part_ * self_ + lines.begin;
		for (uint32_t step = 1; step < nodes_; step++)
			copy_lines(out_.at(after(step), at), own_out_ + at, lines.size());
	}

private:
	GGAS_FN uint32_t after(uint32_t step) const
	{
		return self_ + step < nodes_ ? self_ + step : self_ + step - nodes_;
	}

	everywhere out_;
	const ggas_u128 *own_in_;
	ggas_u128 *own_out_;
	uint64_t part_;
	range share_;
	const Op &op_;
	uint32_t nodes_, self_, chunks_;
};

/*
 * The chunks, one after the other: while the contributions to one travel, the one before is reduced and results travel.
 * Nodes meet in between: then what was sent is here, and nobody reads what comes in its place.
 *
 * Where the result replaces the input, contributions to a chunk lie where this node's own contributions to the one
 * before were, which have left; so all is a chunk later, and of the first chunk, for which there is no such place, the
 * owner has read the elements (`lag` 1).
 */
template <class T, class Op>
GGAS_FN int send_chunks(ggas_group *g, const sum_by_writes<T, Op> &sum, uint32_t chunks, uint32_t lag, uint32_t line)
{
	for (uint32_t k = lag; k < chunks + 2; k++) {
		if (k > 0)
			if (int error = meet_nodes(g, ggas_order::release_acquire, line))
				return error;
		/* Blocks begin with different ones: while some reduce, others keep the links busy. */
		for (uint32_t turn = 0; turn < 3; turn++) {
			uint32_t what = (turn + ggas_block()) % 3;
			if (what == 0 && k < chunks)
				sum.contribute(k, k - lag);
			if (what == 1 && k > lag && k <= chunks)
				sum.reduce(k - 1, k - 1 - lag);
			if (what == 2 && k >= 2 + lag)
				sum.send_result(k - 2 - lag);
		}
	}
	if (lag)
		sum.send_result(chunks - 1);
	return GGAS_OK;
}

/* Bytes from which writes alone are faster, and chunks for them: measured on 2 and 4 H200 over NVLink, where data
 * read and data written in the same direction reach 312 to 340 GB/s, and writes alone 350 to 360. */
constexpr uint64_t by_writes_from = 32ull << 20;
constexpr uint32_t by_writes_chunks = 4;

/* Lines that each node reduces; those that are left are the last node's. */
GGAS_FN uint64_t lines_of_part(uint64_t bytes, uint32_t nodes) { return bytes / sizeof(ggas_u128) / nodes / 8 * 8; }

/* What a block moves to and from each other node, of a sum in a window that is traced. */
GGAS_COLD void trace_sum(uint64_t report, uint32_t self, uint32_t nodes, uint64_t bytes, uint32_t chunks, bool in_place)
{
	uint64_t part = lines_of_part(bytes, nodes), share = part_of(part, ggas_blocks(), ggas_block(), 8).size();
	/* By reads all are read, and results written. By writes two are written, but of the first chunk in place. */
	uint64_t got = share, put = share;
	if (chunks) {
		got = in_place ? part_of(share, chunks, 0, 8).size() : 0;
		put = 2 * share - got;
	}
	uint64_t rest = self == nodes - 1 && ggas_block() == 0 ? bytes - part * nodes * sizeof(ggas_u128) : 0;
	for (uint32_t node = 0; node < nodes; node++) {
		if (node == self)
			continue;
		trace_moved(report, node, put * sizeof(ggas_u128) + rest);
		trace_moved(report, node, got * sizeof(ggas_u128) + rest, trace_got);
	}
}

/* `chunks` by writes; 0: in one go, by reads and writes. */
template <class T, class Op>
GGAS_FN int allreduce_window(ggas_group *g, const ggas_window *window, uint64_t in_offset, uint64_t out_offset,
			     uint64_t count, const Op &op, uint32_t chunks, uint32_t line)
{
	if (ggas_blocks() > GGAS_CHANNELS || window->nodes != g->nodes || (in_offset | out_offset) % 16 != 0 ||
	    !inside(window->size, window->report, in_offset, count, sizeof(T)) ||
	    !inside(window->size, window->report, out_offset, count, sizeof(T)))
		return GGAS_ERR_ARGUMENT;
	if (GGAS_RARE(window->size == 0) && ggas_thread() == 0)
		trace_sum(window->report, g->node, g->nodes, count * sizeof(T), chunks, in_offset == out_offset);
	/* The blocks of the same number work on the same elements: whoever meets them has all it needs. */
	if (int error = meet_nodes(g, ggas_order::release_acquire, line))
		return error;
	everywhere in(window, in_offset), out(window, out_offset);
	uint32_t nodes = g->nodes, self = g->node;
	receivers all = { self, nodes, nodes };
	uint64_t part = lines_of_part(count * sizeof(T), nodes);
	if (chunks) {
		uint32_t lag = in_offset == out_offset;
		sum_by_writes<T, Op> sum(g, in, out, part, chunks, op);
		if (lag) {
			range first = sum.chunk(0);
			reduce_lines<T, 0, 4>(in, out, { part * self + first.begin, part * self + first.end },
					      { self, 1, nodes }, op);
		}
		if (int error = send_chunks(g, sum, chunks, lag, line))
			return error;
	} else {
		range mine = part_of(part, ggas_blocks(), ggas_block(), 8);
		mine = { part * self + mine.begin, part * self + mine.end };
		if (nodes == 2)
			reduce_lines<T, 2, 8>(in, out, mine, all, op);
		else if (nodes == 4)
			reduce_lines<T, 4, 4>(in, out, mine, all, op);
		else
			reduce_lines<T, 0, 4>(in, out, mine, all, op);
	}
	if (self == nodes - 1 && ggas_block() == 0)
		reduce_elements<T>(in, out, { part * nodes * sizeof(ggas_u128) / sizeof(T), count }, all, op);
	return meet_nodes(g, ggas_order::release_acquire, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_WINDOW_H */
