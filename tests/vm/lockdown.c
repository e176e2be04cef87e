/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lockdown LEVEL: locks the Linux kernel down (integrity, confidentiality), which lasts until it is booted again.
 * Whatever leads to all memory is refused from then on, to root and with `trusted`; what every user may do goes on.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "card.h"
#include "system.h"

#define FOLDER	"/sys/class/extoll/extoll0/"
#define LEVEL	"/sys/kernel/security/lockdown"

/* What a file says; nothing where it is for writing only. */
static void get_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY);
	ssize_t got = fd < 0 ? 0 : read(fd, text, room - 1);

	CHECK(fd >= 0 || errno == EACCES);
	CHECK(got >= 0);
	text[got] = 0;
	close(fd);
}

/* Files of a folder that may be written refuse every value and keep theirs; how many there are. */
static int refused_in(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[512], before[64], after[64];
	struct stat about;
	int count = 0;

	CHECK(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s%s", folder, entry->d_name);
		CHECK(lstat(path, &about) == 0);
		if (!S_ISREG(about.st_mode) || !(about.st_mode & 0200) || !strcmp(entry->d_name, "uevent"))
			continue;
		count++;
		get_text(path, before, sizeof(before));
		CHECK_ERRNO(put_text(path, "1"), EPERM);
		CHECK_ERRNO(put_text(path, "x"), EPERM);
		get_text(path, after, sizeof(after));
		CHECK(!strcmp(before, after));
	}
	closedir(dir);
	return count;
}

/* The calls and pages of /dev/extollN that need CAP_SYS_RAWIO. */
static void refused_calls(void)
{
	/* What lies there is looked at later. */
	struct extoll_window_open window = { .count = 1, .target_address = PAGE };
	struct extoll_port_rights rights = { .mask = EXTOLL_RIGHT_PROTECTION, .protection = 7 };
	struct extoll_rf_access access = { .offset = EXTOLL_RF_INFO_NODE };
	struct extoll_buffer_alloc buffer = { .bytes = PAGE };
	struct extoll_info info = { 0 };
	struct port port;

	port_open(&port);
	CHECK(ioctl(port.fd, EXTOLL_IOC_INFO, &info) == 0 && !(info.flags & EXTOLL_INFO_PRIVILEGED));
	window.stride = window.part_bytes = 2 * info.target_bytes;
	for (uint32_t option = 0; option < EXTOLL_PAGE_OPTIONS; option++)
		if (!(port.open.options >> option & 1))
			CHECK_ERRNO(map(port.fd, EXTOLL_MAP_REQUESTER + option * PAGE, PAGE), EPERM);
	CHECK(!(port.open.options >> EXTOLL_OPTION_PHYSICAL & 1));
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_RF_ACCESS, &access), EPERM);
	access.flags = EXTOLL_RF_WRITE;
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_RF_ACCESS, &access), EPERM);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_PORT_RIGHTS, &rights), EPERM);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer), EPERM);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_WINDOW_OPEN, &window), EPERM);
	port_close(&port);
}

int main(int argc, char **argv)
{
	char text[128];
	int fd;

	CHECK(argc == 2);
	find_card();
	/* Who has a register's file open already is refused as well. */
	fd = open(FOLDER "registers/scratchpad4", O_WRONLY);
	CHECK(fd >= 0);
	get_text(LEVEL, text, sizeof(text));
	if (strstr(text, "[none]"))
		CHECK(write(fd, "77", 2) == 2 && number("registers/scratchpad4") == 77);
	CHECK(put_text(LEVEL, argv[1]) == 0);
	CHECK_ERRNO(write(fd, "5", 1), EPERM);
	close(fd);
	CHECK(number("registers/scratchpad4") == 77);
	/* node, network_state; what registers/ has. */
	CHECK(refused_in(FOLDER) == 2 && refused_in(FOLDER "registers/") == 18);
	refused_calls();
	sound();
	expect_ports(0);
	printf("PASS lockdown %s\n", argv[1]);
	return 0;
}
