/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * GMPI: MPI calls in kernels (Kuwahara, Hanawa, Boku: A proposal of GMPI). A call travels to a daemon thread of the host,
 * which makes it with the kernel's pointers, and the answer comes back; the kernel goes on running.
 *
 *	__device__ void exchange(gmpi_buf_t *buf, double *out, double *in, int other, MPI_Request *requests)
 *	{
 *		GMPI_Irecv(buf, in, 1000, MPI_DOUBLE, other, 7, MPI_COMM_WORLD, &requests[0]);
 *		GMPI_Isend(buf, out, 1000, MPI_DOUBLE, other, 7, MPI_COMM_WORLD, &requests[1]);
 *		GMPI_Waitall(buf, 2, requests, MPI_STATUSES_IGNORE);
 *	}
 *
 * Arguments, constants and meaning are MPI's, behind the gmpi_buf_t that the host made (ggas-gmpi). Handles are words of 8
 * bytes, but for types; a program compiled once runs on every carrier: our own messages, Open MPI, MPICH.
 *
 * Who calls. All threads of a block together, with the same arguments, and the call happens once. Template arguments say
 * otherwise: GMPI_Wait<ggas_scope::warp>: one warp of the block; <ggas_scope::thread>: one thread. One scope at a time in a
 * block. A call without one by some threads of a block waits for the others: such a kernel may never end on a GPU, and on
 * the executor its launch fails and says where. Each block has a port of its own, and is to the others what a thread is in
 * MPI_THREAD_MULTIPLE; a block without a port gets GMPI_ERR_PORT. With one context for the grid, as in the paper, block 0's calls count and the others' return
 * at once: let them meet behind it (blocks.cuh).
 *
 * Memory. Buffers lie in memory that the host has attached. Requests and statuses lie in memory that all callers see; flags,
 * ranks and counts may be a variable of each thread.
 *
 * Waiting. Isend, Irecv, Ibarrier and its like, Start and the ones that make persistent requests, Put and Get return once the call is on
 * its way; all others wait for their answer. An error of one that did not wait is told by the wait for its request, of a put or get by the
 * next flush or fence of the window, else by GMPI_Synchronize, which waits until all that this block asked for was answered. It does not wait
 * for messages.
 *
 * Two requests in one place. A request that is started where the handle of an unfinished one lies does not lose that one: waiting for
 * the later completes both (Fig. 6 of the paper has such code).
 *
 * From kernel to kernel. On a communicator that the host made with Gmpi::direct, Isend, Irecv, Send, Recv, Sendrecv and the waits for them make
 * no call of the host: kernels store into each other's memory (impl/gmpi_direct.h), and messages go on while their block waits in such a
 * call, or tests: one that finds its own message at once moves no others.
 * So do Barrier, and Allreduce, Gather and Scatter whose vectors or blocks have up to 256 bytes (impl/gmpi_direct_reduce.h). Block i of a member talks to block i of the others, from
 * memory that need not be attached. What MPI calls assertions holds there: no
 * GMPI_ANY_SOURCE (GMPI_ERR_RANK), and receives come in the order of the sends: a message of another tag than the receive in its turn
 * fails that (GMPI_ERR_TAG). The status of a receive is kept until 32 later ones of the same sender were begun. All other calls are the
 * daemon's, but Probe, Iprobe and persistent requests, which are GMPI_ERR_CALL.
 *
 * Order. What any of the callers wrote before a call is what is sent; what is received is visible to all of them when
 * the call that completes it returns.
 *
 * Errors: error classes, GMPI_SUCCESS is 0; no call ends the program. GMPI_ERR_TIMEOUT: a call that waits was not over in
 * the time that the host allows; its requests are open, and may be waited for again. GMPI_ERR_DAEMON: no answer at all; the first
 * such wait fills the report, and the port takes no more calls. GMPI_ERR_PROC_FAILED: the other process is gone; waits for it end
 * as soon as the daemon knows, those of direct communicators too, once all that it sent before was taken.
 */
#ifndef GGAS_GMPI_CUH
#define GGAS_GMPI_CUH

#include "gmpi_layout.h"
#include "vocab.h"

