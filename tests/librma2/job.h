/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ports of the processes of one job, found without help: the first port of each process is among the first VPIDs of
 * its node, and says hello there until it is answered. The environment says how many there are (GGAS_SIZE,
 * GGAS_PER_NODE).
 */
#ifndef JOB_H
#define JOB_H

#include "common.h"

#define MOST_PEERS 16
/* Classes of notification puts that the job uses itself. */
#define HELLO 200
#define SEEN 201
#define SYNC 202
#define TELL 203

struct job {
	RMA2_Port port;
	int size, per_node, me;
	RMA2_Handle to[MOST_PEERS];
	uint64_t told[MOST_PEERS];
};

static inline int number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 1;
}

static inline RMA2_Nodeid node_of(const struct job *job, int peer)
{
	return (RMA2_Nodeid)(peer / job->per_node);
}

static inline RMA2_VPID vpid_of(const struct job *job, int peer)
{
	return (RMA2_VPID)(peer % job->per_node);
}

static inline void tell(struct job *job, int peer, unsigned int mclass, uint64_t value)
{
	OK(rma2_post_notification(job->port, job->to[peer], (RMA2_Class)mclass, value, RMA2_COMPLETER_NOTIFICATION,
				  RMA2_CMD_DEFAULT));
}

/* The oldest notification put of this class from a peer, freed. */
static inline uint64_t heard(struct job *job, int peer, unsigned int mclass)
{
	RMA2_Notification *n = NULL;
	uint64_t value;

	OK(rma2_noti_noti_match_block(job->port, (RMA2_Class)mclass, node_of(job, peer), vpid_of(job, peer), &n));
	value = rma2_noti_get_notiput_payload(n);
	OK(rma2_noti_free(job->port, n));
	return value;
}

/* Says hello to a peer until it says so too. */
static inline void meet(struct job *job, int peer)
{
	RMA2_Notification *n = NULL;
	double start = seconds(), said = 0;

	for (;;) {
		RMA2_ERROR found = rma2_noti_noti_match(job->port, HELLO, node_of(job, peer), vpid_of(job, peer), &n);

		if (found == RMA2_SUCCESS)
			break;
		CHECK(found == RMA2_NO_NOTI || found == RMA2_ERR_NO_MATCH);
		CHECK(seconds() - start < PATIENCE);
		if (seconds() - said > 0.002) {
			tell(job, peer, HELLO, 0);
			said = seconds();
		}
	}
	/* The peer may still wait for ours; behind this there are no more of them. */
	tell(job, peer, HELLO, 0);
	tell(job, peer, SEEN, 0);
	heard(job, peer, SEEN);
	while (rma2_noti_noti_match(job->port, HELLO, node_of(job, peer), vpid_of(job, peer), &n) == RMA2_SUCCESS)
		OK(rma2_noti_free(job->port, n));
}

/* A port at one of the first VPIDs of its node; one that was just given back rests for a moment. */
static inline RMA2_Port first_port(int per_node)
{
	double start = seconds();
	RMA2_Port port;

	for (;;) {
		port = open_port();
		if (rma2_get_vpid(port) < per_node)
			return port;
		OK(rma2_close(port));
		CHECK(seconds() - start < PATIENCE);
	}
}

static inline struct job join_job(void)
{
	struct job job;
	int peer;

	memset(&job, 0, sizeof job);
	job.size = number_of("GGAS_SIZE");
	job.per_node = number_of("GGAS_PER_NODE");
	CHECK(job.size <= MOST_PEERS && job.per_node > 0);
	job.port = first_port(job.per_node);
	job.me = rma2_get_nodeid(job.port) * job.per_node + rma2_get_vpid(job.port);
	CHECK(job.me < job.size);
	for (peer = 0; peer < job.size; peer++) {
		OK(rma2_connect(job.port, node_of(&job, peer), vpid_of(&job, peer), RMA2_CONN_DEFAULT, &job.to[peer]));
		if (peer != job.me)
			meet(&job, peer);
	}
	return job;
}

/*
 * The oldest notification of this command and kind that has to do with a peer, freed; with an error or without. It is
 * looked for, since a peer's next notification may come before the card's own for what was posted.
 */
static inline RMA2_Notification arrival(struct job *job, int peer, RMA2_Command command, RMA2_Notification_Spec kind,
					int error)
{
	RMA2_Notification *n = NULL, copy;

	OK(rma2_noti_match_block(job->port, command, node_of(job, peer), vpid_of(job, peer), kind, RMA2_ANY_NLA, 0,
				 &n));
	OK(rma2_noti_dup(n, &copy));
	OK(rma2_noti_free(job->port, n));
	if (!error != !rma2_noti_get_error(&copy)) {
		rma2_noti_fdump(&copy, stderr);
		CHECK(!"an error, or none, in a notification");
	}
	return copy;
}

/* Everyone has come here. */
static inline void synchronise(struct job *job)
{
	int peer;

	for (peer = 0; peer < job->size; peer++)
		if (peer != job->me)
			tell(job, peer, SYNC, 0);
	for (peer = 0; peer < job->size; peer++)
		if (peer != job->me)
			heard(job, peer, SYNC);
}

/* Everyone learns everyone's value. */
static inline void exchange(struct job *job, uint64_t mine)
{
	int peer;

	job->told[job->me] = mine;
	for (peer = 0; peer < job->size; peer++)
		if (peer != job->me)
			tell(job, peer, TELL, mine);
	for (peer = 0; peer < job->size; peer++)
		if (peer != job->me)
			job->told[peer] = heard(job, peer, TELL);
}

#endif /* JOB_H */
