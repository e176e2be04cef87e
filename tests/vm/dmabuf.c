/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that another driver exports as a dma-buf: today's way to GPU memory. Used by the card, and withdrawn. */

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "card.h"
#include "gpu.h"

#define LARGE	(64ul << 20)	/* the whole GPU: translations fill 128 KiB */
#define REGIONS	64		/* of 4 GiB in all: the tables have 8 MiB */
#define CGROUPS "/tmp/cgroups"
#define CGROUP	CGROUPS "/user/"

static struct port port;

static int exported(uint64_t from, uint64_t length)
{
	static int stub = -1;
	struct gpustub_export arg = { GPU_BASE + from, length };

	if (stub < 0)
		stub = open("/dev/gpustub", O_RDWR | O_CLOEXEC);
	CHECK(stub >= 0);
	return ioctl(stub, GPUSTUB_IOC_EXPORT, &arg);
}

static int dmabuf(int fd, uint64_t offset, uint64_t length, uint64_t *nla)
{
	struct extoll_register arg = {
		.kind = EXTOLL_REGION_DMABUF, .access = 3, .address = offset, .length = length, .fd = fd,
	};
	int err = ioctl(port.fd, EXTOLL_IOC_REGISTER, &arg);

	*nla = arg.nla;
	return err;
}

/* How many of the buffer's regions can be had. */
static int large_regions(int fd, uint64_t *nla)
{
	int count;

	for (count = 0; count < REGIONS && dmabuf(fd, 0, LARGE, &nla[count]) == 0;)
		count++;
	CHECK(count == REGIONS || errno == ENOMEM);
	return count;
}

static void ends(const uint64_t *nla, int count)
{
	for (int i = 0; i < count; i++)
		CHECK(end(&port, nla[i]) == 0);
}

static long cgroup_kib(void)
{
	FILE *file = fopen(CGROUP "memory.current", "r");
	long bytes;

	CHECK(file && fscanf(file, "%ld", &bytes) == 1);
	fclose(file);
	return bytes / 1024;
}

/* A cgroup has no more tables than it has memory, and has that back when its regions are gone. */
static void in_cgroup(int fd)
{
	uint64_t nla[REGIONS];
	char most[32];
	long before;
	int count;

	CHECK(put_text(CGROUP "cgroup.procs", "0") == 0);
	ends(nla, large_regions(fd, nla));	/* what is made once */
	before = cgroup_kib();
	snprintf(most, sizeof(most), "%ld", (before + 5 * 1024) * 1024);
	CHECK(put_text(CGROUP "memory.max", most) == 0);
	count = large_regions(fd, nla);
	CHECK(count >= 2 * REGIONS / 4 && count < REGIONS);
	ends(nla, count);
	CHECK(put_text(CGROUP "memory.max", "max") == 0);
	CHECK(large_regions(fd, nla) == REGIONS);
	CHECK(cgroup_kib() - before >= 6 * 1024);
	ends(nla, REGIONS);
	CHECK(cgroup_kib() - before < 1024);
	exit(0);
}

/* As memory that is pinned. */
static void with_limit(int fd)
{
	struct rlimit limit = { 260 * 1024, 260 * 1024 };
	uint64_t nla[REGIONS], small;

	port_open(&port);	/* on its own account only */
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
	CHECK(large_regions(fd, nla) == 2);
	CHECK(dmabuf(fd, 0, 1, &small) == 0);
	CHECK(status_kib("VmPin:") == 260);
	CHECK_ERRNO(dmabuf(fd, 0, 1, &nla[2]), ENOMEM);
	ends(nla, 2);
	CHECK(end(&port, small) == 0);
	CHECK(status_kib("VmPin:") == 0);
	exit(0);
}

