// SPDX-License-Identifier: MIT OR Apache-2.0
// A node's part of Himeno's grid, for the programs that exchange its edges by other libraries: the computation is that of
// `ggas bench himeno` (benches/kernels/himeno.cuh), so that times differ by communication only.
#ifndef PEERS_HIMENO_SLICE_CUH
#define PEERS_HIMENO_SLICE_CUH

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "../kernels/himeno.cuh"
#include "peers.cuh"

namespace
{

/* Points of the whole grid. */
struct grid {
	unsigned x, y, z;

	size_t points() const { return size_t(x) * y * z; }
	std::string name() const
	{
		return std::to_string(x) + "x" + std::to_string(y) + "x" + std::to_string(z);
	}
};

/* One size for each GPU, and others for all of them together. */
std::vector<grid> grids(unsigned nodes)
{
	return { { 256, 256, 512 * nodes }, { 128, 128, 256 }, { 128, 128, 192 }, { 256, 256, 512 } };
}

constexpr int iterations = 1000;
/* Iterations of a graph, an even number: buffers take turns. */
constexpr int in_graph = 100;
constexpr unsigned most_threads = 256;

/* Threads of a block, which has whole rows, and planes that it marches over. */
struct shape {
	unsigned threads, planes;
};

/* Its planes are 1 to `planes`; 0 and planes + 1 are those of the neighbours: below, side 0, and above, side 1. */
struct slice {
	grid whole;
	unsigned nodes, self, planes;
	float *p[2], *coefficients;
	double *sums;
	shape cut;

	slice(grid g, unsigned nodes, unsigned self)
		: whole(g), nodes(nodes), self(self), planes(g.z / nodes), p(), coefficients(nullptr), sums(nullptr), cut()
	{
		if (g.z % nodes != 0 || planes < 3 || g.x % HIMENO_TILE != 0)
			fail(g.name().c_str(), "give each node as many planes, 3 or more, and rows of tiles");
	}
	unsigned tiles() const { return whole.x / HIMENO_TILE; }
	size_t plane() const { return size_t(whole.x) * whole.y; }
	size_t floats() const { return plane() * (planes + 2); }
	size_t sum_count() const { return size_t(planes + 2) * whole.y * tiles(); }
	bool has(unsigned side) const { return side == 0 ? self > 0 : self + 1 < nodes; }
	unsigned neighbour(unsigned side) const { return side == 0 ? self - 1 : self + 1; }
	/* The plane that the neighbour needs, its place there, and where the neighbour's comes here. */
	unsigned edge(unsigned side) const { return side == 0 ? 1 : planes; }
	unsigned edge_there(unsigned side) const { return side == 0 ? planes + 1 : 0; }
	unsigned ghost(unsigned side) const { return side == 0 ? 0 : planes + 1; }
	/* Planes that no neighbour needs, and that are not the grid's border. */
	unsigned inner_begin() const { return 2; }
	unsigned inner_end() const { return planes; }

