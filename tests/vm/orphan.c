/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The card's server ends while a process uses the card, as if it had been pulled out without a word: what is mapped
 * stays mapped, calls give EIO, sleepers wake, and everything is given back.
 */

#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "card.h"

static struct port port;

struct sleeper {
	pthread_t thread;
	int call;		/* in which it sleeps */
	volatile pid_t id;
};

static struct sleeper waiting = { .call = SYS_ioctl }, polling = { .call = SYS_poll };

/* Without a limit. The error that it wakes with. */
static void *wait_for_ever(void *arg)
{
	waiting.id = syscall(SYS_gettid);
	errno = 0;
	CHECK(port_wait(&port, 0, ~0ull) == -1);
	(void)arg;
	return (void *)(uintptr_t)errno;
}

/* Likewise; the events. */
static void *poll_for_ever(void *arg)
{
	struct pollfd fd = { .fd = port.fd, .events = POLLIN };

	polling.id = syscall(SYS_gettid);
	CHECK(poll(&fd, 1, -1) == 1);
	(void)arg;
	return (void *)(uintptr_t)fd.revents;
}

/* Until the sleeper is asleep in its call. */
static void wait_asleep(const struct sleeper *sleeper)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	char path[64], call[32] = "";

	while (!sleeper->id || strtol(call, NULL, 10) != sleeper->call) {
		int fd;

		CHECK(now_ns() < end);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)sleeper->id);
		memset(call, 0, sizeof(call));
		fd = open(path, O_RDONLY);
		if (fd >= 0) {
			CHECK(read(fd, call, sizeof(call) - 1) >= 0);
			close(fd);
		}
	}
}

/* What it wakes with: within the time that QEMU gives a request without an answer, and that of the driver's looks. */
static uintptr_t woken(const struct sleeper *sleeper)
{
	struct timespec end;
	void *result;

	CHECK(clock_gettime(CLOCK_REALTIME, &end) == 0);
	end.tv_sec += 60;
	CHECK(pthread_timedjoin_np(sleeper->thread, &result, &end) == 0);
	return (uintptr_t)result;
}

int main(void)
{
	struct extoll_port_open open = { .units = EXTOLL_UNIT_RMA };
	struct extoll_info info;
	void *at = memory(64 * PAGE);
	uint64_t nla, begin;
	int fd;

	find_card();
	sound();
	fd = device_open();
	port_open(&port);
	CHECK(region(&port, at, 64 * PAGE, &nla) == 0);
	post(&port, EXTOLL_OPTION_TE, extoll_desc_notification_put(port.open.node, port.open.vpid,
								  EXTOLL_SPEC_COMPLETER, 0, 1, 1));
	CHECK(take(&port, PATIENCE_MS).word0 == 1);
	CHECK(pthread_create(&waiting.thread, NULL, wait_for_ever, NULL) == 0);
	CHECK(pthread_create(&polling.thread, NULL, poll_for_ever, NULL) == 0);
	wait_asleep(&waiting);
	wait_asleep(&polling);
	CHECK(trouble(DEAD));

	/* Nobody calls. */
	CHECK(woken(&waiting) == EIO);
	CHECK(woken(&polling) == (POLLERR | POLLHUP));
	state_is("failed");
	begin = now_ns();
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, &info), EIO);
	/* Stores go nowhere, and hurt nobody. */
	port_store(&port, EXTOLL_OPTION_TE, &(struct extoll_desc){ { 1, 2, 3 } });
	CHECK(take(&port, 1).word1 == 0);
	CHECK_ERRNO(port_wait(&port, 0, 1000000000), EIO);
	CHECK_ERRNO(region(&port, at, PAGE, &nla), EIO);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open), EIO);
	port_close(&port);
	close(fd);
	CHECK(now_ns() - begin < 30000000000ull);
	expect_no_pins();
	printf("PASS orphan\n");
	return 0;
}
