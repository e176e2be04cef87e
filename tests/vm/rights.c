/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What users may do who can open the device and nothing else, and what needs CAP_SYS_RAWIO. */

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "port.h"

/* As a user who may open the device, and nothing else. */
static void unprivileged(void)
{
	struct rlimit limit = { 64 * 1024, 64 * 1024 };
	struct extoll_port_rights rights = { .mask = 1, .protection = 7 };
	struct extoll_rf_access access = { .offset = EXTOLL_RF_INFO_NODE };
	struct extoll_buffer_alloc buffer = { .bytes = 4096 };
	struct port port;
	uint64_t nla, second;
	void *at = memory(32 * PAGE);

	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
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
	CHECK_ERRNO(region(&port, at, 17 * PAGE, &nla), ENOMEM);
	CHECK(region(&port, at, 16 * PAGE, &nla) == 0);
	CHECK(status_kib("VmPin:") == 64);
	CHECK_ERRNO(region(&port, at, 1, &second), ENOMEM);
	CHECK(region_end(&port, nla) == 0);
	CHECK(status_kib("VmPin:") == 0);
	CHECK(region(&port, at, 1, &second) == 0);
	exit(0);
}

static void as_user(void)
{
	int status;
	pid_t child;

	CHECK(chmod(DEVICE, 0666) == 0);
	child = fork();
	if (child == 0)
		unprivileged();
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(chmod(DEVICE, 0660) == 0);
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

int main(void)
{
	struct port port;

	port_open(&port);
	as_user();
	privileged(&port);
	port_close(&port);
	printf("PASS rights\n");
	return 0;
}
