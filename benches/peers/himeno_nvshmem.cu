// SPDX-License-Identifier: MIT OR Apache-2.0
// Himeno on NVSHMEM, for one process per GPU: RANK and SIZE in the environment, and NVSHMEM_ID a file that rank 0 writes. An
// iteration is a kernel whose first blocks wait for the neighbours' planes, compute the edges and send them, while the others
// compute, or two kernels beside each other; 100 of them are a CUDA graph. Rank 0 prints a JSON line per figure (README.md).
#include <nvshmem.h>
#include <nvshmemx.h>

#include "himeno_slice.cuh"
#include "nvshmem_meet.cuh"

namespace
{

enum form { stores, put_signal, stores_apart };
const char *const names[] = { "stores through nvshmem_ptr, signal_op", "put_signal_nbi_block",
			      "stores through nvshmem_ptr, signal_op, in a kernel beside" };

struct world {
	int self, nodes;
	cudaStream_t stream, edges;
	cudaEvent_t begin, end, forked, joined;
	uint64_t *signals;	/* symmetric: blocks' edges that came, of each side */
	uint64_t *done;		/* iterations before this graph */
	double *word;		/* symmetric: what one tells all */
};

/* What edges need of the neighbours. */
struct halo {
	unsigned sides, groups;
	struct {
		unsigned plane;		/* which is sent */
		int pe;
		float *there;		/* its place there, as a symmetric address */
		uint64_t *arrived;	/* counts the neighbour's blocks here */
		uint64_t *tell;		/* and mine there, as a symmetric address */
	} side[2];
};

/* A block of those that have edges, which are a kernel's first. */
template <form Form> __device__ void edge_block(const himeno_field &f, const halo &h, const uint64_t *done, unsigned step)
{
	auto side = h.side[blockIdx.x / h.groups];
	unsigned group = blockIdx.x % h.groups, rows = blockDim.x / 32 / f.tiles;
	// All blocks of the neighbour's iteration before: their planes are here, and they have read mine.
	if (threadIdx.x == 0)
		nvshmem_signal_wait_until(side.arrived, NVSHMEM_CMP_GE, (*done + step) * h.groups);
	__syncthreads();
	place at = place_of(f, group);
	if (at.y + 1 < f.y) {
		auto *there = static_cast<float *>(Form == stores ? nvshmem_ptr(side.there, side.pe) : nullptr);
		himeno::march(f, at.tile, at.y, side.plane, side.plane + 1, there);
	}
	__syncthreads();
	if (Form == stores) {
		if (threadIdx.x == 0) {
			__threadfence_system();
			nvshmemx_signal_op(side.tell, 1, NVSHMEM_SIGNAL_ADD, side.pe);
		}
	} else {
		unsigned first = 1 + group * rows, count = min(rows, f.y - 1 - first);
		nvshmemx_float_put_signal_nbi_block(side.there + size_t(first) * f.x,
						    f.out + side.plane * f.plane + size_t(first) * f.x, size_t(count) * f.x,
						    side.tell, 1, NVSHMEM_SIGNAL_ADD, side.pe);
	}
}

template <form Form>
__global__ void __launch_bounds__(most_threads, 2)
	iterate(himeno_field f, halo h, unsigned begin, unsigned end, unsigned each, const uint64_t *done, unsigned step)
{
	unsigned edges = h.sides * h.groups;
	if (blockIdx.x < edges)
		edge_block<Form>(f, h, done, step);
	else
		sweep_block(f, blockIdx.x - edges, h.groups, begin, end, each, step % 2);
}
__global__ void __launch_bounds__(most_threads, 2) edges(himeno_field f, halo h, const uint64_t *done, unsigned step)
{
	edge_block<stores>(f, h, done, step);
}
__global__ void count_iterations(uint64_t *done, unsigned more) { *done += more; }

halo halo_of(const world &w, const slice &s, int parity)
{
	halo h = { 0, s.groups(), {} };
	for (unsigned side : { 0u, 1u })
		if (s.has(side))
			h.side[h.sides++] = { s.edge(side), static_cast<int>(s.neighbour(side)),
					      s.p[1 - parity] + s.edge_there(side) * s.plane(), w.signals + side,
					      w.signals + 1 - side };
	return h;
}

template <form Form> void enqueue(const world &w, const slice &s, unsigned i)
{
	halo h = halo_of(w, s, i % 2);
	iterate<Form><<<h.sides * h.groups + s.inner_blocks(), s.cut.threads, 0, w.stream>>>(
		s.field(i % 2), h, s.inner_begin(), s.inner_end(), s.cut.planes, w.done, i);
	check(cudaGetLastError(), "an iteration");
}
template <> void enqueue<stores_apart>(const world &w, const slice &s, unsigned i)
{
	halo h = halo_of(w, s, i % 2);
	check(cudaEventRecord(w.forked, w.stream), "cudaEventRecord");
	check(cudaStreamWaitEvent(w.edges, w.forked), "cudaStreamWaitEvent");
	edges<<<h.sides * h.groups, s.cut.threads, 0, w.edges>>>(s.field(i % 2), h, w.done, i);
	check(cudaGetLastError(), "edges");
	sweep_inner(s, i % 2, w.stream);
	check(cudaEventRecord(w.joined, w.edges), "cudaEventRecord");
	check(cudaStreamWaitEvent(w.stream, w.joined), "cudaStreamWaitEvent");
}

template <form Form> cudaGraphExec_t graph_of(const world &w, const slice &s)
{
	cudaGraph_t graph;
	cudaGraphExec_t runs;
	check(cudaStreamBeginCapture(w.stream, cudaStreamCaptureModeThreadLocal), "capture");
	for (unsigned i = 0; i < in_graph; i++)
		enqueue<Form>(w, s, i);
	count_iterations<<<1, 1, 0, w.stream>>>(w.done, in_graph);
	check(cudaStreamEndCapture(w.stream, &graph), "capture");
	check(cudaGraphInstantiate(&runs, graph, cudaGraphInstantiateFlagUseNodePriority), "cudaGraphInstantiate");
	check(cudaGraphDestroy(graph), "cudaGraphDestroy");
	return runs;
}

double residual_of(const world &w, const slice &s)
{
	double sum = 0;
	for (int node = 0; node < w.nodes; node++)
		sum = told(w.word, w.self == node ? add_residual(s, sum) : 0, node);
	return sum;
}

void launch(const world &w, cudaGraphExec_t graph, int times)
{
	for (int i = 0; i < times; i += in_graph)
		check(cudaGraphLaunch(graph, w.stream), "cudaGraphLaunch");
}

template <form Form> void measure(const world &w, const slice &s, const char *version)
{
	cudaGraphExec_t graph = graph_of<Form>(w, s);
	std::vector<double> times;
	for (int run = 0; run < 5; run++) {
		nvshmem_barrier_all();
		begin_anew(s);
		nvshmem_barrier_all();
		check(cudaEventRecord(w.begin, w.stream), "cudaEventRecord");
		launch(w, graph, iterations);
		check(cudaEventRecord(w.end, w.stream), "cudaEventRecord");
		check(cudaEventSynchronize(w.end), "iterations");
		float ms;
		check(cudaEventElapsedTime(&ms, w.begin, w.end), "cudaEventElapsedTime");
		times.push_back(ms * 1e3 / iterations);
	}
	double residual = residual_of(w, s);
	std::string peer = std::string(version) + " " + names[Form];
	if (w.self == 0)
		say_himeno(peer.c_str(), s, median(times), residual);
	if (energy_seconds() > 0) {
		int chunk = std::max(1, static_cast<int>(0.2e6 / median(times) / in_graph)) * in_graph;
		auto some = [&] {
			launch(w, graph, chunk);
			check(cudaStreamSynchronize(w.stream), "iterations");
			return chunk;
		};
		auto agree = [&](bool more) { return told(w.word, more, 0) != 0; };
		work_for_energy(w.self == 0, (peer + ", Himeno " + s.whole.name()).c_str(), some, agree);
	}
	check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
}

void run(const world &w, const grid &g, const char *version, int only)
{
	slice s(g, w.nodes, w.self);
	s.allocate();
	for (float *&p : s.p) {
		p = static_cast<float *>(nvshmem_malloc(s.floats() * sizeof(float)));
		if (!p)
			fail("nvshmem_malloc", "no room: raise NVSHMEM_SYMMETRIC_SIZE");
	}
	begin_anew(s);
	tune(s, w.stream);
	// Blocks count each other's: all have the same shape.
	s.cut.threads = static_cast<unsigned>(told(w.word, s.cut.threads, 0));
	s.cut.planes = static_cast<unsigned>(told(w.word, s.cut.planes, 0));
	// Counts begin anew with the number of blocks.
	check(cudaMemset(w.signals, 0, 2 * sizeof(*w.signals)), "cudaMemset");
	check(cudaMemset(w.done, 0, sizeof(*w.done)), "cudaMemset");
	check(cudaDeviceSynchronize(), "cudaMemset");
	nvshmem_barrier_all();
	std::vector<double> alone;
	for (int run = 0; run < 3; run++)
		alone.push_back(compute_only(s, iterations, w.stream) * 1e3 / iterations);
	if (w.self == 0)
		fprintf(stderr, "%s: without communication %.3f us an iteration\n", g.name().c_str(), median(alone));
	if (only < 0 || only == stores)
		measure<stores>(w, s, version);
	if (only < 0 || only == put_signal)
		measure<put_signal>(w, s, version);
	if (only < 0 || only == stores_apart)
		measure<stores_apart>(w, s, version);
	nvshmem_barrier_all();
	s.release();
	nvshmem_free(s.p[1]);
	nvshmem_free(s.p[0]);
}

} // namespace

