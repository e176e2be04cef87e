/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pipe.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ggas_hpe.h"
#include "tags.h"

/* How long an answer is waited for once a receive has the letter, in seconds. */
#define PATIENCE 0.002

static const uint64_t MARK[2] = { 0x6867676173206870, 0x9b1f4c7be52d8a63 };
_Static_assert(sizeof(struct letter) <= LETTER, "a letter fits its message");

static MPI_Comm own = MPI_COMM_NULL, self = MPI_COMM_NULL;
static size_t part;
static int here, host_too;

struct out {
	struct out *next;
	const char *from;
	int of_host;
	size_t bytes, copied;
	int dest, tag, state, error;
	double since;
	/* The letter's own message. */
	char message[LETTER];
	MPI_Request sent, answer;
	/* The parts under way: two buffers, or one for each. */
	MPI_Request two[2], *sending;
	char *buffers[2], *pinned;
	void *memory;
	int count;
};

enum state { ASKED, ANSWERED, SENT, KEPT };

/* Messages in memory of the host that the receivers have not taken yet. */
static struct out *kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t hpe_mpi_part(void)
{
	return part;
}

int hpe_mpi_splits_host(void)
{
	return part && host_too;
}

int hpe_mpi_is_long(size_t bytes)
{
	return part && bytes >= 2 * part;
}

MPI_Comm hpe_mpi_own(void)
{
	return own;
}

MPI_Comm hpe_mpi_self(void)
{
	return self;
}

/* Behind MPI_Init: where it is asked for, all processes of the job come here, or none. */
static int begin(int error)
{
	const char *asked = getenv("GGAS_HPE_MPI_PART"), *host = getenv("GGAS_HPE_MPI_PART_HOST");
	size_t bytes = asked ? strtoull(asked, NULL, 0) : 0;

	if (error || !bytes)
		return error;
	/* Letters are shorter than what they stand for. */
	if (bytes < LETTER)
		bytes = LETTER;
	if (bytes > 1 << 30)
		bytes = 1 << 30;
	if ((error = PMPI_Comm_dup(MPI_COMM_WORLD, &own)) || (error = PMPI_Comm_dup(MPI_COMM_SELF, &self)))
		return error;
	PMPI_Comm_rank(own, &here);
	host_too = host && strcmp(host, "0");
	part = bytes;
	return MPI_SUCCESS;
}

int MPI_Init(int *argc, char ***argv)
{
	return begin(PMPI_Init(argc, argv));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return begin(PMPI_Init_thread(argc, argv, required, provided));
}

int hpe_mpi_read_letter(const void *message, struct letter *letter)
{
	memcpy(letter, message, sizeof(*letter));
	return !memcmp(letter->mark, MARK, sizeof(MARK));
}

int hpe_mpi_take_buffers(char *buffers[2], char **pinned, void **memory, size_t bytes)
{
	size_t size = 0;

	*memory = NULL;
	*pinned = ggas_hpe_take_pinned(&size);
	if (*pinned && size < bytes) {
		ggas_hpe_return_pinned(*pinned);
		*pinned = NULL;
	}
	if (!*pinned)
		*memory = malloc(2 * bytes);
	buffers[0] = *pinned ? *pinned : *memory;
	if (!buffers[0])
		return 0;
	buffers[1] = buffers[0] + (*pinned ? size : bytes);
	return 1;
}

void hpe_mpi_return_buffers(char *pinned, void *memory)
{
	if (pinned)
		ggas_hpe_return_pinned(pinned);
	free(memory);
}

/* The rank in MPI_COMM_WORLD, or -1. */
static int in_world(int rank, MPI_Comm comm)
{
	MPI_Group from = MPI_GROUP_NULL, to = MPI_GROUP_NULL;
	int result = MPI_UNDEFINED, inter = 1;

	if (PMPI_Comm_test_inter(comm, &inter) || inter || PMPI_Comm_group(comm, &from))
		return -1;
	if (!PMPI_Comm_group(own, &to))
		PMPI_Group_translate_ranks(from, 1, &rank, to, &result);
	PMPI_Group_free(&from);
	if (to != MPI_GROUP_NULL)
		PMPI_Group_free(&to);
	return result == MPI_UNDEFINED ? -1 : result;
}

/* Whether so many requests are complete. */
static int are_done(MPI_Request *requests, int count)
{
	int all = 1;

	for (int i = 0, flag; i < count; i++) {
		flag = 0;
		PMPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
		all = all && flag;
	}
	return all;
}

void hpe_mpi_reap(int all)
{
	struct out *ended = NULL;

	pthread_mutex_lock(&lock);
	for (struct out **at = &kept; *at;) {
		struct out *out = *at;

		if (are_done(out->sending, out->count) && are_done(&out->sent, 1) && are_done(&out->answer, 1)) {
			*at = out->next;
			out->next = ended;
			ended = out;
		} else if (all) {
			sched_yield();
		} else {
			at = &out->next;
		}
	}
	pthread_mutex_unlock(&lock);
	while (ended) {
		struct out *out = ended;

		ended = out->next;
		hpe_mpi_return_tag(out->tag);
		free(out->sending);
		free(out->memory);
		free(out);
	}
}

int MPI_Finalize(void)
{
	hpe_mpi_reap(1);
	if (self != MPI_COMM_NULL)
		PMPI_Comm_free(&self);
	if (own != MPI_COMM_NULL)
		PMPI_Comm_free(&own);
	part = 0;
	return PMPI_Finalize();
}

