// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * libfabric is six functions and tables behind them. The six are looked up when the library is opened, so that
 * a program that was built with its headers also starts where the library is missing.
 */
#include "libfabric.h"

#include <dlfcn.h>
#include <stdio.h>

static struct {
	uint32_t (*version)(void);
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int error);
} fi;

const char *ggas_libfabric_load(const char *path)
{
	const struct {
		void *to;
		const char *name;
	} symbols[] = {
		{ &fi.version, "fi_version" },	 { &fi.getinfo, "fi_getinfo" }, { &fi.freeinfo, "fi_freeinfo" },
		{ &fi.dupinfo, "fi_dupinfo" },	 { &fi.fabric, "fi_fabric" },	{ &fi.strerror, "fi_strerror" },
	};
	static char missing[GGAS_NAME_MAX];
	void *library = dlopen(path ? path : "libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		/* POSIX wants a pointer to a function read through a pointer to an object. */
		void **to = symbols[i].to;

		*to = dlsym(library, symbols[i].name);
		if (!*to) {
			snprintf(missing, sizeof(missing), "it has no function %s", symbols[i].name);
			return missing;
		}
	}
	ggas_mark_descriptors(library);
	return NULL;
}

uint32_t fi_version(void)
{
	return fi.version();
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	return fi.getinfo(version, node, service, flags, hints, info);
}

void fi_freeinfo(struct fi_info *info)
{
	fi.freeinfo(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	return fi.dupinfo(info);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return fi.fabric(attr, fabric, context);
}

const char *fi_strerror(int error)
{
	return fi.strerror(error);
}
