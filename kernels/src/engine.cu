// SPDX-License-Identifier: MIT OR Apache-2.0
// The RMA engine (engine.h): one block on each GPU, beside the kernels that it serves.
//
// Requester warps poll the slot rings of the node's ports. A descriptor becomes packets, which are written into the
// ring that the target keeps for this node: 16-byte lines of a word and its number, so that data and the sign that they
// are there travel together and nothing waits for a fence. A warp of the target's engine for each such ring (completer,
// responder) translates with its own tables and writes to its own memory, and so it is with gets: the other side pushes.
// Nobody reads remote memory, and all state has one writer. Warps that are left over help with large packets.
#include "engine_receive.cuh"

namespace engine
{

// Shared state from and to the node's.
GGAS_FN void load_shared(shared *all, engine_node *node)
{
	if (ggas_thread() < TEAMS)
		all->teams[ggas_thread()] = team{};
	for (uint32_t i = ggas_thread(); i < ENGINE_WARPS; i += ggas_threads())
		all->waits[i] = patience{};
	for (uint32_t i = ggas_thread(); i < ENGINE_CLASSES * ENGINE_NODES; i += ggas_threads()) {
		uint32_t which = i / ENGINE_NODES, peer = i % ENGINE_NODES;
		all->tail[which][peer] = ggas_load_relaxed(&node->tail[which][peer]);
		all->credit[which][peer] = ggas_load_acquire(&node->credit[which][peer]);
	}
	for (uint32_t vpid = ggas_thread(); vpid < ENGINE_PORTS; vpid += ggas_threads()) {
		queue &q = all->queues[vpid];
		engine_port &port = node->port[vpid];
		q.open = ENGINE_PORT_CLOSED;
		look_at_port(&q, &port, ggas_load_acquire(&port.open));
	}
}

GGAS_FN void save_shared(const shared *all, engine_node *node)
{
	for (uint32_t i = ggas_thread(); i < ENGINE_CLASSES * ENGINE_NODES; i += ggas_threads())
		ggas_store_relaxed(&node->tail[i / ENGINE_NODES][i % ENGINE_NODES],
				   ggas_load_relaxed(&all->tail[i / ENGINE_NODES][i % ENGINE_NODES]));
	for (uint32_t vpid = ggas_thread(); vpid < ENGINE_PORTS; vpid += ggas_threads())
		if (ggas_load_relaxed(&all->queues[vpid].open))
			ggas_store_relaxed(&node->port[vpid].wp,
					   static_cast<uint32_t>(ggas_load_relaxed(&all->queues[vpid].place)));
}

GGAS_FN void run(const engine_args &args, shared *all)
{
	warp w(args, all);
	uint32_t leaders = args.requesters + ENGINE_CLASSES * args.nodes;
	load_shared(all, w.node);
	ggas_syncthreads();
	if (ggas_warp() < args.requesters) {
		serve_ports(w);
		w.has_ended();
		retire(w, SENDERS, args.requesters);
	} else if (ggas_warp() < leaders) {
		uint32_t ring = ggas_warp() - args.requesters;
		serve_ring(w, ring / args.nodes, ring % args.nodes);
		w.has_ended();
		if (ring < args.nodes)
			retire(w, TAKERS, args.nodes);
	} else {
		uint32_t helper = ggas_warp() - leaders;
		help(w, helper / args.helpers, helper % args.helpers);
	}
	ggas_syncthreads();
	save_shared(all, w.node);
	ggas_syncthreads();
	if (ggas_thread() == 0)
		ggas_store_release(&w.node->ended, args.run);
}

} // namespace engine

// Twice the same, for blocks of few warps and of many: fewer warps have more registers each. What does not fit into
// them lies in memory behind the L1 cache, which each acquire empties, and then costs a trip to the L2 at every use.
GGAS_KERNEL_BOUND(ggas_engine, engine_args, GGAS_WARP_SIZE * ENGINE_FEW_WARPS)
{
	GGAS_SHARED(engine::shared, all);
	engine::run(args, &all);
}

GGAS_KERNEL_BOUND(ggas_engine_wide, engine_args, GGAS_WARP_SIZE * ENGINE_WARPS)
{
	GGAS_SHARED(engine::shared, all);
	engine::run(args, &all);
}
