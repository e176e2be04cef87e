// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * UCX's functions are looked up when the library is opened, so that a program that was built with its headers also starts
 * where the library is missing.
 */
#define _GNU_SOURCE
#include "ucx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ggas_ucx_calls ggas_ucx_calls;

/*
 * When it is opened UCX reads these variables: by itself it would write warnings among the program's output, and handle the
 * program's SIGSEGV. Set by somebody, they stay as they are; children see none of this.
 */
static void *open_library(const char *path)
{
	/* Of connections that break, events tell. */
	static const char *const settings[][2] = {
		{ "UCX_LOG_FILE", "stderr" },
		{ "UCX_LOG_LEVEL", "fatal" },
		{ "UCX_HANDLE_ERRORS", "none" },
	};
	enum { SETTINGS = sizeof(settings) / sizeof(*settings) };
	bool set[SETTINGS];
	void *library;

	for (int i = 0; i < SETTINGS; i++) {
		set[i] = !getenv(settings[i][0]) && !setenv(settings[i][0], settings[i][1], 0);
	}
	library = dlopen(path ? path : "libucp.so.0", RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; i < SETTINGS; i++) {
		if (set[i])
			unsetenv(settings[i][0]);
	}
	return library;
}

/*
 * Where nobody has set it: what is written has up to 64 KiB and what is in front of them, and is to come in one piece over TCP. UCX 1.13 takes
 * settings of its transports from variables alone.
 */
static char *getenv_or_ours(const char *name)
{
	char *value = getenv(name);

	return value || strcmp(name, "UCX_TCP_RX_SEG_SIZE") ? value : (char *)"72k";
}

/* What UCX calls in place of these functions. */
static const void *instead(const char *name)
{
	return strcmp(name, "getenv") ? NULL : (const void *)getenv_or_ours;
}

/* The libraries beside it, in which its sockets are made, and its settings read. */
static void mark(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);

	if (library)
		ggas_mark_descriptors(library, instead);
}

const char *ggas_ucx_load(const char *path)
{
#define NAMED(call) { &ggas_ucx_calls.call, #call },
	const struct {
		void *to;
		const char *name;
	} symbols[] = { GGAS_UCX_CALLS(NAMED) };
#undef NAMED
	static char why[2 * GGAS_NAME_MAX];
	unsigned int major, minor, release;
	void *library = open_library(path);

	if (!library)
		return dlerror();
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		/* POSIX wants a pointer to a function read through a pointer to an object. */
		void **to = symbols[i].to;

		*to = dlsym(library, symbols[i].name);
		if (!*to) {
			snprintf(why, sizeof(why), "it has no function %s", symbols[i].name);
			return why;
		}
	}
	UCX(ucp_get_version)(&major, &minor, &release);
	if (major != 1 || minor < 13) {
		snprintf(why, sizeof(why), "it is %u.%u, and 1.13 or a later 1.x is needed", major, minor);
		return why;
	}
	ggas_mark_descriptors(library, NULL);
	mark("libuct.so.0");
	mark("libucs.so.0");
	return NULL;
}
