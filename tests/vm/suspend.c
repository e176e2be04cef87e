/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * suspend STATE: the machine goes to sleep while a process uses the card, and wakes. Ports end as in a reset, and
 * the card works as on the first day, whatever it forgot.
 */

#include <pthread.h>

#include "card.h"
#include "system.h"

static struct port port;

static void *sleeper(void *arg)
{
	(void)arg;
	errno = 0;
	CHECK(port_wait(&port, 0, ~0ull) == -1);
	return (void *)(uintptr_t)errno;
}

/* Wakes the machine; what happens from here on before it sleeps keeps it from sleeping at all. */
static void alarm_in(const char *seconds)
{
	char count[32] = "";
	int fd = open("/sys/power/wakeup_count", O_RDONLY);

	CHECK(fd >= 0 && read(fd, count, sizeof(count) - 1) > 0);
	close(fd);
	CHECK(put_text("/sys/power/wakeup_count", count) == 0);
	put_text("/sys/class/rtc/rtc0/wakealarm", "0");
	CHECK(put_text("/sys/class/rtc/rtc0/wakealarm", seconds) == 0);
}

static void go_to_sleep(const char *state)
{
	char seconds[16];

	for (int tries = 0;; tries++) {
		if (!strcmp(state, "mem")) {
			/* A slow machine is not asleep yet when the first ones come. */
			snprintf(seconds, sizeof(seconds), "+%d", 3 << tries);
			alarm_in(seconds);
		}
		if (put_text("/sys/power/state", state) == 0)
			return;
		CHECK(errno == EBUSY && tries < 5);
	}
}

/* A card that has failed is not to be trusted after sleep either: it may have kept its power. */
static void failed(const char *state)
{
	char path[256];
	struct extoll_info info;
	int fd = device_open();

	CHECK(trouble(GONE));
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, &info), EIO);
	CHECK(trouble(0));
	go_to_sleep(state);
	state_is("failed");
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_INFO, &info), EIO);
	snprintf(path, sizeof(path), "%s/reset", pci);
	CHECK(put_text(path, "1") == 0);
	state_is("live");
	CHECK(ioctl(fd, EXTOLL_IOC_INFO, &info) == 0);
	close(fd);
	sound();
}

int main(int argc, char **argv)
{
	unsigned char *at = memory(8 * PAGE);
	uint64_t nla, limit;
	pthread_t thread;
	void *result;

	CHECK(argc == 2);
	signal(SIGBUS, on_bus_error);
	find_card();
	sound();
	port_open(&port);
	CHECK(region(&port, at, 8 * PAGE, &nla) == 0);
	/* What the driver has to put right. */
	limit = rf(&port, EXTOLL_RF_RMA_LOCK_CONFIG, 0, 0);
	rf(&port, EXTOLL_RF_RMA_LOCK_BASE, 0, 1);
	rf(&port, EXTOLL_RF_ATU_ENABLE, 0, 1);
	CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
	go_to_sleep(argv[1]);

	/* Programs are stopped as by a signal. */
	CHECK(pthread_join(thread, &result) == 0 && ((uintptr_t)result == EINTR || (uintptr_t)result == EIO));
	state_is("live");
	CHECK(number("ports") == 0);
	expect_no_pins();
	CHECK(!touches((volatile uint64_t *)port.queue) && !touches(port.rp) && !touches(port.wcb));
	CHECK_ERRNO(port_wait(&port, 0, SECOND), EIO);
	CHECK_ERRNO(region_end(&port, nla), EIO);
	CHECK_ERRNO(region(&port, at, PAGE, &nla), EIO);
	port_close(&port);
	munmap(at, 8 * PAGE);

	sound();
	port_open(&port);
	wakes(&port);
	CHECK(rf(&port, EXTOLL_RF_RMA_LOCK_CONFIG, 0, 0) == limit);
	CHECK(rf(&port, EXTOLL_RF_RMA_LOCK_BASE, 0, 0) != 0);
	port_close(&port);
	expect_ports(0);
	if (!strcmp(argv[1], "freeze"))
		failed(argv[1]);
	printf("PASS suspend %s\n", argv[1]);
	return 0;
}
