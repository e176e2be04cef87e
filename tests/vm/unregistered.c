/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What memory that is not registered costs in a process that has registered other memory, beside a process that never
 * opened the device. For a processor whose clock counts instructions: what a round takes is then the same number in each
 * run but for the timer's interrupts, whatever the host does. Each round begins at another moment between two of these, so
 * that the round with the fewest instructions has met none, or one that no round could avoid. Memory is changed page by
 * page, since what watches a process's memory is told of each change and not of each page.
 */

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "gpu.h"

#define PAGES	512ul
#define ROUNDS	15
#define PERIOD	4000000ull	/* of the timer, ns */
#define SETTLE	(15 * PERIOD)
#define OWN	(16ul << 20)
#define MOST	1.01	/* times as many instructions */
#define TICK	25	/* that an interrupt of the timer adds to each of the pages */
/* Device memory is watched by way of the kernel's tree of intervals, in which it looks up each change. */
#define LOOKUP	250	/* instructions */

/* What a fork costs for the rest of the process is taken off. */
enum { TOUCHED, FORKED, COPIED, PROTECTED, DISCARDED, UNMAPPED, CHANGES, REST = CHANGES, COUNTED };
enum { NOTHING, USER_PAGES, DEVICE_MEMORY, PROCESSES };

static const char *const change_name[CHANGES] = {
	"touched", "forked", "copied on write", "protected", "discarded", "unmapped",
};
static const char *const process_name[PROCESSES] = {
	"never opened the device", "registered user pages", "registered device memory",
};

/* Instructions for each page. */
static double (*spent)[ROUNDS][COUNTED];

static double each(uint64_t begin)
{
	return (double)(now_ns() - begin) / PAGES;
}

/* A child that has the same memory, and does nothing any more when this returns. */
static pid_t sharer(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		raise(SIGSTOP);
		_exit(1);
	}
	CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	return child;
}

static void shared_no_more(pid_t child)
{
	int status;

	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void touch(unsigned char *at, unsigned char value)
{
	for (size_t i = 0; i < PAGES; i++)
		at[i * PAGE] = value;
}

/* The kernel frees later what it took apart (RCU): that is over before anything is counted again. */
static void settled(int round)
{
	for (uint64_t end = now_ns() + SETTLE + round * PERIOD / ROUNDS; now_ns() < end;)
		sched_yield();
}

/* Every change of memory that nobody registered. */
static void ordinary(int round, double *now)
{
	unsigned char *at = memory(PAGES * PAGE);
	uint64_t begin;
	pid_t child;

	settled(round);
	begin = now_ns();
	child = sharer();
	now[REST] = each(begin);
	shared_no_more(child);

	madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
	begin = now_ns();
	touch(at, 1);
	now[TOUCHED] = each(begin);
	begin = now_ns();
	child = sharer();
	now[FORKED] = each(begin);
	begin = now_ns();
	touch(at, 2);
	now[COPIED] = each(begin);
	shared_no_more(child);
	begin = now_ns();
	for (size_t i = 0; i < PAGES; i++)
		CHECK(mprotect(at + i * PAGE, PAGE, PROT_READ) == 0);
	now[PROTECTED] = each(begin);
	CHECK(mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
	begin = now_ns();
	for (size_t i = 0; i < PAGES; i++)
		CHECK(madvise(at + i * PAGE, PAGE, MADV_DONTNEED) == 0);
	now[DISCARDED] = each(begin);
	touch(at, 3);
	begin = now_ns();
	for (size_t i = 0; i < PAGES; i++)
		CHECK(munmap(at + i * PAGE, PAGE) == 0);
	now[UNMAPPED] = each(begin);
}

static void process(int kind, double (*now)[COUNTED])
{
	unsigned char *own = memory(OWN);
	struct gpumap_pin pin;
	struct port port;
	uint64_t nla = 0;

	/* A child has none of it: the kernel would copy registered pages for it. */
	CHECK(madvise(own, OWN, MADV_DONTFORK) == 0);
	memset(own, 1, OWN);
	if (kind != NOTHING)
		port_open(&port);
	if (kind == USER_PAGES)
		CHECK(region(&port, own, OWN, &nla) == 0);
	if (kind == DEVICE_MEMORY)
		CHECK(mmio(&port, pinned(open("/dev/gpumap", O_RDWR), GPU_BASE, &pin), BYTES, &nla) == 0);
	for (int i = 0; i < ROUNDS; i++)
		ordinary(i, now[i]);
	/* It is still what was registered. */
	CHECK(kind == NOTHING || end(&port, nla) == 0);
	exit(0);
}

static double fewest(int kind, int change)
{
	double least = spent[kind][0][change];

	for (int i = 1; i < ROUNDS; i++)
		least = spent[kind][i][change] < least ? spent[kind][i][change] : least;
	return change == FORKED ? least - fewest(kind, REST) : least;
}

/* Whether any change takes more instructions than it may. */
static int dear(int kind)
{
	int over = 0;

	printf("unregistered: instructions for a page, by a process that %s:\n", process_name[kind]);
	for (int i = 0; i < CHANGES; i++) {
		double least = fewest(NOTHING, i), it = fewest(kind, i);
		double most = least * MOST + TICK + (kind == DEVICE_MEMORY ? LOOKUP : 0);

		printf("  %-15s %8.1f  %.4f  %+7.1f%s\n", change_name[i], it, it / least, it - least,
		       it > most ? "  too many" : "");
		over |= it > most;
	}
	return over;
}

int main(void)
{
	int status, over = 0;
	pid_t child;

	spent = mmap(NULL, PROCESSES * sizeof(*spent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(spent != MAP_FAILED);
	/* What the second ones find counts: the kernel is still busy with its start during the first. */
	for (int i = 0; i < 2 * PROCESSES; i++) {
		child = fork();
		if (child == 0)
			process(i % PROCESSES, spent[i % PROCESSES]);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	for (int kind = 0; kind < PROCESSES; kind++)
		over |= dear(kind);
	fflush(stdout);
	CHECK(!over);
	printf("PASS unregistered\n");
	return 0;
}
