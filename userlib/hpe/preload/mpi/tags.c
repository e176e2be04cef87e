/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tags.h"

#include <pthread.h>
#include <stdint.h>

enum { PAIRS = 32768 / 2, WORD = 64 };

static uint64_t taken[PAIRS / WORD];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* By turns: the parts of one that ended just now may still be on their way. */
static unsigned next;

int hpe_mpi_take_tag(void)
{
	int tag = -1;

	pthread_mutex_lock(&lock);
	for (unsigned tried = 0; tried < PAIRS && tag < 0; tried++, next = (next + 1) % PAIRS) {
		if (taken[next / WORD] >> next % WORD & 1)
			continue;
		taken[next / WORD] |= UINT64_C(1) << next % WORD;
		tag = 2 * (int)next;
	}
	pthread_mutex_unlock(&lock);
	return tag;
}

void hpe_mpi_return_tag(int tag)
{
	unsigned pair = (unsigned)tag / 2;

	pthread_mutex_lock(&lock);
	taken[pair / WORD] &= ~(UINT64_C(1) << pair % WORD);
	pthread_mutex_unlock(&lock);
}
