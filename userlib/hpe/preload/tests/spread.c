/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that is spread over all devices, in a program that is linked with the library. The argument: how many devices there are. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ggas_hpe.h"

enum { PAGE = 4096, SIZE = 5 * 1024 * 1024 + 12345, THREADS = 4 };

static unsigned char data[SIZE], back[SIZE];
static int devices;
/* Bytes from one part to the next, and where two meet; with one device, somewhere within. */
static size_t stride, seam;

static int is_data(const unsigned char *device, size_t from, size_t bytes)
{
	memset(back, 0, bytes);
	CHECK(ggas_hpe_copy(back, device, bytes) == 0);
	return !memcmp(back, data + from, bytes);
}

/* Each part is its device's, and all of it is one object. */
static void owners(const unsigned char *spread)
{
	for (int part = 0; part < devices; part++) {
		size_t first = part * stride, last = part == devices - 1 ? SIZE - 1 : first + stride - 1;

		CHECK(ggas_hpe_owner(spread + first) == part && ggas_hpe_owner(spread + last) == part);
	}
	CHECK(ggas_hpe_is_device(spread) && ggas_hpe_is_device(spread + SIZE - 1));
	CHECK(ggas_hpe_holds(spread, SIZE) && !ggas_hpe_holds(spread, SIZE + 1) && !ggas_hpe_holds(spread + SIZE, 1));
	CHECK(ggas_hpe_owner(data) == -1 && ggas_hpe_owner(NULL) == -1);
}

static void copies(unsigned char *spread)
{
	unsigned char *other = ggas_hpe_alloc_spread(SIZE), *plain = ggas_hpe_alloc(devices - 1, SIZE);
	const unsigned char *inside;

	CHECK(other && plain);
	/* Zeroed, across all parts. */
	CHECK(ggas_hpe_copy(back, spread, SIZE) == 0);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(!back[i]);
	CHECK(ggas_hpe_copy(spread, data, SIZE) == 0 && is_data(spread, 0, SIZE));
	/* From parts to parts that lie elsewhere, and to one device. */
	CHECK(ggas_hpe_copy(other + 3, spread + 1, SIZE - 3) == 0 && is_data(other + 3, 1, SIZE - 3));
	CHECK(ggas_hpe_copy(plain, spread, SIZE) == 0 && is_data(plain, 0, SIZE));
	CHECK(ggas_hpe_copy(other, plain, SIZE) == 0 && is_data(other, 0, SIZE));
	/* Kernels have it in one range, too: here they are of this process. */
	inside = ggas_hpe_device_address(spread);
	CHECK(inside && !memcmp(inside, data, SIZE));
	CHECK(ggas_hpe_free(other) == 0 && ggas_hpe_free(plain) == 0);
}

static void files(unsigned char *spread)
{
	char name[] = "/tmp/ggas-hpe-XXXXXX";
	int file = mkstemp(name);
	size_t at = seam - 100;
	FILE *stream;

	CHECK(file >= 0 && write(file, spread, SIZE) == SIZE);
	CHECK(pread(file, back, SIZE, 0) == SIZE && !memcmp(back, data, SIZE));
	CHECK(pread(file, spread, SIZE, 10) == SIZE - 10 && is_data(spread, 10, SIZE - 10));
	CHECK(pread(file, spread + at, 200, (off_t)at) == 200 && is_data(spread + at, at, 200));
	CHECK(lseek(file, 0, SEEK_SET) == 0 && read(file, spread, SIZE) == SIZE && is_data(spread, 0, SIZE));
	CHECK(pwrite(file, spread + 5, SIZE - 5, 0) == SIZE - 5);
	CHECK(pread(file, back, SIZE - 5, 0) == SIZE - 5 && !memcmp(back, data + 5, SIZE - 5));
	/* Across the end nothing is moved. */
	CHECK(pread(file, spread + SIZE - 5, 10, 0) == -1 && errno == EFAULT && is_data(spread, 0, SIZE));
	CHECK(close(file) == 0 && (stream = fopen(name, "r+b")));
	CHECK(fwrite(spread, 1, SIZE, stream) == SIZE && fflush(stream) == 0);
	rewind(stream);
	CHECK(fgetc(stream) == data[0] && fread(spread, 1, SIZE, stream) == SIZE - 1 && is_data(spread, 1, SIZE - 1));
	CHECK(fclose(stream) == 0 && unlink(name) == 0);
	CHECK(ggas_hpe_copy(spread, data, SIZE) == 0);
}

