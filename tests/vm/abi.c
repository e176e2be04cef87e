/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attacks on the calls of /dev/extollN: each gives the documented error, and takes nothing that is not the caller's. */

#include "port.h"

/* Structures of other sizes, at the edge of what is mapped, with members that nobody knows. */
static void sizes(int fd)
{
	unsigned char *pages = memory(2 * PAGE), *edge = pages + PAGE, *huge;
	struct extoll_info *info = (struct extoll_info *)(edge - sizeof(*info));
	struct { struct extoll_info info; uint64_t more; } longer;

	CHECK(mprotect(edge, PAGE, PROT_NONE) == 0);
	memset(info, 0xff, sizeof(*info));
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, (char *)info + 1), EFAULT);
	CHECK(ioctl(fd, EXTOLL_IOC_INFO, info) == 0);
	CHECK(info->abi_version == EXTOLL_ABI_VERSION && info->ports == 251 && info->fragment_bytes == 496);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, edge), EFAULT);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, NULL), EFAULT);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, (void *)~0xffful), EFAULT);
	CHECK(mprotect(pages, PAGE, PROT_READ) == 0);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, info), EFAULT);

	/* The longest that a call's number can say: all of it is looked at, none of it kept. */
	huge = memory(4 * PAGE);
	CHECK(ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, EXTOLL_IOC_MAGIC, 0, _IOC_SIZEMASK), huge) == 0);
	CHECK(((struct extoll_info *)huge)->ports == 251);
	huge[_IOC_SIZEMASK - 1] = 1;
	CHECK_ERRNO(ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, EXTOLL_IOC_MAGIC, 0, _IOC_SIZEMASK), huge), E2BIG);
	munmap(huge, 4 * PAGE);
	memset(&longer, 0, sizeof(longer));
	CHECK(ioctl(fd, _IOWR(EXTOLL_IOC_MAGIC, 0, longer), &longer) == 0 && longer.info.ports == 251);
	longer.more = 1;
	CHECK_ERRNO(ioctl(fd, _IOWR(EXTOLL_IOC_MAGIC, 0, longer), &longer), E2BIG);
	CHECK_ERRNO(ioctl(fd, _IOWR(EXTOLL_IOC_MAGIC, 0, uint64_t), &longer), EINVAL);
	CHECK_ERRNO(ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, EXTOLL_IOC_MAGIC, 0, 0), &longer), EINVAL);
	CHECK_ERRNO(ioctl(fd, _IOR(EXTOLL_IOC_MAGIC, 0, struct extoll_info), &longer), ENOTTY);
	CHECK_ERRNO(ioctl(fd, _IOWR(EXTOLL_IOC_MAGIC, 99, struct extoll_info), &longer), ENOTTY);
	CHECK_ERRNO(ioctl(fd, _IOWR('k', 0, struct extoll_info), &longer), ENOTTY);
	munmap(pages, 2 * PAGE);
}

static void without_port(int fd)
{
	struct extoll_register reg = { .access = 3, .address = (uintptr_t)&reg, .length = 8 };
	struct extoll_unregister unreg = { .nla = 4096 };
	struct extoll_wait wait = { .unit = EXTOLL_UNIT_RMA };

	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_REGISTER, &reg), ENXIO);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_UNREGISTER, &unreg), ENXIO);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WAIT, &wait), ENXIO);
	for (uint64_t offset = 0; offset < 0x500000000; offset += 0x100000) {
		if (offset > 0x600000 && offset % 0x100000000)
			continue;
		errno = 0;
		CHECK(map(fd, offset, PAGE) == MAP_FAILED && errno == ENXIO);
	}
	CHECK(map(fd, EXTOLL_MAP_WINDOW + (32 << 20), PAGE) == MAP_FAILED && errno == ENXIO);
	CHECK(map(fd, EXTOLL_MAP_WINDOW, PAGE) == MAP_FAILED && errno == EINVAL);
}

