/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ports and regions outlive nothing and nobody: processes killed, descriptors passed, mappings kept, cards taken away. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "card.h"
#include "faults.h"

#define QUEUE	(2ul << 20)
#define TARGET	(4ul << 20)	/* extoll_info.target_bytes */

static struct extoll_desc note(const struct port *port, uint64_t value)
{
	return extoll_desc_notification_put(port->open.node, port->open.vpid, EXTOLL_SPEC_COMPLETER, 0, 1, value);
}

static void killed(int when_us)
{
	pid_t child = fork();

	if (child == 0) {
		struct port port;
		uint64_t nla;
		char *at = memory(64 * PAGE);

		port_open(&port);
		for (;;) {
			CHECK(region(&port, at, 64 * PAGE, &nla) == 0);
			post(&port, EXTOLL_OPTION_TE,
			     extoll_desc_put(0, port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, nla,
					     nla + 32 * PAGE, 32 * PAGE));
			take(&port, 1000);
			CHECK(region_end(&port, nla) == 0);
		}
	}
	usleep(when_us);
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
}

static void kept_mapping(void)
{
	struct port port;

	port_open(&port);
	post(&port, EXTOLL_OPTION_TE, note(&port, 1));
	CHECK(take(&port, PATIENCE_MS).word0 == 1);
	close(port.fd);
	expect_ports(1);
	post(&port, EXTOLL_OPTION_TE, note(&port, 2));
	CHECK(take(&port, PATIENCE_MS).word0 == 2);
	munmap((void *)port.page[EXTOLL_OPTION_TE], PAGE);
	munmap((void *)port.wcb, PAGE);
	munmap((void *)port.rp, PAGE);
	expect_ports(1);
	munmap((void *)port.queue, port.open.queue_bytes_out);
	expect_ports(0);
}

/* Page faults map pages, unless it has been asked for before. Some kernels do not have that call. */
static void filled_at_once(void)
{
	struct port port;

	port_open(&port);
	CHECK(faults_of(port.wcb, PAGE, 0) == 1 && faults_of(port.wcb, PAGE, 0) == 0);
	if (madvise((void *)port.rp, PAGE, MADV_WILLNEED) == 0)
		CHECK(faults_of(port.rp, PAGE, 0) == 0);
	else
		CHECK(errno == ENOSYS);
	port_close(&port);
	expect_ports(0);
}

/* Everything that can be mapped: registers, a long queue, a buffer, a target, and the node's own part of a window. */
static void faulted_once(void)
{
	struct extoll_port_open open_ = { .units = EXTOLL_UNIT_RMA, .queue_bytes = QUEUE };
	struct extoll_window_open window = { .count = 1, .stride = TARGET, .part_bytes = TARGET };
	struct extoll_buffer_alloc buffer = { .bytes = 16 * PAGE };
	int fd = device_open();

	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_) == 0 && ioctl(fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer) == 0);
	window.nodes[0] = (uint16_t)open_.node;
	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &window) == 0);
	fault_once(fd, EXTOLL_MAP_WCB, PAGE, 0, 100);
	fault_once(fd, EXTOLL_MAP_RP, PAGE, 1, 100);
	fault_once(fd, EXTOLL_MAP_QUEUE, open_.queue_bytes_out, 1, 20);
	fault_once(fd, EXTOLL_MAP_TARGET, TARGET, 1, 20);
	fault_once(fd, EXTOLL_MAP_WINDOW + window.window_offset, 8 * PAGE, 0, 4);	/* each load is a packet */
	fault_once(fd, EXTOLL_MAP_BUFFER, buffer.bytes, 1, 100);
	close(fd);
	expect_ports(0);
}

