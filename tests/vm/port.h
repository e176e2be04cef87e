/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests inside a virtual machine: a port of /dev/extollN by its bare interface, and checks that end the test. */
#ifndef VM_PORT_H
#define VM_PORT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "extoll/atu.h"
#include "extoll/bq.h"
#include "extoll/desc.h"
#include "extoll/ioctl.h"
#include "extoll/noti.h"
#include "extoll/regs.h"
#include "extoll/wcb.h"

#define PAGE 4096ul
#define DEVICE device_name()

/* For what has to come: longer than a busy machine keeps a guest waiting. */
#define PATIENCE_MS 60000u
#define PATIENCE_NS (PATIENCE_MS * 1000000ull)
/* A writer was away: a card waits longer for the rest of a descriptor, 1.6 s [inferred]. */
#define AWAY_NS 100000000ull

#define CHECK(condition) do { \
	if (!(condition)) { \
		printf("FAIL %s:%d: %s (errno %d %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
		exit(1); \
	} \
} while (0)

/* The call fails, with just this error. */
#define CHECK_ERRNO(call, error) do { \
	errno = 0; \
	long result_ = (long)(call); \
	if (result_ != -1 || errno != (error)) { \
		printf("FAIL %s:%d: %s: result %ld, errno %d %s, not %d\n", __FILE__, __LINE__, #call, result_, \
		       errno, strerror(errno), (error)); \
		exit(1); \
	} \
} while (0)

