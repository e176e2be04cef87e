// SPDX-License-Identifier: MIT OR Apache-2.0
// The benchmarks' work on NVSHMEM, for one process per GPU: RANK and SIZE in the environment, and NVSHMEM_ID a file that
// rank 0 writes; the name of a benchmark as argument, or nothing: all. Rank 0 prints a JSON line per figure (README.md).
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "nvshmem_kernels.cuh"
#include "nvshmem_meet.cuh"

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

struct world {
	int self, nodes;
	const char *only; /* a benchmark, or null */
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
		CHECK(cudaGetLastError());
		CHECK(cudaEventRecord(w.end, w.stream));
		CHECK(cudaEventSynchronize(w.end));
		float ms;
		CHECK(cudaEventElapsedTime(&ms, w.begin, w.end));
		least = std::min(least, ms);
		nvshmem_barrier_all();
	}
	return least;
}

bool wanted(const world &w, const char *bench) { return !w.only || strcmp(w.only, bench) == 0; }

/* `rows`: of which rows it is the peer, as JSON fields. */
void say(const world &w, const char *bench, const char *rows, size_t size, const char *what, int blocks, double value,
	 const char *unit)
{
	if (w.self == 0)
		printf("{\"peer\": \"NVSHMEM %d.%d.%d %s\", \"bench\": \"%s\", \"nodes\": %d, \"%s\": %zu, "
		       "\"blocks\": %d, \"value\": %.4f, \"unit\": \"%s\"}\n",
		       NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION, what,
		       bench, w.nodes, rows, size, blocks, value, unit);
	fflush(stdout);
}
void say_method(const world &w, const char *bench, const char *method, const char *rows, size_t size, const char *what,
		double us)
{
	std::string with = std::string(method) + "\", \"" + rows;
	say(w, bench, ("method\": \"" + with).c_str(), size, what, 1, us, "us");
}

void pingpongs(const world &w, char *data, char *source, uint64_t *signal)
{
	uint64_t base = 0;
	auto one_way = [](float ms, int rounds) { return ms * 1e3 / rounds / 2; };
	if (wanted(w, "put-packed")) {
		int rounds = 5000;
		float ms = best(w, 3, [&] {
			ping_word<<<1, 1, 0, w.stream>>>(signal, w.self, rounds, base);
			base += rounds;
		});
		say(w, "put-packed", "bytes", 8, "p + wait_until", 1, one_way(ms, rounds), "us");
	}
	for (size_t bytes = 8; wanted(w, "put-signal") && bytes <= 1 << 20; bytes *= bytes < 64 ? 8 : 4) {
		int threads = bytes >= 16384 ? 1024 : 256, rounds = bytes > 65536 ? 500 : 3000;
		float ms = best(w, 3, [&] {
			ping_signal<<<1, threads, 0, w.stream>>>(data, source, signal, bytes, w.self, rounds, base);
			base += rounds;
		});
		say(w, "put-signal", "bytes", bytes, "put_signal_block", 1, one_way(ms, rounds), "us");
	}
	for (size_t bytes = 8; wanted(w, "get") && bytes <= 1 << 20; bytes *= bytes < 64 ? 8 : 4) {
		int threads = bytes >= 16384 ? 1024 : 256, rounds = bytes > 65536 ? 500 : 3000;
		float ms = best(w, 2, [&] {
			if (w.self == 0)
				get<<<1, threads, 0, w.stream>>>(source, data, bytes, rounds);
		});
		say(w, "get", "bytes", bytes, "getmem_block", 1, ms * 1e3 / rounds, "us");
	}
}

/* The shortest put and signal, for as long as its energy is counted. */
void energy_of_ping(const world &w, char *data, char *source, uint64_t *signal)
{
	constexpr int rounds = 40000;
	uint64_t base = 0;
	auto *word = reinterpret_cast<double *>(signal + 1);
	auto some = [&] {
		ping_signal<<<1, 32, 0, w.stream>>>(data, source, signal, 8, w.self, rounds, base);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(w.stream));
		base += rounds;
		return 2 * rounds;
	};
	CHECK(cudaMemset(signal, 0, sizeof(*signal)));
	CHECK(cudaDeviceSynchronize());
	nvshmem_barrier_all();
	auto agree = [&](bool more) { return told(word, more, 0) != 0; };
	work_for_energy(w.self == 0, (library_version() + " put_signal_block, 8 B").c_str(), some, agree);
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
			for (const char *method : { "store", "bulk" }) {
				std::string with = std::string("method\": \"") + method + (both ? "-both" : "");
				say(w, "put-bandwidth", (with + "\", \"bytes").c_str(), table_bytes, "put_block", blocks,
				    double(table_bytes) * rounds / ms / 1e3, "MB/s");
			}
		}
}

