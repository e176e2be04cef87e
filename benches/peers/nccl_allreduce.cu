// SPDX-License-Identifier: MIT OR Apache-2.0
// NCCL's allreduce of floats beside ours: all GPUs of this host, one process, 50 operations in a CUDA graph per
// sample. libnccl.so.2 is loaded when the program runs, so it compiles where NCCL is not installed.
//
//	nvcc -O3 -std=c++17 -o nccl_allreduce nccl_allreduce.cu -ldl
//	NCCL_NVLS_ENABLE=0 ./nccl_allreduce
//
// NVLink multicast stays off: it can take a shared host's GPUs out of service.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace
{

// As in nccl.h, which never changed them.
using comm = struct ncclComm *;
constexpr int float_type = 7, sum_op = 0;
int (*get_version)(int *);
int (*init_all)(comm *, int, const int *);
int (*all_reduce)(const void *, void *, size_t, int, int, comm, cudaStream_t);
int (*group_start)();
int (*group_end)();

void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}
void cuda(cudaError_t error, const char *what)
{
	if (error != cudaSuccess)
		fail(what, cudaGetErrorString(error));
}
void nccl(int error, const char *what)
{
	if (error != 0)
		fail(what, "NCCL refused; NCCL_DEBUG=INFO says why");
}
template <class F> void load(void *library, F &function, const char *name)
{
	function = reinterpret_cast<F>(dlsym(library, name));
	if (!function)
		fail(name, "not in libnccl.so.2");
}

struct gpu {
	float *in, *out;
	cudaStream_t stream;
	comm nccl;
	cudaGraph_t captured;
	cudaGraphExec_t graph;
};

template <class F> void each(std::vector<gpu> &gpus, F f)
{
	for (size_t i = 0; i < gpus.size(); i++) {
		cuda(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
		f(gpus[i]);
	}
}

void capture(std::vector<gpu> &gpus, size_t count, int times)
{
	each(gpus, [](gpu &g) {
		cuda(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal), "capture");
	});
	for (int i = 0; i < times; i++) {
		nccl(group_start(), "ncclGroupStart");
		for (gpu &g : gpus)
			nccl(all_reduce(g.in, g.out, count, float_type, sum_op, g.nccl, g.stream), "ncclAllReduce");
		nccl(group_end(), "ncclGroupEnd");
	}
	// No graph may be instantiated while a stream of this thread still captures.
	each(gpus, [](gpu &g) { cuda(cudaStreamEndCapture(g.stream, &g.captured), "capture"); });
	each(gpus, [](gpu &g) {
		cuda(cudaGraphInstantiate(&g.graph, g.captured, 0), "cudaGraphInstantiate");
		cuda(cudaGraphDestroy(g.captured), "cudaGraphDestroy");
	});
}

// Microseconds of one operation, median of samples; the first is a warm-up.
double measure(std::vector<gpu> &gpus, int times)
{
	std::vector<double> samples;
	for (int i = 0; i < 8; i++) {
		each(gpus, [](gpu &) { cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); });
		auto begin = std::chrono::steady_clock::now();
		each(gpus, [](gpu &g) { cuda(cudaGraphLaunch(g.graph, g.stream), "cudaGraphLaunch"); });
		each(gpus, [](gpu &g) { cuda(cudaStreamSynchronize(g.stream), "cudaStreamSynchronize"); });
		std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
		if (i > 0)
			samples.push_back(took.count() / times);
	}
	std::sort(samples.begin(), samples.end());
	return samples[samples.size() / 2];
}

} // namespace

int main()
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW);
	if (!library)
		fail("libnccl.so.2", dlerror());
	load(library, get_version, "ncclGetVersion");
	load(library, init_all, "ncclCommInitAll");
	load(library, all_reduce, "ncclAllReduce");
	load(library, group_start, "ncclGroupStart");
	load(library, group_end, "ncclGroupEnd");
	int count = 0, version = 0;
	cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
	nccl(get_version(&version), "ncclGetVersion");
	std::vector<gpu> gpus(static_cast<size_t>(count));
	std::vector<comm> comms(gpus.size());
	nccl(init_all(comms.data(), count, nullptr), "ncclCommInitAll");
	constexpr size_t most = 64 << 20;
	std::vector<float> ones(most, 1.0f);
	each(gpus, [&](gpu &g) {
		g.nccl = comms[static_cast<size_t>(&g - gpus.data())];
		cuda(cudaMalloc(&g.in, most * sizeof(float)), "cudaMalloc");
		cuda(cudaMalloc(&g.out, most * sizeof(float)), "cudaMalloc");
		cuda(cudaMemcpy(g.in, ones.data(), most * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
		cuda(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking), "cudaStreamCreate");
	});
	for (size_t elements : { 1ul, 64ul, 256ul, 1024ul, 16384ul, 262144ul, 4194304ul, 67108864ul }) {
		int times = elements > 1000000 ? 10 : 50;
		capture(gpus, elements, times);
		double us = measure(gpus, times);
		float last = 0;
		cuda(cudaMemcpy(&last, gpus.back().out + elements - 1, sizeof(last), cudaMemcpyDeviceToHost), "cudaMemcpy");
		double bus = elements * 4.0 / us / 1e3 * 2 * (count - 1) / count;
		printf("{\"peer\":\"nccl\",\"version\":%d,\"gpus\":%d,\"elements\":%zu,\"us\":%.2f,\"bus_gbps\":%.1f,\"right\":%s}\n",
		       version, count, elements, us, bus, last == static_cast<float>(count) ? "true" : "false");
		fflush(stdout);
		each(gpus, [](gpu &g) { cuda(cudaGraphExecDestroy(g.graph), "cudaGraphExecDestroy"); });
	}
	return 0;
}
