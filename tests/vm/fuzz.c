/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fuzz SEED STEPS SECONDS: random calls on /dev/extoll0 and /dev/gpumap by several processes with several threads each,
 * one of them privileged, until each thread has made its steps or the time is up.
 *
 * It knows the interface, so most calls get far. Whatever comes back must be documented; a call that fails must leave
 * its structure alone; memory that was not registered for writing must stay as it was. What a thread does depends on
 * the seed only; how threads meet does not.
 */

#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "fuzz-calls.h"

#define WORKERS	3
#define THREADS	2

static __thread sigjmp_buf fault;
static __thread volatile int may_fault;

static void on_fault(int number)
{
	if (may_fault)
		siglongjmp(fault, 1);
	signal(number, SIG_DFL);
}

static void on_alarm(int number)
{
	(void)number;
}

/* Words to where there may be nothing to store them. */
static __attribute__((noinline)) void store(volatile uint64_t *at, const uint64_t *words, size_t count)
{
	may_fault = 1;
	if (!sigsetjmp(fault, 1))
		for (size_t i = 0; i < count; i++)
			at[i] = words[i];
	may_fault = 0;
	__builtin_ia32_sfence();
}

static __attribute__((noinline)) void load(volatile uint64_t *at)
{
	may_fault = 1;
	if (!sigsetjmp(fault, 1))
		(void)*at;
	may_fault = 0;
}

static void one_ioctl(struct fuzz *f)
{
	uint64_t words[64] = { 0 }, before[64];	/* more than any structure */
	size_t which = below(f, CALLS), size = calls[which].size;
	uint32_t fd = below(f, 64), slot = below(f, NLAS), told = (uint32_t)size, more = below(f, 12), cmd;
	uint64_t bad = edge(f);
	void *at;
	int err;

	fill(f, which, words);
	if (more == 0)
		told = below(f, 512);
	if (more == 1)
		words[size / 8] = bad;	/* behind the structure: counts if `told` is longer */
	cmd = (calls[which].cmd & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT)) | told << _IOC_SIZESHIFT;
	if (one_in(f, 64))
		cmd = (uint32_t)bad;
	at = placed(f, words, told);
	fd = _IOC_TYPE(calls[which].cmd) == GPUMAP_IOC_MAGIC ? GPUMAP_FD + fd % GPUMAP_FDS :
							       EXTOLL_FD + fd % EXTOLL_FDS;
	if (one_in(f, 128))
		fd = DMABUF_FD;
	if (at != words && one_in(f, 2)) {
		/* So that the call gets as far as it can with the structure where it is. */
		store(at, words, size / 8);
	}
	memcpy(before, words, sizeof(words));
	err = ioctl((int)fd, cmd, at) ? errno : 0;
	__atomic_add_fetch(&f->shared->calls, 1, __ATOMIC_RELAXED);
	if (!err) {
		if (at == words && cmd == calls[which].cmd)
			learn(f->shared, which, words, slot);
		return;
	}
	__atomic_add_fetch(&f->shared->refused, 1, __ATOMIC_RELAXED);
	if (cmd == calls[which].cmd && !documented(&calls[which], err)) {
		printf("FAIL fuzz: call %zu gives errno %d %s, which is not documented\n", which, err, strerror(err));
		abort();
	}
	if (memcmp(before, words, sizeof(words))) {
		printf("FAIL fuzz: call %zu failed with errno %d and wrote its structure\n", which, err);
		abort();
	}
}

/* Opens into a fixed descriptor, over whatever other threads do with it. */
static void open_at(const char *path, int slot)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	dup2(fd, slot);
	close(fd);
}

/* A dma-buf of a few pages of the stand-in for a GPU. */
static void dmabuf_at(struct fuzz *f, int slot)
{
	struct gpustub_export arg = { maybe(f, GPUSTUB_BASE + below(f, 32) * GPUSTUB_PAGE), maybe(f, GPUSTUB_PAGE) };
	int device = open("/dev/gpustub", O_RDWR | O_CLOEXEC), fd = ioctl(device, GPUSTUB_IOC_EXPORT, &arg);

	if (fd >= 0) {
		dup2(fd, slot);
		close(fd);
	}
	close(device);
}

