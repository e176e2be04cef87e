/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that loads the library, uses it and closes it again: its threads and its handler stay, and so does what they run. Its
 * threads may begin late, as on a machine that is busy: here they do once all is closed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

typedef int create_thread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct late {
	void *(*start)(void *);
	void *argument;
};

static sigjmp_buf out;
static sem_t open_gate;
static atomic_int made, began;

static void jumps(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

static void *begins(void *of)
{
	struct late late = *(struct late *)of;

	free(of);
	while (sem_wait(&open_gate))
		CHECK(errno == EINTR);
	sem_post(&open_gate);
	atomic_fetch_add(&began, 1);
	return late.start(late.argument);
}

static create_thread *c_librarys(void)
{
	create_thread *create;

	*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	CHECK(create);
	return create;
}

/* The library's threads come here: names of the program go before those of the C library. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	struct late *late = malloc(sizeof(*late));

	CHECK(late);
	*late = (struct late){ start, argument };
	atomic_fetch_add(&made, 1);
	return c_librarys()(thread, attributes, begins, late);
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

	CHECK(count == 2 && signal(SIGSEGV, jumps) != SIG_ERR && !sem_init(&open_gate, 0, 0));
	for (int i = 0; i < 3; i++) {
		/* By this thread, and by one that ends. */
		if (i)
			uses(arguments[1]);
		else
			CHECK(!c_librarys()(&thread, NULL, uses, arguments[1]) && !pthread_join(thread, NULL));
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
		if (i == 0) {
			CHECK(atomic_load(&made) > 0 && atomic_load(&began) == 0 && !sem_post(&open_gate));
			while (atomic_load(&began) < atomic_load(&made))
				sched_yield();
		}
	}
	puts("all well");
	return 0;
}
