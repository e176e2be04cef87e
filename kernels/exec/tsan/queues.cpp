// SPDX-License-Identifier: MIT OR Apache-2.0
#include "queues.h"

#include <stdio.h>

#include <array>

#include "selftest_queue.cu"

namespace
{

template <class T> uint64_t address(T &object)
{
	return reinterpret_cast<uint64_t>(&object);
}

bool expect(bool good, const char *what, uint64_t value)
{
	if (!good)
		fprintf(stderr, "WRONG: %s (%llu)\n", what, static_cast<unsigned long long>(value));
	return good;
}

// Two nodes with queues that share a port, or have none and reach all memory by stores.
struct queue_nodes {
	static constexpr uint32_t nodes = 2, queues = 2, lanes = 4, bytes = 48, flags = 2 * lanes;
	static constexpr uint64_t words = flags + 2 * nodes + 2 * GGAS_QUEUES;
	struct node {
		ggas_queues queues = {};
		ggas_queue_state state = {};
		std::array<ggas_queue_peer, nodes> peers = {};
		std::array<ggas_memory, nodes> data = {}, flags = {};
		std::array<uint64_t, nodes> data_nla = {}, flags_nla = {};
		std::vector<ggas_u128> memory = std::vector<ggas_u128>(2 * lanes * bytes / sizeof(ggas_u128));
		std::vector<uint64_t> words = std::vector<uint64_t>(queue_nodes::words);
	};
	std::array<node, nodes> all;

	queue_nodes(nic &nics, uint32_t way)
	{
		for (uint32_t self = 0; self < nodes; self++)
			set_up(self, nics, way);
	}

private:
	void set_up(uint32_t self, nic &nics, uint32_t way)
	{
		node &own = all[self];
		for (uint32_t i = 0; i < nodes; i++) {
			uint64_t data = reinterpret_cast<uint64_t>(all[i].memory.data());
			uint64_t words_there = reinterpret_cast<uint64_t>(all[i].words.data());
			own.peers[i].node = i;
			own.peers[i].vpid = 1;	/* as its notifications say */
			own.data_nla[i] = data;
			own.flags_nla[i] = words_there;
			own.data[i] = { data, 2 * lanes * bytes, address(own.data_nla[i]), i, way };
			own.flags[i] = { words_there, words * sizeof(uint64_t), address(own.flags_nla[i]), i, way };
		}
		ggas_queues &q = own.queues;
		q.flags = address(own.flags);
		q.timeout_ns = 60'000'000'000;
		q.queues = queues;
		q.ports = way == GGAS_WAY_DEVICE;
		q.member = self;
		q.members = nodes;
		q.flag_count = flags;
		q.on_card = nics.port(self)->slots == 0;
		for (uint32_t i = 0; i < queues; i++) {
			q.queue[i].peers = address(own.peers);
			q.queue[i].limit = 3;
			if (q.ports) {
				q.queue[i].port = address(*nics.port(self));
				q.queue[i].state = address(own.state);
			}
		}
	}
};

} // namespace

bool by_queues(const nic_config &config, uint32_t way, uint32_t form)
{
	constexpr uint32_t nodes = queue_nodes::nodes, grid = queue_nodes::lanes, block = 4;
	bool exchange = form == SELFTEST_QUEUE_EXCHANGE;
	/* Of the other forms two blocks only consume what the others posted. */
	uint32_t rounds = exchange ? 3 : 1, blocks = exchange ? grid : grid + 2;
	nic nics(config);
	queue_nodes queues(nics, way);
	std::array<uint64_t, nodes> status = {}, wrong = {};
	std::array<std::array<uint64_t, SELFTEST_QUEUE_COUNTERS>, nodes> counters = {};
	bool good = true;
	for (uint32_t launched = 0; launched < 2; launched++) {
		std::array<selftest_queue, nodes> args;
		std::vector<launch> launches;
		for (uint32_t node = 0; node < nodes; node++) {
			queue_nodes::node &own = queues.all[node];
			args[node] = { address(own.queues), address(own.data), 0, address(counters[node]),
				       address(status[node]), address(wrong[node]), queue_nodes::bytes,
				       queue_nodes::bytes, form, SELFTEST_PUT_BLOCK, rounds, rounds * launched, 0, grid };
			auto *bytes = reinterpret_cast<uint8_t *>(own.memory.data());
			for (uint32_t i = 0; i < grid * queue_nodes::bytes; i++)
				bytes[i] = queue_checks::value(node, args[node].first, i / queue_nodes::bytes,
							       i % queue_nodes::bytes);
			launches.push_back({ ggas_host_ggas_selftest_queue, &args[node], blocks, block });
		}
		run(launches);
		for (uint32_t node = 0; node < nodes; node++)
			good &= expect(status[node] == 0, "status", status[node]) &&
				expect(wrong[node] == 0, "bytes that differ", wrong[node]);
	}
	return good;
}
