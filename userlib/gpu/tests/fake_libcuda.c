/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A libcuda of two GPUs whose memory is host memory: enough of the driver for
 * memory that processes pass to each other, and for copies by the copy engines,
 * which are done at once. Of kernels there is one, which does nothing, and lasts
 * as long as streams are not ready. With FAKE_COPIER in the environment it is the
 * copier, of which a thread does what is short.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../kernels/include/ggas/impl/atomic_ops.h"
#include "../../../kernels/src/copier.h"

typedef unsigned long long u64;
enum { OK = 0, INVALID = 1, GRANULARITY = 2 << 20 };

/* Live handles and mappings: fake_live() is 0 once everything was given back. */
static int live;
int fake_live(void) { return live; }

/* What streams give from fake_fail() on: 0: success. 600, CUDA_ERROR_NOT_READY: work is taken, and not done. */
static int failing;
void fake_fail(int error) { failing = error; }
static int fails(void) { return failing == 600 ? OK : failing; }

int cuDriverGetVersion(int *v) { *v = 13000; return OK; }
int cuDeviceGetCount(int *n) { *n = 2; return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < 2 ? OK : INVALID; }
/* 103: CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED. */
int cuDeviceGetAttribute(int *value, int which, int device)
{
	*value = which != 103 || getenv("FAKE_NO_HANDLES") == NULL;
	return OK;
}
int cuDeviceGetName(char *text, int len, int device) { strcpy(text, "fake"); return OK; }
int cuDeviceGetPCIBusId(char *text, int len, int device) { strcpy(text, "0"); return OK; }
int cuDeviceGetUuid_v2(unsigned char *id, int device) { memset(id, device, 16); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1 << 30; return OK; }
/* With FAKE_APART in the environment the two do not reach each other. */
int cuDeviceCanAccessPeer(int *yes, int from, int to) { *yes = getenv("FAKE_APART") == NULL; return OK; }
int cuDeviceGetP2PAttribute(int *value, int which, int from, int to) { *value = 1; return OK; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(device + 1L); return OK; }
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
	static long streams;
	*stream = (void *)__sync_add_and_fetch(&streams, 1);
	return OK;
}
int cuGetErrorName(int error, const char **text) { *text = "CUDA_ERROR_FAKE"; return OK; }
int cuGetErrorString(int error, const char **text) { *text = "fake"; return OK; }

/* Host memory with locked pages, which is not zero at first, and how many such pieces there are. */
static int pinned;
int fake_pinned(void) { return pinned; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	if (posix_memalign(memory, 4096, bytes))
		return INVALID;
	memset(*memory, 0xee, bytes);
	pinned++;
	return OK;
}
int cuMemFreeHost(void *memory) { free(memory); pinned--; return OK; }

/* The context that is current to a thread: its GPU's number, plus one. */
static __thread long current;
/* The driver's own calls of the kernel may fail, whatever it returns. */
int cuCtxSetCurrent(void *context) { current = (long)context; errno = ENOTTY; return OK; }
int cuCtxGetCurrent(void **context) { *context = (void *)current; return OK; }

/* Memory of GPUs: files in memory, which other processes open by their number. */
static struct memory { u64 address; size_t bytes; int fd, gpu; u64 id; } memories[4096];

static struct memory *memory_at(u64 address)
{
	for (struct memory *of = memories; of < memories + 4096; of++)
		if (of->bytes && address >= of->address && address - of->address < of->bytes)
			return of;
	return NULL;
}

static int memory_of(int fd, u64 *address, size_t bytes)
{
	static u64 ids;
	struct memory *free = memories;
	void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	while (__sync_val_compare_and_swap(&free->bytes, 0, bytes))
		free++;
	*address = free->address = (u64)mapped;
	free->fd = fd;
	free->gpu = current ? current - 1 : 0;
	free->id = __sync_add_and_fetch(&ids, 1);
	return mapped == MAP_FAILED ? INVALID : OK;
}
int cuMemAlloc_v2(u64 *memory, size_t bytes)
{
	int fd = memfd_create("gpu", MFD_CLOEXEC);
	bytes = (bytes + 4095) & ~4095ul;
	return ftruncate(fd, (off_t)bytes) ? INVALID : memory_of(fd, memory, bytes);
}
int cuMemFree_v2(u64 memory)
{
	struct memory *old = memory_at(memory);
	if (!old || old->address != memory)
		return INVALID;
	close(old->fd);
	munmap((void *)memory, old->bytes);
	old->address = 0;
	__sync_lock_release(&old->bytes);
	return OK;
}
int cuMemGetAddressRange_v2(u64 *base, size_t *bytes, u64 address)
{
	struct memory *of = memory_at(address);
	if (!of)
		return INVALID;
	*base = of->address;
	*bytes = of->bytes;
	return OK;
}
/*
 * 2: CU_POINTER_ATTRIBUTE_MEMORY_TYPE, whose 2 is a GPU's; 7: _BUFFER_ID; 9: _DEVICE_ORDINAL; 10: _IS_LEGACY_CUDA_IPC_CAPABLE, with FAKE_IPC in
 * the environment only.
 */