#include "impl/gmpi_direct_reduce.h"
#include "impl/gmpi_exchange.h"
#include "impl/gmpi_many.h"
#include "impl/gmpi_names.h"
#include "impl/gmpi_place.h"

#define GMPI_SCOPED template <ggas_scope Scope = ggas_scope::block> GGAS_FN int
#define GMPI_LINE uint32_t line = __builtin_LINE()

/* Messages that are waited for later. */
GMPI_SCOPED GMPI_Isend(gmpi_buf_t *buf, const void *at, int count, GMPI_Datatype type, int dest, int tag, GMPI_Comm comm,
		       GMPI_Request *request, GMPI_LINE)
{
	return ggas_impl::gmpi_begin<Scope>(buf, GMPI_CALL_ISEND, ggas_impl::gmpi_typed(at, count, type, false).data, dest, tag, comm,
					    request, line);
}
GMPI_SCOPED GMPI_Irecv(gmpi_buf_t *buf, void *at, int count, GMPI_Datatype type, int source, int tag, GMPI_Comm comm,
		       GMPI_Request *request, GMPI_LINE)
{
	return ggas_impl::gmpi_begin<Scope>(buf, GMPI_CALL_IRECV, ggas_impl::gmpi_typed(at, count, type, true).data, source, tag, comm,
					    request, line);
}

