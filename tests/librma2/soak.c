/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random commands among the processes of a job for some seconds (argument 1; argument 2: seed): puts and gets of 1
 * byte to 8 MiB at any alignment, immediate puts, notifications, locks. Every byte, every notification and every
 * lock operation is accounted for.
 *
 * Each process has a place for every peer's puts. A put is announced by a notification with its offset and size; its
 * completer notification says that it is there; the target compares every byte, and those around, and answers. So one
 * put at a time is on its way between two processes, beside everything else.
 */
#include "job.h"

#define ANNOUNCE 1
#define ANSWER 2
#define NUMBER 3
/* At the end: how many numbers, which immediate put was the last, how many locks, what the own lock holds. */
#define DONE 4
#define LAST 5
#define LOCKS 6
#define VALUE 7
#define GUARD 64u
#define PLACE (MAX_TRANSFER + PAGE + 2 * GUARD)
#define LOCK_MOST 0x7fffffff

enum { IDLE, PUT, GET, LOCK };

struct peer {
	/* What this process has on its way to the peer. */
	int busy;
	uint32_t size, offset;
	uint64_t sent_numbers, got_numbers, expected_numbers;
	uint64_t sent_last, got_last, locks, value;
	/* What the peer has announced. */
	uint64_t announced;
	/* Bits of the classes of the end that it has sent. */
	int done;
};

static struct job job;
static struct peer peers[MOST_PEERS];
static uint8_t *memory, *scratch, *pattern;
static RMA2_Region *region, *scratch_region, *pattern_region;
static RMA2_NLA places[MOST_PEERS], patterns[MOST_PEERS];
static uint64_t put_count, get_count, numbers, locks, bytes, immediates;
static uint64_t seed;

static uint32_t any(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % below;
}

/* Sizes of every order of magnitude. */
static uint32_t any_size(void)
{
	uint32_t order = any(24), size = any(1u << order) + 1 + (any(2) ? 1u << order >> 1 : 0);

	return any(200) == 0 ? MAX_TRANSFER : size > MAX_TRANSFER ? MAX_TRANSFER : size;
}

/* What process `from` puts; cheap to make and to compare, different at every place. */
static void content(uint8_t *at, uint32_t size, int from, uint32_t offset)
{
	uint32_t i, value = (uint32_t)from * 77773u + offset * 31u + size;

	for (i = 0; i < size; i++)
		at[i] = (uint8_t)((value + i) * 2654435761u >> 13);
}

