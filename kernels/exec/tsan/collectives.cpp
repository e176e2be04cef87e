// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives of coll.cuh and coll.cu under ThreadSanitizer.
#include "collectives.h"

#include <array>
#include <barrier>

#include "nodes.h"
#include "threads.h"

#include "coll.cu"
#include "planted_meeting.cu"
#include "selftest_coll.cu"

namespace
{

// Nodes with a group for collectives, and a window of which each part has a line for barriers, the group's area and
// `room` bytes.
struct members {
	static constexpr uint32_t nodes = 3, slot = 256, packed = 512, channels = 2;
	/* As in impl/coll_area.h. */
	static constexpr uint64_t flags = 256 * (1 + 3 + GGAS_CHANNELS);
	static constexpr uint64_t data = 256 + flags + 2 * channels * nodes * packed + 3 * nodes * slot;
	uint64_t stride;
	std::vector<ggas_u128> memory;
	std::vector<ggas_group> groups;
	std::vector<ggas_window> windows;

	explicit members(uint64_t room = 0)
		: stride(data + room), memory(nodes * stride / sizeof(ggas_u128)), groups(nodes), windows(nodes)
	{
		for (uint32_t node = 0; node < nodes; node++) {
			const ggas_window &w = windows[node] = window_of(memory, stride, node, nodes);
			ggas_group &g = groups[node];
			g.base = w.base + 256;
			g.stride = stride;
			g.local = w.local + 256;
			g.slot_bytes = slot;
			g.packed_bytes = packed;
			g.packed_channels = channels;
			g.node = node;
			g.nodes = nodes;
			g.timeout_ns = w.timeout_ns;
		}
	}
};

// What nodes bring, and by COLL_* what element i of a result is.
float brings(uint32_t node, uint64_t i)
{
	return static_cast<float>(node * 10000 + i);
}
float sum(uint64_t i)
{
	return brings(0, i) + brings(1, i) + brings(2, i);
}
float result(uint32_t kind, uint32_t node, uint64_t count, uint32_t root, uint64_t i)
{
	switch (kind) {
	case COLL_BROADCAST:
		return brings(root, i);
	case COLL_ALL_GATHER:
		return brings(static_cast<uint32_t>(i / count), i % count);
	case COLL_ALL_TO_ALL:
		return brings(static_cast<uint32_t>(i / count), node * count + i % count);
	case COLL_REDUCE_SCATTER:
		return sum(node * count + i);
	default:
		return sum(i);
	}
}
// Elements that a node gets.
uint64_t results(uint32_t kind, uint32_t node, uint64_t count, uint32_t root)
{
	if (kind == COLL_BARRIER || (kind == COLL_REDUCE && node != root))
		return 0;
	return kind == COLL_ALL_GATHER || kind == COLL_ALL_TO_ALL ? members::nodes * count : count;
}

// What a method of the self-test makes.
uint32_t kind_of(uint32_t method)
{
	if (method <= SELFTEST_BARRIER_MASTER)
		return COLL_BARRIER;
	if (method >= SELFTEST_REDUCE && method <= SELFTEST_REDUCE_ALL_TO_ALL)
		return COLL_REDUCE;
	return method == SELFTEST_REDUCE_SCATTER ? COLL_REDUCE_SCATTER :
	       method == SELFTEST_BROADCAST	 ? COLL_BROADCAST :
	       method == SELFTEST_ALL_GATHER	 ? COLL_ALL_GATHER :
	       method == SELFTEST_ALL_TO_ALL	 ? COLL_ALL_TO_ALL :
						   COLL_ALLREDUCE;
}

// Collectives that a node's host starts in a stream, between kernels that write what they take and read what they give.
struct in_stream {
	coll_started args;
	uint32_t node;
	uint64_t wrong;
	std::barrier<> *kernel_ends;
};
void stream(const void *bytes)
{
	auto *self = const_cast<in_stream *>(static_cast<const in_stream *>(bytes));
	const coll_started &args = self->args;
	uint64_t local = reinterpret_cast<const ggas_window *>(args.window)->local;
	auto *out = reinterpret_cast<float *>(local + args.out);
	bool broadcast = args.kind == COLL_BROADCAST, sums = args.kind >= COLL_REDUCE;
	float *in = broadcast ? out : reinterpret_cast<float *>(local + args.in);
	uint64_t thread = ggas_block() * ggas_threads() + ggas_thread(), threads = ggas_blocks() * ggas_threads();
	for (uint32_t round = 0; round < 3; round++) {
		for (uint64_t i = thread; i < members::nodes * args.count; i += threads)
			if (!broadcast || (self->node == args.root && i < args.count))
				in[i] = brings(self->node, i) + static_cast<float>(round);
		self->kernel_ends->arrive_and_wait();
		ggas_host_ggas_collective(bytes);
		self->kernel_ends->arrive_and_wait();
		auto more = static_cast<float>(sums ? members::nodes * round : round);
		for (uint64_t i = thread; i < results(args.kind, self->node, args.count, args.root); i += threads)
			if (out[i] != result(args.kind, self->node, args.count, args.root, i) + more)
				ggas_atomic_add(&self->wrong, 1u, ggas_order::relaxed);
	}
}

} // namespace

