/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Full queues (spec 3.2), in one process or between the first and the last of a job: who posts is held back and told
 * so in bounded time, a slow consumer loses nothing, and one that takes nothing for longer than the card waits loses
 * what did not fit, which is counted. Both ports work on.
 */
#include "job.h"

/* Classes: one of many, the one that fills the queue, the last. */
#define PART 1
#define FULL 2
#define LATE 3
#define MARK 4
/* Class of the control port: the mark has been seen. */
#define DONE 5
/* Posts that a card keeps when the queue is full; many more are. */
#define MORE 30
/* The completer's count of notifications that found no room (spec 8.3). */
#define COUNTER 0x1601088
/* How long a card waits for room (spec 3.2): units of 100 ms, and whether it does. */
#define QUEUE_TIMEOUT 0x1600098
#define DRIVERS_LIMIT (UINT64_C(1) << 32 | 10)
/* Longer than the machine stands still. */
#define LONG_LIMIT (UINT64_C(1) << 32 | 10 * PATIENCE)

static struct job job;
static int origin, target;
/* The ports between which queues fill; the job's own are for talking about it. */
static RMA2_Port from, to;
static RMA2_Handle handle;
/* Of the queue; a card's has the size with which the driver opens it. */
static uint64_t entries;

static RMA2_ERROR post(unsigned int mclass, uint64_t value)
{
	return rma2_post_notification(from, handle, (RMA2_Class)mclass, value, RMA2_COMPLETER_NOTIFICATION,
				      RMA2_CMD_DEFAULT);
}

/*
 * Posts until it is told that there is no room. A card that waited out its time (spec 3.2) before the next post came takes
 * everything, and drops it: then twice what fits is enough.
 */
static uint64_t fill_up(unsigned int mclass, uint64_t value)
{
	uint64_t enough = value + 2 * entries;
	double start = seconds(), last = start, still = 0;
	RMA2_ERROR result;

	while ((result = post(mclass, value)) == RMA2_SUCCESS) {
		double now = seconds();

		still = now - last > still ? now - last : still;
		last = now;
		CHECK(now - start < PATIENCE);
		if (++value == enough) {
			/* The model's card waits as long as it should, unless this process or the target's stood still. */
			CHECK(on_card() || !target || still > 0.5);
			return value;
		}
	}
	CHECK(result == RMA2_ERR_POLL_EXCEEDED);
	return value;
}

/* Posts a number of them, however long there is no room. */
static void post_more(unsigned int mclass, uint64_t value, uint64_t end)
{
	double start = seconds();

	while (value < end) {
		RMA2_ERROR result = post(mclass, value);

		CHECK(result == RMA2_SUCCESS || result == RMA2_ERR_POLL_EXCEEDED);
		value += result == RMA2_SUCCESS;
		CHECK(seconds() - start < PATIENCE);
	}
}

/*
 * The next notification. A card may have rejected the last posts; they are written again when someone asks at their
 * port.
 */
static RMA2_Notification arrived(void)
{
	RMA2_Notification *n = NULL;

	while (origin && rma2_noti_probe(to, &n) != RMA2_SUCCESS)
		CHECK(rma2_noti_probe(from, &n) == RMA2_NO_NOTI);
	return next(to);
}

/* In order; up to the one that says how many there were. */
static void consume_all(void)
{
	RMA2_Notification n;
	uint64_t seen = 0;

	for (;; seen++) {
		n = arrived();
		CHECK(n.word0.value == seen);
		if (rma2_noti_get_notiput_class(&n) == MARK)
			return;
	}
}

