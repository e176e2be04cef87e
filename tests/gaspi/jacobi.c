/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Jacobi's iteration on a grid whose rows the ranks share, and which goes on when a rank dies.
 *
 *	jacobi SEED [MICROSECONDS]
 *
 * The seed says which rank kills itself, and when: up to so many microseconds after the start. All waits are without a limit.
 * Every few iterations each rank writes its rows to the next one. When a rank has died, those that live make a group, share
 * the rows among themselves, and go on from the last copy that all have. In the end the field is that of one process, bit for
 * bit.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define ROWS 66
#define COLUMNS 24
#define PLANE (ROWS * COLUMNS)
#define ITERATIONS 400
/* More than ranks: who is ahead of others by a copy has overwritten none that these need. */
#define EVERY 10
#define RANKS 8

/* Notifications of a field: of a halo by side and parity, of rows by sender, that all is over. */
#define HALO 0
#define MOVED 8
#define GATHERED 32
#define OVER 64

/* What fails when a rank dies; where, for whoever reads of a run that has gone wrong. */
#define TRY(call)                                                                        \
	do {                                                                             \
		gaspi_return_t got_ = (call);                                            \
		if (got_ != GASPI_SUCCESS) {                                             \
			fprintf(stderr, "%s:%d: %d\n", __FILE__, __LINE__, (int)got_);   \
			return 0;                                                        \
		}                                                                        \
	} while (0)

#define PART(of)                  \
	do {                      \
		if (!(of))        \
			return 0; \
	} while (0)

/* Those that live, and how they share the rows between the first and the last. */
struct team {
	gaspi_group_t group;
	int count, at;
	gaspi_rank_t ranks[RANKS];
};

struct run {
	struct team team;
	/* Of this generation: two planes; and copies, of own rows and of those of the rank before, by parity. */
	gaspi_segment_id_t field, copies;
	int generation;
	/* The last copy that all have; -1: none. */
	int copy;
	int iteration;
};

static double field_of_one[2 * PLANE];

static void begin_field(double *field)
{
	int row, column;

	for (row = 0; row < ROWS; row++)
		for (column = 0; column < COLUMNS; column++)
			field[row * COLUMNS + column] = field[PLANE + row * COLUMNS + column] =
				row == 0 ? 1.0 + column * 0.37 : row == ROWS - 1 ? -3.1 : column * column % 7 * 0.11;
}

/* Rows [from, to) of the plane of the iteration, from those of the other plane. */
static void sweep(double *field, int iteration, int from, int to)
{
	const double *old = field + iteration % 2 * PLANE;
	double *new_ = field + (iteration + 1) % 2 * PLANE;
	int row, column;

	for (row = from; row < to; row++)
		for (column = 1; column < COLUMNS - 1; column++) {
			const double *at = old + row * COLUMNS + column;

			new_[row * COLUMNS + column] = 0.25 * (((at[-1] + at[1]) + at[-COLUMNS]) + at[COLUMNS]);
		}
}

static int first_row(const struct team *team, int at)
{
	return 1 + (ROWS - 2) * at / team->count;
}

static int owner_of(const struct team *team, int row)
{
	int at = 0;

	while (row >= first_row(team, at + 1))
		at++;
	return at;
}

static gaspi_offset_t place(int plane, int row)
{
	return ((gaspi_offset_t)plane * PLANE + (gaspi_offset_t)row * COLUMNS) * sizeof(double);
}

static double *doubles(gaspi_segment_id_t segment)
{
	return (double *)(void *)memory_of(segment);
}

static int notification(gaspi_segment_id_t segment, gaspi_notification_id_t id, gaspi_notification_t expected)
{
	gaspi_notification_id_t first = 0;
	gaspi_notification_t value = 0;

	TRY(gaspi_notify_waitsome(segment, id, 1, &first, GASPI_BLOCK));
	OK(gaspi_notify_reset(segment, id, &value));
	CHECK(value == expected);
	return 1;
}

static int exchange(struct run *run)
{
	const struct team *team = &run->team;
	int plane = run->iteration % 2, side;
	int rows[2] = { first_row(team, team->at), first_row(team, team->at + 1) - 1 };

	for (side = 0; side < 2; side++) {
		int other = team->at + (side ? 1 : -1);

		if (other < 0 || other == team->count)
			continue;
		/* It comes from the other side of that one. */
		TRY(gaspi_write_notify(run->field, place(plane, rows[side]), team->ranks[other], run->field,
				       place(plane, rows[side]), COLUMNS * sizeof(double),
				       (gaspi_notification_id_t)(HALO + 2 * !side + plane),
				       (gaspi_notification_t)run->iteration + 1, 0, GASPI_BLOCK));
	}
	for (side = 0; side < 2; side++)
		if (side ? team->at + 1 < team->count : team->at > 0)
			PART(notification(run->field, (gaspi_notification_id_t)(HALO + 2 * side + plane),
					  (gaspi_notification_t)run->iteration + 1));
	TRY(gaspi_wait(0, GASPI_BLOCK));
	return 1;
}

