/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* readv, writev, preadv and pwritev: parts of the host and of devices, mixed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ggas_hpe.h"

enum { LONG = 5 * 1024 * 1024 + 77, SIZE = 8 * 1024 * 1024 };

static unsigned char data[SIZE], back[SIZE], host[SIZE];
static unsigned char *device, *other;

static void clear(void)
{
	memset(back, 0xee, SIZE);
	memset(host, 0xee, SIZE);
	CHECK(!ggas_hpe_copy(device, back, SIZE) && !ggas_hpe_copy(other, back, SIZE));
}

/* Whether the parts hold what a file has from `at` on, and so many bytes in all; behind them nothing is written. */
static int hold(const struct iovec *parts, int count, size_t at, size_t bytes)
{
	for (int i = 0; i < count; i++) {
		size_t here = bytes < parts[i].iov_len ? bytes : parts[i].iov_len;

		CHECK(!ggas_hpe_copy(back, parts[i].iov_base, parts[i].iov_len));
		if (memcmp(back, data + at, here) || (here < parts[i].iov_len && back[here] != 0xee))
			return 0;
		at += here;
		bytes -= here;
	}
	return !bytes;
}

/* Short ones, none, long ones, more short ones than go in one call, and of two devices' memory. */
static int mix(struct iovec *parts)
{
	struct iovec some[] = {
		{ host, 10 },		     { device, 100 },		     { NULL, 0 },
		{ host + 100, 5000 },	     { device + 1000, LONG },	     { device + 500, 0 },
		{ other, 700000 },	     { other + 700001, 700000 },     { host + 10000, 1 },
	};

	memcpy(parts, some, sizeof(some));
	return sizeof(some) / sizeof(*some);
}

static void files(char *name)
{
	struct iovec parts[16];
	int count = mix(parts), file = open(name, O_RDWR);
	ssize_t all = 10 + 100 + 5000 + LONG + 1400000 + 1;

	CHECK(file >= 0);
	clear();
	CHECK(readv(file, parts, count) == all && hold(parts, count, 0, all) && lseek(file, 0, SEEK_CUR) == all);
	/* The file ends within the last long part, in a short one, and before all. */
	clear();
	CHECK(preadv(file, parts, count, SIZE - 5000000) == 5000000 && hold(parts, count, SIZE - 5000000, 5000000));
	clear();
	CHECK(preadv(file, parts, count, SIZE - 50) == 50 && hold(parts, count, SIZE - 50, 50));
	clear();
	CHECK(preadv(file, parts, count, SIZE) == 0 && hold(parts, count, 0, 0));
	CHECK(lseek(file, 0, SEEK_CUR) == all);
	/* Out again, elsewhere and at the position. */
	CHECK(preadv64(file, parts, count, 0) == all && pwritev64(file, parts, count, 3) == all);
	CHECK(pread(file, back, all, 3) == all && !memcmp(back, data, all) && lseek(file, 1, SEEK_SET) == 1);
	CHECK(writev(file, parts, count) == all && lseek(file, 0, SEEK_CUR) == 1 + all);
	CHECK(pread(file, back, all, 1) == all && !memcmp(back, data, all));
	CHECK(pwrite(file, data, SIZE, 0) == SIZE && pwritev(file, parts, 2, 0) == 110 && !close(file));
	/* Behind what the file has. */
	file = open(name, O_RDWR | O_APPEND);
	CHECK(writev(file, parts, 4) == 5110 && pread(file, back, 6000, SIZE) == 5110 && !memcmp(back, data, 5110));
	CHECK(!ftruncate(file, SIZE) && !close(file));
}

/* By no cache: file systems that have that want memory that is aligned. */
static void direct(char *name)
{
	unsigned char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec parts[] = { { pages, 4096 }, { device, 4096 }, { other, 8192 }, { pages + 4096, 4096 } };
	int file = open(name, O_RDWR | O_DIRECT);

	CHECK(pages != MAP_FAILED);
	if (file < 0 || preadv(file, parts, 1, 0) != 4096)
		return;
	clear();
	memset(pages, 0xee, 8192);
	CHECK(preadv(file, parts, 4, 0) == 20480 && hold(parts, 4, 0, 20480));
	CHECK(pwritev(file, parts, 4, 4096) == 20480 && preadv(file, parts, 4, 4096) == 20480 && hold(parts, 4, 0, 20480));
	CHECK(!close(file));
	file = open(name, O_WRONLY);
	CHECK(pwrite(file, data, 32768, 0) == 32768 && !close(file));
}