/* Requests that are started by GMPI_Start, again and again, until GMPI_Request_free. */
GMPI_SCOPED GMPI_Send_init(gmpi_buf_t *buf, const void *at, int count, GMPI_Datatype type, int dest, int tag,
			   GMPI_Comm comm, GMPI_Request *request, GMPI_LINE)
{
	return ggas_impl::gmpi_begin<Scope>(buf, GMPI_CALL_SEND_INIT, ggas_impl::gmpi_typed(at, count, type, false).data, dest, tag, comm,
					    request, line);
}
GMPI_SCOPED GMPI_Recv_init(gmpi_buf_t *buf, void *at, int count, GMPI_Datatype type, int source, int tag, GMPI_Comm comm,
			   GMPI_Request *request, GMPI_LINE)
{
	return ggas_impl::gmpi_begin<Scope>(buf, GMPI_CALL_RECV_INIT, ggas_impl::gmpi_typed(at, count, type, true).data, source, tag, comm,
					    request, line);
}
GMPI_SCOPED GMPI_Start(gmpi_buf_t *buf, GMPI_Request *request, GMPI_LINE)
{
	return ggas_impl::gmpi_call<Scope, false>(buf, line, GMPI_CALL_START, ggas_impl::gmpi_nothing(), *request);
}
GMPI_SCOPED GMPI_Startall(gmpi_buf_t *buf, int count, GMPI_Request *requests, GMPI_LINE)
{
	return ggas_impl::gmpi_all<Scope>(buf, GMPI_CALL_STARTALL, count, requests, nullptr, line);
}
/* A message that is under way goes on: the daemon forgets it when it is over, a direct one goes on with other direct calls of the block. */
GMPI_SCOPED GMPI_Request_free(gmpi_buf_t *buf, GMPI_Request *request, GMPI_LINE)
{
	if (ggas_impl::gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	ggas_impl::gmpi_team<Scope>::all::meet();
	uint64_t handle = *request;
	int error = ggas_impl::direct_is_own(handle) ?
			    ggas_impl::direct_free<Scope>(buf, handle) :
			    ggas_impl::gmpi_call<Scope, true>(buf, line, GMPI_CALL_REQUEST_FREE, ggas_impl::gmpi_nothing(), handle);
	if (ggas_impl::gmpi_team<Scope>::all::thread() == 0)
		*request = GMPI_REQUEST_NULL;
	ggas_impl::gmpi_team<Scope>::all::meet();
	return error;
}

/* A request whose place holds GMPI_REQUEST_NULL is over at once. */
GMPI_SCOPED GMPI_Wait(gmpi_buf_t *buf, GMPI_Request *request, GMPI_Status *status, GMPI_LINE)
{
	return ggas_impl::gmpi_wait_one<Scope>(buf, request, status, line);
}
/* GMPI_ERR_IN_STATUS: some failed, and their statuses say how. All have been waited for. */
GMPI_SCOPED GMPI_Waitall(gmpi_buf_t *buf, int count, GMPI_Request *requests, GMPI_Status *statuses, GMPI_LINE)
{
	return ggas_impl::gmpi_all<Scope>(buf, GMPI_CALL_WAITALL, count, requests, statuses, line);
}
GMPI_SCOPED GMPI_Test(gmpi_buf_t *buf, GMPI_Request *request, int *flag, GMPI_Status *status, GMPI_LINE)
{
	/* With one context for the grid, blocks that stand by loop until it is over, too. */
	*flag = 1;
	if (ggas_impl::gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	if (ggas_impl::gmpi_is_direct(*request))
		return ggas_impl::direct_test_place<Scope>(buf, request, flag, status, line);
	ggas_impl::gmpi_tested<ggas_impl::gmpi_team<Scope>> tested = { request, status };
	int both = ggas_impl::gmpi_call<Scope, true>(buf, line, GMPI_CALL_TEST, tested, *request);
	return ggas_impl::gmpi_flagged<Scope>(both, flag);
}

/* Of several requests. GMPI_UNDEFINED in index or outcount: all places hold GMPI_REQUEST_NULL, or persistent requests that were not
 * started. Indices are written by each caller, as flags and counts are: they may be in a variable of each thread. */
GMPI_SCOPED GMPI_Waitany(gmpi_buf_t *buf, int count, GMPI_Request *requests, int *index, GMPI_Status *status, GMPI_LINE)
{
	int flag;
	return ggas_impl::gmpi_any<Scope>(buf, GMPI_CALL_WAITANY, true, count, requests, index, &flag, status, line);
}
GMPI_SCOPED GMPI_Testany(gmpi_buf_t *buf, int count, GMPI_Request *requests, int *index, int *flag, GMPI_Status *status,
			 GMPI_LINE)
{
	return ggas_impl::gmpi_any<Scope>(buf, GMPI_CALL_TESTANY, false, count, requests, index, flag, status, line);
}
/* All that are over, at least one. GMPI_ERR_IN_STATUS as of Waitall. */
GMPI_SCOPED GMPI_Waitsome(gmpi_buf_t *buf, int count, GMPI_Request *requests, int *outcount, int *indices,
			  GMPI_Status *statuses, GMPI_LINE)
{
	ggas_impl::gmpi_looks how = { false, true, true };
	return ggas_impl::gmpi_complete<Scope>(buf, GMPI_CALL_WAITSOME, how, count, requests, outcount, indices, statuses, line);
}
GMPI_SCOPED GMPI_Testsome(gmpi_buf_t *buf, int count, GMPI_Request *requests, int *outcount, int *indices,
			  GMPI_Status *statuses, GMPI_LINE)
{
	ggas_impl::gmpi_looks how = { false, false, true };
	return ggas_impl::gmpi_complete<Scope>(buf, GMPI_CALL_TESTSOME, how, count, requests, outcount, indices, statuses, line);
}
/* Completes all or none. */
GMPI_SCOPED GMPI_Testall(gmpi_buf_t *buf, int count, GMPI_Request *requests, int *flag, GMPI_Status *statuses, GMPI_LINE)
{
	return ggas_impl::gmpi_test_all<Scope>(buf, count, requests, flag, statuses, line);
}
/* As Test, and the request stays: it is completed by a later call. */
GMPI_SCOPED GMPI_Request_get_status(gmpi_buf_t *buf, GMPI_Request *request, int *flag, GMPI_Status *status, GMPI_LINE)
{
	return ggas_impl::gmpi_get_status<Scope>(buf, request, flag, status, line);
}

GMPI_SCOPED GMPI_Synchronize(gmpi_buf_t *buf, GMPI_LINE) { return ggas_impl::gmpi_synchronize<Scope>(buf, line); }

/* Messages that are waited for at once. */
GMPI_SCOPED GMPI_Send(gmpi_buf_t *buf, const void *at, int count, GMPI_Datatype type, int dest, int tag, GMPI_Comm comm,
		      GMPI_LINE)
{
	using namespace ggas_impl;
	gmpi_typed out(at, count, type, false);
	direct_words words = { out.data, dest, tag };
	if (words.is_short() && direct_quick<Scope>(buf, comm, words.wish(), direct_wish(), nullptr) == direct_now::over)
		return GMPI_SUCCESS;
	if (gmpi_direct_of(buf, comm, dest))
		return direct_message<Scope, false>(buf, words, nullptr, line);
	return gmpi_message<Scope, true>(buf, line, GMPI_CALL_SEND, gmpi_nothing(), out.data, dest, tag, comm);
}
GMPI_SCOPED GMPI_Recv(gmpi_buf_t *buf, void *at, int count, GMPI_Datatype type, int source, int tag, GMPI_Comm comm,
		      GMPI_Status *status, GMPI_LINE)
{
	using namespace ggas_impl;
	gmpi_typed in(at, count, type, true);
	direct_words words = { in.data, source, tag };
	if (words.is_short() && direct_quick<Scope>(buf, comm, direct_wish(), words.wish(), status) == direct_now::over)
		return GMPI_SUCCESS;
	if (gmpi_direct_of(buf, comm, source))
		return direct_message<Scope, true>(buf, words, status, line);
	gmpi_one_status<gmpi_team<Scope>> told = { status };
	return gmpi_message<Scope, true>(buf, line, GMPI_CALL_RECV, told, in.data, source, tag, comm);
}
/* Sends whose receive has been posted, as the program says; they are sends as any. */
GMPI_SCOPED GMPI_Rsend(gmpi_buf_t *buf, const void *at, int count, GMPI_Datatype type, int dest, int tag, GMPI_Comm comm, GMPI_LINE)
{
	return GMPI_Send<Scope>(buf, at, count, type, dest, tag, comm, line);
}
GMPI_SCOPED GMPI_Irsend(gmpi_buf_t *buf, const void *at, int count, GMPI_Datatype type, int dest, int tag, GMPI_Comm comm,
			GMPI_Request *request, GMPI_LINE)
{
	return GMPI_Isend<Scope>(buf, at, count, type, dest, tag, comm, request, line);
}
/* The buffers do not overlap. */
GMPI_SCOPED GMPI_Sendrecv(gmpi_buf_t *buf, const void *from, int count, GMPI_Datatype type, int dest, int tag, void *to,
			  int to_count, GMPI_Datatype to_type, int source, int to_tag, GMPI_Comm comm, GMPI_Status *status,
			  GMPI_LINE)
{
	ggas_impl::gmpi_typed out(from, count, type, false), in(to, to_count, to_type, true);
	return ggas_impl::gmpi_exchange<Scope>(buf, { out.data, dest, tag }, { in.data, source, to_tag }, comm, status, line);
}
GMPI_SCOPED GMPI_Probe(gmpi_buf_t *buf, int source, int tag, GMPI_Comm comm, GMPI_Status *status, GMPI_LINE)
{
	using namespace ggas_impl;
	if (gmpi_direct_of(buf, comm, source))
		return GMPI_ERR_CALL;
	gmpi_one_status<gmpi_team<Scope>> told = { status };
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_PROBE, told, gmpi_int(source), gmpi_int(tag), comm);
}
GMPI_SCOPED GMPI_Iprobe(gmpi_buf_t *buf, int source, int tag, GMPI_Comm comm, int *flag, GMPI_Status *status, GMPI_LINE)
{
	using namespace ggas_impl;
	*flag = 0;
	if (gmpi_direct_of(buf, comm, source))
		return GMPI_ERR_CALL;
	gmpi_tested<gmpi_team<Scope>> tested = { nullptr, status };
	int both = gmpi_call<Scope, true>(buf, line, GMPI_CALL_IPROBE, tested, gmpi_int(source), gmpi_int(tag), comm);
	return gmpi_flagged<Scope>(both, flag);
}

/*
 * Types of elements that do not lie together, for messages. A type is a value of the thread that makes it, and takes no memory and no call of the host: each
 * thread of a block may make its own, or one makes it where all see it. Freed is the variable alone: messages under way, and types made of
 * it, stay. What a type is made of may be such a type, as long as its elements have two strides at most, as those of a box of three dimensions, and what a call names
 * has two at most (GMPI_ERR_TYPE). It has fewer than 2 GiB, and an extent of at most 2^47 bytes (GMPI_ERR_ARG). GMPI_ERR_COUNT: a count below zero;
 * GMPI_ERR_ARG: another argument; GMPI_ERR_TYPE: one that is made of none, or used and not committed, or received into with elements that
 * overlap. Collectives and windows take predefined types only (GMPI_ERR_TYPE).
 */
GGAS_FN int GMPI_Type_contiguous(int count, GMPI_Datatype type, GMPI_Datatype *made)
{
	return ggas_impl::gmpi_make_vector(count, 1, 1, type, made);
}
/* `count` blocks of `length` elements, each `stride` elements behind the one before. */
GGAS_FN int GMPI_Type_vector(int count, int length, int stride, GMPI_Datatype type, GMPI_Datatype *made)
{
	return ggas_impl::gmpi_make_vector(count, length, stride, type, made);
}
/* A part of an array: of each dimension `parts` elements of `sizes` from `starts` on. `order`: GMPI_ORDER_C or GMPI_ORDER_FORTRAN. */
GGAS_FN int GMPI_Type_create_subarray(int dimensions, const int *sizes, const int *parts, const int *starts, int order, GMPI_Datatype type,
				      GMPI_Datatype *made)
{
	return ggas_impl::gmpi_make_subarray(dimensions, sizes, parts, starts, order, type, made);
}
GGAS_FN int GMPI_Type_commit(GMPI_Datatype *type)
{
	if (!type || !ggas_impl::gmpi_as_made(*type).state)
		return type ? GMPI_ERR_TYPE : GMPI_ERR_ARG;
	if (type->state)
		type->state |= ggas_impl::gmpi_type_is_committed | (ggas_impl::gmpi_overlaps(type->shape) ? ggas_impl::gmpi_type_overlaps : 0);
	return GMPI_SUCCESS;
}
/* Predefined ones are not freed (GMPI_ERR_TYPE). */
GGAS_FN int GMPI_Type_free(GMPI_Datatype *type)
{
	if (!type || !type->state)
		return type ? GMPI_ERR_TYPE : GMPI_ERR_ARG;
	*type = GMPI_DATATYPE_NULL;
	return GMPI_SUCCESS;
}
/* Bytes of one. GMPI_ERR_TYPE: there is no such type. */
GGAS_FN int GMPI_Type_size(GMPI_Datatype type, int *size)
{
	GMPI_Datatype made = ggas_impl::gmpi_as_made(type);
	*size = static_cast<int>(ggas_impl::shape_bytes(made.shape));
	return made.state ? GMPI_SUCCESS : GMPI_ERR_TYPE;
}
/* Bytes from the first to behind the last of one, and where it begins: the negative of that is a number of all bits. */
GGAS_FN int GMPI_Type_get_extent(GMPI_Datatype type, GMPI_Aint *lower, GMPI_Aint *extent)
{
	GMPI_Datatype made = ggas_impl::gmpi_as_made(type);
	*lower = static_cast<GMPI_Aint>(made.lower);
	*extent = static_cast<GMPI_Aint>(made.extent);
	return made.state ? GMPI_SUCCESS : GMPI_ERR_TYPE;
}

/* Seconds since a time in the past, by the GPU's clock for nanoseconds (the executor's host has its own): of one processor, not across. */
GGAS_FN double GMPI_Wtime() { return 1e-9 * static_cast<double>(ggas_time_ns()); }

/* What a status says, without the daemon. GMPI_ERR_ARG: the bytes are no whole number of them. */
GGAS_FN int GMPI_Get_count(const GMPI_Status *status, GMPI_Datatype type, int *count)
{
	GMPI_Datatype made = ggas_impl::gmpi_as_made(type);
	uint64_t size = ggas_impl::shape_bytes(made.shape);
	*count = size ? static_cast<int>(status->bytes / size) : 0;
	return !made.state ? GMPI_ERR_TYPE : size && status->bytes % size ? GMPI_ERR_ARG : GMPI_SUCCESS;
}

#include "gmpi_collectives.cuh"

/* Windows, which the host made. A put's source and a get's data are free or there after a flush or fence; displacements are bytes. A put or get
 * that was refused is told by this block's next flush or fence of that window, which does its work all the same. */
GMPI_SCOPED GMPI_Put(gmpi_buf_t *buf, const void *at, int count, GMPI_Datatype type, int rank, GMPI_Aint displacement,
		     int to_count, GMPI_Datatype to_type, GMPI_Win win, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, false>(buf, line, GMPI_CALL_PUT, gmpi_nothing(), gmpi_address(at), gmpi_int(count),
				       gmpi_int(gmpi_predefined(type)), gmpi_int(rank), displacement, gmpi_int(to_count), gmpi_int(gmpi_predefined(to_type)),
				       win);
}
GMPI_SCOPED GMPI_Get(gmpi_buf_t *buf, void *at, int count, GMPI_Datatype type, int rank, GMPI_Aint displacement,
		     int from_count, GMPI_Datatype from_type, GMPI_Win win, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, false>(buf, line, GMPI_CALL_GET, gmpi_nothing(), gmpi_address(at), gmpi_int(count),
				       gmpi_int(gmpi_predefined(type)), gmpi_int(rank), displacement, gmpi_int(from_count),
				       gmpi_int(gmpi_predefined(from_type)), win);
}
GMPI_SCOPED GMPI_Win_flush(gmpi_buf_t *buf, int rank, GMPI_Win win, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_WIN_FLUSH, gmpi_nothing(), gmpi_int(rank), win);
}
GMPI_SCOPED GMPI_Win_flush_all(gmpi_buf_t *buf, GMPI_Win win, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_WIN_FLUSH, gmpi_nothing(), uint64_t(GMPI_ALL_RANKS), win);
}
/* A flush of all and a barrier of the window's members. */
GMPI_SCOPED GMPI_Win_fence(gmpi_buf_t *buf, int assertion, GMPI_Win win, GMPI_LINE)
{
	using namespace ggas_impl;
	return gmpi_call<Scope, true>(buf, line, GMPI_CALL_WIN_FENCE, gmpi_nothing(), gmpi_int(assertion), win);
}

