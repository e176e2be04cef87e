/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* GPU memory through gpumap: the card reads and writes it, until the GPU or the process takes it back. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "card.h"
#include "faults.h"
#include "gpu.h"

#define TARGET (4ul << 20)	/* extoll_info.target_bytes */
#define ROUNDS 10		/* of puts to memory that goes */

static struct port port;

static void transfers(unsigned char *gpu, unsigned char *host, uint64_t gpu_nla, uint64_t host_nla)
{
	for (size_t i = 0; i < BYTES / 2; i++)
		host[i] = (unsigned char)(i * 13 + i / 256);
	CHECK(copy(&port, host_nla, gpu_nla, BYTES / 2) == 0);
	CHECK(memcmp(gpu, host, BYTES / 2) == 0);
	CHECK(copy(&port, gpu_nla + 3, gpu_nla + BYTES / 2 + 8, 70000) == 0);
	CHECK(memcmp(gpu + BYTES / 2 + 8, host + 3, 70000) == 0);
	CHECK(copy(&port, gpu_nla, host_nla + BYTES / 2, BYTES / 2) == 0);
	CHECK(memcmp(host + BYTES / 2, host, BYTES / 2) == 0);
}

static void bad_pins(int fd)
{
	struct gpumap_pin bad[] = {
		{ GPU_BASE, 0, 0 }, { GPU_BASE, 4096, 0 }, { GPU_BASE + 4096, BYTES, 0 }, { 0, BYTES, 0 },
		{ GPU_BASE, 1ull << 40, 0 }, { ~0xffffull, 0x20000, 0 }, { GPU_BASE, ~0xffffull, 0 },
	};
	struct gpumap_unpin none = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_ERRNO(ioctl(fd, GPUMAP_IOC_PIN, &bad[i]), EINVAL);
	CHECK_ERRNO(ioctl(fd, GPUMAP_IOC_UNPIN, &none), ENOENT);
	CHECK_ERRNO(ioctl(fd, GPUMAP_IOC_PIN, NULL), EFAULT);
	CHECK_ERRNO(ioctl(fd, _IOWR(GPUMAP_IOC_MAGIC, 7, struct gpumap_pin), &bad), ENOTTY);
	CHECK(map(fd, 0, PAGE) == MAP_FAILED && errno == ENXIO);
}

static void faulted_once(int fd)
{
	struct gpumap_pin pin = { .gpu_address = GPU_BASE, .length = TARGET };

	CHECK(ioctl(fd, GPUMAP_IOC_PIN, &pin) == 0);
	fault_once(fd, pin.offset, TARGET, 1, 20);
	CHECK(ioctl(fd, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
}

/* What one file of gpumap ends is none of another's. */
static void two_files(int fd)
{
	int other = open("/dev/gpumap", O_RDWR);
	struct gpumap_pin mine, theirs;
	unsigned char *a = pinned(fd, GPU_BASE, &mine), *b;

	CHECK(other >= 0);
	b = pinned(other, GPU_BASE + BYTES, &theirs);
	CHECK(mine.offset != theirs.offset);
	CHECK(map(other, mine.offset, PAGE) == MAP_FAILED && errno == ENXIO);
	CHECK_ERRNO(ioctl(other, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ mine.offset }), ENOENT);
	CHECK(ioctl(other, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ theirs.offset }) == 0);
	CHECK(touches((void *)a) && !touches((void *)b));
	CHECK(ioctl(fd, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ mine.offset }) == 0);
	CHECK(!touches((void *)a));
	munmap(a, BYTES);
	munmap(b, BYTES);
	close(other);
}

