// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the kernels that check rma.cuh and coll.cuh in thread mode. Usage: tsan
// SCENARIO. Exit status 0: right results, 1: wrong ones; ThreadSanitizer exits
// with 66 when it saw a race.
#include <stdio.h>
#include <string.h>

#include <array>
#include <string>

#include "calls.h"
#include "collectives.h"
#include "engines.h"
#include "messages.h"
#include "nic.h"
#include "nodes.h"
#include "queues.h"
#include "threads.h"
#include "triggers.h"

#include "planted_races.cu"
#include "selftest_blocks.cu"
#include "selftest_put.cu"
#include "selftest_rma.cu"

namespace
{

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

// Blocks of two nodes that have the same part in every round.
bool parts(uint32_t what)
{
	constexpr uint32_t nodes = 2, grid = 3, block = 6;
	constexpr uint64_t stride = sizeof(uint64_t) * nodes * grid * (1 + 2 * block);
	std::vector<ggas_u128> memory(nodes * stride / sizeof(ggas_u128));
	std::array<ggas_window, nodes> windows = {};
	std::array<selftest_parts, nodes> args = {};
	std::array<uint64_t, nodes> status = {}, wrong = {};
	std::vector<launch> launches;
	for (uint32_t node = 0; node < nodes; node++) {
		windows[node] = window_of(memory, stride, node, nodes);
		args[node] = { address(windows[node]), address(wrong[node]), address(status[node]), 20, what };
		launches.push_back({ ggas_host_ggas_selftest_parts, &args[node], grid, block });
	}
	run(launches);
	bool good = true;
	for (uint32_t node = 0; node < nodes && what <= SELFTEST_PARTS_MEET; node++)
		good &= expect(status[node] == 0, "status", status[node]) &&
			expect(wrong[node] == 0, "values of another round", wrong[node]);
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
		const ggas_window &window = windows[node] = window_of(memory, stride, node, nodes);
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
	{ "calls-slots", [] { return rma_calls_of({}); } },
	{ "calls-one-slot", [] { return rma_calls_of({ .slots = 1 }); } },
	{ "calls-card", [] { return rma_calls_of({ .slots = 0 }); } },
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
	{ "triggers-page", [] { return triggers_of_unit(SELFTEST_TN_GROUPS, false); } },
	{ "triggers-page-items", [] { return triggers_of_unit(SELFTEST_TN_PAIRS, false); } },
	{ "triggers-page-kernel", [] { return triggers_of_unit(SELFTEST_TN_BY_GROUPS, false); } },
	{ "triggers-page-fields", [] { return triggers_of_unit(SELFTEST_TN_FIELDS, false); } },
	{ "triggers-slots", [] { return triggers_of_unit(SELFTEST_TN_WARPS, true); } },
	{ "triggers-slots-kernel", [] { return triggers_of_unit(SELFTEST_TN_BY_ITEMS, true); } },
	{ "triggers-slots-fields", [] { return triggers_of_unit(SELFTEST_TN_FIELDS, true); } },
	{ "triggers-poster-items", [] { return triggers_of_poster(SELFTEST_TN_PAIRS); } },
	{ "triggers-poster-warps", [] { return triggers_of_poster(SELFTEST_TN_WARPS); } },
	{ "triggers-poster-groups", [] { return triggers_of_poster(SELFTEST_TN_GROUPS); } },
	{ "triggers-poster-alike", [] { return triggers_of_poster(SELFTEST_TN_ITEMS, true); } },
	{ "triggers-poster-alike-groups", [] { return triggers_of_poster(SELFTEST_TN_GROUPS, true); } },
	{ "triggers-poster-kernel", [] { return triggers_of_poster(SELFTEST_TN_BY_GROUPS); } },
	{ "triggers-poster-all", [] { return triggers_of_poster(SELFTEST_TN_BY_ITEMS); } },
	{ "triggers-poster-fields", [] { return triggers_of_poster(SELFTEST_TN_FIELDS); } },
	{ "good-trigger", [] { return trigger_race(false); } },
	{ "missing-trigger-release", [] { return trigger_race(true); } },
	{ "queue-exchange-stores", [] { return by_queues({}, GGAS_WAY_STORES, SELFTEST_QUEUE_EXCHANGE); } },
	{ "queue-exchange-slots", [] { return by_queues({}, GGAS_WAY_DEVICE, SELFTEST_QUEUE_EXCHANGE); } },
	{ "queue-exchange-card", [] { return by_queues({ .slots = 0 }, GGAS_WAY_DEVICE, SELFTEST_QUEUE_EXCHANGE); } },
	{ "queue-last-stores", [] { return by_queues({}, GGAS_WAY_STORES, SELFTEST_QUEUE_LAST); } },
	{ "queue-last-slots", [] { return by_queues({}, GGAS_WAY_DEVICE, SELFTEST_QUEUE_LAST); } },
	{ "queue-last-card", [] { return by_queues({ .slots = 0 }, GGAS_WAY_DEVICE, SELFTEST_QUEUE_LAST); } },
	{ "queue-read-stores", [] { return by_queues({}, GGAS_WAY_STORES, SELFTEST_QUEUE_READ); } },
	{ "queue-read-slots", [] { return by_queues({}, GGAS_WAY_DEVICE, SELFTEST_QUEUE_READ); } },
	{ "queue-read-card", [] { return by_queues({ .slots = 0 }, GGAS_WAY_DEVICE, SELFTEST_QUEUE_READ); } },
	{ "queue-notify-stores", [] { return by_queues({}, GGAS_WAY_STORES, SELFTEST_QUEUE_NOTIFY); } },
	{ "queue-notify-slots", [] { return by_queues({}, GGAS_WAY_DEVICE, SELFTEST_QUEUE_NOTIFY); } },
	{ "queue-notify-card", [] { return by_queues({ .slots = 0 }, GGAS_WAY_DEVICE, SELFTEST_QUEUE_NOTIFY); } },
	{ "direct-messages", direct_messages },
	{ "direct-places", direct_places },
	{ "engine-bystander", engine_bystander },
	{ "engine-pair", engine_pair },
	{ "engine-changes", engine_changes },
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
	{ "reduce-scatter", [] { return collective(SELFTEST_REDUCE_SCATTER, 2); } },
	{ "broadcast", [] { return collective(SELFTEST_BROADCAST, 2); } },
	{ "vectors-gathered", [] { return collective(SELFTEST_ALL_GATHER, 2); } },
	{ "vectors-exchanged", [] { return collective(SELFTEST_ALL_TO_ALL, 2); } },
	{ "started-barrier", [] { return started(COLL_BARRIER); } },
	{ "started-broadcast", [] { return started(COLL_BROADCAST); } },
	{ "started-all-gather", [] { return started(COLL_ALL_GATHER); } },
	{ "started-all-to-all", [] { return started(COLL_ALL_TO_ALL); } },
	{ "started-reduce", [] { return started(COLL_REDUCE); } },
	{ "started-reduce-scatter", [] { return started(COLL_REDUCE_SCATTER); } },
	{ "started-allreduce", [] { return started(COLL_ALLREDUCE); } },
	{ "started-allreduce-by-writes", [] { return started(COLL_ALLREDUCE, 2); } },
	{ "started-allreduce-by-writes-in-place", [] { return started(COLL_ALLREDUCE, 3, true); } },
	{ "parts-wait", [] { return parts(SELFTEST_PARTS_WAIT); } },
	{ "parts-meet", [] { return parts(SELFTEST_PARTS_MEET); } },
	{ "missing-parts-release", [] { return parts(SELFTEST_PARTS_RELAXED); } },
	{ "missing-parts-wait", [] { return parts(SELFTEST_PARTS_FEW); } },
	{ "good-meeting", [] { return meeting(false); } },
	{ "missing-meeting-order", [] { return meeting(true); } },
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