static void in_child(void (*what)(int fd), int fd)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		what(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Who registers device memory pays for its translations. */
static void charged(void)
{
	int fd = exported(0, LARGE);

	CHECK(fd >= 0);
	in_child(with_limit, fd);
	CHECK(mkdir(CGROUPS, 0700) == 0);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL) == 0) {	/* the debug kernel has none */
		CHECK(put_text(CGROUPS "/cgroup.subtree_control", "+memory") == 0);
		CHECK(mkdir(CGROUP, 0700) == 0);
		in_child(in_cgroup, fd);
		CHECK(rmdir(CGROUP) == 0 && umount(CGROUPS) == 0);
	} else {
		CHECK(errno == ENODEV);
	}
	close(fd);
}

int main(void)
{
	int gpumap = open("/dev/gpumap", O_RDWR), fd, other;
	unsigned char *host = memory(BYTES), *gpu;
	uint64_t nla, second, host_nla;
	struct gpumap_pin pin;

	CHECK(gpumap >= 0);
	port_open(&port);
	CHECK(region(&port, host, BYTES, &host_nla) == 0);
	gpu = pinned(gpumap, GPU_BASE, &pin);
	CHECK_ERRNO(exported(0, 0), EINVAL);
	CHECK_ERRNO(exported(4096, BYTES), EINVAL);
	CHECK_ERRNO(exported(0, 1ul << 40), EINVAL);
	fd = exported(0, BYTES);
	CHECK(fd >= 0);

	CHECK_ERRNO(dmabuf(fd, 0, BYTES + 1, &nla), EINVAL);
	CHECK_ERRNO(dmabuf(fd, BYTES, 1, &nla), EINVAL);
	CHECK_ERRNO(dmabuf(fd, ~0xfffull - PAGE, PAGE, &nla), EINVAL);
	CHECK_ERRNO(dmabuf(gpumap, 0, PAGE, &nla), EINVAL);
	CHECK(dmabuf(fd, 0, BYTES, &nla) == 0);
	CHECK(dmabuf(fd, 2 * PAGE + 16, PAGE, &second) == 0);
	for (size_t i = 0; i < BYTES; i++)
		host[i] = (unsigned char)(i * 31 + i / 511);
	CHECK(copy(&port, host_nla, nla, BYTES) == 0 && memcmp(gpu, host, BYTES) == 0);
	memset(host, 0, BYTES);
	CHECK(copy(&port, second, host_nla, 4000) == 0 && memcmp(host, gpu + 2 * PAGE + 16, 4000) == 0);
	CHECK(end(&port, second) == 0);
	/* The buffer lives as long as it is registered, whoever closes it. */
	close(fd);
	CHECK(copy(&port, nla, host_nla, 64) == 0 && memcmp(host, gpu, 64) == 0);

	charged();

	/* Withdrawn: nothing reaches it, and the region says so at its end. */
	memset(gpu, 0x77, BYTES);
	fd = exported(BYTES, BYTES);
	CHECK(fd >= 0 && dmabuf(fd, 0, BYTES, &second) == 0);
	free_on_gpu(GPU_BASE + BYTES - 1);
	memset(host, 0x11, BYTES);
	CHECK(copy(&port, nla, host_nla, 64) == 1 && host[0] == 0x11);
	CHECK(copy(&port, host_nla, nla, 64) == 1);
	CHECK(copy(&port, host_nla, second, 64) == 0);	/* the other one was not meant */
	CHECK(end(&port, nla) == EXTOLL_REGION_WAS_REVOKED);
	CHECK(end(&port, second) == 0);

	/* What was withdrawn before cannot be registered, and closing the port ends what still is. */
	other = exported(BYTES, BYTES);
	CHECK(other >= 0);
	free_on_gpu(GPU_BASE + BYTES);
	CHECK_ERRNO(dmabuf(other, 0, PAGE, &nla), ENODEV);
	close(other);
	close(fd);
	fd = exported(0, BYTES);
	CHECK(fd >= 0 && dmabuf(fd, 0, PAGE, &nla) == 0 && dmabuf(fd, 0, PAGE, &second) == 0);
	port_close(&port);
	free_on_gpu(GPU_BASE);
	close(fd);
	printf("PASS dmabuf\n");
	return 0;
}