struct port {
	int fd;
	struct extoll_port_open open;
	volatile uint64_t *page[EXTOLL_PAGE_OPTIONS];	/* mapped when first used */
	volatile uint64_t *wcb;
	volatile uint64_t *rp;
	volatile struct extoll_noti *queue;
	uint32_t entries, next;
};

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline void *map(int fd, uint64_t offset, size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

/* The first card, unless the environment says which. */
static inline const char *device_name(void)
{
	const char *name = getenv("VM_DEVICE");

	return name ? name : "/dev/extoll0";
}

static inline int device_open(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static inline void port_open(struct port *port)
{
	memset(port, 0, sizeof(*port));
	port->fd = device_open();
	port->open.units = EXTOLL_UNIT_RMA;
	CHECK(ioctl(port->fd, EXTOLL_IOC_PORT_OPEN, &port->open) == 0);
	port->entries = port->open.queue_bytes_out / sizeof(struct extoll_noti);
	port->wcb = map(port->fd, EXTOLL_MAP_WCB, PAGE);
	port->rp = map(port->fd, EXTOLL_MAP_RP, PAGE);
	port->queue = map(port->fd, EXTOLL_MAP_QUEUE, port->open.queue_bytes_out);
	CHECK(port->wcb != MAP_FAILED && port->rp != MAP_FAILED && port->queue != MAP_FAILED);
}

static inline void port_close(struct port *port)
{
	for (int i = 0; i < EXTOLL_PAGE_OPTIONS; i++)
		if (port->page[i])
			munmap((void *)port->page[i], PAGE);
	munmap((void *)port->wcb, PAGE);
	munmap((void *)port->rp, PAGE);
	munmap((void *)port->queue, port->open.queue_bytes_out);
	close(port->fd);
}

/* The words of a descriptor or message. Whether the writer was away meanwhile. */
static inline int line_store(volatile uint64_t *page, const uint64_t *word, uint32_t words)
{
	uint64_t begin = now_ns();

	for (uint32_t i = 0; i < words; i++)
		page[i] = word[i];
	__builtin_ia32_sfence();
	return now_ns() - begin > AWAY_NS;
}

static inline int port_store(struct port *port, uint32_t option, const struct extoll_desc *desc)
{
	return line_store(port->page[option], desc->word, 3);
}

/*
 * One descriptor or message, and again while the card rejects it (spec 2.4) or when it gave up half of it: it is
 * committed when this returns.
 */
static inline void line_post(volatile uint64_t *wcb, volatile uint64_t *page, const uint64_t *word, uint32_t words)
{
	uint64_t state, now, idle = 0, end = now_ns() + PATIENCE_NS;
	uint32_t committed = extoll_wcb_committed(*wcb);
	int away = line_store(page, word, words);

	for (;;) {
		state = *wcb;
		if (extoll_wcb_committed(state) != committed)
			return;
		now = now_ns();
		CHECK(now < end);
		if (!extoll_wcb_idle(state)) {
			idle = 0;
			continue;
		}
		idle = idle ? idle : now;
		if (extoll_wcb_retry(state) && extoll_wcb_rejected(state))
			do {
				*wcb = extoll_wcb_acknowledged(state);
				state = *wcb;
			} while (extoll_wcb_rejected(state));
		else if (!away || now - idle < AWAY_NS)
			continue;
		away = line_store(page, word, words);
		idle = 0;
	}
}

static inline void post(struct port *port, uint32_t option, struct extoll_desc desc)
{
	if (!port->page[option]) {
		port->page[option] = map(port->fd, EXTOLL_MAP_REQUESTER + option * PAGE, PAGE);
		CHECK(port->page[option] != MAP_FAILED);
	}
	line_post(port->wcb, port->page[option], desc.word, 3);
}

/* The next notification within `ms`; 0 words if none comes. */
static inline struct extoll_noti take(struct port *port, uint32_t ms)
{
	volatile struct extoll_noti *slot = &port->queue[port->next];
	struct extoll_noti noti = { 0, 0 };
	uint64_t end = now_ns() + ms * 1000000ull;

	while (!slot->word1)
		if (now_ns() > end)
			return noti;
	noti.word0 = slot->word0;
	noti.word1 = slot->word1;
	slot->word1 = 0;
	port->next = (port->next + 1) % port->entries;
	*port->rp = extoll_bq_rp(port->next, 0);
	return noti;
}

static inline int region(struct port *port, void *address, size_t length, uint64_t *nla)
{
	struct extoll_register arg = {
		.kind = EXTOLL_REGION_USER, .access = EXTOLL_ACCESS_READ | EXTOLL_ACCESS_WRITE,
		.address = (uintptr_t)address, .length = length,
	};
	int err = ioctl(port->fd, EXTOLL_IOC_REGISTER, &arg);

	*nla = arg.nla;
	return err;
}

static inline int region_end(struct port *port, uint64_t nla)
{
	struct extoll_unregister arg = { .nla = nla };

	return ioctl(port->fd, EXTOLL_IOC_UNREGISTER, &arg);
}

static inline int port_wait(struct port *port, uint32_t flags, uint64_t timeout_ns)
{
	struct extoll_wait arg = {
		.unit = EXTOLL_UNIT_RMA, .flags = flags, .index = port->next, .timeout_ns = timeout_ns,
	};

	return ioctl(port->fd, EXTOLL_IOC_WAIT, &arg);
}

/* A line of this process's status, in KiB. */
static inline long status_kib(const char *name)
{
	char line[256];
	long value = -1;
	FILE *file = fopen("/proc/self/status", "r");

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = strtol(line + strlen(name), NULL, 10);
	fclose(file);
	return value;
}

/*
 * Whether pages at a bus address are mapped as the kernel's list of memory types says ("write-combining"): 1 or 0, -1
 * where the kernel has no such list.
 */
static inline int memory_type_is(uint64_t address, const char *type)
{
	FILE *file = fopen("/sys/kernel/debug/x86/pat_memtype_list", "r");
	unsigned long long first, last;
	char line[256];
	int is = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "PAT: [mem %llx-%llx]", &first, &last) == 2 && first <= address && address < last)
			is = strstr(line, type) != NULL;
	fclose(file);
	return is;
}

/* Where the first BAR of a device lies. */
static inline uint64_t bar_address(const char *folder)
{
	unsigned long long bar = 0;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/resource", folder);
	file = fopen(path, "r");
	CHECK(file && fscanf(file, "%llx", &bar) == 1 && bar);
	fclose(file);
	return bar;
}

static inline void *memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

#endif /* VM_PORT_H */
