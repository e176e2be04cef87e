/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A receiver that does not consume: its sender is told so within a bound, and nothing of what was sent is lost. A full
 * mailbox holds back the network (spec 7), so the sender tells the receiver by a signal. Argument: bytes of a slot.
 */
#include <signal.h>

#include "velo.h"

/* More than a mailbox and all on the way to it hold. */
#define ALL 40000u
/* How long a full mailbox holds back the network (spec 7), of the receiver's node: units of 100 ms, and that it does. */
#define TIME_LIMIT 0x1201800
#define LONG (UINT64_C(1) << 32 | 10 * PATIENCE)
/* What a mailbox holds at least. */
#define FITS ((2u << 20) / (3 * 64))

static void sender(struct job *job, velo2_port_t *port, uint32_t peer, pid_t receiver)
{
	velo2_connection_t to = connect_velo(port, peer);
	uint32_t sent = 0;
	double start = seconds();
	velo2_ret_t result;

	/* Where the other process is stopped, it is said before the mailbox is full. */
	do {
		double begin = seconds();

		result = send_number(&to, sent);
		CHECK(result == VELO2_RET_SUCCESS || result == VELO2_RET_TRY_AGAIN);
		CHECK(result == VELO2_RET_SUCCESS || seconds() - begin > 0.15);
		if (result == VELO2_RET_SUCCESS) {
			sent++;
			start = seconds();
		}
		CHECK(sent < ALL && seconds() - start < PATIENCE);
	} while (result == VELO2_RET_SUCCESS || sent < FITS);
	CHECK(kill(receiver, SIGUSR1) == 0);
	start = seconds();
	while (sent < ALL) {
		result = send_number(&to, sent);
		if (result == VELO2_RET_SUCCESS) {
			sent++;
			start = seconds();
		}
		CHECK(result == VELO2_RET_SUCCESS || result == VELO2_RET_TRY_AGAIN);
		CHECK(seconds() - start < PATIENCE);
	}
	VOK(velo2_disconnect(port, &to));
	heard(job, 1, SEEN);
}

static void receiver(struct job *job, velo2_port_t *port, uint32_t peer, const sigset_t *full)
{
	uint32_t i;

	CHECK(wait_for_signal(full, 4 * PATIENCE) == SIGUSR1);
	for (i = 0; i < ALL; i++)
		take_number(port, i, peer);
	no_message(port);
	tell(job, 0, SEEN, 0);
}

int main(int argc, char **argv)
{
	struct job job;
	velo2_port_t port;
	pid_t other;
	uint32_t peer;
	sigset_t full;
	int lap;

	CHECK(sigemptyset(&full) == 0 && sigaddset(&full, SIGUSR1) == 0 && sigprocmask(SIG_BLOCK, &full, NULL) == 0);
	CHECK(argc == 2 && setenv("EXTOLL_VELO_SLOTS", argv[1], 1) == 0);
	setenv("EXTOLL_POST_TIMEOUT", "0.2", 1);
	job = join_job();
	/* What a receiver that is stopped for a while has no room for is not to be lost. */
	write_register(job.port, TIME_LIMIT, LONG);
	exchange(&job, (uint64_t)getpid());
	other = (pid_t)job.told[1 - job.me];
	for (lap = 0; lap < 2; lap++) {
		VOK(velo2_open(&port));
		exchange(&job, address_of(&port));
		peer = (uint32_t)job.told[1 - job.me];
		if (job.me == 0)
			sender(&job, &port, peer, other);
		else
			receiver(&job, &port, peer, &full);
		VOK(velo2_close(&port));
		synchronise(&job);
	}
	OK(rma2_close(job.port));
	return 0;
}
