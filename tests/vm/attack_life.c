/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What one user, or a card that was left behind in a bad state, could do to those who come later or are beside it:
 * accesses of yesterday to memory of today, closing that holds up everybody, taking all there is.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "card.h"
#include "gpu.h"

/* A call that waits for another one does so each time; a machine that stands still does not. */
#define TRIES	3
#define USER	1000
#define OTHER	1001

static void parameter(const char *name, unsigned int value)
{
	char path[128], text[16];

	snprintf(path, sizeof(path), "/sys/module/extoll/parameters/%s", name);
	snprintf(text, sizeof(text), "%u", value);
	CHECK(put_text(path, text) == 0);
}

/*
 * The card does not say that it has finished with a region, and the driver leaves it like that. Bound again, it must
 * not know the region any more, whose memory others have.
 */
static void left_mute(void)
{
	const char *name = strrchr(pci, '/') + 1;
	void *at = memory(2 * PAGE);
	struct port port;
	uint64_t nla;

	parameter("vpid_rest_ms", 0);	/* the same VPID, then and later */
	port_open(&port);
	CHECK(port.open.vpid == 0 && region(&port, at, 2 * PAGE, &nla) == 0);
	CHECK(copy(&port, nla, nla + PAGE, 64) == 0);	/* now it has the translations at hand */
	CHECK(trouble(MUTE));
	port_close(&port);
	state_is("failed");
	CHECK(put_text("/sys/bus/pci/drivers/extoll/unbind", name) == 0);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", name) == 0);
	state_is("live");
	port_open(&port);
	CHECK(port.open.vpid == 0 && copy(&port, nla, nla + PAGE, 64) == 1);
	port_close(&port);
	parameter("vpid_rest_ms", 250);
	sound();
	munmap(at, 2 * PAGE);
	puts("attack_life: left mute, bound again");
}

/* A card that cannot be reset is not let at memory, and can be bound once it can. */
static void without_reset(void)
{
	const char *name = strrchr(pci, '/') + 1;
	char path[256];

	snprintf(path, sizeof(path), "%s/reset_method", pci);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/unbind", name) == 0);
	CHECK(put_text(path, "\n") == 0);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", name) == -1);
	CHECK(put_text(path, "default") == 0);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", name) == 0);
	sound();
}

static volatile pid_t closer_id;
static volatile int closed;

static void *closer(void *arg)
{
	closer_id = syscall(SYS_gettid);
	close(*(int *)arg);
	closed = 1;
	return arg;
}

/* Until the thread sleeps in close(); whether it does. */
static int is_closing(void)
{
	char path[64], call[32];

	while (!closed) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)closer_id);
		memset(call, 0, sizeof(call));
		fd = closer_id ? open(path, O_RDONLY) : -1;
		if (fd >= 0) {
			CHECK(read(fd, call, sizeof(call) - 1) >= 0);
			close(fd);
		}
		if (strtol(call, NULL, 10) == SYS_close && call[0] != 'r')
			return 1;
	}
	return 0;
}

/* Closing waits for a card that does not answer, for ten seconds. Others open and close files meanwhile. */
static void slow_close(void)
{
	int beside = 0;

	for (int i = 0; i < TRIES && !beside; i++) {
		char path[256];
		pthread_t thread;
		struct port port;

		port_open(&port);
		munmap((void *)port.wcb, PAGE);
		munmap((void *)port.rp, PAGE);
		munmap((void *)port.queue, port.open.queue_bytes_out);
		CHECK(trouble(MUTE));
		closed = 0;
		closer_id = 0;
		CHECK(pthread_create(&thread, NULL, closer, &port.fd) == 0);
		if (is_closing()) {
			int fd = open(DEVICE, O_RDWR);

			CHECK(fd >= 0 || errno == EIO);
			beside = fd >= 0 && number("ports") == 1;	/* it is still being closed */
			if (fd >= 0)
				close(fd);
		}
		pthread_join(thread, NULL);
		snprintf(path, sizeof(path), "%s/reset", pci);
		CHECK(put_text(path, "1") == 0);
		state_is("live");
	}
	CHECK(beside);
	sound();
	puts("attack_life: closing beside others");
}