static void bad_ports(void)
{
	struct { uint32_t units, flags, queue, segment; int error; } bad[] = {
		{ 0, 0, 0, 0, EINVAL }, { 4, 0, 0, 0, EINVAL }, { 1, 1, 0, 0, EINVAL },
		{ 1, 0, 4095, 0, EINVAL }, { 1, 0, 65536 + 4096, 0, EINVAL }, { 1, 0, 0, 100, EINVAL },
		{ 1, 0, 0, 0x200000, EINVAL }, { 1, 0, 513 * 4096, 4096, EINVAL }, { 1, 0, 0xfffff000, 0, EINVAL },
	};
	int fd = device_open();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct extoll_port_open arg = {
			.units = bad[i].units, .flags = bad[i].flags, .queue_bytes = bad[i].queue,
			.segment_bytes = bad[i].segment,
		};
		CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &arg), bad[i].error);
	}
	close(fd);
}

static void bad_maps(struct port *port)
{
	uint32_t bytes = port->open.queue_bytes_out;
	struct { uint64_t offset; size_t bytes; int error; } bad[] = {
		{ EXTOLL_MAP_WCB, 2 * PAGE, EINVAL }, { EXTOLL_MAP_WCB + PAGE, PAGE, EINVAL },
		{ EXTOLL_MAP_RP, 2 * PAGE, EINVAL }, { EXTOLL_MAP_RP + PAGE, PAGE, EINVAL },
		{ EXTOLL_MAP_QUEUE, bytes + PAGE, EINVAL }, { EXTOLL_MAP_QUEUE, PAGE, EINVAL },
		{ EXTOLL_MAP_QUEUE + PAGE, bytes - PAGE, EINVAL }, { 31 * PAGE, 2 * PAGE, EINVAL },
		{ 32 * PAGE, PAGE, EINVAL }, { 0, 33 * PAGE, EINVAL }, { EXTOLL_MAP_VELO_WCB, PAGE, ENXIO },
		{ EXTOLL_MAP_VELO_MAILBOX, PAGE, ENXIO }, { 0x600000, PAGE, EINVAL },
		{ 0x7ffffffffffff000, PAGE, EINVAL },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		if (map(port->fd, bad[i].offset, bad[i].bytes) != MAP_FAILED || errno != bad[i].error) {
			printf("FAIL map %zu: errno %d\n", i, errno);
			exit(1);
		}
	}
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, port->fd, EXTOLL_MAP_RP) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, port->fd, EXTOLL_MAP_RP) == MAP_FAILED &&
	      errno == EPERM);
	CHECK_ERRNO(mprotect((void *)port->rp, PAGE, PROT_READ | PROT_EXEC), EACCES);
}

static int register_raw(struct port *port, struct extoll_register arg)
{
	return ioctl(port->fd, EXTOLL_IOC_REGISTER, &arg);
}

#define REG(...) register_raw(port, (struct extoll_register){ __VA_ARGS__ })

static long free_kib(void)
{
	char line[128];
	long value = -1;
	FILE *file = fopen("/proc/meminfo", "r");

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "MemFree: %ld", &value);
	fclose(file);
	CHECK(value >= 0);
	return value;
}

