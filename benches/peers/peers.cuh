// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs share: errors, time, and the marks by which `ggas energy` finds their work.
#ifndef PEERS_CUH
#define PEERS_CUH

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace
{

void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}
void check(cudaError_t error, const char *what)
{
	if (error != cudaSuccess)
		fail(what, cudaGetErrorString(error));
}

double seconds_now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* Seconds for which work goes on whose energy is counted, by PEERS_SECONDS; 0: none is. */
double energy_seconds()
{
	const char *text = getenv("PEERS_SECONDS");
	return text ? atof(text) : 0;
}

/*
 * Work until these seconds are over, between marks that `first` alone prints. `chunk` does some of it, waits for its end,
 * and gives the number of operations; `agree` gives all processes the answer of the first one.
 */
template <class Chunk, class Agree>
void work_for_energy(bool first, const char *what, const Chunk &chunk, const Agree &agree)
{
	double operations = 0;
	chunk();
	if (first)
		printf("{\"begin\": \"%s\"}\n", what);
	fflush(stdout);
	for (double begin = seconds_now(); agree(seconds_now() - begin < energy_seconds());)
		operations += chunk();
	if (first)
		printf("{\"end\": \"%s\", \"operations\": %.0f}\n", what, operations);
	fflush(stdout);
}

} // namespace

#endif
