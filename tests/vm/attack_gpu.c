/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * GPU memory that goes in the worst moments, by a GPU driver that takes its time or makes errors (gpustub's files
 * get_delay, free_delay, put_error): nobody uses what has gone, nobody waits for ever, nothing is left.
 */

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "card.h"
#include "gpu.h"

#define LONG_MS		1000u
#define USER		1000
#define TOUCHERS	3

static int gpumap;

static void stub_number(const char *name, unsigned int value)
{
	char path[400], text[16];

	snprintf(path, sizeof(path), "%s/%s", gpu_folder(), name);
	snprintf(text, sizeof(text), "%u", value);
	CHECK(put_text(path, text) == 0);
}

/* Page tables that the GPU driver has given out. */
static long tables(void)
{
	char path[400], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/tables", gpu_folder());
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(text, NULL, 10);
}

static void *pin_thread(void *arg)
{
	struct gpumap_pin pin = { .gpu_address = GPU_BASE, .length = BYTES };

	*(int *)arg = ioctl(gpumap, GPUMAP_IOC_PIN, &pin) ? errno : 0;
	return NULL;
}

/* Freed before the call that pins it has returned: there is no such memory, and nothing is left of it. */
static void freed_while_pinned(void)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	pthread_t thread;
	int result;

	stub_number("get_delay", LONG_MS);
	CHECK(pthread_create(&thread, NULL, pin_thread, &result) == 0);
	while (!tables())
		CHECK(now_ns() < end);
	free_on_gpu(GPU_BASE);
	pthread_join(thread, NULL);
	stub_number("get_delay", 0);
	CHECK(result == EINVAL && tables() == 0);
}

static void *free_thread(void *arg)
{
	free_on_gpu(GPU_BASE);
	return arg;
}

/* The owner ends the pin while the memory goes, and before or after somebody is told. */
static void freed_while_put(void)
{
	for (unsigned int delay = 0; delay < 2 * LONG_MS; delay += LONG_MS / 4) {
		struct gpumap_pin pin;
		unsigned char *at = pinned(gpumap, GPU_BASE, &pin);
		pthread_t thread;

		*(volatile unsigned char *)at = 1;
		stub_number("free_delay", LONG_MS);
		CHECK(pthread_create(&thread, NULL, free_thread, NULL) == 0);
		usleep(delay * 1000);
		CHECK(ioctl(gpumap, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
		CHECK(!touches((void *)at));
		pthread_join(thread, NULL);
		stub_number("free_delay", 0);
		CHECK(tables() == 0);
		munmap(at, BYTES);
	}
}

/* The GPU driver does not take the memory back, and calls when nobody is there any more. */
static void not_taken_back(void)
{
	int fd = open("/dev/gpumap", O_RDWR);
	struct gpumap_pin pin;
	unsigned char *at = pinned(fd, GPU_BASE, &pin);

	stub_number("put_error", EIO);
	CHECK(ioctl(fd, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
	CHECK(!touches((void *)at) && tables() == 1);
	munmap(at, BYTES);
	close(fd);
	free_on_gpu(GPU_BASE);
	CHECK(tables() == 0);
}

/* A mapping that nobody has touched when the memory goes has nothing in it afterwards. */
static void mapped_and_freed(void)
{
	struct gpumap_pin pin;
	unsigned char *at = pinned(gpumap, GPU_BASE, &pin);

	free_on_gpu(GPU_BASE);
	CHECK(!touches((void *)at) && !touches((void *)(at + BYTES - PAGE)));
	munmap(at, BYTES);
	CHECK(ioctl(gpumap, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
	CHECK(tables() == 0);
}

struct shared {
	volatile uint64_t offset;
	volatile uint32_t mapped[TOUCHERS];
	volatile int gone;
};

/* Maps and touches until the memory has gone; whatever is mapped then must be empty. */
static int toucher(struct shared *shared, int which)
{
	unsigned char *old = NULL, *at;

	while (!shared->gone) {
		at = map(gpumap, shared->offset, BYTES);
		if (at == MAP_FAILED)
			break;
		if (touches((void *)(at + (shared->mapped[which] * PAGE) % BYTES)))
			shared->mapped[which]++;
		if (old)
			munmap(old, BYTES);
		old = at;
	}
	while (!shared->gone)
		usleep(100);
	for (size_t i = 0; old && i < BYTES; i += PAGE)
		if (touches((void *)(old + i)))
			return 1;
	return 0;
}

static void freed_while_touched(void)
{
	struct shared *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(shared != MAP_FAILED);
	for (int round = 0; round < 20; round++) {
		struct gpumap_pin pin = { .gpu_address = GPU_BASE, .length = BYTES };
		uint64_t end = now_ns() + PATIENCE_NS;
		pid_t child[TOUCHERS];
		int status;

		CHECK(ioctl(gpumap, GPUMAP_IOC_PIN, &pin) == 0);
		memset(shared, 0, sizeof(*shared));
		shared->offset = pin.offset;
		for (int i = 0; i < TOUCHERS; i++) {
			child[i] = fork();
			CHECK(child[i] >= 0);
			if (child[i] == 0)
				_exit(toucher(shared, i));
		}
		for (int i = 0; i < TOUCHERS; i++)
			while (shared->mapped[i] < 2)
				CHECK(now_ns() < end);
		usleep(round * 7919 % 20000);
		free_on_gpu(GPU_BASE + PAGE);
		shared->gone = 1;
		for (int i = 0; i < TOUCHERS; i++)
			CHECK(waitpid(child[i], &status, 0) == child[i] && status == 0);
		CHECK(ioctl(gpumap, GPUMAP_IOC_UNPIN, &(struct gpumap_unpin){ pin.offset }) == 0);
	}
	CHECK(tables() == 0);
}

/* A user gets some files, not all; root is not counted. */
static void limited(void)
{
	pid_t child;
	int status;

	CHECK(chmod("/dev/gpumap", 0666) == 0);
	CHECK(put_text("/sys/module/gpumap/parameters/user_files", "2") == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int fd[2];

		CHECK(setgid(USER) == 0 && setuid(USER) == 0);
		for (int i = 0; i < 2; i++) {
			fd[i] = open("/dev/gpumap", O_RDWR);
			CHECK(fd[i] >= 0);
		}
		CHECK_ERRNO(open("/dev/gpumap", O_RDWR), EDQUOT);
		close(fd[0]);
		CHECK(open("/dev/gpumap", O_RDWR) >= 0);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (int i = 0; i < 3; i++)
		CHECK(open("/dev/gpumap", O_RDWR | O_CLOEXEC) >= 0);
	CHECK(put_text("/sys/module/gpumap/parameters/user_files", "1024") == 0);
	CHECK(chmod("/dev/gpumap", 0660) == 0);
}

int main(void)
{
	signal(SIGBUS, on_bus_error);
	gpumap = open("/dev/gpumap", O_RDWR);
	CHECK(gpumap >= 0);
	freed_while_pinned();
	freed_while_put();
	not_taken_back();
	mapped_and_freed();
	freed_while_touched();
	limited();
	puts("PASS attack_gpu");
	return 0;
}
