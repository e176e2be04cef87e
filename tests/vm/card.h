/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests of a card's life: its folders in sysfs, mappings that may be gone, pages that are pinned. */
#ifndef VM_CARD_H
#define VM_CARD_H

#include <setjmp.h>
#include <signal.h>

#include "port.h"

static char pci[128];	/* the card's folder in sysfs */

static inline void find_card(void)
{
	char path[64], target[256];
	ssize_t length;

	snprintf(path, sizeof(path), "/sys/class/extoll/extoll0/device");
	length = readlink(path, target, sizeof(target) - 1);
	CHECK(length > 0);
	target[length] = 0;
	snprintf(pci, sizeof(pci), "/sys/bus/pci/devices/%s", strrchr(target, '/') + 1);
}

static inline long number(const char *name)
{
	char path[384], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/class/extoll/extoll0/%s", name);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(text, NULL, 0);
}

static inline int put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), result;

	if (fd < 0)
		return -1;
	result = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return result;
}

/* Open ports reach `count` within a bound. */
static inline void expect_ports(long count)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (number("ports") != count) {
		CHECK(now_ns() < end);
		usleep(1000);
	}
}

static sigjmp_buf bus_error;

static inline void on_bus_error(int signal)
{
	siglongjmp(bus_error, signal);
}

static inline int touches(volatile uint64_t *at)
{
	if (sigsetjmp(bus_error, 1))
		return 0;
	(void)*at;
	return 1;
}

/* Pages that were pinned and not given back, of the whole machine. */
static inline long pins(void)
{
	char line[128];
	long acquired = -1, released = -1;
	FILE *file = fopen("/proc/vmstat", "r");

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "nr_foll_pin_acquired %ld", &acquired);
		sscanf(line, "nr_foll_pin_released %ld", &released);
	}
	fclose(file);
	CHECK(acquired >= 0 && released >= 0);
	return acquired - released;
}

/* The counts of processors are added up from time to time. */
static inline void expect_no_pins(void)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (pins()) {
		if (now_ns() > end) {
			printf("FAIL %ld pages stay pinned\n", pins());
			exit(1);
		}
		usleep(10000);
	}
}

/* A port that has just been opened moves data. */
static inline void sound(void)
{
	struct port port;
	unsigned char *at = memory(2 * PAGE);
	uint64_t nla;

	port_open(&port);
	memset(at, 0x3c, PAGE);
	CHECK(region(&port, at, 2 * PAGE, &nla) == 0);
	post(&port, EXTOLL_OPTION_TE, extoll_desc_put(0, port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, nla,
						      nla + PAGE, PAGE));
	CHECK(take(&port, PATIENCE_MS).word1 != 0 && at[2 * PAGE - 1] == 0x3c);
	CHECK(region_end(&port, nla) == 0);
	port_close(&port);
	munmap(at, 2 * PAGE);
}

/* The kernel's messages; lines since the last call that name the driver. */
static inline int log_lines(void)
{
	static int fd = -1;
	char line[1024];
	ssize_t got;
	int lines = 0;

	if (fd < 0) {
		fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
		CHECK(fd >= 0);
	}
	for (;;) {
		got = read(fd, line, sizeof(line) - 1);
		if (got < 0 && errno == EPIPE)
			continue;	/* overwritten: the next read goes on */
		if (got < 0)
			return lines;
		line[got] = 0;
		lines += strstr(line, "extoll") != NULL;
	}
}

/* Lines that `kinds` messages of limited rate may give since `begin`: ten in five seconds each, and as many at its ends. */
static inline int lines_allowed(int kinds, uint64_t begin)
{
	return kinds * 10 * (2 + (int)((now_ns() - begin) / 5000000000ull));
}

/* What a card of extoll-vm-server --trouble can be told. */
#define GONE	1	/* off the bus */
#define NONSENSE 2	/* registers read as anything */
#define MUTE	3	/* no flush is ever over */
#define DEAD	4	/* its server ends */
#define LATE	5	/* answers stay on the way until it is told 0 */

/* How the card fails from now on; false where it cannot be told. */
static inline int trouble(uint8_t how)
{
	char path[256];
	uint8_t at = 0, word[2];
	int fd;

	snprintf(path, sizeof(path), "%s/config", pci);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && pread(fd, &at, 1, 0x34) == 1);
	for (int i = 0; at && i < 32; i++, at = word[1]) {
		CHECK(pread(fd, word, 2, at) == 2);
		if (word[0] == 0x09) {
			CHECK(pwrite(fd, &how, 1, at + 4) == 1);
			close(fd);
			return 1;
		}
	}
	close(fd);
	return 0;
}

/* Whether the first line of a file of sysfs is this. */
static inline int text_is(const char *path, const char *want)
{
	char text[4096] = "";
	int fd = open(path, O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	text[strcspn(text, "\n")] = 0;
	return !strcmp(text, want);
}

static inline void state_is(const char *want)
{
	CHECK(text_is("/sys/class/extoll/extoll0/state", want));
}

#endif /* VM_CARD_H */
