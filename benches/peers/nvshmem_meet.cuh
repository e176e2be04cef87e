// SPDX-License-Identifier: MIT OR Apache-2.0
// How the processes of a program for NVSHMEM meet: RANK, SIZE and NVSHMEM_ID, a file that rank 0 writes.
#ifndef PEERS_NVSHMEM_MEET_CUH
#define PEERS_NVSHMEM_MEET_CUH

#include <nvshmem.h>
#include <nvshmemx.h>
#include <unistd.h>

#include <string>

#include "peers.cuh"

namespace
{

const char *setting(const char *name)
{
	const char *text = getenv(name);
	if (!text)
		fail(name, "set RANK, SIZE and NVSHMEM_ID (a file that is not there yet)");
	return text;
}
int rank_here() { return atoi(setting("RANK")); }
int ranks_here() { return atoi(setting("SIZE")); }

void write_id(const std::string &file, const nvshmemx_uniqueid_t &id)
{
	std::string fresh = file + ".new";
	FILE *out = fopen(fresh.c_str(), "wb");
	if (!out || fwrite(&id, sizeof(id), 1, out) != 1 || fclose(out) != 0 || rename(fresh.c_str(), file.c_str()) != 0)
		fail(file.c_str(), "cannot be written");
}
void read_id(const std::string &file, nvshmemx_uniqueid_t &id)
{
	FILE *in;
	while (!(in = fopen(file.c_str(), "rb")))
		usleep(1000);
	if (fread(&id, sizeof(id), 1, in) != 1)
		fail(file.c_str(), "is too short");
	fclose(in);
}

void meet(int self, int nodes)
{
	std::string file = setting("NVSHMEM_ID");
	nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
	if (self == 0) {
		if (nvshmemx_get_uniqueid(&id))
			fail("nvshmemx_get_uniqueid", "NVSHMEM_DEBUG=INFO says why");
		write_id(file, id);
	} else {
		read_id(file, id);
	}
	nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
	if (nvshmemx_set_attr_uniqueid_args(self, nodes, &id, &attributes) ||
	    nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes))
		fail("nvshmemx_init_attr", "NVSHMEM_DEBUG=INFO says why");
}

/* What `teller` says, at all of them; `word` is symmetric. */
double told(double *word, double value, int teller)
{
	nvshmem_barrier_all();
	if (nvshmem_my_pe() == teller)
		for (int pe = 0; pe < nvshmem_n_pes(); pe++)
			check(cudaMemcpy(nvshmem_ptr(word, pe), &value, sizeof(value), cudaMemcpyDefault),
			      "cudaMemcpy of a word");
	nvshmem_barrier_all();
	double said;
	check(cudaMemcpy(&said, word, sizeof(said), cudaMemcpyDeviceToHost), "cudaMemcpy of a word");
	return said;
}

/* Of the library that runs, which need not be that of the headers. */
std::string library_version()
{
	int major, minor, patch;
	nvshmemx_vendor_get_version_info(&major, &minor, &patch);
	return "NVSHMEM " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

} // namespace

#endif
