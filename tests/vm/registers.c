/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Registers in sysfs: who may read and write them, what is refused and how, the rules of the network state, and a card
 * that does not answer.
 */

#define _GNU_SOURCE
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "card.h"
#include "system.h"

#define FOLDER	"/sys/class/extoll/extoll0/"
#define USER	1000

/* What can be written, up to `most`, and the register behind it. */
static const struct setting {
	const char *name;
	uint64_t most, offset, shift;
} settings[] = {
	{ "registers/management", ~0ull, EXTOLL_RF_INFO_MANAGEMENT, 0 },
	{ "registers/ip_address0", ~0ull, EXTOLL_RF_INFO_IP_ADDRESS, 0 },
	{ "registers/ip_address1", ~0ull, EXTOLL_RF_INFO_IP_ADDRESS + 8, 0 },
	{ "registers/scratchpad4", ~0ull, EXTOLL_RF_INFO_SCRATCHPAD + 8 * 4, 0 },
	{ "registers/scratchpad5", ~0ull, EXTOLL_RF_INFO_SCRATCHPAD + 8 * 5, 0 },
	{ "registers/scratchpad6", ~0ull, EXTOLL_RF_INFO_SCRATCHPAD + 8 * 6, 0 },
	{ "registers/scratchpad7", ~0ull, EXTOLL_RF_INFO_SCRATCHPAD + 8 * 7, 0 },
	{ "registers/timer_period", (1ull << 48) - 1, EXTOLL_RF_INFO_TIMER, EXTOLL_TIMER_PERIOD_SHIFT },
	{ "registers/timer_one_shot", 1, EXTOLL_RF_INFO_TIMER, EXTOLL_TIMER_ONE_SHOT_SHIFT },
	{ "registers/timer_enable", 1, EXTOLL_RF_INFO_TIMER, EXTOLL_TIMER_ENABLE_SHIFT },
	{ "registers/rma_wcb_timeout", 0xffffffff, EXTOLL_RF_RMA_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_VALUE_SHIFT },
	{ "registers/velo_wcb_timeout", 0xffffffff, EXTOLL_RF_VELO_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_VALUE_SHIFT },
	{ "registers/rma_queue_timeout", 0xffffffff, EXTOLL_RF_RMA_BQ_TIMEOUT, 0 },
	{ "registers/velo_timeout", 0xffffffff, EXTOLL_RF_VELO_TIMEOUT, 0 },
	{ "registers/smfu_timeout", 0xffffff, EXTOLL_RF_SMFU_TIMEOUT_CONTROL, 0 },
	{ "network_state", 2, EXTOLL_RF_INFO_NETWORK_STATE, 0 },
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const char *const clears[] = {
	"registers/clear_requester_errors", "registers/clear_responder_errors", "registers/clear_completer_errors",
};

/* What does not clear: the Linux kernel takes some of it for "yes" where it reads a truth value. */
static const char *const no_ones[] = { "0", "2", "x", "y", "Y", "on", "true", "-1", "1 1", "0x10000000000000001" };

static int file(const char *name, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), FOLDER "%s", name);
	return open(path, flags);
}

static int put(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), FOLDER "%s", name);
	return put_text(path, text);
}

static int put_number(const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%#llx\n", (unsigned long long)value);
	return put(name, text);
}

