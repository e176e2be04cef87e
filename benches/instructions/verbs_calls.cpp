// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts and polls of verbs.cuh, and of rma.cuh beside them, on a CPU: one thread, no adapter, no card. Completions and notifications lie
// there before each poll. In the form of a block it is thread 0 of 64, which does all that is not copied in parallel; nobody looks at
// what the others would copy. Tells what memory held before and after one call of each kind, for ptx.py, which runs the same calls as
// verbs_calls.cu has them for GPUs.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggas/rma.cuh"
#include "ggas/verbs.cuh"

// What runs kernels, as far as one thread that waits for nothing asks for it.
static ggas_exec_thread self_thread = { 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, nullptr, nullptr };
__thread ggas_exec_thread *ggas_exec_self = &self_thread;
uint64_t ggas_exec_traps[2] = { ~0ull, 0 };
void ggas_exec_mmio(ggas_exec_thread *, uint64_t address, uint64_t value, uint32_t bytes)
{
	if (bytes == 8)
		*reinterpret_cast<volatile uint64_t *>(address) = value;
	else
		*reinterpret_cast<volatile uint32_t *>(address) = static_cast<uint32_t>(value);
}
[[noreturn]] static void unexpected(const char *what)
{
	fprintf(stderr, "verbs_calls: %s is asked for, which one thread does not need\n", what);
	exit(1);
}
void ggas_exec_pause(ggas_exec_thread *, uint32_t) { unexpected("a pause"); }
uint32_t ggas_exec_syncthreads(ggas_exec_thread *, uint32_t predicate, const char *, uint32_t) { return predicate; }
uint64_t ggas_exec_warp(ggas_exec_thread *, uint32_t, uint32_t, uint64_t, uint32_t) { unexpected("a warp"); }
uint32_t ggas_exec_access(ggas_exec_thread *, uint32_t, uint64_t, void *, uint32_t) { unexpected("a trap"); }
uint64_t ggas_exec_time(ggas_exec_thread *) { return 0; }
void ggas_exec_settle(ggas_exec_thread *) {}
uint32_t ggas_exec_unstarted(ggas_exec_thread *) { return 0; }
alignas(16) static uint8_t shared_room[1024];
void *ggas_exec_shared(ggas_exec_thread *, const void *, size_t size, size_t)
{
	if (size > sizeof(shared_room))
		unexpected("more shared memory");
	return shared_room;
}

constexpr uint32_t entries = 64, stride = 64, number = 0x11, calls = 3;

/* All memory that calls look at. */
struct alignas(64) world {
	uint8_t send_ring[entries * stride];
	uint8_t cq_ring[entries * 64];
	uint64_t ids[entries];
	uint64_t table[4];
	uint64_t registers[512];
	uint64_t record, send_record;
	ggas_ibv_ctx ctx;
	ggas_ibv_qp qp;
	ggas_ibv_cq cq;
	ggas_ibv_send_wr wr;
	ggas_ibv_wc wc;
	alignas(64) ggas_slot slots[entries];
	alignas(64) extoll_noti queue[entries];
	uint64_t consumed;
	ggas_port port;
	gpu_rma2_peer peer;
	extoll_noti noti;
};
static world all;

static uint64_t address(const void *p) { return reinterpret_cast<uint64_t>(p); }

/* Tells what memory holds: before a call, with its arguments, and after it, with its result. */
static void image(const char *when, const char *name, uint64_t first, uint64_t second)
{
	printf("%s %s %llx %llx %llx ", when, name, static_cast<unsigned long long>(first), static_cast<unsigned long long>(second),
	       static_cast<unsigned long long>(address(&all)));
	for (size_t i = 0; i < sizeof(all); i++)
		printf("%02x", reinterpret_cast<const uint8_t *>(&all)[i]);
	printf("\n");
}

/* A call, the second of its kind: queues are in use, and nothing wraps around. */
template <class Call> static int told(uint32_t i, const char *name, const void *first, const void *second, Call call)
{
	/* What other threads would copy is not there. */
	memset(shared_room, 0, sizeof(shared_room));
	if (i == 1)
		image("before", name, address(first), address(second));
	int result = call();
	if (i == 1)
		image("after", name, static_cast<uint32_t>(result), 0);
	return result;
}

