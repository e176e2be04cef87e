// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes every call of rma.cuh in every form, and takes what they cause in every way.
#include "ggas/rma.cuh"

#include "selftest.h"

namespace rma_calls
{

constexpr uint32_t origin_and_target = EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER;

/* Two calls by one thread while nobody else may consume. */
GGAS_FN int probe_locked(ggas_port *port, extoll_noti *noti)
{
	if (int error = gpu_rma2_noti_lock(port))
		return error;
	int status = gpu_rma2_noti_wait(port, noti);
	extoll_noti again = {};
	if (status == GGAS_OK) {
		bool there = gpu_rma2_noti_probe(port, &again);
		status = there && again.word1 == noti->word1 ? GGAS_OK : GGAS_ERR_NO_MATCH;
		gpu_rma2_noti_free(port);
	}
	gpu_rma2_noti_unlock(port);
	return status;
}

/* What another wants stays where it is. */
GGAS_FN int matched(ggas_port *port, extoll_noti *noti)
{
	gpu_rma2_match other, mine;
	other.command = EXTOLL_CMD_GET_BT_RSP + 1;
	other.kind = EXTOLL_NOTI_KIND_RESPONDER;
	if (gpu_rma2_noti_wait_match(port, other, noti) != GGAS_ERR_NO_MATCH)
		return GGAS_ERR_ARGUMENT;
	mine.node = extoll_noti_node(noti->word1);
	mine.vpid = extoll_noti_vpid(noti->word1);
	int status = gpu_rma2_noti_wait_match(port, mine, noti);
	gpu_rma2_noti_free(port);
	return status;
}

/* What one block does with its port. All threads have the same numbers. */
struct caller {
	const selftest_rma_calls &args;
	ggas_port *port;
	gpu_rma2_peer peer;
	uint32_t calls = 0, taken = 0;

	GGAS_FN explicit caller(const selftest_rma_calls &args)
		: args(args), port(reinterpret_cast<ggas_port *>(args.port)), peer{ args.peer_node, args.peer_vpid }
	{
	}

	/* Keeps what a call gave; so many were made, says word 0. */
	GGAS_FN void did(int status)
	{
		auto *statuses = reinterpret_cast<uint64_t *>(args.statuses);
		calls++;
		if (ggas_thread() == 0) {
			statuses[calls] = static_cast<uint64_t>(status);
			statuses[0] = calls;
		}
		ggas_syncthreads();
	}

	GGAS_FN void keep(uint32_t index, const extoll_noti &noti) const
	{
		auto *log = reinterpret_cast<extoll_noti *>(args.log);
		log[index] = noti;
	}

	/* In the next way, one, or as many as there are. */
	GGAS_COLD int take_next()
	{
		if (taken % 4 == 3)
			return take_warp(1);
		int status = GGAS_OK;
		if (ggas_thread() == 0) {
			extoll_noti noti = {};
			switch (taken % 4) {
			case 0:
				status = gpu_rma2_noti_take(port, &noti);
				break;
			case 1:
				status = probe_locked(port, &noti);
				break;
			default:
				status = matched(port, &noti);
			}
			keep(taken, noti);
		}
		taken++;
		return ggas_block_status(status);
	}

	/* So many at least, by the first warp. */
	GGAS_COLD int take_warp(uint32_t count)
	{
		uint32_t there = 0;
		int status = GGAS_OK;
		if (ggas_thread() < GGAS_WARP_SIZE) {
			for (uint32_t come; status == GGAS_OK && there < count; there += come) {
				extoll_noti noti = {};
				status = gpu_rma2_noti_wait_warp(port, &noti, &come);
				if (ggas_lane() < come)
					keep(taken + there + ggas_lane(), noti);
			}
		}
		taken += static_cast<uint32_t>(ggas_block_status(static_cast<int>(there)));
		return ggas_block_status(status);
	}

	/* Takes so many, or none after an error. */
	GGAS_FN int take(uint32_t count)
	{
		int status = GGAS_OK;
		for (uint32_t end = taken + count; status == GGAS_OK && taken < end;)
			status = take_next();
		return status;
	}

