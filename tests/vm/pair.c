/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pair NODE: this guest and the one of node NODE do the same to each other. */

#include <sys/wait.h>

#include "extoll/smfu.h"
#include "extoll/velo.h"
#include "port.h"

#define BYTES (256 * 1024)
#define ROUNDS 200
#define PART (1ull << 20)
#define LOCK 5

enum class { HELLO = 1, HELLO_TOO, DATA, PING, DONE, LAST };

static struct port port;
static uint32_t peer;
static unsigned char *mine, *theirs;	/* what they write, what we send */
static uint64_t mine_nla, theirs_nla, peer_nla;
static struct extoll_noti early;	/* said by the other one while we waited for an answer of the card */

static void tell(uint32_t class_, uint64_t payload)
{
	post(&port, EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ,
	     extoll_desc_notification_put(peer, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, class_, payload));
}

/* Greetings until both have had an answer; what comes late of them is skipped by hear. */
static void meet(void)
{
	int greeted = 0, answered = 0;

	for (int tries = 0; !greeted || !answered; tries++) {
		struct extoll_noti noti;

		CHECK(tries < 3000);
		tell(greeted ? HELLO_TOO : HELLO, mine_nla);
		noti = take(&port, 20);
		if (!noti.word1)
			continue;
		CHECK(extoll_noti_node(noti.word1) == peer);
		peer_nla = noti.word0;
		greeted = 1;
		answered |= extoll_noti_class(noti.word1) == HELLO_TOO;
	}
	tell(HELLO_TOO, mine_nla);
}

/* The payload of the next notification of this class; asleep in the kernel until it comes. */
static uint64_t hear(uint32_t class_)
{
	for (;;) {
		struct extoll_noti noti = early;

		early.word1 = 0;
		if (!noti.word1) {
			CHECK(port_wait(&port, 0, PATIENCE_NS) == 0);
			noti = take(&port, 0);
		}
		CHECK(noti.word1 != 0 && extoll_noti_error(noti.word1) == 0);
		if (extoll_noti_class(noti.word1) == class_)
			return noti.word0;
		CHECK(extoll_noti_class(noti.word1) == HELLO || extoll_noti_class(noti.word1) == HELLO_TOO);
	}
}

static void fill(unsigned char *at, uint32_t size, uint32_t seed)
{
	for (uint32_t i = 0; i < size; i++)
		at[i] = (unsigned char)(seed * 31 + i * 7 + i / 251);
}

static void verify(const unsigned char *at, uint32_t size, uint32_t seed)
{
	for (uint32_t i = 0; i < size; i++)
		CHECK(at[i] == (unsigned char)(seed * 31 + i * 7 + i / 251));
}

/* Each puts, then says so; the message does not overtake the data (same path, in order). */
static void puts_both_ways(void)
{
	static const uint32_t sizes[] = { 1, 8, 64, 497, 4096, 65536, BYTES };
	uint32_t node = port.open.node;

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(theirs, sizes[i], i + node);
		post(&port, EXTOLL_OPTION_TE,
		     extoll_desc_put(0, peer, port.open.vpid, EXTOLL_SPEC_NONE, 0, theirs_nla, peer_nla, sizes[i]));
		tell(DATA, sizes[i]);
		CHECK(hear(DATA) == sizes[i]);
		verify(mine, sizes[i], i + peer);
		tell(DATA, i);
		CHECK(hear(DATA) == i);
	}
}

/*
 * The answer of the card to a command. The other one may be ahead of us: what it says meanwhile is kept for hear; there
 * is one at most, since it hears us before it goes on.
 */
static struct extoll_noti answer(uint32_t command)
{
	for (;;) {
		struct extoll_noti noti = take(&port, PATIENCE_MS);

		CHECK(noti.word1 != 0);
		if (extoll_noti_command(noti.word1) == command)
			return noti;
		CHECK(extoll_noti_command(noti.word1) == EXTOLL_CMD_NOTIFICATION_PUT);
		if (extoll_noti_class(noti.word1) == DATA) {
			CHECK(early.word1 == 0);
			early = noti;
		}
	}
}

