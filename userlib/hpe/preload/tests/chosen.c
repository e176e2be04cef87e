/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program of CUDA's driver (a stand-in for it): the GPU that it chose stays chosen, whichever a call uses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "check.h"
#include "ggas_hpe.h"

static int (*get)(void **);

/* The current context: of the stand-in a GPU's number, plus one. */
static long chosen(void)
{
	void *context = NULL;

	CHECK(!get(&context));
	return (long)context;
}

int main(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	int (*set)(void *), file = open("/dev/zero", O_RDONLY);
	char back[100] = "none";
	char *other;

	CHECK(cuda && file >= 0);
	*(void **)&set = dlsym(cuda, "cuCtxSetCurrent");
	*(void **)&get = dlsym(cuda, "cuCtxGetCurrent");
	CHECK(set && get);
	/* None chosen yet; the first call opens all GPUs. */
	CHECK(ggas_hpe_devices() == 3 && chosen() == 0);
	CHECK(!set((void *)1));
	other = ggas_hpe_alloc(2, 100);
	CHECK(other && chosen() == 1);
	CHECK(read(file, other, 100) == 100 && chosen() == 1);
	CHECK(!ggas_hpe_copy(back, other, 100) && !back[0] && chosen() == 1);
	CHECK(!ggas_hpe_free(other) && chosen() == 1);
	puts("all well");
	return 0;
}