	/* A post was made; so many notifications come of it. */
	GGAS_FN void made(int status, uint32_t notifications)
	{
		did(status);
		did(status ? status : take(notifications));
	}
};

/* By one thread, one warp or the block. */
template <ggas_scope Scope, class Post> GGAS_FN int by(const Post &post)
{
	uint32_t threads = Scope == ggas_scope::thread ? 1 : Scope == ggas_scope::warp ? GGAS_WARP_SIZE : ggas_threads();
	return ggas_block_status(ggas_thread() < threads ? post() : GGAS_OK);
}

/* Each call in one form. Out of line: compilers take minutes over so many in one function. */
template <ggas_scope Scope> struct in_form {
	ggas_port *port;
	gpu_rma2_peer peer;

	GGAS_FN explicit in_form(const caller &c)
		: port(c.port), peer(c.peer)
	{
	}

	GGAS_COLD int put(uint64_t local, uint64_t remote, uint32_t bytes, uint32_t spec) const
	{
		return by<Scope>([&] { return gpu_rma2_put<Scope>(port, peer, local, remote, bytes, spec); });
	}
	GGAS_COLD int put_qw(uint64_t local, uint64_t remote, uint32_t bytes, uint32_t spec) const
	{
		return by<Scope>([&] { return gpu_rma2_put_qw<Scope>(port, peer, local, remote, bytes, spec); });
	}
	GGAS_COLD int get(uint64_t remote, uint64_t local, uint32_t bytes, uint32_t spec) const
	{
		return by<Scope>([&] { return gpu_rma2_get<Scope>(port, peer, remote, local, bytes, spec); });
	}
	GGAS_COLD int get_qw(uint64_t remote, uint64_t local, uint32_t bytes, uint32_t spec) const
	{
		return by<Scope>([&] { return gpu_rma2_get_qw<Scope>(port, peer, remote, local, bytes, spec); });
	}
	GGAS_COLD int immediate_put(uint64_t value, uint32_t count, uint64_t remote, uint32_t spec) const
	{
		return by<Scope>([&] {
			return gpu_rma2_immediate_put<Scope>(port, peer, value, count, remote, spec);
		});
	}
	GGAS_COLD int notification_put(uint32_t noti_class, uint64_t payload, uint32_t spec) const
	{
		return by<Scope>([&] {
			return gpu_rma2_notification_put<Scope>(port, peer, noti_class, payload, spec);
		});
	}
	GGAS_COLD int lock(uint32_t number, int32_t compare, int32_t add, uint32_t spec, bool to_responder) const
	{
		return by<Scope>([&] {
			return gpu_rma2_lock<Scope>(port, peer, number, compare, add, spec, to_responder);
		});
	}
	GGAS_COLD int post(const extoll_desc &desc) const
	{
		return by<Scope>([&] { return gpu_rma2_post<Scope>(port, desc); });
	}
};

/* All posts in one form. */
template <ggas_scope Scope> GGAS_FN void posts(caller &c, uint32_t form)
{
	const in_form<Scope> call(c);
	uint32_t slot = form * SELFTEST_RMA_FORM;
	uint64_t here = c.args.here_nla + slot, there = c.args.there_nla + slot;
	uint64_t to = there + SELFTEST_RMA_HALF, back = here + SELFTEST_RMA_HALF;
	constexpr uint32_t next = SELFTEST_RMA_SLOT;
	c.made(call.put(here + 3, to + 5, 201 + form, origin_and_target), 1);
	c.made(call.put_qw(here + next, to + next + 8, 200 + 8 * form, origin_and_target), 1);
	c.made(call.get(there + 3, back + 7, 101 + form, EXTOLL_SPEC_ALL), 2);
	c.made(call.get_qw(there + 8, back + next, 104 + 8 * form, EXTOLL_SPEC_ALL), 2);
	c.made(call.immediate_put(SELFTEST_RMA_VALUE, 3 + form, to + 2 * next + 1, origin_and_target), 1);
	c.made(call.notification_put(7 + form, SELFTEST_RMA_VALUE + form, origin_and_target), 1);
	c.made(call.lock(form, 4, 5, EXTOLL_SPEC_ALL, form == 1), 2);
	c.made(call.post(extoll_desc_put(0, c.peer.node, c.peer.vpid, EXTOLL_SPEC_REQUESTER, EXTOLL_MOD_NONE, here + 3,
					 to + 3 * next, 9 + form)), 1);
}

/* Sizes, numbers and peers that no descriptor has: nothing is posted. */
template <ggas_scope Scope> GGAS_FN void refusals(caller &c)
{
	in_form<Scope> call(c);
	uint64_t here = c.args.here_nla, there = c.args.there_nla;
	const uint32_t sizes[] = { 0, EXTOLL_MAX_TRANSFER + 8 };
	for (uint32_t bytes : sizes) {
		c.did(call.put(here, there, bytes, 7));
		c.did(call.put_qw(here, there, bytes, 7));
		c.did(call.get(there, here, bytes, 7));
		c.did(call.get_qw(there, here, bytes, 7));
		c.did(call.immediate_put(1, bytes, there, 7));
	}
	c.did(call.notification_put(256, 1, 7));
	c.did(call.lock(1 << 24, 1, 1, 7, false));
	const gpu_rma2_peer strangers[] = { { c.peer.node | 1 << 16, c.peer.vpid }, { c.peer.node, c.peer.vpid | 1 << 8 } };
	for (gpu_rma2_peer peer : strangers) {
		call.peer = peer;
		c.did(call.put(here, there, 8, 7));
		c.did(call.put_qw(here, there, 8, 7));
		c.did(call.get(there, here, 8, 7));
		c.did(call.get_qw(there, here, 8, 7));
		c.did(call.immediate_put(1, 8, there, 7));
		c.did(call.notification_put(1, 1, 7));
		c.did(call.lock(1, 1, 1, 7, false));
	}
}

/* Two lanes of three post; then none does. */
GGAS_FN void batches(caller &c)
{
	uint64_t payload = SELFTEST_RMA_BATCH + ggas_lane();
	extoll_desc desc = extoll_desc_notification_put(c.peer.node, c.peer.vpid, EXTOLL_SPEC_COMPLETER, EXTOLL_MOD_NONE,
							99, payload);
	c.did(by<ggas_scope::warp>([&] { return gpu_rma2_post_batch(c.port, desc, ggas_lane() % 3 != 0); }));
	c.did(by<ggas_scope::warp>([&] { return gpu_rma2_post_batch(c.port, desc, false); }));
	c.did(by<ggas_scope::thread>([&] { return gpu_rma2_drain(c.port); }));
}

/* Read from where nothing is registered: the notification says so. */
GGAS_FN void unregistered(caller &c)
{
	if (!c.args.bad_nla)
		return;
	c.made(by<ggas_scope::thread>([&] {
		return gpu_rma2_put(c.port, c.peer, c.args.bad_nla, c.args.there_nla, 8, EXTOLL_SPEC_REQUESTER);
	}), 1);
}

GGAS_FN void make(caller &c)
{
	posts<ggas_scope::thread>(c, 0);
	posts<ggas_scope::warp>(c, 1);
	posts<ggas_scope::block>(c, 2);
	refusals<ggas_scope::thread>(c);
	refusals<ggas_scope::warp>(c);
	refusals<ggas_scope::block>(c);
	batches(c);
	unregistered(c);
	if (ggas_thread() == 0)
		gpu_rma2_noti_flush(c.port);
}

/* The first half one by one, the rest by a warp. */
GGAS_FN void take(caller &c)
{
	c.did(c.take(c.args.expect / 2));
	c.did(c.take_warp(c.args.expect - c.taken));
	if (ggas_thread() == 0)
		gpu_rma2_noti_flush(c.port);
}

} // namespace rma_calls

// One block of whole warps on each node.
GGAS_KERNEL(ggas_selftest_rma_calls, selftest_rma_calls)
{
	rma_calls::caller c(args);
	if (args.expect)
		rma_calls::take(c);
	else
		rma_calls::make(c);
}
