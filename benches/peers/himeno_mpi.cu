// SPDX-License-Identifier: MIT OR Apache-2.0
// Himeno on MPI, a process per GPU, rank r on GPU r of the host. An iteration computes the edges on a stream of high priority,
// and while the inner planes are computed on another, the host sends the edges. With the argument `direct` it hands pointers to
// GPU memory to MPI, which has to take them; with `staged` it copies through pinned memory. Rank 0 prints a JSON line per
// figure (README.md).
//
//	nvcc -O3 -std=c++17 -arch=native -I ../../kernels/include -o himeno_mpi himeno_mpi.cu -lmpi
#include <mpi.h>

#include <cstring>

#include "himeno_slice.cuh"

namespace
{

void mpi(int error, const char *what)
{
	if (error != MPI_SUCCESS)
		fail(what, "MPI refused");
}

struct world {
	int self, nodes;
	bool staged;
	cudaStream_t inner, edges;
	cudaEvent_t inner_done, edges_done;
	float *out[2], *in[2]; /* pinned, of each side, where copies are staged */
};

void copy(float *to, const float *from, size_t floats, cudaStream_t stream)
{
	check(cudaMemcpyAsync(to, from, floats * sizeof(float), cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

/* The edges that were just computed go, and the neighbours' come. */
void exchange(const world &w, const slice &s, float *p)
{
	MPI_Request requests[4];
	int count = 0;
	// Buffers are free once what came in them was copied, in front of these edges.
	if (w.staged)
		check(cudaEventSynchronize(w.edges_done), "edges");
	for (unsigned side : { 0u, 1u })
		if (s.has(side)) {
			float *in = w.staged ? w.in[side] : p + s.ghost(side) * s.plane();
			mpi(MPI_Irecv(in, static_cast<int>(s.plane()), MPI_FLOAT, static_cast<int>(s.neighbour(side)), 0,
				      MPI_COMM_WORLD, &requests[count++]),
			    "MPI_Irecv");
		}
	check(cudaEventSynchronize(w.edges_done), "edges");
	for (unsigned side : { 0u, 1u })
		if (s.has(side)) {
			const float *out = w.staged ? w.out[side] : p + s.edge(side) * s.plane();
			mpi(MPI_Isend(out, static_cast<int>(s.plane()), MPI_FLOAT, static_cast<int>(s.neighbour(side)), 0,
				      MPI_COMM_WORLD, &requests[count++]),
			    "MPI_Isend");
		}
	mpi(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void iterate(const world &w, const slice &s, int parity)
{
	float *p = s.p[1 - parity];
	// Edges need the inner planes of the iteration before, and these the edges.
	check(cudaStreamWaitEvent(w.edges, w.inner_done), "cudaStreamWaitEvent");
	check(cudaStreamWaitEvent(w.inner, w.edges_done), "cudaStreamWaitEvent");
	sweep_edges(s, parity, w.edges);
	for (unsigned side : { 0u, 1u })
		if (w.staged && s.has(side))
			copy(w.out[side], p + s.edge(side) * s.plane(), s.plane(), w.edges);
	check(cudaEventRecord(w.edges_done, w.edges), "cudaEventRecord");
	sweep_inner(s, parity, w.inner);
	check(cudaEventRecord(w.inner_done, w.inner), "cudaEventRecord");
	exchange(w, s, p);
	for (unsigned side : { 0u, 1u })
		if (w.staged && s.has(side))
			copy(p + s.ghost(side) * s.plane(), w.in[side], s.plane(), w.edges);
}

void iterate_all(const world &w, const slice &s, int times)
{
	for (int i = 0; i < times; i++)
		iterate(w, s, i % 2);
	check(cudaDeviceSynchronize(), "iterations");
}

double residual_of(const world &w, const slice &s)
{
	double sum = 0;
	for (int node = 0; node < w.nodes; node++) {
		if (w.self == node)
			sum = add_residual(s, sum);
		mpi(MPI_Bcast(&sum, 1, MPI_DOUBLE, node, MPI_COMM_WORLD), "MPI_Bcast");
	}
	return sum;
}

void measure(const world &w, const slice &s, const char *peer)
{
	std::vector<double> times;
	for (int run = 0; run < 5; run++) {
		begin_anew(s);
		mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
		double begin = seconds_now();
		iterate_all(w, s, iterations);
		mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
		times.push_back((seconds_now() - begin) * 1e6 / iterations);
	}
	double residual = residual_of(w, s);
	if (w.self == 0)
		say_himeno(peer, s, median(times), residual);
	if (energy_seconds() <= 0)
		return;
	int chunk = std::max(1, static_cast<int>(0.2e6 / median(times))) * 2;
	mpi(MPI_Bcast(&chunk, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
	auto some = [&] {
		iterate_all(w, s, chunk);
		return chunk;
	};
	auto agree = [](int more) {
		mpi(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
		return more != 0;
	};
	work_for_energy(w.self == 0, (std::string(peer) + ", Himeno " + s.whole.name()).c_str(), some, agree);
}

void run(world &w, const grid &g, const char *peer)
{
	slice s(g, static_cast<unsigned>(w.nodes), static_cast<unsigned>(w.self));
	s.allocate();
	for (float *&p : s.p)
		check(cudaMalloc(&p, s.floats() * sizeof(float)), "cudaMalloc of a field");
	for (unsigned side : { 0u, 1u })
		for (float **buffer : { &w.out[side], &w.in[side] })
			check(cudaMallocHost(buffer, s.plane() * sizeof(float)), "cudaMallocHost");
	begin_anew(s);
	tune(s, w.inner);
	measure(w, s, peer);
	mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
	for (unsigned side : { 0u, 1u })
		for (float *buffer : { w.out[side], w.in[side] })
			check(cudaFreeHost(buffer), "cudaFreeHost");
	for (float *p : s.p)
		check(cudaFree(p), "cudaFree");
	s.release();
}

/* Name and version up to the first comma or line's end. */
std::string library_version()
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;
	mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
	text[strcspn(text, ",\n")] = 0;
	return text;
}

} // namespace

/* Arguments: direct or staged; and a number of a grid, or none: all. */
int main(int count, char **words)
{
	world w = {};
	w.staged = count > 1 && strcmp(words[1], "staged") == 0;
	if (!w.staged && (count < 2 || strcmp(words[1], "direct") != 0))
		fail("himeno_mpi", "say direct or staged");
	// The library looks for GPUs when it begins: a context is to be there.
	const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
	check(cudaSetDevice(local ? atoi(local) : 0), "cudaSetDevice");
	check(cudaFree(nullptr), "cudaFree");
	mpi(MPI_Init(&count, &words), "MPI_Init");
	mpi(MPI_Comm_rank(MPI_COMM_WORLD, &w.self), "MPI_Comm_rank");
	mpi(MPI_Comm_size(MPI_COMM_WORLD, &w.nodes), "MPI_Comm_size");
	check(cudaSetDevice(w.self), "cudaSetDevice");
	int least, greatest;
	check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
	check(cudaStreamCreateWithPriority(&w.inner, cudaStreamNonBlocking, least), "cudaStreamCreate");
	check(cudaStreamCreateWithPriority(&w.edges, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
	for (cudaEvent_t *event : { &w.inner_done, &w.edges_done })
		check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
	std::string peer = library_version() + (w.staged ? ", through pinned memory" : ", from GPU memory");
	std::vector<grid> all = grids(static_cast<unsigned>(w.nodes));
	for (size_t i = 0; i < all.size(); i++)
		if (count < 3 || i == static_cast<size_t>(atoi(words[2])))
			run(w, all[i], peer.c_str());
	mpi(MPI_Finalize(), "MPI_Finalize");
}
