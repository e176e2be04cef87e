/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "requests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kept.h"
#include "pipe.h"

/* Under way; given up by the program; persistent ones that are not started. */
static struct kept *all, *given_up, *idle;
/* Let programs pass that have no such request. */
static atomic_int count, given_up_count, idle_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put_in(struct kept **list, atomic_int *counter, struct kept *kept)
{
	pthread_mutex_lock(&lock);
	kept->next = *list;
	*list = kept;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(counter, 1);
}

static struct kept *take_from(struct kept **list, atomic_int *counter, MPI_Request request)
{
	struct kept *found = NULL;

	if (!atomic_load(counter) || request == MPI_REQUEST_NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	for (struct kept **at = list; *at; at = &(*at)->next) {
		if ((*at)->request == request) {
			found = *at;
			*at = found->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	if (found)
		atomic_fetch_sub(counter, 1);
	return found;
}

void hpe_mpi_put(struct kept *kept)
{
	put_in(&all, &count, kept);
}

struct kept *hpe_mpi_take(MPI_Request request)
{
	return take_from(&all, &count, request);
}

int hpe_mpi_keeps_any(void)
{
	return atomic_load(&count) != 0;
}

void hpe_mpi_put_idle(struct kept *kept)
{
	put_in(&idle, &idle_count, kept);
}

struct kept *hpe_mpi_take_idle(MPI_Request request)
{
	return take_from(&idle, &idle_count, request);
}

int hpe_mpi_idles_any(void)
{
	return atomic_load(&idle_count) != 0;
}

int hpe_mpi_keep(struct stage *stage, struct redirect *redirect, MPI_Request request, int error, MPI_Comm comm,
		 const char *call)
{
	static const struct redirect none;
	struct kept *kept;

	if (error || (!stage->host && !stage->capacity && (!redirect || !redirect->data)))
		return hpe_mpi_end(stage, NULL, error);
	kept = malloc(sizeof(*kept));
	/* The request has begun and uses the stage, which has to stay. */
	if (!kept)
		return hpe_mpi_fail(comm, MPI_ERR_NO_MEM, call, "no memory for a request");
	*kept = (struct kept){ .request = request, .stage = *stage, .redirect = redirect ? *redirect : none };
	/* The program may free its own before the request is complete. */
	if (stage->capacity && !stage->dense)
		PMPI_Type_dup(stage->type, &kept->stage.type);
	hpe_mpi_put(kept);
	return MPI_SUCCESS;
}

int hpe_mpi_keep_both(struct stage *from, struct stage *to, MPI_Request request, int error, MPI_Comm comm, const char *call)
{
	struct kept *kept;

	if (error || (!from->host && !to->host)) {
		hpe_mpi_end(from, NULL, error);
		return hpe_mpi_end(to, NULL, error);
	}
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return hpe_mpi_fail(comm, MPI_ERR_NO_MEM, call, "no memory for a request");
	kept->request = request;
	kept->stage = *to;
	kept->from = *from;
	kept->collective = 1;
	hpe_mpi_put(kept);
	return MPI_SUCCESS;
}

static void let_go(struct kept *kept)
{
	if (kept->stage.capacity && !kept->stage.dense)
		PMPI_Type_free(&kept->stage.type);
	free(kept->stage.host);
	free(kept);
}

int hpe_mpi_settle(struct kept *kept, MPI_Status *status, int error, const char *call)
{
	struct stage *stage = &kept->stage;
	int result;

	hpe_mpi_redirected(&kept->redirect, status);
	/* A message in parts comes now. */
	if (!error && (error = hpe_mpi_in(stage, status, NULL)))
		hpe_mpi_fail(MPI_COMM_NULL, error, call, "cannot take a message that comes in parts: it is too long, or no memory");
	hpe_mpi_end(&kept->from, NULL, error);
	result = hpe_mpi_deliver(stage, stage->use & WRITE && !kept->collective ? status : NULL, error);
	if (kept->persistent)
		hpe_mpi_put_idle(kept);
	else
		let_go(kept);
	if (result != error)
		hpe_mpi_fail(MPI_COMM_NULL, result, call, "cannot copy to the device's memory: freed, or too short");
	return result;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	struct kept *kept = hpe_mpi_take(*request);
	MPI_Status own, *to = kept && status == MPI_STATUS_IGNORE ? &own : status;
	int error = PMPI_Wait(request, to);

	return kept ? hpe_mpi_settle(kept, to, error, "MPI_Wait") : error;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	struct kept *kept = hpe_mpi_take(*request);
	MPI_Status own, *to = kept && status == MPI_STATUS_IGNORE ? &own : status;
	int error = PMPI_Test(request, flag, to);

	if (!kept)
		return error;
	if (error || *flag)
		return hpe_mpi_settle(kept, to, error, "MPI_Test");
	hpe_mpi_put(kept);
	return error;
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	struct kept *kept = hpe_mpi_take(request);
	MPI_Status own, *to = kept && status == MPI_STATUS_IGNORE ? &own : status;
	int error = PMPI_Request_get_status(request, flag, to);

	if (!kept)
		return error;
	/* Complete: the program may use the buffer, though the request stays. */
	if (!error && *flag)
		return hpe_mpi_settle(kept, to, error, "MPI_Request_get_status");
	hpe_mpi_put(kept);
	return error;
}

/* MPI still uses the stage, so the request stays, and is asked from time to time. */
int MPI_Request_free(MPI_Request *request)
{
	struct kept *kept = hpe_mpi_take_idle(*request);

	if (kept) {
		let_go(kept);
		return PMPI_Request_free(request);
	}
	kept = hpe_mpi_take(*request);
	if (!kept)
		return PMPI_Request_free(request);
	*request = MPI_REQUEST_NULL;
	put_in(&given_up, &given_up_count, kept);
	hpe_mpi_reap_requests();
	return MPI_SUCCESS;
}

void hpe_mpi_reap_requests(void)
{
	struct kept *asked, *next;

	if (hpe_mpi_part())
		hpe_mpi_reap(0);
	if (!atomic_load(&given_up_count))
		return;
	/* What another thread asks is not here meanwhile. */
	pthread_mutex_lock(&lock);
	asked = given_up;
	given_up = NULL;
	pthread_mutex_unlock(&lock);
	for (; asked; asked = next) {
		MPI_Status status;
		int flag = 0, error = PMPI_Test(&asked->request, &flag, &status);

		next = asked->next;
		if (error || flag) {
			MPI_Request left = asked->persistent ? asked->request : MPI_REQUEST_NULL;

			atomic_fetch_sub(&given_up_count, 1);
			hpe_mpi_settle(asked, &status, error, "MPI_Request_free");
			if (left != MPI_REQUEST_NULL)
				MPI_Request_free(&left);
			continue;
		}
		pthread_mutex_lock(&lock);
		asked->next = given_up;
		given_up = asked;
		pthread_mutex_unlock(&lock);
	}
}
