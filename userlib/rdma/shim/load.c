// SPDX-License-Identifier: MIT OR Apache-2.0
#include "load.h"
#include "rdma.h"

#include <dlfcn.h>
#include <stdio.h>

struct ggas_rdma_calls ggas_rdma_calls;

static const char *find(void *library, const char *name, void *to)
{
	static char missing[GGAS_RDMA_NAME];
	/* POSIX wants a pointer to a function read through a pointer to an object. */
	void **place = to;

	*place = dlsym(library, name);
	if (*place)
		return NULL;
	snprintf(missing, sizeof(missing), "rdma-core has no function %s", name);
	return missing;
}

#define FIND(name)                                                         \
	why = why ? why : find(library, #name, &ggas_rdma_calls.name);

const char *ggas_rdma_load(const char *verbs, const char *mlx5)
{
	const char *why = NULL;
	void *library = dlopen(verbs, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	GGAS_RDMA_VERBS(FIND)
	if (why)
		return why;
	library = dlopen(mlx5, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return dlerror();
	GGAS_RDMA_MLX5(FIND)
	return why;
}
