/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that another driver exports as a dma-buf: today's way to GPU memory. Used by the card, and withdrawn. */

#include "gpu.h"

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
