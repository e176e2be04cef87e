/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* plugin LIBRARY: librma2 loaded by dlopen, as by a transport that is a plug-in. It sees memory go away, but not where a sanitizer is in between. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include "common.h"
#include "rma2_rc.h"

static void *library;

static void *name(const char *symbol)
{
	void *found = dlsym(library, symbol);

	CHECK(found);
	return found;
}

static void *opens(void *nothing)
{
	RMA2_ERROR (*open)(RMA2_Port *), (*close)(RMA2_Port);
	RMA2_Port port = NULL;

	*(void **)&open = name("rma2_open");
	*(void **)&close = name("rma2_close");
	CHECK(open(&port) == RMA2_SUCCESS && close(port) == RMA2_SUCCESS);
	return nothing;
}

/* What is idle is kept where its memory is seen to go away; elsewhere it could be found again after that. */
static void cache(void)
{
	RMA2_ERROR (*open)(RMA2_Port *), (*close)(RMA2_Port), (*get)(rma2_rc_statistics *);
	RMA2_ERROR (*add)(RMA2_Port, void *, size_t, RMA2_Region **), (*drop)(RMA2_Port, RMA2_Region *);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, rights = PROT_READ | PROT_WRITE;
	RMA2_Region *region = NULL, *again = NULL;
	rma2_rc_statistics statistics;
	RMA2_Port port = NULL;
	void *memory;

	*(void **)&open = name("rma2_open");
	*(void **)&close = name("rma2_close");
	*(void **)&get = name("rma2_rc_get_statistics");
	*(void **)&add = name("rma2_rc_register");
	*(void **)&drop = name("rma2_rc_unregister");
	memory = mmap(NULL, PAGE, rights, flags, -1, 0);
	CHECK(memory != MAP_FAILED && open(&port) == RMA2_SUCCESS);
	CHECK(add(port, memory, PAGE, &region) == RMA2_SUCCESS && add(port, memory, PAGE, &again) == RMA2_SUCCESS);
	CHECK(region == again && drop(port, region) == RMA2_SUCCESS);
	CHECK(get(&statistics) == RMA2_SUCCESS && statistics.hits == 1 && statistics.used == 1);
	CHECK(drop(port, region) == RMA2_SUCCESS);
	CHECK(get(&statistics) == RMA2_SUCCESS && statistics.regions == (SANITIZED ? 0 : 1));
	CHECK(mmap(memory, PAGE, rights, flags | MAP_FIXED, -1, 0) == memory);
	CHECK(add(port, memory, PAGE, &region) == RMA2_SUCCESS && drop(port, region) == RMA2_SUCCESS);
	CHECK(get(&statistics) == RMA2_SUCCESS && statistics.hits == 1 && statistics.misses == 2);
	CHECK(munmap(memory, PAGE) == 0 && close(port) == RMA2_SUCCESS);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	CHECK(argc == 2);
	/* The library's threads stay, and so does what they run. */
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	CHECK(library && dlclose(library) == 0);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	CHECK(library);
	CHECK(pthread_create(&thread, NULL, opens, NULL) == 0 && pthread_join(thread, NULL) == 0);
	cache();
	CHECK(dlclose(library) == 0);
	return 0;
}