bool collective(uint32_t method, uint32_t grid, uint32_t form)
{
	constexpr uint32_t nodes = members::nodes, block = 32, count = 150;
	members all;
	std::array<std::vector<float>, nodes> in, out;
	std::array<uint64_t, nodes> status = {};
	std::array<selftest_coll, nodes> args = {};
	uint64_t wrong = 0;
	std::vector<launch> launches;
	uint32_t kind = kind_of(method);
	for (uint32_t node = 0; node < nodes; node++) {
		for (uint32_t i = 0; i < nodes * count; i++)
			in[node].push_back(brings(node, i));
		out[node] = in[node];
		bool barrier = kind == COLL_BARRIER;
		args[node].group = address(all.groups[node]);
		args[node].input = barrier ? all.windows[0].base : reinterpret_cast<uint64_t>(in[node].data());
		args[node].input_stride = all.stride;
		args[node].out = reinterpret_cast<uint64_t>(out[node].data());
		args[node].status = address(status[node]);
		args[node].wrong = address(wrong);
		args[node].count = count;
		args[node].element = SELFTEST_FLOAT;
		args[node].form = grid > 1 ? form : SELFTEST_BLOCK;
		args[node].method = method;
		args[node].rounds = barrier ? 10 : 4;
		launches.push_back({ ggas_host_ggas_selftest_coll, &args[node], grid, block });
	}
	run(launches);
	bool good = expect(wrong == 0, "barriers passed too early", wrong);
	for (uint32_t node = 0; node < nodes; node++)
		good &= expect(status[node] == 0, "status", status[node]);
	for (uint32_t node = 0; node < nodes && good; node++)
		for (uint64_t i = 0; i < results(kind, node, count, 0); i++)
			good &= expect(out[node][i] == result(kind, node, count, 0, i), "element", i);
	return good;
}

// coll.cu
bool started(uint32_t kind, uint32_t chunks, bool in_place)
{
	constexpr uint32_t nodes = members::nodes, grid = 2, block = 32, count = 600, root = 1;
	constexpr uint64_t room = nodes * count * sizeof(float);
	members all(2 * room);
	std::barrier<> ends[nodes] = { std::barrier<>(grid * block), std::barrier<>(grid * block),
				       std::barrier<>(grid * block) };
	std::array<in_stream, nodes> args;
	std::vector<launch> launches;
	for (uint32_t node = 0; node < nodes; node++) {
		uint64_t in = members::data, out = in_place ? in : in + room;
		coll_started call = { address(all.groups[node]), address(all.windows[node]), in, out, count, kind,
				      COLL_FLOAT, COLL_SUM, root, chunks, 0 };
		args[node] = { call, node, 0, &ends[node] };
		launches.push_back({ stream, &args[node], grid, block });
	}
	run(launches);
	bool good = true;
	for (uint32_t node = 0; node < nodes; node++)
		good &= expect(!all.groups[node].poisoned, "a failure of node", node) &&
			expect(args[node].wrong == 0, "elements", args[node].wrong);
	return good;
}

bool meeting(bool planted)
{
	members all;
	std::array<uint64_t, members::nodes> values = {}, sums = {};
	std::array<meeting_args, members::nodes> args;
	std::vector<launch> launches;
	for (uint32_t node = 0; node < members::nodes; node++) {
		args[node] = { address(all.groups[node]), address(values), address(sums[node]), planted };
		launches.push_back({ ggas_host_race_meeting, &args[node], 1, 4 });
	}
	run(launches);
	return planted || expect(sums[0] == 6 && sums[1] == 6 && sums[2] == 6, "sums", sums[0]);
}
