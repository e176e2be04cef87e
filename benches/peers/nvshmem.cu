// SPDX-License-Identifier: MIT OR Apache-2.0
// The point-to-point benchmarks' work on NVSHMEM, for one process per GPU: RANK and SIZE in the environment, and
// NVSHMEM_ID a file that rank 0 writes. Rank 0 prints a JSON line per figure: bench, nodes, bytes, blocks, what, value
// (µs one way, MB/s of one direction, or GUPS).
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                                                    \
	do {                                                                                                           \
		auto result = (call);                                                                                  \
		if (result != cudaSuccess) {                                                                           \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result));                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

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

struct world {
	int self, nodes;
	cudaStream_t stream;
	cudaEvent_t begin, end;
};

/* Best of `times` launches on all nodes, in milliseconds. */
template <class Launch> float best(const world &w, int times, const Launch &launch)
{
	float least = 1e30f;
	for (int i = 0; i < times; i++) {
		nvshmem_barrier_all();
		CHECK(cudaEventRecord(w.begin, w.stream));
		launch();
		CHECK(cudaEventRecord(w.end, w.stream));
		CHECK(cudaEventSynchronize(w.end));
		float ms;
		CHECK(cudaEventElapsedTime(&ms, w.begin, w.end));
		least = std::min(least, ms);
		nvshmem_barrier_all();
	}
	return least;
}

void say(const world &w, const char *bench, size_t bytes, int blocks, const char *what, double value)
{
	if (w.self == 0)
		printf("{\"peer\": \"NVSHMEM %d.%d.%d %s\", \"bench\": \"%s\", \"nodes\": %d, \"bytes\": %zu, "
		       "\"blocks\": %d, \"value\": %.4f}\n",
		       NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION, what,
		       bench, w.nodes, bytes, blocks, value);
	fflush(stdout);
}

void pingpongs(const world &w, char *data, char *source, uint64_t *signal)
{
	if (w.self > 1)
		return;
	uint64_t base = 0;
	auto one_way = [](float ms, int rounds) { return ms * 1e3 / rounds / 2; };
	int rounds = 5000;
	float ms = best(w, 3, [&] {
		ping_word<<<1, 1, 0, w.stream>>>(signal, w.self, rounds, base);
		base += rounds;
	});
	say(w, "put-packed", 8, 1, "p + wait_until", one_way(ms, rounds));
	for (size_t bytes = 8; bytes <= 1 << 20; bytes *= bytes < 64 ? 8 : 4) {
		int threads = bytes >= 16384 ? 1024 : 256, rounds = bytes > 65536 ? 500 : 3000;
		float ms = best(w, 3, [&] {
			ping_signal<<<1, threads, 0, w.stream>>>(data, source, signal, bytes, w.self, rounds, base);
			base += rounds;
		});
		say(w, "put-signal", bytes, 1, "put_signal_block", one_way(ms, rounds));
	}
}

void streams(const world &w, char *data, char *source)
{
	constexpr int rounds = 4;
	for (bool both : { false, true })
		for (int blocks : { 8, 16, 32, 64, 132 }) {
			float ms = best(w, 2, [&] {
				if (w.self == 0 || both)
					stream<<<blocks, 1024, 0, w.stream>>>(data, source, table_bytes, 1 - w.self,
									      rounds);
			});
			say(w, both ? "put-bandwidth both" : "put-bandwidth", table_bytes, blocks, "put_block",
			    double(table_bytes) * rounds / ms / 1e3);
		}
}

void updates(const world &w, char *data)
{
	for (int blocks : { 132, 264 }) {
		constexpr int threads = 1024, each = 1000;
		float ms = best(w, 2, [&] {
			update<<<blocks, threads, 0, w.stream>>>(reinterpret_cast<uint64_t *>(data), table_bytes / 8,
								 w.nodes, each, 12345 + w.self * 7777);
		});
		say(w, "atomics-random", table_bytes, blocks, "atomic_xor",
		    double(w.nodes) * blocks * threads * each / ms / 1e6);
	}
}

void meet(int self, int nodes)
{
	std::string file = getenv("NVSHMEM_ID"), fresh = file + ".new";
	nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
	if (self == 0) {
		nvshmemx_get_uniqueid(&id);
		FILE *out = fopen(fresh.c_str(), "wb");
		fwrite(&id, sizeof(id), 1, out);
		fclose(out);
		rename(fresh.c_str(), file.c_str());
	} else {
		FILE *in;
		while (!(in = fopen(file.c_str(), "rb")))
			usleep(1000);
		if (fread(&id, sizeof(id), 1, in) != 1)
			exit(1);
		fclose(in);
	}
	nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
	nvshmemx_set_attr_uniqueid_args(self, nodes, &id, &attributes);
	if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes))
		exit(1);
}

} // namespace

int main()
{
	if (!getenv("RANK") || !getenv("SIZE") || !getenv("NVSHMEM_ID")) {
		fprintf(stderr, "set RANK, SIZE and NVSHMEM_ID (a file that is not there yet)\n");
		return 2;
	}
	world w = {};
	w.self = atoi(getenv("RANK"));
	w.nodes = atoi(getenv("SIZE"));
	CHECK(cudaSetDevice(w.self));
	meet(w.self, w.nodes);
	CHECK(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&w.begin));
	CHECK(cudaEventCreate(&w.end));
	auto *signal = static_cast<uint64_t *>(nvshmem_malloc(4096));
	auto *data = static_cast<char *>(nvshmem_malloc(table_bytes));
	auto *source = static_cast<char *>(nvshmem_malloc(table_bytes));
	CHECK(cudaMemset(signal, 0, 4096));
	CHECK(cudaDeviceSynchronize());
	nvshmem_barrier_all();
	if (w.nodes == 2) {
		pingpongs(w, data, source, signal);
		streams(w, data, source);
	}
	updates(w, data);
	nvshmem_free(source);
	nvshmem_free(data);
	nvshmem_free(signal);
	nvshmem_finalize();
}