/* Short messages of all threads, at the best number of blocks. */
void rates(const world &w, char *data, char *source)
{
	constexpr int threads = 512, batch = 16, rounds = 20, most_blocks = 264;
	uint64_t *signals = reinterpret_cast<uint64_t *>(data + table_bytes) - most_blocks * threads;
	auto tell = [&](const char *method, message what, const char *name, size_t bytes) {
		bool apart = strcmp(method, "put-apart") == 0;
		std::string rows = "method\": \"" + std::string(method) + "\", \"bytes";
		for (int blocks : { 66, 132, most_blocks }) {
			float ms = best(w, 3, [&] {
				if (w.self == 0)
					messages<<<blocks, threads, 0, w.stream>>>(what, data, source, bytes, signals, apart,
										   batch, rounds);
			});
			say(w, "put-rate", rows.c_str(), bytes, name, blocks,
			    double(blocks) * threads * batch * rounds / ms * 1e3, "per s");
		}
	};
	for (size_t bytes : { 8, 64 }) {
		for (const char *method : { "put", "put-apart" }) {
			if (bytes == sizeof(uint64_t))
				tell(method, word, "p", bytes);
			tell(method, message::bytes, "putmem_nbi", bytes);
		}
		tell("put-signal", signalled, "putmem_signal_nbi", bytes);
	}
}

/* Communication alone, as much computation alone, and both. */
void overlaps(const world &w, char *data, char *source)
{
	constexpr int trial = 200, threads = 512;
	std::vector<uint64_t> seeds(threads);
	for (int i = 0; i < threads; i++)
		seeds[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
	uint64_t *states;
	CHECK(cudaMalloc(&states, sizeof(uint64_t) * threads));
	CHECK(cudaMemcpy(states, seeds.data(), sizeof(uint64_t) * threads, cudaMemcpyHostToDevice));
	for (size_t bytes : { 8, 4096, 65536, 1 << 20 }) {
		int rounds = bytes > 65536 ? 200 : 2000;
		auto us = [&](size_t sent, int steps) {
			float ms = best(w, 3, [&] {
				if (w.self == 0)
					overlap<<<1, threads, 0, w.stream>>>(data, source, sent, states, steps, rounds);
			});
			return double(ms) * 1e3 / rounds;
		};
		double communication = us(bytes, 0);
		int steps = std::max(1, static_cast<int>(communication / us(0, trial) * trial + 0.5));
		double computation = us(0, steps), both = us(bytes, steps);
		double percent = 100 * (communication + computation - both) / std::min(communication, computation);
		for (const char *bench : { "put-overlap", "rma-overlap" })
			if (wanted(w, bench))
				say(w, bench, "bytes", bytes, "putmem_nbi_block + quiet", 1, percent, "%");
	}
	CHECK(cudaFree(states));
}

void updates(const world &w, char *data)
{
	for (int blocks : { 132, 264 }) {
		constexpr int threads = 1024, each = 1000;
		float ms = best(w, 2, [&] {
			update<<<blocks, threads, 0, w.stream>>>(reinterpret_cast<uint64_t *>(data), table_bytes / 8,
								 w.nodes, each, 12345 + w.self * 7777);
		});
		say(w, "atomics-random", "bytes", table_bytes, "atomic_xor", blocks,
		    double(w.nodes) * blocks * threads * each / ms / 1e6, "GUPS");
	}
}

/* Each thread's start is any number: the time does not depend on it. */
void hpcc(const world &w, char *data)
{
	constexpr int threads = 1024, each = 2000;
	uint64_t entries = 1 << 24, per_node = (entries + w.nodes - 1) / w.nodes, *starts, random = 88172645463325252ull;
	std::vector<uint64_t> all(threads);
	for (uint64_t &start : all) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		start = random + w.self;
	}
	CHECK(cudaMalloc(&starts, sizeof(uint64_t) * threads));
	CHECK(cudaMemcpy(starts, all.data(), sizeof(uint64_t) * threads, cudaMemcpyHostToDevice));
	for (int blocks : { 1, 8, 32, 256, threads }) {
		float ms = best(w, 2, [&] {
			hpcc_update<<<blocks, threads / blocks, 0, w.stream>>>(reinterpret_cast<uint64_t *>(data), per_node,
									       entries, starts, each);
		});
		say(w, "randomaccess", "elements", entries, "atomic_xor + quiet, 1,024 on their way", blocks,
		    double(w.nodes) * threads * each / ms / 1e6, "GUPS");
	}
	CHECK(cudaFree(starts));
}