static void bad_regions(struct port *port)
{
	unsigned char *at = memory(4 * PAGE);
	uint64_t address = (uintptr_t)at;
	long before = status_kib("VmPin:"), free_before;

	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 0), EINVAL);
	CHECK_ERRNO(REG(.access = 0, .address = address, .length = 8), EINVAL);
	CHECK_ERRNO(REG(.access = 4, .address = address, .length = 8), EINVAL);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 8, .flags = 1), EINVAL);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 8, .fd = 3), EINVAL);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 8, .kind = 3), EINVAL);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = ~0ull), EINVAL);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 1ull << 41), ENOSPC);
	/* Memory that is not there costs none, tables for its translations neither. */
	free_before = free_kib();
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 1ull << 37), EFAULT);
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_MMIO, .access = 3, .address = address, .length = 1ull << 37), EPERM);
	CHECK(free_before - free_kib() < 64 * 1024);
	CHECK_ERRNO(REG(.access = 3, .address = ~0ull, .length = 1), EINVAL);
	/* The end of the last page is 0. */
	for (uint32_t kind = EXTOLL_REGION_USER; kind <= EXTOLL_REGION_DMABUF; kind++)
		CHECK_ERRNO(REG(.kind = kind, .access = 3, .address = -PAGE, .length = 1), EINVAL);
	CHECK_ERRNO(REG(.access = 3, .address = 0xffffffff81000000, .length = 4096), EFAULT);
	CHECK_ERRNO(REG(.access = 3, .address = 0, .length = 4096), EFAULT);
	munmap(at + 3 * PAGE, PAGE);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 3 * PAGE + 1), EFAULT);
	mprotect(at + 2 * PAGE, PAGE, PROT_READ);
	CHECK_ERRNO(REG(.access = 3, .address = address, .length = 3 * PAGE), EFAULT);
	CHECK_ERRNO(REG(.access = EXTOLL_ACCESS_WRITE, .address = address, .length = 3 * PAGE), EFAULT);
	CHECK(REG(.access = EXTOLL_ACCESS_READ, .address = address, .length = 3 * PAGE) == 0);
	/* What another driver mapped is not for the taking, nor is ordinary memory as device memory. */
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_USER, .access = 3, .address = (uintptr_t)port->queue, .length = 8), EFAULT);
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_MMIO, .access = 3, .address = (uintptr_t)port->queue, .length = 8), EPERM);
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_MMIO, .access = 3, .address = address, .length = 8), EPERM);
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_MMIO, .access = 3, .address = 4096, .length = 8), EFAULT);
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_DMABUF, .access = 3, .length = 8, .fd = 999), EBADF);
	CHECK_ERRNO(REG(.kind = EXTOLL_REGION_DMABUF, .access = 3, .length = 8, .fd = port->fd), EINVAL);
	CHECK(status_kib("VmPin:") == before + 12);
}

static void forged(struct port *port, struct port *other)
{
	uint64_t nla, mine;
	void *at = memory(8 * PAGE);

	CHECK(region(other, at, 8 * PAGE, &nla) == 0);
	CHECK(region(port, at, 8 * PAGE, &mine) == 0 && mine != nla);
	CHECK_ERRNO(region_end(port, nla), ENOENT);
	CHECK_ERRNO(region_end(port, 0), ENOENT);
	CHECK_ERRNO(region_end(port, mine + 4096), ENOENT);
	CHECK_ERRNO(region_end(port, mine + 8), ENOENT);
	CHECK_ERRNO(region_end(port, ~0ull), ENOENT);
	CHECK_ERRNO(region_end(port, mine | 1ull << 40), ENOENT);
	for (uint64_t bit = 1; bit < 1ull << 40; bit <<= 1)
		CHECK_ERRNO(region_end(port, mine ^ bit), ENOENT);
	CHECK(region_end(port, mine) == 0);
	CHECK_ERRNO(region_end(port, mine), ENOENT);
	CHECK(region_end(other, nla) == 0);
	munmap(at, 8 * PAGE);
}

/* What comes after all that was posted says that it is over; everything else met an error. */
static void all_refused(struct port *port)
{
	struct extoll_noti noti;

	post(port, EXTOLL_OPTION_TE, extoll_desc_notification_put(port->open.node, port->open.vpid,
								  EXTOLL_SPEC_COMPLETER, 0, 42, 4242));
	for (;;) {
		noti = take(port, PATIENCE_MS);
		CHECK(noti.word1 != 0);
		if (noti.word0 == 4242)
			return;
		CHECK(extoll_noti_error(noti.word1) != 0);
	}
}

static void unchanged(const unsigned char *at, unsigned char value)
{
	for (size_t i = 0; i < PAGE; i++)
		CHECK(at[i] == value);
}

