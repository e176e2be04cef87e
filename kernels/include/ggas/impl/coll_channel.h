/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A block and the blocks of the same number on the other nodes: flags, and
 * packets that carry 8 bytes of data and the number of their exchange in one
 * access, so that data need no flag behind them and no fence.
 *
 * All blocks of a channel make the same exchanges in the same order, numbered
 * from 1. Packets of exchange e lie in half e & 1 of their slots. A node may
 * write them once the receiver has read those of e - 2, that is, has begun
 * e - 1. It knows that of all nodes when it heard from all of them in e - 1
 * (`met`); in exchanges where not everyone hears from everyone, nodes say by
 * their flags that they have begun.
 */
#ifndef GGAS_IMPL_COLL_CHANNEL_H
#define GGAS_IMPL_COLL_CHANNEL_H

#include "coll_area.h"
#include "coll_trace.h"

namespace ggas_impl
{

/* The slow part of waiting for a packet. */
GGAS_COLD int wait_packet_long(ggas_group *g, const ggas_u128 *slot, uint64_t epoch, uint32_t peer, uint32_t line)
{
	ggas_wait wait(g->report, g->timeout_ns, GGAS_WAIT_COLLECTIVE, g->node, peer, line);
	const uint64_t *peer_begun = begun_flag(g, g->node, ggas_block(), peer);
	uint64_t seen;
	while ((seen = ggas_load_relaxed(slot).hi) != epoch) {
		if (int error = wait.again(slot, epoch, seen)) {
			poison(g);
			return error;
		}
		if (wait.looks_around() &&
		    (poisoned_since(g) || ggas_load_relaxed(peer_begun) == GGAS_FLAG_POISON ||
		     (has_left(g, peer) && ggas_load_relaxed(slot).hi != epoch))) {
			wait.fail(GGAS_ERR_POISONED, reinterpret_cast<uint64_t>(slot), epoch, seen, 0);
			poison(g);
			return GGAS_ERR_POISONED;
		}
	}
	return GGAS_OK;
}

class channel {
public:
	/* Loads what is known of the group and the channel, all at once. Only a block whose number is below GGAS_CHANNELS
	 * has one. */
	GGAS_FN channel(ggas_group *g, uint32_t line) : g_(g), epoch_(0), met_(0), line_(line)
	{
		if (ggas_block() < GGAS_CHANNELS) {
			epoch_ = g->channel[ggas_block()].epoch;
			met_ = g->channel[ggas_block()].met;
		}
		status_ = ggas_load_near(&g->poisoned);
		nodes_ = g->nodes;
		node_ = g->node;
		local_ = g->local;
		base_ = g->base;
		stride_ = g->stride;
		posted_ = g->posted;
		packed_bytes_ = static_cast<uint32_t>(g->packed_bytes);
		packed_channels_ = g->packed_channels;
	}
	/* Called by all threads of the block before anything else, which say what the call carries. What they wrote before may be
	 * sent. With a release, all that they did before is done before the others hear of this exchange. */
	GGAS_FN void begin(channel_call what, uint64_t packets, uint32_t root = 0, ggas_order order = ggas_order::relaxed)
	{
		ggas_syncthreads();
		/* The loads come meanwhile. */
		if (releases(order) && ggas_thread() < sayers)
			ggas_fence_release();
		if (releases(order) && posted_) {
			perform_stores(g_, ggas_thread(), ggas_threads());
			ggas_syncthreads();
		}
		if (GGAS_RARE(status_ != GGAS_OK))
			status_ = poisoned_or_traced(g_, what, packets, root);
		epoch_++;
		begun_ = static_cast<uint32_t>(begun_offset(nodes_)) + ggas_block() * static_cast<uint32_t>(area_flags(nodes_));
		packed_ = packed_offset(nodes_);
		packed_ += (ggas_block() * 2ull + (epoch_ & 1)) * nodes_ * packed_bytes_;
	}

	GGAS_FN uint32_t node() const { return node_; }
	GGAS_FN uint32_t nodes() const { return nodes_; }
	/* The node that is `step` after this one. */
	GGAS_FN uint32_t after(uint32_t step) const
	{
		uint32_t to = node_ + step;
		return to < nodes_ ? to : to - nodes_;
	}
	/* Packets from one node to another in one exchange. */
	GGAS_FN uint64_t capacity() const { return packed_bytes_ / sizeof(ggas_u128); }
	/* Channels that have packet buffers. */
	GGAS_FN uint32_t packed_channels() const { return packed_channels_; }
	/* Of the calling thread. */
	GGAS_FN bool failed() const { return status_ != GGAS_OK; }
	GGAS_FN int status() const { return status_; }
	GGAS_FN void fail(int status) { status_ = status_ ? status_ : status; }

