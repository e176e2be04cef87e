/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests share: a failed check says where, and ends the program with 1. */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "rma2.h"

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

/* The call gives exactly this result. */
#define GIVES(result, call)                                                                                    \
	do {                                                                                                   \
		RMA2_ERROR given_ = (RMA2_ERROR)(call);                                                        \
		if (given_ != (RMA2_ERROR)(result)) {                                                          \
			char text_[400];                                                                       \
			rma2_serror(given_, text_, (int)sizeof text_);                                         \
			fprintf(stderr, "%s:%d: %s gave %d (%s), not %d\n", __FILE__, __LINE__, #call, given_, \
				text_, (int)(result));                                                         \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

#define OK(call) GIVES(RMA2_SUCCESS, call)

/* A sanitizer has the allocator, and what leads to it. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define MAX_TRANSFER (8u << 20)
#define PAYLOAD 496u
#define PAGE 4096u

/* Seconds for what has to come, on a machine that is busy or stands still for a while; nothing is to take so long. */
#define PATIENCE 60

/* The node is a card that others use too, not a model of its own. */
static inline int on_card(void)
{
	const char *device = getenv("EXTOLL_DEVICE");

	return device && strcmp(device, "hw") == 0;
}

static inline RMA2_Port open_port(void)
{
	RMA2_Port port = NULL;

	OK(rma2_open(&port));
	return port;
}

static inline RMA2_Handle connect_with(RMA2_Port port, RMA2_Port to, unsigned int options)
{
	RMA2_Handle handle = NULL;

	OK(rma2_connect(port, rma2_get_nodeid(to), rma2_get_vpid(to), (RMA2_Connection_Options)options, &handle));
	return handle;
}

static inline RMA2_Handle connect_to(RMA2_Port port, RMA2_Port to)
{
	return connect_with(port, to, RMA2_CONN_DEFAULT);
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The next of these signals; who is stopped and goes on meanwhile has not had one. */
static inline int wait_for_signal(const sigset_t *signals, time_t most)
{
	struct timespec limit = { 0, 0 };
	int number;

	limit.tv_sec = most;
	do
		number = sigtimedwait(signals, NULL, &limit);
	while (number < 0 && errno == EINTR);
	return number;
}

/* Memory of the process in use. From the first call on in small pages only: a huge one that the kernel chooses to give looks
 * like 2 MiB of growth. */
static inline long resident_kib(void)
{
	long resident = 0;
	FILE *file;

	CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	file = fopen("/proc/self/statm", "r");
	CHECK(file && fscanf(file, "%*s %ld", &resident) == 1);
	fclose(file);
	return resident * (long)(PAGE / 1024);
}

/* The next notification, freed; waits for it. */
static inline RMA2_Notification next(RMA2_Port port)
{
	RMA2_Notification *notification = NULL, copy;

	OK(rma2_noti_get_block(port, &notification));
	OK(rma2_noti_dup(notification, &copy));
	OK(rma2_noti_free(port, notification));
	return copy;
}

/* The next notification is of this kind, and has no error. */
static inline RMA2_Notification next_of(RMA2_Port port, RMA2_Notification_Spec kind)
{
	RMA2_Notification notification = next(port);

	if (rma2_noti_get_notification_type(&notification) != kind || rma2_noti_get_error(&notification) != 0) {
		rma2_noti_fdump(&notification, stderr);
		CHECK(!"a notification of another kind, or with an error");
	}
	return notification;
}

/* Nothing more arrives. */
static inline void no_more(RMA2_Port port)
{
	RMA2_Notification *notification = NULL;
	int round;

	for (round = 0; round < 200; round++) {
		if (rma2_noti_probe(port, &notification) != RMA2_NO_NOTI) {
			rma2_noti_fdump(notification, stderr);
			CHECK(!"one notification too many");
		}
	}
}

static inline void fill(void *bytes, size_t size, uint32_t seed)
{
	uint8_t *at = (uint8_t *)bytes;
	size_t i;

	for (i = 0; i < size; i++) {
		seed = seed * 1664525u + 1013904223u;
		at[i] = (uint8_t)(seed >> 24);
	}
}

static inline void *allocate(size_t size)
{
	void *memory = NULL;

	CHECK(posix_memalign(&memory, PAGE, size) == 0);
	memset(memory, 0, size);
	return memory;
}

/* Writes a register of the port's own node; for who may. */
static inline void write_register(RMA2_Port port, RMA2_NLA at, uint64_t value)
{
	RMA2_Handle self = connect_with(port, port, RMA2_CONN_TE | RMA2_CONN_RRA);
	RMA2_Notification *n = NULL;

	OK(rma2_post_immediate_put(port, self, 8, value, at, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_match_block(port, RMA2_IMMEDIATE_PUT, rma2_get_nodeid(port), rma2_get_vpid(port),
				 RMA2_REQUESTER_NOTIFICATION, RMA2_ANY_NLA, 0, &n));
	OK(rma2_noti_free(port, n));
	OK(rma2_disconnect(port, self));
}

static inline RMA2_NLA nla_of(RMA2_Region *region, size_t offset)
{
	RMA2_NLA nla = 0;

	OK(rma2_get_nla(region, offset, &nla));
	return nla;
}

#endif /* COMMON_H */