/* Arriving stores of a window in GPU memory. */
static void window(unsigned char *gpu)
{
	struct extoll_window_open open = {
		.count = 1, .stride = BYTES, .part_bytes = BYTES, .target_address = (uintptr_t)gpu,
		.nodes = { (uint16_t)port.open.node },
	};
	volatile uint64_t *all, *at = (volatile uint64_t *)gpu;
	uint64_t limit;
	int fd = device_open();

	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open) == 0);
	all = map(fd, EXTOLL_MAP_WINDOW + open.window_offset, BYTES);
	CHECK(all != MAP_FAILED);
	CHECK(map(fd, EXTOLL_MAP_TARGET, PAGE) == MAP_FAILED && errno == EINVAL);
	all[100] = 0x123456789abcdef0;
	__builtin_ia32_sfence();
	for (limit = now_ns() + PATIENCE_NS; at[100] != 0x123456789abcdef0;)
		CHECK(now_ns() < limit);
	CHECK(all[100] == at[100]);
	munmap((void *)all, BYTES);
	close(fd);
}

/*
 * Users of other nodes reach as far into a target as their own parts are long: who has no privilege gets no part longer
 * than every node's target, and no shorter target.
 */
static void as_user(void)
{
	struct gpumap_pin pin = { .gpu_address = GPU_BASE, .length = 2 * TARGET };
	struct extoll_window_open open_ = { .count = 2, .stride = 2 * TARGET, .part_bytes = 2 * TARGET, .nodes = { 0, 1 } };
	int gpu = open("/dev/gpumap", O_RDWR), fd;
	unsigned char *at;

	CHECK(ioctl(gpu, GPUMAP_IOC_PIN, &pin) == 0);
	at = map(gpu, pin.offset, 2 * TARGET);
	CHECK(at != MAP_FAILED && setgid(1000) == 0 && setuid(1000) == 0);
	fd = device_open();
	open_.target_address = (uintptr_t)at;
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open_), EPERM);
	open_.part_bytes = PAGE;
	CHECK(munmap(at + 2 * TARGET - PAGE, PAGE) == 0);
	open_.target_address = (uintptr_t)at + TARGET;
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open_), EFAULT);
	open_.target_address = -PAGE;
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open_), EFAULT);
	open_.target_address = (uintptr_t)at;
	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open_) == 0);
	exit(0);
}

static volatile unsigned int puts_done;
static volatile int freed;

/* Who has the memory next, and what becomes of it under the puts to its last owner. */
struct next {
	int fd;
	struct gpumap_pin pin;
	unsigned char *at;
};

static void *free_in_the_middle(void *arg)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	unsigned int begin = puts_done;
	struct next *next = arg;

	while (puts_done < begin + 2)
		CHECK(now_ns() < end);
	free_on_gpu(GPU_BASE);
	next->at = pinned(next->fd, GPU_BASE, &next->pin);
	memset(next->at, 0xee, BYTES);
	freed = 1;
	return NULL;
}

/*
 * The GPU takes the memory back in the middle of the card's puts to it. When that is over the card writes there no more,
 * whoever has the memory next: nothing of the put that was under way, nor of those that follow.
 */