	unsigned rows_of_block() const { return cut.threads / 32 / tiles(); }
	unsigned groups() const { return (whole.y - 2 + rows_of_block() - 1) / rows_of_block(); }
	unsigned inner_blocks() const { return groups() * slabs(inner_end() - inner_begin()); }
	/* What blocks march over one after another. */
	unsigned slabs(unsigned of_planes) const { return (of_planes + cut.planes - 1) / cut.planes; }
	himeno_field field(int parity) const
	{
		return { p[parity], p[1 - parity], coefficients, sums, plane(), floats(), whole.x, whole.y, whole.x, tiles(),
			 1, whole.x - 1, false };
	}
	/* The fields themselves are the library's. */
	void allocate()
	{
		check(cudaMalloc(&coefficients, 12 * floats() * sizeof(float)), "cudaMalloc of coefficients");
		check(cudaMalloc(&sums, sum_count() * sizeof(double)), "cudaMalloc of sums");
	}
	void release()
	{
		check(cudaFree(coefficients), "cudaFree");
		check(cudaFree(sums), "cudaFree");
	}
};

/* What a block marches over: its warps have all tiles of some rows. */
struct place {
	unsigned tile, y;
};
__device__ place place_of(const himeno_field &f, unsigned group)
{
	unsigned warp = threadIdx.x / 32, rows = blockDim.x / 32 / f.tiles;
	return { warp % f.tiles, 1 + group * rows + warp / f.tiles };
}

/*
 * `f.y - 2` rows by groups of them, planes [begin, end) by `each`. Every second iteration goes `back` from the last plane to the
 * first: what the one before read last is still in the L2 cache.
 */
__device__ void sweep_block(const himeno_field &f, unsigned block, unsigned groups, unsigned begin, unsigned end,
			    unsigned each, bool back)
{
	place at = place_of(f, block % groups);
	unsigned slab = block / groups, last = (end - begin - 1) / each;
	unsigned z = begin + (back ? last - slab : slab) * each;
	if (at.y + 1 < f.y)
		himeno::march(f, at.tile, at.y, z, min(z + each, end), nullptr);
}
__global__ void __launch_bounds__(most_threads, 2)
	sweep(himeno_field f, unsigned groups, unsigned begin, unsigned end, unsigned each, bool back)
{
	sweep_block(f, blockIdx.x, groups, begin, end, each, back);
}

/* Himeno's own data; `first`: the number of the grid's plane that is plane 0 here. */
__global__ void fill(float *one, float *other, float *coefficients, double *sums, size_t plane, size_t floats,
		     size_t sum_count, int first, int z_all)
{
	size_t begin = blockIdx.x * size_t(blockDim.x) + threadIdx.x, step = size_t(gridDim.x) * blockDim.x;
	float divisor = static_cast<float>((z_all - 1) * (z_all - 1));
	for (size_t i = begin; i < floats; i += step) {
		int z = first + static_cast<int>(i / plane);
		one[i] = other[i] = __fdiv_rn(static_cast<float>(z * z), divisor);
		/* a0-a3, b0-b2, c0-c2, bnd, wrk1 */
		for (int k = 0; k < 12; k++)
			coefficients[k * floats + i] = k == 3 ? __fdiv_rn(1.0f, 6.0f) : k >= 4 && k <= 6 || k == 11 ? 0.0f : 1.0f;
	}
	for (size_t i = begin; i < sum_count; i += step)
		sums[i] = 0.0;
}

void begin_anew(const slice &s)
{
	fill<<<1024, 256>>>(s.p[0], s.p[1], s.coefficients, s.sums, s.plane(), s.floats(), s.sum_count(),
			    static_cast<int>(s.self * s.planes) - 1, static_cast<int>(s.whole.z));
	check(cudaGetLastError(), "fill");
	check(cudaDeviceSynchronize(), "fill");
}

void sweep_inner(const slice &s, int parity, cudaStream_t stream)
{
	sweep<<<s.inner_blocks(), s.cut.threads, 0, stream>>>(s.field(parity), s.groups(), s.inner_begin(), s.inner_end(),
							      s.cut.planes, parity);
	check(cudaGetLastError(), "sweep of inner planes");
}
void sweep_edges(const slice &s, int parity, cudaStream_t stream)
{
	for (unsigned side : { 0u, 1u })
		if (s.has(side)) {
			sweep<<<s.groups(), s.cut.threads, 0, stream>>>(s.field(parity), s.groups(), s.edge(side),
									s.edge(side) + 1, 1, false);
			check(cudaGetLastError(), "sweep of an edge");
		}
}

/* Milliseconds of `times` iterations without communication, edges and inner planes by one kernel. */
float compute_only(const slice &s, int times, cudaStream_t stream)
{
	unsigned begin = s.self == 0 ? 2 : 1, end = s.self + 1 == s.nodes ? s.planes : s.planes + 1;
	unsigned blocks = s.groups() * s.slabs(end - begin);
	cudaEvent_t from, to;
	check(cudaEventCreate(&from), "cudaEventCreate");
	check(cudaEventCreate(&to), "cudaEventCreate");
	check(cudaEventRecord(from, stream), "cudaEventRecord");
	for (int i = 0; i < times; i++)
		sweep<<<blocks, s.cut.threads, 0, stream>>>(s.field(i % 2), s.groups(), begin, end, s.cut.planes, i % 2);
	check(cudaGetLastError(), "sweep");
	check(cudaEventRecord(to, stream), "cudaEventRecord");
	check(cudaEventSynchronize(to), "sweep");
	float ms;
	check(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
	check(cudaEventDestroy(from), "cudaEventDestroy");
	check(cudaEventDestroy(to), "cudaEventDestroy");
	return ms;
}

/* The shape that is quickest without communication. */
void tune(slice &s, cudaStream_t stream)
{
	float least = 1e30f;
	shape best = {};
	for (unsigned threads : { 128u, most_threads })
		for (unsigned planes : { 1u, 2u, 4u, 8u, 16u, 32u }) {
			if (threads / 32 < s.tiles())
				continue;
			s.cut = { threads, planes };
			compute_only(s, 2, stream);
			float ms = compute_only(s, 20, stream);
			if (ms < least)
				least = ms, best = s.cut;
		}
	s.cut = best;
}

/* Adds this node's parts of the residual to `sum`, in their order. */
double add_residual(const slice &s, double sum)
{
	std::vector<double> parts(s.sum_count());
	check(cudaMemcpy(parts.data(), s.sums, parts.size() * sizeof(double), cudaMemcpyDeviceToHost), "cudaMemcpy of sums");
	for (double part : parts)
		sum += part;
	return sum;
}

double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

/* A line for `--peer`; `us` of an iteration. */
void say_himeno(const char *peer, const slice &s, double us, double residual)
{
	printf("{\"peer\": \"%s\", \"bench\": \"himeno\", \"nodes\": %u, \"elements\": %zu, \"value\": %.3f, \"unit\": \"us\", "
	       "\"grid\": \"%s\", \"threads\": %u, \"planes\": %u, \"residual\": %.17g}\n",
	       peer, s.nodes, s.whole.points(), us, s.whole.name().c_str(), s.cut.threads, s.cut.planes, residual);
	fflush(stdout);
}

} // namespace

#endif
