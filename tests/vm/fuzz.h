/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arguments for fuzz.c: numbers that depend on the seed only, structures that are almost right, and places for them at
 * the edges of what is mapped.
 */
#ifndef VM_FUZZ_H
#define VM_FUZZ_H

#include "gpumap/ioctl.h"
#include "gpumap/stub.h"
#include "port.h"

/* Fixed places, so that a seed means the same in each run. */
#define ARENA		((unsigned char *)0x100000000ul)
#define ARENA_PAGES	64u
#define MAPS		((unsigned char *)0x200000000ul)
#define MAP_STRIDE	0x1000000ul
#define MAP_SLOTS	16u
#define EXTOLL_FD	100	/* and those behind it */
#define EXTOLL_FDS	6u
#define GPUMAP_FD	120
#define GPUMAP_FDS	3u
#define DMABUF_FD	130
#define DMABUF_FDS	2u
#define NLAS		16u

/* What one process of the fuzzer shares among its threads; races on it are part of the game. */
struct shared {
	volatile uint64_t nla[NLAS];		/* registered, or were */
	volatile uint64_t pin[NLAS];		/* offsets of gpumap */
	volatile uint32_t vpid;
	volatile uint64_t calls, refused;
	volatile int stop;
};

/* One thread of the fuzzer. */
struct fuzz {
	uint64_t state;
	struct shared *shared;
	unsigned int depth;	/* of forks */
	int privileged;
	int patient;		/* signals reach it, so it may wait for ever */
};