/* A file with a port whose queue has so many bytes. */
static int with_queue(uint32_t bytes)
{
	struct extoll_port_open open_ = { .units = EXTOLL_UNIT_RMA, .queue_bytes = bytes, .segment_bytes = PAGE };
	int fd = device_open();

	if (ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Runs `what` in a child that is this user. */
static void as(uid_t user, void (*what)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		CHECK(setgid(user) == 0 && setuid(user) == 0);
		what();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void has_one(void)
{
	CHECK(with_queue(PAGE) >= 0);
}

/* A user of a namespace of its own counts as the one who made it. Where there are no such namespaces: nothing to try. */
static void renamed(void)
{
	int ready[2], go[2], status;
	char byte = 0, path[64];
	pid_t child;

	CHECK(pipe(ready) == 0 && pipe(go) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(setgid(USER) == 0 && setuid(USER) == 0);
		byte = unshare(CLONE_NEWUSER) == 0;
		CHECK(write(ready[1], &byte, 1) == 1);
		if (!byte)
			exit(0);
		CHECK(read(go[0], &byte, 1) == 1 && setuid(0) == 0);
		CHECK_ERRNO(with_queue(PAGE), EDQUOT);
		exit(0);
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	if (byte) {
		snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)child);
		CHECK(put_text(path, "0 5000 1") == 0 && write(go[1], "", 1) == 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
}

static int gate[2][2];	/* pipes: the user has taken all it may; it may go */

/* All ports that a user may have, and then all queues. */
static void takes_all(void)
{
	int fd[3];
	char byte;

	for (int i = 0; i < 3; i++) {
		fd[i] = with_queue(PAGE);
		CHECK(fd[i] >= 0);
	}
	CHECK_ERRNO(with_queue(PAGE), EDQUOT);
	CHECK(write(gate[0][1], "", 1) == 1 && read(gate[1][0], &byte, 1) == 1);
	close(fd[1]);
	close(fd[2]);
	CHECK_ERRNO(with_queue(1 << 20), EDQUOT);
	fd[1] = with_queue((1 << 20) - PAGE);
	CHECK(fd[1] >= 0);
	CHECK_ERRNO(with_queue(PAGE), EDQUOT);
	close(fd[1]);
	fd[1] = with_queue(PAGE);
	CHECK(fd[1] >= 0);
}

/* One user's ports and queues end somewhere; those of others, and of root, are not touched by that. */
static void limits(void)
{
	pid_t child;
	int status, fd[5];
	char byte;

	CHECK(chmod(DEVICE, 0666) == 0);
	parameter("user_ports", 3);
	parameter("user_queue_mib", 1);
	CHECK(pipe(gate[0]) == 0 && pipe(gate[1]) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(setgid(USER) == 0 && setuid(USER) == 0);
		takes_all();
		exit(0);
	}
	close(gate[0][1]);
	close(gate[1][0]);
	CHECK(read(gate[0][0], &byte, 1) == 1);	/* nothing comes of a child that failed */
	renamed();
	as(OTHER, has_one);
	for (int i = 0; i < 5; i++) {
		fd[i] = with_queue(i < 4 ? PAGE : 2 << 20);
		CHECK(fd[i] >= 0);
	}
	CHECK(write(gate[1][1], "", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (int i = 0; i < 5; i++)
		close(fd[i]);
	expect_ports(0);
	parameter("user_ports", 128);
	parameter("user_queue_mib", 256);
	CHECK(chmod(DEVICE, 0660) == 0);
	puts("attack_life: one user's limits");
}

/* Whether every byte of a page is `value`. */
static int all_are(const volatile unsigned char *page, unsigned char value)
{
	for (size_t i = 0; i < PAGE; i++)
		if (page[i] != value)
			return 0;
	return 1;
}

/* A region of a page at this logical address, which has been given back and rests as long as EXTOLL_NLA_REST_RANGES says. */
static void region_at(struct port *port, void *page, uint64_t nla)
{
	uint64_t got;

	for (int i = 0; i < 8 * EXTOLL_NLA_REST_RANGES; i++) {
		CHECK(region(port, page, PAGE, &got) == 0);
		if (got == nla)
			return;
		/* Those before it would come again and again; they end with the port. */
		CHECK(got < nla || region_end(port, got) == 0);
	}
	CHECK(!"the address does not come again");
}

/*
 * The answer to a get is late: its port has been closed, and the logical address that it writes to is another port's.
 * Nothing of it may reach that one; the card drops it, and counts.
 */
static void late_answer(void)
{
	unsigned char *old = memory(2 * PAGE), *new = memory(PAGE);
	uint64_t old_nla, end = now_ns() + PATIENCE_NS;
	struct port port;
	long dropped;

	parameter("vpid_rest_ms", 10000);	/* longer than closing and opening takes, on any machine */
	memset(old, 0xa5, 2 * PAGE);
	memset(new, 0x5a, PAGE);
	port_open(&port);
	CHECK(region(&port, old, 2 * PAGE, &old_nla) == 0);
	CHECK(trouble(LATE));
	post(&port, EXTOLL_OPTION_TE,
	     extoll_desc_get(0, port.open.node, port.open.vpid, EXTOLL_SPEC_RESPONDER | EXTOLL_SPEC_COMPLETER, 0,
			     old_nla, old_nla + PAGE, PAGE));
	CHECK(take(&port, PATIENCE_MS).word1 != 0);	/* the responder's: the answer is on its way */
	port_close(&port);
	port_open(&port);
	region_at(&port, new, old_nla + PAGE);
	dropped = number("counters/completer_vpid");
	CHECK(trouble(0));
	while (number("counters/completer_vpid") == dropped && all_are(new, 0x5a))
		CHECK(now_ns() < end);
	CHECK(all_are(new, 0x5a));
	CHECK(take(&port, 1).word1 == 0);
	port_close(&port);
	parameter("vpid_rest_ms", 250);
	sound();
	munmap(old, 2 * PAGE);
	munmap(new, PAGE);
	puts("attack_life: a late answer");
}

/* Whoever opens and closes makes VPIDs rest, but others find one. */
static void open_and_close(void)
{
	for (int i = 0; i < 600; i++) {
		int fd = with_queue(PAGE);

		CHECK(fd >= 0);
		close(fd);
	}
}

int main(void)
{
	find_card();
	if (!trouble(0)) {
		puts("attack_life: the card cannot be told to fail");
		return 1;
	}
	left_mute();
	without_reset();
	slow_close();
	limits();
	late_answer();
	open_and_close();
	puts("PASS attack_life");
	return 0;
}
