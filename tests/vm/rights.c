/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rights [trusted]: what users may do who can open the device and nothing else, and what needs CAP_SYS_RAWIO; or that
 * all may do it, and register mappings of the module's own, with `trusted=1 mmio_modules=...,extoll`.
 */

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "card.h"
#include "system.h"

#define LIMIT	(64ul * 1024)

static void become_user(void)
{
	struct rlimit limit = { LIMIT, LIMIT };

	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
}

/* The card's own registers, as another device's memory. */
static int register_mapping(struct port *port, uint64_t *nla)
{
	struct extoll_register arg = {
		.kind = EXTOLL_REGION_MMIO, .access = 3, .address = (uintptr_t)port->rp, .length = PAGE,
	};
	int err = ioctl(port->fd, EXTOLL_IOC_REGISTER, &arg);

	*nla = arg.nla;
	return err;
}

/* What a child registers on an inherited port lasts beyond its end. So it counts there: no chain of children gets more. */
static void by_children(struct port *port, void *at)
{
	volatile uint64_t *nla = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct port other;
	uint64_t own;
	int status;
	pid_t child = fork();

	if (child == 0) {
		CHECK(region(port, at, LIMIT, &own) == 0);
		*nla = own;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(status_kib("VmPin:") == 0);
	CHECK_ERRNO(region(port, at, 1, &own), ENOMEM);
	port_open(&other);
	CHECK(region(&other, at, LIMIT, &own) == 0);
	port_close(&other);
	CHECK(region_end(port, *nla) == 0);
	CHECK(region(port, at, LIMIT, &own) == 0);
	CHECK(region_end(port, own) == 0);
	munmap((void *)nla, PAGE);
}

/* As a user who may open the device, and nothing else. */
static void unprivileged(void)
{
	struct extoll_port_rights rights = { .mask = 1, .protection = 7 };
	struct extoll_rf_access access = { .offset = EXTOLL_RF_INFO_NODE };
	struct extoll_buffer_alloc buffer = { .bytes = 4096 };
	struct port port;
	uint64_t nla, second;
	void *at = memory(32 * PAGE);

	become_user();
	port_open(&port);
	CHECK(port.open.options == 0x0f0f0000);
	for (uint32_t option = 0; option < 32; option++) {
		void *page = map(port.fd, option * PAGE, PAGE);

		CHECK((page != MAP_FAILED) == (port.open.options >> option & 1));
		CHECK(page != MAP_FAILED || errno == EPERM);
	}
	CHECK(map(port.fd, 0, 32 * PAGE) == MAP_FAILED && errno == EPERM);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_PORT_RIGHTS, &rights), EPERM);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_RF_ACCESS, &access), EPERM);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer), EPERM);
	CHECK_ERRNO(register_mapping(&port, &nla), EPERM);
	CHECK_ERRNO(region(&port, at, LIMIT + PAGE, &nla), ENOMEM);
	CHECK(region(&port, at, LIMIT, &nla) == 0);
	CHECK(status_kib("VmPin:") == 64);
	CHECK_ERRNO(region(&port, at, 1, &second), ENOMEM);
	CHECK(region_end(&port, nla) == 0);
	CHECK(status_kib("VmPin:") == 0);
	CHECK(region(&port, at, 1, &second) == 0 && region_end(&port, second) == 0);
	by_children(&port, at);
	CHECK(region(&port, at, 1, &second) == 0);
	exit(0);
}

/* The module trusts everybody who may open the device. Memory is limited all the same. */
static void trusted(void)
{
	struct extoll_port_rights rights = { .mask = EXTOLL_RIGHT_EXCELLERATE, .excellerate = 0 };
	struct extoll_buffer_alloc buffer = { .bytes = 4096 };
	struct extoll_unregister end = { 0 };
	struct extoll_info info;
	void *at = memory(32 * PAGE);
	struct port port;
	uint64_t nla;

	become_user();
	port_open(&port);
	CHECK(port.open.options == 0xffffffff);
	CHECK(ioctl(port.fd, EXTOLL_IOC_INFO, &info) == 0 && info.flags == EXTOLL_INFO_PRIVILEGED);
	CHECK(ioctl(port.fd, EXTOLL_IOC_PORT_RIGHTS, &rights) == 0);
	CHECK(rf(&port, EXTOLL_RF_INFO_NETWORK_STATE, 0, 0) == EXTOLL_NETWORK_CONFIGURED);
	CHECK(ioctl(port.fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer) == 0);
	CHECK(map(port.fd, EXTOLL_OPTION_PHYSICAL * PAGE, PAGE) != MAP_FAILED);
	CHECK_ERRNO(region(&port, at, LIMIT + PAGE, &nla), ENOMEM);
	CHECK(register_mapping(&port, &nla) == 0);
	munmap((void *)port.rp, PAGE);
	end.nla = nla;
	CHECK(ioctl(port.fd, EXTOLL_IOC_UNREGISTER, &end) == 0 && end.state == EXTOLL_REGION_WAS_REVOKED);
	exit(0);
}