static int save(struct run *run)
{
	const struct team *team = &run->team;
	int number = run->iteration / EVERY, from = first_row(team, team->at), to = first_row(team, team->at + 1);
	size_t bytes = (size_t)(to - from) * COLUMNS * sizeof(double);
	gaspi_rank_t next = team->ranks[(team->at + 1) % team->count];

	memcpy(doubles(run->copies) + number % 2 * PLANE + from * COLUMNS,
	       doubles(run->field) + run->iteration % 2 * PLANE + from * COLUMNS, bytes);
	TRY(gaspi_write_notify(run->copies, place(number % 2, from), next, run->copies, place(2 + number % 2, from), bytes,
			       (gaspi_notification_id_t)number % 2, (gaspi_notification_t)number + 1, 1, GASPI_BLOCK));
	PART(notification(run->copies, (gaspi_notification_id_t)number % 2, (gaspi_notification_t)number + 1));
	TRY(gaspi_wait(1, GASPI_BLOCK));
	TRY(gaspi_barrier(team->group, GASPI_BLOCK));
	run->copy = number;
	return 1;
}

/* Tells all others that the field was right, so that none waits for those that end. */
static void finish(struct run *run)
{
	const struct team *team = &run->team;
	int other;

	for (other = 0; other < team->count; other++)
		if (other != team->at)
			OK(gaspi_notify(run->field, team->ranks[other], OVER, 1, 2, GASPI_BLOCK));
	OK(gaspi_queue_purge(2, GASPI_BLOCK));
	OK(gaspi_proc_term(GASPI_BLOCK));
	exit(0);
}

static int gather(struct run *run)
{
	const struct team *team = &run->team;
	int plane = ITERATIONS % 2, from = first_row(team, team->at), to = first_row(team, team->at + 1), other;

	if (team->at > 0) {
		TRY(gaspi_write_notify(run->field, place(plane, from), team->ranks[0], run->field, place(plane, from),
				       (gaspi_size_t)(to - from) * COLUMNS * sizeof(double),
				       (gaspi_notification_id_t)(GATHERED + team->at), 1, 0, GASPI_BLOCK));
		TRY(gaspi_wait(0, GASPI_BLOCK));
		PART(notification(run->field, OVER, 1));
		return 1;
	}
	for (other = 1; other < team->count; other++)
		PART(notification(run->field, (gaspi_notification_id_t)(GATHERED + other), 1));
	CHECK(!memcmp(doubles(run->field) + plane * PLANE, field_of_one + plane * PLANE, PLANE * sizeof(double)));
	printf("the field is right, of %d ranks in generation %d\n", team->count, run->generation);
	fflush(stdout);
	return 1;
}

static int go_on(struct run *run)
{
	for (; run->iteration < ITERATIONS; run->iteration++) {
		if (run->iteration % EVERY == 0 && !save(run))
			return 0;
		if (!exchange(run))
			return 0;
		sweep(doubles(run->field), run->iteration, first_row(&run->team, run->team.at),
		      first_row(&run->team, run->team.at + 1));
	}
	return gather(run);
}

static int make_segments(struct run *run)
{
	TRY(gaspi_segment_create(run->field, 2 * PLANE * sizeof(double), run->team.group, GASPI_BLOCK,
				 GASPI_MEM_INITIALIZED));
	TRY(gaspi_segment_create(run->copies, 4 * PLANE * sizeof(double), run->team.group, GASPI_BLOCK,
				 GASPI_MEM_INITIALIZED));
	begin_field(doubles(run->field));
	TRY(gaspi_barrier(run->team.group, GASPI_BLOCK));
	return 1;
}

/* Sends the rows that one rank of the old team had, from a plane of the copies, to those that have them now. */
static int move(const struct run *old, const struct run *run, int at, int plane)
{
	int row;

	for (row = first_row(&old->team, at); row < first_row(&old->team, at + 1); row++)
		TRY(gaspi_write(old->copies, place(plane, row), run->team.ranks[owner_of(&run->team, row)], run->field,
				place(run->iteration % 2, row), COLUMNS * sizeof(double), 0, GASPI_BLOCK));
	return 1;
}