static void start_put(int to)
{
	struct peer *p = &peers[to];
	int quadwords = any(2) == 0;

	p->size = any_size();
	p->offset = any(PAGE);
	if (quadwords) {
		p->size = (p->size + 7) & ~7u;
		p->offset &= ~7u;
	}
	p->busy = PUT;
	content(scratch + (size_t)to * PLACE + p->offset, p->size, job.me, p->offset);
	tell(&job, to, ANNOUNCE, (uint64_t)p->offset << 32 | p->size);
	if (quadwords)
		OK(rma2_post_put_qw(job.port, job.to[to], scratch_region, (uint32_t)to * PLACE + p->offset, p->size,
				    places[to] + (RMA2_NLA)job.me * PLACE + GUARD + p->offset,
				    RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	else
		OK(rma2_post_put_bt(job.port, job.to[to], scratch_region, (uint32_t)to * PLACE + p->offset, p->size,
				    places[to] + (RMA2_NLA)job.me * PLACE + GUARD + p->offset,
				    RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	put_count++;
	bytes += p->size;
}

/* The target's side of a put that has arrived. */
static void check_put(int from, RMA2_Notification *n)
{
	struct peer *p = &peers[from];
	uint32_t size = (uint32_t)p->announced, offset = (uint32_t)(p->announced >> 32), i;
	uint8_t *at = memory + (size_t)from * PLACE + GUARD + offset;
	RMA2_NLA start = nla_of(region, (size_t)from * PLACE + GUARD + offset);

	CHECK(size > 0 && rma2_noti_get_total_size(start, n) == size);
	content(pattern + MAX_TRANSFER + PAGE, size, from, offset);
	CHECK(memcmp(at, pattern + MAX_TRANSFER + PAGE, size) == 0);
	for (i = 1; i <= GUARD; i++)
		CHECK(at[-(int)i] == 0xcd && at[size + i - 1] == 0xcd);
	memset(at, 0xcd, size);
	p->announced = 0;
	tell(&job, from, ANSWER, size);
}

static void start_get(int from)
{
	struct peer *p = &peers[from];

	p->size = any_size();
	p->offset = any(PAGE);
	p->busy = GET;
	memset(scratch + (size_t)from * PLACE, 0xcd, p->size + 2 * GUARD);
	OK(rma2_post_get_bt(job.port, job.to[from], scratch_region, (uint32_t)from * PLACE + GUARD, p->size,
			    patterns[from] + p->offset, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	get_count++;
	bytes += p->size;
}

static void check_get(int from, RMA2_Notification *n)
{
	struct peer *p = &peers[from];
	uint8_t *at = scratch + (size_t)from * PLACE + GUARD;
	uint32_t i;

	CHECK(p->busy == GET);
	CHECK(rma2_noti_get_total_size(nla_of(scratch_region, (size_t)from * PLACE + GUARD), n) == p->size);
	for (i = 0; i < p->size; i++)
		CHECK(at[i] == (uint8_t)(((p->offset + i) * 2654435761u >> 11) + (uint32_t)from));
	for (i = 1; i <= GUARD; i++)
		CHECK(at[-(int)i] == 0xcd && at[p->size + i - 1] == 0xcd);
	p->busy = IDLE;
}

static void start(int to)
{
	struct peer *p = &peers[to];

	switch (any(8)) {
	case 0:
	case 1:
		start_put(to);
		break;
	case 2:
	case 3:
		start_get(to);
		break;
	case 4:
		OK(rma2_post_lock(job.port, job.to[to], 0, 1, LOCK_MOST, 1, RMA2_COMPLETER_NOTIFICATION,
				  RMA2_CMD_DEFAULT));
		p->busy = LOCK;
		locks++;
		break;
	case 5:
		/* A word that only this process writes: the last one stays. */
		p->sent_last = ++immediates;
		OK(rma2_post_immediate_put(job.port, job.to[to], 8, immediates,
					   places[to] + (RMA2_NLA)job.size * PLACE + 8 * (RMA2_NLA)job.me,
					   RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
		break;
	default:
		tell(&job, to, NUMBER, p->sent_numbers++);
		numbers++;
	}
}

static void handle_put(int from, RMA2_Notification *n)
{
	struct peer *p = &peers[from];
	uint64_t value = rma2_noti_get_notiput_payload(n);

	switch (rma2_noti_get_notiput_class(n)) {
	case ANNOUNCE:
		CHECK(p->announced == 0);
		p->announced = value;
		break;
	case ANSWER:
		CHECK(p->busy == PUT && p->size == value);
		p->busy = IDLE;
		break;
	case NUMBER:
		CHECK(value == p->got_numbers++);
		break;
	case DONE:
		p->expected_numbers = value;
		break;
	case LAST:
		p->got_last = value;
		break;
	case LOCKS:
		p->locks = value;
		break;
	case VALUE:
		p->value = value;
		break;
	default:
		CHECK(!"a class that nobody sends");
	}
	p->done |= 1 << rma2_noti_get_notiput_class(n);
}

static void handle(RMA2_Notification *n)
{
	int from = rma2_noti_get_remote_nodeid(n) * job.per_node + rma2_noti_get_remote_vpid(n);

	CHECK(from < job.size && from != job.me);
	CHECK(rma2_noti_get_error(n) == 0 && rma2_noti_get_notification_type(n) == RMA2_COMPLETER_NOTIFICATION);
	switch (rma2_noti_get_cmd(n)) {
	case RMA2_NOTIFICATION_PUT:
		handle_put(from, n);
		break;
	case RMA2_BT_PUT:
	case RMA2_QW_PUT:
		check_put(from, n);
		break;
	case RMA2_GET_BT_RSP:
	case RMA2_BT_GET:
		check_get(from, n);
		break;
	case RMA2_LOCK_RSP:
	case RMA2_LOCK_REQ:
		CHECK(peers[from].busy == LOCK && rma2_noti_get_lock_result(n) == 1);
		peers[from].busy = IDLE;
		break;
	default:
		CHECK(!"a command that nobody posts");
	}
}

/* All notifications that are there, or with `wait` the next one. */
static void serve(int wait)
{
	RMA2_Notification *n = NULL;

	while ((wait ? rma2_noti_get_block(job.port, &n) : rma2_noti_probe(job.port, &n)) == RMA2_SUCCESS) {
		handle(n);
		OK(rma2_noti_free(job.port, n));
		wait = 0;
	}
}

static int all_idle(void)
{
	int i, idle = 1;

	for (i = 0; i < job.size; i++)
		idle &= peers[i].busy == IDLE;
	return idle;
}

/* All peers have sent this class. */
static int all_sent(int mclass)
{
	int i, done = 1;

	for (i = 0; i < job.size; i++)
		done &= i == job.me || (peers[i].done >> mclass & 1);
	return done;
}

static void tell_all(unsigned int mclass, uint64_t value)
{
	int i;

	for (i = 0; i < job.size; i++)
		if (i != job.me)
			tell(&job, i, mclass, value);
}

static uint64_t own_lock(void)
{
	RMA2_Handle self = connect_to(job.port, job.port);
	RMA2_Notification *n = NULL;
	uint64_t value;

	OK(rma2_post_lock(job.port, self, 0, 1, LOCK_MOST, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_match_block(job.port, RMA2_ANY, rma2_get_nodeid(job.port), rma2_get_vpid(job.port),
				 RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA, 0, &n));
	value = rma2_noti_get_lock_value(n);
	OK(rma2_noti_free(job.port, n));
	OK(rma2_disconnect(job.port, self));
	return value;
}

/* Nothing is missing, and nothing too much. */
static void account(void)
{
	uint64_t operations = locks, values;
	int i;

	for (i = 0; i < job.size; i++)
		if (i != job.me) {
			tell(&job, i, DONE, peers[i].sent_numbers);
			tell(&job, i, LAST, peers[i].sent_last);
			tell(&job, i, LOCKS, locks);
		}
	while (!all_sent(LOCKS))
		serve(1);
	/* All have finished with all locks now. */
	values = own_lock();
	tell_all(VALUE, values);
	while (!all_sent(VALUE))
		serve(1);
	for (i = 0; i < job.size; i++) {
		uint64_t last;

		if (i == job.me)
			continue;
		memcpy(&last, memory + (size_t)job.size * PLACE + 8 * (size_t)i, sizeof last);
		CHECK(last == peers[i].got_last);
		CHECK(peers[i].got_numbers == peers[i].expected_numbers && peers[i].announced == 0);
		operations += peers[i].locks;
		values += peers[i].value;
	}
	CHECK(operations == values);
}

int main(int argc, char **argv)
{
	size_t room, i;
	double limit = argc > 1 ? atof(argv[1]) : 10, begin;
	int peer;

	job = join_job();
	seed = (argc > 2 ? strtoull(argv[2], NULL, 0) : 42) * 0x9e3779b97f4a7c15u + (uint64_t)job.me + 1;
	room = (size_t)job.size * PLACE + PAGE;
	memory = (uint8_t *)malloc(room);
	scratch = (uint8_t *)malloc(room);
	pattern = (uint8_t *)malloc(2 * (MAX_TRANSFER + PAGE));
	CHECK(memory && scratch && pattern);
	memset(memory, 0xcd, room);
	memset(memory + (size_t)job.size * PLACE, 0, PAGE);
	for (i = 0; i < MAX_TRANSFER + PAGE; i++)
		pattern[i] = (uint8_t)(((uint32_t)i * 2654435761u >> 11) + (uint32_t)job.me);
	OK(rma2_register(job.port, memory, room, &region));
	OK(rma2_register(job.port, scratch, room, &scratch_region));
	OK(rma2_register(job.port, pattern, MAX_TRANSFER + PAGE, &pattern_region));
	exchange(&job, nla_of(region, 0));
	memcpy(places, job.told, sizeof places);
	exchange(&job, nla_of(pattern_region, 0));
	memcpy(patterns, job.told, sizeof patterns);
	synchronise(&job);

	begin = seconds();
	while (seconds() - begin < limit) {
		for (peer = 0; peer < job.size; peer++)
			if (peer != job.me && peers[peer].busy == IDLE)
				start(peer);
		serve(0);
	}
	while (!all_idle())
		serve(1);
	account();
	no_more(job.port);
	printf("%d: %" PRIu64 " puts, %" PRIu64 " gets, %" PRIu64 " notifications, %" PRIu64 " locks, %" PRIu64
	       " immediate puts, %.1f MB\n",
	       job.me, put_count, get_count, numbers, locks, immediates, (double)bytes / 1e6);
	OK(rma2_close(job.port));
	free(memory);
	free(scratch);
	free(pattern);
	return 0;
}