/* Of GMPI_COMM_WORLD without the daemon. */
GMPI_SCOPED GMPI_Comm_rank(gmpi_buf_t *buf, GMPI_Comm comm, int *rank, GMPI_LINE)
{
	return ggas_impl::gmpi_place<Scope, true>(buf, comm, rank, line);
}
GMPI_SCOPED GMPI_Comm_size(gmpi_buf_t *buf, GMPI_Comm comm, int *size, GMPI_LINE)
{
	return ggas_impl::gmpi_place<Scope, false>(buf, comm, size, line);
}

/* Sends `count` elements to the daemon, which reads and answers them: what a call costs by its arguments. At most 30. */
GMPI_SCOPED GMPI_Echo(gmpi_buf_t *buf, uint32_t count, GMPI_LINE)
{
	using namespace ggas_impl;
	using team = gmpi_team<Scope>;
	if (gmpi_stands_by(buf))
		return GMPI_SUCCESS;
	gmpi_port *port = gmpi_port_of(buf);
	if (!port)
		return gmpi_no_port(buf, GMPI_CALL_ECHO, line);
	team::all::meet();
	int error = count <= GMPI_ELEMENTS - 2 ? GMPI_SUCCESS : GMPI_ERR_COUNT;
	if (team::writes() && !error) {
		auto element = [=](uint32_t i) { return uint64_t(i == 0 ? uint32_t(GMPI_CALL_ECHO) : i == 1 ? count : i); };
		gmpi_result result = gmpi_send<team>(buf, port, 2 + count, true, line, element);
		gmpi_done<team>(port, result);
		error = result.error;
	}
	return team::all::agree(error);
}

#undef GMPI_SCOPED
#undef GMPI_LINE

#endif /* GGAS_GMPI_CUH */
