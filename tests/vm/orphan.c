/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The card's server ends while a process uses the card, as if it had been pulled out without a word: what is mapped
 * stays mapped, calls give EIO, sleepers wake, and everything is given back.
 */

#include <pthread.h>
#include <sys/syscall.h>

#include "card.h"

static struct port port;
static volatile pid_t sleeping;

static void *sleeper(void *arg)
{
	(void)arg;
	sleeping = syscall(SYS_gettid);
	errno = 0;
	CHECK(port_wait(&port, 0, 120000000000ull) == -1);
	return (void *)(uintptr_t)errno;
}

/* Until the sleeper is asleep in its call. */
static void wait_asleep(void)
{
	uint64_t end = now_ns() + 10000000000ull;
	char path[64], call[32] = "";

	while (!sleeping || strtol(call, NULL, 10) != SYS_ioctl) {
		int fd;

		CHECK(now_ns() < end);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)sleeping);
		memset(call, 0, sizeof(call));
		fd = open(path, O_RDONLY);
		if (fd >= 0) {
			CHECK(read(fd, call, sizeof(call) - 1) >= 0);
			close(fd);
		}
	}
}

int main(void)
{
	struct extoll_port_open open = { .units = EXTOLL_UNIT_RMA };
	struct extoll_info info;
	void *at = memory(64 * PAGE), *result;
	uint64_t nla, begin;
	pthread_t thread;
	int fd;

	find_card();
	sound();
	fd = device_open();
	port_open(&port);
	CHECK(region(&port, at, 64 * PAGE, &nla) == 0);
	post(&port, EXTOLL_OPTION_TE, extoll_desc_notification_put(port.open.node, port.open.vpid,
								  EXTOLL_SPEC_COMPLETER, 0, 1, 1));
	CHECK(take(&port, 5000).word0 == 1);
	CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
	wait_asleep();
	CHECK(trouble(DEAD));

	begin = now_ns();
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, &info), EIO);
	state_is("failed");
	CHECK(pthread_join(thread, &result) == 0 && (uintptr_t)result == EIO);
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
