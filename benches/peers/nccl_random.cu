// SPDX-License-Identifier: MIT OR Apache-2.0
// HPCC RandomAccess by NCCL, under the rules of our randomaccess: a round makes 1,024 updates on each GPU (the look-ahead),
// sorts them by owner, and sends each owner its own by ncclSend and ncclRecv. All GPUs of this host, one process, rounds
// in a CUDA graph. Prints a JSON line (README.md). Every pass is made twice, which must leave the table as it was.
//
//	nvcc -O3 -std=c++17 -o nccl_random nccl_random.cu -ldl
//	NCCL_NVLS_ENABLE=0 ./nccl_random
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "nccl.cuh"

namespace
{

constexpr uint32_t look_ahead = 1024, most_gpus = 8, rounds = 100;
constexpr uint64_t entries = 1 << 24;
constexpr size_t box_words = 1 + look_ahead; /* a count, and as many numbers */

struct node {
	uint64_t *table, *states, *out, *in; /* boxes for and from each GPU */
	uint32_t self, nodes;
	uint64_t per_node;
};

struct gpu {
	node at;
	cudaStream_t stream;
	comm nccl;
	cudaGraph_t captured;
	cudaGraphExec_t graph;
	std::vector<uint64_t> starts;
};

__device__ void apply(const node &n, uint64_t random)
{
	atomicXor(reinterpret_cast<unsigned long long *>(n.table + (random & (entries - 1)) - n.self * n.per_node),
		  static_cast<unsigned long long>(random));
}

/* Applies what the others sent, then makes the next round. */
__global__ void __launch_bounds__(look_ahead) step(node n, bool applies, bool makes)
{
	__shared__ unsigned counts[most_gpus];
	for (uint32_t from = 0; applies && from < n.nodes; from++)
		if (from != n.self && threadIdx.x < n.in[from * box_words])
			apply(n, n.in[from * box_words + 1 + threadIdx.x]);
	if (!makes)
		return;
	if (threadIdx.x < most_gpus)
		counts[threadIdx.x] = 0;
	__syncthreads();
	uint64_t random = n.states[threadIdx.x];
	random = random << 1 ^ (random >> 63 ? 7 : 0);
	n.states[threadIdx.x] = random;
	auto owner = static_cast<uint32_t>((random & (entries - 1)) / n.per_node);
	if (owner == n.self)
		apply(n, random);
	else
		n.out[owner * box_words + 1 + atomicAdd(&counts[owner], 1u)] = random;
	__syncthreads();
	if (threadIdx.x < n.nodes)
		n.out[threadIdx.x * box_words] = counts[threadIdx.x];
}

template <class F> void each(std::vector<gpu> &gpus, F f)
{
	for (size_t i = 0; i < gpus.size(); i++) {
		check(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
		f(gpus[i]);
	}
}

void exchange(std::vector<gpu> &gpus)
{
	nccl(group_start(), "ncclGroupStart");
	for (gpu &g : gpus)
		for (uint32_t peer = 0; peer < g.at.nodes; peer++)
			if (peer != g.at.self) {
				size_t box = peer * box_words;
				nccl(send(g.at.out + box, box_words, uint64_type, peer, g.nccl, g.stream), "ncclSend");
				nccl(receive(g.at.in + box, box_words, uint64_type, peer, g.nccl, g.stream), "ncclRecv");
			}
	nccl(group_end(), "ncclGroupEnd");
}

void capture(std::vector<gpu> &gpus)
{
	each(gpus, [](gpu &g) {
		check(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal), "capture");
	});
	for (uint32_t round = 0; round < rounds; round++) {
		each(gpus, [&](gpu &g) { step<<<1, look_ahead, 0, g.stream>>>(g.at, round > 0, true); });
		exchange(gpus);
	}
	each(gpus, [](gpu &g) { step<<<1, look_ahead, 0, g.stream>>>(g.at, true, false); });
	// No graph may be instantiated while a stream of this thread still captures.
	each(gpus, [](gpu &g) { check(cudaStreamEndCapture(g.stream, &g.captured), "capture"); });
	each(gpus, [](gpu &g) { check(cudaGraphInstantiate(&g.graph, g.captured, 0), "cudaGraphInstantiate"); });
}

/* Seconds of a pass over all rounds, from the same starts each time. */
double pass(std::vector<gpu> &gpus)
{
	each(gpus, [](gpu &g) {
		check(cudaMemcpy(g.at.states, g.starts.data(), look_ahead * 8, cudaMemcpyHostToDevice), "cudaMemcpy");
		check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	});
	auto begin = std::chrono::steady_clock::now();
	each(gpus, [](gpu &g) { check(cudaGraphLaunch(g.graph, g.stream), "cudaGraphLaunch"); });
	each(gpus, [](gpu &g) { check(cudaStreamSynchronize(g.stream), "cudaStreamSynchronize"); });
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/* All passes were made twice: every entry is its index again. */
void check(gpu &g)
{
	std::vector<uint64_t> table(g.at.per_node);
	check(cudaMemcpy(table.data(), g.at.table, table.size() * 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint64_t i = 0; i < table.size(); i++)
		if (table[i] != g.at.self * g.at.per_node + i)
			fail("randomaccess", "the table is wrong");
}

} // namespace

int main()
{
	int version = load_nccl(), count = 0;
	check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
	if (count < 2 || count > static_cast<int>(most_gpus))
		fail("randomaccess", "2 to 8 GPUs are needed");
	std::vector<gpu> gpus(static_cast<size_t>(count));
	std::vector<comm> comms(gpus.size());
	nccl(init_all(comms.data(), count, nullptr), "ncclCommInitAll");
	uint64_t per_node = (entries + count - 1) / count, random = 88172645463325252ull;
	each(gpus, [&](gpu &g) {
		g.at.self = static_cast<uint32_t>(&g - gpus.data());
		g.at.nodes = static_cast<uint32_t>(count);
		g.at.per_node = per_node;
		g.nccl = comms[g.at.self];
		for (uint32_t i = 0; i < look_ahead; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			g.starts.push_back(random);
		}
		std::vector<uint64_t> table(per_node);
		for (uint64_t i = 0; i < per_node; i++)
			table[i] = g.at.self * per_node + i;
		check(cudaMalloc(&g.at.table, per_node * 8), "cudaMalloc");
		check(cudaMemcpy(g.at.table, table.data(), per_node * 8, cudaMemcpyHostToDevice), "cudaMemcpy");
		check(cudaMalloc(&g.at.states, look_ahead * 8), "cudaMalloc");
		check(cudaMalloc(&g.at.out, count * box_words * 8), "cudaMalloc");
		check(cudaMalloc(&g.at.in, count * box_words * 8), "cudaMalloc");
		check(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking), "cudaStreamCreate");
	});
	capture(gpus);
	std::vector<double> seconds;
	for (int i = 0; i < 10; i++) {
		double took = pass(gpus);
		if (i > 0) /* the first is a warm-up */
			seconds.push_back(took);
	}
	each(gpus, check);
	std::sort(seconds.begin(), seconds.end());
	double gups = double(count) * look_ahead * rounds / seconds[seconds.size() / 2] / 1e9;
	printf("{\"peer\": \"NCCL %d.%d.%d send and receive, 1,024 on their way\", \"bench\": \"randomaccess\", \"nodes\": %d, "
	       "\"elements\": %llu, \"value\": %.4f, \"unit\": \"GUPS\"}\n",
	       version / 10000, version / 100 % 100, version % 100, count, static_cast<unsigned long long>(entries), gups);
	return 0;
}
