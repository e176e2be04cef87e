/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A peer that is killed in the middle of transfers of 8 MiB from and to it: posts to it and waits that name it end in
 * RMA2_ERR_NO_ROUTE, and the two others go on as if nothing were: every byte between them is compared. Three processes.
 */
#include <signal.h>

#include "job.h"

#define ROUNDS 100
#define BETWEEN 65536u
#define DIE 9
#define VICTIM 1
#define ROOM (2 * MAX_TRANSFER)

static struct job job;
static uint8_t *memory;
static RMA2_Region *region;
static int told;

/* Keeps the victim busy; from its death on it is an error. */
static void bother(int round)
{
	RMA2_Notification *n = NULL;
	RMA2_ERROR result = RMA2_SUCCESS;

	if (round % 2 == 0)
		result = rma2_post_put_bt(job.port, job.to[VICTIM], region, MAX_TRANSFER, MAX_TRANSFER, job.told[VICTIM],
					  RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT);
	else
		result = rma2_post_get_bt(job.port, job.to[VICTIM], region, MAX_TRANSFER, MAX_TRANSFER,
					  job.told[VICTIM], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT);
	CHECK(result == RMA2_SUCCESS || result == RMA2_ERR_NO_ROUTE);
	CHECK(!told || result == RMA2_ERR_NO_ROUTE);
	told |= result == RMA2_ERR_NO_ROUTE;
	/* What came of earlier ones, with an error or without. */
	while (rma2_noti_match(job.port, round % 4 < 2 ? RMA2_PUTS : RMA2_GETS, node_of(&job, VICTIM),
			       vpid_of(&job, VICTIM),
			       round % 4 < 2 ? RMA2_REQUESTER_NOTIFICATION : RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA,
			       0, &n) == RMA2_SUCCESS)
		OK(rma2_noti_free(job.port, n));
}

/* A put to the other survivor, which compares it and answers. */
static void exchange_with(int other, uint32_t round)
{
	int mine = job.me == 0, k;

	for (k = 0; k < 2; k++, mine = !mine) {
		if (mine) {
			fill(memory, BETWEEN, round);
			OK(rma2_post_put_bt(job.port, job.to[other], region, 0, BETWEEN,
					    job.told[other] + BETWEEN, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
			CHECK(heard(&job, other, 1) == round);
		} else {
			arrival(&job, other, RMA2_BT_PUT, RMA2_COMPLETER_NOTIFICATION, 0);
			fill(memory, BETWEEN, round);
			CHECK(memcmp(memory, memory + BETWEEN, BETWEEN) == 0);
			tell(&job, other, 1, round);
		}
	}
}

int main(void)
{
	RMA2_Notification *n = NULL;
	RMA2_ERROR result;
	double start;
	uint32_t round;
	int other;

	job = join_job();
	CHECK(job.size == 3);
	memory = (uint8_t *)allocate(ROOM);
	OK(rma2_register(job.port, memory, ROOM, &region));
	exchange(&job, nla_of(region, 0));
	if (job.me == VICTIM) {
		heard(&job, 0, DIE);
		raise(SIGKILL);
	}
	other = 2 - job.me;
	for (round = 0; round < ROUNDS; round++) {
		bother((int)round);
		if (round == 10 && job.me == 0)
			tell(&job, VICTIM, DIE, 0);
		exchange_with(other, round);
	}
	start = seconds();
	while (!told) {
		bother((int)round++);
		CHECK(seconds() - start < PATIENCE);
	}
	/* A get that was on its way either came or never will. */
	do {
		result = rma2_noti_match_block(job.port, RMA2_GETS, node_of(&job, VICTIM), vpid_of(&job, VICTIM),
					       RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA, 0, &n);
		if (result == RMA2_SUCCESS)
			OK(rma2_noti_free(job.port, n));
	} while (result == RMA2_SUCCESS);
	CHECK(result == RMA2_ERR_NO_ROUTE);
	exchange_with(other, ROUNDS);
	OK(rma2_unregister(job.port, region));
	OK(rma2_close(job.port));
	free(memory);
	return 0;
}
