/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * computing cards|peer|until: what a computation of kernels is told when a card or another node goes in the middle of it,
 * and that nobody else notices.
 *
 * cards: its kernels are on two cards of this machine, one of which is taken away.
 * peer: they are on this machine and on another one, which switches itself off.
 * until: this is the other one; returns while they compute.
 */

#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "card.h"
#include "system.h"

#define OTHER	"/dev/extoll1"
#define PAGES	16
#define MARK	100000	/* payload that nobody else sends */
/* From the start of the programs until their kernels are at it: they meet, and one may have to boot. */
#define BEGIN_NS (200 * SECOND)
/* From the loss to the end of those that wait for who is lost: their limit is 20 s. */
#define END_NS	(90 * SECOND)

/* A process with kernels. */
struct worker {
	pid_t pid;
	int out;
	char said[8192];
	size_t length;
};

static void begin(struct worker *worker, const char *card)
{
	int ends[2];

	memset(worker, 0, sizeof(*worker));
	CHECK(pipe(ends) == 0);
	worker->pid = fork();
	CHECK(worker->pid >= 0);
	if (worker->pid == 0) {
		setenv("EXTOLL_CARD", card, 1);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execlp("hw-suite", "hw-suite", "--endless", "2", NULL);
		_exit(127);
	}
	close(ends[1]);
	worker->out = ends[0];
}

/* Takes what it has said for a tenth of a second. */
static void hear(struct worker *worker)
{
	struct pollfd fd = { .fd = worker->out, .events = POLLIN };
	size_t room = sizeof(worker->said) - 1 - worker->length;
	ssize_t got;

	if (poll(&fd, 1, 100) != 1 || !room)
		return;
	got = read(worker->out, worker->said + worker->length, room);
	if (got > 0)
		worker->length += (size_t)got;
	else
		usleep(100000);	/* its end comes */
}

static void fail(const struct worker *worker, const char *what)
{
	printf("FAIL computing: %s; it said:\n%s\n", what, worker->said);
	exit(1);
}

static int runs(const struct worker *worker)
{
	return waitpid(worker->pid, NULL, WNOHANG) == 0;
}

static void is_computing(struct worker *worker)
{
	uint64_t end = now_ns() + BEGIN_NS;

	while (!strstr(worker->said, "computing\n")) {
		if (now_ns() > end || !runs(worker))
			fail(worker, "it does not come to compute");
		hear(worker);
	}
}

/* Its wait status, within the bound. */
static int ended(struct worker *worker)
{
	uint64_t end = now_ns() + END_NS;
	int status;

	while (waitpid(worker->pid, &status, WNOHANG) == 0) {
		if (now_ns() > end)
			fail(worker, "it does not end");
		hear(worker);
	}
	hear(worker);
	close(worker->out);
	return status;
}

/* Its kernels were told that somebody does not answer, and it ended by itself. */
static void is_told(struct worker *worker)
{
	int status = ended(worker);

	if (status || !strstr(worker->said, "\nstopped\n"))
		fail(worker, "its kernels were not told");
	fputs(worker->said, stdout);
}

/* Somebody beside them, with memory that nobody else is to touch. */
struct bystander {
	struct port port;
	unsigned char *at;
	uint64_t nla;
};

static void stand_by(struct bystander *by, const char *card)
{
	setenv("VM_DEVICE", card, 1);
	port_open(&by->port);
	by->at = memory(PAGES * PAGE);
	for (size_t i = 0; i < PAGES * PAGE; i++)
		by->at[i] = (unsigned char)(i * 7 + i / 251);
	CHECK(region(&by->port, by->at, PAGES * PAGE, &by->nla) == 0);
	unsetenv("VM_DEVICE");
}

static void is_untouched(struct bystander *by)
{
	struct extoll_noti noti;

	for (size_t i = 0; i < PAGES * PAGE; i++)
		CHECK(by->at[i] == (unsigned char)(i * 7 + i / 251));
	post(&by->port, EXTOLL_OPTION_TE, note(&by->port, MARK));
	/* Behind the greetings of those who looked for each other. */
	do {
		noti = take(&by->port, PATIENCE_MS);
		CHECK(noti.word1 != 0);
	} while (noti.word0 != MARK);
}

static void stand_by_no_more(struct bystander *by)
{
	CHECK(region_end(&by->port, by->nla) == 0);
	port_close(&by->port);
	munmap(by->at, PAGES * PAGE);
}

static void unbind(void)
{
	const char *name = strrchr(pci, '/') + 1;

	CHECK(put_text("/sys/bus/pci/drivers/extoll/unbind", name) == 0);
}

static void bind(void)
{
	const char *name = strrchr(pci, '/') + 1;

	CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", name) == 0);
	CHECK(access("/dev/extoll0", F_OK) == 0);
}

static void reset(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/reset", pci);
	CHECK(put_text(path, "1") == 0);
}

/* The first card goes: its kernels lose their pages at once, those of the second wait in vain. */
static void taken(void (*take_away)(void), void (*give_back)(void), const char *how)
{
	struct worker here, there;
	struct bystander by;
	int status;

	stand_by(&by, OTHER);
	begin(&here, DEVICE);
	begin(&there, OTHER);
	is_computing(&here);
	is_computing(&there);
	/* The module is not unloaded under them. */
	CHECK_ERRNO(syscall(SYS_delete_module, "extoll", O_NONBLOCK), EWOULDBLOCK);
	if (!runs(&here) || !runs(&there))
		fail(runs(&here) ? &there : &here, "it does not compute any more, and nothing has happened");
	take_away();
	status = ended(&here);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS)
		fail(&here, "its kernels go on without the card");
	is_told(&there);
	is_untouched(&by);
	stand_by_no_more(&by);
	give_back();
	expect_ports(0);
	expect_no_pins();
	sound();
	setenv("VM_DEVICE", OTHER, 1);
	sound();
	unsetenv("VM_DEVICE");
	printf("computing: %s\n", how);
}

static void nothing(void)
{
}

static void cards(void)
{
	taken(unbind, bind, "unbound");
	taken(reset, nothing, "reset");
}

static void peer(void)
{
	struct bystander by;
	struct worker here;

	stand_by(&by, DEVICE);
	begin(&here, DEVICE);
	is_computing(&here);
	is_told(&here);
	is_untouched(&by);
	stand_by_no_more(&by);
	expect_ports(0);
	expect_no_pins();
	sound();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct worker here;

	find_card();
	if (!strcmp(what, "until")) {
		begin(&here, DEVICE);
		is_computing(&here);
		return 0;
	}
	CHECK(!strcmp(what, "cards") || !strcmp(what, "peer"));
	what[0] == 'c' ? cards() : peer();
	puts("PASS computing");
	return 0;
}
