/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every register access of the driver, from loading on, against the specification: its address, and that no bit is
 * written that the specification does not explain. The kernel's log has to show them (dynamic debug, a large buffer).
 */

#include "extoll/smfu.h"
#include "extoll/velo.h"
#include "port.h"

#define ALL	(~0ull)
#define BITS(high, low)	((ALL >> (63 - (high))) & (ALL << (low)))
#define PHASES	8

/* A register or an array of them: which bits may be written; or, if `count` is not 0, which values. */
struct rule {
	const char *what, *section;
	uint64_t first, stride, elements, mask;
	unsigned int count;
	uint64_t value[8];
	unsigned long writes[PHASES], reads;
};

#define ONLY(...) 0, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, { __VA_ARGS__ }
#define FREE(mask) mask, 0, { 0 }
#define NOTHING 0, 0, { 0 }
#define QUEUES(unit, base, rp) \
	{ unit " queues: enable", "3.2", (base), 1, 1, ONLY(0, 1), { 0 }, 0 }, \
	{ unit " queue: slots", "3.2", (base) + 0x800, 8, 256, FREE(BITS(31, 0)), { 0 }, 0 }, \
	{ unit " queue: segment table", "3.2", (base) + 0x1000, 8, 256, FREE(BITS(55, 0)), { 0 }, 0 }, \
	{ unit " queue: current segment", "3.2", (base) + 0x1800, 8, 256, FREE(BITS(58, 0)), { 0 }, 0 }, \
	{ unit " queue: next segment", "3.2", (base) + 0x2000, 8, 256, FREE(BITS(58, 0)), { 0 }, 0 }, \
	{ unit " queue: write pointer", "3.2", (base) + 0x2800, 8, 256, ONLY(0, 2), { 0 }, 0 }, \
	{ unit " queue: read pointer", "3.2", (rp), 4096, 256, FREE(BITS(32, 0)), { 0 }, 0 }