/* splitmix64 */
static inline uint64_t rnd(struct fuzz *f)
{
	uint64_t z = (f->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline uint32_t below(struct fuzz *f, uint32_t limit)
{
	return (uint32_t)(rnd(f) % limit);
}

static inline int one_in(struct fuzz *f, uint32_t n)
{
	return below(f, n) == 0;
}

/* Numbers at which code that handles numbers errs. */
static inline uint64_t edge(struct fuzz *f)
{
	uint64_t shift = below(f, 64), kind = below(f, 6), wild = rnd(f);

	switch (kind) {
	case 0:
		return below(f, 16);
	case 1:
		return 1ull << shift;
	case 2:
		return (1ull << shift) - 1;
	case 3:
		return ~0ull << shift;
	case 4:
		return wild;
	default:
		return (wild % 4096) * PAGE;
	}
}

/* `value`, or sometimes something else. */
static inline uint64_t maybe(struct fuzz *f, uint64_t value)
{
	uint64_t other = edge(f);
	uint32_t how = below(f, 40);

	switch (how) {
	case 0:
		return other;
	case 1:
		return value ^ 1ull << other % 64;
	case 2:
		return value + 1;
	case 3:
		return value - 1;
	default:
		return value;
	}
}

/* An address in the arena, with pages that are and are not there. */
static inline uint64_t arena(struct fuzz *f)
{
	return (uintptr_t)ARENA + below(f, ARENA_PAGES) * PAGE + (one_in(f, 3) ? below(f, PAGE) : 0);
}

static inline uint64_t mapping(struct fuzz *f)
{
	return (uintptr_t)MAPS + below(f, MAP_SLOTS) * MAP_STRIDE + below(f, 4) * PAGE;
}

static inline uint64_t any_nla(struct fuzz *f)
{
	uint64_t nla = f->shared->nla[below(f, NLAS)], bad = edge(f);

	return one_in(f, 8) ? bad : maybe(f, nla);
}

/* Where a structure of `size` bytes lies: `good` mostly, else where it must not. */
static inline void *placed(struct fuzz *f, void *good, size_t size)
{
	uint64_t page = arena(f) & ~(PAGE - 1), wild = edge(f), map = mapping(f);

	switch (below(f, 24)) {
	case 0:
		return (void *)(page + PAGE - size);	/* ends with a page; the next may not be there */
	case 1:
		return (void *)(page + PAGE - size / 2);
	case 2:
		return (void *)(page - 1);
	case 3:
		return NULL;
	case 4:
		return (void *)0xffff888000000000ull;	/* the kernel's */
	case 5:
		return (void *)wild;
	case 6:
		return (void *)map;			/* the device's own memory */
	default:
		return good;
	}
}

static inline void fill_port_open(struct fuzz *f, struct extoll_port_open *arg)
{
	uint32_t segment = PAGE << below(f, 5), segments = 1 + below(f, one_in(f, 16) ? 513 : 6);

	arg->units = (uint32_t)maybe(f, 1 + below(f, 3));
	arg->flags = (uint32_t)maybe(f, 0);
	arg->queue_bytes = (uint32_t)maybe(f, one_in(f, 4) ? 0 : segment * segments);
	arg->segment_bytes = (uint32_t)maybe(f, one_in(f, 4) ? 0 : segment);
	arg->mailbox_bytes = (uint32_t)maybe(f, one_in(f, 4) ? 0 : segment * segments);
	arg->mailbox_segment_bytes = (uint32_t)maybe(f, one_in(f, 4) ? 0 : segment);
}

static inline void fill_register(struct fuzz *f, struct extoll_register *arg)
{
	uint64_t memory = arena(f), device = mapping(f), pages = (1 + below(f, 24)) * PAGE;

	arg->kind = (uint32_t)maybe(f, below(f, 8) % 3);
	arg->access = (uint32_t)maybe(f, 1 + below(f, 3));
	arg->address = maybe(f, arg->kind == EXTOLL_REGION_DMABUF ? below(f, 4) * PAGE :
				arg->kind == EXTOLL_REGION_MMIO ? device : memory);
	arg->length = maybe(f, one_in(f, 3) ? below(f, 70000) : pages);
	arg->fd = (int32_t)maybe(f, arg->kind == EXTOLL_REGION_DMABUF ? DMABUF_FD + below(f, DMABUF_FDS) : 0);
	arg->flags = (uint32_t)maybe(f, 0);
}

static inline void fill_wait(struct fuzz *f, struct extoll_wait *arg)
{
	static const uint64_t times[] = { 0, 1000, 100000, 1000000 };

	arg->unit = (uint32_t)maybe(f, 1 + below(f, 2));
	arg->flags = (uint32_t)maybe(f, below(f, 2));
	arg->index = (uint32_t)maybe(f, below(f, 300));
	arg->reserved = (uint32_t)maybe(f, 0);
	arg->timeout_ns = times[below(f, 4)];
	if (one_in(f, 64) && f->patient)
		arg->timeout_ns = ~0ull;
}

static inline void fill_window(struct fuzz *f, struct extoll_window_open *arg)
{
	uint64_t device = mapping(f);

	arg->count = (uint32_t)maybe(f, 1 + below(f, 4));
	arg->flags = (uint32_t)maybe(f, below(f, 2));
	arg->stride = maybe(f, (1 + below(f, 16)) * PAGE);
	arg->part_bytes = maybe(f, (1 + below(f, 4)) * PAGE);
	arg->target_address = maybe(f, one_in(f, 3) ? device : 0);
	for (int i = 0; i < 64; i++)
		arg->nodes[i] = (uint16_t)maybe(f, 0);
}

/* The privileged may read registers; what they write is their own affair, so only scratchpad 7 is written. */
static inline void fill_rf(struct fuzz *f, struct extoll_rf_access *arg)
{
	static const uint32_t offsets[] = {
		EXTOLL_RF_INFO_NODE, EXTOLL_RF_INFO_TSC, EXTOLL_RF_LINK_STATUS, EXTOLL_RF_SNQ_WP, 0x2000000, 4,
	};

	arg->offset = maybe(f, offsets[below(f, 6)]);
	arg->value = rnd(f);
	arg->flags = (uint32_t)maybe(f, one_in(f, 4) ? EXTOLL_RF_REMOTE : 0);
	arg->node = (uint32_t)maybe(f, 0);
	if (f->privileged && arg->flags & EXTOLL_RF_WRITE) {
		arg->offset = EXTOLL_RF_INFO_SCRATCHPAD + 7 * EXTOLL_RF_INFO_SCRATCHPAD_STRIDE;
		arg->flags = EXTOLL_RF_WRITE;
		arg->node = 0;
	}
}

static inline uint64_t map_offset(struct fuzz *f)
{
	static const uint64_t bases[] = {
		EXTOLL_MAP_REQUESTER + EXTOLL_OPTION_TE * PAGE, EXTOLL_MAP_WCB, EXTOLL_MAP_RP,
		EXTOLL_MAP_VELO_REQUESTER, EXTOLL_MAP_VELO_WCB, EXTOLL_MAP_VELO_RP, EXTOLL_MAP_QUEUE,
		EXTOLL_MAP_VELO_MAILBOX, EXTOLL_MAP_TARGET, EXTOLL_MAP_BUFFER,
		EXTOLL_MAP_WINDOW + (32ul << 20), EXTOLL_MAP_REQUESTER,
	};
	uint64_t base = bases[below(f, 12)], page = below(f, 40) * PAGE;

	return maybe(f, one_in(f, 4) ? base + page : base) & ~(PAGE - 1);
}

/* Memory that nobody may write: registered for reading, and not registered. */
struct canary {
	struct port port;
	unsigned char *at;
};

static inline void canary_set(struct canary *canary)
{
	struct extoll_register arg = { .access = EXTOLL_ACCESS_READ, .length = PAGE };

	port_open(&canary->port);
	canary->at = memory(3 * PAGE);
	memset(canary->at, 0x5a, 3 * PAGE);
	arg.address = (uintptr_t)canary->at + PAGE;
	CHECK(ioctl(canary->port.fd, EXTOLL_IOC_REGISTER, &arg) == 0);
}

static inline void canary_check(struct canary *canary)
{
	for (size_t i = 0; i < 3 * PAGE; i++)
		CHECK(canary->at[i] == 0x5a);
	port_close(&canary->port);
}

#endif /* VM_FUZZ_H */
