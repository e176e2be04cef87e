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

/* A call that fails tells why, though the driver has something else to say behind it. */
static void tells_why(void)
{
	size_t bytes;

	errno = 0;
	CHECK(ggas_hpe_return_pinned(&bytes) == -1 && errno == EINVAL && chosen() == 1);
}

int main(int count, char **arguments)
{
	size_t bytes;
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	int (*set)(void *), file = open("/dev/zero", O_RDONLY);
	char back[100] = "none";
	char *other;

	CHECK(cuda && file >= 0);
	*(void **)&set = dlsym(cuda, "cuCtxSetCurrent");
	*(void **)&get = dlsym(cuda, "cuCtxGetCurrent");
	CHECK(set && get);
	/* Of whatever kind the first call is, which opens all GPUs. */
	if (count > 1) {
		CHECK(!set((void *)1));
		if (*arguments[1] == 't')
			CHECK(ggas_hpe_take_pinned(&bytes) && chosen() == 1);
		tells_why();
		puts("all well");
		return 0;
	}
	/* None chosen yet. */
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