static struct rule rules[] = {
	{ "version", "8.2", 0x8000, 1, 1, NOTHING, { 0 }, 0 },
	{ "node id", "8.2", 0x8008, 1, 1, NOTHING, { 0 }, 0 },
	{ "network state", "8.2", 0x8050, 1, 1, NOTHING, { 0 }, 0 },
	{ "HTAX: upper bounds", "1.2", 0x9200, 0x18, 6, FREE(BITS(51, 0)), { 0 }, 0 },
	{ "HTAX: lower bounds", "1.2", 0x9208, 0x18, 6, FREE(BITS(51, 0)), { 0 }, 0 },
	{ "HTAX: interval control", "1.2", 0x9210, 0x18, 6, FREE(BITS(16, 0)), { 0 }, 0 },
	{ "HTAX: general", "1.2", 0x9290, 1, 1, ONLY(0x8088), { 0 }, 0 },
	{ "network ports", "8.2", 0x9418, 0x80, 4, ONLY(81, 0xff, 0), { 0 }, 0 },
	{ "SMFU: enable", "6.1", 0xa000, 1, 1, ONLY(0, 1), { 0 }, 0 },
	{ "SMFU: traffic class", "6.3", 0xa008, 1, 1, ONLY(0x223), { 0 }, 0 },
	{ "SMFU: window address", "6.3", 0xa058, 1, 1, FREE(BITS(47, 12)), { 0 }, 0 },
	{ "SMFU: target address", "6.3", 0xa060, 1, 1, FREE(BITS(47, 12)), { 0 }, 0 },
	{ "SMFU: node offset", "6.2", 0xa068, 1, 1, ONLY(0), { 0 }, 0 },
	{ "SMFU: address mask", "6.3", 0xa070, 1, 1, ONLY(0), { 0 }, 0 },
	{ "SMFU: interval control", "6.1", 0xa080, 0x20, 64, FREE(BITS(31, 16) | BITS(10, 8) | 1), { 0 }, 0 },
	{ "SMFU: interval start", "6.1", 0xa088, 0x20, 64, FREE(BITS(47, 12)), { 0 }, 0 },
	{ "SMFU: interval end", "6.1", 0xa090, 0x20, 64, FREE(BITS(47, 12)), { 0 }, 0 },
	{ "SMFU: target by interval", "6.1", 0xa880, 8, 64, ONLY(0), { 0 }, 0 },
	{ "ATU: enable", "4.1", 0xc000, 1, 1, ONLY(0, 1), { 0 }, 0 },
	{ "ATU: command", "4.1", 0xc008, 1, 1, FREE(BITS(62, 60) | BITS(47, 0)), { 0 }, 0 },
	{ "ATU: tables", "4.1", 0xe000, 8, 1024, FREE(BITS(31, 0)), { 0 }, 0 },
	{ "SNQ: trigger enable", "8.4", 0x10000, 1, 1, FREE(0x1feddffd), { 0 }, 0 },
	{ "SNQ: base", "8.4", 0x10020, 1, 1, FREE(BITS(37, 0)), { 0 }, 0 },
	{ "SNQ: mask", "8.4", 0x10028, 1, 1, ONLY(255), { 0 }, 0 },
	{ "SNQ: write pointer", "8.4", 0x10030, 1, 1, NOTHING, { 0 }, 0 },
	{ "SNQ: read pointer", "8.4", 0x10038, 1, 1, FREE(BITS(7, 0)), { 0 }, 0 },
	{ "SNQ: watermark", "8.4", 0x10040, 1, 1, FREE(BITS(16, 0)), { 0 }, 0 },
	{ "SNQ: interrupt packet", "8.4", 0x10048, 8, 3, ONLY(0xfd2300000040002d, 0x030001000000, 0), { 0 }, 0 },
	{ "SNQ: execute", "8.4", 0x10068, 1, 1, ONLY(0, 1), { 0 }, 0 },
	{ "SNQ: htax", "8.4", 0x10070, 1, 1, ONLY(0x201201), { 0 }, 0 },
	{ "SNQ: program", "8.4", 0x10800, 8, 256, FREE(BITS(51, 48) | BITS(43, 16) | BITS(11, 0)), { 0 }, 0 },
	{ "VELO: write-combining state", "7", 0x1000000, 0x1000, 256, ONLY(0), { 0 }, 0 },
	{ "VELO: write-combining time limit", "7", 0x1100000, 1, 1, ONLY(0x2000000001), { 0 }, 0 },
	{ "VELO: sender", "7", 0x1200800, 8, 256, FREE(BITS(39, 0)), { 0 }, 0 },
	{ "VELO: receiver", "7", 0x1201000, 8, 256, FREE(BITS(17, 0)), { 0 }, 0 },
	{ "VELO: time limit", "7", 0x1201800, 1, 1, ONLY(0x100000020), { 0 }, 0 },
	{ "VELO: completer", "7", 0x1201808, 1, 1, ONLY(0x208), { 0 }, 0 },
	{ "RMA: write-combining state", "2.4", 0x1400000, 0x1000, 256, ONLY(0), { 0 }, 0 },
	{ "RMA: write-combining time limit", "2.4", 0x1500000, 1, 1, ONLY(0x2000000001), { 0 }, 0 },
	{ "RMA: config", "8.3", 0x1600080, 1, 1, FREE(BITS(23, 16) | BITS(9, 0)), { 0 }, 0 },
	{ "RMA: lock base", "5", 0x1600088, 1, 1, FREE(BITS(63, 12)), { 0 }, 0 },
	{ "RMA: lock config", "5", 0x1600090, 1, 1, ONLY(16 | 256ull << 31), { 0 }, 0 },
	{ "RMA: queue time limit", "3.2", 0x1600098, 1, 1, ONLY(0x10000000a), { 0 }, 0 },
	{ "RMA: VPIDs", "8.3", 0x1600800, 8, 256, ONLY(0, 0xf523), { 0 }, 0 },
	QUEUES("RMA", 0xe00000, 0xf00000),
	QUEUES("VELO", 0xc00000, 0xd00000),
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

static int phase;
static const char *const phases[PHASES] = {
	"probe", "open", "register", "unregister", "wait", "window", "close", "open 250",
};

static struct rule *rule_of(uint64_t offset)
{
	for (size_t i = 0; i < RULES; i++) {
		struct rule *rule = &rules[i];

		if (offset >= rule->first && (offset - rule->first) % rule->stride == 0 &&
		    (offset - rule->first) / rule->stride < rule->elements)
			return rule;
	}
	return NULL;
}

static int explained(const struct rule *rule, uint64_t value)
{
	for (unsigned int i = 0; i < rule->count; i++)
		if (rule->value[i] == value)
			return 1;
	return !rule->count && rule->mask && !(value & ~rule->mask);
}

static void look(const char *line)
{
	unsigned long long offset, value;
	const char *at = strstr(line, "rf ");
	int write;

	if (!at || (sscanf(at, "rf write %llx = %llx", &offset, &value) != 2 &&
		    sscanf(at, "rf read %llx = %llx", &offset, &value) != 2))
		return;
	write = at[3] == 'w';
	struct rule *rule = rule_of(offset);

	if (!rule || (write && !explained(rule, value))) {
		printf("FAIL traffic, %s: the specification does not explain `%.60s`\n", phases[phase], at);
		exit(1);
	}
	if (write)
		rule->writes[phase]++;
	else
		rule->reads++;
}

/* What the kernel logged since the last call belongs to `what`. */
static void belongs_to(int what)
{
	static int fd = -1;
	char line[1024];
	ssize_t got;

	phase = what;
	if (fd < 0)
		fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	CHECK(fd >= 0);
	while ((got = read(fd, line, sizeof(line) - 1)) > 0) {
		line[got] = 0;
		look(line);
	}
	CHECK(errno == EAGAIN);	/* EPIPE: the log's buffer is too small */
}

static void print(void)
{
	printf("| registers | spec | reads |");
	for (int i = 0; i < PHASES; i++)
		printf(" %s |", phases[i]);
	printf("\n|---|---|--:|");
	for (int i = 0; i < PHASES; i++)
		printf("--:|");
	printf("\n");
	for (size_t r = 0; r < RULES; r++) {
		printf("| %s | %s | %lu |", rules[r].what, rules[r].section, rules[r].reads);
		for (int i = 0; i < PHASES; i++)
			rules[r].writes[i] ? printf(" %lu |", rules[r].writes[i]) : printf(" |");
		printf("\n");
	}
}

static void window(int fd)
{
	struct extoll_window_open arg = { .count = 2, .stride = 2 * PAGE, .part_bytes = PAGE, .nodes = { 0, 1 } };
	struct extoll_window_close end = { 0, 0 };

	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_OPEN, &arg) == 0);
	CHECK(ioctl(fd, EXTOLL_IOC_WINDOW_CLOSE, &end) == 0);
}

