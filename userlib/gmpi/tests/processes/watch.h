/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests have it compiled in front of the shim: it counts calls of the MPI library, and refuses some. */
#include <mpi.h>
#include <stdlib.h>

/* The tests' messages have higher tags, and pieces these. */
#define WATCH_IS_PIECE(tag) ((tag) > 0 && (tag) < 1000)

/* pieces_watched.rs has the same. */
struct {
	long dups, cancels, asked_for_cancelled;
	long piece_sends, piece_receives;
	/* Numbers of calls for pieces that are refused, from the first one to behind the last. */
	long no_sends[2], no_receives[2];
	/* Messages that were taken out of the queue, and not received. */
	long taken;
	/* Where the last receive of a message goes. */
	void *place;
} gmpi_watch;

static int watch_refuses(int tag, long *number, const long *refused)
{
	if (!WATCH_IS_PIECE(tag))
		return 0;
	++*number;
	return *number >= refused[0] && *number < refused[1];
}

static int watch_isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	if (watch_refuses(tag, &gmpi_watch.piece_sends, gmpi_watch.no_sends))
		return MPI_ERR_NO_MEM;
	return MPI_Isend(from, count, type, to, tag, comm, request);
}

static int watch_issend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	if (watch_refuses(tag, &gmpi_watch.piece_sends, gmpi_watch.no_sends))
		return MPI_ERR_NO_MEM;
	return MPI_Issend(from, count, type, to, tag, comm, request);
}

static int watch_irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
	if (watch_refuses(tag, &gmpi_watch.piece_receives, gmpi_watch.no_receives))
		return MPI_ERR_NO_MEM;
	if (!WATCH_IS_PIECE(tag))
		gmpi_watch.place = to;
	return MPI_Irecv(to, count, type, from, tag, comm, request);
}

static int watch_dup(MPI_Comm comm, MPI_Comm *made)
{
	gmpi_watch.dups++;
	return MPI_Comm_dup(comm, made);
}

static int watch_cancel(MPI_Request *request)
{
	gmpi_watch.cancels++;
	return MPI_Cancel(request);
}

static int watch_test_cancelled(const MPI_Status *status, int *is)
{
	gmpi_watch.asked_for_cancelled++;
	return MPI_Test_cancelled(status, is);
}

static int watch_improbe(int from, int tag, MPI_Comm comm, int *found, MPI_Message *message, MPI_Status *status)
{
	int error = MPI_Improbe(from, tag, comm, found, message, status);

	gmpi_watch.taken += error == MPI_SUCCESS && *found;
	return error;
}

static int watch_imrecv(void *to, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	gmpi_watch.taken--;
	return MPI_Imrecv(to, count, type, message, request);
}

static int watch_finalize(void)
{
	if (gmpi_watch.taken)
		abort();
	return MPI_Finalize();
}

#define MPI_Isend watch_isend
#define MPI_Issend watch_issend
#define MPI_Irecv watch_irecv
#define MPI_Comm_dup watch_dup
#define MPI_Cancel watch_cancel
#define MPI_Test_cancelled watch_test_cancelled
#define MPI_Improbe watch_improbe
#define MPI_Imrecv watch_imrecv
#define MPI_Finalize watch_finalize