/* Who is in no group cannot open the device. */
static void stranger(void)
{
	become_user();
	CHECK_ERRNO(open(DEVICE, O_RDWR), EACCES);
	CHECK_ERRNO(open(DEVICE, O_RDONLY), EACCES);
	exit(0);
}

static void as_user(void (*what)(void), mode_t mode)
{
	struct stat node;
	int status;
	pid_t child;

	CHECK(stat(DEVICE, &node) == 0 && (node.st_mode & 07777) == 0660);
	CHECK(chmod(DEVICE, mode) == 0);
	child = fork();
	if (child == 0)
		what();
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(chmod(DEVICE, 0660) == 0);
}

/* Until the card has counted one more. */
static void counts(const char *counter, long before)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (number(counter) != before + 1)
		CHECK(now_ns() < end);
}

/* The rights that a port is given are the card's: ports of another protection id are strangers. */
static void granted(struct port *port)
{
	struct extoll_port_rights all = { .mask = 7, .protection = 0x1234, .traffic_classes = 0xe4, .excellerate = 1 };
	struct extoll_port_rights usual = { .mask = 7, .traffic_classes = 0xf5 };
	uint64_t at, before = number("counters/completer_protection");
	struct port other;

	port_open(&other);
	at = extoll_rf(EXTOLL_RF_RMA_VPID_TABLE, EXTOLL_RF_RMA_VPID_TABLE_STRIDE, port->open.vpid);
	CHECK(ioctl(port->fd, EXTOLL_IOC_PORT_RIGHTS, &all) == 0);
	CHECK(rf(port, at, 0, 0) == (extoll_vpid_entry(0x1234) & ~0xff00ull) + 0xe480);
	post(&other, EXTOLL_OPTION_TE, note(port, 1));
	counts("counters/completer_protection", before);
	CHECK(take(port, 0).word1 == 0);
	all.mask = EXTOLL_RIGHT_PROTECTION;
	CHECK(ioctl(other.fd, EXTOLL_IOC_PORT_RIGHTS, &all) == 0);
	post(&other, EXTOLL_OPTION_TE, note(port, 2));
	CHECK(take(port, PATIENCE_MS).word0 == 2);
	CHECK(ioctl(port->fd, EXTOLL_IOC_PORT_RIGHTS, &usual) == 0);
	CHECK(rf(port, at, 0, 0) == extoll_vpid_entry(0));
	port_close(&other);
}

static void privileged(struct port *port)
{
	struct extoll_rf_access access = { .offset = EXTOLL_RF_INFO_NODE };
	struct extoll_port_rights rights = { .mask = EXTOLL_RIGHT_PROTECTION, .protection = 0x10000 };
	struct extoll_buffer_alloc buffer = { .bytes = 5000 };
	uint64_t *at;

	CHECK(port->open.options == 0xffffffff);
	CHECK(ioctl(port->fd, EXTOLL_IOC_RF_ACCESS, &access) == 0);
	CHECK(EXTOLL_GET(access.value, EXTOLL_INFO_NODE) == port->open.node);
	access.offset = 0x2000000;
	CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_RF_ACCESS, &access), EINVAL);
	access.offset = 4;
	CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_RF_ACCESS, &access), EINVAL);
	CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_PORT_RIGHTS, &rights), EINVAL);
	rights.protection = 0;
	CHECK(ioctl(port->fd, EXTOLL_IOC_PORT_RIGHTS, &rights) == 0);
	CHECK(ioctl(port->fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer) == 0);
	at = map(port->fd, buffer.map_offset, 2 * PAGE);
	CHECK(at != MAP_FAILED && at[0] == 0);
	at[0] = 0x1122334455667788;
	post(port, EXTOLL_OPTION_PHYSICAL, extoll_desc_put(0, port->open.node, port->open.vpid,
							   EXTOLL_SPEC_COMPLETER, 0, buffer.bus_address,
							   buffer.bus_address + 4096, 8));
	CHECK(take(port, PATIENCE_MS).word1 != 0 && at[512] == at[0]);
	buffer.bytes = 0;
	CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer), EINVAL);
	buffer.bytes = EXTOLL_BUFFER_MAX + 1;
	CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer), EINVAL);
}

int main(int argc, char **argv)
{
	struct port port;

	if (argc > 1) {
		CHECK(!strcmp(argv[1], "trusted"));
		as_user(trusted, 0666);
		printf("PASS rights trusted\n");
		return 0;
	}
	as_user(stranger, 0660);
	port_open(&port);
	as_user(unprivileged, 0666);
	privileged(&port);
	granted(&port);
	port_close(&port);
	printf("PASS rights\n");
	return 0;
}
