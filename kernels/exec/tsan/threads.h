// SPDX-License-Identifier: MIT OR Apache-2.0
// Thread mode: every CUDA thread is a std::thread, so that ThreadSanitizer sees
// what may run at the same time and what orders it. Barriers of blocks and warps
// order memory; shuffles, ballots, pauses and mmio stores do not, as on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ggas/impl/exec.h"

// ThreadSanitizer neither sees accesses nor learns an order from synchronisation
// in the scope of such an object: the machinery itself must not hide a kernel's race.
class unseen {
public:
	unseen();
	~unseen();
	unseen(const unseen &) = delete;
	unseen &operator=(const unseen &) = delete;
};

struct launch {
	void (*kernel)(const void *args);
	const void *args;
	uint32_t grid, block;
};

// Runs all launches at once and returns when all threads have ended.
void run(const std::vector<launch> &launches);

// Device registers: mmio stores to [start, start + bytes) become calls.
struct mmio_range {
	uint64_t start, bytes;
	std::function<void(uint64_t offset, uint64_t value)> store;
};
void mmio_ranges(std::vector<mmio_range> ranges);
