/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A card behind an IOMMU: it reaches what was mapped for it, page by page, and nothing else. */

#include "port.h"

#define PAGES 64
#define BYTES (PAGES * PAGE)

static struct port port;

/* Of a page that is in memory. */
static uint64_t physical_address(const void *at)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	CHECK(fd >= 0);
	CHECK(pread(fd, &entry, 8, (uintptr_t)at / PAGE * 8) == 8);
	close(fd);
	CHECK(entry >> 63 && (entry & ((1ull << 55) - 1)) != 0);
	return (entry & ((1ull << 55) - 1)) * PAGE;
}

static uint32_t put(uint32_t option, uint64_t from, uint64_t to, uint32_t bytes)
{
	struct extoll_noti noti;

	post(&port, option, extoll_desc_put(0, port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, from, to,
					    bytes));
	noti = take(&port, PATIENCE_MS);
	CHECK(noti.word1 != 0);
	return extoll_noti_error(noti.word1);
}

/* Puts of all lengths from and to all places within pages, over many pages. */
static void through(unsigned char *from, unsigned char *to)
{
	uint64_t from_nla, to_nla;

	CHECK(region(&port, from, BYTES, &from_nla) == 0);
	CHECK(region(&port, to, BYTES, &to_nla) == 0);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t at = i * 7919 % (BYTES / 2), there = i * 104729 % (BYTES / 2);
		uint32_t bytes = 1 + i * i * 31 % (BYTES / 2 - 1);

		for (uint32_t b = 0; b < BYTES; b++)
			from[b] = (unsigned char)(b * 7 + b / 253 + i);
		memset(to, 0, BYTES);
		CHECK(put(EXTOLL_OPTION_TE, from_nla + at, to_nla + there, bytes) == 0);
		CHECK(memcmp(from + at, to + there, bytes) == 0);
		CHECK((there == 0 || to[there - 1] == 0) && to[there + bytes] == 0);
	}
	CHECK(region_end(&port, from_nla) == 0);
	CHECK(region_end(&port, to_nla) == 0);
}

/* Physical addresses mean nothing to the card: neither those of our own pages, nor any other that is not mapped. */
static void bounded(unsigned char *to)
{
	struct extoll_buffer_alloc buffer = { .bytes = PAGE };
	uint64_t bad[] = { physical_address(to), 0x1000, 0x100000, 0x7ffffffff000 };
	uint64_t *at;

	CHECK(ioctl(port.fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer) == 0);
	at = map(port.fd, buffer.map_offset, PAGE);
	CHECK(at != MAP_FAILED);
	at[0] = 0x1122334455667788;
	memset(to, 0x5a, PAGE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(put(EXTOLL_OPTION_PHYSICAL, buffer.bus_address, bad[i], 8) != 0);
		CHECK(put(EXTOLL_OPTION_PHYSICAL, bad[i], buffer.bus_address + 64, 8) != 0);
	}
	for (size_t i = 0; i < PAGE; i++)
		CHECK(to[i] == 0x5a);
	CHECK(at[8] == 0);
	/* Nothing of it hurt the card. */
	CHECK(put(EXTOLL_OPTION_PHYSICAL, buffer.bus_address, buffer.bus_address + 128, 8) == 0 && at[16] == at[0]);
}

int main(void)
{
	unsigned char *from, *to;

	port_open(&port);
	from = memory(BYTES);
	to = memory(BYTES);
	through(from, to);
	bounded(to);
	printf("PASS iommu\n");
	return 0;
}
