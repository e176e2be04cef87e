// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts and polls of verbs.cuh, and of rma.cuh beside them, as functions that callgrind counts by their names
// (benches/verbs-instructions.sh): one thread, no adapter, no card. Completions and notifications lie there before each poll. In the
// form of a block it is thread 0 of 64, which does all that is not copied in parallel; nobody looks at what the others would copy.
#include <stdio.h>
#include <stdlib.h>

#include "ggas/rma.cuh"
#include "ggas/verbs.cuh"

// What runs kernels, as far as one thread that waits for nothing asks for it.
static ggas_exec_thread self_thread = { 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, nullptr, nullptr };
__thread ggas_exec_thread *ggas_exec_self = &self_thread;
uint64_t ggas_exec_traps[2] = { ~0ull, 0 };
static uint64_t registers[512];
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
uint32_t ggas_exec_unstarted(ggas_exec_thread *) { return 0; }
void *ggas_exec_shared(ggas_exec_thread *, const void *, size_t size, size_t)
{
	alignas(16) static uint8_t room[1024];
	if (size > sizeof(room))
		unexpected("more shared memory");
	return room;
}

constexpr uint32_t entries = 64, stride = 64, number = 0x11, calls = 100;
alignas(64) static uint8_t send_ring[entries * stride], cq_ring[entries * 32];
alignas(64) static uint64_t ids[entries], table[4], record;

struct objects {
	ggas_ibv_ctx ctx;
	ggas_ibv_qp qp;
	ggas_ibv_cq cq;
};

static uint64_t address(const void *p) { return reinterpret_cast<uint64_t>(p); }

static objects made()
{
	static objects all;
	all = {};
	for (uint32_t i = 0; i < entries; i++)
		*reinterpret_cast<uint32_t *>(send_ring + i * stride) = 0xffffffff;
	for (uint32_t i = 0; i < entries * 32; i++)
		cq_ring[i] = 0xcc;
	table[number & 3] = address(&all.qp);
	all.ctx = { address(registers), address(table), 0, 1000000000, 3, 0 };
	all.qp.ctx = all.cq.ctx = address(&all.ctx);
	all.qp.send = { address(send_ring), 0, address(ids), entries, stride, 16, 2, 0, 0 };
	all.qp.number = number;
	all.qp.spare = 2048 / stride + 1;
	all.cq.buffer = address(cq_ring);
	all.cq.record = address(&record);
	all.cq.entries = entries;
	return all;
}

/* The completion of request `index`, as an adapter writes it. */
static void complete(const objects &all, uint32_t index)
{
	auto *entry = reinterpret_cast<uint32_t *>(cq_ring + (index & (entries - 1)) * 32);
	for (int i = 0; i < 7; i++)
		entry[i] = 0;
	entry[0] = ggas_impl::big(all.qp.number);
	uint32_t owner = index & entries ? 0x80 : 0;
	entry[6] = ggas_impl::big(index << 16);
	entry[7] = (owner | 0x40 | ggas_impl::mlx4_write) << 24;
}

template <int Step, ggas_scope Scope> __attribute__((noinline)) int verbs_post(ggas_ibv_qp *qp, const ggas_ibv_send_wr &wr)
{
	return ggas_ibv_post_send<ggas_ibv_step<Step>, Scope>(qp, wr);
}
template <int Step, ggas_scope Scope> __attribute__((noinline)) int verbs_poll(ggas_ibv_cq *cq, ggas_ibv_wc *wc)
{
	return ggas_ibv_poll_cq<ggas_ibv_step<Step>, Scope>(cq, wc);
}

template <int Step, ggas_scope Scope> static int verbs()
{
	self_thread.threads = Scope == ggas_scope::thread ? 1 : 64;
	objects all = made();
	table[number & 3] = address(&all.qp);
	all.qp.ctx = all.cq.ctx = address(&all.ctx);
	for (uint32_t i = 0; i < calls; i++) {
		ggas_ibv_send_wr wr = {};
		wr.id = i;
		wr.operation = GGAS_IBV_WRITE;
		wr.flags = GGAS_IBV_SIGNALED;
		wr.sges = 1;
		wr.sge[0] = { 0x1000, 64, 0x1100 };
		ggas_ibv_wc wc;
		if (verbs_post<Step, Scope>(&all.qp, wr))
			return 1;
		complete(all, i);
		if (verbs_poll<Step, Scope>(&all.cq, &wc) != 1 || wc.status != GGAS_IBV_WC_SUCCESS || (Step < 4 && wc.id != i))
			return 1;
	}
	return 0;
}

template <ggas_scope Scope> static int all_steps()
{
	return verbs<0, Scope>() | verbs<1, Scope>() | verbs<2, Scope>() | verbs<3, Scope>() | verbs<4, Scope>();
}

__attribute__((noinline)) int rma_post(ggas_port *port, gpu_rma2_peer to)
{
	return gpu_rma2_put(port, to, 0x1000, 0x2000, 64, EXTOLL_SPEC_REQUESTER);
}
__attribute__((noinline)) int rma_poll(ggas_port *port, extoll_noti *noti)
{
	return gpu_rma2_noti_take(port, noti);
}

static int rma()
{
	self_thread.threads = 1;
	alignas(64) static ggas_slot slots[entries];
	alignas(64) static extoll_noti queue[entries];
	static uint64_t consumed;
	static ggas_port port;
	port.queue = address(queue);
	port.rp_register = address(registers);
	port.slots = address(slots);
	port.slot_consumed = address(&consumed);
	port.timeout_ns = 1000000000;
	port.queue_entries = entries;
	port.slot_mask = entries - 1;
	for (uint32_t i = 0; i < calls; i++) {
		extoll_noti noti;
		if (rma_post(&port, { 1, 2 }))
			return 1;
		port.slot_seen = consumed = i + 1;
		/* That of a put: `ggas decode` shows its fields. */
		queue[i % entries] = { 0x40002f80, 0x21400000080007f & ~(uint64_t(7) << 47) };
		if (rma_poll(&port, &noti))
			return 1;
	}
	return 0;
}

int main()
{
	int failed = all_steps<ggas_scope::thread>() | all_steps<ggas_scope::block>() | rma() << 1;
	if (failed)
		fprintf(stderr, "verbs_calls: a call failed (%d)\n", failed);
	return failed;
}