static void freed_under_puts(int fd, uint64_t host_nla)
{
	for (size_t round = 0; round < ROUNDS; round++) {
		struct next next = { .fd = fd };
		struct gpumap_pin pin;
		unsigned char *gpu = pinned(fd, GPU_BASE, &pin);
		uint64_t nla;
		pthread_t thread;

		CHECK(mmio(&port, gpu, BYTES, &nla) == 0 && copy(&port, host_nla, nla, BYTES) == 0);
		freed = 0;
		CHECK(pthread_create(&thread, NULL, free_in_the_middle, &next) == 0);
		for (; !freed; puts_done++)
			copy(&port, host_nla, nla, BYTES);	/* well, or with an error from some byte on */
		CHECK(pthread_join(thread, NULL) == 0);
		CHECK(copy(&port, host_nla, nla, BYTES) == 1);
		/* A put ends with its first page that is not there: all pages by themselves, in the course of the rounds. */
		for (size_t at = round * PAGE; at < BYTES; at += ROUNDS * PAGE)
			CHECK(copy(&port, host_nla, nla + at, PAGE) == 1);
		for (size_t i = 0; i < BYTES; i++)
			CHECK(next.at[i] == 0xee);
		CHECK(end(&port, nla) == EXTOLL_REGION_WAS_REVOKED);
		munmap(gpu, BYTES);
		munmap(next.at, BYTES);
		CHECK(ioctl(fd, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ next.pin.offset }) == 0);
		CHECK(ioctl(fd, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
	}
	puts("gpu: freed under puts");
}

static void unprivileged(void)
{
	pid_t child;
	int status;

	CHECK(chmod(DEVICE, 0666) == 0);
	child = fork();
	if (child == 0)
		as_user();
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(chmod(DEVICE, 0660) == 0);
}

int main(void)
{
	int fd = open("/dev/gpumap", O_RDWR);
	unsigned char *gpu, *host = memory(BYTES);
	struct gpumap_pin pin;
	uint64_t nla, host_nla;

	signal(SIGBUS, on_bus_error);
	CHECK(fd >= 0);
	bad_pins(fd);
	faulted_once(fd);
	two_files(fd);
	port_open(&port);
	CHECK(region(&port, host, BYTES, &host_nla) == 0);
	gpu = pinned(fd, GPU_BASE, &pin);
	CHECK(memory_type_is(bar_address(gpu_folder()), "write-combining"));
	CHECK(memory_type_is(bar_address(gpu_folder()) + BYTES - PAGE, "write-combining"));
	CHECK_ERRNO(region(&port, gpu, BYTES, &nla), EFAULT);
	CHECK(mmio(&port, gpu, BYTES + PAGE, &nla) == -1);	/* what lies behind is not ours, or nothing */
	CHECK(status_kib("VmPin:") == BYTES / 1024);
	CHECK(mmio(&port, gpu, BYTES, &nla) == 0);
	CHECK(status_kib("VmPin:") == BYTES / 1024 + 4);	/* its translations */
	transfers(gpu, host, nla, host_nla);
	CHECK(end(&port, nla) == 0);
	CHECK(status_kib("VmPin:") == BYTES / 1024);

	/* The process takes the mapping away. */
	CHECK(mmio(&port, gpu, BYTES, &nla) == 0);
	CHECK(munmap(gpu + BYTES / 2, PAGE) == 0);
	CHECK(copy(&port, host_nla, nla, 64) == 1);
	CHECK(status_kib("VmPin:") == BYTES / 1024 + 4);
	CHECK(end(&port, nla) == EXTOLL_REGION_WAS_REVOKED);
	CHECK(status_kib("VmPin:") == BYTES / 1024);
	munmap(gpu, BYTES);

	/* The GPU takes the memory away. */
	gpu = map(fd, pin.offset, BYTES);
	CHECK(gpu != MAP_FAILED && mmio(&port, gpu, BYTES, &nla) == 0 && copy(&port, host_nla, nla, 64) == 0);
	free_on_gpu(GPU_BASE + BYTES - 1);
	CHECK(!touches((void *)gpu));
	CHECK(copy(&port, host_nla, nla, 64) == 1);
	CHECK(end(&port, nla) == EXTOLL_REGION_WAS_REVOKED);
	CHECK_ERRNO(mmio(&port, gpu, BYTES, &nla), EFAULT);
	CHECK(map(fd, pin.offset, BYTES) == MAP_FAILED && errno == ENXIO);
	munmap(gpu, BYTES);

	freed_under_puts(fd, host_nla);

	/* The pin's owner ends it, with the file or before. */
	gpu = pinned(fd, GPU_BASE + BYTES, &pin);
	window(gpu);
	CHECK(mmio(&port, gpu, PAGE, &nla) == 0);
	CHECK(ioctl(fd, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
	CHECK(!touches((void *)gpu) && copy(&port, host_nla, nla, 64) == 1);
	gpu = pinned(fd, GPU_BASE, &pin);
	CHECK(mmio(&port, gpu, BYTES, &nla) == 0);
	close(fd);
	CHECK(touches((void *)gpu) && copy(&port, host_nla, nla, 64) == 0);
	unprivileged();
	port_close(&port);
	printf("PASS gpu\n");
	return 0;
}
