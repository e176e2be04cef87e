/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that wait for many requests, or ask after them. */
#include <stdlib.h>

#include "kept.h"

/* What calls of many requests need: stages, and statuses of our own where the caller wants none. */
struct many {
	struct kept **kept;
	MPI_Status *statuses, *own;
	int any;
};

static int open_many(struct many *many, int n, MPI_Request requests[], MPI_Status *statuses, const char *call)
{
	*many = (struct many){ .statuses = statuses };
	if (n <= 0 || !hpe_mpi_keeps_any())
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
		if ((many->kept[i] = hpe_mpi_take(requests[i])))
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
		own = hpe_mpi_settle(many->kept[at], status, own, call);
		many->kept[at] = NULL;
		if (own && !error)
			failed = own;
	}
	for (int i = 0; many->kept && i < n; i++)
		if (many->kept[i])
			hpe_mpi_put(many->kept[i]);
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
