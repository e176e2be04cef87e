// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * libfabric is six functions and tables behind them. The six are looked up when the library is opened, so that
 * a program that was built with its headers also starts where the library is missing.
 */
#include "libfabric.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	uint32_t (*version)(void);
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int error);
} fi;

/*
 * Where nobody has set them: of `tcp;ofi_rxm` an endpoint else allocates, and writes, 70 MiB of buffers of 16 KiB when it is opened. Its
 * messages here have at most 8 KiB, and 256 at a time wait (RECEIVES, SENDS). Over TCP longer ones than a buffer come straight to where they are
 * received, and go from where they are; other transports need buffers of their length.
 */
static const struct {
	const char *name, *short_ones, *value;
} settings[] = {
	{ "FI_OFI_RXM_BUFFER_SIZE", "1024", "8448" },
	{ "FI_OFI_RXM_EAGER_LIMIT", "8448", NULL },
	{ "FI_OFI_RXM_MSG_RX_SIZE", "256", "256" },
	{ "FI_OFI_RXM_MSG_TX_SIZE", "256", "256" },
	{ "FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000", "1000" },
};

static bool is_one_of(const char *value, const char *const *ones)
{
	for (; value && *ones; ones++)
		if (!strcmp(value, *ones))
			return true;
	return !value;
}

/*
 * Whether no other transport than TCP can be chosen, and how long buffers are is left to us. Later versions than 1.17 have neither the other
 * limit nor receives without buffers, and refuse peers whose buffers have another length.
 */
static bool has_short_buffers(void)
{
	static const char *const fabrics[] = { "libfabric", "libfabric:tcp", "libfabric:tcp;ofi_rxm", NULL };
	static const char *const providers[] = { "tcp", "tcp;ofi_rxm", "ofi_rxm;tcp", NULL };

	return FI_VERSION_LT(fi.version(), FI_VERSION(1, 18)) && is_one_of(getenv("GGAS_FABRIC"), fabrics) &&
	       is_one_of(getenv("FI_PROVIDER"), providers) && !getenv("FI_OFI_RXM_BUFFER_SIZE") &&
	       !getenv("FI_OFI_RXM_ENABLE_DYN_RBUF");
}

/* libfabric asks when it is opened, and then for each variable once. */
static char *getenv_or_ours(const char *name)
{
	char *value = getenv(name);

	for (size_t i = 0; !value && i < sizeof(settings) / sizeof(*settings); i++)
		if (!strcmp(name, settings[i].name))
			value = (char *)(has_short_buffers() ? settings[i].short_ones : settings[i].value);
	return value;
}

/*
 * `verbs` reads all symbols of the kernel, line by line, to see whether cards can be given memory of GPUs. That takes 80 ms of each process, whatever its
 * provider is, and none is given them here. Where the system hides the symbols it goes without.
 */
static FILE *fopen_but_symbols(const char *path, const char *mode)
{
	if (!strcmp(path, "/proc/kallsyms")) {
		errno = EACCES;
		return NULL;
	}
	return fopen(path, mode);
}

/* What libfabric calls in place of these functions. */
static const void *instead(const char *name)
{
	if (!strcmp(name, "getenv"))
		return (const void *)getenv_or_ours;
	if (!strcmp(name, "accept"))
		return (const void *)ggas_accept_few;
	if (!strcmp(name, "fopen"))
		return (const void *)fopen_but_symbols;
	return NULL;
}

const char *ggas_libfabric_load(const char *path)
{
	const struct {
		void *to;
		const char *name;
	} symbols[] = {
		{ &fi.version, "fi_version" },	 { &fi.getinfo, "fi_getinfo" }, { &fi.freeinfo, "fi_freeinfo" },
		{ &fi.dupinfo, "fi_dupinfo" },	 { &fi.fabric, "fi_fabric" },	{ &fi.strerror, "fi_strerror" },
	};
	static char missing[2 * GGAS_NAME_MAX];
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
	if (FI_VERSION_LT(fi.version(), GGAS_LIBFABRIC_API)) {
		snprintf(missing, sizeof(missing), "it is %u.%u, and %u.%u or a later one is needed", FI_MAJOR(fi.version()),
			 FI_MINOR(fi.version()), FI_MAJOR(GGAS_LIBFABRIC_API), FI_MINOR(GGAS_LIBFABRIC_API));
		return missing;
	}
	ggas_mark_descriptors(library, instead);
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
