/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * race ROUNDS: processes map and touch a queue again and again while the card is taken away. What they got just before
 * it went is taken from them, however far their page faults had come.
 *
 * The driver waits for faults that are under way, and the last of them to leave wakes it, in the middle of the fault. In
 * every second round it then runs at once, on the same processor, before that fault can go on (it needs a kernel that
 * preempts itself); in the others on two processors side by side.
 */

#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>

#include "card.h"

#define MAPPERS		12
#define SEGMENT_BYTES	(1u << 20)
#define QUEUE_BYTES	(4 * SEGMENT_BYTES)	/* takes long to map, so that many are in the middle of it */

struct shared {
	volatile unsigned int mapped[MAPPERS];	/* how often */
	volatile int gone;			/* nobody can reach the card any more */
};

static struct shared *shared;

/* Maps until the card has gone. Whatever it still has then must be empty. */
static int mapper(int fd, int which)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	volatile uint64_t *old = NULL, *at;

	for (;;) {
		at = map(fd, EXTOLL_MAP_QUEUE, QUEUE_BYTES);
		if (at == MAP_FAILED)
			break;
		/* Page faults map it: they are what is under way when the card goes. */
		for (uint32_t page = shared->mapped[which] % 512; page < QUEUE_BYTES / PAGE; page += 512)
			touches(at + page * PAGE / sizeof(*at));
		if (old)
			munmap((void *)old, QUEUE_BYTES);
		old = at;
		shared->mapped[which]++;
	}
	CHECK(errno == ENODEV);
	while (!shared->gone)
		CHECK(now_ns() < end);
	for (uint32_t page = 0; old && page < QUEUE_BYTES / PAGE; page++)
		if (touches(old + page * PAGE / sizeof(*old))) {
			printf("FAIL page %u of a mapping is left after the card went\n", page);
			return 1;
		}
	return 0;
}

/* Where this process and its children run. */
static void on_processors(int count)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < count; i++)
		CPU_SET(i, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void round_trip(uint32_t round)
{
	struct extoll_port_open arg = {
		.units = EXTOLL_UNIT_RMA, .queue_bytes = QUEUE_BYTES, .segment_bytes = SEGMENT_BYTES,
	};
	const char *name = strrchr(pci, '/') + 1;
	int fd = device_open(), status, failed = 0;
	uint64_t end = now_ns() + PATIENCE_NS;
	pid_t child[MAPPERS];

	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &arg) == 0 && arg.queue_bytes_out == QUEUE_BYTES);
	memset(shared, 0, sizeof(*shared));
	on_processors(round % 2 ? 2 : 1);
	for (int i = 0; i < MAPPERS; i++) {
		child[i] = fork();
		CHECK(child[i] >= 0);
		if (child[i] == 0)
			_exit(mapper(fd, i));
	}
	for (int i = 0; i < MAPPERS; i++)
		while (shared->mapped[i] < 2)
			CHECK(now_ns() < end);
	/* Another moment each time, and nobody is before us. */
	CHECK(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 50 }) == 0);
	usleep(round * 7919 % 20000);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/unbind", name) == 0);
	shared->gone = 1;
	CHECK(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }) == 0);
	for (int i = 0; i < MAPPERS; i++) {
		CHECK(waitpid(child[i], &status, 0) == child[i]);
		failed |= status;
	}
	CHECK(!failed);
	close(fd);
	CHECK(put_text("/sys/bus/pci/drivers/extoll/bind", name) == 0);
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 20;

	signal(SIGBUS, on_bus_error);
	find_card();
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (uint32_t i = 0; i < rounds; i++)
		round_trip(i);
	expect_ports(0);
	sound();
	printf("PASS race\n");
	return 0;
}
