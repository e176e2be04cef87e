/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the programs of this folder share: checks that end a program, and the ranks of the job.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "GASPI.h"
#include "GASPI_Ext.h"

/* A job that hangs ends after a minute, with the line of the call. */
#define MINUTE ((gaspi_timeout_t)60000)

#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

#define GIVES(code, call)                                                                  \
	do {                                                                               \
		gaspi_return_t got_ = (call);                                              \
		if (got_ != (code)) {                                                      \
			fprintf(stderr, "%s:%d: %s gives %d (%s), not %s\n", __FILE__, __LINE__, #call, \
				(int)got_, gaspi_error_str(got_), #code);                  \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#define OK(call) GIVES(GASPI_SUCCESS, call)

struct job {
	gaspi_rank_t me, ranks;
};

static inline struct job job_of(void)
{
	struct job job;

	OK(gaspi_proc_rank(&job.me));
	OK(gaspi_proc_num(&job.ranks));
	return job;
}

static inline struct job begin(void)
{
	OK(gaspi_proc_init(MINUTE));
	return job_of();
}

static inline void end(void)
{
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(gaspi_proc_term(MINUTE));
}

static inline unsigned char *memory_of(gaspi_segment_id_t segment)
{
	gaspi_pointer_t pointer = NULL;

	OK(gaspi_segment_ptr(segment, &pointer));
	return (unsigned char *)pointer;
}

/* Waits for a notification, takes it, and returns its value. */
static inline gaspi_notification_t notified(gaspi_segment_id_t segment, gaspi_notification_id_t id)
{
	gaspi_notification_id_t first = id + 1;
	gaspi_notification_t value = 0;

	OK(gaspi_notify_waitsome(segment, id, 1, &first, MINUTE));
	CHECK(first == id);
	OK(gaspi_notify_reset(segment, id, &value));
	CHECK(value != 0);
	return value;
}

#endif /* COMMON_H */