static uint64_t get(const char *name)
{
	char text[64] = "";
	int fd = file(name, O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtoull(text, NULL, 0);
}

/* Values from end to end reach the field, and nothing beside it; others are refused and change nothing. */
static void values(struct port *port)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		uint64_t old = rf(port, s->offset, 0, 0), mask = s->most << s->shift, now;
		const uint64_t want[] = { s->most, 0, 1, s->most / 3 };

		if (s->offset == EXTOLL_RF_INFO_NETWORK_STATE)
			mask = ~0ull;
		for (int k = 0; k < 4; k++) {
			CHECK(put_number(s->name, want[k]) == 0);
			now = rf(port, s->offset, 0, 0);
			if (get(s->name) != want[k] || now != ((old & ~mask) | want[k] << s->shift)) {
				printf("FAIL %s: %#llx written, the register is %#llx\n", s->name,
				       (unsigned long long)want[k], (unsigned long long)now);
				exit(1);
			}
		}
		now = rf(port, s->offset, 0, 0);
		CHECK_ERRNO(put(s->name, "x"), EINVAL);
		CHECK_ERRNO(put(s->name, "-1"), EINVAL);
		CHECK_ERRNO(put(s->name, "1 2"), EINVAL);
		CHECK_ERRNO(put(s->name, "0x10000000000000000"), ERANGE);
		if (s->most != ~0ull)
			CHECK_ERRNO(put_number(s->name, s->most + 1), ERANGE);
		CHECK(rf(port, s->offset, 0, 0) == now);
		rf(port, s->offset, old, 1);
	}
	state_is("live");	/* registers that hold all ones are no card that is gone */
	puts("registers: values");
}

/* Once, and then each period. */
static void timer(void)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	long before = handled(7);

	CHECK(put("registers/timer_period", "5000") == 0 && put("registers/timer_one_shot", "1") == 0);
	CHECK(put("registers/timer_enable", "1") == 0);
	while (handled(7) != before + 1 || get("registers/timer_enable"))
		CHECK(now_ns() < end);
	CHECK(put("registers/timer_one_shot", "0") == 0 && put("registers/timer_enable", "1") == 0);
	while (handled(7) < before + 4)
		CHECK(now_ns() < end);
	CHECK(put("registers/timer_enable", "0") == 0);
	puts("registers: timer");
}

/* A notification for a VPID that is not open is counted by the completer, whose counts alone are cleared. */
static void cleared(struct port *port)
{
	struct extoll_desc lost = extoll_desc_notification_put(port->open.node, 200, EXTOLL_SPEC_COMPLETER, 0, 1, 2);
	struct extoll_desc bad = extoll_desc_put(0, port->open.node, port->open.vpid, EXTOLL_SPEC_REQUESTER, 0,
						 0x7f000000, 0x7f000000, 64);
	uint64_t end = now_ns() + PATIENCE_NS;

	post(port, EXTOLL_OPTION_TE, lost);
	post(port, EXTOLL_OPTION_TE, bad);
	CHECK(extoll_noti_error(take(port, PATIENCE_MS).word1) != 0);
	while (!number("counters/completer_vpid") || !number("counters/requester_translation"))
		CHECK(now_ns() < end);
	for (size_t i = 0; i < sizeof(no_ones) / sizeof(no_ones[0]); i++)
		CHECK_ERRNO(put("registers/clear_completer_errors", no_ones[i]), EINVAL);
	CHECK(number("counters/completer_vpid") > 0);
	CHECK(put("registers/clear_completer_errors", "1") == 0);
	CHECK(number("counters/completer_vpid") == 0 && number("counters/requester_translation") > 0);
	CHECK(put("registers/clear_requester_errors", "1") == 0 && put("registers/clear_responder_errors", "1") == 0);
	CHECK(number("counters/requester_translation") == 0);
	for (int i = 0; i < 3; i++)
		CHECK_ERRNO(file(clears[i], O_RDONLY), EACCES);
	puts("registers: cleared");
}

