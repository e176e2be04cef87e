/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * File calls with pointers of devices. The functions of ggas_hpe.h are found
 * at run time, so that the program is the same with and without the library;
 * without it, it says "absent".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SIZE = 5 * 1024 * 1024 + 12345 };

static void *(*alloc)(int, size_t);
static int (*release)(void *);
static int (*copy)(void *, const void *, size_t);
static unsigned char data[SIZE], back[SIZE];
/* The device: the executor's, which is the first one, or with GGAS_TEST_GPUS the GPU behind it. */
static int number;

static void descriptors(char *name, unsigned char *device)
{
	int file = open(name, O_RDWR);

	CHECK(file >= 0);
	CHECK(read(file, device, SIZE) == SIZE);
	CHECK(read(file, device, SIZE) == 0);
	memset(back, 0, SIZE);
	CHECK(copy(back, device, SIZE) == 0 && !memcmp(back, data, SIZE));
	/* A short read at the end of the file leaves what is behind it. */
	CHECK(pread(file, device, SIZE, SIZE - 1000) == 1000);
	CHECK(copy(back, device, SIZE) == 0);
	CHECK(!memcmp(back, data + SIZE - 1000, 1000) && !memcmp(back + 1000, data + 1000, SIZE - 1000));
	/* Blocks behind the first one come from behind it. */
	CHECK(pread(file, device, SIZE, 10) == SIZE - 10);
	CHECK(copy(back, device, SIZE) == 0 && !memcmp(back, data + 10, SIZE - 10));
	/* Out again, at an offset. */
	CHECK(copy(device, data, SIZE) == 0);
	CHECK(pwrite(file, device, SIZE, 77) == SIZE);
	CHECK(pread(file, back, SIZE, 77) == SIZE && !memcmp(back, data, SIZE));
	CHECK(lseek(file, 0, SEEK_SET) == 0 && write(file, device, SIZE) == SIZE);
	CHECK(lseek(file, 0, SEEK_CUR) == SIZE);
	close(file);
}

static void errors(char *name, unsigned char *device)
{
	int file = open(name, O_RDONLY);
	unsigned char *freed = alloc(number, 100);

	errno = 0;
	CHECK(write(file, device, 10) == -1 && errno == EBADF);
	CHECK(read(-1, device, 10) == -1 && errno == EBADF);
	CHECK(pread(file, device, 10, -1) == -1 && errno == EINVAL);
	/* Across objects: nothing is read, and the offset stays. */
	CHECK(read(file, device + SIZE - 5, 10) == -1 && errno == EFAULT);
	CHECK(lseek(file, 0, SEEK_CUR) == 0);
	CHECK(freed && release(freed) == 0);
	CHECK(read(file, freed, 10) == -1 && errno == EFAULT);
	CHECK(release(freed) == -1 && errno == EINVAL);
	CHECK(copy(device, device + 1, 10) == -1 && errno == EINVAL);
	CHECK(!alloc(99, 10) && errno);
	CHECK(read(file, device, 0) == 0);
	close(file);
}

static void streams(char *name, unsigned char *device)
{
	FILE *file = fopen(name, "r+b");

	CHECK(file);
	/* Bytes that the stream has read ahead come first. */
	CHECK(fgetc(file) == data[0]);
	CHECK(fread(device, 1000, SIZE / 1000, file) == SIZE / 1000);
	CHECK(copy(back, device, SIZE / 1000 * 1000) == 0 && !memcmp(back, data + 1, SIZE / 1000 * 1000));
	/* Whole items only, as the end comes. */
	rewind(file);
	CHECK(fseek(file, -2500, SEEK_END) == 0);
	CHECK(fread(device, 1000, 10, file) == 2 && feof(file));
	rewind(file);
	CHECK(copy(device, data, SIZE) == 0);
	CHECK(fwrite(device, 1, SIZE, file) == SIZE && fclose(file) == 0);
	file = fopen(name, "rb");
	CHECK(fread(back, 1, SIZE, file) == SIZE && !memcmp(back, data, SIZE));
	CHECK(fwrite(device, 1, 10, file) == 0 && errno == EBADF && ferror(file));
	fclose(file);
}

/* A pipe is not waited for beyond what it holds. */
static void pipes(unsigned char *device)
{
	int ends[2];

	CHECK(pipe(ends) == 0);
	CHECK(write(ends[1], data, 100) == 100);
	CHECK(read(ends[0], device, SIZE) == 100);
	CHECK(write(ends[1], device, 100) == 100 && read(ends[0], back, SIZE) == 100);
	CHECK(!memcmp(back, data, 100));
	CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	CHECK(read(ends[0], device, 10) == -1 && errno == EAGAIN);
}

static void child(char *name, unsigned char *device)
{
	int status;

	if (fork() == 0) {
		int file = open(name, O_RDONLY);

		/* CUDA does not say there whose a pointer is. */
		CHECK(read(file, device, 10) == -1 && errno == (number ? EFAULT : ECHILD));
		CHECK(read(file, back, 10) == 10);
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

int main(void)
{
	char name[] = "/tmp/ggas-hpe-XXXXXX";
	int file = mkstemp(name);
	unsigned char *device;

	*(void **)&alloc = dlsym(RTLD_DEFAULT, "ggas_hpe_alloc");
	*(void **)&release = dlsym(RTLD_DEFAULT, "ggas_hpe_free");
	*(void **)&copy = dlsym(RTLD_DEFAULT, "ggas_hpe_copy");
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 31 + (i >> 8));
	CHECK(file >= 0 && write(file, data, SIZE) == SIZE && close(file) == 0);
	if (!alloc) {
		puts("absent");
		return unlink(name);
	}
	number = getenv("GGAS_TEST_GPUS") ? 1 : 0;
	device = alloc(number, SIZE);
	CHECK(device);
	descriptors(name, device);
	file = open(name, O_WRONLY | O_TRUNC);
	CHECK(write(file, device, SIZE) == SIZE && close(file) == 0);
	errors(name, device);
	streams(name, device);
	pipes(device);
	child(name, device);
	CHECK(release(device) == 0);
	puts("all well");
	return unlink(name);
}
