/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "requests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pipe.h"

struct kept {
	struct kept *next;
	MPI_Request request;
	struct stage stage;
	/* Of collective calls: what is sent; then no status tells how much of the stage was written. */
	struct stage from;
	int collective;
	struct redirect redirect;
};

static struct kept *all, *given_up;
/* Let programs pass that have no such request. */
static atomic_int count, given_up_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put(struct kept *kept)
{
	pthread_mutex_lock(&lock);
	kept->next = all;
	all = kept;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&count, 1);
}

/*
 * Takes a request's stage out, before MPI may end the request: its handle may be another thread's at once. Libraries give
 * one handle to many requests that were complete at once; then any of them is as good.
 */
static struct kept *take(MPI_Request request)
{
	struct kept *found = NULL;

	if (!atomic_load(&count) || request == MPI_REQUEST_NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	for (struct kept **at = &all; *at; at = &(*at)->next) {
		if ((*at)->request == request) {
			found = *at;
			*at = found->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	if (found)
		atomic_fetch_sub(&count, 1);
	return found;
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
	put(kept);
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
	put(kept);
	return MPI_SUCCESS;
}

/* Ends a request's stage. */
static int settle(struct kept *kept, MPI_Status *status, int error, const char *call)
{
	struct stage *stage = &kept->stage;
	int result;

	hpe_mpi_redirected(&kept->redirect, status);
	/* A message in parts comes now. */
	if (!error && (error = hpe_mpi_in(stage, status, NULL)))
		hpe_mpi_fail(MPI_COMM_NULL, error, call, "cannot take a message that comes in parts: it is too long, or no memory");
	hpe_mpi_end(&kept->from, NULL, error);
	result = hpe_mpi_end(stage, stage->use & WRITE && !kept->collective ? status : NULL, error);
	if (stage->capacity && !stage->dense)
		PMPI_Type_free(&stage->type);
	free(kept);
	if (result != error)
		hpe_mpi_fail(MPI_COMM_NULL, result, call, "cannot copy to the device's memory: freed, or too short");
	return result;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	struct kept *kept = take(*request);
	MPI_Status own, *to = kept && status == MPI_STATUS_IGNORE ? &own : status;
	int error = PMPI_Wait(request, to);

	return kept ? settle(kept, to, error, "MPI_Wait") : error;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	struct kept *kept = take(*request);
	MPI_Status own, *to = kept && status == MPI_STATUS_IGNORE ? &own : status;
	int error = PMPI_Test(request, flag, to);

	if (!kept)
		return error;
	if (error || *flag)
		return settle(kept, to, error, "MPI_Test");
	put(kept);
	return error;
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	struct kept *kept = take(request);
	MPI_Status own, *to = kept && status == MPI_STATUS_IGNORE ? &own : status;
	int error = PMPI_Request_get_status(request, flag, to);

	if (!kept)
		return error;
	/* Complete: the program may use the buffer, though the request stays. */
	if (!error && *flag)
		return settle(kept, to, error, "MPI_Request_get_status");
	put(kept);
	return error;
}

/* MPI still uses the stage, so the request stays, and is asked from time to time. */
int MPI_Request_free(MPI_Request *request)
{
	struct kept *kept = take(*request);

	if (!kept)
		return PMPI_Request_free(request);
	*request = MPI_REQUEST_NULL;
	pthread_mutex_lock(&lock);
	kept->next = given_up;
	given_up = kept;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&given_up_count, 1);
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
			atomic_fetch_sub(&given_up_count, 1);
			settle(asked, &status, error, "MPI_Request_free");
			continue;
		}
		pthread_mutex_lock(&lock);
		asked->next = given_up;
		given_up = asked;
		pthread_mutex_unlock(&lock);
	}
}

/* What calls of many requests need: stages, and statuses of our own where the caller wants none. */
struct many {
	struct kept **kept;
	MPI_Status *statuses, *own;
	int any;
};