int main(void)
{
	struct extoll_port_open both = { .units = EXTOLL_UNIT_RMA | EXTOLL_UNIT_VELO };
	struct extoll_wait wait = { .unit = EXTOLL_UNIT_RMA, .timeout_ns = 1000000 };
	static int fds[250];
	struct port port;
	unsigned char *at = memory(5000 * PAGE);
	uint64_t nla;

	belongs_to(0);
	CHECK(rules[3].writes[0] == 6);	/* else nothing was logged */
	port.fd = device_open();
	CHECK(ioctl(port.fd, EXTOLL_IOC_PORT_OPEN, &both) == 0);
	port.open = both;
	belongs_to(1);
	CHECK(region(&port, at, 5000 * PAGE, &nla) == 0);
	belongs_to(2);
	CHECK(region_end(&port, nla) == 0);
	belongs_to(3);
	CHECK_ERRNO(ioctl(port.fd, EXTOLL_IOC_WAIT, &wait), ETIMEDOUT);
	belongs_to(4);
	window(port.fd);
	belongs_to(5);
	close(port.fd);
	belongs_to(6);
	/* Every VPID's registers. */
	for (int i = 0; i < 250; i++) {
		struct extoll_port_open small = {
			.units = 3, .queue_bytes = 3 * PAGE, .segment_bytes = PAGE, .mailbox_bytes = PAGE,
			.mailbox_segment_bytes = PAGE,
		};

		fds[i] = device_open();
		CHECK(ioctl(fds[i], EXTOLL_IOC_PORT_OPEN, &small) == 0);
	}
	for (int i = 0; i < 250; i++)
		close(fds[i]);
	belongs_to(7);
	print();
	printf("PASS traffic\n");
	return 0;
}