/* A port reaches what was registered on it only, and nobody anything once it is unregistered. */
static void isolated(struct port *port, struct port *other)
{
	unsigned char *secret = memory(PAGE), *mine = memory(PAGE);
	uint64_t secret_nla, mine_nla;
	uint32_t node = port->open.node, self = port->open.vpid, target = other->open.vpid;

	memset(secret, 0x5a, PAGE);
	CHECK(region(other, secret, PAGE, &secret_nla) == 0 && region(port, mine, PAGE, &mine_nla) == 0);
	/* So that the card knows the translation, and has something to forget. */
	post(other, EXTOLL_OPTION_TE, extoll_desc_put(0, node, target, EXTOLL_SPEC_COMPLETER, 0, secret_nla,
						      secret_nla + 64, 64));
	CHECK(take(other, PATIENCE_MS).word1 != 0);
	post(port, EXTOLL_OPTION_TE, extoll_desc_put(0, node, self, EXTOLL_SPEC_COMPLETER, 0, secret_nla, mine_nla, 64));
	post(port, EXTOLL_OPTION_TE, extoll_desc_put(0, node, self, EXTOLL_SPEC_COMPLETER, 0, mine_nla, secret_nla, 64));
	all_refused(port);
	unchanged(secret, 0x5a);
	unchanged(mine, 0);
	CHECK(region_end(other, secret_nla) == 0);
	post(port, EXTOLL_OPTION_TE, extoll_desc_put(0, node, target, EXTOLL_SPEC_COMPLETER, 0, mine_nla, secret_nla, 64));
	post(port, EXTOLL_OPTION_TE, extoll_desc_get(0, node, target, EXTOLL_SPEC_COMPLETER, 0, secret_nla, mine_nla, 64));
	all_refused(port);
	all_refused(other);
	unchanged(secret, 0x5a);
	unchanged(mine, 0);
	CHECK(region_end(port, mine_nla) == 0);
}

/* What is on its way to an address that was given back must not find other memory there. */
static void addresses_rest(struct port *port)
{
	unsigned char *at = memory(PAGE);
	uint64_t first, next;

	CHECK(region(port, at, PAGE, &first) == 0 && region_end(port, first) == 0);
	for (int i = 0; i < 16; i++) {
		CHECK(region(port, at, PAGE, &next) == 0);
		CHECK(next != first);
		CHECK_ERRNO(region_end(port, first), ENOENT);
		CHECK(region_end(port, next) == 0);
	}
	munmap(at, PAGE);
}

static void bad_waits(struct port *port)
{
	struct { uint32_t unit, flags, index, reserved; int error; } bad[] = {
		{ 0, 0, 0, 0, EINVAL }, { 3, 0, 0, 0, EINVAL }, { 2, 0, 0, 0, ENXIO }, { 1, 2, 0, 0, EINVAL },
		{ 1, 0, 16384, 0, EINVAL }, { 1, 0, ~0u, 0, EINVAL }, { 1, 0, 0, 1, EINVAL }, { 1, 0, 5, 0, ETIMEDOUT },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct extoll_wait arg = { bad[i].unit, bad[i].flags, bad[i].index, bad[i].reserved, 1000 };

		CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_WAIT, &arg), bad[i].error);
	}
}

static int window_try(int fd, uint32_t count, uint64_t stride, uint64_t part, uint64_t target, uint32_t flags)
{
	struct extoll_window_open arg = {
		.count = count, .flags = flags, .stride = stride, .part_bytes = part, .target_address = target,
	};

	return ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &arg);
}