/* A node's id changes while its network is down and no port is open; ports are opened while it is up. */
static void network(void)
{
	struct extoll_port_open open_ = { .units = EXTOLL_UNIT_RMA };
	uint64_t node = get("node");
	struct port port;
	int fd;

	port_open(&port);
	CHECK_ERRNO(put_number("node", node), EBUSY);
	CHECK(put("network_state", "2") == 0);
	CHECK_ERRNO(put_number("node", node), EBUSY);
	/* Those that are open stay. */
	post(&port, EXTOLL_OPTION_TE, note(&port, 3));
	CHECK(take(&port, PATIENCE_MS).word0 == 3);
	port_close(&port);
	CHECK(put_number("node", node) == 0);
	CHECK_ERRNO(put_number("node", EXTOLL_NODES), ERANGE);
	/* The model has its id from its place in the network: as a card that does not take one. */
	CHECK_ERRNO(put_number("node", node + 5), EIO);
	CHECK(get("node") == node);
	fd = device_open();
	for (int state = 0; state <= 2; state += 2) {
		CHECK(put_number("network_state", (uint64_t)state) == 0);
		CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_), EAGAIN);
		CHECK(number("ports") == 0);
	}
	CHECK(put("network_state", "1") == 0);
	CHECK_ERRNO(put_number("node", node), EBUSY);
	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_) == 0);
	close(fd);
	sound();
	puts("registers: network");
}

/* Not even root writes what is for reading. */
static void for_reading(void)
{
	static const char *const names[] = {
		"driver", "guid", "state", "ports", "notifications", "link0_ready", "counters/completer_vpid",
		"counters/velo_sent",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CHECK_ERRNO(file(names[i], O_WRONLY), EACCES);
		CHECK_ERRNO(file(names[i], O_RDWR), EACCES);
	}
	puts("registers: for reading only");
}

static void no_capability(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	CHECK(syscall(SYS_capget, &header, data) == 0);
	data[CAP_SYS_RAWIO / 32].effective &= ~(1u << CAP_SYS_RAWIO % 32);
	data[CAP_SYS_RAWIO / 32].permitted &= ~(1u << CAP_SYS_RAWIO % 32);
	CHECK(syscall(SYS_capset, &header, data) == 0);
}

static void no_user(void)
{
	CHECK(setgid(USER) == 0 && setuid(USER) == 0);
}

/* Reads all; writes nothing: by a file of its own, or one that root opened. */
static void may_read(void (*become)(void), int opens)
{
	int fds[SETTINGS + 1], clear = file(clears[2], O_WRONLY), status;
	pid_t child;

	for (size_t i = 0; i < SETTINGS; i++)
		fds[i] = file(settings[i].name, O_WRONLY);
	fds[SETTINGS] = file("node", O_WRONLY);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		become();
		for (size_t i = 0; i <= SETTINGS; i++) {
			const char *name = i < SETTINGS ? settings[i].name : "node";
			int own;

			get(name);
			CHECK_ERRNO(write(fds[i], "1", 1), EPERM);
			if (!opens) {
				CHECK_ERRNO(file(name, O_WRONLY), EACCES);
				continue;
			}
			own = file(name, O_WRONLY);
			CHECK(own >= 0);
			CHECK_ERRNO(write(own, "1", 1), EPERM);
			close(own);
		}
		CHECK_ERRNO(write(clear, "1", 1), EPERM);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (size_t i = 0; i <= SETTINGS; i++)
		close(fds[i]);
	close(clear);
}

static void reset(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/reset", pci);
	CHECK(put_text(path, "1") == 0);
	state_is("live");
}

/* A card that has left the bus takes nothing; after a reset it has what the driver sets. */
static void out_of_reach(void)
{
	uint64_t before = get("registers/rma_wcb_timeout");

	CHECK(put("registers/rma_wcb_timeout", "77") == 0 && get("registers/rma_wcb_timeout") == 77);
	reset();
	CHECK(get("registers/rma_wcb_timeout") == before);
	CHECK(trouble(GONE));
	CHECK_ERRNO(put("registers/scratchpad4", "1"), EIO);
	state_is("failed");
	CHECK_ERRNO(put("network_state", "0"), EIO);
	CHECK_ERRNO(put("registers/clear_requester_errors", "1"), EIO);
	reset();
	sound();
	puts("registers: out of reach");
}

int main(void)
{
	struct port port;

	find_card();
	port_open(&port);
	values(&port);
	cleared(&port);
	port_close(&port);
	timer();
	network();
	for_reading();
	may_read(no_user, 0);
	may_read(no_capability, 1);
	out_of_reach();
	puts("PASS registers");
	return 0;
}