void meetings(const world &w, uint64_t *words)
{
	constexpr int rounds = 3000;
	auto us = [&](float ms) { return ms * 1e3 / rounds; };
	int peer = (w.self + 1) % w.nodes;
	say_method(w, "barrier", "sync", "threads", 32, "sync_all_block",
		   us(best(w, 3, [&] { sync_all<<<1, 32, 0, w.stream>>>(rounds); })));
	for (const char *method : { "single", "master", "single-write" }) {
		bool writes = strcmp(method, "single-write") == 0;
		float ms = best(w, 3, [&] {
			barrier_all<<<1, writes ? 64 : 32, 0, w.stream>>>(words, peer, writes, rounds);
		});
		say_method(w, "barrier", method, "threads", writes ? 64 : 32, writes ? "p, barrier_all_block" : "barrier_all_block", us(ms));
	}
	constexpr int launches = 200;
	float ms = best(w, 3, [&] {
		for (int i = 0; i < launches; i++) {
			nothing<<<1, 64, 0, w.stream>>>();
			nvshmemx_barrier_all_on_stream(w.stream);
		}
	});
	say_method(w, "barrier", "graph", "threads", 64, "a kernel, barrier_all_on_stream", ms * 1e3 / launches);
}

void collectives(const world &w, const char *bench, char *data, char *source)
{
	static const struct {
		const char *method;
		move what;
	} moves[] = { { "broadcast", broadcast },
		      { "all-gather", all_gather },
		      { "all-to-all", all_to_all },
		      { "reduce-scatter", reduce_scatter } };
	for (size_t count : { 1, 64, 256, 1024, 16384 }) {
		int rounds = count > 1000 ? 300 : 2000;
		auto us = [&](move what) {
			float least = 1e30f;
			for (int threads : { 32, 128, most_threads })
				least = std::min(least, best(w, 2, [&] {
					collective<<<1, threads, 0, w.stream>>>(what, reinterpret_cast<float *>(data),
										reinterpret_cast<float *>(source), count,
										rounds);
				}));
			return double(least) * 1e3 / rounds;
		};
		if (strcmp(bench, "allreduce") == 0)
			say(w, bench, "elements", count, "float_sum_reduce_block", 1, us(sum), "us");
		else
			for (auto &m : moves)
				if (count != 256)
					say_method(w, bench, m.method, "elements", count, "block collective", us(m.what));
	}
}

} // namespace

int main(int count, char **words)
{
	world w = {};
	w.self = rank_here();
	w.nodes = ranks_here();
	w.only = count > 1 ? words[1] : nullptr;
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
		if (wanted(w, "put-signal") && energy_seconds() > 0)
			energy_of_ping(w, data, source, signal);
		if (wanted(w, "put-bandwidth"))
			streams(w, data, source);
		if (wanted(w, "put-rate"))
			rates(w, data, source);
		if (wanted(w, "put-overlap") || wanted(w, "rma-overlap"))
			overlaps(w, data, source);
	}
	if (wanted(w, "atomics-random"))
		updates(w, data);
	if (wanted(w, "randomaccess"))
		hpcc(w, data);
	if (wanted(w, "barrier"))
		meetings(w, signal);
	for (const char *bench : { "allreduce", "collectives" })
		if (wanted(w, bench))
			collectives(w, bench, data, source);
	nvshmem_free(source);
	nvshmem_free(data);
	nvshmem_free(signal);
	nvshmem_finalize();
}
