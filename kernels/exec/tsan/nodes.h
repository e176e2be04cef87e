// SPDX-License-Identifier: MIT OR Apache-2.0
// What the checks of several nodes have in common.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <vector>

#include "ggas/layout.h"
#include "ggas/vocab.h"

template <class T> uint64_t address(T &object)
{
	return reinterpret_cast<uint64_t>(&object);
}

inline bool expect(bool good, const char *what, uint64_t value = 0)
{
	if (!good)
		fprintf(stderr, "WRONG: %s (%llu)\n", what, static_cast<unsigned long long>(value));
	return good;
}

// What node `node` knows of a window whose parts lie in `memory`, `stride` bytes each.
inline ggas_window window_of(const std::vector<ggas_u128> &memory, uint64_t stride, uint32_t node, uint32_t nodes)
{
	ggas_window w = {};
	w.base = reinterpret_cast<uint64_t>(memory.data());
	w.stride = w.size = stride;
	w.local = w.base + node * stride;
	w.node = node;
	w.nodes = nodes;
	w.timeout_ns = 60'000'000'000;
	return w;
}