int cuPointerGetAttribute(void *value, int which, u64 address)
{
	struct memory *of = memory_at(address);
	if (!of)
		return INVALID;
	if (which == 7)
		*(u64 *)value = of->id;
	else if (which == 10)
		*(unsigned *)value = getenv("FAKE_IPC") != NULL;
	else
		*(unsigned *)value = which == 2 ? 2 : which == 9 ? of->gpu : 1;
	return OK;
}

/* Allocations, those of other processes that are open here among them. */
int fake_memories(void)
{
	int count = 0;
	for (struct memory *of = memories; of < memories + 4096; of++)
		count += of->bytes != 0;
	return count;
}

/* What a handle of IPC says: whose file it is. None of them opens with FAKE_NONE_OPENS in the environment. */
struct handle { union { struct { u64 bytes; int process, fd; } of; char reserved[64]; }; };
static int opened;
int fake_opened(void) { return opened; }

int cuIpcGetMemHandle(struct handle *handle, u64 base)
{
	struct memory *of = memory_at(base);
	if (!of || of->address != base)
		return INVALID;
	memset(handle, 0, sizeof *handle);
	handle->of.bytes = of->bytes;
	handle->of.process = getpid();
	handle->of.fd = of->fd;
	return OK;
}
int cuIpcOpenMemHandle_v2(u64 *base, struct handle handle, unsigned flags)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.of.process, handle.of.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || handle.of.process == getpid() || getenv("FAKE_NONE_OPENS"))
		return INVALID;
	opened++;
	return memory_of(fd, base, handle.of.bytes);
}
int cuIpcCloseMemHandle(u64 base) { opened--; return cuMemFree_v2(base); }

/* Host memory that is registered. */
static struct registered { void *start; size_t bytes; } registered[256];

int cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags)
{
	for (struct registered *at = registered; at < registered + 256; at++)
		if (__sync_bool_compare_and_swap(&at->start, NULL, start)) {
			at->bytes = bytes;
			return OK;
		}
	return INVALID;
}
int cuMemHostUnregister(void *start)
{
	for (struct registered *at = registered; at < registered + 256; at++)
		if (at->start == start) {
			at->start = NULL;
			return OK;
		}
	return INVALID;
}
/* Ranges that are registered; the sum of 1,000 for each that is not memory any more. */
int fake_registered(void)
{
	int count = 0;
	for (struct registered *at = registered; at < registered + 256; at++) {
		unsigned char seen[1];
		if (at->start)
			count += mincore(at->start, 4096, seen) ? 1001 : 1;
	}
	return count;
}

/* The copier: runs of it, the stream of the last one, and whether that runs. While it is held it takes no commands. */
static struct ggas_copier_args copier_args;
static void *copier_stream;
static int copier_runs, copier_started, copier_held;
int fake_copiers(void) { return copier_started; }
void fake_hold(int hold) { __atomic_store_n(&copier_held, hold, __ATOMIC_RELEASE); }