/* Memory of the host for all parts; false without. */
static int take_room(struct out *out)
{
	int count = (int)((out->bytes + part - 1) / part);
	char *memory = malloc(out->bytes);
	MPI_Request *sending = malloc((size_t)count * sizeof(*sending));

	if (!memory || !sending) {
		free(memory);
		free(sending);
		return 0;
	}
	hpe_mpi_return_buffers(out->pinned, out->memory);
	out->pinned = NULL;
	out->memory = memory;
	out->sending = sending;
	out->count = count;
	return 1;
}

/* What a message needs besides; false without. */
static int equip(struct out *out, enum out_kind kind)
{
	out->tag = hpe_mpi_take_tag();
	if (out->tag < 0)
		return 0;
	if (kind & OUT_NOW ? take_room(out) : out->of_host ||
			     hpe_mpi_take_buffers(out->buffers, &out->pinned, &out->memory, part))
		return 1;
	hpe_mpi_return_tag(out->tag);
	return 0;
}

struct out *hpe_mpi_out(const void *from, size_t bytes, int dest, int tag, MPI_Comm comm, enum out_kind kind)
{
	int world = in_world(dest, comm);
	struct letter letter = { { MARK[0], MARK[1] }, bytes, part, here, 0 };
	struct out *out = world < 0 ? NULL : calloc(1, sizeof(*out));
	int error;

	hpe_mpi_reap(0);
	if (!out)
		return NULL;
	out->from = from;
	out->of_host = !!(kind & OUT_HOST);
	out->bytes = bytes;
	out->dest = world;
	if (!equip(out, kind)) {
		free(out);
		return NULL;
	}
	letter.tag = out->tag;
	memcpy(out->message, &letter, sizeof(letter));
	out->since = PMPI_Wtime();
	out->sent = out->answer = out->two[0] = out->two[1] = MPI_REQUEST_NULL;
	error = PMPI_Irecv(NULL, 0, MPI_BYTE, world, letter.tag + 1, own, &out->answer);
	/* Synchronous: this tells when a receive has it. */
	if (!error)
		error = PMPI_Issend(out->message, LETTER, MPI_BYTE, dest, tag, comm, &out->sent);
	if (error) {
		out->error = error;
		out->state = SENT;
		if (out->answer != MPI_REQUEST_NULL) {
			PMPI_Cancel(&out->answer);
			PMPI_Request_free(&out->answer);
		}
	}
	return out;
}

/* Copies all parts to memory of the host, and hands each to MPI while the next is copied. */
static void hand_over(struct out *out)
{
	char *memory = out->memory;

	for (int i = 0; i < out->count; i++) {
		size_t at = (size_t)i * part, bytes = out->bytes - at < part ? out->bytes - at : part;

		if (ggas_hpe_copy(memory + at, out->from + at, bytes))
			out->error = MPI_ERR_BUFFER;
		out->sending[i] = MPI_REQUEST_NULL;
		PMPI_Isend(memory + at, (int)bytes, MPI_BYTE, out->dest, out->tag, own, &out->sending[i]);
	}
	out->state = KEPT;
}

int hpe_mpi_out_now(struct out *out, MPI_Request *request)
{
	*request = MPI_REQUEST_NULL;
	if (out->state == ASKED) {
		hand_over(out);
		/* The caller waits for this; the answer, which comes later, says that it has ended. */
		*request = out->sent;
		out->sent = MPI_REQUEST_NULL;
	}
	return hpe_mpi_out_end(out);
}

int hpe_mpi_out_moves(struct out *out)
{
	int flag = 0;

	switch (out->state) {
	case ASKED:
		PMPI_Test(&out->answer, &flag, MPI_STATUS_IGNORE);
		if (flag) {
			out->state = ANSWERED;
			return 0;
		}
		/* Without a receive it waits for one, as long messages do. */
		PMPI_Test(&out->sent, &flag, MPI_STATUS_IGNORE);
		if (!flag)
			out->since = PMPI_Wtime();
		else if (PMPI_Wtime() - out->since > PATIENCE && take_room(out))
			hand_over(out);
		return out->state == KEPT;
	case ANSWERED:
		for (int i = out->copied / part % 2, tried = 0; tried < 2 && out->copied < out->bytes; tried++, i = 1 - i) {
			size_t left = out->bytes - out->copied, bytes = left < part ? left : part;

			PMPI_Test(&out->two[i], &flag, MPI_STATUS_IGNORE);
			if (!flag)
				return 0;
			/* While the part before is under way; the host's own goes from where it is. */
			if (!out->of_host && ggas_hpe_copy(out->buffers[i], out->from + out->copied, bytes))
				out->error = MPI_ERR_BUFFER;
			PMPI_Isend(out->of_host ? out->from + out->copied : out->buffers[i], (int)bytes, MPI_BYTE, out->dest,
				   out->tag, own, &out->two[i]);
			out->copied += bytes;
		}
		if (out->copied == out->bytes && are_done(out->two, 2) && are_done(&out->sent, 1))
			out->state = SENT;
		return out->state == SENT;
	default:
		return 1;
	}
}

int hpe_mpi_out_end(struct out *out)
{
	int error = out->error;

	if (out->state == KEPT) {
		pthread_mutex_lock(&lock);
		out->next = kept;
		kept = out;
		pthread_mutex_unlock(&lock);
		return error;
	}
	hpe_mpi_return_tag(out->tag);
	hpe_mpi_return_buffers(out->pinned, out->memory);
	free(out->sending);
	free(out);
	return error;
}

int hpe_mpi_out_all(struct out *out)
{
	while (!hpe_mpi_out_moves(out))
		sched_yield();
	return hpe_mpi_out_end(out);
}