static void one_mmap(struct fuzz *f)
{
	uint32_t slot = below(f, MAP_SLOTS), gpu = one_in(f, 6), pin = below(f, NLAS);
	static const uint32_t sizes[] = { 1, 1, 1, 1, 2, 4, 16, 64, 4096 };
	size_t bytes = (size_t)maybe(f, sizes[below(f, 9)]) * PAGE % MAP_STRIDE;
	uint64_t offset = map_offset(f), pinned = f->shared->pin[pin];
	int fd = gpu ? GPUMAP_FD + (int)below(f, GPUMAP_FDS) : EXTOLL_FD + (int)below(f, EXTOLL_FDS);
	int prot = one_in(f, 20) ? PROT_READ | PROT_WRITE | PROT_EXEC : one_in(f, 4) ? PROT_READ : PROT_READ | PROT_WRITE;
	int flags = one_in(f, 20) ? MAP_PRIVATE : MAP_SHARED;

	mmap(MAPS + slot * MAP_STRIDE, bytes, prot, flags | MAP_FIXED, fd, (off_t)(gpu ? maybe(f, pinned) : offset));
}

/* Stores to whatever is mapped: descriptors, read pointers, write-combining state, or a fault. */
static void one_touch(struct fuzz *f)
{
	volatile uint64_t *at = (volatile uint64_t *)(mapping(f) + (one_in(f, 2) ? 0 : below(f, 512) * 8));
	struct extoll_desc desc;
	uint32_t what = below(f, 4);

	desc.word[0] = 3 | (uint64_t)below(f, 16) << 2 | (uint64_t)maybe(f, f->shared->vpid) << 8 |
		       (uint64_t)below(f, 128) << 32 | (uint64_t)below(f, 1 << 14) << 40;
	desc.word[1] = any_nla(f);
	desc.word[2] = any_nla(f);
	if (what == 0)
		load(at);
	else
		store(at, what == 1 ? &desc.word[1] : desc.word, what == 1 ? 1 : 3);
}