/* A message is one, and a pipe is not waited for. */
static void messages(void)
{
	struct iovec out[] = { { data, 10 }, { device, 3000 }, { data + 3010, 20 } };
	struct iovec in[] = { { other, 1000 }, { host, 500 }, { other + 1000, 100000 }, { host + 500, 10 } };
	int ends[2];
	ssize_t fits;

	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends));
	clear();
	CHECK(!ggas_hpe_copy(device, data + 10, 3000));
	for (int i = 0; i < 2; i++)
		CHECK(writev(ends[0], out, 3) == 3030);
	for (int i = 0; i < 2; i++) {
		CHECK(readv(ends[1], in, 4) == 3030 && hold(in, 4, 0, 3030));
		clear();
	}
	CHECK(readv(ends[1], in, 4) == -1 && errno == EAGAIN);
	/* Into the beginning of a part that is longer than what goes in one call. */
	in[0].iov_len = 10;
	in[1].iov_len = LONG;
	CHECK(send(ends[0], data, 3030, 0) == 3030);
	CHECK(readv(ends[1], in, 2) == 3030 && hold(in, 2, 0, 3030));
	in[0].iov_len = 1000;
	in[1].iov_len = 500;
	clear();
	CHECK(!close(ends[0]) && !close(ends[1]) && !pipe(ends));
	CHECK(!ggas_hpe_copy(device, data + 10, 3000));
	CHECK(writev(ends[1], out, 3) == 3030 && readv(ends[0], in, 4) == 3030 && hold(in, 4, 0, 3030));
	/* Exactly what the first parts, or a long one of a device, have room for. */
	clear();
	CHECK(write(ends[1], data, 1500) == 1500 && readv(ends[0], in, 4) == 1500 && hold(in, 4, 0, 1500));
	in[0].iov_len = LONG;
	clear();
	CHECK(write(ends[1], data, 700) == 700 && readv(ends[0], in, 2) == 700 && hold(in, 2, 0, 700));
	/* More than a pipe has room for. */
	out[1].iov_len = LONG;
	CHECK(!ggas_hpe_copy(device, data + 10, LONG) && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
	fits = writev(ends[1], out, 3);
	CHECK(fits > 4096 && fits <= fcntl(ends[1], F_GETPIPE_SZ));
	CHECK(read(ends[0], back, SIZE) == fits && !memcmp(back, data, fits));
	CHECK(writev(ends[1], out, 3) == fits);
	CHECK(writev(ends[1], out, 3) == -1 && errno == EAGAIN);
	CHECK(!close(ends[0]) && !close(ends[1]));
}

static void errors(char *name)
{
	unsigned char *freed = ggas_hpe_alloc(0, 100), *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec parts[] = { { host, 10 }, { device, 10 }, { NULL, 10 }, { host + 10, 10 } };
	struct iovec *many = calloc(1025, sizeof(*many));
	/* As compilers do not see them. */
	struct iovec *volatile nowhere = (struct iovec *)8;
	volatile int less = -1;
	int file = open(name, O_RDWR);

	CHECK(freed && many && !ggas_hpe_free(freed));
	CHECK(readv(-1, parts, 2) == -1 && errno == EBADF);
	CHECK(preadv(file, parts, 2, -5) == -1 && errno == EINVAL);
	CHECK(readv(file, parts, less) == -1 && errno == EINVAL);
	for (int i = 0; i < 1025; i++)
		many[i] = (struct iovec){ device + i, 1 };
	CHECK(readv(file, many, 1025) == -1 && errno == EINVAL);
	CHECK(readv(file, many, 1024) == 1024 && !ggas_hpe_copy(back, device, 1024) && !memcmp(back, data, 1024));
	CHECK(readv(file, (struct iovec *)page, 2) == -1 && errno == EFAULT);
	CHECK(readv(file, nowhere, 2) == -1 && errno == EFAULT);
	parts[3].iov_len = (size_t)-1;
	CHECK(writev(file, parts, 4) == -1 && errno == EINVAL);
	CHECK(lseek(file, 0, SEEK_CUR) == 1024);
	/* What is before a part that is nobody's is moved; nothing, if it is the first. */
	parts[2] = (struct iovec){ freed, 10 };
	CHECK(preadv(file, parts, 3, 0) == 20 && preadv(file, parts + 2, 1, 0) == -1 && errno == EFAULT);
	CHECK(*ggas_hpe_error());
	parts[2] = (struct iovec){ page, 10 };
	CHECK(pwritev(file, parts, 3, 0) == 20 && pwritev(file, parts + 2, 1, 0) == -1 && errno == EFAULT);
	parts[2] = (struct iovec){ device + SIZE - 5, 10 };
	CHECK(preadv(file, parts, 3, 0) == 20);
	CHECK(!close(file));
	free(many);
}

static void child(char *name)
{
	struct iovec parts[] = { { host, 10 }, { device, 10 } };
	int status, file = open(name, O_RDONLY);

	if (fork() == 0) {
		CHECK(readv(file, parts, 2) == -1 && errno == ECHILD);
		CHECK(readv(file, parts, 1) == 10 && !memcmp(host, data, 10));
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0 && !close(file));
}

int main(void)
{
	char name[] = "/tmp/ggas-hpe-XXXXXX";
	struct iovec two[] = { { data, 100 }, { data + 100, SIZE - 100 } };
	int file = mkstemp(name);

	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 31 + (i >> 8));
	/* Before there is a runtime. */
	CHECK(file >= 0 && writev(file, two, 2) == SIZE && !close(file));
	device = ggas_hpe_alloc(0, SIZE);
	other = ggas_hpe_alloc(0, SIZE);
	CHECK(device && other);
	files(name);
	direct(name);
	messages();
	errors(name);
	child(name);
	CHECK(!ggas_hpe_free(device) && !ggas_hpe_free(other));
	puts("all well");
	return unlink(name);
}
