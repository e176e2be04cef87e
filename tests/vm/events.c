/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System notifications: each source of the card fires, storms, a full queue, entries that no program of the driver
 * writes, and changes of the network. Sleepers wake all the while, and the log stays short.
 */

#include <dirent.h>

#include "card.h"
#include "system.h"

#define TIMER_ENABLE	(1ull << 48)
#define TIMER_ONCE	(1ull << 49)
#define SMFU_ERROR	(1ull << 32)

/* Until the driver has handled this many of a trigger. */
static void fires(int trigger, long count)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (handled(trigger) < count)
		if (now_ns() > end) {
			printf("FAIL trigger %d: %ld handled, not %ld\n", trigger, handled(trigger), count);
			exit(1);
		}
}

static void timer(struct port *port)
{
	long before = handled(7);
	uint64_t end = now_ns() + PATIENCE_NS;

	rf(port, EXTOLL_RF_INFO_TIMER, TIMER_ENABLE | 5000, 1);
	fires(7, before + 3);
	rf(port, EXTOLL_RF_INFO_TIMER, 0, 1);
	rf(port, EXTOLL_RF_INFO_TIMER, TIMER_ENABLE | TIMER_ONCE | 5000, 1);
	while (rf(port, EXTOLL_RF_INFO_TIMER, 0, 0) & TIMER_ENABLE)
		CHECK(now_ns() < end);
	fires(7, before + 4);
}

/* A store behind a descriptor's last word. */
static void malformed_store(struct port *port)
{
	long before = handled(22);

	port->page[EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ][3] = 1;	/* mapped by wakes */
	fires(22, before + 1);
}

/* A put from an address that nobody registered. */
static void bad_command(struct port *port)
{
	long before = handled(27);

	post(port, EXTOLL_OPTION_TE, extoll_desc_put(0, port->open.node, port->open.vpid, EXTOLL_SPEC_REQUESTER, 0,
						     0x7f000000, 0x7f000000, 64));
	CHECK(extoll_noti_error(take(port, PATIENCE_MS).word1) != 0);
	fires(27, before + 1);
}

/* A load from a node that does not exist. */
static void unanswered_load(struct port *port)
{
	struct extoll_rf_access arg = { .offset = EXTOLL_RF_INFO_NODE, .flags = EXTOLL_RF_REMOTE, .node = 1000 };
	long before = handled(12);
	uint64_t control;

	rf(port, EXTOLL_RF_SMFU_TIMEOUT_CONTROL, 1000, 1);
	CHECK_ERRNO(ioctl(port->fd, EXTOLL_IOC_RF_ACCESS, &arg), EIO);
	fires(12, before + 1);
	control = rf(port, EXTOLL_RF_SMFU_TIMEOUT_CONTROL, 0, 0);
	CHECK(control == (SMFU_ERROR | 1000));
	rf(port, EXTOLL_RF_SMFU_TIMEOUT_CONTROL, SMFU_ERROR, 1);
	CHECK(rf(port, EXTOLL_RF_SMFU_TIMEOUT_CONTROL, 0, 0) == 0);
}

static void sources(void)
{
	struct port port;

	port_open(&port);
	wakes(&port);
	for (int i = 0; i < 20; i++) {
		timer(&port);
		malformed_store(&port);
		bad_command(&port);
		unanswered_load(&port);
	}
	wakes(&port);
	port_close(&port);
	sound();
}

/* One more each. */
static void one_more(const char *name, long before)
{
	if (number(name) != before + 1) {
		printf("FAIL %s: %ld, was %ld\n", name, number(name), before);
		exit(1);
	}
}

/* What one command counts: its file under counters/, and that of notifications. */
static void counted(struct port *port, const char *name, struct extoll_desc desc)
{
	char path[64];
	long before, noted = number("counters/requester_notifications");

	snprintf(path, sizeof(path), "counters/%s", name);
	before = number(path);
	post(port, EXTOLL_OPTION_TE, desc);
	CHECK(extoll_noti_error(take(port, PATIENCE_MS).word1) == 0);
	one_more(path, before);
	one_more("counters/requester_notifications", noted);
}

/* Files in a folder of the card, all of them numbers. */
static int numbers(const char *folder)
{
	struct dirent *entry;
	char path[300];
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/class/extoll/extoll0/%s", folder);
	dir = opendir(path);
	CHECK(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_type != DT_REG)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		CHECK(number(path) >= 0);
		count++;
	}
	closedir(dir);
	return count;
}

/* Counters are those of the card's units. */
static void counters(void)
{
	uint32_t spec = EXTOLL_SPEC_REQUESTER;
	unsigned char *at = memory(PAGE);
	struct port port;
	long before;
	uint64_t nla;

	port_open(&port);
	CHECK(region(&port, at, PAGE, &nla) == 0);
	const uint32_t node = port.open.node, vpid = port.open.vpid;

	counted(&port, "puts_byte", extoll_desc_put(0, node, vpid, spec, 0, nla, nla + 64, 8));
	counted(&port, "puts_quadword", extoll_desc_put(1, node, vpid, spec, 0, nla, nla + 64, 8));
	counted(&port, "gets_byte", extoll_desc_get(0, node, vpid, spec, 0, nla, nla + 64, 8));
	counted(&port, "gets_quadword", extoll_desc_get(1, node, vpid, spec, 0, nla, nla + 64, 8));
	counted(&port, "puts_immediate", extoll_desc_immediate_put(node, vpid, spec, 0, 8, nla, 1));
	counted(&port, "puts_notification", extoll_desc_notification_put(node, vpid, spec, 0, 1, 2));
	before = number("counters/requester_translation");
	bad_command(&port);
	one_more("counters/requester_translation", before);
	CHECK(numbers("counters") == 43);
	CHECK(number("node") == (long)node && number("ports") == 1 && number("network_state") == 1);
	CHECK(number("link0_ready") <= 1 && number("driver") >= 0 && number("guid") >= 0);
	port_close(&port);
}

