// SPDX-License-Identifier: MIT OR Apache-2.0
#include "calls.h"

#include <stdio.h>

#include <array>

#include "selftest_rma_calls.cu"

namespace
{
/* Of three forms 7 notifications each, and 21 lanes of a warp. */
constexpr uint32_t arrive = 3 * 7 + 21;
/* By form, two sizes of five calls, a class and a lock, and two peers of seven calls. */
constexpr uint32_t refused = 3 * (2 * 5 + 2 + 2 * 7);

struct side {
	std::array<uint8_t, 2 * SELFTEST_RMA_HALF> memory = {};
	std::array<uint64_t, 256> statuses = {};
	std::array<extoll_noti, 128> log = {};
};

uint32_t given(const side &s, uint64_t status)
{
	uint32_t count = 0;
	for (uint64_t i = 1; i <= s.statuses[0]; i++)
		count += s.statuses[i] == status;
	return count;
}
} // namespace

bool rma_calls_of(const nic_config &config)
{
	constexpr uint32_t block = 2 * GGAS_WARP_SIZE;
	nic nics(config);
	std::array<side, 2> sides;
	std::array<selftest_rma_calls, 2> args = {};
	std::vector<launch> launches;
	for (uint32_t node = 0; node < 2; node++) {
		side &here = sides[node];
		for (uint32_t i = 0; i < SELFTEST_RMA_HALF; i++)
			here.memory[i] = static_cast<uint8_t>(i * 7 + node);
		selftest_rma_calls &a = args[node];
		a.port = reinterpret_cast<uint64_t>(nics.port(node));
		a.here_nla = reinterpret_cast<uint64_t>(here.memory.data());
		a.there_nla = reinterpret_cast<uint64_t>(sides[1 - node].memory.data());
		a.statuses = reinterpret_cast<uint64_t>(here.statuses.data());
		a.log = reinterpret_cast<uint64_t>(here.log.data());
		a.peer_node = 1 - node;
		a.peer_vpid = 1;
		a.expect = node ? arrive : 0;
		launches.push_back({ ggas_host_ggas_selftest_rma_calls, &args[node], 1, block });
	}
	run(launches);
	uint64_t calls = sides[0].statuses[0];
	bool good = given(sides[0], GGAS_ERR_ARGUMENT) == refused && given(sides[0], GGAS_OK) == calls - refused &&
		    given(sides[1], GGAS_OK) == sides[1].statuses[0];
	if (!good)
		fprintf(stderr, "WRONG: of %llu calls %u were refused\n", static_cast<unsigned long long>(calls),
			given(sides[0], GGAS_ERR_ARGUMENT));
	return good;
}