static void get_back(void)
{
	fill(mine, BYTES, 99 + port.open.node);
	tell(DATA, 1);
	CHECK(hear(DATA) == 1);
	memset(theirs, 0, BYTES);
	post(&port, EXTOLL_OPTION_TE, extoll_desc_get(1, peer, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, peer_nla,
						      theirs_nla, BYTES));
	answer(EXTOLL_CMD_GET_QW_RSP);
	verify(theirs, BYTES, 99 + peer);
	tell(DATA, 2);
	CHECK(hear(DATA) == 2);
}

static void ping_pong(void)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (port.open.node < peer)
			tell(PING, i);
		CHECK(hear(PING) == i);
		if (port.open.node > peer)
			tell(PING, i);
	}
	printf("%d round trips, asleep each time: %llu us each\n", ROUNDS,
	       (unsigned long long)((now_ns() - begin) / 1000 / ROUNDS));
}

/* Both add to one lock of the lower node; its last value says that nothing was lost. */
static void count_together(void)
{
	uint32_t home = port.open.node < peer ? port.open.node : peer;
	int32_t value = 0;
	uint32_t command = EXTOLL_CMD_LOCK_RSP;

	for (int i = 0; i <= ROUNDS; i++) {
		struct extoll_noti noti;

		post(&port, EXTOLL_OPTION_TE, extoll_desc_lock(home, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, 0, LOCK,
							       1 << 20, i < ROUNDS));
		noti = answer(command);
		CHECK(extoll_noti_lock_number(noti.word0) == LOCK);
		CHECK(extoll_noti_lock_value(noti.word0) >= value);
		value = extoll_noti_lock_value(noti.word0);
		if (i == ROUNDS - 1) {
			tell(DATA, 3);
			CHECK(hear(DATA) == 3);
		}
	}
	CHECK(value == 2 * ROUNDS);
}

/* Small messages, between mailboxes of their own. */
static void messages(void)
{
	struct extoll_port_open open = { .units = EXTOLL_UNIT_VELO };
	int fd = device_open();
	volatile uint64_t *page, *wcb, *rp, *box;
	uint64_t line[EXTOLL_VELO_LINE_WORDS];
	uint32_t words, slots, there;

	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open) == 0 && open.slot_bytes == 128);
	page = map(fd, EXTOLL_MAP_VELO_REQUESTER, PAGE);
	wcb = map(fd, EXTOLL_MAP_VELO_WCB, PAGE);
	rp = map(fd, EXTOLL_MAP_VELO_RP, PAGE);
	box = map(fd, EXTOLL_MAP_VELO_MAILBOX, open.mailbox_bytes_out);
	CHECK(page != MAP_FAILED && wcb != MAP_FAILED && rp != MAP_FAILED && box != MAP_FAILED);
	tell(DATA, open.vpid);
	there = (uint32_t)hear(DATA);
	slots = open.mailbox_bytes_out / open.slot_bytes;
	for (uint32_t i = 0; i < 2 * slots; i++) {
		uint32_t length = 1 + i % EXTOLL_VELO_MAX_BYTES, slot = i % slots;
		volatile uint64_t *status = &box[slot * 16 + 15];
		struct extoll_wait wait = { .unit = EXTOLL_UNIT_VELO, .index = slot, .timeout_ns = PATIENCE_NS };

		words = extoll_velo_quadwords(length);
		line[0] = extoll_velo_with_interrupt(extoll_velo_header(peer, there, i % 4, i % 256, length));
		for (uint32_t w = 0; w < words; w++)
			line[1 + w] = (uint64_t)i << 32 | w;
		line_post(wcb, page, line, 1 + words);
		CHECK(ioctl(fd, EXTOLL_IOC_WAIT, &wait) == 0);
		CHECK(extoll_velo_status_node(*status) == peer && extoll_velo_status_vpid(*status) == there);
		CHECK(extoll_velo_status_length(*status) == length && extoll_velo_status_mtt(*status) == i % 4);
		CHECK(extoll_velo_status_tag(*status) == i % 256 && !extoll_velo_status_error(*status));
		for (uint32_t w = 0; w + 1 < words; w++)
			CHECK(status[(int)w - (int)words] == ((uint64_t)i << 32 | w));
		*status = 0;
		*rp = extoll_bq_rp((slot + 1) % slots, 0);
	}
	tell(DATA, 4);
	CHECK(hear(DATA) == 4);
	close(fd);
}

