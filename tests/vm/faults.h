/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests of page faults: how many are taken by threads that touch the same pages again and again, as the kernel counts. */
#ifndef VM_FAULTS_H
#define VM_FAULTS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "port.h"

#define FAULT_BYTES	(2ul << 20)	/* that one fault maps at most: a block of addresses */
#define TOUCH_THREADS	4
#define RACES		3
#define OTHER_FAULTS	1000		/* a thread's stack, a program's pages: of something else, at most */

struct touches {
	volatile uint64_t *at;
	size_t bytes;
	int stores, rounds;
	long blocks;			/* in which the mapping lies */
	pthread_barrier_t together;
	atomic_int left;		/* threads that are not done */
	atomic_int more;		/* threads that took more faults than one for a block */
	atomic_long first;		/* faults of all threads' first rounds */
};

static inline long faults(int who)
{
	struct rusage usage;

	CHECK(getrusage(who, &usage) == 0);
	return usage.ru_minflt;
}

/* Faults of this thread for a word of each page. What is stored was there. */
static inline long faults_of(volatile uint64_t *at, size_t bytes, int stores)
{
	long before = faults(RUSAGE_THREAD);

	for (size_t i = 0; i < bytes / sizeof(*at); i += PAGE / sizeof(*at)) {
		uint64_t word = at[i];

		if (stores)
			at[i] = word;
	}
	return faults(RUSAGE_THREAD) - before;
}

/* Every thread finds a block mapped or takes one fault for it, and when all have been there nobody takes another. */
static inline void *touch(void *arg)
{
	volatile uint64_t own[PAGE / sizeof(uint64_t)];
	struct touches *touches = arg;
	long first, again = 0;

	own[0] = 0;
	faults_of(own, PAGE, 1);	/* pages of this code */
	pthread_barrier_wait(&touches->together);
	first = faults_of(touches->at, touches->bytes, touches->stores);
	pthread_barrier_wait(&touches->together);
	for (int round = 1; round < touches->rounds; round++)
		again += faults_of(touches->at, touches->bytes, touches->stores);
	if (first > touches->blocks || again)
		printf("%ld faults at first for %ld blocks, then %ld\n", first, touches->blocks, again);
	CHECK(again == 0);
	touches->more += first > touches->blocks;
	touches->first += first;
	touches->left--;
	return NULL;
}

/* Whether no thread took more faults than one for a block. */
static inline int touch_by(int threads, int fd, uint64_t offset, size_t bytes, int stores, int rounds)
{
	struct touches touches = { .at = map(fd, offset, bytes), .bytes = bytes, .stores = stores, .rounds = rounds };
	uintptr_t start = (uintptr_t)touches.at;
	long before = faults(RUSAGE_SELF), most;
	pthread_t thread[TOUCH_THREADS];

	CHECK(touches.at != MAP_FAILED);
	touches.blocks = (start + bytes - 1) / FAULT_BYTES - start / FAULT_BYTES + 1;
	touches.left = threads;
	CHECK(pthread_barrier_init(&touches.together, NULL, threads) == 0);
	for (int i = 0; i < threads; i++)
		CHECK(pthread_create(&thread[i], NULL, touch, &touches) == 0);
	/* A thread whose faults map nothing never comes to its end. */
	most = threads * touches.blocks + OTHER_FAULTS;
	while (touches.left) {
		CHECK(faults(RUSAGE_SELF) - before <= most);
		usleep(1000);
	}
	for (int i = 0; i < threads; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	/* One alone takes neither more nor less. */
	CHECK(touches.first >= touches.blocks);
	munmap((void *)touches.at, bytes);
	return !touches.more;
}

/*
 * A mapping's pages, touched by one thread and by several at once, `rounds` times: a fault costs once for a page, and
 * once for all in its block. Of several threads one may find that another has just mapped the page it has a fault for,
 * and not yet the rest: it overtakes the other and takes a second fault there. That does not happen RACES times running.
 */
static inline void fault_once(int fd, uint64_t offset, size_t bytes, int stores, int rounds)
{
	int left = RACES;

	CHECK(touch_by(1, fd, offset, bytes, stores, rounds));
	while (!touch_by(TOUCH_THREADS, fd, offset, bytes, stores, rounds))
		CHECK(--left);
}

#endif /* VM_FAULTS_H */
