/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The card and its driver at their limits: full queues, taken away while threads use it, off the bus, mute, and
 * answering nonsense. Calls end within bounds with a documented error, the log stays short, and afterwards all is well.
 * The card fails on demand through a capability that only the model has (extoll-vm-server --trouble).
 */

#include <poll.h>
#include <pthread.h>

#include "card.h"
#include "system.h"

/* The payload of the last one. */
#define MARK	100000
/* A call that waits for what does not come does so each time; a machine that stands still does not. */
#define TRIES	3

/* Nobody reads: the card drops after a time limit, other ports go on, and so does this one when it reads again. */
static void full_queue(void)
{
	struct port port;
	struct extoll_noti noti;
	unsigned int got = 0;

	memset(&port, 0, sizeof(port));
	port.fd = device_open();
	port.open = (struct extoll_port_open){ .units = EXTOLL_UNIT_RMA, .queue_bytes = PAGE, .segment_bytes = PAGE };
	CHECK(ioctl(port.fd, EXTOLL_IOC_PORT_OPEN, &port.open) == 0);
	port.entries = PAGE / sizeof(struct extoll_noti);
	port.wcb = map(port.fd, EXTOLL_MAP_WCB, PAGE);
	port.rp = map(port.fd, EXTOLL_MAP_RP, PAGE);
	port.queue = map(port.fd, EXTOLL_MAP_QUEUE, PAGE);
	for (uint32_t i = 0; i < port.entries + 40; i++)
		post(&port, EXTOLL_OPTION_TE, note(&port, i + 1));
	sound();
	/* Those that fitted; what the card kept or dropped is over when what is posted then has come. */
	do {
		if (got == port.entries - 1)
			post(&port, EXTOLL_OPTION_TE, note(&port, MARK));
		noti = take(&port, PATIENCE_MS);
		CHECK(noti.word1 != 0 && (noti.word0 <= port.entries + 40 || noti.word0 == MARK));
		got += noti.word0 != MARK;
	} while (noti.word0 != MARK);
	CHECK(got >= port.entries - 1 && got <= port.entries + 40);
	/* Its one segment follows itself, lap after lap. */
	for (uint32_t i = 0; i < 3 * port.entries; i++) {
		post(&port, EXTOLL_OPTION_TE, note(&port, i + 1));
		CHECK(take(&port, PATIENCE_MS).word0 == i + 1);
	}
	wakes(&port);
	port_close(&port);
	expect_ports(0);
}

/* Interrupts find VPIDs behind the first 64 of a word of the vector, to the last one. */
static void last_vpid(void)
{
	const char *rest = "/sys/module/extoll/parameters/vpid_rest_ms";
	static int fds[250];
	struct port port;

	CHECK(put_text(rest, "0") == 0);	/* the lowest free one, whoever had it last */
	for (int i = 0; i < 250; i++) {
		struct extoll_port_open arg = { .units = 1, .queue_bytes = PAGE, .segment_bytes = PAGE };

		fds[i] = device_open();
		CHECK(ioctl(fds[i], EXTOLL_IOC_PORT_OPEN, &arg) == 0);
	}
	port_open(&port);
	CHECK(port.open.vpid == 250);
	wakes(&port);
	port_close(&port);
	for (int i = 0; i < 250; i++)
		close(fds[i]);
	expect_ports(0);
	CHECK(put_text(rest, "250") == 0);
}

static volatile int stop;
static volatile unsigned int rounds;

/* What users of a card may be told while it is taken away. */
static int expected(int error)
{
	return error == ENODEV || error == EIO || error == ENXIO || error == EAGAIN || error == ENOENT ||
	       error == ETIMEDOUT || error == ENOMEM || error == ENOSPC;
}

#define TOLD(call) do { \
	if ((long)(call) == -1 && !expected(errno)) { \
		printf("FAIL %s:%d: %s: errno %d %s\n", __FILE__, __LINE__, #call, errno, strerror(errno)); \
		exit(1); \
	} \
} while (0)

/* A user: opens, registers, maps, sleeps, closes, and does not mind errors. */
static void *user(void *arg)
{
	char *at = memory(16 * PAGE);

	while (!stop) {
		struct extoll_port_open open_arg = { .units = 3, .queue_bytes = PAGE, .segment_bytes = PAGE };
		struct extoll_register reg = { .access = 3, .address = (uintptr_t)at, .length = 16 * PAGE };
		struct extoll_wait wait = { .unit = 1, .timeout_ns = 300000, .flags = EXTOLL_WAIT_TIMER };
		struct extoll_unregister unreg = { 0 };
		struct extoll_info info;
		struct pollfd poll_fd = { .events = POLLIN };
		int fd = open(DEVICE, O_RDWR);
		void *rp;

		if (fd < 0) {
			TOLD(fd);
			usleep(1000);
			continue;
		}
		poll_fd.fd = fd;
		TOLD(ioctl(fd, EXTOLL_IOC_INFO, &info));
		TOLD(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_arg));
		rp = map(fd, EXTOLL_MAP_RP, PAGE);
		TOLD(rp);
		TOLD(ioctl(fd, EXTOLL_IOC_REGISTER, &reg));
		TOLD(ioctl(fd, EXTOLL_IOC_WAIT, &wait));
		poll(&poll_fd, 1, 0);
		unreg.nla = reg.nla;
		if (unreg.nla)
			TOLD(ioctl(fd, EXTOLL_IOC_UNREGISTER, &unreg));
		close(fd);
		if (rp != MAP_FAILED)
			munmap(rp, PAGE);
		rounds++;
	}
	munmap(at, 16 * PAGE);
	return arg;
}