/* A child goes on with an inherited port after the parent closed it. */
static void inherited(void)
{
	struct port port;
	pid_t child;
	int status;

	port_open(&port);
	child = fork();
	if (child == 0) {
		char *at = memory(PAGE);
		uint64_t nla;

		usleep(50000);
		CHECK(region(&port, at, PAGE, &nla) == 0);
		post(&port, EXTOLL_OPTION_TE, note(&port, 3));
		CHECK(take(&port, PATIENCE_MS).word0 == 3);
		exit(0);
	}
	port_close(&port);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	expect_ports(0);
}

/* A process that gets the descriptor by message, and its mappings from nobody, goes on after the sender has closed it. */
static void passed_on(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec nothing = { "", 1 };
	struct msghdr message = { .msg_iov = &nothing, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = CMSG_LEN(sizeof(int)) };
	struct port port;
	int pair[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {	/* the debug kernel has no sockets */
		CHECK(errno == ENOSYS);
		return;
	}
	child = fork();
	if (child == 0) {
		char byte;

		nothing.iov_base = &byte;
		CHECK(recvmsg(pair[1], &message, 0) == 1);
		expect_ports(1);
		CHECK(read(pair[1], &byte, 1) == 1);	/* the sender has nothing of it any more */
		CHECK(number("ports") == 1);
		CHECK(map(*(int *)CMSG_DATA(&control.head), EXTOLL_MAP_RP, PAGE) != MAP_FAILED);
		CHECK_ERRNO(ioctl(*(int *)CMSG_DATA(&control.head), EXTOLL_IOC_PORT_OPEN,
				  &(struct extoll_port_open){ .units = 1 }), EBUSY);
		exit(0);
	}
	port_open(&port);
	memcpy(CMSG_DATA(&control.head), &port.fd, sizeof(int));
	CHECK(sendmsg(pair[0], &message, 0) == 1);
	port_close(&port);
	CHECK(write(pair[0], "", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	close(pair[0]);
	close(pair[1]);
	expect_ports(0);
}

/* What is left of two ports after exec: that whose descriptor was kept, without mappings. */
static void after_exec(int fd)
{
	struct port port = { .fd = fd };

	expect_ports(1);
	port.rp = map(fd, EXTOLL_MAP_RP, PAGE);
	CHECK(port.rp != MAP_FAILED);
	CHECK_ERRNO(port_wait(&port, 0, 1000), ETIMEDOUT);
	exit(0);
}

static void executed(void)
{
	char text[16];
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct port port, other;

		port_open(&port);
		port_open(&other);
		CHECK(number("ports") == 2);
		CHECK(fcntl(port.fd, F_SETFD, 0) == 0);
		snprintf(text, sizeof(text), "%d", port.fd);
		execl("/proc/self/exe", "life", text, NULL);
		CHECK(!"exec");
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	expect_ports(0);
}

/* Copy-on-write after a fork does not part the process from its registered memory. */
static void forked_memory(void)
{
	struct port port;
	char *at = memory(2 * PAGE);
	uint64_t nla;
	pid_t child;
	int status;

	port_open(&port);
	strcpy(at, "before");
	CHECK(region(&port, at, 2 * PAGE, &nla) == 0);
	child = fork();
	if (child == 0) {
		strcpy(at, "child");
		usleep(100000);
		exit(strcmp(at, "child") != 0 || at[PAGE] != 0);
	}
	strcpy(at, "parent");
	post(&port, EXTOLL_OPTION_TE, extoll_desc_put(0, port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0,
						      nla, nla + PAGE, 8));
	CHECK(take(&port, PATIENCE_MS).word1 != 0);
	CHECK(!strcmp(at + PAGE, "parent"));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	/* The card may use memory that the process gave back, until it is unregistered. */
	munmap(at, 2 * PAGE);
	post(&port, EXTOLL_OPTION_TE, extoll_desc_put(0, port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0,
						      nla, nla + PAGE, 8));
	CHECK(take(&port, PATIENCE_MS).word1 != 0);
	CHECK(region_end(&port, nla) == 0);
	port_close(&port);
	expect_ports(0);
}

static int shared_fd;
static volatile int stop;

static void *busy(void *arg)
{
	char *at = memory(16 * PAGE);

	while (!stop) {
		struct extoll_register reg = { .access = 3, .address = (uintptr_t)at, .length = 16 * PAGE };
		struct extoll_wait wait = { .unit = 1, .timeout_ns = 100000, .flags = EXTOLL_WAIT_TIMER };
		struct extoll_unregister unreg = { .nla = 0 };

		if (ioctl(shared_fd, EXTOLL_IOC_REGISTER, &reg) == 0)
			unreg.nla = reg.nla;
		ioctl(shared_fd, EXTOLL_IOC_WAIT, &wait);
		ioctl(shared_fd, EXTOLL_IOC_UNREGISTER, &unreg);
	}
	return arg;
}

/* Calls on a descriptor that another thread closes and opens again. */
static void closed_meanwhile(void)
{
	pthread_t threads[3];
	uint64_t end = now_ns() + 2000000000ull;

	stop = 0;
	shared_fd = device_open();
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, busy, NULL) == 0);
	while (now_ns() < end) {
		struct extoll_port_open arg = { .units = 1 };
		int fd = device_open();

		CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &arg) == 0);
		CHECK(dup2(fd, shared_fd) == shared_fd);
		close(fd);
		usleep(3000);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	close(shared_fd);
	expect_ports(0);
}

