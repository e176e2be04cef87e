// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A guest's view of the card without a driver: identity, BARs, registers through
 * the resource file, pages that must not trap. Prints "identity: ok".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "extoll/regs.h"

/* Loads and stores of one word, as the card wants them. */
static uint64_t get(const volatile uint8_t *bar, uint64_t offset)
{
	return *(const volatile uint64_t *)(bar + offset);
}

static void put(volatile uint8_t *bar, uint64_t offset, uint64_t value)
{
	*(volatile uint64_t *)(bar + offset) = value;
}

static void fail(const char *what, uint64_t got, uint64_t want)
{
	printf("identity: %s is %#llx, expected %#llx\n", what, (unsigned long long)got,
	       (unsigned long long)want);
	exit(1);
}

static void expect(const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		fail(what, got, want);
}

static uint64_t attribute(const char *dir, const char *name)
{
	char path[256], text[32] = "";
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		fail(path, (uint64_t)errno, 0);
	close(fd);
	return strtoull(text, NULL, 16);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds of one access, at best of ten times: the machine has other things to do. */
static uint64_t cost(const volatile uint8_t *bar, uint64_t offset, uint64_t accesses)
{
	uint64_t best = UINT64_MAX;

	for (int times = 0; times < 10; times++) {
		uint64_t begin = now_ns(), took;

		for (uint64_t i = 0; i < accesses; i++)
			get(bar, offset);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	return best / accesses;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: identity DEVICE NODE\n");
		return 2;
	}
	const char *dir = argv[1];
	uint64_t node = strtoull(argv[2], NULL, 0);

	expect("vendor", attribute(dir, "vendor"), EXTOLL_PCI_VENDOR);
	expect("device", attribute(dir, "device"), EXTOLL_PCI_TOURMALET);
	expect("revision", attribute(dir, "revision"), EXTOLL_PCI_REVISION);
	expect("class", attribute(dir, "class"), 0x028000);

	char path[256];
	snprintf(path, sizeof(path), "%s/resource0", dir);
	int fd = open(path, O_RDWR);
	size_t bytes = EXTOLL_BAR0_BYTES;
	uint8_t *bar = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bar == MAP_FAILED)
		fail(path, (uint64_t)errno, 0);

	expect("node", get(bar, EXTOLL_RF_INFO_NODE) >> EXTOLL_INFO_NODE_SHIFT & 0xffff, node);
	expect("network state", get(bar, EXTOLL_RF_INFO_NETWORK_STATE), EXTOLL_NETWORK_CONFIGURED);
	put(bar, EXTOLL_RF_INFO_SCRATCHPAD + 8 * 7, 0x0123456789abcdef);
	expect("scratchpad 7", get(bar, EXTOLL_RF_INFO_SCRATCHPAD + 8 * 7), 0x0123456789abcdef);
	expect("requester page", get(bar, EXTOLL_BAR0_RMA), UINT64_MAX);

	/* The same page through memory and through the register file's trap. */
	uint64_t rp = EXTOLL_RF_BQ_RMA_RP + 4096 * 250;
	put(bar, rp, 77);
	expect("read pointer", get(bar, rp), 77);
	put(bar, rp, 0);
	uint64_t trapped = cost(bar, EXTOLL_RF_INFO_NODE, 20), mapped = cost(bar, rp, 2000);
	printf("identity: a trapped register takes %llu ns, a mapped one %llu ns\n",
	       (unsigned long long)trapped, (unsigned long long)mapped);
	if (mapped * 4 > trapped)
		fail("mapped page: ns", mapped, trapped / 4);
	puts("identity: ok");
	return 0;
}
