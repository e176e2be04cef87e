// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs for NCCL share. libnccl.so.2 is loaded when they run, so they compile where NCCL is not installed.
#ifndef PEERS_NCCL_CUH
#define PEERS_NCCL_CUH

#include <dlfcn.h>

#include <cstddef>

#include "peers.cuh"

namespace
{

// As in nccl.h, which never changed them.
using comm = struct ncclComm *;
constexpr int uint64_type = 5, float_type = 7, double_type = 8, sum_op = 0;
int (*get_version)(int *);
int (*init_all)(comm *, int, const int *);
int (*all_reduce)(const void *, void *, size_t, int, int, comm, cudaStream_t);
int (*send)(const void *, size_t, int, int, comm, cudaStream_t);
int (*receive)(void *, size_t, int, int, comm, cudaStream_t);
int (*group_start)();
int (*group_end)();
// Memory that the library can map for all GPUs, since 2.19, and windows of it, since 2.27. Null where they are not there.
int (*memory_allocate)(void **, size_t);
int (*memory_free)(void *);
int (*window_register)(comm, void *, size_t, void **, int);
int (*window_deregister)(comm, void *);
constexpr int symmetric_window = 1;

void nccl(int error, const char *what)
{
	if (error != 0)
		fail(what, "NCCL refused; NCCL_DEBUG=INFO says why");
}
template <class F> void try_load(void *library, F &function, const char *name)
{
	function = reinterpret_cast<F>(dlsym(library, name));
}
template <class F> void load(void *library, F &function, const char *name)
{
	try_load(library, function, name);
	if (!function)
		fail(name, "not in libnccl.so.2");
}

// Gives its version.
int load_nccl()
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW);
	if (!library)
		fail("libnccl.so.2", dlerror());
	load(library, get_version, "ncclGetVersion");
	load(library, init_all, "ncclCommInitAll");
	load(library, all_reduce, "ncclAllReduce");
	load(library, send, "ncclSend");
	load(library, receive, "ncclRecv");
	load(library, group_start, "ncclGroupStart");
	load(library, group_end, "ncclGroupEnd");
	try_load(library, memory_allocate, "ncclMemAlloc");
	try_load(library, memory_free, "ncclMemFree");
	try_load(library, window_register, "ncclCommWindowRegister");
	try_load(library, window_deregister, "ncclCommWindowDeregister");
	int version = 0;
	nccl(get_version(&version), "ncclGetVersion");
	return version;
}

} // namespace

#endif