	GGAS_FN void send(uint32_t to, uint64_t index, uint64_t data) const
	{
		ggas_store_relaxed(slot(remote(to), node_) + index, ggas_u128{ data, epoch_ });
	}
	/* What node `from` sent, if it is here. */
	GGAS_FN ggas_u128 peek(uint32_t from, uint64_t index) const
	{
		return ggas_load_relaxed(slot(local_, from) + index);
	}
	GGAS_FN bool is_here(const ggas_u128 &packet) const { return packet.hi == epoch_; }
	/* Waits for a packet that was not here at first. */
	GGAS_FN void await(uint32_t from, uint64_t index, ggas_u128 &packet)
	{
		const ggas_u128 *at = slot(local_, from) + index;
		GGAS_NO_UNROLL
		for (uint32_t i = 0; i < quick_polls; i++) {
			packet = ggas_load_relaxed(at);
			if (is_here(packet))
				return;
		}
		fail(wait_packet_long(g_, at, epoch_, from, line_));
		packet = ggas_load_relaxed(at);
	}

	/* Says to all nodes that this one has begun the exchange; with a release if begin() had it. */
	GGAS_FN void say_begun()
	{
		uint32_t all = ggas_threads() < sayers ? ggas_threads() : sayers;
		if (ggas_thread() < sayers && !failed())
			for (uint32_t step = 1 + ggas_thread(); step < nodes_; step += all)
				ggas_store_fenced(reinterpret_cast<uint64_t *>(remote(after(step)) + begun_) + node_,
						  epoch_);
	}
	/* Waits until all nodes, or `only`, have begun exchange `epoch`. */
	GGAS_FN void wait_begun(uint64_t epoch, ggas_order order, uint32_t kind, uint32_t only = ~0u)
	{
		const uint64_t *flags = reinterpret_cast<const uint64_t *>(local_ + begun_);
		for (uint32_t step = 1 + ggas_thread(); step < nodes_ && !failed(); step += ggas_threads())
			if (only == ~0u || after(step) == only)
				fail(wait_flag(g_, flags + after(step), epoch, order, kind, after(step), line_));
	}
	/* Says it and waits until all have: mostly a thread each node, without loops, which cost it 0.03 us (H200). */
	GGAS_FN void meet(ggas_order order)
	{
		if (1 + ggas_thread() >= nodes_ || failed())
			return;
		if (nodes_ - 1 > ggas_threads() || nodes_ - 1 > sayers) {
			say_begun();
			wait_begun(epoch_, order, GGAS_WAIT_BARRIER);
			return;
		}
		uint32_t to = after(1 + ggas_thread());
		ggas_store_fenced(reinterpret_cast<uint64_t *>(remote(to) + begun_) + node_, epoch_);
		status_ = wait_flag(g_, reinterpret_cast<const uint64_t *>(local_ + begun_) + to, epoch_, order,
				    GGAS_WAIT_BARRIER, to, line_);
	}
	/* Before packets are sent in an exchange: the receivers have read what these overwrite. */
	GGAS_FN void may_send(uint32_t only = ~0u)
	{
		if (met_ + 1 >= epoch_)
			return;
		wait_begun(epoch_ - 1, ggas_order::relaxed, GGAS_WAIT_COLLECTIVE, only);
		fail(ggas_block_status(status_));
	}
	/* An exchange in which every thread heard from all nodes, and told them so in sending the next one. */
	GGAS_FN void next()
	{
		met_ = epoch_;
		turn();
	}

	/* The exchange is over. The same for all threads of the block. How far the channel came is written before they meet,
	 * so that the next exchange may load it before its own meeting; after a failure nobody asks. */
	GGAS_FN int done(bool met)
	{
		if (met)
			met_ = epoch_;
		if (ggas_thread() == 0)
			g_->channel[ggas_block()] = { epoch_, met_ };
		if (int error = ggas_block_status(status_))
			return error;
		turn();
		return GGAS_OK;
	}

private:
	/* To the next exchange and the other half of the slots. */
	GGAS_FN void turn()
	{
		uint64_t half = static_cast<uint64_t>(nodes_) * packed_bytes_;
		packed_ += epoch_ & 1 ? 0 - half : half;
		epoch_++;
	}
	/* The area of another node. */
	GGAS_FN uint64_t remote(uint32_t node) const { return base_ + node * stride_; }
	GGAS_FN ggas_u128 *slot(uint64_t area, uint32_t from) const
	{
		return reinterpret_cast<ggas_u128 *>(area + packed_ + static_cast<uint64_t>(from) * packed_bytes_);
	}

	static constexpr uint32_t sayers = GGAS_WARP_SIZE; /* threads that tell other nodes */

	ggas_group *g_;
	uint64_t epoch_, met_, local_, base_, stride_, packed_;
	uint32_t begun_, packed_bytes_, packed_channels_, node_, nodes_, posted_, line_;
	int status_;
};

/* Nodes meet; `order` says what of other memory is visible after. */
GGAS_FN int meet_nodes(ggas_group *g, ggas_order order, uint32_t line)
{
	channel c(g, line);
	c.begin(channel_call::meet, 0, 0, order);
	c.meet(order);
	return c.done(true);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COLL_CHANNEL_H */
