/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A port that talks to itself: puts, gets, notifications, locks, interrupts, each byte and notification checked. */

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "port.h"

#define BYTES (64 * 1024 + 24)

static struct port port;
static unsigned char *from, *to;
static uint64_t from_nla, to_nla;

static void fill(unsigned char seed)
{
	for (size_t i = 0; i < BYTES; i++)
		from[i] = (unsigned char)(seed + i * 7 + i / 253);
	memset(to, 0, BYTES);
}

/* One notification of each of these kinds, in any order. */
static void expect(uint32_t kinds, uint32_t command)
{
	while (kinds) {
		struct extoll_noti noti = take(&port, PATIENCE_MS);

		CHECK(noti.word1 != 0);
		CHECK(extoll_noti_kind(noti.word1) & kinds);
		kinds &= ~extoll_noti_kind(noti.word1);
		CHECK(extoll_noti_command(noti.word1) == command);
		CHECK(extoll_noti_node(noti.word1) == port.open.node);
		CHECK(extoll_noti_vpid(noti.word1) == port.open.vpid);
		CHECK(extoll_noti_error(noti.word1) == 0);
	}
}

static void put(uint32_t size, uint32_t offset)
{
	fill((unsigned char)size);
	post(&port, EXTOLL_OPTION_TE,
	     extoll_desc_put(0, port.open.node, port.open.vpid, EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER, 0,
			     from_nla + offset, to_nla + offset, size));
	expect(EXTOLL_NOTI_KIND_REQUESTER | EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_BT_PUT);
	CHECK(memcmp(from + offset, to + offset, size) == 0);
	CHECK(offset == 0 || to[offset - 1] == 0);
	CHECK(offset + size == BYTES || to[offset + size] == 0);
}

static void get(uint32_t size)
{
	fill((unsigned char)(size + 1));
	post(&port, EXTOLL_OPTION_TE,
	     extoll_desc_get(1, port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, from_nla, to_nla, size));
	expect(EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_GET_QW_RSP);
	CHECK(memcmp(from, to, size) == 0);
}

static void lock(int32_t compare, int32_t add, int32_t value)
{
	struct extoll_noti noti;

	post(&port, EXTOLL_OPTION_TE, extoll_desc_lock(port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, 0,
						       3, compare, add));
	noti = take(&port, PATIENCE_MS);
	CHECK(noti.word1 != 0);
	CHECK(extoll_noti_lock_number(noti.word0) == 3);
	CHECK(extoll_noti_lock_value(noti.word0) == value);
}

static void note(uint32_t option, uint64_t payload)
{
	post(&port, option, extoll_desc_notification_put(port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0,
							 9, payload));
}

static void *later(void *option)
{
	usleep(100000);
	note((uint32_t)(uintptr_t)option, 77);
	return NULL;
}

/* Sleeps in the kernel until the notification of another thread. */
static void asleep(uint32_t option, uint32_t flags)
{
	uint64_t begin = now_ns();
	struct extoll_noti noti;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, later, (void *)(uintptr_t)option) == 0);
	CHECK(port_wait(&port, flags, PATIENCE_NS) == 0);
	/* Not before it came, and not because the time was over. */
	CHECK(now_ns() - begin > 50000000 && now_ns() - begin < PATIENCE_NS / 2);
	noti = take(&port, 0);
	CHECK(noti.word0 == 77);
	pthread_join(thread, NULL);
}

static void polled(void)
{
	struct pollfd poll_fd = { .fd = port.fd, .events = POLLIN };
	pthread_t thread;

	*port.rp = extoll_bq_rp(port.next, 0);	/* poll arms the interrupt */
	CHECK(poll(&poll_fd, 1, 0) == 0);
	CHECK(pthread_create(&thread, NULL, later, (void *)(EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ)) == 0);
	CHECK(poll(&poll_fd, 1, PATIENCE_MS) == 1 && poll_fd.revents == POLLIN);
	CHECK(take(&port, 0).word0 == 77);
	pthread_join(thread, NULL);
}

/* A set of descriptors is told, too, without another call on the device. */
static void polled_in_set(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .u32 = 5 } };
	int set = epoll_create1(0);
	pthread_t thread;

	*port.rp = extoll_bq_rp(port.next, 0);
	CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, port.fd, &event) == 0);
	CHECK(epoll_wait(set, &event, 1, 0) == 0);
	CHECK(pthread_create(&thread, NULL, later, (void *)(EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ)) == 0);
	event.data.u32 = 0;
	CHECK(epoll_wait(set, &event, 1, PATIENCE_MS) == 1 && event.events == EPOLLIN && event.data.u32 == 5);
	CHECK(take(&port, 0).word0 == 77);
	pthread_join(thread, NULL);
	close(set);
}

/* More notifications than the queue and the replay ring have places. */
static void many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		note(EXTOLL_OPTION_TE, i);
		CHECK(take(&port, PATIENCE_MS).word0 == i);
	}
	CHECK(extoll_wcb_rejected(*port.wcb) == 0);
}

int main(void)
{
	uint32_t sizes[] = { 1, 8, 63, 64, 496, 497, 4096, 5000, 65536 };
	uint64_t begin;

	if (access(DEVICE, R_OK | W_OK)) {
		fprintf(stderr, "transfer: no access to %s (%s): load extoll.ko, and be root or in group extoll\n", DEVICE,
			strerror(errno));
		return 1;
	}
	port_open(&port);
	from = memory(BYTES + PAGE);
	to = memory(BYTES + PAGE);
	CHECK(region(&port, from, BYTES, &from_nla) == 0);
	CHECK(region(&port, to, BYTES, &to_nla) == 0);
	printf("node %u vpid %u nla %#llx %#llx\n", port.open.node, port.open.vpid, (unsigned long long)from_nla,
	       (unsigned long long)to_nla);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		put(sizes[i], i % 3 * 8);
	get(8);
	get(65536);
	lock(28, 7, 7);
	lock(28, 7, 14);
	lock(2, 7, 14);
	begin = now_ns();
	CHECK_ERRNO(port_wait(&port, 0, 20000000), ETIMEDOUT);
	CHECK(now_ns() - begin >= 20000000);
	for (int i = 0; i < 3; i++)
		asleep(EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ, 0);
	asleep(EXTOLL_OPTION_TE, EXTOLL_WAIT_TIMER);
	polled();
	polled_in_set();
	many(20000);
	CHECK(region_end(&port, from_nla) == 0 && region_end(&port, to_nla) == 0);
	port_close(&port);
	printf("PASS transfer\n");
	return 0;
}
