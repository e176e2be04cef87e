/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Limits of processes and of file calls: what is refused says so, and goes once the limit is raised. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "ggas_hpe.h"

enum { MIB = 1024 * 1024, SIZE = 16 * MIB };

static unsigned char back[SIZE];

static void limit(int what, rlim_t most)
{
	struct rlimit now;

	CHECK(!getrlimit(what, &now));
	now.rlim_cur = most;
	CHECK(!setrlimit(what, &now));
}

/* The first call of all: with fewer descriptors than it takes, and then without addresses. Nothing of it stays. */
static void begins(void)
{
	struct rlimit files, addresses;
	int lowest = open("/dev/null", O_RDONLY), refused = 0;

	CHECK(lowest >= 0 && !close(lowest) && !getrlimit(RLIMIT_NOFILE, &files) && !getrlimit(RLIMIT_AS, &addresses));
	CHECK(!*ggas_hpe_error());
	limit(RLIMIT_AS, (rlim_t)1 << 30);
	errno = 0;
	CHECK(!ggas_hpe_alloc(0, 1000) && errno == ENOMEM && strstr(ggas_hpe_error(), "ulimit -v"));
	limit(RLIMIT_AS, addresses.rlim_max);
	for (int most = lowest; most < lowest + 64; most++) {
		int again;

		limit(RLIMIT_NOFILE, (rlim_t)most);
		errno = 0;
		if (ggas_hpe_devices() == 1)
			break;
		CHECK(errno == EMFILE && strstr(ggas_hpe_error(), "ulimit -n"));
		refused++;
		limit(RLIMIT_NOFILE, files.rlim_cur);
		again = open("/dev/null", O_RDONLY);
		CHECK(again == lowest && !close(again));
	}
	CHECK(refused > 1);
	limit(RLIMIT_NOFILE, files.rlim_cur);
}

/* Buffers of copies that there is no room for. */
static void later(unsigned char *device, int file)
{
	struct rlimit addresses;
	FILE *about = fopen("/proc/self/statm", "r");
	long pages;

	CHECK(about && fscanf(about, "%ld", &pages) == 1 && !fclose(about) && !getrlimit(RLIMIT_AS, &addresses));
	limit(RLIMIT_AS, (rlim_t)pages * 4096 + MIB);
	errno = 0;
	CHECK(pread(file, device, SIZE, 0) == -1 && errno == ENOMEM && strstr(ggas_hpe_error(), "ulimit -v"));
	CHECK(!ggas_hpe_copy(back, device, 100));
	limit(RLIMIT_AS, addresses.rlim_max);
	CHECK(pread(file, device, SIZE, 0) == SIZE);
}

/* As many bytes as Linux moves in one call, and no offset behind the last. */
static void long_calls(unsigned char *device, int file)
{
	int nowhere = open("/dev/null", O_WRONLY), zeroes = open("/dev/zero", O_RDONLY);
	int64_t last = INT64_MAX - 4 * MIB - 10;
	unsigned char *large = ggas_hpe_alloc(0, (size_t)3 << 30);
	volatile size_t all = SIZE_MAX;

	CHECK(nowhere >= 0 && zeroes >= 0 && large);
	/* Of memory that was never written, which takes none. */
	CHECK(write(nowhere, large, (size_t)3 << 30) == 0x7ffff000);
	errno = 0;
	CHECK(write(nowhere, large, all) == -1 && errno == EFAULT);
	errno = 0;
	CHECK(write(nowhere, large, all / 2) == -1 && errno == EFAULT);
	for (int of_device = 0; of_device < 2; of_device++) {
		unsigned char *memory = of_device ? device : back;

		errno = 0;
		CHECK(pwrite(nowhere, memory, SIZE, last) == -1 && errno == EINVAL);
		errno = 0;
		CHECK(pread(zeroes, memory, SIZE, last) == -1 && errno == EINVAL);
		errno = 0;
		CHECK(pread(file, memory, SIZE, last) == -1 && errno == EINVAL);
		CHECK(pread(file, memory, MIB, last) == 0);
		errno = 0;
		CHECK(pwrite(nowhere, memory, SIZE, -1) == -1 && errno == EINVAL);
		CHECK(write(nowhere, memory, 0) == 0 && read(file, memory, 0) == 0);
		errno = 0;
		CHECK(read(-1, memory, 0) == -1 && errno == EBADF);
	}
	CHECK(!ggas_hpe_free(large) && !close(nowhere) && !close(zeroes));
}

/* Files that may not be written, or not grow: what was written before is told. */
static void sealed(unsigned char *device)
{
	for (int of_device = 0; of_device < 2; of_device++) {
		unsigned char *memory = of_device ? device : back;
		int file = memfd_create("sealed", MFD_ALLOW_SEALING);

		CHECK(file >= 0 && !ftruncate(file, 5 * MIB) && !fcntl(file, F_ADD_SEALS, F_SEAL_GROW));
		CHECK(pwrite(file, memory, SIZE, 0) == 5 * MIB);
		errno = 0;
		CHECK(pwrite(file, memory, SIZE, 5 * MIB) == -1 && errno == EPERM);
		CHECK(!fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
		errno = 0;
		CHECK(pwrite(file, memory, SIZE, 0) == -1 && errno == EPERM);
		CHECK(pread(file, memory, SIZE, 0) == 5 * MIB && !close(file));
	}
}

/* Appended, also by pwrite, as Linux does; past the page cache where the file system can. */
static void flags(unsigned char *device, char *name)
{
	int file = open(name, O_RDWR | O_APPEND);
	off_t size = lseek(file, 0, SEEK_END);

	CHECK(file >= 0 && size == SIZE && write(file, device, SIZE) == SIZE && lseek(file, 0, SEEK_CUR) == 2 * SIZE);
	CHECK(pwrite(file, device, MIB, 0) == MIB && lseek(file, 0, SEEK_END) == 2 * SIZE + MIB && !close(file));
	file = open(name, O_RDWR | O_DIRECT);
	if (file < 0)
		return;
	/* Buffers of the runtime begin at pages, wherever the device's bytes do. */
	CHECK(pwrite(file, device + 1, 9 * MIB, 8192) == 9 * MIB && pread(file, device + 1, 9 * MIB, 8192) == 9 * MIB);
	CHECK(pread(file, device + 3, 3 * MIB, 2 * SIZE) == MIB && !close(file));
}

int main(void)
{
	char name[] = "/tmp/ggas-hpe-XXXXXX";
	int file = mkstemp(name);
	unsigned char *device;

	CHECK(file >= 0 && write(file, back, SIZE) == SIZE);
	begins();
	device = ggas_hpe_alloc(0, SIZE);
	CHECK(device);
	later(device, file);
	long_calls(device, file);
	sealed(device);
	flags(device, name);
	CHECK(!close(file));
	puts("all well");
	return unlink(name);
}
