// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the kernels that check rma.cuh and coll.cuh in thread mode. Usage: tsan
// SCENARIO. Exit status 0: right results, 1: wrong ones; ThreadSanitizer exits
// with 66 when it saw a race.
#include <stdio.h>
#include <string.h>

#include <array>
#include <string>

#include "nic.h"
#include "threads.h"

#include "planted_races.cu"
#include "selftest_coll.cu"
#include "selftest_put.cu"
#include "selftest_rma.cu"

namespace
{

template <class T> uint64_t address(T &object)
{
	return reinterpret_cast<uint64_t>(&object);
}

bool expect(bool good, const char *what, uint64_t value = 0)
{
	if (!good)
		fprintf(stderr, "WRONG: %s (%llu)\n", what, static_cast<unsigned long long>(value));
	return good;
}

bool ping_pong(const nic_config &config)
{
	constexpr uint32_t bytes = 1000, block = 48;
	nic nics(config);
	std::array<std::array<uint8_t, bytes>, 2> send = {}, receive = {};
	std::array<uint64_t, 2> status = {}, wrong = {};
	std::array<selftest_rma, 2> args;
	std::vector<launch> launches;
	for (uint32_t node = 0; node < 2; node++) {
		args[node] = { address(*nics.port(node)), address(send[node]), address(send[node]),
			       address(receive[node]),	  address(receive[1 - node]), address(status[node]),
			       address(wrong[node]),	  1 - node, 1, 20, bytes, node == 0, 0 };
		launches.push_back({ ggas_host_ggas_selftest_rma, &args[node], 1, block });
	}
	run(launches);
	bool good = true;
	for (uint32_t node = 0; node < 2; node++)
		good &= expect(status[node] == 0, "status", status[node]) &&
			expect(wrong[node] == 0, "bytes that differ", wrong[node]);
	return good;
}

bool posts(const nic_config &config, bool batch)
{
	constexpr uint32_t grid = 2, block = 32, each = 10;
	nic nics(config);
	std::vector<uint64_t> seen(grid * block);
	std::array<uint64_t, 2> status = {};
	selftest_posts sender = { address(*nics.port(0)), 0, address(status[0]), 1, 1, each, batch, 0, 0 };
	selftest_posts receiver = { address(*nics.port(1)), reinterpret_cast<uint64_t>(seen.data()),
				    address(status[1]),	    0, 1, each, 0, grid * block * each, 0 };
	run({ { ggas_host_ggas_selftest_posts, &sender, grid, block },
	      { ggas_host_ggas_selftest_posts, &receiver, 1, 32 } });
	bool good = expect(status[0] == 0, "sender", status[0]) && expect(status[1] == 0, "receiver", status[1]);
	for (uint64_t sum : seen)
		good &= expect(sum == each * (each + 1) / 2, "sum of payloads", sum);
	if (config.slots == 0)
		good &= expect(nics.rejected() > 0, "nothing was rejected: the replay was not exercised");
	return good;
}

bool collective(uint32_t method, uint32_t grid, uint32_t form = SELFTEST_GRID)
{
	constexpr uint32_t nodes = 3, block = 32, count = 150, slot = 256, packed = 512, channels = 2;
	/* As in impl/coll_area.h. */
	constexpr uint64_t flags = 256 * (1 + 3 + GGAS_CHANNELS);
	constexpr uint64_t stride = 256 + flags + 2 * channels * nodes * packed + 3 * nodes * slot;
	std::vector<ggas_u128> window(nodes * stride / 16);
	uint64_t base = reinterpret_cast<uint64_t>(window.data());
	static std::array<ggas_group, nodes> groups;
	std::array<std::vector<float>, nodes> in, out;
	std::array<uint64_t, nodes> status = {};
	std::array<selftest_coll, nodes> args = {};
	uint64_t wrong = 0;
	std::vector<launch> launches;
	for (uint32_t node = 0; node < nodes; node++) {
		ggas_group &g = groups[node];
		g.base = base + 256;
		g.stride = stride;
		g.local = g.base + node * stride;
		g.slot_bytes = slot;
		g.packed_bytes = packed;
		g.packed_channels = channels;
		g.timeout_ns = 60'000'000'000;
		g.node = node;
		g.nodes = nodes;
		for (uint32_t i = 0; i < count; i++)
			in[node].push_back(static_cast<float>(node * count + i));
		out[node].resize(count);
		bool barrier = method <= SELFTEST_BARRIER_MASTER;
		args[node].group = address(g);
		args[node].input = barrier ? base : reinterpret_cast<uint64_t>(in[node].data());
		args[node].input_stride = stride;
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
	bool reduce = method >= SELFTEST_REDUCE && method <= SELFTEST_REDUCE_ALL_TO_ALL;
	bool sums = method >= SELFTEST_ALLREDUCE && method <= SELFTEST_REDUCE_ALL_TO_ALL;
	for (uint32_t node = 0; node < nodes; node++) {
		good &= expect(status[node] == 0, "status", status[node]);
		for (uint32_t i = 0; i < count && sums && (node == 0 || !reduce); i++)
			good &= expect(out[node][i] == in[0][i] + in[1][i] + in[2][i], "element", i);
	}
	return good;
}

bool puts(uint32_t form, uint32_t grid, uint32_t block, uint32_t lanes, bool packed)
{
	constexpr uint32_t nodes = 2, bytes = 304, each = 304, lines_log2 = 6;
	constexpr uint64_t rings = 16384, stride = rings + nodes * SELFTEST_PUT_LANES * (64 + (16ull << lines_log2));
	std::vector<ggas_u128> memory(nodes * stride / sizeof(ggas_u128));
	std::array<ggas_window, nodes> windows = {};
	std::array<selftest_put, nodes> args = {};
	std::array<uint64_t, nodes> status = {}, wrong = {};
	std::vector<launch> launches;
	for (uint32_t node = 0; node < nodes; node++) {
		ggas_window &window = windows[node];
		window.base = reinterpret_cast<uint64_t>(memory.data());
		window.stride = window.size = stride;
		window.local = window.base + node * stride;
		window.node = node;
		window.nodes = nodes;
		window.timeout_ns = 60'000'000'000;
		args[node] = { address(window), address(status[node]), address(wrong[node]), packed ? rings : 0, bytes,
			       each, 0, form, 10, lanes, lines_log2, 1 };
		launches.push_back({ ggas_host_ggas_selftest_put, &args[node], grid, block });
	}
	run(launches);
	bool good = true;
	for (uint32_t node = 0; node < nodes; node++)
		good &= expect(status[node] == 0, "status", status[node]) &&
			expect(wrong[node] == 0, "bytes that differ", wrong[node]);
	return good;
}

bool race(void (*kernel)(const void *), uint32_t grid, uint32_t block, bool planted)
{
	std::vector<uint64_t> values(block);
	uint64_t flag = 0, sum = 0;
	race_args args = { reinterpret_cast<uint64_t>(values.data()), address(flag), address(sum), planted };
	run({ { kernel, &args, grid, block } });
	return planted || expect(sum != 0, "sum", sum);
}

struct scenario {
	const char *name;
	bool (*run)();
};

const scenario scenarios[] = {
	{ "pingpong-slots", [] { return ping_pong({}); } },
	{ "pingpong-one-slot", [] { return ping_pong({ .slots = 1 }); } },
	{ "pingpong-card", [] { return ping_pong({ .slots = 0 }); } },
	{ "posts-slots", [] { return posts({}, false); } },
	{ "posts-one-slot", [] { return posts({ .slots = 1, .queue_entries = 16 }, false); } },
	{ "posts-batch", [] { return posts({}, true); } },
	{ "posts-batch-few-slots", [] { return posts({ .slots = 8 }, true); } },
	{ "posts-card", [] { return posts({ .slots = 0 }, false); } },
	{ "posts-batch-card", [] { return posts({ .slots = 0 }, true); } },
	{ "put-thread", [] { return puts(SELFTEST_PUT_THREAD, 1, 3, 3, false); } },
	{ "put-warp", [] { return puts(SELFTEST_PUT_WARP, 1, 40, 2, false); } },
	{ "put-block", [] { return puts(SELFTEST_PUT_BLOCK, 2, 16, 2, false); } },
	{ "put-grid", [] { return puts(SELFTEST_PUT_GRID, 3, 8, 1, false); } },
	{ "packed-thread", [] { return puts(SELFTEST_PUT_THREAD, 1, 3, 3, true); } },
	{ "packed-warp", [] { return puts(SELFTEST_PUT_WARP, 1, 40, 2, true); } },
	{ "packed-block", [] { return puts(SELFTEST_PUT_BLOCK, 2, 16, 2, true); } },
	{ "barrier", [] { return collective(SELFTEST_BARRIER, 1); } },
	{ "barrier-grid", [] { return collective(SELFTEST_BARRIER, 2); } },
	{ "sync", [] { return collective(SELFTEST_SYNC, 1); } },
	{ "barrier-master", [] { return collective(SELFTEST_BARRIER_MASTER, 2); } },
	{ "reduce", [] { return collective(SELFTEST_REDUCE, 1); } },
	{ "reduce-tree", [] { return collective(SELFTEST_REDUCE_TREE, 2); } },
	{ "one-shot", [] { return collective(SELFTEST_ALLREDUCE_ONE_SHOT, 1); } },
	{ "one-shot-shared", [] { return collective(SELFTEST_ALLREDUCE_ONE_SHOT, 3, SELFTEST_SHARED); } },
	{ "two-shot", [] { return collective(SELFTEST_ALLREDUCE_TWO_SHOT, 2); } },
	{ "remote-read", [] { return collective(SELFTEST_ALLREDUCE_READ, 1); } },
	{ "gather", [] { return collective(SELFTEST_ALLREDUCE_GATHER, 1); } },
	{ "all-gather", [] { return collective(SELFTEST_ALLREDUCE_ALL_GATHER, 1); } },
	{ "tree", [] { return collective(SELFTEST_ALLREDUCE_TREE, 1); } },
	{ "all-to-all", [] { return collective(SELFTEST_ALLREDUCE_ALL_TO_ALL, 1); } },
	{ "all-to-all-grid", [] { return collective(SELFTEST_ALLREDUCE_ALL_TO_ALL, 2); } },
	{ "good-barrier", [] { return race(ggas_host_race_barrier, 1, 16, false); } },
	{ "good-release", [] { return race(ggas_host_race_release, 2, 1, false); } },
	{ "missing-barrier", [] { return race(ggas_host_race_barrier, 1, 16, true); } },
	{ "missing-release", [] { return race(ggas_host_race_release, 2, 1, true); } },
};

} // namespace

int main(int count, char **values)
{
	for (const scenario &s : scenarios) {
		if (count == 2 && strcmp(values[1], "--list") == 0)
			puts(s.name);
		else if (count == 2 && strcmp(values[1], s.name) == 0)
			return s.run() ? 0 : 1;
	}
	if (count == 2 && strcmp(values[1], "--list") == 0)
		return 0;
	fprintf(stderr, "usage: %s --list | SCENARIO\n", values[0]);
	return 2;
}
