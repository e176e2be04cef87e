/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The registration cache of librma2rc (spec 10.5): linked before librma2. */
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "rma2_rc.h"

#define PLACES 8

static RMA2_Port port;
static RMA2_Handle self;

static rma2_rc_statistics statistics(void)
{
	rma2_rc_statistics now;

	OK(rma2_rc_get_statistics(&now));
	return now;
}

static void works(RMA2_Region *region, uint8_t *memory)
{
	OK(rma2_post_immediate_put(port, self, 8, 0x55, nla_of(region, 8), RMA2_COMPLETER_NOTIFICATION,
				   RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memory[8] == 0x55);
	memory[8] = 0;
}

static void hits(void)
{
	uint8_t *memory = (uint8_t *)allocate(16 * PAGE);
	RMA2_Region *whole = NULL, *again = NULL, *part = NULL;
	rma2_rc_statistics before = statistics(), now;

	OK(rma2_register_cached(port, memory, 16 * PAGE, &whole));
	OK(rma2_register_cached(port, memory, 16 * PAGE, &again));
	CHECK(whole == again);
	OK(rma2_register_cached(port, memory + 3 * PAGE + 24, 100, &part));
	CHECK(part != whole && part->parent == whole && part->start == memory + 3 * PAGE && part->offset == 24);
	CHECK(nla_of(part, 0) == nla_of(whole, 3 * PAGE + 24));
	works(part, memory + 3 * PAGE + 24);
	now = statistics();
	CHECK(now.hits - before.hits == 2 && now.misses - before.misses == 1 && now.used == 1);
	OK(rma2_unregister_cached(port, part));
	OK(rma2_unregister_cached(port, again));
	works(whole, memory);
	OK(rma2_unregister_cached(port, whole));
	GIVES(RMA2_ERR_INV_VALUE, rma2_unregister_cached(port, whole));
	/* Idle, and still there for the next. */
	CHECK(statistics().used == 0 && statistics().regions == 1);
	OK(rma2_register_cached(port, memory, 16 * PAGE, &again));
	CHECK(again == whole && statistics().hits - before.hits == 3);
	OK(rma2_unregister_cached(port, again));
	free(memory);
}

/* Two blocks that share a page: the one stays when the other goes. */
static void neighbours(void)
{
	rma2_rc_statistics before = statistics();
	uint8_t *memory = (uint8_t *)allocate(2 * PAGE);
	RMA2_Region *first = NULL, *second = NULL;

	OK(rma2_register_cached(port, memory, PAGE + 100, &first));
	OK(rma2_unregister_cached(port, first));
	OK(rma2_register_cached(port, memory + PAGE + 128, 100, &second));
	CHECK(statistics().hits == before.hits);
	CHECK(madvise(memory, PAGE, MADV_DONTNEED) == 0);
	works(second, memory + PAGE + 128);
	OK(rma2_unregister_cached(port, second));
	free(memory);
}

/* Idle regions make room; when all are in use, the request goes beside the cache. */
static void eviction(void)
{
	uint8_t *memory = (uint8_t *)allocate(100 * PAGE);
	RMA2_Region *regions[PLACES + 4];
	rma2_rc_statistics before, now;
	int i;

	before = statistics();
	for (i = 0; i < 3 * PLACES; i++) {
		OK(rma2_register_cached(port, memory + 2 * i * (int)PAGE, PAGE, &regions[0]));
		works(regions[0], memory + 2 * i * (int)PAGE);
		OK(rma2_unregister_cached(port, regions[0]));
	}
	now = statistics();
	CHECK(now.regions == PLACES && now.evictions - before.evictions >= 2 * PLACES - 1);
	before = now;
	for (i = 0; i < PLACES + 4; i++)
		OK(rma2_register_cached(port, memory + 2 * i * (int)PAGE + 8, PAGE - 8, &regions[i]));
	now = statistics();
	CHECK(now.uncached - before.uncached == 4 && now.used == PLACES);
	for (i = 0; i < PLACES + 4; i++) {
		works(regions[i], memory + 2 * i * (int)PAGE + 8);
		OK(rma2_unregister_cached(port, regions[i]));
	}
	free(memory);
}

/* Memory that is mapped anew at the same place is not the cached one. */
static void invalidation(void)
{
	rma2_rc_statistics before = statistics();
	int i;

	for (i = 0; i < 50; i++) {
		uint8_t *memory = (uint8_t *)mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		RMA2_Region *region = NULL;

		CHECK(memory != MAP_FAILED);
		OK(rma2_register_cached(port, memory, 4 * PAGE, &region));
		works(region, memory);
		OK(rma2_unregister_cached(port, region));
		CHECK(munmap(memory, 4 * PAGE) == 0);
	}
	CHECK(statistics().invalidations - before.invalidations >= 49);
	CHECK(statistics().hits == before.hits);
#if !SANITIZED
	before = statistics();
	for (i = 0; i < 20; i++) {
		uint8_t *memory = (uint8_t *)malloc(1 << 20);
		RMA2_Region *region = NULL;

		CHECK(memory);
		OK(rma2_register_cached(port, memory, 1 << 20, &region));
		works(region, memory);
		OK(rma2_unregister_cached(port, region));
		free(memory);
	}
	CHECK(statistics().hits == before.hits && statistics().invalidations - before.invalidations >= 19);
#endif
}

/* What is gone while it is in use, and what comes next: its address on the card rests. memory.c waits for its rest to end. */
static void gone_and_next(void)
{
	uint8_t *first = (uint8_t *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *second = (uint8_t *)allocate(PAGE);
	RMA2_Region *gone = NULL, *there = NULL;
	RMA2_NLA nla;

	CHECK(first != MAP_FAILED);
	OK(rma2_register_cached(port, first, PAGE, &gone));
	nla = nla_of(gone, 0);
	CHECK(munmap(first, PAGE) == 0);
	OK(rma2_register_cached(port, second, PAGE, &there));
	CHECK(nla_of(there, 0) != nla && statistics().used == 2);
	OK(rma2_unregister_cached(port, gone));
	CHECK(statistics().used == 1);
	works(there, second);
	OK(rma2_unregister_cached(port, there));
	free(second);
}

/* Idle regions do not keep the memory that may be locked from others, of the cache or not. */
static void limit(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct rights[2];
	struct rlimit most = { 64 * PAGE, 64 * PAGE };
	uint8_t *memory = (uint8_t *)allocate(256 * PAGE);
	RMA2_Region *region = NULL, *used = NULL;
	int i;

	memset(rights, 0, sizeof rights);
	CHECK(syscall(SYS_capset, &header, rights) == 0 && setrlimit(RLIMIT_MEMLOCK, &most) == 0);
	setenv("EXTOLL_LOCKED_MEMORY", "system", 1);
	setenv("EXTOLL2_RMA_RC", "8", 1);
	port = open_port();
	self = connect_to(port, port);
	for (i = 0; i < 8; i++) {
		OK(rma2_register_cached(port, memory + 32 * i * (int)PAGE, 32 * PAGE, &region));
		works(region, memory + 32 * i * (int)PAGE);
		OK(rma2_unregister_cached(port, region));
	}
	CHECK(statistics().evictions == 6 && statistics().regions == 2);
	OK(rma2_register(port, memory, 64 * PAGE, &used));
	CHECK(statistics().regions == 0);
	region = NULL;
	GIVES(RMA2_ERR_ERROR, rma2_register_cached(port, memory + 64 * PAGE, PAGE, &region));
	CHECK(!region);
	OK(rma2_unregister(port, used));
	OK(rma2_close(port));
	free(memory);
}

/* In use when it goes away: posts fail, and it can be given back. */
static void gone_in_use(void)
{
	uint8_t *memory = (uint8_t *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	RMA2_Region *region = NULL;

	CHECK(memory != MAP_FAILED);
	OK(rma2_register_cached(port, memory, PAGE, &region));
	CHECK(munmap(memory, PAGE) == 0);
	GIVES(RMA2_ERR_MAP, rma2_post_put_bt(port, self, region, 0, 8, 0, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_unregister_cached(port, region));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "limit") == 0) {
		limit();
		return 0;
	}
	setenv("EXTOLL2_RMA_RC", "8", 1);
	port = open_port();
	self = connect_to(port, port);
	hits();
	neighbours();
	eviction();
	invalidation();
	gone_in_use();
	gone_and_next();
	OK(rma2_close(port));
	CHECK(statistics().regions == 0);
	return 0;
}