/* Objects of a context that nobody has used. */
static void make(uint32_t format)
{
	all = {};
	for (uint32_t i = 0; i < entries; i++)
		*reinterpret_cast<uint32_t *>(all.send_ring + i * stride) = 0xffffffff;
	for (uint8_t &byte : all.cq_ring)
		byte = format == GGAS_IBV_MLX5 ? 0xf1 : 0xcc;
	all.table[number & 3] = address(&all.qp);
	all.ctx = { address(all.registers), address(all.table), 0, 1000000000, 3, 0, format, 0 };
	all.qp.ctx = all.cq.ctx = address(&all.ctx);
	all.qp.send = { address(all.send_ring), address(&all.send_record), address(all.ids), entries, stride, 16, 2, 0, 0 };
	all.qp.number = number;
	all.qp.spare = 2048 / stride + 1;
	all.qp.ring = all.ctx.uar + (format == GGAS_IBV_MLX5 ? 0x800 : 0x14);
	all.cq.buffer = address(all.cq_ring);
	all.cq.record = address(&all.record);
	all.cq.entries = entries;
}

/* The completion of request `index`, as an adapter writes it. */
static void complete(uint32_t index)
{
	using namespace ggas_impl;
	bool mlx5 = all.ctx.format == GGAS_IBV_MLX5;
	uint32_t words = mlx5 ? 16 : 8;
	auto *entry = reinterpret_cast<uint32_t *>(all.cq_ring) + (index & (entries - 1)) * words;
	uint32_t round = (index & entries) != 0;
	for (uint32_t i = 0; i < words - 1; i++)
		entry[i] = 0;
	if (mlx5) {
		entry[14] = big(ibv_write << 24 | number);
		entry[15] = big(index << 16 | round);
	} else {
		entry[0] = big(number);
		entry[6] = big(index << 16);
		entry[7] = big(round << 7 | 0x40 | ibv_write);
	}
}

template <int Step, ggas_scope Scope, class Format> static int verbs()
{
	using steps = ggas_ibv_step<Step, Format>;
	bool block = Scope == ggas_scope::block;
	self_thread.threads = block ? 64 : 1;
	char names[2][32];
	for (int call = 0; call < 2; call++)
		snprintf(names[call], sizeof(names[call]), "%s_%d_%s_mlx%d", call ? "poll" : "post", Step, block ? "block" : "thread",
			 Format::number == GGAS_IBV_MLX5 ? 5 : 4);
	make(Format::number);
	for (uint32_t i = 0; i < calls; i++) {
		all.wr = {};
		all.wr.id = i;
		all.wr.operation = GGAS_IBV_WRITE;
		all.wr.flags = GGAS_IBV_SIGNALED;
		all.wr.sges = 1;
		all.wr.sge[0] = { 0x1000, 64, 0x1100 };
		if (told(i, names[0], &all.qp, &all.wr, [] { return ggas_ibv_post_send<steps, Scope>(&all.qp, all.wr); }))
			return 1;
		complete(i);
		if (told(i, names[1], &all.cq, &all.wc, [] { return ggas_ibv_poll_cq<steps, Scope>(&all.cq, &all.wc); }) != 1)
			return 1;
		if (all.wc.status != GGAS_IBV_WC_SUCCESS || (Step < 4 && all.wc.id != i))
			return 1;
	}
	return 0;
}

template <ggas_scope Scope, class Format> static int all_steps()
{
	return verbs<0, Scope, Format>() | verbs<1, Scope, Format>() | verbs<2, Scope, Format>() | verbs<3, Scope, Format>() |
	       verbs<4, Scope, Format>();
}

static int rma()
{
	self_thread.threads = 1;
	all = {};
	all.port.queue = address(all.queue);
	all.port.rp_register = address(all.registers);
	all.port.slots = address(all.slots);
	all.port.slot_consumed = address(&all.consumed);
	all.port.timeout_ns = 1000000000;
	all.port.queue_entries = entries;
	all.port.slot_mask = entries - 1;
	all.peer = { 1, 2 };
	for (uint32_t i = 0; i < calls; i++) {
		auto post = [] { return gpu_rma2_put(&all.port, all.peer, 0x1000, 0x2000, 64, EXTOLL_SPEC_REQUESTER); };
		if (told(i, "post_rma", &all.port, &all.peer, post))
			return 1;
		all.port.slot_seen = all.consumed = i + 1;
		/* That of a put: `ggas decode` shows its fields. */
		all.queue[i % entries] = { 0x40002f80, 0x21400000080007f & ~(uint64_t(7) << 47) };
		if (told(i, "poll_rma", &all.port, &all.noti, [] { return gpu_rma2_noti_take(&all.port, &all.noti); }))
			return 1;
	}
	return 0;
}

int main()
{
	int failed = all_steps<ggas_scope::thread, ggas_ibv_mlx4>() | all_steps<ggas_scope::block, ggas_ibv_mlx4>() |
		     all_steps<ggas_scope::thread, ggas_ibv_mlx5>() | all_steps<ggas_scope::block, ggas_ibv_mlx5>() | rma() << 1;
	if (failed)
		fprintf(stderr, "verbs_calls: a call failed (%d)\n", failed);
	return failed;
}