static void with_users(void (*what)(void))
{
	pthread_t threads[3];
	unsigned int before = rounds;

	stop = 0;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, user, NULL) == 0);
	while (rounds - before < 3)
		usleep(1000);
	what();
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	expect_ports(0);
	expect_no_pins();
	sound();
}

static void text_to(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", pci, name);
	CHECK(put_text(path, text) == 0);
}

/* Until the device is there under its first name: an old one keeps it as long as somebody has it open. */
static void come_back(void)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	const char *name = strrchr(pci, '/') + 1;

	for (;;) {
		CHECK(now_ns() < end);
		stop = 1;	/* the users let go of the old one */
		usleep(50000);
		if (access("/dev/extoll0", F_OK) == 0)
			return;
		put_text("/sys/bus/pci/drivers/extoll/unbind", name);
		put_text("/sys/bus/pci/drivers/extoll/bind", name);
	}
}

static void unbound(void)
{
	CHECK(put_text("/sys/bus/pci/drivers/extoll/unbind", strrchr(pci, '/') + 1) == 0);
	usleep(20000);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", strrchr(pci, '/') + 1) == 0);
	come_back();
}

static void removed(void)
{
	text_to("remove", "1");
	usleep(20000);
	CHECK(put_text("/sys/bus/pci/rescan", "1") == 0);
	come_back();
}

static void reset(void)
{
	for (int i = 0; i < 5; i++) {
		text_to("reset", "1");
		usleep(30000);
	}
}

/* Off the bus: the first call notices, and none waits for an answer that cannot come. */
static void gone(void)
{
	uint64_t took = 5 * SECOND;

	for (int i = 0; i < TRIES && took >= 5 * SECOND; i++) {
		struct extoll_info info;
		int fd = device_open();

		CHECK(trouble(GONE));
		took = now_ns();
		CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, &info), EIO);
		CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &(struct extoll_port_open){ .units = 1 }), EIO);
		took = now_ns() - took;
		usleep(200000);
		state_is("failed");
		close(fd);
		text_to("reset", "1");
		state_is("live");
	}
	CHECK(took < 5 * SECOND);
}

/* In the middle of unregistering: told at once, and the pages are safe. */
static void gone_with_region(void)
{
	uint64_t nla, took = 5 * SECOND;
	void *at = memory(4 * PAGE);

	for (int i = 0; i < TRIES && took >= 5 * SECOND; i++) {
		struct port port;

		port_open(&port);
		CHECK(region(&port, at, 4 * PAGE, &nla) == 0);
		CHECK(trouble(GONE));
		took = now_ns();
		CHECK(region_end(&port, nla) == 0);
		took = now_ns() - took;
		CHECK_ERRNO(region(&port, at, PAGE, &nla), EIO);
		CHECK_ERRNO(port_wait(&port, 0, SECOND), EIO);
		text_to("reset", "1");
		port_close(&port);
		state_is("live");
		expect_ports(0);
		sound();
	}
	CHECK(took < 5 * SECOND);
	munmap(at, 4 * PAGE);
}

/* It never says that a flush is over: after ten seconds it has no access to memory any more. */
static void mute(void)
{
	struct extoll_wait wait = { .unit = 1, .timeout_ns = 1 };
	uint64_t nla, took = 5 * SECOND;
	void *at = memory(4 * PAGE);

	for (int i = 0; i < TRIES && took >= 5 * SECOND; i++) {
		struct port port;

		port_open(&port);
		CHECK(region(&port, at, 4 * PAGE, &nla) == 0);
		CHECK(trouble(MUTE));
		took = now_ns();
		CHECK(region_end(&port, nla) == 0);
		took = now_ns() - took;
		CHECK(took >= 9 * SECOND && took < PATIENCE_NS);
		CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_WAIT, &wait), EIO);
		took = now_ns();
		port_close(&port);	/* it is not waited for again */
		took = now_ns() - took;
		state_is("failed");
		text_to("reset", "1");
		state_is("live");
		sound();
	}
	CHECK(took < 5 * SECOND);
	munmap(at, 4 * PAGE);
}

static void nonsense(void)
{
	uint64_t begin = now_ns();

	log_lines();
	CHECK(trouble(NONSENSE));
	usleep(3000000);
	CHECK(log_lines() <= lines_allowed(3, begin));
	CHECK(trouble(0));
	text_to("reset", "1");
}

int main(void)
{
	signal(SIGBUS, on_bus_error);
	find_card();
	sound();
	full_queue();
	last_vpid();
	with_users(unbound);
	with_users(reset);
	with_users(removed);
	puts("robust: taken away while in use");
	if (!trouble(0)) {
		puts("robust: the card cannot be told to fail");
		return 1;
	}
	with_users(gone);
	gone_with_region();
	mute();
	with_users(nonsense);
	with_users(reset);
	puts("PASS robust");
	return 0;
}
