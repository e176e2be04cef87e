/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that another driver exports as a dma-buf: today's way to GPU memory. Used by the card, and withdrawn. */

#include "gpumap/ioctl.h"
#include "gpumap/stub.h"
#include "port.h"

#define BYTES (4ul << 16)

static struct port port;

static int exported(uint64_t from, uint64_t length)
{
	static int stub = -1;
	struct gpustub_export arg = { GPUSTUB_BASE + from, length };

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

static uint32_t end(uint64_t nla)
{
	struct extoll_unregister arg = { .nla = nla };

	CHECK(ioctl(port.fd, EXTOLL_IOC_UNREGISTER, &arg) == 0);
	return arg.state;
}

/* Copies by the card; whether it met an error. */
static int copy(uint64_t from, uint64_t to, uint32_t size)
{
	struct extoll_noti noti;
	int error = 0;

	post(&port, EXTOLL_OPTION_TE, extoll_desc_put(0, port.open.node, port.open.vpid,
						      EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER, 0, from, to, size));
	/* What comes behind it says that it is over, however it went. */
	post(&port, EXTOLL_OPTION_TE, extoll_desc_notification_put(port.open.node, port.open.vpid,
								  EXTOLL_SPEC_COMPLETER, 0, 1, 0xfeed));
	do {
		noti = take(&port, 5000);
		CHECK(noti.word1 != 0);
		error |= extoll_noti_error(noti.word1) != 0;
	} while (noti.word0 != 0xfeed);
	return error;
}

/* The GPU takes memory back. */
static void free_on_gpu(uint64_t from)
{
	FILE *file = NULL;
	char path[128];

	for (int i = 1; !file && i < 32; i++) {
		snprintf(path, sizeof(path), "/sys/bus/pci/drivers/gpustub/0000:00:%02x.0/free", i);
		file = fopen(path, "w");
	}
	CHECK(file);
	fprintf(file, "%#llx", GPUSTUB_BASE + (unsigned long long)from);
	CHECK(fclose(file) == 0);
}

/* The same memory as the processor sees it. */
static unsigned char *mapped(int gpumap, uint64_t from)
{
	struct gpumap_pin pin = { .gpu_address = GPUSTUB_BASE + from, .length = BYTES };
	unsigned char *at;

	CHECK(ioctl(gpumap, GPUMAP_IOC_PIN, &pin) == 0);
	at = map(gpumap, pin.offset, BYTES);
	CHECK(at != MAP_FAILED);
	return at;
}

int main(void)
{
	int gpumap = open("/dev/gpumap", O_RDWR), fd, other;
	unsigned char *host = memory(BYTES), *gpu;
	uint64_t nla, second, host_nla;

	CHECK(gpumap >= 0);
	port_open(&port);
	CHECK(region(&port, host, BYTES, &host_nla) == 0);
	gpu = mapped(gpumap, 0);
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
	CHECK(copy(host_nla, nla, BYTES) == 0 && memcmp(gpu, host, BYTES) == 0);
	memset(host, 0, BYTES);
	CHECK(copy(second, host_nla, 4000) == 0 && memcmp(host, gpu + 2 * PAGE + 16, 4000) == 0);
	CHECK(end(second) == 0);
	/* The buffer lives as long as it is registered, whoever closes it. */
	close(fd);
	CHECK(copy(nla, host_nla, 64) == 0 && memcmp(host, gpu, 64) == 0);

	/* Withdrawn: nothing reaches it, and the region says so at its end. */
	memset(gpu, 0x77, BYTES);
	fd = exported(BYTES, BYTES);
	CHECK(fd >= 0 && dmabuf(fd, 0, BYTES, &second) == 0);
	free_on_gpu(BYTES - 1);
	memset(host, 0x11, BYTES);
	CHECK(copy(nla, host_nla, 64) == 1 && host[0] == 0x11);
	CHECK(copy(host_nla, nla, 64) == 1);
	CHECK(copy(host_nla, second, 64) == 0);	/* the other one was not meant */
	CHECK(end(nla) == EXTOLL_REGION_WAS_REVOKED);
	CHECK(end(second) == 0);

	/* What was withdrawn before cannot be registered, and closing the port ends what still is. */
	other = exported(BYTES, BYTES);
	CHECK(other >= 0);
	free_on_gpu(BYTES);
	CHECK_ERRNO(dmabuf(other, 0, PAGE, &nla), ENODEV);
	close(other);
	close(fd);
	fd = exported(0, BYTES);
	CHECK(fd >= 0 && dmabuf(fd, 0, PAGE, &nla) == 0 && dmabuf(fd, 0, PAGE, &second) == 0);
	port_close(&port);
	free_on_gpu(0);
	close(fd);
	printf("PASS dmabuf\n");
	return 0;
}
