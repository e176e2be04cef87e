/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * makers ROUNDS: several processes need the same translation table at the same time, and none is there: each makes one,
 * and all use one of them. For two processors. The first table's addresses are taken by regions of a dma-buf.
 */

#include <sched.h>
#include <sys/wait.h>

#include "card.h"
#include "gpu.h"

#define MAKERS	6
#define BUFFER	(64ul << 20)	/* the whole GPU */
#define TABLE	(1ul << EXTOLL_NLA_TABLE_SHIFT)
#define TABLES	(1u << 21)	/* bytes of one */

struct shared {
	volatile uint32_t ready[MAKERS];	/* rounds */
	volatile uint32_t go;
	volatile uint32_t made[MAKERS];
};

static struct shared *shared;

/* Memory of the machine that nobody has, in KiB. */
static long free_kib(void)
{
	char line[128];
	long value = -1;
	FILE *file = fopen("/proc/meminfo", "r");

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "MemFree: %ld", &value);
	fclose(file);
	CHECK(value >= 0);
	return value;
}

static void reached(volatile uint32_t *count, uint32_t want)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (*count < want) {
		CHECK(now_ns() < end);
		sched_yield();
	}
}

/* A region in the table that all make, and data moved in it while all have one. */
static void maker(int which, uint32_t rounds)
{
	unsigned char *at = memory(PAGE);
	struct port port;

	port_open(&port);
	for (uint32_t round = 1; round <= rounds; round++) {
		uint64_t nla;

		memset(at, 0, PAGE);
		at[0] = (unsigned char)(which + round);
		shared->ready[which] = round;
		reached(&shared->go, round);
		CHECK(region(&port, at, PAGE, &nla) == 0 && nla >> EXTOLL_NLA_TABLE_SHIFT == 1);
		shared->made[which] = round;
		for (int i = 0; i < MAKERS; i++)
			reached(&shared->made[i], round);
		CHECK(copy(&port, nla, nla + PAGE / 2, 8) == 0 && at[PAGE / 2] == at[0]);
		CHECK(region_end(&port, nla) == 0);
	}
	port_close(&port);
	_exit(0);
}

/* All logical addresses of the first table: it begins with one that is never given out. */
static void fill_first_table(struct port *port)
{
	int stub = open("/dev/gpustub", O_RDWR), fd;

	CHECK(stub >= 0);
	fd = ioctl(stub, GPUSTUB_IOC_EXPORT, &(struct gpustub_export){ GPU_BASE, BUFFER });
	CHECK(fd >= 0);
	for (uint64_t first = 0; first < TABLE; first += BUFFER) {
		struct extoll_register arg = {
			.kind = EXTOLL_REGION_DMABUF, .access = 3, .fd = fd,
			.length = first + BUFFER == TABLE ? BUFFER - PAGE : BUFFER,
		};

		CHECK(ioctl(port->fd, EXTOLL_IOC_REGISTER, &arg) == 0 && arg.nla >> EXTOLL_NLA_TABLE_SHIFT == 0);
	}
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 20;
	pid_t child[MAKERS];
	struct port port;
	long before;
	int status;

	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	port_open(&port);
	fill_first_table(&port);
	before = free_kib();
	for (int i = 0; i < MAKERS; i++) {
		child[i] = fork();
		CHECK(child[i] >= 0);
		if (child[i] == 0)
			maker(i, rounds);
	}
	for (uint32_t round = 1; round <= rounds; round++) {
		for (int i = 0; i < MAKERS; i++)
			reached(&shared->ready[i], round);
		shared->go = round;
	}
	for (int i = 0; i < MAKERS; i++)
		CHECK(waitpid(child[i], &status, 0) == child[i] && status == 0);
	/* One left in each round would be more. */
	CHECK(before - free_kib() < (long)rounds * TABLES / 1024 / 2);
	port_close(&port);
	expect_ports(0);
	printf("PASS makers\n");
	return 0;
}
