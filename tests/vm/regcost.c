/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * regcost [MIB]: what registering and unregistering memory costs beside pinning it alone, in instructions where the
 * guest's time is made of them (a nanosecond each). Pinning alone is what the kernel does for a fixed buffer of io_uring
 * (long-term pins in one go, then all given back); best of a few rounds, which the timer's interrupts are in. With huge pages there is nothing to compare with: io_uring then looks
 * for each page among all before, and takes seconds.
 */

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "port.h"

#define ROUNDS	3
#define MIB	(1ul << 20)
#define GIB	(1024 * MIB)

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static int ring(void)
{
	struct io_uring_params params = { 0 };

	return (int)syscall(__NR_io_uring_setup, 1, &params);
}

/* Nanoseconds to pin and to give back. */
static void pinned(int fd, void *at, size_t bytes, uint64_t *pin, uint64_t *unpin)
{
	struct iovec buffer = { at, bytes };
	uint64_t begin = now_ns(), middle;

	CHECK(syscall(__NR_io_uring_register, fd, IORING_REGISTER_BUFFERS, &buffer, 1) == 0);
	middle = now_ns();
	CHECK(syscall(__NR_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
	if (middle - begin < *pin)
		*pin = middle - begin;
	if (now_ns() - middle < *unpin)
		*unpin = now_ns() - middle;
}

static void registered(struct port *port, void *at, size_t bytes, uint64_t *reg, uint64_t *unreg)
{
	uint64_t begin = now_ns(), middle, nla;

	CHECK(region(port, at, bytes, &nla) == 0);
	middle = now_ns();
	CHECK(region_end(port, nla) == 0);
	if (middle - begin < *reg)
		*reg = middle - begin;
	if (now_ns() - middle < *unreg)
		*unreg = now_ns() - middle;
}

/* Translations of the last pages of one table and the first of the next. */
static void across_tables(struct port *port, unsigned char *at, size_t bytes)
{
	unsigned char *from = memory(4 * PAGE);
	uint64_t nla, from_nla, place;
	size_t border;

	CHECK(region(port, at, bytes, &nla) == 0 && region(port, from, 4 * PAGE, &from_nla) == 0);
	border = (((nla >> EXTOLL_NLA_TABLE_SHIFT) + 1) << EXTOLL_NLA_TABLE_SHIFT) - nla;
	if (border + 2 * PAGE > bytes)
		border = bytes - 2 * PAGE;	/* a small region lies in one table */
	place = border - 2 * PAGE;
	for (size_t i = 0; i < 4 * PAGE; i++)
		from[i] = (unsigned char)(i * 11 + i / 509);
	memset(at + place - PAGE, 0, 6 * PAGE);
	post(port, EXTOLL_OPTION_TE, extoll_desc_put(0, port->open.node, port->open.vpid, EXTOLL_SPEC_COMPLETER, 0, from_nla,
						     nla + place, 4 * PAGE));
	CHECK(take(port, PATIENCE_MS).word1 != 0);
	CHECK(memcmp(at + place, from, 4 * PAGE) == 0 && at[place - 1] == 0);
	CHECK(region_end(port, nla) == 0 && region_end(port, from_nla) == 0);
	munmap(from, 4 * PAGE);
}

/* Nanoseconds to register and unregister a page, at best. */
static uint64_t of_a_page(struct port *port, void *at)
{
	uint64_t reg = ~0ull, unreg = ~0ull, best = ~0ull;

	for (int i = 0; i < 10; i++) {
		registered(port, at, PAGE, &reg, &unreg);
		best = reg + unreg < best ? reg + unreg : best;
	}
	return best;
}

/* What a table costs that comes and goes with the only region in it: where the tables before it are full. */
static void alone_in_a_table(struct port *port, unsigned char *at)
{
	uint64_t full, other, beside, alone;

	CHECK(region(port, at, GIB - PAGE, &full) == 0 && full >> EXTOLL_NLA_TABLE_SHIFT == 0);
	alone = of_a_page(port, at);
	/* Which table it is depends on the ranges that rest. */
	CHECK(region(port, at, PAGE, &other) == 0 && other >> EXTOLL_NLA_TABLE_SHIFT != 0);
	beside = of_a_page(port, at);
	CHECK(region_end(port, other) == 0 && region_end(port, full) == 0);
	printf("regcost: a page: %.1f us alone in a table, %.1f us beside another\n", (double)alone / 1000,
	       (double)beside / 1000);
}

/* With pages of 4 KiB beside pinning alone (`fd`), else with huge pages; the ratio. */
static double compared(struct port *port, int fd, size_t bytes)
{
	uint64_t pin = ~0ull, unpin = ~0ull, reg = ~0ull, unreg = ~0ull;
	unsigned char *at = memory(bytes + 16 * PAGE);
	double ratio;

	madvise(at, bytes + 16 * PAGE, fd >= 0 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	memset(at, 1, bytes + 16 * PAGE);
	across_tables(port, at, bytes + 16 * PAGE);
	for (int i = 0; i < ROUNDS; i++) {
		if (fd >= 0)
			pinned(fd, at, bytes, &pin, &unpin);
		registered(port, at, bytes, &reg, &unreg);
	}
	ratio = (double)(reg + unreg) / (double)(pin + unpin);
	printf("regcost: %4zu MiB, pages %s: register %.1f ms, unregister %.1f ms", bytes / MIB,
	       fd >= 0 ? "of 4 KiB" : "huge where the kernel gives them", ms(reg), ms(unreg));
	if (fd >= 0)
		printf("; pinning alone %.1f ms and %.1f ms; ratio %.2f", ms(pin), ms(unpin), ratio);
	printf("\n");
	if (fd >= 0 && bytes >= GIB)
		alone_in_a_table(port, at);
	munmap(at, bytes + 16 * PAGE);
	return ratio;
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoull(argv[1], NULL, 0) : 1024;
	struct port port;
	int fd = ring();
	double ratio;

	CHECK(fd >= 0);
	port_open(&port);
	ratio = compared(&port, fd, mib * MIB);
	compared(&port, -1, mib * MIB);
	port_close(&port);
	CHECK(ratio <= 1.3);
	printf("PASS regcost\n");
	return 0;
}
