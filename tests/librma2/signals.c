/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals are the program's: none of the library's threads takes them, and errno is left alone by the hooks. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

/* A program that waits for its signals blocks them in its own threads; else they would end it. */
static void waited_for(void)
{
	sigset_t signals, before;
	int i;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGTERM);
	CHECK(pthread_sigmask(SIG_BLOCK, &signals, &before) == 0);
	for (i = 0; i < 20; i++) {
		int number = i % 2 ? SIGUSR1 : SIGTERM;

		CHECK(kill(getpid(), number) == 0 && wait_for_signal(&signals, PATIENCE) == number);
	}
	CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

/* Giving registered memory back is no system call to the program. */
static void errno_kept(RMA2_Port port)
{
	int i;

	for (i = 0; i < 20; i++) {
		void *block = malloc(100000);
		void *pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		RMA2_Region *regions[2] = { NULL, NULL };

		CHECK(block && pages != MAP_FAILED);
		OK(rma2_register(port, block, 100000, &regions[0]));
		OK(rma2_register(port, pages, PAGE, &regions[1]));
		errno = E2BIG;
		free(block);
		CHECK(errno == E2BIG);
		CHECK(munmap(pages, PAGE) == 0 && errno == E2BIG);
		OK(rma2_unregister(port, regions[0]));
		OK(rma2_unregister(port, regions[1]));
	}
}

static void *reads(void *path)
{
	int file = open((const char *)path, O_RDONLY);

	if (file >= 0)
		close(file);
	return NULL;
}

/* A thread that waits in open can be cancelled there. */
static void cancelled(void)
{
	char folder[] = "/tmp/librma2-XXXXXX", path[64];
	void *result = NULL;
	pthread_t thread;

	CHECK(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/fifo", folder);
	CHECK(mkfifo(path, 0600) == 0 && pthread_create(&thread, NULL, reads, path) == 0);
	usleep(20000);
	CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK(unlink(path) == 0 && rmdir(folder) == 0);
}

int main(void)
{
	RMA2_Port port = open_port();

	waited_for();
	errno_kept(port);
	cancelled();
	OK(rma2_close(port));
	return 0;
}
