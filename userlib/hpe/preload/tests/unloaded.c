/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that loads the library, uses it and closes it again: its threads and its handler stay, and so does what they run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static sigjmp_buf out;

static void jumps(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

static void *uses(void *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void *(*alloc)(int, size_t);

	CHECK(library);
	*(void **)&alloc = dlsym(library, "ggas_hpe_alloc");
	CHECK(alloc && alloc(0, 1000) && !dlclose(library));
	return NULL;
}

int main(int count, char **arguments)
{
	volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	void *other;
	int status;

	CHECK(count == 2 && signal(SIGSEGV, jumps) != SIG_ERR);
	for (int i = 0; i < 3; i++) {
		/* By this thread, and by one that ends. */
		if (i)
			uses(arguments[1]);
		else
			CHECK(!pthread_create(&thread, NULL, uses, arguments[1]) && !pthread_join(thread, NULL));
		/* Libraries that nobody uses go when another is closed. */
		other = dlopen("libm.so.6", RTLD_NOW);
		CHECK(other && !dlclose(other));
		if (fork() == 0)
			_exit(0);
		CHECK(wait(&status) > 0 && status == 0);
		if (!sigsetjmp(out, 1)) {
			*page = 1;
			CHECK(0);
		}
	}
	puts("all well");
	return 0;
}
