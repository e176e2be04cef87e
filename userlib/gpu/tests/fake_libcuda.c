/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A libcuda of two GPUs whose memory is host memory: enough of the driver for
 * memory that processes pass to each other, and for copies by the copy engines,
 * which are done at once. Kernels do not run.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { *stream = (void *)1; return OK; }
int cuGetErrorName(int error, const char **text) { *text = "CUDA_ERROR_FAKE"; return OK; }
int cuGetErrorString(int error, const char **text) { *text = "fake"; return OK; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { return posix_memalign(memory, 4096, bytes); }
int cuMemAlloc_v2(u64 *memory, size_t bytes) { return posix_memalign((void **)memory, 4096, bytes); }
int cuMemFree_v2(u64 memory) { free((void *)memory); return OK; }
int cuMemHostGetDevicePointer_v2(u64 *device, void *memory, unsigned flags) { *device = (u64)memory; return OK; }
int cuStreamQuery(void *stream) { return failing; }
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
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetDevice)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxGetStreamPriorityRange)
NOTHING(cuCtxSetCurrent)
NOTHING(cuCtxSetLimit)
NOTHING(cuCtxSynchronize)
NOTHING(cuEventCreate)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventElapsedTime_v2)
NOTHING(cuEventQuery)
NOTHING(cuEventRecord)
NOTHING(cuEventSynchronize)
NOTHING(cuFuncGetAttribute)
NOTHING(cuFuncGetName)
NOTHING(cuFuncGetParamInfo)
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
NOTHING(cuLaunchKernel)
NOTHING(cuIpcCloseMemHandle)
NOTHING(cuIpcGetMemHandle)
NOTHING(cuIpcOpenMemHandle_v2)
NOTHING(cuMemAddressFree)
NOTHING(cuMemAllocManaged)
NOTHING(cuMemGetAddressRange_v2)
NOTHING(cuMemHostRegister_v2)
NOTHING(cuMemHostUnregister)
NOTHING(cuMemSetAccess)
NOTHING(cuModuleEnumerateFunctions)
NOTHING(cuModuleGetFunctionCount)
NOTHING(cuModuleLoadData)
NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuPointerGetAttribute)
NOTHING(cuStreamSynchronize)
NOTHING(cuGraphAddNode_v2)
NOTHING(cuGraphConditionalHandleCreate)
NOTHING(cuStreamWaitEvent)
NOTHING(cuStreamWaitValue64_v2)
