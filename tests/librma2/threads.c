/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Any thread posts while one consumes; waits sleep, end when the port closes, and are bounded. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define POSTERS 4
#define POSTS 5000

static RMA2_Port sender, receiver;
static RMA2_Handle handle;

static void *post(void *argument)
{
	uint64_t me = (uint64_t)(uintptr_t)argument, i;

	for (i = 0; i < POSTS; i++)
		OK(rma2_post_notification(sender, handle, (RMA2_Class)me, i, RMA2_COMPLETER_NOTIFICATION,
					  RMA2_CMD_DEFAULT));
	return NULL;
}

/* Each thread's notifications arrive complete and in its order. */
static void many_posters(void)
{
	pthread_t threads[POSTERS];
	uint64_t seen[POSTERS] = { 0 };
	uintptr_t i;

	for (i = 0; i < POSTERS; i++)
		CHECK(pthread_create(&threads[i], NULL, post, (void *)i) == 0);
	for (i = 0; i < POSTERS * POSTS; i++) {
		RMA2_Notification n = next(receiver);
		unsigned int from = rma2_noti_get_notiput_class(&n);

		CHECK(from < POSTERS && n.word0.value == seen[from]++);
	}
	for (i = 0; i < POSTERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	no_more(receiver);
}

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *wait_one(void *argument)
{
	RMA2_Notification *n = NULL;
	RMA2_ERROR *result = (RMA2_ERROR *)argument;

	*result = rma2_noti_get_block((RMA2_Port)receiver, &n);
	if (*result == RMA2_SUCCESS)
		OK(rma2_noti_free(receiver, n));
	return NULL;
}

/*
 * A thread that waits uses no processor, and is woken by the notification. On a busy host a guest counts what the others
 * take as its own, but not each time.
 */
static void sleeping(void)
{
	struct timespec half = { 0, 500000000 };
	double used = 1, start, waited = 0;
	pthread_t thread;
	RMA2_ERROR result = RMA2_ERR_ERROR;
	int times;

	CHECK(pthread_create(&thread, NULL, wait_one, &result) == 0);
	for (times = 0; times < 20 && used >= waited / 5; times++) {
		nanosleep(&half, NULL);
		used = -cpu_seconds();
		start = seconds();
		nanosleep(&half, NULL);
		used += cpu_seconds();
		waited = seconds() - start;
		printf("waiting for %.1f s used %.1f ms of the processor\n", waited, used * 1e3);
	}
	CHECK(used < waited / 5);
	OK(rma2_post_notification(sender, handle, 1, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	CHECK(pthread_join(thread, NULL) == 0 && result == RMA2_SUCCESS);
}

/* In a process of its own: the limit is that of all its waits. */
static void bounded(void)
{
	RMA2_Notification *n = NULL;
	pid_t child = fork();
	int status = -1;

	CHECK(child >= 0);
	if (child == 0) {
		RMA2_Port port;
		double start;

		setenv("EXTOLL_WAIT_TIMEOUT", "2", 1);
		port = open_port();
		start = seconds();
		GIVES(RMA2_ERR_POLL_EXCEEDED, rma2_noti_get_block(port, &n));
		CHECK(n == NULL && seconds() - start >= 1.9);
		GIVES(RMA2_ERR_POLL_EXCEEDED,
		      rma2_noti_noti_match_block(port, 9, RMA2_NODEID_ANY, RMA2_VPID_ANY, &n));
		OK(rma2_close(port));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void closed(void)
{
	struct timespec little = { 0, 100000000 };
	pthread_t thread;
	RMA2_ERROR result = RMA2_SUCCESS;
	double start;

	CHECK(pthread_create(&thread, NULL, wait_one, &result) == 0);
	nanosleep(&little, NULL);
	start = seconds();
	OK(rma2_close(receiver));
	CHECK(pthread_join(thread, NULL) == 0 && result == RMA2_ERR_INV_PORT);
	/* Woken, and not because its own time was over. */
	CHECK(seconds() - start < PATIENCE / 2);
}

/* Ports are closed while other threads post on them: a result, whatever it is, and no crash. */
static RMA2_Port volatile shared;

static void *hammer(void *argument)
{
	long *count = (long *)argument;

	for (;;) {
		RMA2_Port port = shared;
		RMA2_Handle self = NULL;

		if (!port)
			return NULL;
		if (rma2_connect(port, 0, 0, RMA2_CONN_DEFAULT, &self) == RMA2_SUCCESS &&
		    rma2_post_notification(port, self, 1, 1, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT) == RMA2_SUCCESS)
			(*count)++;
		rma2_disconnect(port, self);
	}
}

static void close_races(void)
{
	pthread_t threads[2];
	long counts[2] = { 0, 0 };
	int i;

	shared = open_port();
	for (i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, hammer, &counts[i]) == 0);
	for (i = 0; i < 300; i++) {
		RMA2_Port old = shared;

		shared = open_port();
		OK(rma2_close(old));
	}
	OK(rma2_close(shared));
	shared = NULL;
	for (i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	printf("%ld posts beside 300 closes\n", counts[0] + counts[1]);
}

int main(void)
{
	bounded();
	sender = open_port();
	receiver = open_port();
	handle = connect_to(sender, receiver);
	many_posters();
	sleeping();
	closed();
	OK(rma2_close(sender));
	close_races();
	return 0;
}