/* Arguments: himeno; and the numbers of a grid and of a form, or neither: all. */
int main(int count, char **words)
{
	world w = {};
	w.self = rank_here();
	w.nodes = ranks_here();
	check(cudaSetDevice(w.self), "cudaSetDevice");
	meet(w.self, w.nodes);
	int least, greatest;
	check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
	check(cudaStreamCreateWithPriority(&w.stream, cudaStreamNonBlocking, least), "cudaStreamCreate");
	check(cudaStreamCreateWithPriority(&w.edges, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
	for (cudaEvent_t *event : { &w.forked, &w.joined })
		check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
	check(cudaEventCreate(&w.begin), "cudaEventCreate");
	check(cudaEventCreate(&w.end), "cudaEventCreate");
	check(cudaMalloc(&w.done, sizeof(*w.done)), "cudaMalloc");
	w.signals = static_cast<uint64_t *>(nvshmem_calloc(2, sizeof(uint64_t)));
	w.word = static_cast<double *>(nvshmem_calloc(1, sizeof(double)));
	if (!w.signals || !w.word)
		fail("nvshmem_calloc", "no room");
	check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	nvshmem_barrier_all();
	std::vector<grid> all = grids(w.nodes);
	for (size_t i = 0; i < all.size(); i++)
		if (count < 4 || i == static_cast<size_t>(atoi(words[2])))
			run(w, all[i], library_version().c_str(), count < 4 ? -1 : atoi(words[3]));
	nvshmem_free(w.word);
	nvshmem_free(w.signals);
	nvshmem_finalize();
}