/* One at a time, of the right shape; the next owner sees nothing of the last one's memory. */
static void windows(void)
{
	int fd = device_open(), other = device_open();
	struct extoll_window_close end = { 0, 0 };
	unsigned char *at;

	CHECK_ERRNO(window_try(fd, 0, PAGE, PAGE, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 64, PAGE, PAGE, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 1, PAGE + 1, PAGE, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 1, PAGE, 2 * PAGE, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 1, 0, 0, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 2, ~0ul & ~(PAGE - 1), PAGE, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 1, 8 << 20, 8 << 20, 0, 0), EINVAL);
	CHECK_ERRNO(window_try(fd, 1, PAGE, PAGE, 0, 4), EINVAL);
	/* Address bits name nodes of powers of two of bytes, as many as the window has room for. */
	CHECK_ERRNO(window_try(fd, 64, 3 * PAGE, PAGE, 0, EXTOLL_WINDOW_MASK), EINVAL);
	CHECK_ERRNO(window_try(fd, 64, 64 << 20, PAGE, 0, EXTOLL_WINDOW_MASK), EINVAL);
	CHECK_ERRNO(window_try(fd, 65, 4 << 20, PAGE, 0, EXTOLL_WINDOW_MASK), EINVAL);
	CHECK_ERRNO(window_try(fd, ~0u, PAGE, PAGE, 0, EXTOLL_WINDOW_MASK), EINVAL);
	CHECK_ERRNO(window_try(fd, 1, PAGE, PAGE, 4096, 0), EFAULT);
	CHECK_ERRNO(window_try(fd, 1, PAGE, PAGE, (uintptr_t)&fd & ~(PAGE - 1), 0), EPERM);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WINDOW_CLOSE, &end), ENXIO);
	CHECK(window_try(fd, 2, 2 * PAGE, PAGE, 0, 0) == 0);
	CHECK_ERRNO(window_try(fd, 1, PAGE, PAGE, 0, 0), EBUSY);
	CHECK_ERRNO(window_try(other, 1, PAGE, PAGE, 0, 0), EBUSY);
	CHECK_ERRNO(ioctl(other, EXTOLL_IOC_WINDOW_CLOSE, &end), ENXIO);
	CHECK(map(other, EXTOLL_MAP_TARGET, PAGE) == MAP_FAILED && errno == ENXIO);
	CHECK(map(fd, EXTOLL_MAP_TARGET, 2 * PAGE) == MAP_FAILED && errno == EINVAL);
	at = map(fd, EXTOLL_MAP_TARGET, PAGE);
	CHECK(at != MAP_FAILED);
	memset(at, 0x5a, PAGE);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WINDOW_CLOSE, &end), EBUSY);
	munmap(at, PAGE);
	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_CLOSE, &end) == 0);
	CHECK(window_try(other, 1, PAGE, PAGE, 0, EXTOLL_WINDOW_UNCACHED) == 0);
	at = map(other, EXTOLL_MAP_TARGET, PAGE);
	CHECK(at != MAP_FAILED);
	unchanged(at, 0);
	munmap(at, PAGE);
	close(other);
	close(fd);
}

/* Page protections are what they say, where the kernel can be asked: requester pages write-combining, others not. */
static void caching(struct port *port)
{
	uint64_t bar = bar_address("/sys/class/extoll/extoll0/device");
	uint64_t requester = bar + EXTOLL_BAR0_RMA;
	void *at = map(port->fd, EXTOLL_OPTION_TE * PAGE, 2 * PAGE);

	CHECK(at != MAP_FAILED);
	/* Two pages that do not lie in a row in the BAR. */
	for (int i = 0; i < 2; i++)
		CHECK(memory_type_is(requester + extoll_page_offset(EXTOLL_OPTION_TE + i, port->open.vpid),
				     "write-combining"));
	CHECK(memory_type_is(bar + EXTOLL_RF_BQ_RMA_RP + port->open.vpid * PAGE, "uncached"));
	munmap(at, 2 * PAGE);
}

/* All VPIDs, and then none. */
static void exhausted(void)
{
	static int fds[256];
	struct extoll_port_open arg;
	int count = 0;

	for (;; count++) {
		CHECK(count < 256);
		fds[count] = device_open();
		arg = (struct extoll_port_open){ .units = 1, .queue_bytes = 4096, .segment_bytes = 4096 };
		if (ioctl(fds[count], EXTOLL_IOC_PORT_OPEN, &arg))
			break;
		CHECK(arg.vpid <= 250);
	}
	CHECK(errno == ENOSPC && count == 251 - 2);
	while (count >= 0)
		close(fds[count--]);
}

int main(void)
{
	int fd = device_open();
	struct port port, other;

	sizes(fd);
	without_port(fd);
	bad_ports();
	port_open(&port);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_PORT_OPEN, &port.open), EBUSY);
	bad_maps(&port);
	caching(&port);
	bad_regions(&port);
	port_open(&other);
	forged(&port, &other);
	isolated(&port, &other);
	addresses_rest(&port);
	bad_waits(&port);
	exhausted();
	windows();
	printf("PASS abi\n");
	return 0;
}