static int restore(const struct run *old, struct run *run, const gaspi_state_t *states)
{
	int before = (old->team.at + old->team.count - 1) % old->team.count, other, own = old->copy, least = own;

	TRY(gaspi_allreduce(&own, &least, 1, GASPI_OP_MIN, GASPI_TYPE_INT, run->team.group, GASPI_BLOCK));
	CHECK(own - least <= 1);
	PART(make_segments(run));
	if (least < 0)
		return 1;
	run->iteration = least * EVERY;
	PART(move(old, run, old->team.at, least % 2));
	if (states[old->team.ranks[before]] == GASPI_STATE_CORRUPT)
		PART(move(old, run, before, 2 + least % 2));
	for (other = 0; other < run->team.count; other++)
		TRY(gaspi_notify(run->field, run->team.ranks[other], (gaspi_notification_id_t)(MOVED + run->team.at), 1, 0,
				 GASPI_BLOCK));
	for (other = 0; other < run->team.count; other++)
		PART(notification(run->field, (gaspi_notification_id_t)(MOVED + other), 1));
	TRY(gaspi_wait(0, GASPI_BLOCK));
	return 1;
}

/* Whether a rank has told that the field was right. It has where the others have ended. */
static int is_over(const struct run *run, gaspi_timeout_t timeout)
{
	gaspi_notification_id_t first;

	return gaspi_notify_waitsome(run->field, OVER, 1, &first, timeout) == GASPI_SUCCESS;
}

/* The next generation: without those that have died. */
static struct run without_the_dead(struct run *old)
{
	struct run run;
	gaspi_state_t states[RANKS];
	gaspi_queue_id_t queue;
	int at, tries;

	memset(&run, 0, sizeof(run));
	run.generation = old->generation + 1;
	run.copy = -1;
	/* Another rank may have told of it before this one has noticed. */
	for (tries = 0; run.team.count == 0 || run.team.count == old->team.count; tries++) {
		run.team.count = 0;
		CHECK(tries < 1000000);
		OK(gaspi_state_vec_get(states));
		for (at = 0; at < old->team.count; at++) {
			if (at == old->team.at)
				run.team.at = run.team.count;
			if (states[old->team.ranks[at]] != GASPI_STATE_CORRUPT)
				run.team.ranks[run.team.count++] = old->team.ranks[at];
		}
		if (run.team.count == old->team.count && is_over(old, GASPI_TEST))
			finish(old);
	}
	for (queue = 0; queue < 2; queue++)
		OK(gaspi_queue_purge(queue, GASPI_BLOCK));
	run.field = (gaspi_segment_id_t)(2 * run.generation);
	run.copies = (gaspi_segment_id_t)(2 * run.generation + 1);
	OK(gaspi_group_create(&run.team.group));
	for (at = 0; at < run.team.count; at++)
		OK(gaspi_group_add(run.team.group, run.team.ranks[at]));
	while (gaspi_group_commit(run.team.group, 100) != GASPI_SUCCESS)
		if (is_over(old, GASPI_TEST))
			finish(old);
	if (!restore(old, &run, states)) {
		CHECK(is_over(old, MINUTE));
		finish(old);
	}
	/* The rank may have died before they were there. */
	(void)gaspi_segment_delete(old->field);
	(void)gaspi_segment_delete(old->copies);
	return run;
}

static void *killer(void *delay)
{
	long microseconds = *(long *)delay;
	struct timespec time = { microseconds / 1000000, microseconds % 1000000 * 1000 };

	nanosleep(&time, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}

static void hangs(int signal)
{
	static const char text[] = "jacobi: a rank hangs\n";

	(void)signal;
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(3);
}

/* SplitMix64. */
static uint64_t drawn(uint64_t *state)
{
	uint64_t value = *state += 0x9e3779b97f4a7c15u;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, state = seed, most;
	static long delay;
	struct run run;
	gaspi_config_t config;
	struct job job;
	pthread_t thread;
	int at;

	memset(&run, 0, sizeof(run));
	run.copies = 1;
	run.copy = -1;
	signal(SIGALRM, hangs);
	alarm(120);
	OK(gaspi_config_get(&config));
	config.sn_timeout = 1000;
	OK(gaspi_config_set(config));
	begin_field(field_of_one);
	for (at = 0; at < ITERATIONS; at++)
		sweep(field_of_one, at, 1, ROWS - 1);
	job = begin();
	CHECK(job.ranks > 1 && job.ranks <= RANKS);
	at = (int)(drawn(&state) % job.ranks);
	/* Early moments are as likely as late ones, however quick the machine is: up to a second. */
	most = argc > 2 ? strtoul(argv[2], NULL, 0) : (uint64_t)1024 << drawn(&state) % 11;
	delay = (long)(drawn(&state) % most);
	if (at == job.me) {
		printf("seed %lu: rank %d dies after %ld us\n", (unsigned long)seed, at, delay);
		fflush(stdout);
		CHECK(!pthread_create(&thread, NULL, killer, &delay));
	}
	run.team.count = job.ranks;
	run.team.at = job.me;
	for (at = 0; at < job.ranks; at++)
		run.team.ranks[at] = (gaspi_rank_t)at;
	if (!make_segments(&run) || !go_on(&run)) {
		run = without_the_dead(&run);
		CHECK(go_on(&run));
	}
	finish(&run);
	return 1;
}
