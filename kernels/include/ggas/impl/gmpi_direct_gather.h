/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Gathers and scatters of short blocks of a direct communicator, by the boards of its allreduces (gmpi_direct_reduce.h): a block lies on
 * the board of the member that it is for. Line 0 goes to all members, as boards are taken in turn by those who have heard of all others.
 *
 * Order. Nothing but the blocks is ordered.
 */
#ifndef GGAS_IMPL_GMPI_DIRECT_GATHER_H
#define GGAS_IMPL_GMPI_DIRECT_GATHER_H

#include "gmpi_direct_reduce.h"
#include "gmpi_requests.h"

namespace ggas_impl
{

/* In place of an operation of allreduces, and their type is the root. */
constexpr uint32_t direct_gathers = GMPI_BXOR + 1, direct_scatters = GMPI_BXOR + 2;
static_assert(direct_scatters < 1 << (64 - direct_number_bits - direct_op_shift), "it fits beside the type");

/* A buffer of a call. */
struct gmpi_blocks {
	const void *at;
	int count, type;
};

/* What goes from kernel to kernel: the one block of this member, and the root's block of each member. */
struct direct_blocks {
	uint64_t one, all;
	uint32_t bytes, root;
	bool is_root;
};

/* Bytes of a block; false: not from kernel to kernel. */
GGAS_FN bool direct_block_bytes(const gmpi_blocks &blocks, uint32_t *bytes)
{
	uint32_t size = static_cast<uint32_t>(blocks.type) & GMPI_TYPE_SIZE_MASK, count = static_cast<uint32_t>(blocks.count);
	/* A count below zero is too many. */
	*bytes = size * count;
	return size && size <= 8 && count <= direct_vector_most && *bytes <= direct_vector_most && (blocks.at || !count);
}

/* Whether a gather or a scatter goes so; what is wrong with another one the daemon says. `one`, `all`: the block, and the root's blocks. */
GGAS_FN bool direct_has_blocks(const gmpi_buf *buf, const gmpi_blocks &one, const gmpi_blocks &all, int root, uint64_t comm,
			       direct_blocks *blocks)
{
	const gmpi_direct *direct = gmpi_direct_of(buf, comm, 0);
	if (!direct || static_cast<uint32_t>(root) >= direct->size)
		return false;
	bool is_root = direct->rank == static_cast<uint32_t>(root), in_place = gmpi_address(one.at) == GMPI_IN_PLACE_ADDRESS;
	uint32_t bytes = 0, own = 0;
	if (!direct_block_bytes(is_root ? all : one, &bytes) || (in_place && !is_root))
		return false;
	if (is_root && !in_place && (!direct_block_bytes(one, &own) || own != bytes))
		return false;
	uint64_t mine = gmpi_address(all.at) + uint64_t(bytes) * direct->rank;
	*blocks = { is_root && in_place ? mine : gmpi_address(one.at), gmpi_address(all.at), bytes, static_cast<uint32_t>(root), is_root };
	return true;
}

/* By the leader. */
template <ggas_scope Scope>
GGAS_FN int direct_gather_led(direct_collective<Scope> &all, direct_crew<Scope> &others, const direct_blocks &b, uint32_t size)
{
	using team = gmpi_team<Scope>;
	uint32_t root = b.root;
	auto *own = reinterpret_cast<const uint8_t *>(b.one);
	all.send([=](uint32_t member) -> const uint8_t * { return member == root ? own : nullptr; }, false);
	int error = all.wait(others, 0, 1);
	if (error || !b.is_root)
		return error;
	error = all.wait(others, 1, all.lines());
	uint32_t words = all.words();
	GGAS_NO_UNROLL
	for (uint32_t i = team::lane(); i < size * words && !error; i += team::lanes())
		all.take_word(reinterpret_cast<uint8_t *>(b.all) + uint64_t(i / words) * b.bytes, i / words, own, i % words);
	return error;
}

/* The same. */
template <ggas_scope Scope>
GGAS_FN int direct_scatter_led(direct_collective<Scope> &all, direct_crew<Scope> &others, const direct_blocks &b, uint32_t rank)
{
	using team = gmpi_team<Scope>;
	bool is_root = b.is_root;
	uint64_t first = b.all, bytes = b.bytes;
	auto block = [=](uint32_t member) { return reinterpret_cast<const uint8_t *>(first + member * bytes); };
	all.send([=](uint32_t member) { return is_root ? block(member) : nullptr; }, false);
	int error = all.wait(others, 0, 1);
	if (!error && !is_root)
		error = all.wait(others, 1, all.lines(), b.root);
	GGAS_NO_UNROLL
	for (uint32_t k = team::lane(); k < all.words() && !error; k += team::lanes())
		all.take_word(reinterpret_cast<uint8_t *>(b.one), b.root, block(rank), k);
	return error;
}

template <ggas_scope Scope> GGAS_LONG int direct_gather(const gmpi_buf *buf, uint32_t call, const direct_blocks &blocks, uint32_t line)
{
	using crew = direct_crew<Scope>;
	bool gathers = call == GMPI_CALL_GATHER;
	if (!gmpi_port_of(buf))
		return gmpi_no_port(buf, call, line);
	crew::enter();
	if (!crew::leads())
		return crew::work();
	crew others;
	direct_collective<Scope> all(buf, blocks.bytes, blocks.root & ((1u << (direct_op_shift - direct_type_shift)) - 1),
				     gathers ? direct_gathers : direct_scatters, line);
	int error = gathers ? direct_gather_led<Scope>(all, others, blocks, buf->direct.size) :
			      direct_scatter_led<Scope>(all, others, blocks, buf->direct.rank);
	/* Who waited in vain may make the same call again. */
	if (!error || error == GMPI_ERR_TRUNCATE)
		all.over(gathers ? blocks.root : blocks.is_root ? all.each_other : buf->direct.rank);
	return others.end(error);
}

/* Both types of a call in one element. */
GGAS_FN uint64_t gmpi_types(int type, int to_type)
{
	return static_cast<uint32_t>(type) | static_cast<uint64_t>(static_cast<uint32_t>(to_type)) << 32;
}

/* Gather and Scatter. */
template <ggas_scope Scope>
GGAS_FN int gmpi_gather(const gmpi_buf *buf, uint32_t call, const gmpi_blocks &from, const gmpi_blocks &to, int root, uint64_t comm,
			uint32_t line)
{
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	bool gathers = call == GMPI_CALL_GATHER;
	direct_blocks blocks;
	if (direct_has_blocks(buf, gathers ? from : to, gathers ? to : from, root, comm, &blocks))
		return direct_gather<Scope>(buf, call, blocks, line);
	return gmpi_call<Scope, true>(buf, line, call, gmpi_nothing(), gmpi_address(from.at), gmpi_int(from.count), gmpi_address(to.at),
				      gmpi_int(to.count), gmpi_types(from.type, to.type), gmpi_int(root), comm);
}

/* The same, waited for later. */
template <ggas_scope Scope>
GGAS_FN int gmpi_gather_later(const gmpi_buf *buf, uint32_t call, const gmpi_blocks &from, const gmpi_blocks &to, int root, uint64_t comm,
			      uint64_t *request, uint32_t line)
{
	return gmpi_collective<Scope>(buf, line, call, request, gmpi_address(from.at), gmpi_int(from.count), gmpi_address(to.at),
				      gmpi_int(to.count), gmpi_types(from.type, to.type), gmpi_int(root), comm);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_DIRECT_GATHER_H */
