/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Half round trips, as examples/hosts_latency of fpga-sim measures them: what both programs of hosts_*.c share. */
#ifndef HOSTS_H
#define HOSTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST (1 << 20)
#define ROUNDS_MAX 5000

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Rank 0 sends first, and says how long halves of round trips took. */
static void measure(const char *what, int rank, void (*send)(size_t), void (*take)(size_t))
{
	static const struct { size_t bytes; int rounds; } of[] = {
		{ 8, 5000 },	 { 64, 5000 },	 { 1024, 5000 }, { 4096, 5000 },
		{ 16384, 1500 }, { 32768, 1500 }, { 65536, 500 }, { 1 << 20, 50 },
	};
	static uint64_t took[ROUNDS_MAX];

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		size_t bytes = of[i].bytes;
		int rounds = of[i].rounds, warm = rounds / 10;

		for (int round = -warm; round < rounds; round++) {
			uint64_t begun = now_ns();

			if (rank == 0) {
				send(bytes);
				take(bytes);
			} else {
				take(bytes);
				send(bytes);
			}
			if (round >= 0)
				took[round] = now_ns() - begun;
		}
		qsort(took, (size_t)rounds, sizeof(*took), by_time);
		if (rank == 0)
			printf("%s %zu %.2f %.2f\n", what, bytes, (double)took[rounds / 2] / 2e3,
			       (double)took[rounds / 10] / 2e3);
	}
	if (rank == 0)
		fflush(stdout);
}

#endif
