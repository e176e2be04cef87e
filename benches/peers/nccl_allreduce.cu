// SPDX-License-Identifier: MIT OR Apache-2.0
// NCCL's allreduce beside ours: of floats, and of one double after each GPU has summed its own (global-reduction). All
// GPUs of this host, one process, 50 operations in a CUDA graph per sample. The name of a benchmark as argument, or
// nothing: all. Prints a JSON line per figure (README.md). libnccl.so.2 is loaded when the program runs, so it compiles
// where NCCL is not installed.
//
//	nvcc -O3 -std=c++17 -o nccl_allreduce nccl_allreduce.cu -ldl
//	NCCL_NVLS_ENABLE=0 ./nccl_allreduce
//
// NVLink multicast stays off: it can take a shared host's GPUs out of service.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "nccl.cuh"

namespace
{

struct gpu {
	float *in, *out;
	double *partial;
	cudaStream_t stream;
	comm nccl;
	cudaGraph_t captured;
	cudaGraphExec_t graph;
};

template <class F> void each(std::vector<gpu> &gpus, F f)
{
	for (size_t i = 0; i < gpus.size(); i++) {
		check(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
		f(gpus[i]);
	}
}

/* A sum of doubles in two kernels: of each block, then of the blocks. */
__global__ void sums_of_blocks(const double *in, size_t count, double *out)
{
	__shared__ double warps[32];
	double sum = 0;
	for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
		sum += in[i];
	for (int delta = 16; delta; delta /= 2)
		sum += __shfl_down_sync(~0u, sum, delta);
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = sum;
	__syncthreads();
	if (threadIdx.x >= 32)
		return;
	sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
	for (int delta = 16; delta; delta /= 2)
		sum += __shfl_down_sync(~0u, sum, delta);
	if (threadIdx.x == 0)
		out[blockIdx.x] = sum;
}

/* What is captured once for each GPU in front of NCCL's part. */
using before = std::function<void(gpu &)>;

void capture(std::vector<gpu> &gpus, size_t count, int times, int type, const before &prepare)
{
	each(gpus, [](gpu &g) {
		check(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal), "capture");
	});
	for (int i = 0; i < times; i++) {
		if (prepare)
			each(gpus, prepare);
		nccl(group_start(), "ncclGroupStart");
		for (gpu &g : gpus)
			nccl(all_reduce(prepare ? g.out : g.in, g.out, count, type, sum_op, g.nccl, g.stream),
			     "ncclAllReduce");
		nccl(group_end(), "ncclGroupEnd");
	}
	// No graph may be instantiated while a stream of this thread still captures.
	each(gpus, [](gpu &g) { check(cudaStreamEndCapture(g.stream, &g.captured), "capture"); });
	each(gpus, [](gpu &g) {
		check(cudaGraphInstantiate(&g.graph, g.captured, 0), "cudaGraphInstantiate");
		check(cudaGraphDestroy(g.captured), "cudaGraphDestroy");
	});
}

// Microseconds of one operation, median of samples; the first is a warm-up.
double measure(std::vector<gpu> &gpus, int times)
{
	std::vector<double> samples;
	for (int i = 0; i < 8; i++) {
		each(gpus, [](gpu &) { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); });
		auto begin = std::chrono::steady_clock::now();
		each(gpus, [](gpu &g) { check(cudaGraphLaunch(g.graph, g.stream), "cudaGraphLaunch"); });
		each(gpus, [](gpu &g) { check(cudaStreamSynchronize(g.stream), "cudaStreamSynchronize"); });
		std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
		if (i > 0)
			samples.push_back(took.count() / times);
	}
	std::sort(samples.begin(), samples.end());
	return samples[samples.size() / 2];
}

} // namespace

int main(int words, char **word)
{
	auto wanted = [&](const char *bench) { return words < 2 || strcmp(word[1], bench) == 0; };
	int count = 0, version = load_nccl();
	check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
	std::vector<gpu> gpus(static_cast<size_t>(count));
	std::vector<comm> comms(gpus.size());
	nccl(init_all(comms.data(), count, nullptr), "ncclCommInitAll");
	constexpr size_t most = 64 << 20;
	std::vector<float> ones(most, 1.0f);
	each(gpus, [&](gpu &g) {
		g.nccl = comms[static_cast<size_t>(&g - gpus.data())];
		check(cudaMalloc(&g.in, most * sizeof(float)), "cudaMalloc");
		check(cudaMalloc(&g.out, most * sizeof(float)), "cudaMalloc");
		check(cudaMalloc(&g.partial, 132 * sizeof(double)), "cudaMalloc");
		check(cudaMemcpy(g.in, ones.data(), most * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
		check(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking), "cudaStreamCreate");
	});
	auto say = [&](const char *bench, size_t elements, const char *what, double us) {
		printf("{\"peer\": \"NCCL %d.%d.%d %s\", \"bench\": \"%s\", \"nodes\": %d, \"elements\": %zu, "
		       "\"value\": %.3f, \"unit\": \"us\"}\n",
		       version / 10000, version / 100 % 100, version % 100, what, bench, count, elements, us);
		fflush(stdout);
	};
	auto run = [&](size_t elements, int times, int type, const before &prepare) {
		capture(gpus, elements, times, type, prepare);
		double us = measure(gpus, times);
		each(gpus, [](gpu &g) { check(cudaGraphExecDestroy(g.graph), "cudaGraphExecDestroy"); });
		return us;
	};
	for (size_t elements : { 1ul, 64ul, 256ul, 1024ul, 16384ul, 262144ul, 4194304ul, 67108864ul }) {
		if (!wanted("allreduce") && !wanted("allreduce-stream"))
			break;
		double us = run(elements, elements > 1000000 ? 10 : 50, float_type, nullptr);
		float last = 0;
		check(cudaMemcpy(&last, gpus.back().out + elements - 1, sizeof(last), cudaMemcpyDeviceToHost), "cudaMemcpy");
		if (last != static_cast<float>(count))
			fail("ncclAllReduce", "the sums are wrong");
		for (const char *bench : { "allreduce", "allreduce-stream" })
			if (wanted(bench))
				say(bench, elements, "in a graph", us);
	}
	each(gpus, [](gpu &g) { check(cudaMemset(g.in, 0, most * sizeof(float)), "cudaMemset"); });
	for (size_t elements : { 1024ul, 65536ul, 1048576ul, 16777216ul }) {
		if (!wanted("global-reduction"))
			break;
		double us = run(1, elements > 1000000 ? 10 : 50, double_type, [&](gpu &g) {
			auto *in = reinterpret_cast<const double *>(g.in);
			int blocks = static_cast<int>(std::min<size_t>((elements + 2047) / 2048, 132));
			if (blocks > 1)
				sums_of_blocks<<<blocks, 512, 0, g.stream>>>(in, elements, g.partial);
			sums_of_blocks<<<1, 512, 0, g.stream>>>(blocks > 1 ? g.partial : in, blocks > 1 ? blocks : elements,
								reinterpret_cast<double *>(g.out));
		});
		say("global-reduction", elements, "after two kernels, in a graph", us);
	}
	return 0;
}
