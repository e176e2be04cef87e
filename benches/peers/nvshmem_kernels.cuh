// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of nvshmem.cu: the communication of a benchmark each, by NVSHMEM's calls for devices.
#pragma once

#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstddef>
#include <cstdint>

namespace
{

constexpr size_t table_bytes = 256 << 20;

__global__ void ping_word(uint64_t *word, int self, int rounds, uint64_t base)
{
	for (int i = 1; i <= rounds; i++) {
		if (self == 0)
			nvshmem_uint64_p(word, base + i, 1);
		nvshmem_uint64_wait_until(word, NVSHMEM_CMP_EQ, base + i);
		if (self == 1)
			nvshmem_uint64_p(word, base + i, 0);
	}
}

__global__ void ping_signal(char *data, char *source, uint64_t *signal, size_t bytes, int self, int rounds,
			    uint64_t base)
{
	for (int i = 1; i <= rounds; i++) {
		if (self == 0)
			nvshmemx_putmem_signal_nbi_block(data, source, bytes, signal, base + i, NVSHMEM_SIGNAL_SET, 1);
		if (threadIdx.x == 0)
			nvshmem_uint64_wait_until(signal, NVSHMEM_CMP_EQ, base + i);
		__syncthreads();
		if (self == 1)
			nvshmemx_putmem_signal_nbi_block(data, source, bytes, signal, base + i, NVSHMEM_SIGNAL_SET, 0);
	}
}

__global__ void stream(char *data, const char *source, size_t bytes, int peer, int rounds)
{
	size_t each = bytes / gridDim.x, at = each * blockIdx.x;
	for (int i = 0; i < rounds; i++)
		nvshmemx_putmem_nbi_block(data + at, source + at, each, peer);
	nvshmem_quiet();
}

enum message { word, bytes, signalled };

/* All threads put short messages: side by side, or each thread's in a stretch of its own. */
__global__ void messages(message what, char *data, const char *source, size_t size, uint64_t *signals, bool apart, int batch,
			 int rounds)
{
	size_t all = size_t(gridDim.x) * blockDim.x, self = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
	for (int i = 0; i < rounds * batch; i++) {
		size_t k = i % batch, at = (apart ? self * batch + k : k * all + self) * size;
		if (what == word)
			nvshmem_uint64_p(reinterpret_cast<uint64_t *>(data + at),
					 *reinterpret_cast<const uint64_t *>(source + at), 1);
		else if (what == bytes)
			nvshmem_putmem_nbi(data + at, source + at, size, 1);
		else
			nvshmem_putmem_signal_nbi(data + at, source + at, size, signals + self, i + 1, NVSHMEM_SIGNAL_SET, 1);
	}
	nvshmem_quiet();
}

/* A put on its way while the block computes: the work of put-overlap. */
__global__ void __launch_bounds__(512) overlap(char *data, const char *source, size_t bytes, uint64_t *states, int steps,
					       int rounds)
{
	volatile uint64_t *state = states + threadIdx.x;
	for (int i = 0; i < rounds; i++) {
		if (bytes)
			nvshmemx_putmem_nbi_block(data, source, bytes, 1);
		uint64_t value = steps ? *state : 0;
		for (int k = 0; k < steps; k++) {
			value ^= value << 13;
			value ^= value >> 7;
			value ^= value << 17;
		}
		if (steps)
			*state = value;
		if (bytes)
			nvshmem_quiet();
		__syncthreads();
	}
}

/* Each from another place: what was got once lies in the multiprocessor's cache. */
__global__ void get(char *to, const char *from, size_t bytes, int rounds)
{
	size_t places = table_bytes / 2 / bytes;
	for (int i = 0; i < rounds; i++)
		nvshmemx_getmem_block(to, from + i % places * bytes, bytes, 1);
}

__global__ void sync_all(int rounds)
{
	for (int i = 0; i < rounds; i++)
		nvshmemx_sync_all_block();
}
/* With a write of each thread on its way, or without. */
__global__ void barrier_all(uint64_t *words, int peer, bool writes, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		if (writes)
			nvshmem_uint64_p(words + threadIdx.x, i, peer);
		nvshmemx_barrier_all_block();
	}
}

__global__ void nothing() {}

enum move { sum, broadcast, all_gather, all_to_all, reduce_scatter };
constexpr int most_threads = 512; /* more registers for each than 1,024 have */
__global__ void __launch_bounds__(most_threads) collective(move what, float *out, const float *in, size_t count, int rounds)
{
	for (int i = 0; i < rounds; i++)
		switch (what) {
		case sum:
			nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, out, in, count);
			break;
		case broadcast:
			nvshmemx_float_broadcast_block(NVSHMEM_TEAM_WORLD, out, in, count, 0);
			break;
		case all_gather:
			nvshmemx_float_fcollect_block(NVSHMEM_TEAM_WORLD, out, in, count);
			break;
		case all_to_all:
			nvshmemx_float_alltoall_block(NVSHMEM_TEAM_WORLD, out, in, count);
			break;
		case reduce_scatter:
			nvshmemx_float_sum_reducescatter_block(NVSHMEM_TEAM_WORLD, out, in, count);
		}
}

/* HPCC RandomAccess: the stream by its rule, at most one update of each of 1,024 threads on its way. */
__global__ void hpcc_update(uint64_t *table, uint64_t per_node, uint64_t entries, const uint64_t *starts, int updates)
{
	uint64_t random = starts[blockIdx.x * blockDim.x + threadIdx.x];
	for (int i = 0; i < updates; i++) {
		random = random << 1 ^ (random >> 63 ? 7 : 0);
		uint64_t entry = random & (entries - 1);
		auto node = static_cast<uint32_t>(entry) / static_cast<uint32_t>(per_node);
		nvshmem_uint64_atomic_xor(table + entry - node * per_node, random, static_cast<int>(node));
		nvshmem_quiet();
	}
}

__global__ void update(uint64_t *table, uint64_t entries, uint32_t nodes, int updates, uint64_t seed)
{
	uint64_t random = seed ^ (blockIdx.x * uint64_t(blockDim.x) + threadIdx.x + 1) * 0x9e3779b97f4a7c15ull;
	for (int i = 0; i < updates; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		int node = static_cast<int>((random >> 32) * nodes >> 32);
		nvshmem_uint64_atomic_xor(table + (random & (entries - 1)), random, node);
	}
	nvshmem_quiet();
}

} // namespace
