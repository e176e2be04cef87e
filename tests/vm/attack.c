/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a user could reach that is not theirs: memory between the parts of a window, buffers that they may only read; and
 * what they are told of a card that does not answer.
 */

#include <sys/stat.h>
#include <sys/wait.h>

#include "card.h"
#include "gpu.h"

#define USER	1000

/*
 * A store between two parts meets no interval: the card would send it to node 0, to wherever its address leads there. The
 * parts are mapped together, and only they are reached, filled in advance or not.
 */
static void between_parts(void)
{
	struct extoll_window_open open_ = { .count = 3, .stride = 4 * PAGE, .part_bytes = PAGE, .nodes = { 0, 0, 0 } };
	const uint64_t pages = 2 * 4 + 1;
	volatile uint64_t *all;
	int fd = device_open();

	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open_) == 0);
	for (int filled = 0; filled < 2; filled++) {
		all = map(fd, EXTOLL_MAP_WINDOW + open_.window_offset, pages * PAGE);
		CHECK(all != MAP_FAILED);
		CHECK(!filled || madvise((void *)all, pages * PAGE, MADV_WILLNEED) == 0);
		for (uint64_t page = 0; page < pages; page++)
			CHECK(touches(all + page * PAGE / 8) == (page % 4 == 0));
		munmap((void *)all, pages * PAGE);
	}
	close(fd);
	puts("attack: between parts");
}

static int buffer(struct port *port, int fd, uint32_t access, uint64_t *nla)
{
	struct extoll_register arg = { .kind = EXTOLL_REGION_DMABUF, .access = access, .length = PAGE, .fd = fd };
	int err = ioctl(port->fd, EXTOLL_IOC_REGISTER, &arg);

	*nla = arg.nla;
	return err;
}

/* Who was given a buffer for reading has no card write to it. */
static void read_only(void)
{
	struct gpustub_export arg = { GPU_BASE, BYTES };
	int stub = open("/dev/gpustub", O_RDWR), fd;
	uint64_t nla, own;
	struct port port;
	void *at = memory(PAGE);

	CHECK(stub >= 0);
	fd = ioctl(stub, GPUSTUB_IOC_EXPORT_READ, &arg);
	CHECK(fd >= 0);
	port_open(&port);
	CHECK(region(&port, at, PAGE, &own) == 0);
	CHECK_ERRNO(buffer(&port, fd, EXTOLL_ACCESS_READ | EXTOLL_ACCESS_WRITE, &nla), EACCES);
	CHECK_ERRNO(buffer(&port, fd, EXTOLL_ACCESS_WRITE, &nla), EACCES);
	CHECK(buffer(&port, fd, EXTOLL_ACCESS_READ, &nla) == 0);
	CHECK(copy(&port, nla, own, 64) == 0);
	CHECK(copy(&port, own, nla, 64) == 1);
	port_close(&port);
	close(fd);
	close(stub);
	munmap(at, PAGE);
	puts("attack: for reading only");
}

static int as_user(void (*attack)(void))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		CHECK(setgid(USER) == 0 && setuid(USER) == 0);
		attack();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Registers of a card that does not answer are errors, not ones. */
static void registers_of_a_mute_card(void)
{
	void *at = memory(PAGE);
	struct port port;
	char path[256], text[32];
	uint64_t nla;
	int fd = open("/sys/class/extoll/extoll0/node", O_RDONLY);

	CHECK(fd >= 0 && pread(fd, text, sizeof(text), 0) == 2 && text[0] == '0');
	port_open(&port);
	CHECK(region(&port, at, PAGE, &nla) == 0 && copy(&port, nla, nla + 64, 64) == 0);
	CHECK(trouble(MUTE));
	port_close(&port);
	state_is("failed");
	CHECK_ERRNO(pread(fd, text, sizeof(text), 0), EIO);
	CHECK_ERRNO(put_text("/sys/class/extoll/extoll0/network_state", "0"), EIO);
	close(fd);
	snprintf(path, sizeof(path), "%s/reset", pci);
	CHECK(put_text(path, "1") == 0);
	state_is("live");
	sound();
	puts("attack: registers of a mute card");
}

int main(void)
{
	find_card();
	signal(SIGBUS, on_bus_error);
	CHECK(chmod(DEVICE, 0666) == 0 && chmod("/dev/gpustub", 0666) == 0);
	CHECK(as_user(between_parts));
	CHECK(as_user(read_only));
	registers_of_a_mute_card();
	puts("PASS attack");
	return 0;
}
