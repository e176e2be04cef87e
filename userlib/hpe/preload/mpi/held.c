/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "held.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pipe.h"

struct held {
	struct held *next;
	MPI_Comm comm;
	int source, tag;
	MPI_Count bytes;
	char *data;
	/* Its bytes may still be coming: a long one's, once somebody wants it. */
	MPI_Request coming;
};

/* A held message that a matched probe gave away. */
struct matched {
	struct matched *next;
	MPI_Message message;
	struct redirect redirect;
};

static struct held *all;
static struct matched *matched;
/* Lets programs pass that probe no letters. */
static atomic_int held_count, matched_count;
static atomic_int turns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct held **find(int source, int tag, MPI_Comm comm)
{
	struct held **at = &all;

	while (*at && !((*at)->comm == comm && (source == MPI_ANY_SOURCE || source == (*at)->source) &&
			(tag == MPI_ANY_TAG || tag == (*at)->tag)))
		at = &(*at)->next;
	return at;
}

/* A datatype of so many bytes, which may be more than an int counts. */
static MPI_Datatype whole(MPI_Count bytes)
{
	int counts[2] = { (int)(bytes >> 20), (int)(bytes & 0xfffff) };
	MPI_Aint displs[2] = { 0, (MPI_Aint)counts[0] << 20 };
	MPI_Datatype types[2] = { MPI_BYTE, MPI_BYTE }, made;

	PMPI_Type_contiguous(1 << 20, MPI_BYTE, &types[0]);
	PMPI_Type_create_struct(2, counts, displs, types, &made);
	PMPI_Type_commit(&made);
	PMPI_Type_free(&types[0]);
	return made;
}

/* Sends a message to this process, by a tag of its own. */
static int again(struct redirect *redirect, struct held *held)
{
	MPI_Datatype type = whole(held->bytes);
	int tag = (int)((unsigned)atomic_fetch_add(&turns, 1) % 16000u);

	redirect->data = held->data;
	redirect->source = held->source;
	redirect->tag = held->tag;
	PMPI_Wait(&held->coming, MPI_STATUS_IGNORE);
	PMPI_Isend(held->data, 1, type, 0, tag, hpe_mpi_self(), &redirect->sent);
	PMPI_Type_free(&type);
	free(held);
	return tag;
}

void hpe_mpi_redirect(struct redirect *redirect, int *source, int *tag, MPI_Comm *comm)
{
	struct held **at, *held;

	*redirect = (struct redirect){ .data = NULL };
	if (!atomic_load(&held_count))
		return;
	pthread_mutex_lock(&lock);
	at = find(*source, *tag, *comm);
	if ((held = *at)) {
		*at = held->next;
		atomic_fetch_sub(&held_count, 1);
	}
	pthread_mutex_unlock(&lock);
	if (!held)
		return;
	*tag = again(redirect, held);
	*source = 0;
	*comm = hpe_mpi_self();
}

void hpe_mpi_redirected(struct redirect *redirect, MPI_Status *status)
{
	if (!redirect->data)
		return;
	PMPI_Wait(&redirect->sent, MPI_STATUS_IGNORE);
	free(redirect->data);
	redirect->data = NULL;
	status->MPI_SOURCE = redirect->source;
	status->MPI_TAG = redirect->tag;
}

void hpe_mpi_redirect_message(struct redirect *redirect, MPI_Message message)
{
	struct matched **at, *found;

	*redirect = (struct redirect){ .data = NULL };
	if (!atomic_load(&matched_count))
		return;
	pthread_mutex_lock(&lock);
	for (at = &matched; *at && (*at)->message != message; at = &(*at)->next)
		;
	if ((found = *at)) {
		*at = found->next;
		atomic_fetch_sub(&matched_count, 1);
	}
	pthread_mutex_unlock(&lock);
	if (found)
		*redirect = found->redirect;
	free(found);
}

/* What a held message is for a probe. */
static void describe(const struct held *held, MPI_Status *status)
{
	struct letter letter;
	MPI_Count bytes = held->bytes;

	if (status == MPI_STATUS_IGNORE)
		return;
	if (held->bytes == LETTER && hpe_mpi_read_letter(held->data, &letter))
		bytes = (MPI_Count)letter.bytes;
	status->MPI_SOURCE = held->source;
	status->MPI_TAG = held->tag;
	PMPI_Status_set_cancelled(status, 0);
	PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
}

