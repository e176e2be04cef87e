// SPDX-License-Identifier: MIT OR Apache-2.0
// Himeno on NCCL: all GPUs of this host, one process. An iteration computes the edges on a stream of high priority, which
// then sends them and receives the neighbours', while the inner planes are computed on another; 100 of them are a CUDA
// graph. Prints a JSON line per figure (README.md). NVLink multicast stays off (NCCL_NVLS_ENABLE=0): it can take a shared
// host's GPUs out of service.
//
//	nvcc -O3 -std=c++17 -arch=native -I ../../kernels/include -o himeno_nccl himeno_nccl.cu -ldl
#include "himeno_slice.cuh"
#include "nccl.cuh"

namespace
{

struct node {
	slice s;
	cudaStream_t inner, edges;
	cudaEvent_t forked, joined, begin, end;
	comm nccl;
	void *windows[2];
	cudaGraph_t captured;
	cudaGraphExec_t graph;

	node(const grid &g, unsigned nodes, unsigned self) : s(g, nodes, self), windows() {}
};

template <class F> void each(std::vector<node> &nodes, const F &f)
{
	for (node &n : nodes) {
		check(cudaSetDevice(static_cast<int>(n.s.self)), "cudaSetDevice");
		f(n);
	}
}

void open(node &n)
{
	int least, greatest;
	check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
	check(cudaStreamCreateWithPriority(&n.inner, cudaStreamNonBlocking, least), "cudaStreamCreate");
	check(cudaStreamCreateWithPriority(&n.edges, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
	for (cudaEvent_t *event : { &n.forked, &n.joined })
		check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
	for (cudaEvent_t *event : { &n.begin, &n.end })
		check(cudaEventCreate(event), "cudaEventCreate");
	n.s.allocate();
	for (float *&p : n.s.p) {
		void *memory = nullptr;
		if (memory_allocate)
			nccl(memory_allocate(&memory, n.s.floats() * sizeof(float)), "ncclMemAlloc");
		else
			check(cudaMalloc(&memory, n.s.floats() * sizeof(float)), "cudaMalloc");
		p = static_cast<float *>(memory);
	}
}

void close(node &n)
{
	for (float *p : n.s.p)
		if (memory_allocate)
			nccl(memory_free(p), "ncclMemFree");
		else
			check(cudaFree(p), "cudaFree");
	n.s.release();
	for (cudaEvent_t event : { n.forked, n.joined, n.begin, n.end })
		check(cudaEventDestroy(event), "cudaEventDestroy");
	check(cudaStreamDestroy(n.inner), "cudaStreamDestroy");
	check(cudaStreamDestroy(n.edges), "cudaStreamDestroy");
}

void exchange(node &n, int parity)
{
	const slice &s = n.s;
	float *p = s.p[1 - parity];
	for (unsigned side : { 0u, 1u })
		if (s.has(side)) {
			int other = static_cast<int>(s.neighbour(side));
			nccl(send(p + s.edge(side) * s.plane(), s.plane(), float_type, other, n.nccl, n.edges), "ncclSend");
			nccl(receive(p + s.ghost(side) * s.plane(), s.plane(), float_type, other, n.nccl, n.edges),
			     "ncclRecv");
		}
}

void exchange_all(std::vector<node> &nodes, int parity)
{
	nccl(group_start(), "ncclGroupStart");
	for (node &n : nodes)
		exchange(n, parity);
	nccl(group_end(), "ncclGroupEnd");
}

void capture(std::vector<node> &nodes)
{
	each(nodes, [](node &n) {
		check(cudaStreamBeginCapture(n.inner, cudaStreamCaptureModeThreadLocal), "capture");
	});
	for (int i = 0; i < in_graph; i++) {
		each(nodes, [&](node &n) {
			check(cudaEventRecord(n.forked, n.inner), "cudaEventRecord");
			check(cudaStreamWaitEvent(n.edges, n.forked), "cudaStreamWaitEvent");
			sweep_edges(n.s, i % 2, n.edges);
		});
		exchange_all(nodes, i % 2);
		each(nodes, [&](node &n) {
			sweep_inner(n.s, i % 2, n.inner);
			check(cudaEventRecord(n.joined, n.edges), "cudaEventRecord");
			check(cudaStreamWaitEvent(n.inner, n.joined), "cudaStreamWaitEvent");
		});
	}
	// No graph may be instantiated while a stream of this thread still captures.
	each(nodes, [](node &n) { check(cudaStreamEndCapture(n.inner, &n.captured), "capture"); });
	each(nodes, [](node &n) {
		check(cudaGraphInstantiate(&n.graph, n.captured, cudaGraphInstantiateFlagUseNodePriority), "cudaGraphInstantiate");
		check(cudaGraphDestroy(n.captured), "cudaGraphDestroy");
	});
}

void launch(std::vector<node> &nodes, int times)
{
	for (int i = 0; i < times; i += in_graph)
		each(nodes, [](node &n) { check(cudaGraphLaunch(n.graph, n.inner), "cudaGraphLaunch"); });
}
void finish(std::vector<node> &nodes)
{
	each(nodes, [](node &n) { check(cudaStreamSynchronize(n.inner), "iterations"); });
}

/* Microseconds of an iteration, of the slowest GPU. */
double time_of(std::vector<node> &nodes)
{
	each(nodes, [](node &n) { begin_anew(n.s); });
	each(nodes, [](node &n) { check(cudaEventRecord(n.begin, n.inner), "cudaEventRecord"); });
	launch(nodes, iterations);
	each(nodes, [](node &n) { check(cudaEventRecord(n.end, n.inner), "cudaEventRecord"); });
	finish(nodes);
	float most = 0;
	each(nodes, [&](node &n) {
		float ms;
		check(cudaEventElapsedTime(&ms, n.begin, n.end), "cudaEventElapsedTime");
		most = std::max(most, ms);
	});
	return most * 1e3 / iterations;
}

void measure(std::vector<node> &nodes, const std::string &peer)
{
	// The first exchange makes connections, which no capture should have to.
	exchange_all(nodes, 0);
	each(nodes, [](node &n) { check(cudaStreamSynchronize(n.edges), "a first exchange"); });
	capture(nodes);
	std::vector<double> times;
	for (int run = 0; run < 5; run++)
		times.push_back(time_of(nodes));
	double residual = 0;
	each(nodes, [&](node &n) { residual = add_residual(n.s, residual); });
	const slice &s = nodes.front().s;
	say_himeno(peer.c_str(), s, median(times), residual);
	if (energy_seconds() > 0) {
		int chunk = std::max(1, static_cast<int>(0.2e6 / median(times) / in_graph)) * in_graph;
		auto some = [&] {
			launch(nodes, chunk);
			finish(nodes);
			return chunk;
		};
		work_for_energy(true, (peer + ", Himeno " + s.whole.name()).c_str(), some, [](bool more) { return more; });
	}
	each(nodes, [](node &n) { check(cudaGraphExecDestroy(n.graph), "cudaGraphExecDestroy"); });
}

void window(std::vector<node> &nodes, int which, bool begins)
{
	nccl(group_start(), "ncclGroupStart");
	each(nodes, [&](node &n) {
		if (begins)
			nccl(window_register(n.nccl, n.s.p[which], n.s.floats() * sizeof(float), &n.windows[which],
					     symmetric_window),
			     "ncclCommWindowRegister");
		else
			nccl(window_deregister(n.nccl, n.windows[which]), "ncclCommWindowDeregister");
	});
	nccl(group_end(), "ncclGroupEnd");
}

void run(const grid &g, const std::vector<comm> &comms, const std::string &version, int only)
{
	std::vector<node> nodes;
	for (unsigned self = 0; self < comms.size(); self++)
		nodes.emplace_back(g, static_cast<unsigned>(comms.size()), self);
	each(nodes, [&](node &n) {
		n.nccl = comms[n.s.self];
		open(n);
		begin_anew(n.s);
	});
	check(cudaSetDevice(0), "cudaSetDevice");
	tune(nodes.front().s, nodes.front().inner);
	for (node &n : nodes)
		n.s.cut = nodes.front().s.cut;
	if (only != 1)
		measure(nodes, version + " send, recv");
	if (only != 0 && window_register && memory_allocate) {
		for (int which : { 0, 1 })
			window(nodes, which, true);
		measure(nodes, version + " send, recv, symmetric windows");
		for (int which : { 1, 0 })
			window(nodes, which, false);
	}
	each(nodes, close);
}

} // namespace

/* Arguments: himeno; and the numbers of a grid and of a form, or neither: all. */
int main(int count, char **words)
{
	int gpus = 0, v = load_nccl();
	std::string version = "NCCL " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
	check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
	std::vector<comm> comms(static_cast<size_t>(gpus));
	nccl(init_all(comms.data(), gpus, nullptr), "ncclCommInitAll");
	std::vector<grid> all = grids(static_cast<unsigned>(gpus));
	for (size_t i = 0; i < all.size(); i++)
		if (count < 4 || i == static_cast<size_t>(atoi(words[2])))
			run(all[i], comms, version, count < 4 ? -1 : atoi(words[3]));
}
