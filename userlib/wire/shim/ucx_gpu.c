// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A context of CUDA for UCX. What it does for GPU memory needs one on the thread that calls it, also to sleep (`ucp_worker_arm`
 * asks for events); here any thread of the program may call, and leaves as it came. Declarations of our own: CUDA's headers are not
 * needed to build, and the library is there if any program has GPU memory.
 */
#define _GNU_SOURCE
#include "ucx.h"

#include <dlfcn.h>

/* CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
#define DEVICE_ORDINAL 9

static struct {
	int (*attribute)(void *value, int attribute, uint64_t pointer);
	int (*retain)(void **context, int device);
	int (*release)(int device);
	int (*push)(void *context);
	int (*pop)(void **context);
	bool found;
} cuda;

static void look_up(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const struct {
		void *to;
		const char *name;
	} symbols[] = {
		{ &cuda.attribute, "cuPointerGetAttribute" },	 { &cuda.retain, "cuDevicePrimaryCtxRetain" },
		{ &cuda.release, "cuDevicePrimaryCtxRelease_v2" }, { &cuda.push, "cuCtxPushCurrent_v2" },
		{ &cuda.pop, "cuCtxPopCurrent_v2" },
	};

	if (!library || cuda.found)
		return;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		void **to = symbols[i].to;

		*to = dlsym(library, symbols[i].name);
		if (!*to)
			return;
	}
	cuda.found = true;
}

void ggas_ucx_use_gpu(struct ggas_endpoint *e, const void *memory)
{
	int device;

	if (e->cuda)
		return;
	look_up();
	if (!cuda.found || cuda.attribute(&device, DEVICE_ORDINAL, (uintptr_t)memory))
		return;
	/* With several GPUs UCX changes to the one whose memory it moves. */
	if (cuda.retain(&e->cuda, device))
		e->cuda = NULL;
	e->device = device;
}

void ggas_ucx_enter_gpu(struct ggas_endpoint *e)
{
	e->entered = e->cuda && !cuda.push(e->cuda);
}

void ggas_ucx_leave_gpu(struct ggas_endpoint *e)
{
	void *left;

	if (e->entered)
		cuda.pop(&left);
	e->entered = false;
}

void ggas_ucx_gpu_close(struct ggas_endpoint *e)
{
	if (e->cuda)
		cuda.release(e->device);
}