/* The process's own memory changes under what it registered. */
static void one_arena(struct fuzz *f)
{
	unsigned char *page = ARENA + below(f, ARENA_PAGES) * PAGE;
	size_t bytes = (1 + below(f, 8)) * PAGE;

	if (page + bytes > ARENA + ARENA_PAGES * PAGE)
		bytes = PAGE;
	switch (below(f, 6)) {
	case 0:
		munmap(page, bytes);
		break;
	case 1:
		mprotect(page, bytes, PROT_READ);
		break;
	case 2:
		madvise(page, bytes, MADV_DONTNEED);
		break;
	case 3:
		mprotect(page, bytes, PROT_NONE);
		break;
	default:
		mmap(page, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
}

static void one_map_change(struct fuzz *f)
{
	unsigned char *at = (unsigned char *)mapping(f);
	size_t bytes = (1 + below(f, 4)) * PAGE;
	uint32_t slot = below(f, MAP_SLOTS);

	switch (below(f, 5)) {
	case 0:
		mprotect(at, bytes, one_in(f, 2) ? PROT_READ : PROT_READ | PROT_EXEC);
		break;
	case 1:
		mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, MAPS + slot * MAP_STRIDE);
		break;
	case 2:
		madvise(at, bytes, one_in(f, 2) ? MADV_DONTNEED : MADV_DOFORK);
		break;
	default:
		munmap(at, one_in(f, 2) ? bytes : MAP_STRIDE / 2);
	}
}

static void one_file(struct fuzz *f)
{
	uint32_t slot = below(f, EXTOLL_FDS), gpu = below(f, GPUMAP_FDS), buf = below(f, DMABUF_FDS);
	struct pollfd poll_fd = { .fd = EXTOLL_FD + (int)slot, .events = (short)rnd(f) };
	char byte;

	switch (below(f, 10)) {
	case 0:
		close(EXTOLL_FD + (int)slot);
		break;
	case 1:
		dup2(EXTOLL_FD + (int)slot, EXTOLL_FD + (int)(slot + 1) % (int)EXTOLL_FDS);
		break;
	case 2:
		open_at("/dev/gpumap", GPUMAP_FD + (int)gpu);
		break;
	case 3:
		close(GPUMAP_FD + (int)gpu);
		break;
	case 4:
		dmabuf_at(f, DMABUF_FD + (int)buf);
		break;
	case 5:
		close(DMABUF_FD + (int)buf);
		break;
	case 6:
		(void)!read(poll_fd.fd, &byte, 1);
		(void)!write(poll_fd.fd, &byte, 1);
		break;
	case 7:
		poll(&poll_fd, 1, 0);
		break;
	default:
		open_at(DEVICE, EXTOLL_FD + (int)slot);
	}
	__atomic_add_fetch(&f->shared->calls, 1, __ATOMIC_RELAXED);
}

static void one(struct fuzz *f);

/* A child with all that the parent has; it ends by itself, or is killed in the middle. */
static void one_fork(struct fuzz *f)
{
	struct fuzz child = { .state = rnd(f), .shared = f->shared, .depth = f->depth + 1,
			      .privileged = f->privileged };
	uint32_t count = below(f, 30), kill_it = one_in(f, 2), patience = below(f, 3000);
	pid_t pid;

	if (f->depth)
		return;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (uint32_t i = 0; i < count; i++)
			one(&child);
		_exit(0);
	}
	if (pid < 0)
		return;
	if (kill_it) {
		usleep(patience);
		kill(pid, SIGKILL);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void one(struct fuzz *f)
{
	uint32_t what = below(f, 100);

	if (what < 55)
		one_ioctl(f);
	else if (what < 67)
		one_mmap(f);
	else if (what < 80)
		one_touch(f);
	else if (what < 84)
		one_arena(f);
	else if (what < 88)
		one_map_change(f);
	else if (what < 99)
		one_file(f);
	else if (one_in(f, 4))
		one_fork(f);
}

static uint64_t steps_of_thread;

static void *thread(void *arg)
{
	struct fuzz *f = arg;

	for (uint64_t i = 0; i < steps_of_thread && !f->shared->stop; i++)
		one(f);
	return NULL;
}

static void worker(uint64_t seed, int number, struct shared *shared)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	struct itimerval every = { { 0, 20000 }, { 0, 20000 } };
	struct fuzz fuzz[THREADS];
	pthread_t threads[THREADS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK(mmap(ARENA, ARENA_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	      ARENA);
	if (number)
		CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < THREADS; i++)
		fuzz[i] = (struct fuzz){ .state = seed + (uint64_t)(number * THREADS + i) * 0x1234567, .shared = shared,
					 .privileged = !number, .patient = i == 0 };
	for (int i = 1; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, thread, &fuzz[i]) == 0);
	thread(&fuzz[0]);
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/* All workers end well by `end`; the rest of the time limit is for what they may be stuck in. */
static void join(pid_t *pids, struct shared *shared, uint64_t end)
{
	int status, left = WORKERS;

	while (left > 0) {
		for (int i = 0; i < WORKERS; i++)
			if (pids[i] > 0 && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
				CHECK(status == 0);
				pids[i] = 0;
				left--;
			}
		if (now_ns() > end)
			for (int i = 0; i < WORKERS; i++)
				shared[i].stop = 1;
		CHECK(now_ns() < end + 120000000000ull);	/* somebody hangs */
		usleep(20000);
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t seconds = argc > 3 ? strtoull(argv[3], NULL, 0) : 60, begin = now_ns(), calls_made = 0, refused = 0;
	struct shared *shared = mmap(NULL, WORKERS * sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct canary canary;
	pid_t pids[WORKERS];

	steps_of_thread = argc > 2 ? strtoull(argv[2], NULL, 0) : ~0ull;
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
	CHECK(shared != MAP_FAILED);
	canary_set(&canary);
	for (int i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			worker(seed, i, &shared[i]);
	}
	join(pids, shared, begin + seconds * 1000000000);
	for (int i = 0; i < WORKERS; i++) {
		calls_made += shared[i].calls;
		refused += shared[i].refused;
	}
	canary_check(&canary);
	printf("fuzz: seed %#llx, %llu calls, %llu of them refused, %llu s\n", (unsigned long long)seed,
	       (unsigned long long)calls_made, (unsigned long long)refused,
	       (unsigned long long)((now_ns() - begin) / 1000000000));
	printf("PASS fuzz\n");
	return 0;
}