/* Puts a message behind those that are held. */
static int take_out(MPI_Message *message, MPI_Status *status, MPI_Comm comm)
{
	struct held *held = calloc(1, sizeof(*held)), **at;
	MPI_Datatype type;
	int error;

	if (held && !PMPI_Get_elements_x(status, MPI_BYTE, &held->bytes))
		held->data = malloc(held->bytes > 0 ? (size_t)held->bytes : 1);
	/* What is left here cannot be put back. */
	if (!held || !held->data)
		abort();
	held->comm = comm;
	held->source = status->MPI_SOURCE;
	held->tag = status->MPI_TAG;
	type = whole(held->bytes);
	error = PMPI_Imrecv(held->data, 1, type, message, &held->coming);
	PMPI_Type_free(&type);
	/* It may be a letter: who asks is told what it says. */
	if (!error && held->bytes == LETTER)
		error = PMPI_Wait(&held->coming, MPI_STATUS_IGNORE);
	for (at = &all; *at; at = &(*at)->next)
		;
	*at = held;
	atomic_fetch_add(&held_count, 1);
	return error;
}

/*
 * Takes a message out that a probe met and that may be a letter, and those of its source before it, whatever their tags: what
 * is held is received first, and may not come before them.
 */
static int hold(const MPI_Status *met, MPI_Comm comm)
{
	MPI_Message message;
	MPI_Status status;
	int flag = 0, error;

	do {
		error = PMPI_Improbe(met->MPI_SOURCE, MPI_ANY_TAG, comm, &flag, &message, &status);
		if (error || !flag)
			return error;
		error = take_out(&message, &status, comm);
	} while (!error && status.MPI_TAG != met->MPI_TAG);
	return error;
}

/* A probe that sees letters for what they stand for. With `message` it takes the message. */
static int probe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	MPI_Status met;
	MPI_Count bytes = 0;
	int error;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct held **at = find(source, tag, comm), *held = *at;

		if (held) {
			*flag = 1;
			describe(held, status);
			error = MPI_SUCCESS;
			if (message) {
				struct matched *given = calloc(1, sizeof(*given));
				int to;

				if (!given)
					abort();
				*at = held->next;
				atomic_fetch_sub(&held_count, 1);
				to = again(&given->redirect, held);
				error = PMPI_Mprobe(0, to, hpe_mpi_self(), message, MPI_STATUS_IGNORE);
				given->message = *message;
				given->next = matched;
				matched = given;
				atomic_fetch_add(&matched_count, 1);
			}
			break;
		}
		error = PMPI_Iprobe(source, tag, comm, flag, &met);
		if (error || !*flag)
			break;
		if (hpe_mpi_part() && met.MPI_SOURCE != MPI_PROC_NULL && !PMPI_Get_elements_x(&met, MPI_BYTE, &bytes) &&
		    bytes == LETTER && !(error = hold(&met, comm)))
			continue;
		if (!error && message)
			error = PMPI_Improbe(met.MPI_SOURCE, met.MPI_TAG, comm, flag, message, &met);
		if (!error && *flag && status != MPI_STATUS_IGNORE)
			*status = met;
		break;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	return probe(source, tag, comm, flag, NULL, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	if (source == MPI_PROC_NULL)
		return PMPI_Improbe(source, tag, comm, flag, message, status);
	return probe(source, tag, comm, flag, message, status);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	int flag = 0, error;

	if (!hpe_mpi_part())
		return PMPI_Probe(source, tag, comm, status);
	while (!(error = probe(source, tag, comm, &flag, NULL, status)) && !flag)
		sched_yield();
	return error;
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	int flag = 0, error;

	if (!hpe_mpi_part() || source == MPI_PROC_NULL)
		return PMPI_Mprobe(source, tag, comm, message, status);
	while (!(error = probe(source, tag, comm, &flag, message, status)) && !flag)
		sched_yield();
	return error;
}