/* Interrupt after interrupt: the machine goes on, sleepers wake, and the log takes a few lines only. */
static void storm(void)
{
	struct port port;
	long stores = handled(22), errors = handled(27), fired = 0;
	uint64_t begin = now_ns();

	port_open(&port);
	log_lines();
	while (fired < 1000 || now_ns() - begin < 2 * SECOND) {
		CHECK(now_ns() - begin < PATIENCE_NS);
		rf(&port, EXTOLL_RF_SNQ_TRIGGER_NOW, 1u << 22 | 1u << 27, 1);
		if (++fired % 64 == 0)
			wakes(&port);
	}
	fires(22, stores + 50);
	fires(27, errors + 50);
	CHECK(log_lines() <= lines_allowed(2, begin));
	port_close(&port);
	sound();
}

/* Of all triggers: what came before a queue filled up takes entries of it, too. */
static long all_handled(void)
{
	long sum = 0;

	for (int trigger = 0; trigger < 32; trigger++)
		sum += handled(trigger);
	return sum;
}

/* A queue of system notifications that nobody empties fills up, and is emptied lap by lap afterwards. */
static void full_system_queue(void)
{
	struct port port;
	long before = all_handled();
	uint64_t wp, mark, end;

	port_open(&port);
	mark = rf(&port, EXTOLL_RF_SNQ_WATERMARK, 0, 0);
	rf(&port, EXTOLL_RF_SNQ_WATERMARK, 0, 1);
	for (int i = 0; i < 400; i++)
		rf(&port, EXTOLL_RF_SNQ_TRIGGER_NOW, 1u << 21, 1);
	wp = rf(&port, EXTOLL_RF_SNQ_WP, 0, 0);
	CHECK((wp - rf(&port, EXTOLL_RF_SNQ_RP, 0, 0)) % 256 == 255);
	/* The driver's own mark is long reached. */
	rf(&port, EXTOLL_RF_SNQ_WATERMARK, mark | 1u << 16, 1);
	end = now_ns() + PATIENCE_NS;
	while (all_handled() - before < 255)
		CHECK(now_ns() < end);
	wakes(&port);
	port_close(&port);
	sound();
}

/* Entries that no program of the driver writes. */
static void strange_entries(void)
{
	struct port port;
	uint64_t enabled, word = 6 | 0xffull << 4 | 1ull << 48;	/* emit, end */
	uint64_t begin = now_ns(), end;

	port_open(&port);
	enabled = rf(&port, EXTOLL_RF_SNQ_TRIGGER_ENABLE, 0, 0);
	log_lines();
	rf(&port, EXTOLL_RF_SNQ_PROGRAM + 8 * 200, word, 1);
	rf(&port, EXTOLL_RF_SNQ_PROGRAM + 8 * 5, 4 | 200ull << 4, 1);
	rf(&port, EXTOLL_RF_SNQ_PROGRAM + 8 * 6, word, 1);
	rf(&port, EXTOLL_RF_SNQ_TRIGGER_ENABLE, enabled | 1u << 5 | 1u << 6, 1);
	for (int i = 0; i < 300; i++)
		rf(&port, EXTOLL_RF_SNQ_TRIGGER_NOW, 1u << 5 | 1u << 6, 1);
	wakes(&port);
	/* The queue may have been full of other entries each time. */
	end = now_ns() + PATIENCE_NS;
	while (handled(6) == 0) {
		CHECK(now_ns() < end);
		rf(&port, EXTOLL_RF_SNQ_TRIGGER_NOW, 1u << 6, 1);
	}
	rf(&port, EXTOLL_RF_SNQ_TRIGGER_ENABLE, enabled, 1);
	CHECK(log_lines() <= lines_allowed(2, begin));
	port_close(&port);
	sound();
}

/* The network stops and comes back: nobody is stopped, who opens is told. */
static void network_changes(void)
{
	struct extoll_port_open arg = { .units = 1 };
	struct port port;
	int fd = device_open();

	port_open(&port);
	rf(&port, EXTOLL_RF_INFO_NETWORK_STATE, EXTOLL_NETWORK_STOPPED, 1);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &arg), EAGAIN);
	wakes(&port);
	rf(&port, EXTOLL_RF_INFO_NETWORK_STATE, EXTOLL_NETWORK_CONFIGURED, 1);
	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &arg) == 0);
	CHECK(handled(28) > 0);
	close(fd);
	port_close(&port);
}

int main(void)
{
	signal(SIGBUS, on_bus_error);
	find_card();
	sound();
	sources();
	puts("events: all sources");
	counters();
	storm();
	full_system_queue();
	strange_entries();
	network_changes();
	puts("PASS events");
	return 0;
}
