/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that leave calls and handlers in unusual ways, one by one: its argument says which. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "ggas_hpe.h"

enum { SIZE = 32 * 1024 * 1024 };

static sigjmp_buf out;
static volatile sig_atomic_t caught;
static unsigned char *device, back[SIZE];
static int zeroes;

static void jumps(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	caught = caught + 1;
	siglongjmp(out, 1);
}

static void handle(int flags)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | flags };

	action.sa_sigaction = jumps;
	CHECK(!sigaction(SIGSEGV, &action, NULL));
}

static void make(void)
{
	device = ggas_hpe_alloc(0, SIZE);
	CHECK(device);
	memset(back, 7, SIZE);
	CHECK(!ggas_hpe_copy(device, back, SIZE));
}

static void works(void)
{
	back[5] = 0;
	CHECK(!ggas_hpe_copy(back, device, 100) && back[5] == 7);
}

/* A handler that was there before jumps out: of faults of its own, and of the program's touching a device's memory. */
static void jump(void)
{
	volatile unsigned char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t blocked;

	handle(0);
	make();
	for (volatile int i = 0; i < 1000; i++) {
		if (!sigsetjmp(out, 1)) {
			*(i & 1 ? page : device) = 1;
			CHECK(0);
		}
		CHECK(caught == i + 1);
		works();
	}
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked));
	for (int i = 1; i < NSIG; i++)
		CHECK(sigismember(&blocked, i) != 1);
}

static int deep(int n)
{
	volatile char frame[4096];

	frame[0] = (char)n;
	return n < 1 << 30 ? deep(n + 1) + frame[0] : 0;
}

/* A handler of stack overflows, on a stack of its own that has the size which programs give it. */
static void overflow(void)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	stack_t stack = { .ss_size = (size_t)SIGSTKSZ };

	stack.ss_sp = malloc(stack.ss_size);
	CHECK(stack.ss_sp && !sigaltstack(&stack, NULL) && !setrlimit(RLIMIT_STACK, &limit));
	handle(SA_ONSTACK);
	make();
	for (volatile int i = 0; i < 20; i++) {
		if (!sigsetjmp(out, 1)) {
			deep(0);
			CHECK(0);
		}
		works();
	}
	CHECK(caught == 20);
}

static atomic_int begun;

static void *copies(void *mine)
{
	for (;;) {
		atomic_store(&begun, 1);
		CHECK(!ggas_hpe_copy(mine, device, SIZE));
		pthread_testcancel();
	}
}

static void *reads(void *mine)
{
	for (;;) {
		atomic_store(&begun, 1);
		for (size_t at = 0; at < SIZE; at += 1 << 20)
			CHECK(pread(zeroes, (char *)mine + at, 1 << 20, 0) == 1 << 20);
		pthread_testcancel();
	}
}

static void *allocates(void *unused)
{
	for (;;) {
		void *mine = ggas_hpe_alloc(0, SIZE);

		atomic_store(&begun, 1);
		CHECK(mine && ggas_hpe_holds(mine, SIZE) && !ggas_hpe_free(mine));
		pthread_testcancel();
	}
	return unused;
}

/* Threads that are cancelled in a call end behind it: each is whole, and others go on. */
static void cancel(void)
{
	void *(*all[])(void *) = { copies, reads, allocates };
	unsigned char *other;

	make();
	other = ggas_hpe_alloc(0, SIZE);
	CHECK(other);
	for (int i = 0; i < 30; i++) {
		pthread_t thread;
		void *result;

		atomic_store(&begun, 0);
		CHECK(!pthread_create(&thread, NULL, all[i % 3], i & 1 ? other : back));
		while (!atomic_load(&begun))
			sched_yield();
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
		CHECK(!ggas_hpe_copy(back, device, SIZE) && back[5] == 7 && back[SIZE - 1] == 7);
	}
}

static void late(void)
{
	works();
	CHECK(pread(zeroes, device, 1 << 20, 0) == 1 << 20);
	puts("late");
}

static void *ends(void *unused)
{
	exit(0);
	return unused;
}

/* One thread ends the process while others are in calls; what it has to do at its end may make some, too. */
static void ended(void)
{
	pthread_t thread;

	make();
	CHECK(!atexit(late));
	for (int i = 0; i < 3; i++) {
		void *mine = ggas_hpe_alloc(0, SIZE);

		atomic_store(&begun, 0);
		CHECK(mine && !pthread_create(&thread, NULL, i & 1 ? reads : copies, mine));
		while (!atomic_load(&begun))
			sched_yield();
	}
	CHECK(!pthread_create(&thread, NULL, ends, NULL));
	for (;;)
		pause();
}

int main(int count, char **arguments)
{
	struct {
		const char *name;
		void (*run)(void);
	} cases[] = { { "jump", jump }, { "overflow", overflow }, { "cancel", cancel }, { "ended", ended } };

	zeroes = open("/dev/zero", O_RDONLY);
	CHECK(count == 2 && zeroes >= 0);
	/* Who waits for ever is ended. */
	alarm(300);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, arguments[1]))
			cases[i].run();
	puts("all well");
	return 0;
}
