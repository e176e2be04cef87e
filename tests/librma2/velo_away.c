/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * On cards only. A writer that loses its CPU in the middle of a descriptor or message for longer than the card waits
 * for the rest (WCB timeout, spec 2.4, 8.3): the card gives up what it has. All arrive all the same, once and in order.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "velo.h"

/* Registers of a unit (spec 8.3, 7): [63:32] units of 50 ms [inferred], [0] on; lines timed out are counted at +8. */
#define RMA_TIMEOUT 0x1500000u
#define VELO_TIMEOUT 0x1100000u
#define DRIVERS_VALUE (UINT64_C(0x20) << 32 | 1)
/* 400 ms, which is longer than the library takes for a writer that was not away. */
#define VALUE (UINT64_C(8) << 32 | 1)
#define AWAY_US 700000u
#define STOPS 8

struct shared {
	volatile uint32_t end, posted;
};

static struct shared *shared;
static RMA2_Port port;
static RMA2_Handle registers;
static RMA2_Region *region;
static volatile uint64_t *word;
static velo2_port_t mailbox;
/* What the child knows of its parent's ports. */
static RMA2_Nodeid node;
static RMA2_VPID vpid;
static uint32_t mailbox_address;

static void set_timeout(uint64_t at, uint64_t value)
{
	OK(rma2_post_immediate_put(port, registers, 8, value, at, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
	next_of(port, RMA2_REQUESTER_NOTIFICATION);
}

/* Errors of the unit's write-combining buffers. */
static uint64_t timed_out(uint64_t timeout)
{
	RMA2_Notification *n = NULL;

	OK(rma2_post_get_qw(port, registers, region, 0, 8, timeout + 8, RMA2_COMPLETER_NOTIFICATION,
			    RMA2_CMD_DEFAULT));
	OK(rma2_noti_match_block(port, RMA2_GETS, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION,
				 RMA2_ANY_NLA, 0, &n));
	OK(rma2_noti_free(port, n));
	return *word & 0xffff;
}

/* Posts notification puts with the numbers from 0 on. */
static void post_all(void)
{
	RMA2_Port own = open_port();
	RMA2_Handle handle = NULL;

	OK(rma2_connect(own, node, vpid, RMA2_CONN_DEFAULT, &handle));
	for (; !shared->end; shared->posted++)
		OK(rma2_post_notification(own, handle, 1, shared->posted, RMA2_COMPLETER_NOTIFICATION,
					  RMA2_CMD_DEFAULT));
	OK(rma2_close(own));
}

static void send_all(void)
{
	velo2_port_t own;
	velo2_connection_t to;

	VOK(velo2_open(&own));
	to = connect_velo(&own, mailbox_address);
	for (; !shared->end; shared->posted++)
		send_surely(&to, shared->posted);
	VOK(velo2_close(&own));
}

/* The next number, if it is there. */
static int take_put(uint32_t number)
{
	RMA2_Notification *n = NULL;

	if (rma2_noti_noti_match(port, 1, RMA2_NODEID_ANY, RMA2_VPID_ANY, &n) != RMA2_SUCCESS)
		return 0;
	if (rma2_noti_get_notiput_payload(n) != number) {
		fprintf(stderr, "%" PRIu64 " in place of %u\n", rma2_noti_get_notiput_payload(n), number);
		exit(1);
	}
	OK(rma2_noti_free(port, n));
	return 1;
}

static int take_message(uint32_t number)
{
	uint8_t found[VELO2_MAX_BYTES], wanted[VELO2_MAX_BYTES];
	unsigned int size = message(wanted, number);
	uint32_t length = 0;

	if (velo2_probe_recv(&mailbox, found, sizeof found, &length, NULL, NULL, NULL) == VELO2_RET_NO_MSG)
		return 0;
	if (length != size || memcmp(found, wanted, size) != 0) {
		fprintf(stderr, "message %u: %u bytes of something else\n", number, length);
		exit(1);
	}
	return 1;
}

static void unit(const char *name, uint64_t timeout, void (*write_all)(void), int (*take)(uint32_t number))
{
	uint64_t lost = timed_out(timeout);
	uint32_t taken = 0, stops;
	int status = -1;
	double until;
	pid_t child;

	shared->end = shared->posted = 0;
	set_timeout(timeout, VALUE);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		write_all();
		exit(0);
	}
	for (stops = 0; stops < STOPS; stops++) {
		uint32_t begin = taken;

		/* Each writes a little more than the last, so that it is stopped elsewhere. */
		until = seconds() + PATIENCE;
		while (taken < begin + 200 + 37 * stops) {
			taken += (uint32_t)take(taken);
			CHECK(seconds() < until);
		}
		CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
		usleep(AWAY_US);
		CHECK(kill(child, SIGCONT) == 0);
	}
	shared->end = 1;
	until = seconds() + PATIENCE;
	while (waitpid(child, &status, WNOHANG) == 0 || taken < shared->posted) {
		taken += (uint32_t)take(taken);
		CHECK(seconds() < until);
	}
	CHECK(status == 0 && !take(taken) && taken == shared->posted);
	set_timeout(timeout, DRIVERS_VALUE);
	lost = timed_out(timeout) - lost;
	printf("%s: %u arrived; %u times away, %u lines timed out\n", name, taken, stops, (unsigned int)lost);
	CHECK(lost > 0);
}

int main(void)
{
	if (!on_card())
		return 0; /* The model's threads would be away, too. */
	shared = (struct shared *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	port = open_port();
	VOK(velo2_open(&mailbox));
	node = rma2_get_nodeid(port);
	vpid = rma2_get_vpid(port);
	mailbox_address = address_of(&mailbox);
	word = (volatile uint64_t *)allocate(PAGE);
	OK(rma2_register(port, (void *)(uintptr_t)word, PAGE, &region));
	registers = connect_with(port, port, RMA2_CONN_TE | RMA2_CONN_RRA);
	unit("RMA", RMA_TIMEOUT, post_all, take_put);
	unit("VELO", VELO_TIMEOUT, send_all, take_message);
	VOK(velo2_close(&mailbox));
	OK(rma2_close(port));
	return 0;
}