static int open_many(struct many *many, int n, MPI_Request requests[], MPI_Status *statuses, const char *call)
{
	*many = (struct many){ .statuses = statuses };
	if (n <= 0 || !atomic_load(&count))
		return MPI_SUCCESS;
	many->kept = calloc((size_t)n, sizeof(*many->kept));
	if (statuses == MPI_STATUSES_IGNORE)
		many->statuses = many->own = malloc((size_t)n * sizeof(*many->own));
	if (!many->kept || !many->statuses) {
		free(many->kept);
		free(many->own);
		return hpe_mpi_fail(MPI_COMM_NULL, MPI_ERR_NO_MEM, call, "no memory for statuses");
	}
	for (int i = 0; i < n; i++)
		if ((many->kept[i] = take(requests[i])))
			many->any = 1;
	return MPI_SUCCESS;
}

/* Ends what is complete, by the statuses at `which` (NULL: each at its own place), and keeps the rest. */
static int close_many(struct many *many, int n, const int *which, int done, int error, const char *call)
{
	int failed = MPI_SUCCESS;

	for (int i = 0; many->kept && i < done; i++) {
		int at = which ? which[i] : i;
		MPI_Status *status = &many->statuses[i];
		int own = error == MPI_ERR_IN_STATUS ? status->MPI_ERROR : error;

		if (!many->kept[at] || own == MPI_ERR_PENDING)
			continue;
		own = settle(many->kept[at], status, own, call);
		many->kept[at] = NULL;
		if (own && !error)
			failed = own;
	}
	for (int i = 0; many->kept && i < n; i++)
		if (many->kept[i])
			put(many->kept[i]);
	free(many->kept);
	free(many->own);
	return error ? error : failed;
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status *statuses)
{
	struct many many;
	int error = open_many(&many, n, requests, statuses, "MPI_Waitall");

	if (error)
		return error;
	error = PMPI_Waitall(n, requests, many.statuses);
	return close_many(&many, n, NULL, n, error, "MPI_Waitall");
}

int MPI_Testall(int n, MPI_Request requests[], int *flag, MPI_Status *statuses)
{
	struct many many;
	int error = open_many(&many, n, requests, statuses, "MPI_Testall");

	if (error)
		return error;
	error = PMPI_Testall(n, requests, flag, many.statuses);
	return close_many(&many, n, NULL, error || *flag ? n : 0, error, "MPI_Testall");
}

int MPI_Waitsome(int n, MPI_Request requests[], int *done, int which[], MPI_Status *statuses)
{
	struct many many;
	int error = open_many(&many, n, requests, statuses, "MPI_Waitsome");

	if (error)
		return error;
	error = PMPI_Waitsome(n, requests, done, which, many.statuses);
	return close_many(&many, n, which, *done == MPI_UNDEFINED ? 0 : *done, error, "MPI_Waitsome");
}

int MPI_Testsome(int n, MPI_Request requests[], int *done, int which[], MPI_Status *statuses)
{
	struct many many;
	int error = open_many(&many, n, requests, statuses, "MPI_Testsome");

	if (error)
		return error;
	error = PMPI_Testsome(n, requests, done, which, many.statuses);
	return close_many(&many, n, which, *done == MPI_UNDEFINED ? 0 : *done, error, "MPI_Testsome");
}

/* Of `MPI_Waitany` and `MPI_Testany`: one status, not an array. */
static int close_any(struct many *many, int n, int index, int flag, MPI_Status *status, int error, const char *call)
{
	int done = flag && index != MPI_UNDEFINED;

	many->statuses = status;
	return close_many(many, n, &index, done, error, call);
}

int MPI_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status)
{
	MPI_Status own, *to;
	struct many many;
	int error = open_many(&many, n, requests, &own, "MPI_Waitany");

	if (error)
		return error;
	to = many.any && status == MPI_STATUS_IGNORE ? &own : status;
	error = PMPI_Waitany(n, requests, index, to);
	return close_any(&many, n, *index, 1, to, error, "MPI_Waitany");
}

int MPI_Testany(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
	MPI_Status own, *to;
	struct many many;
	int error = open_many(&many, n, requests, &own, "MPI_Testany");

	if (error)
		return error;
	to = many.any && status == MPI_STATUS_IGNORE ? &own : status;
	error = PMPI_Testany(n, requests, index, flag, to);
	return close_any(&many, n, *index, error || *flag, to, error, "MPI_Testany");
}