static u64 changed(unsigned operation, u64 old, u64 v, u64 expected)
{
	switch (operation) {
	case GGAS_ATOMIC_ADD: return old + v;
	case GGAS_ATOMIC_EXCH: return v;
	case GGAS_ATOMIC_CAS: return old == expected ? v : old;
	default: abort();
	}
}
static u64 change(const struct ggas_copier_unit *unit)
{
	u64 v = unit[1].word, expected = unit[2].word, at = unit[0].word;
	if (unit[0].low == 8) {
		u64 old = *(u64 *)at;
		while (!__atomic_compare_exchange_n((u64 *)at, &old, changed(unit[2].low, old, v, expected), 0, __ATOMIC_SEQ_CST,
						    __ATOMIC_SEQ_CST))
			;
		return old;
	}
	uint32_t old = *(uint32_t *)at;
	while (!__atomic_compare_exchange_n((uint32_t *)at, &old, (uint32_t)changed(unit[2].low, old, (uint32_t)v, v >> 32), 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return old;
}
/* Takes command `number`, if it is there; 0: the ring ends with it. */
static int take(struct ggas_copier_ring *ring, uint64_t *number)
{
	uint64_t place = *number % GGAS_COPIER_ENTRIES;
	struct ggas_copier_unit *unit = ring->entry[place].unit;
	for (int i = 0; i < 4; i++)
		if (__atomic_load_n(&unit[i].tag, __ATOMIC_ACQUIRE) != (uint32_t)(*number + 1))
			return 1;
	switch (unit[1].low) {
	case GGAS_COPIER_COPY:
	case GGAS_COPIER_MOVE:
		memmove((void *)unit[0].word, (void *)unit[1].word, unit[0].low);
		break;
	case GGAS_COPIER_WRITE: {
		u64 words[] = { unit[1].word, unit[2].word, unit[3].word };
		memcpy((void *)unit[0].word, words, unit[0].low);
		break;
	}
	case GGAS_COPIER_ATOMIC:
		ring->before[place] = change(unit);
		break;
	}
	int ends = unit[1].low == GGAS_COPIER_STOP;
	++*number;
	__atomic_store_n(&ring->done[place], (uint32_t)*number, __ATOMIC_RELEASE);
	if (ends)
		__atomic_store_n(&ring->closed, *number + 1, __ATOMIC_RELEASE);
	return !ends;
}
static void *run_copier(void *unused)
{
	struct ggas_copier_ring *rings = (struct ggas_copier_ring *)copier_args.rings;
	int open[GGAS_COPIER_RINGS] = { 1, 1, 1 };
	while (open[0] || open[1] || open[2]) {
		sched_yield();
		for (int i = 0; i < GGAS_COPIER_RINGS && !__atomic_load_n(&copier_held, __ATOMIC_ACQUIRE); i++)
			open[i] = open[i] && take(&rings[i], &copier_args.next[i]);
	}
	__atomic_store_n(&copier_runs, 0, __ATOMIC_RELEASE);
	return NULL;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
		   unsigned shared, void *stream, void **parameters, void **extra)
{
	pthread_t thread;
	if (getenv("FAKE_COPIER") == NULL)
		return OK;
	memcpy(&copier_args, parameters[0], sizeof copier_args);
	copier_stream = stream;
	copier_started++;
	__atomic_store_n(&copier_runs, 1, __ATOMIC_RELEASE);
	return pthread_create(&thread, NULL, run_copier, NULL) || pthread_detach(thread) ? INVALID : OK;
}

/* The only kernel: without arguments, but for the copier's. */
int cuModuleGetFunctionCount(unsigned *count, void *module) { *count = 1; return OK; }
int cuModuleEnumerateFunctions(void **functions, unsigned count, void *module) { functions[0] = (void *)1; return OK; }
int cuFuncGetName(const char **name, void *function)
{
	*name = getenv("FAKE_COPIER") ? "ggas_copier" : "fake_kernel";
	return OK;
}
int cuFuncGetParamInfo(void *function, size_t number, size_t *offset, size_t *bytes)
{
	*offset = 0;
	*bytes = sizeof copier_args;
	return getenv("FAKE_COPIER") && number == 0 ? OK : INVALID;
}
int cuFuncGetAttribute(int *value, int which, void *function) { *value = which == 0 ? 1024 : 0; return OK; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) { *blocks = 16; return OK; }
int cuCtxGetLimit(size_t *value, int limit) { *value = 1024; return OK; }
int cuMemHostGetDevicePointer_v2(u64 *device, void *memory, unsigned flags) { *device = (u64)memory; return OK; }
int cuStreamQuery(void *stream)
{
	if (stream == copier_stream && __atomic_load_n(&copier_runs, __ATOMIC_ACQUIRE))
		return 600;
	return failing;
}
int cuStreamWriteValue32_v2(void *stream, u64 to, unsigned value, unsigned flags) { *(volatile unsigned *)to = value; return OK; }
int cuStreamWriteValue64_v2(void *stream, u64 to, u64 value, unsigned flags)
{
	if (!failing)
		*(volatile u64 *)to = value;
	return fails();
}
int cuMemcpyAsync(u64 to, u64 from, size_t bytes, void *stream)
{
	if (!failing)
		memcpy((void *)to, (void *)from, bytes);
	return fails();
}
int cuMemsetD8Async(u64 to, unsigned char value, size_t bytes, void *stream) { memset((void *)to, value, bytes); return OK; }
int cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) { *bytes = GRANULARITY; return OK; }

int cuMemAddressReserve(u64 *address, size_t bytes, size_t align, u64 wish, u64 flags)
{
	*address = (u64)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return OK;
}

/* A handle is a descriptor, plus one. */
int cuMemCreate(u64 *handle, size_t bytes, const void *properties, u64 flags)
{
	int fd = memfd_create("gpu", MFD_CLOEXEC);
	if (bytes % GRANULARITY || ftruncate(fd, (off_t)bytes))
		return INVALID;
	/* As on a GPU: not zero at first. */
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(memory, 0xee, bytes);
	munmap(memory, bytes);
	*handle = (u64)fd + 1;
	live++;
	return OK;
}
int cuMemRelease(u64 handle) { live--; return close((int)handle - 1) ? INVALID : OK; }

/* What is mapped where: its memory's descriptor outlives the handle. */
static struct mapping { u64 address; size_t bytes; int fd; } mappings[64];

int cuMemMap(u64 address, size_t bytes, size_t offset, u64 handle, u64 flags)
{
	struct mapping *free = mappings;
	struct stat stat;
	if (fstat((int)handle - 1, &stat) || (size_t)stat.st_size < bytes)
		return INVALID;
	while (free->bytes)
		free++;
	*free = (struct mapping){ address, bytes, dup((int)handle - 1) };
	live++;
	return mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, free->fd, 0) ==
			       MAP_FAILED ? INVALID : OK;
}
int cuMemUnmap(u64 address, size_t bytes)
{
	struct mapping *old = mappings;
	while (old->address != address)
		old++;
	close(old->fd);
	*old = (struct mapping){ 0 };
	live--;
	return mmap((void *)address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}
/* A dma-buf is that descriptor, too: of mappings from their first byte on only. */
int cuMemGetHandleForAddressRange(void *fd, u64 address, size_t bytes, int type, u64 flags)
{
	for (struct mapping *of = mappings; of < mappings + 64; of++)
		if (of->address == address && of->bytes >= bytes) {
			*(int *)fd = dup(of->fd);
			return type == 1 ? OK : INVALID;
		}
	return INVALID;
}
int cuMemExportToShareableHandle(int *fd, u64 handle, int type, u64 flags)
{
	*fd = dup((int)handle - 1);
	return type == 1 ? OK : INVALID;
}
int cuMemImportFromShareableHandle(u64 *handle, void *number, int type)
{
	int fd = dup((int)(intptr_t)number);
	/* Only memory has a size. */
	struct stat stat;
	if (type != 1 || fd < 0 || fstat(fd, &stat) || stat.st_size == 0)
		return INVALID;
	*handle = (u64)fd + 1;
	live++;
	return OK;
}

#define NOTHING(name) int name(void) { return OK; }
NOTHING(cuCtxEnablePeerAccess)
NOTHING(cuCtxGetDevice)
NOTHING(cuCtxGetStreamPriorityRange)
NOTHING(cuCtxSetLimit)
NOTHING(cuCtxSynchronize)
NOTHING(cuEventCreate)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventElapsedTime_v2)
NOTHING(cuEventQuery)
NOTHING(cuEventRecord)
NOTHING(cuEventSynchronize)
NOTHING(cuFuncLoad)
NOTHING(cuFuncSetAttribute)
NOTHING(cuGraphAddKernelNode_v2)
NOTHING(cuGraphCreate)
NOTHING(cuGraphDestroy)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphInstantiateWithFlags)
NOTHING(cuGraphLaunch)
NOTHING(cuInit)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuMemAddressFree)
NOTHING(cuMemAllocManaged)
NOTHING(cuMemSetAccess)
NOTHING(cuModuleGetGlobal_v2)
NOTHING(cuModuleLoadData)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamSynchronize)
NOTHING(cuGraphAddNode_v2)
NOTHING(cuGraphConditionalHandleCreate)
NOTHING(cuStreamWaitEvent)
NOTHING(cuStreamWaitValue64_v2)
