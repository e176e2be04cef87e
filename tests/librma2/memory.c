/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Registering memory (spec 10.2), and memory that goes away while it is registered. */
#include <sys/mman.h>
#include <sys/shm.h>

#include "common.h"

#define REGIONS 64
#define ROUNDS 200
/* More regions than an address rests for, with those before it. */
#define REST 30000

static RMA2_Port port;
static RMA2_Handle self;

static uint8_t *map(size_t size, int protection)
{
	void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return (uint8_t *)memory;
}

/* The fields that programs read (spec 10.1). */
static void fields(void)
{
	uint8_t *memory = (uint8_t *)allocate(4 * PAGE);
	RMA2_Region *region = NULL, inside;
	void *va = NULL;
	size_t size = 0, count = 0;

	OK(rma2_register(port, memory + 100, 2 * PAGE, &region));
	CHECK(region->start == memory && region->offset == 100 && region->count == 3 && region->size == 3 * PAGE);
	CHECK(region->nla % PAGE == 0 && region->end == memory + 3 * PAGE && region->endpoint == port);
	CHECK(nla_of(region, 7) == region->nla + 107);
	OK(rma2_get_va(region, 7, &va));
	CHECK(va == memory + 107);
	OK(rma2_get_size(region, &size));
	OK(rma2_get_page_count(region, &count));
	CHECK(size == 3 * PAGE && count == 3);
	CHECK(rma2_get_region_equal(region, memory + 100, 2 * PAGE) && !rma2_get_region_equal(region, memory, PAGE));
	CHECK(rma2_get_region_contained(region, memory + 50, PAGE));
	CHECK(!rma2_get_region_contained(region, memory + 50, 3 * PAGE));
	CHECK(rma2_get_region_overlap(region, memory + 2 * PAGE, 2 * PAGE));
	CHECK(!rma2_get_region_overlap(region, memory + 3 * PAGE, PAGE));

	/* Offsets count from the registered address, not from its page. */
	fill(memory, 300, 5);
	OK(rma2_post_put_bt(port, self, region, 20, 64, nla_of(region, 400), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(memory + 120, memory + 500, 64) == 0);

	/* A copy is as good as the original. */
	inside = *region;
	CHECK(nla_of(&inside, 7) == nla_of(region, 7));
	OK(rma2_unregister(port, region));
	{
		RMA2_NLA nla = 0;
		GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(&inside, 0, &nla));
	}

	OK(rma2_register_nomalloc(port, memory, PAGE, &inside));
	CHECK(inside.start == memory && inside.size == PAGE);
	OK(rma2_post_put_bt(port, self, &inside, 0, 64, nla_of(&inside, 64), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	OK(rma2_unregister_nofree(port, &inside));
	GIVES(RMA2_ERR_INV_VALUE, rma2_unregister_nofree(port, &inside));

	OK(rma2_register_adhoc(port, memory + PAGE + 5, &region));
	CHECK(region->start == memory + PAGE && region->count == 1);
	OK(rma2_unregister_adhoc(port, region));
	free(memory);
}

/* Loops of registering and unregistering with overlaps; every NLA works until it is given back. */
static void loops(void)
{
	RMA2_Region *regions[REGIONS] = { NULL };
	size_t size = 1 << 20;
	uint8_t *memory = (uint8_t *)allocate(size);
	uint32_t seed = 1, round;
	int i;

	for (round = 0; round < ROUNDS * REGIONS / 8; round++) {
		seed = seed * 1664525u + 1013904223u;
		i = (int)(seed >> 16) % REGIONS;
		if (regions[i]) {
			OK(rma2_post_immediate_put(port, self, 8, round, nla_of(regions[i], 0),
						   RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
			next_of(port, RMA2_COMPLETER_NOTIFICATION);
			OK(rma2_unregister(port, regions[i]));
			regions[i] = NULL;
		} else {
			size_t offset = (seed >> 8) % (size - 70000);

			OK(rma2_register(port, memory + offset, seed % 65536 + 8, &regions[i]));
		}
	}
	for (i = 0; i < REGIONS; i++)
		if (regions[i])
			OK(rma2_unregister(port, regions[i]));
	free(memory);
}

/* Closing a port ends what it has: regions, connections, and what the card may reach. */
static void closing(void)
{
	RMA2_Port other = open_port();
	RMA2_Handle handle = connect_to(other, port), to_other = connect_to(port, other);
	uint8_t *memory = (uint8_t *)allocate(PAGE);
	RMA2_Region region;
	RMA2_Descriptor d;
	RMA2_NLA nla = 0;

	memset(&d, 0, sizeof d);
	OK(rma2_register_nomalloc(other, memory, PAGE, &region));
	CHECK(rma2_handle_get_vpid(to_other) == rma2_get_vpid(other));
	OK(rma2_desc_set_noti_put(&d, handle, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT, 1, 1));
	OK(rma2_close(other));
	GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(&region, 0, &nla));
	GIVES(RMA2_ERR_INV_HANDLE,
	      rma2_desc_set_noti_put(&d, handle, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT, 1, 1));
	OK(rma2_disconnect(port, to_other));
	free(memory);
}

static void refused(void)
{
	RMA2_Region *region = (RMA2_Region *)-1;
	uint8_t *hole = map(3 * PAGE, PROT_READ | PROT_WRITE), *nothing = map(PAGE, PROT_NONE);

	CHECK(munmap(hole + PAGE, PAGE) == 0);
	GIVES(RMA2_ERR_ERROR, rma2_register(port, hole, 3 * PAGE, &region));
	GIVES(RMA2_ERR_ERROR, rma2_register(port, hole + PAGE, 1, &region));
	GIVES(RMA2_ERR_ERROR, rma2_register(port, nothing, PAGE, &region));
	GIVES(RMA2_ERR_ERROR, rma2_register(port, (void *)~(uintptr_t)4095, PAGE, &region));
	GIVES(RMA2_ERR_ERROR, rma2_register(port, hole, SIZE_MAX / 2, &region));
	GIVES(RMA2_ERR_INV_VALUE, rma2_register(port, NULL, PAGE, &region));
	GIVES(RMA2_ERR_INV_VALUE, rma2_register(port, hole, 0, &region));
	GIVES(RMA2_ERR_INV_VALUE, rma2_register(port, hole, PAGE, NULL));
	CHECK(region == (RMA2_Region *)-1);
	CHECK(munmap(hole, PAGE) == 0 && munmap(hole + 2 * PAGE, PAGE) == 0 && munmap(nothing, PAGE) == 0);
}

/* Constant data is a source, and stays as it is. */
static void read_only(void)
{
	static const char text[] = "constant data is a source";
	uint8_t *memory = (uint8_t *)allocate(PAGE), *constant = map(PAGE, PROT_READ | PROT_WRITE);
	RMA2_Region *source = NULL, *target = NULL;
	RMA2_Notification n;

	memcpy(constant, text, sizeof text);
	CHECK(mprotect(constant, PAGE, PROT_READ) == 0);
	OK(rma2_register(port, constant, sizeof text, &source));
	OK(rma2_register(port, memory, PAGE, &target));
	OK(rma2_post_put_bt(port, self, source, 0, sizeof text, nla_of(target, 0), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(strcmp((char *)memory, text) == 0);
	OK(rma2_post_put_bt(port, self, target, 100, 8, nla_of(source, 0), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	n = next(port);
	CHECK(rma2_noti_get_error(&n) && strcmp((char *)constant, text) == 0);
	OK(rma2_unregister(port, source));
	OK(rma2_unregister(port, target));
	CHECK(munmap(constant, PAGE) == 0);
	free(memory);
}

/* After its memory went away a region is an error for posts, and for whoever names its NLA. */
static void is_gone(RMA2_Region *region, RMA2_NLA nla)
{
	RMA2_Notification n;

	GIVES(RMA2_ERR_MAP, rma2_post_put_bt(port, self, region, 0, 8, nla, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_post_immediate_put(port, self, 8, 1, nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	n = next(port);
	CHECK(rma2_noti_get_error(&n));
	OK(rma2_unregister(port, region));
	no_more(port);
}

static void unmapped(void)
{
	uint8_t *memory;
	RMA2_Region *region = NULL;
	RMA2_NLA nla;

	memory = map(8 * PAGE, PROT_READ | PROT_WRITE);
	OK(rma2_register(port, memory, 8 * PAGE, &region));
	nla = nla_of(region, 0);
	CHECK(munmap(memory + 2 * PAGE, PAGE) == 0);
	is_gone(region, nla);
	CHECK(munmap(memory, 8 * PAGE) == 0);

	/* Something else is mapped there. */
	memory = map(PAGE, PROT_READ | PROT_WRITE);
	OK(rma2_register(port, memory, PAGE, &region));
	nla = nla_of(region, 0);
	CHECK(mmap(memory, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
	is_gone(region, nla);
	CHECK(munmap(memory, PAGE) == 0);
}

/* Moved elsewhere, emptied, and taken from the heap's end. */
static void moved(void)
{
	uint8_t *memory = map(4 * PAGE, PROT_READ | PROT_WRITE), *elsewhere;
	RMA2_Region *region = NULL;
	RMA2_NLA nla;
	int tries;

	OK(rma2_register(port, memory, 4 * PAGE, &region));
	nla = nla_of(region, 0);
	elsewhere = (uint8_t *)mremap(memory, 4 * PAGE, 1 << 20, MREMAP_MAYMOVE);
	CHECK(elsewhere != MAP_FAILED);
	is_gone(region, nla);

	OK(rma2_register(port, elsewhere, PAGE, &region));
	nla = nla_of(region, 0);
	CHECK(madvise(elsewhere, 1 << 20, MADV_DONTNEED) == 0);
	is_gone(region, nla);
	/* Advice that leaves memory where it is. */
	OK(rma2_register(port, elsewhere, PAGE, &region));
	CHECK(madvise(elsewhere, PAGE, MADV_SEQUENTIAL) == 0);
	OK(rma2_post_put_bt(port, self, region, 0, 8, nla_of(region, 64), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	OK(rma2_unregister(port, region));
	CHECK(munmap(elsewhere, 1 << 20) == 0);

	/* The allocator may have moved the end meanwhile; then it is not ours to move. */
	for (tries = 0; tries < 20; tries++) {
		uint8_t *heap = (uint8_t *)sbrk(2 * PAGE);

		CHECK(heap != (uint8_t *)-1);
		OK(rma2_register(port, heap, 2 * PAGE, &region));
		nla = nla_of(region, 0);
		if (sbrk(0) == heap + 2 * PAGE)
			break;
		OK(rma2_unregister(port, region));
	}
	CHECK(tries < 20 && sbrk(-(intptr_t)(2 * PAGE)) != (void *)-1);
	is_gone(region, nla);
}

/* The card gives the address of memory that is gone to a later region, which the old structure does not end. */
static void used_again(void)
{
	uint8_t *first = map(2 * PAGE, PROT_READ | PROT_WRITE), *second;
	RMA2_Region *gone = NULL, *there = NULL, copy;
	RMA2_NLA nla;
	int tries;

	OK(rma2_register(port, first, 2 * PAGE, &gone));
	copy = *gone;
	CHECK(munmap(first, 2 * PAGE) == 0);
	/* It rests until others were given back. The library keeps what was registered as long as the memory is there. */
	for (tries = 0; tries < REST; tries++) {
		second = map(PAGE, PROT_READ | PROT_WRITE);
		OK(rma2_register(port, second, PAGE, &there));
		if (there->nla == copy.nla)
			break;
		/* Those before it would come again and again. */
		if (there->nla < copy.nla)
			continue;
		OK(rma2_unregister(port, there));
		CHECK(munmap(second, PAGE) == 0);
	}
	CHECK(there->nla == copy.nla);
	GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(&copy, 0, &nla));
	OK(rma2_unregister(port, gone));
	OK(rma2_post_put_bt(port, self, there, 0, 64, nla_of(there, PAGE / 2), RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	OK(rma2_unregister(port, there));
	CHECK(munmap(second, PAGE) == 0);
}

/* Shared memory segments go by shmdt. */
static void detached(void)
{
	int segment = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	uint8_t *memory = (uint8_t *)shmat(segment, NULL, 0);
	RMA2_Region *region = NULL;
	RMA2_NLA nla;

	CHECK(segment >= 0 && memory != (uint8_t *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
	OK(rma2_register(port, memory + 2 * PAGE, PAGE, &region));
	nla = nla_of(region, 0);
	CHECK(shmdt(memory) == 0);
	is_gone(region, nla);
}

/* A structure that the library made stays its program's to free. */
static void without_freeing(void)
{
	uint8_t *memory = (uint8_t *)allocate(PAGE);
	RMA2_Region *region = NULL;

	OK(rma2_register(port, memory, PAGE, &region));
	OK(rma2_unregister_nofree(port, region));
	CHECK(region->start == NULL);
	free(region);
	free(memory);
}

/* Blocks of the allocator's, which gives large ones back to the system at once. A sanitizer keeps blocks itself. */
static void freed(void)
{
#if !SANITIZED
	size_t size;

	for (size = 100; size < 64 << 20; size *= 80) {
		void *volatile memory = malloc(size);
		RMA2_Region *region = NULL;
		RMA2_NLA nla;

		CHECK(memory);
		OK(rma2_register(port, memory, size, &region));
		nla = nla_of(region, 0);
		free(memory);
		is_gone(region, nla);
	}
	{
		void *memory = malloc(1 << 20);
		RMA2_Region *region = NULL;
		RMA2_NLA nla;

		OK(rma2_register(port, memory, 1 << 20, &region));
		nla = nla_of(region, 0);
		memory = realloc(memory, 16 << 20);
		CHECK(memory);
		is_gone(region, nla);
		free(memory);
	}
#endif
}

int main(void)
{
	port = open_port();
	self = connect_to(port, port);
	fields();
	closing();
	loops();
	refused();
	read_only();
	unmapped();
	moved();
	used_again();
	detached();
	without_freeing();
	freed();
	OK(rma2_close(port));
	return 0;
}