/* In order, and complete, though nothing is consumed before the queue is full. */
static void slow(void)
{
	RMA2_Notification *n = NULL;
	uint64_t posted = 0;

	if (target)
		write_register(job.port, QUEUE_TIMEOUT, LONG_LIMIT);
	synchronise(&job);
	if (origin) {
		post_more(PART, 0, entries - 2);
		post_more(FULL, entries - 2, entries - 1);
		/*
		 * A consumer in another process begins as soon as it is full. A card holds a few more for as long as it
		 * waits, which may be over before the writer is held back.
		 */
		posted = target && !on_card() ? fill_up(PART, entries - 1) : entries - 1;
		if (target && on_card()) {
			post_more(PART, posted, posted + MORE);
			posted += MORE;
		}
	}
	if (target)
		OK(rma2_noti_noti_match_block(to, FULL, RMA2_NODEID_ANY, RMA2_VPID_ANY, &n));
	if (origin && target) {
		uint64_t seen;

		for (seen = 0; seen < posted; seen++)
			CHECK(arrived().word0.value == seen);
	} else if (origin) {
		post_more(PART, posted, posted + 5000);
		post_more(MARK, posted + 5000, posted + 5001);
		rma2_replay_buffer_drain(from);
	} else {
		consume_all();
	}
	no_more(to);
	if (target)
		write_register(job.port, QUEUE_TIMEOUT, DRIVERS_LIMIT);
	synchronise(&job);
}

/* Reads the counter of the own node. */
static uint64_t dropped(void)
{
	static RMA2_Region *region;
	static uint64_t *word;
	RMA2_Handle self = NULL;
	RMA2_Notification *n = NULL;

	if (!word) {
		word = (uint64_t *)allocate(PAGE);
		OK(rma2_register(job.port, word, PAGE, &region));
	}
	OK(rma2_connect(job.port, rma2_get_nodeid(job.port), rma2_get_vpid(job.port),
			(RMA2_Connection_Options)(RMA2_CONN_TE | RMA2_CONN_RRA), &self));
	OK(rma2_post_get_qw(job.port, self, region, 0, 8, COUNTER, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_match_block(job.port, RMA2_GETS, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION,
				 RMA2_ANY_NLA, 0, &n));
	OK(rma2_noti_free(job.port, n));
	OK(rma2_disconnect(job.port, self));
	return *(volatile uint64_t *)word & 0x7fff;
}

/* What fitted is there, in order; what comes when there is room again arrives. */
static void late(void)
{
	double start = seconds(), marked = 0;
	uint64_t value = 0;

	if (origin) {
		/* One that stands still for longer than a post waits is told so although there is room. */
		post_more(LATE, 0, entries + 1);
		fill_up(LATE, entries + 1);
	}
	if (target) {
		while (dropped() == 0)
			CHECK(seconds() - start < PATIENCE);
		for (value = 0; value < entries - 1; value++) {
			uint64_t found = arrived().word0.value;

			if (found != value)
				fprintf(stderr, "%" PRIu64 " in place of %" PRIu64 "\n", found, value);
			CHECK(found == value);
		}
		value--;
	}
	for (;;) {
		RMA2_Notification *n = NULL;

		if (origin && seconds() - marked > 0.01 && post(MARK, 0) == RMA2_SUCCESS)
			marked = seconds();
		if (target && rma2_noti_probe(to, &n) == RMA2_SUCCESS) {
			if (rma2_noti_get_notiput_class(n) == MARK) {
				tell(&job, 0, DONE, 0);
				break;
			}
			/* Later ones than those that are there; some in between are missing. */
			CHECK(rma2_noti_get_notiput_payload(n) > value);
			value = rma2_noti_get_notiput_payload(n);
			OK(rma2_noti_free(to, n));
		}
		if (origin && !target &&
		    rma2_noti_noti_match(job.port, DONE, RMA2_NODEID_ANY, RMA2_VPID_ANY, &n) == RMA2_SUCCESS)
			break;
		CHECK(seconds() - start < 2 * PATIENCE);
	}
	synchronise(&job);
}

int main(void)
{
	setenv("EXTOLL_POST_TIMEOUT", "0.05", 1);
	job = join_job();
	origin = job.me == 0;
	target = job.me == job.size - 1;
	from = open_port();
	to = open_port();
	if (!on_card()) {
		OK(rma2_set_queue_segment_size(to, PAGE));
		OK(rma2_set_queue_size(to, PAGE));
	}
	entries = rma2_get_queue_size(to) / 16;
	exchange(&job, rma2_get_vpid(to));
	OK(rma2_connect(from, node_of(&job, job.size - 1), (RMA2_VPID)job.told[job.size - 1], RMA2_CONN_DEFAULT,
			&handle));
	slow();
	late();
	OK(rma2_close(from));
	OK(rma2_close(to));
	OK(rma2_close(job.port));
	return 0;
}