static void *sleeper(void *arg)
{
	struct port *port = arg;
	int result = port_wait(port, 0, ~0ull);

	return (void *)(uintptr_t)(result ? errno : 0);
}

/* The card goes away under a port that sleeps, and comes back. */
static void taken_away(int reset)
{
	char path[256], name[64];
	struct port port;
	pthread_t thread;
	void *result;
	struct extoll_buffer_alloc buffer = { .bytes = 3 * PAGE };
	uint64_t nla;
	char *at = memory(8 * PAGE);

	port_open(&port);
	CHECK(region(&port, at, 8 * PAGE, &nla) == 0);
	CHECK(ioctl(port.fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer) == 0);
	CHECK(pthread_create(&thread, NULL, sleeper, &port) == 0);
	usleep(50000);
	snprintf(name, sizeof(name), "%s", strrchr(pci, '/') + 1);
	snprintf(path, sizeof(path), reset ? "%s/reset" : "%s/driver/unbind", pci);
	CHECK(put_text(path, reset ? "1" : name) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	CHECK((uintptr_t)result == (reset ? EIO : ENODEV));
	CHECK(!touches((volatile uint64_t *)port.queue) && !touches(port.rp) && !touches(port.wcb));
	CHECK_ERRNO(region_end(&port, nla), reset ? EIO : ENODEV);
	CHECK_ERRNO(region(&port, at, PAGE, &nla), reset ? EIO : ENODEV);
	CHECK(map(port.fd, EXTOLL_MAP_RP, PAGE) == MAP_FAILED && errno == (reset ? EIO : ENODEV));
	port_close(&port);
	munmap(at, 8 * PAGE);
	if (!reset)	/* the old device kept its number while it was open */
		CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", name) == 0);
	expect_ports(0);
	/* And all is as on the first day. */
	port_open(&port);
	post(&port, EXTOLL_OPTION_TE, note(&port, 5));
	CHECK(take(&port, PATIENCE_MS).word0 == 5);
	port_close(&port);
	expect_ports(0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		after_exec(atoi(argv[1]));
	signal(SIGBUS, on_bus_error);
	find_card();
	expect_ports(0);
	faulted_once();
	for (int i = 0; i < 20; i++)
		killed(3000 + i * 1777);
	expect_ports(0);
	kept_mapping();
	filled_at_once();
	inherited();
	passed_on();
	executed();
	forked_memory();
	closed_meanwhile();
	taken_away(0);
	taken_away(1);
	taken_away(0);
	expect_no_pins();
	printf("PASS life\n");
	return 0;
}