/* A datagram is whole, whatever parts it lies on. */
static void datagrams(unsigned char *spread)
{
	size_t at = seam - 500;
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	CHECK(write(ends[0], spread + at, 1000) == 1000 && read(ends[1], back, SIZE) == 1000);
	CHECK(!memcmp(back, data + at, 1000));
	CHECK(write(ends[0], data, 1000) == 1000 && write(ends[0], data, 7) == 7);
	CHECK(read(ends[1], spread + at, 2000) == 1000 && is_data(spread + at, 0, 1000));
	CHECK(read(ends[1], spread + at, 2000) == 7);
	close(ends[0]);
	close(ends[1]);
}

static void errors(unsigned char *spread)
{
	unsigned char *one = ggas_hpe_alloc_spread(1), *none = ggas_hpe_alloc_spread(0);
	int status;

	/* A byte is the first device's. */
	CHECK(one && ggas_hpe_owner(one) == 0 && ggas_hpe_holds(one, 1) && !ggas_hpe_holds(one, 2));
	CHECK(ggas_hpe_copy(one, data, 1) == 0 && is_data(one, 0, 1));
	CHECK(none && ggas_hpe_free(none) == 0);
	errno = 0;
	CHECK(!ggas_hpe_alloc_spread(SIZE_MAX) && errno == ENOMEM);
	errno = 0;
	CHECK(!ggas_hpe_alloc_spread((size_t)1 << 41) && errno == ENOMEM);
	CHECK(ggas_hpe_copy(one, data, 2) == -1 && errno == EFAULT);
	CHECK(ggas_hpe_copy(spread, spread + 1, SIZE / 2) == -1 && errno == EINVAL);
	CHECK(ggas_hpe_free(spread + seam) == -1 && errno == EINVAL);
	CHECK(ggas_hpe_free(one) == 0 && ggas_hpe_free(one) == -1 && errno == EINVAL);
	CHECK(ggas_hpe_copy(back, one, 1) == -1 && errno == EFAULT);
	CHECK(!ggas_hpe_device_address(one) && errno == EFAULT);
	if (fork() == 0) {
		CHECK(ggas_hpe_copy(back, spread, 1) == -1 && errno == ECHILD);
		CHECK(!ggas_hpe_alloc_spread(1) && errno == ECHILD);
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

static void *thread(void *number)
{
	size_t bytes = SIZE / 4 + (size_t)(uintptr_t)number * 777;

	for (int round = 0; round < 20; round++) {
		unsigned char *spread = ggas_hpe_alloc_spread(bytes), *own = malloc(bytes);

		CHECK(spread && own && ggas_hpe_copy(spread, data + round, bytes) == 0);
		CHECK(ggas_hpe_copy(own, spread, bytes) == 0 && !memcmp(own, data + round, bytes));
		CHECK(ggas_hpe_free(spread) == 0);
		free(own);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	unsigned char *spread;

	devices = argc > 1 ? atoi(argv[1]) : 1;
	CHECK(ggas_hpe_devices() == devices);
	stride = ((SIZE + devices - 1) / devices + PAGE - 1) / PAGE * PAGE;
	seam = devices > 1 ? stride : SIZE / 2;
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 31 + (i >> 8));
	spread = ggas_hpe_alloc_spread(SIZE);
	CHECK(spread);
	owners(spread);
	copies(spread);
	files(spread);
	datagrams(spread);
	errors(spread);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)i) == 0);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(ggas_hpe_free(spread) == 0);
	puts("all well");
	return 0;
}