/* Plain stores and loads on the other's memory (thesis 6.5). */
static void window(void)
{
	struct extoll_window_open open = { .count = 2, .stride = PART, .part_bytes = PART / 2, .nodes = { 0, 1 } };
	struct extoll_window_close close_ = { 0, 0 };
	uint32_t node = port.open.node;
	volatile uint64_t *all, *local, *far;
	uint64_t end;
	int fd = device_open(), second = device_open();

	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open) == 0);
	CHECK_ERRNO(ioctl(second, EXTOLL_IOC_WINDOW_OPEN, &open), EBUSY);
	CHECK_ERRNO(ioctl(second, EXTOLL_IOC_WINDOW_CLOSE, &close_), ENXIO);
	all = map(fd, EXTOLL_MAP_WINDOW + open.window_offset, PART + PART / 2);
	local = map(fd, EXTOLL_MAP_TARGET, PART / 2);
	CHECK(all != MAP_FAILED && local != MAP_FAILED && local[7] == 0);
	CHECK(map(fd, EXTOLL_MAP_WINDOW + open.window_offset, 2 * PART) == MAP_FAILED && errno == EINVAL);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_WINDOW_CLOSE, &close_), EBUSY);
	tell(DATA, 5);
	CHECK(hear(DATA) == 5);
	far = all + peer * PART / 8;
	for (uint64_t i = 1; i <= 100; i++)
		far[i] = i * 1000 + node;
	__builtin_ia32_sfence();
	far[0] = 1;
	__builtin_ia32_sfence();
	for (end = now_ns() + PATIENCE_NS; !local[0];)
		CHECK(now_ns() < end);
	for (uint64_t i = 1; i <= 100; i++)
		CHECK(local[i] == i * 1000 + peer);
	for (uint64_t i = 1; i <= 100; i++)
		CHECK(far[i] == i * 1000 + node);
	CHECK(all[node * PART / 8 + 7] == local[7]);
	tell(DATA, 6);
	CHECK(hear(DATA) == 6);
	munmap((void *)all, PART + PART / 2);
	munmap((void *)local, PART / 2);
	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_CLOSE, &close_) == 0);
	CHECK(ioctl(second, EXTOLL_IOC_WINDOW_OPEN, &open) == 0);
	close(second);
	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &open) == 0);
	close(fd);
}

/* The other node's registers. */
static void remote_registers(void)
{
	struct extoll_rf_access access = {
		.offset = EXTOLL_RF_INFO_NODE, .flags = EXTOLL_RF_REMOTE, .node = peer,
	};

	CHECK(ioctl(port.fd, EXTOLL_IOC_RF_ACCESS, &access) == 0);
	CHECK(EXTOLL_GET(access.value, EXTOLL_INFO_NODE) == peer);
	access.offset = EXTOLL_RF_INFO_SCRATCHPAD + 56;
	access.value = 4711 + port.open.node;
	access.flags |= EXTOLL_RF_WRITE;
	CHECK(ioctl(port.fd, EXTOLL_IOC_RF_ACCESS, &access) == 0);
	tell(DATA, 7);
	CHECK(hear(DATA) == 7);
	access.flags = 0;
	access.node = 0;
	CHECK(ioctl(port.fd, EXTOLL_IOC_RF_ACCESS, &access) == 0 && access.value == 4711 + peer);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	peer = (uint32_t)atoi(argv[1]);
	port_open(&port);
	mine = memory(BYTES);
	theirs = memory(BYTES);
	CHECK(region(&port, mine, BYTES, &mine_nla) == 0 && region(&port, theirs, BYTES, &theirs_nla) == 0);
	meet();
	puts_both_ways();
	get_back();
	ping_pong();
	count_together();
	printf("puts, gets, locks: ok\n");
	messages();
	printf("messages: ok\n");
	remote_registers();
	printf("registers: ok\n");
	window();
	tell(DONE, 0);
	hear(DONE);
	/* The card sends in order: the last words are on their way when this has come. */
	post(&port, EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ,
	     extoll_desc_notification_put(port.open.node, port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, LAST, 0));
	hear(LAST);
	port_close(&port);
	printf("PASS pair\n");
	return 0;
}
